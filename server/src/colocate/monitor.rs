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
    /// The CPU time of each thread at the last call.
    cpu_ns: HashMap<u32, u64>,
    measured: Instant,
}

impl LoadMonitor {
    /// Starts measuring.
    ///
    /// # Errors
    /// When the kernel does not show the threads' CPU times under `/proc`.
    pub fn start() -> io::Result<Self> {
        let mut monitor = Self {
            cpu_ns: HashMap::new(),
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
        let mut cpu_ns = HashMap::with_capacity(self.cpu_ns.len());
        let mut used_ns = 0;
        for entry in fs::read_dir(THREADS)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A thread may end between the listing and the reading.
            let Ok(now_ns) = read_cpu_ns(&entry.path()) else {
                continue;
            };
            // Asked every time: a thread gets its name a moment after it
            // starts, and until then has that of the thread that started it.
            if !runs_analytics(&entry.path()) {
                used_ns += now_ns.saturating_sub(self.cpu_ns.get(&id).copied().unwrap_or(0));
            }
            cpu_ns.insert(id, now_ns);
        }
        self.cpu_ns = cpu_ns;
        let elapsed = std::mem::replace(&mut self.measured, Instant::now()).elapsed();
        Ok(used_ns as f64 / elapsed.as_nanos().max(1) as f64)
    }
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
    fn a_busy_thread_counts_unless_it_runs_analytics() {
        // Other tests run beside this one and count too, so what the threads of
        // one name used is looked up by name.
        for (name, counts) in [("ebb-load", true), (ANALYTICS_THREAD, false)] {
            burn_beside(name, || {
                let mut monitor = LoadMonitor::start().unwrap();
                thread::park_timeout(Duration::from_millis(200));
                let cores = monitor.transactional_cores().unwrap();
                assert!(cores.is_finite());
                assert!(
                    cores > 0.02 || !counts,
                    "a busy thread was not seen: {cores} cores"
                );
                let named = |id: &u32| {
                    let thread = Path::new(THREADS).join(id.to_string());
                    (
                        fs::read_to_string(thread.join("comm")),
                        runs_analytics(&thread),
                    )
                };
                let found = monitor
                    .cpu_ns
                    .keys()
                    .map(named)
                    .find_map(|(comm, analytics)| {
                        comm.is_ok_and(|comm| comm.trim() == name)
                            .then_some(analytics)
                    });
                assert_eq!(found, Some(!counts), "{name}");
            });
        }
    }
}
