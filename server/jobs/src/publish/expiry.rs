//! The old publications that a new one removes by its option `keep`, and their completion records.
//!
//! The commit of a table removes the tags of old publications. The completion record of such a publication
//! would then name a table that lacks the tag. So the record is removed before the first commit: a publisher
//! that is killed leaves no wrong record. Another publication of the old snapshot may be about to write the
//! record again. It does so in the section of the record, after it has found the tag. So the section is
//! occupied until the last commit.

use std::collections::BTreeMap;

use ebb_publish::commit::{CommitError, Expired, PublishedTable, Rights};
use ebb_publish::target::TargetError;

use super::access::CommitFailure;
use super::job::PublicationJob;
use super::plan::TablePlan;
use super::section::{self, Section};

impl PublicationJob {
    /// Returns for each Iceberg table the old publications that its commits at the time `now_ms`, in
    /// milliseconds since 1970, are to remove. A table that is published already has none, because nothing is
    /// committed to it, unless `main` is still to be moved.
    ///
    /// # Errors
    /// If another publisher has committed a table meanwhile, or if a request to the target fails.
    pub(super) fn expired(&self, now_ms: i64) -> Result<Vec<Expired>, CommitFailure> {
        let tables = self.tables.iter();
        tables.map(|table| self.expired_of(table, now_ms)).collect()
    }

    fn expired_of(&self, table: &TablePlan, now_ms: i64) -> Result<Expired, CommitFailure> {
        let Some(retention) = self.retention() else {
            return Ok(Expired::default());
        };
        let (found, rights) = self.open_table(table)?;
        if !table.is_published && !found.is_published(&table.origin, &rights)? {
            found.check_is_at(table.version, table.parent)?;
        }
        // The tag of a table that was published before may be gone: then nothing is committed to it.
        if table.is_published && !found.is_main_behind(&table.origin) {
            return Ok(Expired::default());
        }
        Ok(found.expired(&table.origin, &rights, retention, now_ms)?)
    }

    /// Checks that the commits of a table remove just the old publications `expired`, whose completion
    /// records are removed. `found` is the table right before one of the commits, with the rights of this
    /// publisher in it.
    ///
    /// # Errors
    /// If another publisher or another engine has changed branches or tags of the table, so that the commit
    /// would remove others.
    pub(super) fn check_expired(
        &self,
        (found, rights): (&PublishedTable<'_>, &Rights),
        (table, expired): (&TablePlan, &Expired),
        now_ms: i64,
    ) -> Result<(), CommitError> {
        let Some(retention) = self.retention() else {
            return Ok(());
        };
        if found.expired(&table.origin, rights, retention, now_ms)? == *expired {
            return Ok(());
        }
        Err(CommitError::Refused {
            table: table.name.clone(),
            reason: "its branches or tags have changed meanwhile; publish again".to_owned(),
        })
    }

    /// Removes the completion record of each old publication of which a table loses its tag, unless the
    /// record has no such table. `expired` has the removed publications of each Iceberg table. Returns the
    /// sections of the records: until they are dropped, no other publication writes one of these records.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub(super) fn forget_expired(&self, expired: &[Expired]) -> Result<Vec<Section>, TargetError> {
        let mut tables_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (table, expired) in self.tables.iter().zip(expired) {
            for tag in &expired.tags {
                tables_of.entry(tag).or_default().push(&table.name);
            }
        }
        let mut sections = Vec::new();
        // In the order of the tags: two publications that enter the same sections in different orders would
        // wait for each other for ever.
        for (tag, tables) in tables_of {
            let records = self.records.of_snapshot(tag);
            sections.push(section::enter(records.whole_location(&self.target)));
            let whole = records.whole(&self.target)?;
            // A record that cannot be read is removed, too.
            let stays_true =
                whole.is_some_and(|whole| !tables.iter().any(|table| whole.has(table)));
            if !stays_true {
                records.forget_whole(&self.target)?;
            }
        }
        Ok(sections)
    }
}
