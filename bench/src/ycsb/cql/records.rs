//! The records of the table that a client loads and reads, and the requests ([`Step`]) that read
//! and write them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ycsb::{Inserts, Operation, Stamp};

/// A request to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Reads the value of a record.
    Read { number: u64 },
    /// Writes a new value of a record; `stamp` has the record's number and the value's version.
    Write { stamp: Stamp },
    /// Reads up to `records` records in the order of the table, from record `number` on.
    Scan { number: u64, records: u32 },
}

/// The state of the table as all threads of a client share it: the existing records, and the
/// version of the next write.
#[derive(Debug)]
pub(super) struct Records {
    pub inserts: Inserts,
    /// The number of records in the snapshot, if reads go to one.
    pub in_snapshot: Option<u64>,
    /// The highest version of a value that was written before the run.
    pub version_before: u64,
    version_next: AtomicU64,
}

impl Records {
    /// Creates the state of a table that has `records` records. `in_snapshot` is the number of
    /// records in the snapshot, if reads go to one. The values written before the run have versions
    /// up to `version_before`.
    pub(super) fn new(records: u64, in_snapshot: Option<u64>, version_before: u64) -> Self {
        Self {
            inserts: Inserts::new(records),
            in_snapshot,
            version_before,
            version_next: AtomicU64::new(version_before + 1),
        }
    }

    /// Returns the request that writes a new value for a record.
    pub(super) fn write(&self, number: u64) -> Step {
        let version = self.version_next.fetch_add(1, Ordering::Relaxed);
        let stamp = Stamp { number, version };
        Step::Write { stamp }
    }

    /// Returns the number of records that reads may choose from.
    pub(super) fn readable(&self) -> u64 {
        self.in_snapshot.unwrap_or_else(|| self.inserts.records())
    }

    /// Counts the record of an insert that was acknowledged, so that later operations can choose
    /// it. Ignores other operations and the inserts of a load.
    pub(super) fn acknowledge(&self, operation: Operation, step: &Step) {
        if let (Operation::Insert, Step::Write { stamp }) = (operation, step)
            && stamp.version > 0
        {
            self.inserts.acknowledge(stamp.number);
        }
    }
}
