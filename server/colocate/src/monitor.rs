//! Measures the load: CPU and disk of the process's threads by class, everything else
//! on the machine, and the requests that were served.

use std::fmt;
use std::io;
use std::time::Instant;

use ebb_scheduler::runtime::{leased_use, processes_cpu_s};
use ebb_threads::{ThreadUse, process_cpu};
use procfs::{CurrentSI, KernelStats};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;

use crate::threads::Threads;

/// The load, and who else used the machine, on average between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct MeasuredLoad {
    /// The time between them, in seconds.
    pub length_s: f64,
    /// Cores used by all threads of the process but those that run analytics tasks, or
    /// work under a lease meanwhile.
    pub transactional_cores: f64,
    /// How many of these threads waited for a core that something else had.
    pub transactional_waiting: f64,
    /// What these threads read from the disk and wrote to it, in bytes per second.
    pub transactional_disk_bytes_per_s: f64,
    /// Cores used by threads that run analytics tasks or work under a lease, and by
    /// processes that run tasks for this one.
    pub analytics_cores: f64,
    /// Cores used by other processes, and by the host where the machine is a virtual
    /// one. The kernel counts idle time in ticks of 10 ms, so over a short time this
    /// is off by some hundredths, to either side, and may be below 0.
    pub others_cores: f64,
    /// What was served, if that is counted.
    pub requests: Option<RequestRates>,
}

/// The requests that were served over a short time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct RequestRates {
    /// Reads, commits and scans, per second.
    pub requests_per_s: f64,
    /// Bytes of their keys and values, per second; 0 where nobody counts them.
    pub bytes_per_s: f64,
    /// Their median latency as who counts them sees it, in microseconds; 0 without any.
    pub p50_us: f64,
    /// 99 in 100 took at most this.
    pub p99_us: f64,
    /// 999 in 1000 took at most this.
    pub p999_us: f64,
}

/// Who counts the requests that are served.
pub trait RequestSource: fmt::Debug + Send {
    /// What was served since the last call.
    fn take(&mut self) -> RequestRates;
}

/// Measures, from one call to the next, what the load was and who used the CPU.
#[derive(Debug)]
pub struct LoadMonitor {
    threads: Threads,
    process_s: f64,
    /// Of processes that run tasks for this one.
    tasks_s: f64,
    /// Of threads while they work under leases.
    leased: ThreadUse,
    machine: Machine,
    idle_s: f64,
    /// Who counts requests, if they are counted.
    requests: Option<Box<dyn RequestSource>>,
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
            process_s: process_cpu().as_secs_f64(),
            tasks_s: processes_cpu_s(),
            leased: leased_use(),
            idle_s: machine.idle_s()?,
            machine,
            requests: None,
            measured: Instant::now(),
        })
    }

    /// Measures the requests that `source` counts too.
    #[must_use]
    pub fn with_requests(mut self, source: Box<dyn RequestSource>) -> Self {
        self.requests = Some(source);
        self
    }

    /// What there was since the last call.
    ///
    /// A thread that ended since then is missed for its last interval; the
    /// store's threads and a server's connections live longer than that.
    ///
    /// # Errors
    /// As [`LoadMonitor::start`].
    pub fn sample(&mut self) -> io::Result<MeasuredLoad> {
        let threads = self.threads.sample()?;
        let (process_s, tasks_s) = (process_cpu().as_secs_f64(), processes_cpu_s());
        let idle_s = self.machine.idle_s()?;
        let elapsed = std::mem::replace(&mut self.measured, Instant::now()).elapsed();
        let length_s = elapsed.as_secs_f64().max(1e-9);
        let used = CpuUse {
            idle_s: idle_s - std::mem::replace(&mut self.idle_s, idle_s),
            process_s: process_s - std::mem::replace(&mut self.process_s, process_s),
            tasks_s: tasks_s - std::mem::replace(&mut self.tasks_s, tasks_s),
        };
        let now = leased_use();
        let leased = now - std::mem::replace(&mut self.leased, now);
        let seconds = |ns: u64| ns as f64 / 1e9;
        let [load, analytics] = charge_leases(threads, leased);
        Ok(MeasuredLoad {
            length_s,
            transactional_cores: seconds(load.cpu_ns) / length_s,
            transactional_waiting: seconds(load.waited_ns) / length_s,
            transactional_disk_bytes_per_s: load.disk_bytes as f64 / length_s,
            analytics_cores: (seconds(analytics.cpu_ns) + used.tasks_s) / length_s,
            others_cores: used.others_cores(self.machine.cores, length_s),
            requests: (self.requests.as_mut()).map(|source| source.take()),
        })
    }
}

/// The CPU time of the machine's cores between two samples, as far as it is known, in seconds.
#[derive(Debug, Clone, Copy)]
struct CpuUse {
    idle_s: f64,
    /// Used by the threads of this process.
    process_s: f64,
    /// Used by the processes that run tasks for this one.
    tasks_s: f64,
}

