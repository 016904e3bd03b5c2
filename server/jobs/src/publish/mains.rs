//! The moves of `main`, which readers see without a tag: they follow once all tables of a publication have its tag.

use ebb_publish::commit::{Expired, PublishedTable, Rights};
use ebb_scheduler::runtime::TaskError;

use super::access::CommitFailure;
use super::job::PublicationJob;
use super::plan::TablePlan;

impl PublicationJob {
    /// Returns the number of the last table that is still to be committed. Its commit adds the tag and moves `main`,
    /// because all other tables have their tags by then. `None` while a table is left out: `main` then moves in none.
    pub(super) fn last_left(&self) -> Option<usize> {
        if !self.left_out.is_empty() {
            return None;
        }
        self.tables.iter().rposition(|table| !table.is_published)
    }

    /// Makes `main` follow in each table, now that all of them have the tag. `is_own` has for each table whether this
    /// publication has committed it; a table of which `main` is moved becomes its own, too.
    pub(super) fn move_mains(
        &self,
        expired: &[Expired],
        now_ms: i64,
        is_own: &mut [bool],
    ) -> Result<(), TaskError> {
        let last = self.last_left();
        let planned = self.tables.iter().zip(expired).enumerate();
        for ((number, planned), is_own) in planned.zip(is_own) {
            // Its commit has moved `main`.
            if *is_own && Some(number) == last {
                continue;
            }
            let moved = self.move_main(planned, now_ms);
            *is_own |= moved.map_err(|error| {
                TaskError::failed(format!(
                    "{error}; all tables have the tag of the snapshot, and the same command moves main"
                ))
            })?;
        }
        Ok(())
    }

    /// Makes `main` of a table name this publication, unless it names a later one, and returns whether this call has
    /// moved it. Another publisher may move it at the same time. If another one has removed the tag, which
    /// the end of the publication reports, `main` stays.
    fn move_main(
        &self,
        planned: (&TablePlan, &Expired),
        now_ms: i64,
    ) -> Result<bool, CommitFailure> {
        let failure = match self.move_main_now(planned, now_ms) {
            Ok(is_moved) => return Ok(is_moved),
            Err(failure) => failure,
        };
        let (table, _) = planned;
        if self.is_settled(table).unwrap_or(false) {
            Ok(false)
        } else {
            Err(failure)
        }
    }

    fn move_main_now(
        &self,
        (table, expired): (&TablePlan, &Expired),
        now_ms: i64,
    ) -> Result<bool, CommitFailure> {
        let (found, rights) = self.open_tagged(table)?;
        let origin = &table.origin;
        let has_tag = found.is_published(origin, &rights)?;
        if !has_tag || !found.is_main_behind(origin) {
            return Ok(false);
        }
        self.check_expired((&found, &rights), (table, expired), now_ms)?;
        let stamp = self.stamp(&found, table, now_ms)?;
        Ok(found.move_main(origin, &rights, self.retention(), &stamp)?)
    }

    /// Returns whether `main` need not be moved: it names this publication or a later one, or the tag is gone. Corrects
    /// the version hint, which is out of date if the answer of the move was lost.
    fn is_settled(&self, table: &TablePlan) -> Result<bool, CommitFailure> {
        let (found, rights) = self.open_tagged(table)?;
        let has_tag = self.is_published((&found, &rights), table)?;
        Ok(!has_tag || !found.is_main_behind(&table.origin))
    }

    /// Opens a table that had the tag before. If the tag names another publication by now, that is no error here.
    pub(super) fn open_tagged(
        &self,
        table: &TablePlan,
    ) -> Result<(PublishedTable<'_>, Rights), CommitFailure> {
        let (found, rights) = self.open_table(table)?;
        let rights = Rights {
            replaces_tag: true,
            ..rights
        };
        Ok((found, rights))
    }
}
