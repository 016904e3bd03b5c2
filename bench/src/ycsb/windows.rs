//! The latencies of a load's run, window by window, for the co-location guard.

use std::time::{Duration, Instant};

use ebb_colocate::{LatencySource, LatencyWindow, Quantile};

use super::timeline::{Interval, Timeline};

/// A load of which nothing comes for this long has ended: its windows are much shorter.
const SILENCE: Duration = Duration::from_secs(1);
/// From then on a window without requests is given this often.
const QUIET_WINDOW: Duration = Duration::from_millis(100);

/// The windows of a load's timeline; when it has ended, windows without requests: what
/// was taken for its sake is then given back.
#[derive(Debug)]
pub struct TimelineWindows {
    timeline: Timeline,
    quantile: Quantile,
    seen: usize,
    /// The end of the last window that was given, in seconds of the load's time ...
    ended_s: f64,
    /// ... and when it was given.
    given: Instant,
    /// With nothing to give for so long, it has ended.
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
            given: Instant::now(),
            silence: SILENCE,
        }
    }

    /// A window without requests, if the load has ended.
    fn quiet(&mut self) -> Option<LatencyWindow> {
        let elapsed = self.given.elapsed();
        if elapsed < self.silence {
            return None;
        }
        self.silence = self.silence.min(QUIET_WINDOW);
        self.given = Instant::now();
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
        (self.ended_s, self.given) = (last.t_s, Instant::now());
        self.silence = SILENCE;
        let window = |interval: &Interval| LatencyWindow {
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

#[cfg(test)]
mod tests {
    use ebb_colocate::Guard;

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
}
