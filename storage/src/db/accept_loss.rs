//! Gives up the unreadable part of a damaged file: other files get the rest, and take its place.

use std::sync::Arc;

use super::{Engine, TableCore};
use crate::compaction::Claim;
use crate::error::Result;
use crate::key::{FileNumber, RunId};
use crate::manifest::{Edit, State};
use crate::runs::Run;

/// The new files that replace a damaged file, with the content of its readable part; `None` if no
/// reader needs any of that content.
pub(crate) struct Rest(pub(crate) Option<Arc<Run>>);

impl Engine {
    /// Calls `work` under a lock: until it returns, no other thread opens a file again that failed
    /// to open, ends a quarantine, restores a file from a backup, or gives up a part of a file.
    pub(crate) fn while_none_reopens<T>(&self, work: impl FnOnce() -> T) -> T {
        let reopening = self.reopening.lock().unwrap();
        let done = work();
        drop(reopening);
        // No thread would wake for a retry that was due meanwhile.
        self.signal.compact();
        done
    }

    /// Replaces a damaged file by other files, in one edit of the manifest. `write_rest` gets the
    /// run of the damaged file, and writes and returns the new files. If it returns `Rest(None)`,
    /// the damaged file is taken out of its run, and the run out of the table if it has no other
    /// file. If `write_rest` returns `None`, the damaged file stays. The holds of the table are
    /// released before the edit. The damaged file is removed once no reader needs it.
    ///
    /// Returns whether the file was replaced or taken out. If the table no longer has the file,
    /// removes the new files and returns false.
    ///
    /// To be called within [`Self::while_none_reopens`]: otherwise the file could become whole
    /// meanwhile.
    pub(crate) fn accept_loss(
        &self,
        table: &TableCore,
        file: (RunId, FileNumber),
        write_rest: impl FnOnce(&Run) -> Result<Option<Rest>>,
    ) -> Result<bool> {
        // Claimed before the file is read: a part of a merge would change which keys of the run
        // still count. A merge also relies on the run's place in the list.
        let Some((claim, run)) = self.claim_file(table, file) else {
            return Ok(false);
        };
        let replaced = match write_rest(&run) {
            Ok(Some(Rest(rest))) => self.replace_lost(table, file, rest),
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        drop(claim);
        // A thread that looked for a merge may have passed over the claimed run.
        self.signal.compact();
        replaced
    }

    fn replace_lost(
        &self,
        table: &TableCore,
        (run, lost): (RunId, FileNumber),
        rest: Option<Arc<Run>>,
    ) -> Result<bool> {
        // No hold is made meanwhile.
        let _snapshots = self.snapshot_ops.lock().unwrap();
        let released = self.release_holds_before_loss(table.id);
        released.inspect_err(|_| rest.iter().for_each(|rest| rest.retire()))?;
        let by = rest.as_ref().map(|rest| rest.meta().files.clone());
        let edit = Edit::AcceptLoss {
            table: table.id,
            file: lost,
            by: by.unwrap_or_default(),
        };
        let is_there = |state: &State| state.has_file(table.id, lost);
        let edit = |state: &State| is_there(state).then_some(edit);
        let replaced = self.install(rest.as_slice(), edit, |_| {
            table.update(|version| version.without_lost(lost, rest.as_deref()));
        })?;
        let version = table.version();
        let left = version.runs.iter().find(|other| other.id() == run);
        if replaced && left.is_none_or(|run| run.unreadable().next().is_none()) {
            table.left_out.remove([run]);
        }
        Ok(replaced)
    }

    /// Waits until no merge has claimed the run of a file, and the limit on merges at once permits
    /// one more claim. Then claims the run, and returns the claim with the run; `None` if the run
    /// no longer has the file.
    pub(super) fn claim_file(
        &self,
        table: &TableCore,
        (run, file): (RunId, FileNumber),
    ) -> Option<(Claim<'_>, Arc<Run>)> {
        let current = || {
            let version = table.version();
            let found = version.runs.iter().find(|other| other.id() == run)?;
            let has_file = found.meta().numbers().any(|number| number == file);
            has_file.then(|| found.clone())
        };
        loop {
            let seen = self.claims.ended();
            if let Some(claimed) = self.claims.claim(&[run], (0, 0), current) {
                return Some(claimed);
            }
            current()?;
            self.claims.wait_for_another_end(seen);
        }
    }
}
