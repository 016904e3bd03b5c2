//! The thread that feeds the guard with the load's latencies, and makes the runtime follow the
//! guard.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ebb_scheduler::runtime::Runtime;

use crate::governor::Governor;
use crate::guard::ObservedWindow;

/// The time between two polls of a source for finished windows of latencies: well below the usual
/// length of a window, 100 ms.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// A source of the load's latencies.
pub trait LatencySource: Send {
    /// Returns the windows that have ended since the last call, in order.
    fn ended(&mut self) -> Vec<ObservedWindow>;
}

/// A thread that passes the measured latencies of a load, window by window, to the guard of a
/// governor, which limits analytics to keep the latencies within their objective. Dropping this
/// value ends the thread. When the last watch of a governor is dropped, the guard is reset and
/// allows everything.
#[derive(Debug)]
pub struct GuardWatch {
    /// The thread ends when this sender is dropped.
    go_on: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The registration of a source of latencies at the governor. It begins with the source's first
/// window of measurements: a source without windows must not keep the limits on analytics that
/// another source's windows caused. When the last registration is dropped, also in a panic of its
/// source, the governor's latency guard is reset and lifts its limits.
struct Registration {
    governor: Arc<Governor>,
    runtime: Arc<Runtime>,
    has_begun: bool,
}

impl Registration {
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

impl Drop for Registration {
    fn drop(&mut self) {
        if self.has_begun && self.governor.end_watch() {
            self.runtime.replan();
        }
    }
}

impl GuardWatch {
    /// Starts a thread that regularly fetches the ended windows of measured latencies from `source`.
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    pub fn start(
        governor: Arc<Governor>,
        runtime: Arc<Runtime>,
        mut source: impl LatencySource + 'static,
    ) -> io::Result<Self> {
        let (go_on, stopped) = mpsc::channel::<()>();
        let mut registration = Registration {
            governor,
            runtime,
            has_begun: false,
        };
        let body = move || {
            while stopped.recv_timeout(POLL_EVERY) == Err(RecvTimeoutError::Timeout) {
                registration.take_all(source.ended());
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
            // The thread has no result, and its panic was already printed.
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

    /// A source of windows whose latencies miss the objective, one per poll. It panics after
    /// `polls_max` polls.
    struct Bad {
        polls: Arc<Mutex<u32>>,
        polls_max: u32,
    }

    impl LatencySource for Bad {
        fn ended(&mut self) -> Vec<ObservedWindow> {
            let mut polls = self.polls.lock().unwrap();
            assert!(*polls < self.polls_max, "the source of this test panics");
            *polls += 1;
            let window = LatencyWindow {
                t_s: 0.1,
                length_s: 0.1,
                requests: 1000,
                latency_us: 1e6,
            };
            vec![window.into()]
        }
    }

    /// A source without measurements, like a service that does not record latencies. Counts how
    /// often it is polled.
    struct Idle(Arc<Mutex<u32>>);

    impl LatencySource for Idle {
        fn ended(&mut self) -> Vec<ObservedWindow> {
            *self.0.lock().unwrap() += 1;
            Vec::new()
        }
    }

    fn bad(polls: &Arc<Mutex<u32>>, polls_max: u32) -> Bad {
        Bad {
            polls: Arc::clone(polls),
            polls_max,
        }
    }

    /// Returns a governor with an objective, and a runtime whose control cycle, an hour, is longer
    /// than any test.
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
    fn the_runtime_follows_the_guard_within_a_long_cycle() {
        let spills = tempfile::tempdir().unwrap();
        let (governor, runtime) = colocated(&spills);
        let polls = Arc::new(Mutex::new(0));
        let source = bad(&polls, u32::MAX);
        let watch = GuardWatch::start(governor.clone(), runtime.clone(), source).unwrap();
        wait::until("a plan without analytics", || {
            governor.latest().is_some_and(|cycle| cycle.allowed == 0.0)
                && runtime.status().capacity_hundredths == 0
        });
        drop(watch);
        let polls = *polls.lock().unwrap();
        assert!(polls >= 2 && governor.guarded().len() == polls as usize);
    }

    /// Once, when the watch of a guard was dropped after the guard had stopped the jobs, they never
    /// ran again.
    #[test]
    fn dropping_the_last_watch_releases_the_guard() {
        let spills = tempfile::tempdir().unwrap();
        let (governor, runtime) = colocated(&spills);
        let polls = Arc::new(Mutex::new(0));
        let watch = |polls_max| {
            let source = bad(&polls, polls_max);
            GuardWatch::start(governor.clone(), runtime.clone(), source).unwrap()
        };
        let allowed = || governor.latest().map(|cycle| cycle.allowed);
        let first = watch(u32::MAX);
        wait::until("the guard to stop analytics", || allowed() == Some(0.0));
        let before = *polls.lock().unwrap();
        let second = watch(u32::MAX);
        let idle = Idle(Arc::default());
        let idle_polls = idle.0.clone();
        let _idle = GuardWatch::start(governor.clone(), runtime.clone(), idle).unwrap();
        wait::until("both sources to be polled", || {
            *polls.lock().unwrap() > before + 20 && *idle_polls.lock().unwrap() > 1
        });
        drop(first);
        runtime.replan();
        assert_eq!(
            governor.guarded().last().map(|last| last.allowed),
            Some(0.0)
        );
        drop(second);
        wait::until("analytics to be allowed again", || allowed() == Some(1.0));

        // The same when the source panics.
        let polls_max = *polls.lock().unwrap() + 2;
        let _panics = watch(polls_max);
        wait::until("analytics to be allowed again", || {
            let taken = governor.guarded().len() as u32 == polls_max;
            taken && allowed() == Some(1.0)
        });
    }
}
