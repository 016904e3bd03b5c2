//! The schedule of the pauses of analytics, which serve to measure the load alone.

use super::{PAUSES_MIN, SETTLE_S};

/// The length of a pause of analytics, which serves to measure the load alone, in seconds.
const PAUSE_S: f64 = 0.3;
/// The time from one pause of analytics to the next, in seconds: pauses take 3% of the time.
const EVERY_S: f64 = 10.0;
/// The time between the first pauses of analytics beside a new load, in seconds, so that the load's
/// latency without analytics is known after a quarter of a minute.
const EVERY_S_FIRST: f64 = 1.5;
/// The time, in seconds, after which one more early pause is allowed. A pause is early if it begins
/// less than [`EVERY_S`] after the previous one. Early pauses soon show a new load's latency without
/// analytics; this time bounds their number for a load that keeps changing.
const FIRST_AGAIN_S: f64 = 30.0;

/// Returns the minimal request rate, per second, at which pauses of analytics can show the load's
/// latency without analytics: the pauses of `kept_s` seconds then contain `requests` requests.
/// `kept_s` is the age at which measurements are dropped.
pub(super) fn requests_per_s_min(requests: u64, kept_s: f64) -> f64 {
    requests as f64 / (kept_s / EVERY_S * (PAUSE_S - SETTLE_S))
}

/// The current pause of analytics, which serves to measure the load alone, and the next one.
#[derive(Debug, Clone)]
pub(super) struct Pauses {
    ends_s: Option<f64>,
    next_s: Option<f64>,
    /// The number of early pauses, at less than the regular distance, that are still allowed: the
    /// tokens of a token bucket. It grows with time, so it may be fractional.
    soon: f64,
    /// The time of the last update of `soon`, the number of early pauses; in seconds.
    counted_s: f64,
}

impl Pauses {
    pub(super) fn new() -> Self {
        Self {
            ends_s: None,
            next_s: None,
            soon: PAUSES_MIN as f64,
            counted_s: 0.0,
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.ends_s.is_some()
    }

    /// Cancels the current and the next pause of analytics.
    pub(super) fn stop(&mut self) {
        (self.ends_s, self.next_s) = (None, None);
    }

    /// Notes that the load has changed, so that its latency without analytics is unknown. The next
    /// pause of analytics is then due at once, unless there were too many early ones.
    pub(super) fn load_changed(&mut self, now_s: f64) {
        if self.take_soon(now_s) {
            self.next_s = Some(now_s);
        }
    }

    /// Returns whether the next pause of analytics should begin now. Plans one first if none is
    /// planned.
    pub(super) fn is_due(&mut self, now_s: f64) -> bool {
        let next_s = match self.next_s {
            Some(next_s) => next_s,
            None => now_s + self.every_s(now_s, false),
        };
        self.next_s = Some(next_s);
        now_s >= next_s && !self.is_on()
    }

    pub(super) fn begin(&mut self, now_s: f64) {
        self.ends_s = Some(now_s + PAUSE_S);
    }

    /// Returns whether the current pause of analytics has been long enough.
    pub(super) fn is_over(&self, now_s: f64) -> bool {
        self.ends_s.is_some_and(|ends_s| now_s >= ends_s - 1e-9)
    }

    /// Ends the current pause of analytics. `is_known` is true if the load's latency without
    /// analytics has been measured enough, so that the next pause can be later.
    pub(super) fn end(&mut self, now_s: f64, is_known: bool) {
        self.ends_s = None;
        self.next_s = Some(now_s + self.every_s(now_s, is_known));
    }

    fn every_s(&mut self, now_s: f64, is_known: bool) -> f64 {
        if !is_known && self.take_soon(now_s) {
            EVERY_S_FIRST
        } else {
            EVERY_S
        }
    }

    fn take_soon(&mut self, now_s: f64) -> bool {
        let again = (now_s - self.counted_s).max(0.0) / FIRST_AGAIN_S;
        self.soon = (self.soon + again).min(PAUSES_MIN as f64);
        self.counted_s = now_s;
        let has_one = self.soon >= 1.0;
        if has_one {
            self.soon -= 1.0;
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates ten minutes with a load that changes every `changes_s` seconds. Returns for how
    /// many seconds analytics paused. `is_known` is true if the load's latency without analytics
    /// counts as measured after each pause, so that the next pause comes only after [`EVERY_S`].
    fn paused_s(changes_s: f64, is_known: bool) -> f64 {
        let mut pauses = Pauses::new();
        let (mut paused, mut changed_s) = (0, 0.0);
        for window in 0..6000 {
            let now_s = f64::from(window) / 10.0;
            if now_s - changed_s >= changes_s {
                changed_s = now_s;
                pauses.load_changed(now_s);
            }
            if pauses.is_over(now_s) {
                pauses.end(now_s, is_known);
            } else if pauses.is_due(now_s) {
                pauses.begin(now_s);
            }
            paused += u32::from(pauses.is_on());
        }
        f64::from(paused) / 10.0
    }

    #[test]
    fn a_load_that_changes_all_the_time_pays_little_more_than_one_that_stays() {
        let stays = paused_s(f64::INFINITY, true);
        assert!((17.0..=18.5).contains(&stays), "{stays}");
        for changes_s in [1.0, 7.0, 60.0] {
            let changes = paused_s(changes_s, false);
            assert!(changes <= 30.0, "{changes} s of 600");
        }
    }

    #[test]
    fn a_new_load_is_known_soon() {
        let mut pauses = Pauses::new();
        let mut begun_s = Vec::new();
        for window in 0..300 {
            let now_s = f64::from(window) / 10.0;
            if pauses.is_over(now_s) {
                pauses.end(now_s, begun_s.len() >= PAUSES_MIN);
            } else if pauses.is_due(now_s) {
                pauses.begin(now_s);
                begun_s.push(now_s);
            }
        }
        assert!(begun_s[PAUSES_MIN - 1] < 20.0, "{begun_s:?}");
        assert!(begun_s.len() <= PAUSES_MIN + 1, "{begun_s:?}");
    }

    #[test]
    fn bursts_that_end_before_they_are_known_are_rarely_disturbed() {
        let mut pauses = Pauses::new();
        let mut paused = 0;
        for window in 0..6000 {
            let now_s = f64::from(window) / 10.0;
            // Two seconds of requests, then two of silence.
            if window % 40 >= 20 {
                pauses.stop();
            } else if pauses.is_over(now_s) {
                pauses.end(now_s, false);
            } else if pauses.is_due(now_s) {
                pauses.begin(now_s);
            }
            paused += u32::from(pauses.is_on());
        }
        assert!(paused <= 120, "{paused} of 6000");
    }
}
