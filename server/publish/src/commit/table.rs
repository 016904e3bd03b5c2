//! A table in a target, and the commit of a publication of it.

use super::error::CommitError;
use super::hint::{newest_version, write_hint};
use super::live::{LiveFile, live_files};
use super::manifests::{MetadataReader, ReadManifest};
use super::origin::Origin;
use super::publication::{Base, Decision, Publication, Stamp};
use crate::iceberg::metadata::TableMetadata;
use crate::target::{Target, TargetError};
use crate::types::NestedField;

/// A table in a target, with its newest metadata.
#[derive(Debug)]
pub struct PublishedTable<'t> {
    target: &'t Target,
    /// The folder in the target.
    name: String,
    version: u64,
    metadata: Option<TableMetadata>,
}

impl<'t> PublishedTable<'t> {
    /// Reads the newest metadata of the table `name`, which may not be there yet.
    ///
    /// # Errors
    /// If the target refuses, or if the metadata is damaged.
    pub fn open(target: &'t Target, name: &str) -> Result<Self, CommitError> {
        let version = newest_version(target, name)?;
        let metadata = match version {
            None => None,
            Some(version) => {
                let root = format!("{name}/metadata/v{version}.metadata.json");
                let bytes = target.read(&root)?.unwrap_or_default();
                let metadata = TableMetadata::decode(&bytes);
                Some(metadata.map_err(|error| CommitError::Metadata {
                    table: name.to_owned(),
                    error,
                })?)
            }
        };
        Ok(Self {
            target,
            name: name.to_owned(),
            version: version.unwrap_or(0),
            metadata,
        })
    }

    /// Returns the newest metadata, if there is any.
    pub(super) fn metadata(&self) -> Option<&TableMetadata> {
        self.metadata.as_ref()
    }

    /// Returns the columns of the newest publication, and the greatest field id that was given out.
    pub fn columns(&self) -> (Vec<NestedField>, i32) {
        let metadata = self.metadata.as_ref();
        let columns = metadata.and_then(TableMetadata::columns);
        (
            columns.unwrap_or_default(),
            metadata.map_or(0, |m| m.last_column_id),
        )
    }

    /// Returns the version of the newest metadata; 0 if there is none.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns a property of the table.
    pub fn property(&self, name: &str) -> Option<&str> {
        let properties = &self.metadata.as_ref()?.properties;
        properties.get(name).map(String::as_str)
    }

    /// Returns what the newest publication was made from; `None` if there is none, or if ebb did not make it.
    pub fn origin(&self) -> Option<Origin> {
        Origin::newest(self.metadata.as_ref()?)
    }

    /// Reads which data files the newest publication has, and which files of deletes.
    ///
    /// # Errors
    /// If the target refuses, if a manifest is damaged, or if another engine has written deletes.
    pub fn live_files(&self) -> Result<Vec<LiveFile>, CommitError> {
        let files = live_files(&self.manifests()?);
        files.map_err(|reason| CommitError::Refused {
            table: self.name.clone(),
            reason,
        })
    }

    /// Reads the manifests of the newest publication.
    pub(super) fn manifests(&self) -> Result<Vec<ReadManifest>, CommitError> {
        let newest = self.metadata.as_ref().and_then(TableMetadata::newest);
        let reader = MetadataReader {
            target: self.target,
            table: &self.name,
        };
        newest.map_or(Ok(Vec::new()), |snapshot| reader.manifests(snapshot))
    }

    /// Returns whether the tag names this snapshot already. `replaces_tag` is true if a tag that names
    /// another snapshot may move.
    ///
    /// # Errors
    /// If the table must not be continued.
    pub fn is_published(&self, origin: &Origin, replaces_tag: bool) -> Result<bool, CommitError> {
        let is_published = origin.is_published(self.metadata.as_ref(), replaces_tag);
        is_published.map_err(|error| error.of(&self.name))
    }

    /// Checks that `version` is still the version of the newest metadata.
    ///
    /// # Errors
    /// If another publisher committed meanwhile.
    pub fn check_version(&self, version: u64) -> Result<(), CommitError> {
        if self.version == version {
            Ok(())
        } else {
            Err(CommitError::overtaken(&self.name))
        }
    }

    /// Makes the hint name the newest version: the publisher that committed it may have ended before it
    /// wrote the hint.
    ///
    /// # Errors
    /// If the target refuses.
    pub fn mend_hint(&self) -> Result<(), TargetError> {
        write_hint(self.target, &self.name, self.version)
    }

    /// Commits. Returns false if the tag named this snapshot already, and then mends the hint.
    ///
    /// # Errors
    /// If the table must not be continued, if another publisher committed meanwhile, or if the target
    /// refuses. Whether the publication is there is unknown if only the last call failed.
    pub fn commit(self, publication: &Publication, stamp: &Stamp) -> Result<bool, CommitError> {
        let location = self.target.url(&self.name);
        let base = match publication.base {
            Base::Replaced => Vec::new(),
            Base::Kept { .. } => self.manifests()?,
        };
        let decided = publication.decide(&location, self.version, self.metadata, &base, stamp);
        let objects = match decided.map_err(|error| error.of(&self.name))? {
            Decision::IsPublished => {
                write_hint(self.target, &self.name, self.version)?;
                return Ok(false);
            }
            Decision::Write(objects) => objects,
        };
        for object in objects {
            let name = format!("{}/{}", self.name, object.name);
            if !self.target.create(&name, object.bytes)? {
                return Err(CommitError::overtaken(&self.name));
            }
        }
        write_hint(self.target, &self.name, self.version + 1)?;
        Ok(true)
    }
}
