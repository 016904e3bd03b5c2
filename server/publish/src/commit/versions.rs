//! Metadata in the target itself: the newest of the objects `vN.metadata.json` of a table, and the object
//! that names it for readers that cannot list.
//!
//! The creation of `vN.metadata.json` commits version N, because a name is created once. But
//! [`sweep()`](super::sweep()) removes old ones. A publisher that pauses for longer than that takes, between reading
//! the table and its commit, can create a name again; it finds this out right after, and removes the object.

use super::commit_place::CommitPlace;
use super::error::CommitError;
use super::metadata_store::{MetadataStore, Newest};
use super::names::{metadata_name, version_of};
use crate::iceberg::metadata::{TableMetadata, is_metadata_file};
use crate::target::{Target, TargetError};

/// The store of metadata in the target itself: for each version of a table an object `vN.metadata.json`.
#[derive(Debug)]
pub(super) struct Versions<'t> {
    pub(super) target: &'t Target,
}

impl MetadataStore for Versions<'_> {
    fn newest(&self, table: &str) -> Result<Option<Newest>, CommitError> {
        let objects = self.target.list(&format!("{table}/metadata"))?;
        self.place().is_taken(table)?;
        let is_foreign = |object: &String| is_metadata_file(object) && version_of(object).is_none();
        if let Some(foreign) = objects.iter().find(|object| is_foreign(object)) {
            return Err(CommitError::Refused {
                table: table.to_owned(),
                reason: format!(
                    "the target has a table of this name that ebb did not publish, with {foreign}; choose \
                     another target"
                ),
            });
        }
        let Some(version) = newest_of(&objects) else {
            return Ok(None);
        };
        Ok(Some(Newest {
            version,
            location: self.target.url(&metadata_name(table, version)),
            metadata: self.read(table, version)?,
        }))
    }

    fn replace(
        &self,
        table: &str,
        before: Option<&Newest>,
        next: TableMetadata,
    ) -> Result<(), CommitError> {
        self.place().take(table)?;
        let version = before.map_or(0, |before| before.version) + 1;
        let name = metadata_name(table, version);
        let bytes = next.encode().map_err(|error| CommitError::Metadata {
            name: name.clone(),
            error,
        })?;
        if !self.target.create(&name, bytes.into())? {
            return Err(CommitError::overtaken(table));
        }
        if self.is_too_late(table, version, &next.table_uuid)? {
            self.target.remove(&name)?;
            return Err(CommitError::overtaken(table));
        }
        Ok(write_hint(self.target, table, version)?)
    }

    fn mend_hint(&self, table: &str, newest: &Newest) -> Result<(), TargetError> {
        write_hint(self.target, table, newest.version)
    }
}

impl Versions<'_> {
    fn place(&self) -> CommitPlace<'_> {
        CommitPlace {
            target: self.target,
            catalog: None,
        }
    }

    /// Returns whether the metadata file of `version`, which was just created, had been there before and was removed:
    /// whether many publishers have committed since this one read the table. `table_uuid` is the identity of the
    /// table in the new file.
    ///
    /// [`sweep()`](super::sweep()) removes the oldest files first. So while the file before this one is there, this one
    /// was not removed. The first file has none before it; its publisher has chosen the identity of the table.
    fn is_too_late(
        &self,
        table: &str,
        version: u64,
        table_uuid: &str,
    ) -> Result<bool, CommitError> {
        let objects = self.target.list(&format!("{table}/metadata"))?;
        let newest = newest_of(&objects).unwrap_or(version);
        if newest <= version {
            return Ok(false);
        }
        if version > 1 {
            let is_before = |object: &String| version_of(object) == Some(version - 1);
            return Ok(!objects.iter().any(is_before));
        }
        Ok(self.read(table, newest)?.table_uuid != table_uuid)
    }

    /// Reads the metadata file of a version.
    fn read(&self, table: &str, version: u64) -> Result<TableMetadata, CommitError> {
        let name = metadata_name(table, version);
        let bytes = self.target.read(&name)?.unwrap_or_default();
        TableMetadata::decode(&bytes).map_err(|error| CommitError::Metadata { name, error })
    }
}

/// Returns the greatest version N for which `objects` contains a name `vN.metadata.json`; `None` if there
/// is none.
fn newest_of(objects: &[String]) -> Option<u64> {
    objects.iter().filter_map(|object| version_of(object)).max()
}

/// Writes `version` into the version hint. Publishers write the hint in any order. So each looks afterwards
/// whether a newer version exists by now, and then writes that version: the last write leaves the newest one.
fn write_hint(target: &Target, table: &str, mut version: u64) -> Result<(), TargetError> {
    let hint = format!("{table}/metadata/version-hint.text");
    loop {
        target.replace(&hint, version.to_string().into())?;
        match newest_of(&target.list(&format!("{table}/metadata"))?) {
            Some(newer) if newer > version => version = newer,
            _ => return Ok(()),
        }
    }
}
