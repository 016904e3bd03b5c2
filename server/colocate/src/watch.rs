//! The thread that brings the load's latencies to the guard, and the runtime to
//! follow it.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ebb_scheduler::runtime::Runtime;

use crate::governor::Governor;
use crate::guard::LatencyWindow;

/// Between two looks: well below the windows of 100 ms that are usual.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Where the load's latencies come from.
pub trait LatencySource: Send {
    /// The windows that have ended since the last call, in order.
    fn ended(&mut self) -> Vec<LatencyWindow>;
}

/// Brings windows to a governor's guard until it is dropped.
#[derive(Debug)]
pub struct GuardWatch {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Waits for a while; whether it was asked for.
    fn wait(&self, at_most: Duration) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(asked, at_most, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl GuardWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system refuses one.
    pub fn start(
        governor: Arc<Governor>,
        runtime: Arc<Runtime>,
        mut source: impl LatencySource + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let thread = {
            let stop = stop.clone();
            let body = move || {
                while !stop.wait(LOOK_EVERY) {
                    let windows = source.ended();
                    let take = |changed, window| governor.take_window(window) || changed;
                    if windows.into_iter().fold(false, take) {
                        runtime.replan();
                    }
                }
            };
            thread::Builder::new()
                .name("ebb-guard".into())
                .spawn(body)?
        };
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for GuardWatch {
    fn drop(&mut self) {
        let mut asked = (self.stop.asked.lock()).unwrap_or_else(PoisonError::into_inner);
        *asked = true;
        self.stop.changed.notify_all();
        drop(asked);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say; a panic in it was already printed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ebb_scheduler::availability::Availability;
    use ebb_scheduler::runtime::RuntimeOptions;

    use super::super::{Guard, LoadMonitor, Machine};
    use super::*;

    /// Bad windows, one at each look.
    struct Bad(Arc<Mutex<u32>>);

    impl LatencySource for Bad {
        fn ended(&mut self) -> Vec<LatencyWindow> {
            *self.0.lock().unwrap() += 1;
            vec![LatencyWindow {
                t_s: 0.1,
                length_s: 0.1,
                requests: 1000,
                latency_us: 1e6,
            }]
        }
    }

    #[test]
    fn the_runtime_follows_the_guard_however_long_its_cycle() {
        let spills = tempfile::tempdir().unwrap();
        let machine = Machine {
            cores: 2,
            reserve_cores: 0.0,
            disk_bytes_per_s: None,
            forecast: Arc::new(Availability::constant(100.0).unwrap()),
        };
        let guard = Guard::new("p99=1ms".parse().unwrap());
        let monitor = LoadMonitor::start().unwrap();
        let governor = Arc::new(Governor::new(machine, monitor, Some(guard)));
        let runtime = Runtime::start(RuntimeOptions {
            capacity: governor.clone(),
            cycle_s: 3600.0,
            spill_dir: spills.path().to_path_buf(),
            ..RuntimeOptions::new(2)
        });
        let runtime = Arc::new(runtime.unwrap());
        let looks = Arc::new(Mutex::new(0));
        let watch =
            GuardWatch::start(governor.clone(), runtime.clone(), Bad(looks.clone())).unwrap();
        // A test's own waiting, for the other threads.
        let started = Instant::now();
        let stopped = || {
            let cycles = governor.history();
            let last = cycles.last().map(|cycle| cycle.capacity_hundredths);
            last == Some(0) && runtime.status().capacity_hundredths == 0
        };
        while !stopped() {
            assert!(
                started.elapsed() < Duration::from_secs(10),
                "not planned anew"
            );
            thread::park_timeout(Duration::from_millis(2));
        }
        drop(watch);
        let looks = *looks.lock().unwrap();
        assert!(looks >= 2 && governor.guarded().len() == looks as usize);
    }
}
