//! Sections: what happened in a part of an open loop's run, cut by the moment at which
//! operations were due.
//!
//! A run that warms up first, or whose load changes at a moment, is reported part by
//! part, each with all of its latencies: histograms of several runs can be put together,
//! percentiles cannot.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::latencies::{DIGITS, histogram};

/// The operations of an open loop that were due in a part of the run, in nanoseconds. One
/// that no thread came to counts with what it had waited when the run ended: else a load
/// that cannot be served would look quick.
#[derive(Debug, Clone)]
pub struct Section {
    /// From the moment at which an operation was due to its end.
    pub latencies: Histogram<u64>,
    /// From that moment until a thread took it.
    pub dispatch: Histogram<u64>,
    /// From that moment until all operations that were due with it were done.
    pub batches: Histogram<u64>,
}

impl Default for Section {
    fn default() -> Self {
        Self {
            latencies: histogram(DIGITS),
            dispatch: histogram(DIGITS),
            batches: histogram(DIGITS),
        }
    }
}

impl Section {
    /// So many operations of one batch that nobody took, after they had waited for so long.
    pub(super) fn add_unserved(&mut self, waited: Duration, operations: u64) {
        let nanos = waited.as_nanos() as u64;
        self.latencies.saturating_record_n(nanos, operations);
        self.dispatch.saturating_record_n(nanos, operations);
        self.batches.saturating_record(nanos);
    }

    /// What was due in both, or in the same part of two runs.
    pub fn add(&mut self, more: &Self) {
        let all = [
            (&mut self.latencies, &more.latencies),
            (&mut self.dispatch, &more.dispatch),
            (&mut self.batches, &more.batches),
        ];
        for (sum, part) in all {
            sum.add(part).expect("all have the same bounds");
        }
    }
}

/// The position of the section in which something is due, if it is in one: each goes
/// from the end before (the first from 0) to its own.
pub(super) fn position(ends: &[Duration], due: Duration) -> Option<usize> {
    let position = ends.partition_point(|end| *end <= due);
    (position < ends.len()).then_some(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_goes_up_to_its_end() {
        let ends = [500, 700].map(Duration::from_millis);
        let at = |millis| position(&ends, Duration::from_millis(millis));
        assert_eq!((at(0), at(499)), (Some(0), Some(0)));
        assert_eq!((at(500), at(699)), (Some(1), Some(1)));
        assert_eq!(at(700), None);
        assert_eq!(position(&[], Duration::ZERO), None);
    }

    #[test]
    fn sections_add_up() {
        let (mut sum, mut part) = (Section::default(), Section::default());
        part.latencies.record(1000).unwrap();
        part.batches.record(7000).unwrap();
        sum.add(&part);
        sum.add(&part);
        assert_eq!((sum.latencies.len(), sum.batches.max() / 1000), (2, 7));
        assert!(sum.dispatch.is_empty());
    }
}
