//! The rule of overload control: the decision for each interval whether requests are rejected.
//!
//! An interval is *late* if most of the requests served in it had waited longer than a limit.

use std::time::Duration;

/// The length of an interval. At the end of each interval it is decided whether requests are
/// rejected in the next one.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);
/// The number of late intervals in a row after which requests are rejected. An interval is late if
/// most of its served requests had waited too long. A single late interval may be the burst after a
/// pause.
const LATE_INTERVALS: u32 = 3;
/// The number of intervals (two seconds) after an overload in which a single late interval makes
/// the server reject requests again. An interval is late if most of its served requests had waited
/// too long. If the demand exceeds the capacity, the overload returns as soon as rejecting stops.
const ALERT_INTERVALS: u32 = 20;

/// The numbers of those requests of an interval that overload control may reject.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Interval {
    /// The number of served requests that waited no longer than the limit.
    pub in_time: u32,
    /// The number of served requests that waited longer than the limit.
    pub late: u32,
    pub rejected: u32,
}

impl Interval {
    /// Returns whether most served requests waited longer than the limit. CoDel uses the shortest
    /// wait instead; but connections are served in turns, so that a single polite connection, which
    /// never waits long, would hide an overload.
    fn is_late(self) -> bool {
        self.late > self.in_time
    }
}

/// The state from which it is decided whether requests are rejected.
#[derive(Debug, Default)]
pub(super) struct Rule {
    rejects: bool,
    late_in_a_row: u32,
    /// The number of remaining intervals in which a single late interval is enough to reject
    /// requests: one in which most served requests had waited too long.
    alert_for: u32,
}

impl Rule {
    /// Returns a rule that rejects requests after a single late interval. An interval is late if
    /// most of its served requests had waited too long. The default rule usually needs several late
    /// intervals in a row.
    #[cfg(test)]
    pub(super) fn always_alert() -> Self {
        Self {
            alert_for: u32::MAX,
            ..Self::default()
        }
    }

    /// Decides, from the counts of an interval that has ended, whether requests are rejected in the
    /// next one.
    pub(super) fn end(&mut self, interval: Interval) -> bool {
        if self.rejects {
            if interval.rejected == 0 {
                self.calm();
            }
            return self.rejects;
        }
        self.late_in_a_row = if interval.is_late() {
            self.late_in_a_row + 1
        } else {
            0
        };
        let needed = if self.alert_for > 0 {
            1
        } else {
            LATE_INTERVALS
        };
        self.alert_for = self.alert_for.saturating_sub(1);
        self.rejects = self.late_in_a_row >= needed;
        self.rejects
    }

    /// Returns whether the last overload is over, and so long ago that a single late interval (in
    /// which most served requests had waited too long) would not bring it back.
    pub(super) fn is_over(&self) -> bool {
        !self.rejects && self.alert_for == 0
    }

    /// Ends an overload, if there is one, because there is nothing to reject or there are no
    /// requests.
    pub(super) fn calm(&mut self) {
        if self.rejects {
            self.alert_for = ALERT_INTERVALS;
        }
        self.rejects = false;
        self.late_in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Interval = Interval {
        in_time: 10,
        late: 11,
        rejected: 0,
    };
    const IN_TIME: Interval = Interval {
        in_time: 10,
        late: 10,
        rejected: 0,
    };
    const REJECTED: Interval = Interval {
        in_time: 100,
        late: 0,
        rejected: 1,
    };

    /// Returns, for each of the intervals, whether requests are rejected after it.
    fn after(rule: &mut Rule, intervals: &[Interval]) -> Vec<bool> {
        intervals.iter().map(|one| rule.end(*one)).collect()
    }

    #[test]
    fn three_late_intervals_in_a_row_start_rejecting() {
        let mut rule = Rule::default();
        let begun = after(&mut rule, &[LATE, LATE, IN_TIME, LATE, LATE, LATE]);
        assert_eq!(begun, [false, false, false, false, false, true]);
        assert_eq!(after(&mut rule, &[REJECTED, REJECTED]), [true, true]);
    }

    #[test]
    fn an_interval_that_rejects_nothing_ends_an_overload() {
        let mut rule = Rule::default();
        after(&mut rule, &[LATE; 3]);
        assert_eq!(after(&mut rule, &[IN_TIME]), [false]);
    }

    #[test]
    fn one_late_interval_suffices_within_two_seconds_after_an_overload() {
        for (calm_intervals, suffices) in [(0, true), (19, true), (20, false)] {
            let mut rule = Rule::default();
            after(&mut rule, &[LATE; 3]);
            after(&mut rule, &[IN_TIME]);
            after(&mut rule, &vec![IN_TIME; calm_intervals]);
            assert_eq!(rule.end(LATE), suffices, "{calm_intervals}");
        }
    }

    #[test]
    fn an_interval_without_requests_is_not_late() {
        let mut rule = Rule::default();
        assert_eq!(after(&mut rule, &[Interval::default(); 4]), [false; 4]);
    }
}
