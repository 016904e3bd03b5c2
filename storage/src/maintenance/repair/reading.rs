//! How much of the damaged database was read.

use std::cell::Cell;

use crate::maintenance::db_files::DbFiles;
use crate::maintenance::progress::MaintenanceProgress;
use crate::table_store::TableStore;

/// Counts what is read: each SSTable twice, once for what it has and once for its
/// versions, and the log once.
#[derive(Debug)]
pub(super) struct Reading {
    done: Cell<u64>,
    total: Cell<u64>,
    told: Cell<u64>,
}

impl Reading {
    /// Nothing is read yet. What has no length is not counted: it cannot be read.
    pub(super) fn of(files: &DbFiles, tables: &dyn TableStore) -> Self {
        let bytes = |number: u64| tables.open(number).and_then(|file| file.len());
        let sstables = files.sstables.iter();
        let total: u64 = sstables.map(|file| bytes(file.0).unwrap_or(0)).sum();
        Self {
            done: Cell::new(0),
            total: Cell::new(2 * total),
            told: Cell::new(0),
        }
    }

    /// There is more to read than was known.
    pub(super) fn expect(&self, bytes: u64) {
        self.total.set(self.total.get() + bytes);
    }

    pub(super) fn add(&self, bytes: u64) {
        self.done.set(self.done.get() + bytes);
    }

    /// Tells how far it has come, if that is further than when it was last told.
    pub(super) fn tell(&self, progress: &mut dyn FnMut(MaintenanceProgress)) {
        let done = self.done.get();
        if self.told.replace(done) < done {
            progress(MaintenanceProgress {
                bytes_done: done,
                bytes_total: self.total.get().max(done),
            });
        }
    }
}
