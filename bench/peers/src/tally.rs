//! What threads of a phase saw: how long operations took, and what was wrong.

use std::collections::BTreeMap;
use std::time::Instant;

use ebb_bench::ycsb::{Latencies, Operation, Stamp, key, read_stamp};
use hdrhistogram::Histogram;

/// The longest latency that is told from longer ones: one hour.
const NANOS_MAX: u64 = 3_600_000_000_000;
/// Percentiles to 0.1 %.
const DIGITS: u8 = 3;

/// Of one thread, or of several together.
#[derive(Debug, Default)]
pub struct Tally {
    nanos: BTreeMap<&'static str, Histogram<u64>>,
    /// Values that were not those of their record, and records not found.
    pub wrong_reads: u64,
    /// Keys and values written, in bytes.
    pub user_bytes_written: u64,
    /// Operations done.
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

    /// Checks a value that was read: whether it is whole, and what `is_right`
    /// says of its stamp.
    pub fn check(&mut self, value: &[u8], is_right: impl FnOnce(Stamp) -> bool) {
        if !read_stamp(value).is_some_and(is_right) {
            self.wrong_reads += 1;
        }
    }

    /// Checks an entry that a scan showed: whether key and value belong together.
    pub fn check_entry(&mut self, found: &[u8], value: &[u8]) {
        self.check(value, |stamp| found == key(stamp.number));
    }

    /// Adds what another thread saw.
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

    /// Each kind of operation that there was, by its name.
    pub fn latencies(&self) -> impl Iterator<Item = (&'static str, Latencies)> {
        self.nanos.iter().map(|(kind, nanos)| (*kind, nanos.into()))
    }
}

/// What the metrics call an operation.
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
    fn a_value_of_another_record_is_wrong_and_so_is_a_cut_one() {
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
    fn what_threads_saw_adds_up() {
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
