//! Quarantine: a file in which a merge found damage is not merged any more. The merge ends; other
//! runs of the table and other tables are merged, and writes go on.
//!
//! ```text
//!   a merge fails ─► is it on the disk? ─► edit of the manifest ─► the run is not merged
//!                    no: memory; again,
//!                    and not for ever
//! ```
//!
//! The run stays where it is in the list, so a reader that needs the damaged data fails. See the
//! book, Quarantine.

use std::path::Path;
use std::sync::Arc;

use super::events::Event;
use super::{Engine, TableCore};
use crate::error::{Error, ErrorKind, Result};
use crate::key::FileNumber;
use crate::manifest::{Edit, State};
use crate::mutation::{self, Mutation};
use crate::runs::{FileMeta, Quarantine, Run, RunFile};
use crate::sstable::SsTable;
use crate::sync::Ordering;

/// After this many merges in a row that found damage in files that are whole on the disk, the
/// memory of this machine is not trusted with writes any more.
const SUSPICIONS_MAX: u64 = 3;

impl Engine {
    /// Handles the error of a merge of these runs, which are claimed: puts the damaged file into
    /// quarantine.
    ///
    /// # Errors
    /// `error` itself if it is not the damage of a file; the failure to record the quarantine.
    pub(super) fn meet_damage(
        &self,
        table: &TableCore,
        inputs: &[Arc<Run>],
        error: Error,
    ) -> Result<()> {
        let Error::Corruption { path, .. } = &error else {
            return Err(error);
        };
        if mutation::is(Mutation::StopAtDamage) {
            return Err(error);
        }
        if let Some((number, file)) = file_of(inputs, path) {
            // Reads past all caches: bytes that changed in memory are no damage.
            let first = error.clone();
            let again = mutation::replace(
                file.verify_past_caches(),
                Mutation::TrustFirstReading,
                Err(first),
            );
            if let Err(again) = again {
                let found = Quarantine::of(&again).ok_or(again)?;
                self.suspicions.store(0, Ordering::Relaxed);
                return self.quarantine(table, number, found);
            }
        }
        match self.suspicions.fetch_add(1, Ordering::Relaxed) + 1 < SUSPICIONS_MAX {
            true => Ok(()),
            false => Err(error),
        }
    }

    /// Notes that a merge read all of its inputs.
    pub(super) fn note_sound_merge(&self) {
        if self.suspicions.load(Ordering::Relaxed) > 0 {
            self.suspicions.store(0, Ordering::Relaxed);
        }
    }

    /// Puts a file into quarantine. No other thread may replace its run meanwhile.
    pub(super) fn quarantine(
        &self,
        table: &TableCore,
        file: FileNumber,
        quarantine: Quarantine,
    ) -> Result<()> {
        let edit = Edit::Quarantine {
            table: table.id,
            file,
            quarantine: quarantine.clone(),
        };
        let show = || {
            table.update(|version| version.quarantined(file, &quarantine));
        };
        if mutation::is(Mutation::ForgetQuarantine) {
            show();
            return Ok(());
        }
        // A table that was dropped meanwhile needs no quarantine.
        let is_there = |state: &State| state.has_file(table.id, file);
        let edit = |state: &State| is_there(state).then_some(edit);
        if self.install(&[], edit, |_| show())? {
            self.events.tell(Event::Quarantined {
                keyspace: &table.keyspace,
                table: &table.name,
                path: &self.runs.name(file),
                offset: quarantine.offset,
                detail: &quarantine.detail,
            });
        }
        Ok(())
    }

    /// Replaces a damaged file by a whole one. The damaged file is removed once no reader needs
    /// it. If the damaged file is gone meanwhile, the whole one is removed.
    pub(crate) fn replace_damaged(
        &self,
        table: &TableCore,
        damaged: FileNumber,
        whole: FileMeta,
        file: Arc<RunFile>,
    ) -> Result<()> {
        let edit = Edit::Restore {
            table: table.id,
            file: damaged,
            by: whole.clone(),
        };
        let is_there = |state: &State| state.has_file(table.id, damaged);
        let edit = |state: &State| is_there(state).then_some(edit);
        let show = |_: &State| {
            table.update(|version| version.restored(damaged, &whole, &file));
        };
        match self.install(&[], edit, show) {
            Ok(true) => {}
            Ok(false) => file.retire(),
            Err(error) => {
                // After any other error the manifest may name the file.
                if error.kind() == ErrorKind::DiskFull {
                    file.retire();
                }
                return Err(error);
            }
        }
        self.signal.compact();
        Ok(())
    }
}

/// Returns the file of these runs that has this path in errors.
fn file_of<'a>(runs: &'a [Arc<Run>], path: &Path) -> Option<(FileNumber, &'a Arc<SsTable>)> {
    let files = runs.iter().flat_map(|run| run.open_files());
    files.into_iter().find(|(_, file)| file.path() == path)
}
