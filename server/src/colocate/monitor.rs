//! Measures the load: CPU and disk of the process's threads by class, everything else
//! on the machine, and the requests that the store served.

use std::io;
use std::time::Instant;

use ebb_scheduler::runtime::processes_cpu_s;
use ebb_storage::{Db, Meter, Metered};
use procfs::{CurrentSI, KernelStats};
use rustix::thread::{CpuSet, sched_getaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::threads::Threads;

/// The load, and who else used the machine, on average between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct MeasuredLoad {
    /// The time between them, in seconds.
    pub length_s: f64,
    /// Cores used by all threads of the process but those that run analytics tasks.
    pub transactional_cores: f64,
    /// How many of these threads waited for a core that something else had.
    pub transactional_waiting: f64,
    /// What these threads read from the disk and wrote to it, in bytes per second.
    pub transactional_disk_bytes_per_s: f64,
    /// Cores used by threads that run analytics tasks, and by processes that run them
    /// for this one.
    pub analytics_cores: f64,
    /// Cores used by other processes, and by the host where the machine is a virtual
    /// one. The kernel counts idle time in ticks of 10 ms, so over a short time this
    /// is off by some hundredths, to either side, and may be below 0.
    pub others_cores: f64,
    /// What the store served, if it is looked at.
    pub requests: Option<RequestRates>,
}

/// The requests that a store served over a short time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct RequestRates {
    /// Reads, commits and scans, per second.
    pub requests_per_s: f64,
    /// Bytes of their keys and values, per second.
    pub bytes_per_s: f64,
    /// Their median latency within the store, in microseconds; 0 without any.
    pub p50_us: f64,
    /// 99 in 100 took at most this.
    pub p99_us: f64,
    /// 999 in 1000 took at most this.
    pub p999_us: f64,
}

impl From<&Metered> for RequestRates {
    fn from(metered: &Metered) -> Self {
        let requests = metered.all();
        let length_s = metered.length_s.max(1e-9);
        let quantile_us = |quantile| requests.quantile_us(quantile).unwrap_or(0.0);
        Self {
            requests_per_s: requests.count() as f64 / length_s,
            bytes_per_s: requests.bytes() as f64 / length_s,
            p50_us: quantile_us(0.5),
            p99_us: quantile_us(0.99),
            p999_us: quantile_us(0.999),
        }
    }
}

/// Measures, from one call to the next, what the load was and who used the CPU.
#[derive(Debug)]
pub struct LoadMonitor {
    threads: Threads,
    process_s: f64,
    /// Of processes that run tasks for this one.
    tasks_s: f64,
    machine: Machine,
    idle_s: f64,
    /// Of the store, if it is looked at.
    meter: Option<Meter>,
    measured: Instant,
}

impl LoadMonitor {
    /// Starts measuring.
    ///
    /// # Errors
    /// When the kernel does not show CPU times under `/proc`.
    pub fn start() -> io::Result<Self> {
        let machine = Machine::detect();
        Ok(Self {
            threads: Threads::find()?,
            process_s: process_cpu_s(),
            tasks_s: processes_cpu_s(),
            idle_s: machine.idle_s()?,
            machine,
            meter: None,
            measured: Instant::now(),
        })
    }

    /// Measures the requests of a store too.
    #[must_use]
    pub fn of_store(mut self, db: &Db) -> Self {
        self.meter = Some(db.meter());
        self
    }

    /// What there was since the last call.
    ///
    /// A thread that ended since then is missed for its last interval; the
    /// store's threads and a server's connections live longer than that.
    ///
    /// # Errors
    /// As [`LoadMonitor::start`].
    pub fn look(&mut self) -> io::Result<MeasuredLoad> {
        let [transactional, analytics] = self.threads.look()?;
        let (process_s, tasks_s) = (process_cpu_s(), processes_cpu_s());
        let idle_s = self.machine.idle_s()?;
        let elapsed = std::mem::replace(&mut self.measured, Instant::now()).elapsed();
        let length_s = elapsed.as_secs_f64().max(1e-9);
        let process_cores =
            (process_s - std::mem::replace(&mut self.process_s, process_s)) / length_s;
        let tasks_cores = (tasks_s - std::mem::replace(&mut self.tasks_s, tasks_s)) / length_s;
        let idle_cores = (idle_s - std::mem::replace(&mut self.idle_s, idle_s)) / length_s;
        let seconds = |ns: u64| ns as f64 / 1e9;
        Ok(MeasuredLoad {
            length_s,
            transactional_cores: seconds(transactional.cpu_ns) / length_s,
            transactional_waiting: seconds(transactional.waited_ns) / length_s,
            transactional_disk_bytes_per_s: transactional.disk_bytes as f64 / length_s,
            analytics_cores: seconds(analytics.cpu_ns) / length_s + tasks_cores,
            others_cores: self.machine.cores() - idle_cores - process_cores - tasks_cores,
            requests: (self.meter.as_mut()).map(|meter| RequestRates::from(&meter.take())),
        })
    }
}

