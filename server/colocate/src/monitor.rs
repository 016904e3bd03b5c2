//! Measures the load: CPU and disk use of the process's threads by class, the CPU use of everything
//! else on the machine, and the served requests.

use std::fmt;
use std::io;
use std::time::Instant;

use ebb_scheduler::runtime::{leased_use, processes_cpu_s};
use ebb_threads::{ThreadUse, process_cpu};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;

use crate::idle_times::IdleTimes;
use crate::threads::Threads;

/// The load, and the other use of the machine, averaged between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct MeasuredLoad {
    /// The time between the samples, in seconds.
    pub length_s: f64,
    /// Cores used by all threads of the process except for those that run analytics tasks or work
    /// under a lease.
    pub transactional_cores: f64,
    /// The mean number of threads counted in `transactional_cores` that waited for a busy core.
    pub transactional_waiting: f64,
    /// The bytes per second that threads counted in `transactional_cores` read from the disk and
    /// wrote to it.
    pub transactional_disk_bytes_per_s: f64,
    /// Cores used by threads that run analytics tasks or work under a lease, and by processes that
    /// run tasks of this process.
    pub analytics_cores: f64,
    /// Cores used by other processes, and by the host if the machine is virtual. The kernel counts
    /// idle time in ticks of 10 ms, so over a short time this is off by some hundredths in either
    /// direction, and may be negative.
    pub others_cores: f64,
    /// The served requests, if they are counted.
    pub requests: Option<RequestRates>,
}

/// The rates and latencies of the requests that were served over a short time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct RequestRates {
    /// Requests per second. In a store, these are reads, commits and scans.
    pub requests_per_s: f64,
    /// The bytes of keys and values in requests, per second; 0 if they are not counted.
    pub bytes_per_s: f64,
    /// The median latency of requests, in microseconds, as measured by the [`RequestSource`]; 0
    /// without requests.
    pub p50_us: f64,
    /// The latency that 99% of requests did not exceed, in microseconds; 0 without requests.
    pub p99_us: f64,
    /// The latency that 99.9% of requests did not exceed, in microseconds; 0 without requests.
    pub p999_us: f64,
}

/// A counter of the served requests.
pub trait RequestSource: fmt::Debug + Send {
    /// Returns the rates and latencies of the requests that were served since the last call.
    fn take(&mut self) -> RequestRates;
}

/// Measures, between two calls, the load and all other CPU use.
#[derive(Debug)]
pub struct LoadMonitor {
    threads: Threads,
    process_s: f64,
    /// The CPU time of processes that run tasks for this one, up to the last sample, in seconds.
    tasks_s: f64,
    /// The CPU and disk use, up to the last sample, of the service's own threads while they did work that
    /// counts as analytics, under a lease.
    leased: ThreadUse,
    machine: Machine,
    idle: IdleTimes,
    /// The source of served requests, if there is one.
    requests: Option<Box<dyn RequestSource>>,
    measured: Instant,
}

impl LoadMonitor {
    /// Starts measuring.
    ///
    /// # Errors
    /// If the kernel does not report CPU times under `/proc`.
    pub fn start() -> io::Result<Self> {
        let idle = IdleTimes::read()?;
        Ok(Self {
            threads: Threads::find()?,
            process_s: process_cpu().as_secs_f64(),
            tasks_s: processes_cpu_s(),
            leased: leased_use(),
            machine: Machine::detect().in_rows(&idle),
            idle,
            requests: None,
            measured: Instant::now(),
        })
    }

    /// Adds the requests of `source` to the measurements.
    #[must_use]
    pub fn with_requests(mut self, source: Box<dyn RequestSource>) -> Self {
        self.requests = Some(source);
        self
    }

