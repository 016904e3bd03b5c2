//! The numbers of the records that a run adds.
//!
//! A number is reserved before its record is written and acknowledged after.
//! [`Inserts::records`] counts only records below which none is missing, so that
//! a read chosen from it always finds its record (YCSB's
//! `AcknowledgedCounterGenerator`).

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The count of records, and the numbers that come next.
#[derive(Debug)]
pub struct Inserts {
    next: AtomicU64,
    records: AtomicU64,
    /// Acknowledged ahead of a record that is still being written.
    ahead: Mutex<BTreeSet<u64>>,
}

impl Inserts {
    /// For a table that has records `0..records`.
    pub fn new(records: u64) -> Self {
        Self {
            next: AtomicU64::new(records),
            records: AtomicU64::new(records),
            ahead: Mutex::default(),
        }
    }

    /// The number of a record that is to be written.
    pub fn reserve(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Says that the record of a reserved number is written.
    pub fn acknowledge(&self, number: u64) {
        let mut ahead = self.ahead.lock().unwrap();
        ahead.insert(number);
        let mut records = self.records.load(Ordering::Relaxed);
        while ahead.remove(&records) {
            records += 1;
        }
        // Whoever sees the count must see the writes that it counts; the store
        // orders those by itself, this only keeps the count behind them.
        self.records.store(records, Ordering::Release);
    }

    /// How many there are: all below this can be read.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_once_all_before_it_are_there() {
        let inserts = Inserts::new(10);
        let numbers = [inserts.reserve(), inserts.reserve(), inserts.reserve()];
        assert_eq!(numbers, [10, 11, 12]);
        inserts.acknowledge(11);
        assert_eq!(inserts.records(), 10);
        inserts.acknowledge(10);
        assert_eq!(inserts.records(), 12);
        inserts.acknowledge(12);
        assert_eq!(inserts.records(), 13);
    }
}
