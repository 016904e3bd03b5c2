//! One open file of a run.

use std::sync::Arc;

use crate::key::FileNumber;
use crate::mutation::{self, Mutation};
use crate::sstable::SsTable;
use crate::sync::{AtomicBool, Ordering};
use crate::table_store::TableStore;

/// An open SSTable whose file goes when it is obsolete and nobody holds it.
#[derive(Debug)]
pub(crate) struct RunFile {
    table: Arc<SsTable>,
    number: FileNumber,
    tables: Arc<dyn TableStore>,
    obsolete: AtomicBool,
}

impl RunFile {
    pub(crate) fn new(
        table: Arc<SsTable>,
        number: FileNumber,
        tables: Arc<dyn TableStore>,
    ) -> Arc<Self> {
        Arc::new(Self {
            table,
            number,
            tables,
            obsolete: AtomicBool::new(false),
        })
    }

    pub(crate) fn table(&self) -> &Arc<SsTable> {
        &self.table
    }

    pub(super) fn smallest_key(&self) -> &[u8] {
        &self.table.properties().smallest_key
    }

    pub(super) fn largest_key(&self) -> &[u8] {
        &self.table.properties().largest_key
    }

    /// Lets the file go once nobody holds it any more.
    pub(super) fn retire(&self) {
        let obsolete = mutation::replace(true, Mutation::KeepObsoleteFiles, false);
        self.obsolete.store(obsolete, Ordering::Relaxed);
        if mutation::is(Mutation::RemoveFilesInUse)
            || mutation::is(Mutation::RemoveInputsBeforeEdit)
        {
            let _ = self.tables.delete(self.number.0);
        }
    }
}

impl Drop for RunFile {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Relaxed) {
            self.table.forget_blocks();
            // A file that cannot be removed now is an orphan, which the next
            // opening removes.
            let _ = self.tables.delete(self.number.0);
        }
    }
}
