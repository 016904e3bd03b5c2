//! The counts of a phase's threads: latencies, operations and wrong reads.

use std::collections::BTreeMap;
use std::time::Instant;

use ebb_bench::ycsb::{Latencies, Operation, Stamp, key, read_stamp};
use hdrhistogram::Histogram;

/// The upper end of the histograms, in nanoseconds: one hour. Longer latencies count as one hour.
const NANOS_MAX: u64 = 3_600_000_000_000;
/// Decimal digits of precision: percentiles are exact to 0.1%.
const DIGITS: u8 = 3;

/// The counts of one thread, or of several after [`merge`](Self::merge).
#[derive(Debug, Default)]
pub struct Tally {
    nanos: BTreeMap<&'static str, Histogram<u64>>,
    /// Reads that returned a value of another record, a damaged value, or none.
    pub wrong_reads: u64,
    /// Total length of the keys and values written.
    pub user_bytes_written: u64,
    /// The number of operations that ended.
    pub operations: u64,
}

impl Tally {
    /// Counts an operation that began at `started` and has just ended.
    pub fn record(&mut self, kind: &'static str, started: Instant) {
        let nanos = started.elapsed().as_nanos() as u64;
        self.operations += 1;
        self.nanos
            .entry(kind)
            .or_insert_with(|| {
                Histogram::new_with_bounds(1, NANOS_MAX, DIGITS).expect("the bounds are valid")
            })
            .saturating_record(nanos);
    }

    /// Checks a value that was read: it must be undamaged, and `is_right` must hold for its stamp.
    pub fn check(&mut self, value: &[u8], is_right: impl FnOnce(Stamp) -> bool) {
        if !read_stamp(value).is_some_and(is_right) {
            self.wrong_reads += 1;
        }
    }

    /// Checks an entry of a scan: its key and its value must belong together.
    pub fn check_entry(&mut self, found: &[u8], value: &[u8]) {
        self.check(value, |stamp| found == key(stamp.number));
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: Self) {
        for (kind, nanos) in other.nanos {
            match self.nanos.get_mut(kind) {
                Some(mine) => mine.add(nanos).expect("all have the same bounds"),
                None => {
                    self.nanos.insert(kind, nanos);
                }
            }
        }
        self.wrong_reads += other.wrong_reads;
        self.user_bytes_written += other.user_bytes_written;
        self.operations += other.operations;
    }

    /// Returns the latencies of each kind of operation that occurred.
    pub fn latencies(&self) -> impl Iterator<Item = (&'static str, Latencies)> {
        self.nanos.iter().map(|(kind, nanos)| (*kind, nanos.into()))
    }
}

/// Returns the name of an operation in the metrics.
pub fn kind(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Update => "update",
        Operation::Insert => "insert",
        Operation::Scan => "scan",
        Operation::ReadModifyWrite => "read_modify_write",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_bench::ycsb::write_value;

    #[test]
    fn values_of_other_records_and_truncated_values_are_wrong() {
        let stamp = Stamp {
            number: 7,
            version: 3,
        };
        let mut value = Vec::new();
        write_value(&mut value, stamp, 100);
        let mut tally = Tally::default();
        tally.check(&value, |read| read == stamp);
        tally.check_entry(&key(7), &value);
        assert_eq!(tally.wrong_reads, 0);
        tally.check(&value, |read| read.version == 2);
        tally.check(&value[..99], |_| true);
        tally.check_entry(&key(8), &value);
        tally.check_entry(&key(7), &value[1..]);
        assert_eq!(tally.wrong_reads, 4);
    }

    #[test]
    fn merged_tallies_add_up() {
        let mut both = Tally::default();
        for kind in ["read", "update"] {
            let mut tally = Tally::default();
            let begun = Instant::now(); // clock: `record` measures from here
            tally.record(kind, begun);
            tally.record("scan", begun);
            both.merge(tally);
        }
        let counts: Vec<_> = both.latencies().map(|(kind, l)| (kind, l.count)).collect();
        assert_eq!(counts, [("read", 1), ("scan", 2), ("update", 1)]);
        assert_eq!(both.operations, 4);
    }
}
