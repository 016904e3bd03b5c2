//! The numbers of the records that a run adds.
//!
//! A number is reserved before its record is written, and acknowledged afterwards.
//! [`Inserts::records`] counts only records below the first one that is missing, so a read of a
//! number below it always finds its record (as in YCSB's `AcknowledgedCounterGenerator`).

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The count of the table's records, and the number of the record that is inserted next.
#[derive(Debug)]
pub struct Inserts {
    next: AtomicU64,
    records: AtomicU64,
    /// The numbers of inserted records that are not counted yet, because the insert of a record
    /// with a lower number is not acknowledged: counted records must have no gaps.
    ahead: Mutex<BTreeSet<u64>>,
}

impl Inserts {
    /// Creates the count for a table that has the records `0..records`.
    pub fn new(records: u64) -> Self {
        Self {
            next: AtomicU64::new(records),
            records: AtomicU64::new(records),
            ahead: Mutex::default(),
        }
    }

    /// Reserves and returns the number of the next record to write.
    pub fn reserve(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Marks the record of a reserved number as written.
    pub fn acknowledge(&self, number: u64) {
        let mut ahead = self.ahead.lock().unwrap();
        ahead.insert(number);
        let mut records = self.records.load(Ordering::Relaxed);
        while ahead.remove(&records) {
            records += 1;
        }
        // A thread that reads the count must also see the writes that it counts. The store orders
        // the writes themselves; this release store keeps the count behind them.
        self.records.store(records, Ordering::Release);
    }

    /// Returns the number of records: all records with lower numbers can be read.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_when_all_records_before_it_are_written() {
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
