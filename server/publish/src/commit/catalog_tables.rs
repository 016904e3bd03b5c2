//! Metadata in a REST catalog, which writes it.
//!
//! The number of a commit is the sequence number of its snapshot, so it grows with each snapshot of
//! any engine. A catalog refuses a snapshot whose number is not above those before it: objects that were made for a
//! number that the table has can no longer be committed. (Catalogs let a snapshot without a parent pass. A table
//! has one from its creation on, unless another engine removes `main`.)

use super::commit_place::CommitPlace;
use super::error::CommitError;
use super::metadata_store::{MetadataStore, Newest};
use super::names::version_of;
use super::properties::EPOCH;
use crate::catalog::RestCatalog;
use crate::iceberg::commit_request::CommitRequest;
use crate::iceberg::metadata::{TableMetadata, is_metadata_file};
use crate::target::{Target, TargetError};

#[cfg(test)]
mod tests;

/// A store of table metadata in the REST catalog `catalog`. All other objects of the tables are in `target`.
pub(super) struct CatalogTables<'t> {
    pub(super) target: &'t Target,
    pub(super) catalog: &'t RestCatalog,
}

impl MetadataStore for CatalogTables<'_> {
    fn newest(&self, table: &str) -> Result<Option<Newest>, CommitError> {
        let Some(found) = self.catalog.load(table)? else {
            self.check_is_free(table)?;
            return Ok(None);
        };
        self.check_location(table, &found.metadata.location)?;
        self.check_is_own(table)?;
        Ok(Some(Newest {
            version: u64::try_from(found.metadata.last_sequence_number).unwrap_or(0),
            location: found.metadata_location.unwrap_or_default(),
            metadata: found.metadata,
        }))
    }

    fn replace(
        &self,
        table: &str,
        before: Option<&Newest>,
        mut next: TableMetadata,
    ) -> Result<(), CommitError> {
        let change = match before {
            Some(before) => {
                // Between the read and this commit another engine may have set how long it keeps a branch or a
                // tag. The protocol has no requirement for that, so it is read once more, right before the
                // commit that would set it back.
                let now = self.newest(table)?;
                let now = now.ok_or_else(|| CommitError::overtaken(table))?;
                next.take_retention(&now.metadata);
                // Nor is there a requirement that no new branch or tag names a snapshot that the commit removes.
                if loses_named(&before.metadata, &now.metadata, &next) {
                    return Err(CommitError::overtaken(table));
                }
                self.place().take(table)?;
                CommitRequest::update(&before.metadata, &next)
            }
            None => {
                let staged = self.catalog.stage(table, &next)?;
                let staged = staged.ok_or_else(|| CommitError::overtaken(table))?;
                self.check_location(table, &staged.location)?;
                // A table that the catalog does not take stays free for other places.
                self.place().take(table)?;
                next.table_uuid = staged.table_uuid;
                for (name, value) in staged.properties {
                    next.properties.entry(name).or_insert(value);
                }
                CommitRequest::create(&next)
            }
        };
        // A later commit keeps the new snapshot, but not the epoch.
        let before = before.map(|before| &before.metadata);
        let is_new = |id: &i64| before.is_none_or(|before| !before.has_snapshot(*id));
        let added = next.snapshots.last().map(|added| added.snapshot_id);
        let added = added.filter(is_new);
        let has_change = |found: &TableMetadata| match added {
            Some(id) => found.has_snapshot(id),
            None => found.properties.get(EPOCH) == next.properties.get(EPOCH),
        };
        if self.catalog.commit(table, &change, has_change)? {
            Ok(())
        } else {
            Err(CommitError::overtaken(table))
        }
    }

    fn mend_hint(&self, _table: &str, _newest: &Newest) -> Result<(), TargetError> {
        Ok(())
    }
}

impl CatalogTables<'_> {
    /// Checks that a table that is absent from the catalog can be created in the target.
    ///
    /// # Errors
    /// If the table has a mark in the target (the object that records where it is committed), and
    /// the mark names another catalog or no catalog. If the target has metadata of the table but no
    /// mark. If a request to the target fails.
    fn check_is_free(&self, table: &str) -> Result<(), CommitError> {
        let objects = self.target.list(&format!("{table}/metadata"))?;
        let is_own = self.place().is_taken(table)?;
        if !is_own && objects.iter().any(|object| is_metadata_file(object)) {
            return refuse(
                table,
                "the target has metadata of the table that the catalog does not know; choose another target"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Checks that a table that the catalog has is also committed by it. Users may register a table
    /// that is committed in another place.
    ///
    /// # Errors
    /// If the table has a mark in the target, and the mark names another catalog or no catalog. If
    /// the table has no mark, but metadata under names that ebb gives it without a catalog: an
    /// earlier build of ebb, which wrote no marks, committed the table. If a request to the target
    /// fails.
    fn check_is_own(&self, table: &str) -> Result<(), CommitError> {
        if self.place().is_taken(table)? {
            return Ok(());
        }
        let objects = self.target.list(&format!("{table}/metadata"))?;
        if objects.iter().any(|object| version_of(object).is_some()) {
            return refuse(
                table,
                "the table is committed without a catalog; publish without --catalog, or choose another target"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn place(&self) -> CommitPlace<'_> {
        CommitPlace {
            target: self.target,
            catalog: Some(self.catalog.url()),
        }
    }

    /// Checks that `location`, the folder that the catalog has for a table, is the table's folder in the
    /// target.
    fn check_location(&self, table: &str, location: &str) -> Result<(), CommitError> {
        let own = self.target.url(table);
        // Some catalogs write the locations of files with one slash.
        let place = |url: &str| {
            let url = url.trim_end_matches('/');
            url.strip_prefix("file:").map_or_else(
                || url.to_owned(),
                |path| format!("file:/{}", path.trim_start_matches('/')),
            )
        };
        if place(location) == place(&own) {
            return Ok(());
        }
        refuse(
            table,
            format!(
                "the catalog has the table at {location}, and the target has it at {own}; choose the target \
                 or the catalog that fits"
            ),
        )
    }
}

/// Returns whether a branch or a tag that another engine has made or moved since the metadata `before` was read
/// names a snapshot that `next` removes. `now` is the metadata right before the commit.
fn loses_named(before: &TableMetadata, now: &TableMetadata, next: &TableMetadata) -> bool {
    let mut changed = now
        .refs
        .iter()
        .filter(|&(name, named)| before.refs.get(name) != Some(named));
    changed.any(|(name, named)| {
        let id = named.snapshot_id;
        let is_removed = before.has_snapshot(id) && !next.has_snapshot(id);
        // Only the settings of a tag that is removed, too, may have changed.
        let has_moved = before.refs.get(name).map(|before| before.snapshot_id) != Some(id);
        is_removed && has_moved
    })
}

fn refuse<T>(table: &str, reason: String) -> Result<T, CommitError> {
    Err(CommitError::Refused {
        table: table.to_owned(),
        reason,
    })
}
