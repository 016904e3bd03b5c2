//! The thread that brings the load's latencies to the guard, and the runtime to
//! follow it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ebb_scheduler::runtime::Runtime;

use crate::governor::Governor;
use crate::guard::ObservedWindow;

/// Between two questions for windows: well below the 100 ms that these usually last.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// Where the load's latencies come from.
pub trait LatencySource: Send {
    /// The windows that have ended since the last call, in order.
    fn ended(&mut self) -> Vec<ObservedWindow>;
}

/// Brings windows to a governor's guard until it is dropped. With the last watch of a
/// governor goes what its guard took from analytics.
#[derive(Debug)]
pub struct GuardWatch {
    /// The thread ends when this is gone.
    go_on: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A governor that is watched from the first window on: a source that has nothing to give
/// does not keep what another's windows took. When it is dropped, by a panic of the source
/// too, the guard gives that back.
struct Watched {
    governor: Arc<Governor>,
    runtime: Arc<Runtime>,
    has_begun: bool,
}

impl Watched {
    fn take_all(&mut self, windows: Vec<ObservedWindow>) {
        if !windows.is_empty() && !self.has_begun {
            self.governor.begin_watch();
            self.has_begun = true;
        }
        let take = |changed, window| self.governor.take_window(window) || changed;
        if windows.into_iter().fold(false, take) {
            self.runtime.replan();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.has_begun && self.governor.end_watch() {
            self.runtime.replan();
        }
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
        let (go_on, stopped) = mpsc::channel::<()>();
        let mut watched = Watched {
            governor,
            runtime,
            has_begun: false,
        };
        let body = move || {
            while stopped.recv_timeout(POLL_EVERY) == Err(RecvTimeoutError::Timeout) {
                watched.take_all(source.ended());
            }
        };
        let thread = thread::Builder::new().name("ebb-guard".into());
        Ok(Self {
            go_on: Some(go_on),
            thread: Some(thread.spawn(body)?),
        })
    }
}

impl Drop for GuardWatch {
    fn drop(&mut self) {
        drop(self.go_on.take());
        if let Some(thread) = self.thread.take() {
            // It has no result; a panic in it was already printed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use ebb_scheduler::runtime::RuntimeOptions;
    use ebb_test_support::wait;

    use super::*;
    use crate::{Guard, LatencyWindow, LoadMonitor, Machine};

    /// Bad windows, one at each question, and at last a panic.
    struct Bad {
        asked: Arc<Mutex<u32>>,
        asked_max: u32,
    }

    impl LatencySource for Bad {
        fn ended(&mut self) -> Vec<ObservedWindow> {
            let mut asked = self.asked.lock().unwrap();
            assert!(*asked < self.asked_max, "the source of this test panics");
            *asked += 1;
            let window = LatencyWindow {
                t_s: 0.1,
                length_s: 0.1,
                requests: 1000,
                latency_us: 1e6,
            };
            vec![window.into()]
        }
    }

    /// Nothing to give, as of a service that does not record.
    struct Idle(Arc<Mutex<u32>>);

    impl LatencySource for Idle {
        fn ended(&mut self) -> Vec<ObservedWindow> {
            *self.0.lock().unwrap() += 1;
            Vec::new()
        }
    }

    fn bad(asked: &Arc<Mutex<u32>>, asked_max: u32) -> Bad {
        Bad {
            asked: Arc::clone(asked),
            asked_max,
        }
    }

    /// A governor with an objective, and a runtime whose own cycles are too long to count.
    fn colocated(spills: &tempfile::TempDir) -> (Arc<Governor>, Arc<Runtime>) {
        let guard = Guard::new("p99=1ms".parse().unwrap());
        let machine = Machine {
            cores: 2,
            reserve_cores: 0.1,
            ..Machine::default()
        };
        let monitor = LoadMonitor::start().unwrap();
        let governor = Arc::new(Governor::new(machine, monitor, Some(guard)));
        let runtime = Runtime::start(RuntimeOptions {
            capacity: governor.clone(),
            cycle_s: 3600.0,
            spill_dir: spills.path().to_path_buf(),
            ..RuntimeOptions::new(2)
        });
        (governor, Arc::new(runtime.unwrap()))
    }

    #[test]
    fn the_runtime_follows_the_guard_however_long_its_cycle() {
        let spills = tempfile::tempdir().unwrap();
        let (governor, runtime) = colocated(&spills);
        let asked = Arc::new(Mutex::new(0));
        let source = bad(&asked, u32::MAX);
        let watch = GuardWatch::start(governor.clone(), runtime.clone(), source).unwrap();
        wait::until("a plan without analytics", || {
            governor.latest().is_some_and(|cycle| cycle.allowed == 0.0)
                && runtime.status().capacity_hundredths == 0
        });
        drop(watch);
        let asked = *asked.lock().unwrap();
        assert!(asked >= 2 && governor.guarded().len() == asked as usize);
    }

    /// A guard that had stopped the jobs, and whose watch was dropped, never let them run
    /// again.
    #[test]
    fn with_the_last_watch_goes_what_the_guard_took() {
        let spills = tempfile::tempdir().unwrap();
        let (governor, runtime) = colocated(&spills);
        let asked = Arc::new(Mutex::new(0));
        let watch = |asked_max| {
            let source = bad(&asked, asked_max);
            GuardWatch::start(governor.clone(), runtime.clone(), source).unwrap()
        };
        let allowed = || governor.latest().map(|cycle| cycle.allowed);
        let first = watch(u32::MAX);
        wait::until("the guard to stop analytics", || allowed() == Some(0.0));
        let before = *asked.lock().unwrap();
        let second = watch(u32::MAX);
        let idle = Idle(Arc::default());
        let idle_asked = idle.0.clone();
        let _idle = GuardWatch::start(governor.clone(), runtime.clone(), idle).unwrap();
        wait::until("both sources to be asked", || {
            *asked.lock().unwrap() > before + 20 && *idle_asked.lock().unwrap() > 1
        });
        drop(first);
        runtime.replan();
        assert_eq!(
            governor.guarded().last().map(|last| last.allowed),
            Some(0.0)
        );
        drop(second);
        wait::until("analytics to be allowed again", || allowed() == Some(1.0));

        // As well when the source panics.
        let asked_max = *asked.lock().unwrap() + 2;
        let _panics = watch(asked_max);
        wait::until("analytics to be allowed again", || {
            let taken = governor.guarded().len() as u32 == asked_max;
            taken && allowed() == Some(1.0)
        });
    }
}