impl CpuUse {
    /// Returns the cores that other processes and the host used: of `cores` for `length_s` seconds,
    /// what is left.
    fn others_cores(self, cores: f64, length_s: f64) -> f64 {
        cores - (self.idle_s + self.process_s + self.tasks_s) / length_s
    }
}

/// The cores that this process may run on.
#[derive(Debug)]
struct Machine {
    /// `None`: the system does not say, so all there are.
    allowed: Option<Vec<usize>>,
    cores: f64,
}

/// Returns how many cores this process may run on. Unlike [`std::thread::available_parallelism`] it
/// leaves limits of cgroups out: `others_cores` is measured over all of these cores.
pub fn reachable_cores() -> f64 {
    Machine::detect().cores
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

    /// The time that these cores had nothing to run, in seconds since boot.
    fn idle_s(&self) -> io::Result<f64> {
        let stats = KernelStats::current().map_err(io::Error::other)?;
        Ok(self.idle_ticks(&stats) as f64 / procfs::ticks_per_second() as f64)
    }

    fn idle_ticks(&self, stats: &KernelStats) -> u64 {
        let of_these = |core: &usize| match &self.allowed {
            Some(allowed) => allowed.contains(core),
            None => true,
        };
        (0..)
            .zip(&stats.cpu_time)
            .filter(|(core, _)| of_these(core))
            .map(|(_, time)| time.idle + time.iowait.unwrap_or(0))
            .sum()
    }
}

/// Moves what transactional threads used under leases to analytics. The load does not fall below
/// 0: the kernel shows nothing of a thread that has ended, though what it used under a lease was
/// counted.
fn charge_leases([load, mut analytics]: [ThreadUse; 2], leased: ThreadUse) -> [ThreadUse; 2] {
    analytics += leased;
    [load - leased, analytics]
}

#[cfg(test)]
mod tests {
    use ebb_test_support::wait;
    use procfs::FromBufReadSI;

    use super::*;
    use crate::busy_thread::BusyThread;

    #[test]
    fn what_the_load_used_is_seen_and_is_finite() {
        let mut monitor = LoadMonitor::start().unwrap();
        let _busy = BusyThread::start("ebb-load");
        let mut used_s = 0.0;
        wait::until("the monitor to see what a busy thread uses", || {
            let load = monitor.sample().unwrap();
            assert!(load.length_s > 0.0 && load.others_cores.is_finite());
            assert!(load.transactional_waiting >= 0.0);
            assert_eq!(load.requests, None);
            used_s += load.transactional_cores * load.length_s;
            used_s >= 0.05
        });
    }

    #[test]
    fn what_threads_use_under_leases_counts_for_analytics_and_not_for_the_load() {
        let used = |cpu_ns, disk_bytes| ThreadUse {
            cpu_ns,
            waited_ns: 0,
            disk_bytes,
        };
        let threads = [used(100, 10), used(30, 3)];
        let [load, analytics] = charge_leases(threads, used(40, 4));
        assert_eq!((load, analytics), (used(60, 6), used(70, 7)));
        let [load, _] = charge_leases(threads, used(400, 40));
        assert_eq!(
            load,
            used(0, 0),
            "a thread that ended is missing from the load"
        );
    }

    #[test]
    fn what_task_processes_use_does_not_count_for_others() {
        let used = CpuUse {
            idle_s: 1.0,
            process_s: 1.5,
            tasks_s: 3.0,
        };
        // Four cores for two seconds.
        assert_eq!(used.others_cores(4.0, 2.0), 1.25);
        let without_others = CpuUse {
            idle_s: 3.5,
            ..used
        };
        assert_eq!(without_others.others_cores(4.0, 2.0), 0.0);
    }

    #[test]
    fn only_the_cores_of_this_process_stand_idle() {
        let text = "cpu  0 0 0 1110 222 0 0 0 0 0\n\
                    cpu0 0 0 0 10 2 0 0 0 0 0\n\
                    cpu1 0 0 0 100 20 0 0 0 0 0\n\
                    cpu2 0 0 0 1000 200 0 0 0 0 0\n\
                    ctxt 1\nbtime 1\nprocesses 1\n";
        let system = procfs::current_system_info();
        let stats = KernelStats::from_buf_read(text.as_bytes(), system).unwrap();
        let idle_ticks = |allowed| {
            let machine = Machine {
                allowed,
                cores: 3.0,
            };
            machine.idle_ticks(&stats)
        };
        assert_eq!(idle_ticks(None), 1332);
        assert_eq!(idle_ticks(Some(vec![0, 2])), 1212);
        let detected = Machine::detect();
        assert!(detected.cores >= 1.0 && detected.idle_s().unwrap() >= 0.0);
    }
}
