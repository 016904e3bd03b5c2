//! Measures the CPU time of the process's threads by class.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

/// The name that the scheduler's runtime gives to threads that run tasks.
const ANALYTICS_THREAD: &str = "ebb-task";
const THREADS: &str = "/proc/self/task";

/// Measures, from one call to the next, the CPU that transactional threads
/// used: all threads of the process but those that run analytics tasks.
#[derive(Debug)]
pub struct LoadMonitor {
    threads: HashMap<u32, Thread>,
    measured: Instant,
}

#[derive(Debug)]
struct Thread {
    analytics: bool,
    cpu_ns: u64,
}

impl LoadMonitor {
    /// Starts measuring.
    ///
    /// # Errors
    /// When the kernel does not show the threads' CPU times under `/proc`.
    pub fn start() -> io::Result<Self> {
        let mut monitor = Self {
            threads: HashMap::new(),
            measured: Instant::now(),
        };
        monitor.transactional_cores()?;
        Ok(monitor)
    }

    /// The cores that transactional threads used on average since the last call.
    ///
    /// A thread that ended since then is missed for its last interval; the
    /// store's threads and a server's connections live longer than that.
    ///
    /// # Errors
    /// As [`LoadMonitor::start`].
    pub fn transactional_cores(&mut self) -> io::Result<f64> {
        let mut threads = HashMap::with_capacity(self.threads.len());
        let mut used_ns = 0;
        for entry in fs::read_dir(THREADS)? {
            let entry = entry?;
            let Some(id) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let before = self.threads.get(&id);
            // A thread may end between the listing and the reading.
            let Ok(cpu_ns) = cpu_ns(&entry.path()) else {
                continue;
            };
            let analytics = match before {
                Some(thread) => thread.analytics,
                None => fs::read_to_string(entry.path().join("comm"))
                    .is_ok_and(|name| name.trim() == ANALYTICS_THREAD),
            };
            if !analytics {
                used_ns += cpu_ns.saturating_sub(before.map_or(0, |thread| thread.cpu_ns));
            }
            threads.insert(id, Thread { analytics, cpu_ns });
        }
        self.threads = threads;
        let elapsed_ns = std::mem::replace(&mut self.measured, Instant::now())
            .elapsed()
            .as_nanos()
            .max(1);
        Ok(used_ns as f64 / elapsed_ns as f64)
    }
}

/// The CPU time of a thread: the first number of its schedstat, in nanoseconds.
fn cpu_ns(thread: &Path) -> io::Result<u64> {
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
    fn a_busy_thread_counts_unless_it_runs_analytics() {
        let used = |name: &str| {
            let mut cores = 0.0;
            burn_beside(name, || {
                let mut monitor = LoadMonitor::start().unwrap();
                thread::park_timeout(Duration::from_millis(200));
                cores = monitor.transactional_cores().unwrap();
            });
            cores
        };
        // Other tests may run beside this one: only the difference says anything,
        // and only roughly.
        let (load, analytics) = (used("ebb-load"), used(ANALYTICS_THREAD));
        assert!(load > 0.05, "a busy thread was not seen: {load} cores");
        assert!(load.is_finite() && analytics.is_finite());
        let mut monitor = LoadMonitor::start().unwrap();
        burn_beside(ANALYTICS_THREAD, || {
            thread::park_timeout(Duration::from_millis(50));
            monitor.transactional_cores().unwrap();
            let seen = monitor
                .threads
                .values()
                .filter(|thread| thread.analytics)
                .count();
            assert!(seen >= 1, "the analytics thread was not recognised");
        });
    }
}
