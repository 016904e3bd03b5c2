//! The progress of a repair in reading the damaged database.

use std::cell::Cell;

use crate::maintenance::db_files::DbFiles;
use crate::maintenance::progress::MaintenanceProgress;
use crate::table_store::TableStore;

/// The progress of reading: counts each SSTable twice, once for its metadata and once for its
/// versions, and the log once.
#[derive(Debug)]
pub(super) struct Reading {
    done: Cell<u64>,
    total: Cell<u64>,
    reported: Cell<u64>,
}

impl Reading {
    /// Returns the progress before the first read. The total is that of the SSTables, without those
    /// whose length cannot be determined, because they cannot be read. The log is added later
    /// ([`Self::expect`]).
    pub(super) fn of(files: &DbFiles, tables: &dyn TableStore) -> Self {
        let bytes = |number: u64| tables.open(number).and_then(|file| file.len());
        let sstables = files.sstables.iter();
        let total: u64 = sstables.map(|file| bytes(file.0).unwrap_or(0)).sum();
        Self {
            done: Cell::new(0),
            total: Cell::new(2 * total),
            reported: Cell::new(0),
        }
    }

    /// Raises the total by `bytes` that the total did not include at the start.
    pub(super) fn expect(&self, bytes: u64) {
        self.total.set(self.total.get() + bytes);
    }

    pub(super) fn add(&self, bytes: u64) {
        self.done.set(self.done.get() + bytes);
    }

    /// Reports the progress if it has grown since the last report.
    pub(super) fn report(&self, progress: &mut dyn FnMut(MaintenanceProgress)) {
        let done = self.done.get();
        if self.reported.replace(done) < done {
            progress(MaintenanceProgress {
                bytes_done: done,
                bytes_total: self.total.get().max(done),
            });
        }
    }
}