    /// Returns the load, and the other CPU use of the machine, since the last call.
    ///
    /// If a thread ends between two calls, the result lacks its use since the earlier call. This is
    /// little, because the store's threads, and those of a server's connections, live longer than
    /// the time between two calls.
    ///
    /// # Errors
    /// See [`LoadMonitor::start`].
    pub fn sample(&mut self) -> io::Result<MeasuredLoad> {
        let threads = self.threads.sample()?;
        let (process_s, tasks_s) = (process_cpu().as_secs_f64(), processes_cpu_s());
        let idle = IdleTimes::read()?;
        let elapsed = std::mem::replace(&mut self.measured, Instant::now()).elapsed();
        let length_s = elapsed.as_secs_f64().max(1e-9);
        let used = CpuUse {
            idle_s: self.machine.idle_s(&self.idle, &idle),
            process_s: process_s - std::mem::replace(&mut self.process_s, process_s),
            tasks_s: tasks_s - std::mem::replace(&mut self.tasks_s, tasks_s),
        };
        self.idle = idle;
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

/// The use of the machine's cores between two samples: the CPU seconds in which they were idle, or ran this
/// process and its tasks. Other processes and the host used the rest.
#[derive(Debug, Clone, Copy)]
struct CpuUse {
    idle_s: f64,
    /// CPU time used by the threads of this process.
    process_s: f64,
    /// CPU time used by the processes that run tasks for this one.
    tasks_s: f64,
}

impl CpuUse {
    /// Returns the cores that other processes and the host used: `cores`, less those that were idle
    /// and those that this process and its tasks used, on average over `length_s` seconds.
    fn others_cores(self, cores: f64, length_s: f64) -> f64 {
        cores - (self.idle_s + self.process_s + self.tasks_s) / length_s
    }
}

/// The cores that this process may run on.
#[derive(Debug)]
struct Machine {
    /// The numbers of these cores in `/proc/stat`, which may have gaps; `None` if the rows of all
    /// cores there count.
    allowed: Option<Vec<usize>>,
    cores: f64,
}

/// Returns the number of cores that this process may run on. Unlike
/// [`std::thread::available_parallelism`] it ignores the limits of cgroups: `others_cores` is
/// measured over all of these cores.
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

    /// Returns these cores after a check of `idle`, the rows of `/proc/stat`. The kernel has a row
    /// for each core that a process may run on. If a row of one of these cores is missing,
    /// something other than the kernel wrote the rows: in a container, lxcfs numbers the rows of
    /// the container's cores from 0. All rows count then.
    fn in_rows(mut self, idle: &IdleTimes) -> Self {
        let has_rows = |allowed: &Vec<usize>| allowed.iter().all(|core| idle.has(*core));
        self.allowed = self.allowed.filter(has_rows);
        self
    }

    /// Returns the sum of the times for which the allowed cores were idle from `before` to `now`, in
    /// seconds.
    fn idle_s(&self, before: &IdleTimes, now: &IdleTimes) -> f64 {
        let is_allowed = |core| match &self.allowed {
            Some(allowed) => allowed.contains(&core),
            None => true,
        };
        now.ticks_since(before, is_allowed) / procfs::ticks_per_second() as f64
    }
}

/// Moves `leased`, the resources that threads of the service used under leases, from the load to
/// analytics. The kernel does not report the use of a thread that has ended, so `leased` may
/// contain more than `load`, and the subtraction stops at 0.
fn charge_leases([load, mut analytics]: [ThreadUse; 2], leased: ThreadUse) -> [ThreadUse; 2] {
    analytics += leased;
    [load - leased, analytics]
}

#[cfg(test)]
mod tests {
    use ebb_test_support::wait;

    use super::*;
    use crate::busy_thread::BusyThread;

    #[test]
    fn the_use_of_the_load_is_measured_and_finite() {
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
    fn cpu_time_under_leases_counts_for_analytics_and_not_for_the_load() {
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
    fn cpu_time_of_task_processes_does_not_count_for_others() {
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

    /// Once, the rows of `/proc/stat` were identified by position, although an offline CPU has no
    /// row. Each row behind the gap was taken for that of a CPU with a lower number. The last core
    /// of this process then had no row, and counted as used by others.
    #[test]
    fn only_the_cores_of_this_process_stand_idle_whatever_their_numbers() {
        let ticks_per_second = procfs::ticks_per_second();
        let stat = |seconds: u64| {
            // The CPUs 1, 3 and 4 are offline.
            let mut text = "cpu  0 0 0 1110 222 0 0 0 0 0\n".to_string();
            for (cpu, part) in [(0, 1), (2, 10), (5, 100), (6, 1000)] {
                let idle = part * seconds * ticks_per_second;
                text += &format!("cpu{cpu} 7 0 0 {idle} {idle} 0 0 0 0 0\n");
            }
            text += "intr 5 6\nctxt 1\nbtime 1\nprocesses 1\n";
            IdleTimes::of(text.as_bytes()).unwrap()
        };
        let idle_s = |allowed| {
            let machine = Machine {
                allowed,
                cores: 3.0,
            };
            machine.idle_s(&stat(3), &stat(4))
        };
        assert_eq!(idle_s(None), 2222.0);
        assert_eq!(idle_s(Some(vec![0, 2, 5])), 222.0);
        assert_eq!(idle_s(Some(vec![2, 6])), 2020.0);
        assert_eq!(idle_s(Some(vec![1, 6])), 2000.0, "one of them is offline");
        assert!(Machine::detect().cores >= 1.0);
    }

    #[test]
    fn rows_that_a_container_numbers_from_0_count_all() {
        let idle = IdleTimes::of("cpu0 1 2 3 4\ncpu1 1 2 3 4\n".as_bytes()).unwrap();
        let allowed = |cores: &[usize]| {
            let machine = Machine {
                allowed: Some(cores.to_vec()),
                cores: 2.0,
            };
            machine.in_rows(&idle).allowed
        };
        assert_eq!(allowed(&[3, 7]), None);
        assert_eq!(allowed(&[1, 2]), None);
        assert_eq!(allowed(&[1]), Some(vec![1]));
    }
}
