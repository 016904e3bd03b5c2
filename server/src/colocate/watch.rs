//! The thread that brings the load's latencies to the guard, and the runtime to
//! follow it.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ebb_scheduler::runtime::Runtime;

use super::governor::Governor;
use super::guard::{LatencyWindow, Quantile};
use crate::ycsb::Timeline;

/// Between two looks: well below the windows of 100 ms that are usual.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Where the load's latencies come from.
pub trait LatencySource: Send {
    /// The windows that have ended since the last call, in order.
    fn ended(&mut self) -> Vec<LatencyWindow>;
}

/// A load that tells nothing for this long has ended: its windows are much shorter.
const SILENCE: Duration = Duration::from_secs(1);
/// From then on a window without requests is told this often.
const QUIET_WINDOW: Duration = Duration::from_millis(100);

/// The windows of a load's timeline; when it has ended, windows without requests: what
/// was taken for its sake is then given back.
#[derive(Debug)]
pub struct TimelineWindows {
    timeline: Timeline,
    quantile: Quantile,
    seen: usize,
    /// The end of the last window that was told, in seconds of the load's time ...
    ended_s: f64,
    /// ... and when it was told.
    told: Instant,
    /// Told nothing for so long, it has ended.
    silence: Duration,
}

impl TimelineWindows {
    /// Those that end from now on.
    pub fn new(timeline: Timeline, quantile: Quantile) -> Self {
        Self {
            seen: timeline.since(0).len(),
            ended_s: timeline.latest().map_or(0.0, |interval| interval.t_s),
            timeline,
            quantile,
            told: Instant::now(),
            silence: SILENCE,
        }
    }

    /// A window without requests, if the load has ended.
    fn quiet(&mut self) -> Option<LatencyWindow> {
        let elapsed = self.told.elapsed();
        if elapsed < self.silence {
            return None;
        }
        self.silence = self.silence.min(QUIET_WINDOW);
        self.told = Instant::now();
        self.ended_s += elapsed.as_secs_f64();
        Some(LatencyWindow {
            t_s: self.ended_s,
            length_s: elapsed.as_secs_f64(),
            requests: 0,
            latency_us: 0.0,
        })
    }
}

impl LatencySource for TimelineWindows {
    fn ended(&mut self) -> Vec<LatencyWindow> {
        let intervals = self.timeline.since(self.seen);
        let Some(last) = intervals.last() else {
            return self.quiet().into_iter().collect();
        };
        self.seen += intervals.len();
        (self.ended_s, self.told) = (last.t_s, Instant::now());
        self.silence = SILENCE;
        let window = |interval: &crate::ycsb::Interval| LatencyWindow {
            t_s: interval.t_s,
            length_s: interval.length_s,
            requests: interval.ops,
            latency_us: match self.quantile {
                Quantile::P50 => interval.p50_us,
                Quantile::P99 => interval.p99_us,
                Quantile::P999 => interval.p999_us,
            },
        };
        intervals.iter().map(window).collect()
    }
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
    use ebb_scheduler::availability::Availability;
    use ebb_scheduler::runtime::RuntimeOptions;

    use super::super::{Guard, LoadMonitor, Machine};
    use super::*;

    #[test]
    fn a_load_that_has_ended_is_a_quiet_one() {
        let mut source = TimelineWindows::new(Timeline::default(), Quantile::P99);
        assert!(source.ended().is_empty(), "it may just have begun");
        source.silence = Duration::ZERO;
        let mut guard = Guard::new("p99=1ms".parse().unwrap());
        let bad = LatencyWindow {
            t_s: 0.1,
            length_s: 0.1,
            requests: 1000,
            latency_us: 1e6,
        };
        guard.decide(bad);
        guard.decide(bad);
        assert_eq!(guard.allowed(), 0.0);
        let mut ended_s = 0.0;
        while guard.allowed() < 1.0 {
            let windows = source.ended();
            assert_eq!(windows.len(), 1);
            assert!(windows[0].t_s >= ended_s && windows[0].requests == 0);
            ended_s = windows[0].t_s;
            guard.decide(windows[0]);
            source.silence = Duration::ZERO;
        }
    }

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
