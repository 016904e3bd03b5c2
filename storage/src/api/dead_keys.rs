//! Dead keys of a memtable that a scan walks over: a consumer that takes rows from the front of a
//! queue, or from the top of a stack, walks over all rows that were taken before. Once they are in
//! files, a merge drops them.

use std::sync::Arc;

use crate::db::{Engine, TableCore};
use crate::version::TableVersion;

/// The number of dead keys (keys without a value, whose newest version is in a memtable) that a
/// scan may walk over in its search for one entry. At this number it requests a flush of the open
/// memtable (RocksDB: `memtable_op_scan_flush_trigger`). A scan walks over this many in some 0.3
/// ms.
const IN_STEP_MAX: u32 = 4096;

/// Counts the dead keys that one iterator over an open table walks over.
#[derive(Debug)]
pub(super) struct DeadKeys {
    table: Arc<TableCore>,
    /// The number of dead keys that the iterator has passed since the last entry that it found.
    in_step: u32,
}

impl DeadKeys {
    pub(super) fn of(table: Arc<TableCore>) -> Self {
        Self { table, in_step: 0 }
    }

    /// Sets the count back to 0, because the iterator has found an entry and begins the search for the
    /// next one.
    pub(super) fn begin_step(&mut self) {
        self.in_step = 0;
    }

    /// Counts a dead key: a key without a value, whose newest version is in a memtable. At
    /// [`IN_STEP_MAX`] dead keys between two entries, requests a flush of the open memtable.
    pub(super) fn passed(&mut self, engine: &Engine, version: &TableVersion) {
        self.in_step += 1;
        if self.in_step == IN_STEP_MAX {
            engine.flush_scanned(&self.table, &version.memtable);
        }
    }
}