/// The cores that this process may run on.
#[derive(Debug)]
struct Machine {
    /// `None`: the system does not say, so all there are.
    allowed: Option<Vec<usize>>,
    cores: f64,
}

impl Machine {
    fn detect() -> Self {
        let allowed = sched_getaffinity(None).ok().map(|set| {
            (0..CpuSet::MAX_CPU)
                .filter(|&core| set.is_set(core))
                .collect::<Vec<_>>()
        });
        let all = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Self {
            cores: allowed.as_ref().map_or_else(all, Vec::len) as f64,
            allowed,
        }
    }

    fn cores(&self) -> f64 {
        self.cores
    }

    /// The time that these cores had nothing to run, in seconds since boot.
    fn idle_s(&self) -> io::Result<f64> {
        let stats = KernelStats::current().map_err(io::Error::other)?;
        let of_these = |core: &usize| match &self.allowed {
            Some(allowed) => allowed.contains(core),
            None => true,
        };
        let ticks: u64 = (0..)
            .zip(&stats.cpu_time)
            .filter(|(core, _)| of_these(core))
            .map(|(_, time)| time.idle + time.iowait.unwrap_or(0))
            .sum();
        Ok(ticks as f64 / procfs::ticks_per_second() as f64)
    }
}

fn process_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use ebb_storage::{Options, TableOptions};

    use super::*;

    /// Looks while a thread is busy until that was seen, and tells all that was seen.
    fn look_beside_busy_thread(monitor: &mut LoadMonitor) -> Vec<MeasuredLoad> {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let mut seen = Vec::new();
            let used_s = |seen: &[MeasuredLoad]| -> f64 {
                let used = seen
                    .iter()
                    .map(|load| load.transactional_cores * load.length_s);
                used.sum()
            };
            while used_s(&seen) < 0.05 {
                thread::yield_now();
                seen.push(monitor.look().unwrap());
            }
            stop.store(true, Ordering::Relaxed);
            seen
        })
    }

    #[test]
    fn what_the_load_used_is_seen_and_is_finite() {
        let mut monitor = LoadMonitor::start().unwrap();
        for load in look_beside_busy_thread(&mut monitor) {
            assert!(load.length_s > 0.0 && load.others_cores.is_finite());
            assert!(load.transactional_waiting >= 0.0);
            assert_eq!(load.requests, None);
        }
    }

    #[test]
    fn cores_stand_idle_for_no_longer_than_the_machine_is_up() {
        let machine = Machine::detect();
        let (cores, first) = (machine.cores(), machine.idle_s().unwrap());
        let started = Instant::now();
        assert!(cores >= 1.0);
        look_beside_busy_thread(&mut LoadMonitor::start().unwrap());
        let idle_s = machine.idle_s().unwrap() - first;
        // Ticks of rounding for each core; the kernel may also take back some
        // of the time that it counted as waiting for the disk.
        let most_s = cores * (started.elapsed().as_secs_f64() + 0.05);
        assert!((-0.1..=most_s).contains(&idle_s), "{idle_s} of {most_s}");
    }

    #[test]
    fn requests_of_the_store_are_seen_with_their_bytes_and_latencies() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let keyspace = db.keyspace("app").unwrap();
        let table = keyspace.table("t", TableOptions::default()).unwrap();
        let mut monitor = LoadMonitor::start().unwrap().of_store(&db);
        for key in 0..50_u32 {
            table.put(&key.to_be_bytes(), &[7; 96]).unwrap();
            table.get(&key.to_be_bytes()).unwrap();
        }
        let requests = monitor.look().unwrap().requests.unwrap();
        let bytes_each = requests.bytes_per_s / requests.requests_per_s;
        assert!(
            (bytes_each - (100.0 + 96.0) / 2.0).abs() < 1e-6,
            "{requests:?}"
        );
        assert!(0.0 < requests.p50_us && requests.p50_us <= requests.p99_us);
        assert_eq!(
            monitor.look().unwrap().requests,
            Some(RequestRates::default())
        );
    }
}
