//! Files that were missing or could not be read when they were opened.
//!
//! ```text
//!   it does not open ─► its keys are gaps ─► wait ─► open it again ─► no gaps any more
//!                                            ▲          │   └─► it is damaged: quarantine
//!                                            └──────────┘
//! ```
//!
//! The manifest records nothing about such a file. Merges leave its run out meanwhile, as any run
//! that cannot be read.

use super::{Engine, TableCore};
use crate::error::{Error, Result};
use crate::key::FileNumber;
use crate::runs::{FileMeta, Quarantine, Run};

impl Engine {
    /// Excludes from merges, for a while, each run with a file that could not be opened.
    pub(super) fn leave_out_unreadable(&self) {
        let elapsed_ms = self.elapsed_ms();
        for table in self.tables() {
            for run in table.version().all_runs() {
                if let Some((_, error)) = run.unreadable().next() {
                    table.left_out.add(run.id(), error, elapsed_ms);
                }
            }
        }
    }

    /// Lets merges try at once to read the runs that they leave out, and tries again to open the
    /// files that did not open.
    ///
    /// # Errors
    /// As [`Self::retry_unreadable`].
    pub(crate) fn retry_unreadable_now(&self) -> Result<()> {
        let reopening = self.reopening.lock().unwrap();
        for table in self.tables() {
            table.left_out.retry_at_once();
        }
        let opened = self.open_due_again();
        drop(reopening);
        // Merges wait for no time any more, so no thread would wake for them.
        self.signal.compact();
        opened
    }

    /// Tries again to open the files that did not open, for all runs whose wait is over. Does
    /// nothing while another thread does the same, because that thread may wait long for a disk.
    ///
    /// # Errors
    /// The failure to record that a file is damaged. A full disk is no error here: the next retry
    /// records the damage.
    pub(super) fn retry_unreadable(&self) -> Result<()> {
        match self.reopening.try_lock() {
            Ok(_reopening) => self.open_due_again(),
            Err(_) => Ok(()),
        }
    }

    /// Tries again to open the files of left-out runs for which the time of the next try has come.
    /// The caller holds the lock `reopening`.
    fn open_due_again(&self) -> Result<()> {
        for table in self.tables() {
            if table.left_out.is_empty() {
                continue;
            }
            for run in &table.version().runs {
                let is_unreadable = run.unreadable().next().is_some();
                if is_unreadable && table.left_out.is_due(run.id(), self.elapsed_ms()) {
                    self.open_again(&table, run)?;
                }
            }
        }
        Ok(())
    }

    fn open_again(&self, table: &TableCore, run: &Run) -> Result<()> {
        let mut failed = None;
        for (told, _) in run.unreadable() {
            let file = self.runs.open_file(told);
            if let Some(error) = file.unreadable() {
                failed = Some(error.clone());
                continue;
            }
            let mut quarantine = told.quarantine.clone();
            if let Some(found) = file.error().and_then(Quarantine::of)
                && quarantine.is_none()
            {
                match self.quarantine(table, told.number, found.clone()) {
                    // Nothing shows the quarantine, so the file stays a gap until the next retry.
                    Err(full @ Error::DiskFull { .. }) => {
                        failed = Some(full);
                        continue;
                    }
                    recorded => recorded.map(drop)?,
                }
                quarantine = Some(found);
            }
            let told = FileMeta {
                quarantine,
                ..told.clone()
            };
            table.update(|version| version.restored(told.number, &told, &file));
        }
        match failed {
            Some(error) => self.leave_out(table, [run.id()], &error),
            None => {
                table.left_out.remove([run.id()]);
                // The run is merged like any other now, unless it is damaged.
                self.signal.compact();
            }
        }
        Ok(())
    }

    /// Ends the exclusion of a run from merges after its file `file` was replaced. Does nothing if
    /// a file of the run still does not open.
    pub(super) fn forget_unreadable(&self, table: &TableCore, file: FileNumber) {
        let version = table.version();
        let mut runs = version.runs.iter();
        let run = runs.find(|run| run.meta().numbers().any(|number| number == file));
        let run = run.filter(|run| run.unreadable().next().is_none());
        table.left_out.remove(run.map(|run| run.id()));
    }
}
