//! One file of a run: open, damaged or unreadable.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::key::FileNumber;
use crate::mutation::{self, Mutation};
use crate::sstable::SsTable;
use crate::sync::{AtomicBool, Ordering};
use crate::table_store::TableStore;

/// A file of a run: the open SSTable, or the error with which it could not be opened. The file is
/// removed from the disk once it is obsolete and no reader holds it.
#[derive(Debug)]
pub(crate) struct RunFile {
    table: Result<Arc<SsTable>>,
    number: FileNumber,
    tables: Arc<dyn TableStore>,
    obsolete: AtomicBool,
}

impl RunFile {
    /// Creates the value for a file of a run from the open SSTable, or from the error that its
    /// opening returned.
    pub(crate) fn new(
        table: Result<Arc<SsTable>>,
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

    /// Returns the open file; `None` if it could not be opened.
    pub(crate) fn table(&self) -> Option<&Arc<SsTable>> {
        self.table.as_ref().ok()
    }

    /// Returns the error that the opening of the file returned; `None` if the file is open.
    pub(crate) fn error(&self) -> Option<&Error> {
        self.table.as_ref().err()
    }

    /// Returns the error with which the file could not be opened; `None` if the file is open, or if
    /// the error is damage.
    pub(crate) fn unreadable(&self) -> Option<&Error> {
        let is_damage = |error: &&Error| matches!(error, Error::Corruption { .. });
        self.error().filter(|error| !is_damage(error))
    }

    /// Makes the file obsolete: it is removed once no reader holds it.
    pub(crate) fn retire(&self) {
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
            if let Ok(table) = &self.table {
                table.forget_blocks();
            }
            // A file that cannot be removed now is an orphan, which the next
            // opening removes.
            let _ = self.tables.delete(self.number.0);
        }
    }
}
