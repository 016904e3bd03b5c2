//! Measures the CPU of the process's threads by class, and that of everything
//! else on the machine.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

use ebb_scheduler::runtime::processes_cpu_s;
use procfs::{CurrentSI, KernelStats};
use rustix::thread::{CpuSet, sched_getaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// The name that the scheduler's runtime gives to threads that run tasks.
const ANALYTICS_THREAD: &str = "ebb-task";
const THREADS: &str = "/proc/self/task";

/// The cores that were used on average between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct CpuUse {
    /// The time between them, in seconds.
    pub length_s: f64,
    /// By all threads of the process but those that run analytics tasks.
    pub transactional_cores: f64,
    /// By threads that run analytics tasks, and by processes that run them for this one.
    pub analytics_cores: f64,
    /// By other processes, and by the host where the machine is a virtual one.
    /// The kernel counts idle time in ticks of 10 ms, so over a short time this
    /// is off by some hundredths, to either side, and may be below 0.
    pub others_cores: f64,
}

/// A thread at the last look.
#[derive(Debug, Clone, Copy)]
struct Thread {
    cpu_ns: u64,
    runs_analytics: bool,
    /// How often its name was asked for.
    names_read: u8,
}

/// A thread's name is asked for at the first two looks: it gets it a moment after
/// it starts, and until then has that of the thread that started it.
const NAMES_READ: u8 = 2;

/// Measures, from one call to the next, who used the CPU.
#[derive(Debug)]
pub struct LoadMonitor {
    threads: HashMap<u32, Thread>,
    process_s: f64,
    /// Of processes that run tasks for this one.
    tasks_s: f64,
    machine: Machine,
    idle_s: f64,
    measured: Instant,
}

impl LoadMonitor {
    /// Starts measuring.
    ///
    /// # Errors
    /// When the kernel does not show CPU times under `/proc`.
    pub fn start() -> io::Result<Self> {
        let machine = Machine::detect();
        let mut monitor = Self {
            threads: HashMap::new(),
            process_s: process_cpu_s(),
            tasks_s: processes_cpu_s(),
            idle_s: machine.idle_s()?,
            machine,
            measured: Instant::now(),
        };
        monitor.look_at_threads()?;
        Ok(monitor)
    }

    /// Who used how much since the last call.
    ///
    /// A thread that ended since then is missed for its last interval; the
    /// store's threads and a server's connections live longer than that.
    ///
    /// # Errors
    /// As [`LoadMonitor::start`].
    pub fn look(&mut self) -> io::Result<CpuUse> {
        let [transactional_ns, analytics_ns] = self.look_at_threads()?;
        let (process_s, tasks_s) = (process_cpu_s(), processes_cpu_s());
        let idle_s = self.machine.idle_s()?;
        let elapsed = std::mem::replace(&mut self.measured, Instant::now()).elapsed();
        let length_s = elapsed.as_secs_f64().max(1e-9);
        let process_cores =
            (process_s - std::mem::replace(&mut self.process_s, process_s)) / length_s;
        let tasks_cores = (tasks_s - std::mem::replace(&mut self.tasks_s, tasks_s)) / length_s;
        let idle_cores = (idle_s - std::mem::replace(&mut self.idle_s, idle_s)) / length_s;
        Ok(CpuUse {
            length_s,
            transactional_cores: transactional_ns as f64 / 1e9 / length_s,
            analytics_cores: analytics_ns as f64 / 1e9 / length_s + tasks_cores,
            others_cores: self.machine.cores() - idle_cores - process_cores - tasks_cores,
        })
    }

    /// The CPU time of transactional and of analytics threads since the last
    /// call, in nanoseconds.
    fn look_at_threads(&mut self) -> io::Result<[u64; 2]> {
        let mut threads = HashMap::with_capacity(self.threads.len());
        let mut used_ns = [0; 2];
        for entry in fs::read_dir(THREADS)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A thread may end between the listing and the reading.
            let Ok(cpu_ns) = read_cpu_ns(&entry.path()) else {
                continue;
            };
            // One that has used less than before is another one of the same id.
            let before = self.threads.get(&id);
            let before = before.filter(|before| before.cpu_ns <= cpu_ns);
            let thread = match before {
                Some(before) if before.names_read == NAMES_READ => Thread { cpu_ns, ..*before },
                _ => Thread {
                    cpu_ns,
                    runs_analytics: runs_analytics(&entry.path()),
                    names_read: before.map_or(0, |before| before.names_read) + 1,
                },
            };
            let class = usize::from(thread.runs_analytics);
            used_ns[class] += cpu_ns - before.map_or(0, |before| before.cpu_ns);
            threads.insert(id, thread);
        }
        self.threads = threads;
        Ok(used_ns)
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

fn runs_analytics(thread: &Path) -> bool {
    fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == ANALYTICS_THREAD)
}

/// The CPU time of a thread: the first number of its schedstat, in nanoseconds.
fn read_cpu_ns(thread: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(thread.join("schedstat"))?;
    text.split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "schedstat does not begin with a number",
            )
        })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn burn_beside(name: &str, measure: impl FnOnce()) {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let burn = || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            thread::Builder::new()
                .name(name.into())
                .spawn_scoped(scope, burn)
                .unwrap();
            measure();
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_busy_thread_counts_for_its_class() {
        // Other tests run beside this one and count too, so what the threads of
        // one name used is looked up by name.
        for (name, analytics) in [("ebb-load", false), (ANALYTICS_THREAD, true)] {
            burn_beside(name, || {
                let mut monitor = LoadMonitor::start().unwrap();
                thread::park_timeout(Duration::from_millis(200));
                let used = monitor.look().unwrap();
                let seen = match analytics {
                    true => used.analytics_cores,
                    false => used.transactional_cores,
                };
                assert!(seen > 0.02, "a busy thread was not seen: {used:?}");
                assert!(used.others_cores.is_finite() && used.length_s > 0.1);
                let named = |id: &u32| {
                    let thread = Path::new(THREADS).join(id.to_string());
                    (
                        fs::read_to_string(thread.join("comm")),
                        runs_analytics(&thread),
                    )
                };
                let found = monitor.threads.keys().map(named).find_map(|(comm, of_it)| {
                    comm.is_ok_and(|comm| comm.trim() == name).then_some(of_it)
                });
                assert_eq!(found, Some(analytics), "{name}");
            });
        }
    }

    #[test]
    fn cores_stand_idle_for_no_longer_than_the_machine_is_up() {
        let machine = Machine::detect();
        let (cores, first) = (machine.cores(), machine.idle_s().unwrap());
        let started = Instant::now();
        assert!(cores >= 1.0);
        burn_beside("ebb-load", || {
            thread::park_timeout(Duration::from_millis(100))
        });
        let idle_s = machine.idle_s().unwrap() - first;
        // Ticks of rounding for each core; the kernel may also take back some
        // of the time that it counted as waiting for the disk.
        let most_s = cores * (started.elapsed().as_secs_f64() + 0.05);
        assert!((-0.1..=most_s).contains(&idle_s), "{idle_s} of {most_s}");
    }
}
