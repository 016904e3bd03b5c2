//! A table in a target, and the commit of a publication of it.

use std::fmt;

use super::carried::Removed;
use super::error::CommitError;
use super::expiry::{Coming, Expired, Retention};
use super::live::{LiveFile, live_files};
use super::manifests::{MetadataReader, ReadManifest};
use super::metadata_store::{MetadataStore, Newest};
use super::origin::Origin;
use super::properties::EPOCH;
use super::publication::{Base, Change, Decision, Publication, Stamp};
use super::rights::Rights;
use super::versions::Versions;
use crate::iceberg::manifest::ManifestEntry;
use crate::iceberg::metadata::{FORMAT_VERSION, TableMetadata};
use crate::target::{Target, TargetError};
use crate::types::NestedField;

/// A table in a target, with its newest metadata as it was when the table was opened.
pub struct PublishedTable<'t> {
    target: &'t Target,
    store: Box<dyn MetadataStore + 't>,
    /// The name of the table: its folder in the target.
    name: String,
    newest: Option<Newest>,
}

impl fmt::Debug for PublishedTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublishedTable")
            .field("target", self.target)
            .field("name", &self.name)
            .field("newest", &self.newest)
            .finish_non_exhaustive()
    }
}

impl<'t> PublishedTable<'t> {
    /// Reads the newest metadata of the table `name`, which need not exist yet.
    ///
    /// # Errors
    /// If a request to the target or its catalog fails, if the metadata is damaged or of another format, if the
    /// target has metadata files that another engine named or that the catalog does not know, or if the table is
    /// committed in another place.
    pub fn open(target: &'t Target, name: &str) -> Result<Self, CommitError> {
        let store = store_of(target);
        let newest = store.newest(name)?;
        if let Some(newest) = &newest {
            check_continues(name, newest)?;
        }
        Ok(Self {
            target,
            store,
            name: name.to_owned(),
            newest,
        })
    }

    /// Returns the newest metadata; `None` if the table does not exist yet.
    pub(super) fn metadata(&self) -> Option<&TableMetadata> {
        self.newest.as_ref().map(|newest| &newest.metadata)
    }

    /// Returns the place of the newest metadata: its name in the target, or its location if a catalog has put
    /// it elsewhere. `None` if there is none.
    pub fn metadata_place(&self) -> Option<&str> {
        let location = &self.newest.as_ref()?.location[..];
        Some(self.target.name(location).unwrap_or(location))
    }

    /// Returns the columns of the newest publication, and the greatest field id that was assigned so far.
    /// There are no columns if the table does not exist yet, or if another engine gave it a type that ebb
    /// does not publish.
    pub fn columns(&self) -> (Vec<NestedField>, i32) {
        let metadata = self.metadata();
        let columns = metadata.and_then(TableMetadata::columns);
        (
            columns.unwrap_or_default(),
            metadata.map_or(0, |m| m.last_column_id),
        )
    }

    /// Returns the version of the newest metadata; 0 if there is none.
    pub fn version(&self) -> u64 {
        self.newest.as_ref().map_or(0, |newest| newest.version)
    }

    /// Returns the id of the snapshot that `main` names, which becomes the parent of the next publication;
    /// `None` if there is none.
    pub fn snapshot_id(&self) -> Option<i64> {
        self.metadata()?.current_snapshot_id
    }

    pub fn property(&self, name: &str) -> Option<&str> {
        let properties = &self.metadata()?.properties;
        properties.get(name).map(String::as_str)
    }

    /// Returns the entry `name` in the summary of the snapshot that `main` names. If it lacks the entry, returns the
    /// property of the table with this name: earlier builds of ebb wrote no such entries.
    pub fn main_entry(&self, name: &str) -> Option<&str> {
        let newest = self.metadata()?.newest();
        let entry = newest.and_then(|newest| newest.summary.get(name));
        entry.map(String::as_str).or_else(|| self.property(name))
    }

    /// Returns the epoch of the newest commit by ebb (see [`Rights`]); `None` if there is none, or if an earlier
    /// build of ebb made it.
    pub fn epoch(&self) -> Option<&str> {
        self.property(EPOCH)
    }

    /// Returns the snapshot and the table from which the newest publication was made, which `main` names; `None`
    /// if there is no publication, if ebb did not make it, or if it is from before the table was taken over.
    pub fn origin(&self) -> Option<Origin> {
        Origin::newest(self.metadata()?)
    }

    /// Returns whether this table was published from the database's table that `origin` names, at any snapshot.
    /// With `takes_over`, the same table of another database counts, too.
    pub fn is_of_table(&self, origin: &Origin, takes_over: bool) -> bool {
        self.metadata()
            .is_some_and(|metadata| origin.has_published(metadata, takes_over))
    }

    /// Reads the list of the data files of the newest publication, each with its delete files; empty if there
    /// is no publication.
    ///
    /// # Errors
    /// If a request to the target fails, if a manifest is damaged or lies outside the target, or if another
    /// engine has written deletes.
    pub fn live_files(&self) -> Result<Vec<LiveFile>, CommitError> {
        let files = live_files(&self.manifests(|_| false)?);
        files.map_err(|reason| CommitError::Refused {
            table: self.name.clone(),
            reason,
        })
    }

    /// Reads the manifests of the newest publication; none if there is no publication. The entries of a
    /// manifest have the statistics of columns only if `is_changed` returns true for one of them.
    pub(super) fn manifests(
        &self,
        is_changed: impl Fn(&ManifestEntry) -> bool,
    ) -> Result<Vec<ReadManifest>, CommitError> {
        let newest = self.metadata().and_then(TableMetadata::newest);
        let reader = MetadataReader {
            target: self.target,
            table: &self.name,
        };
        newest.map_or(Ok(Vec::new()), |snapshot| {
            reader.manifests(snapshot, is_changed)
        })
    }

    /// Returns whether the database's snapshot `origin` is published already: whether the table has
    /// a tag with its name, and the tag names an Iceberg snapshot that was made from it. `main` may
    /// still name an earlier one. `rights` are those of the publisher; nothing is published yet in a
    /// table that it takes over.
    ///
    /// # Errors
    /// If the snapshot must not be published into the table, for example because the table came
    /// from another database or another engine changed it, or because the tag names another
    /// snapshot and may not move.
    pub fn is_published(&self, origin: &Origin, rights: &Rights) -> Result<bool, CommitError> {
        let is_published = origin.is_published(self.metadata(), rights);
        is_published.map_err(|error| error.of(&self.name))
    }

    /// Returns whether a publication of `origin` takes this table over from another database, or from another
    /// copy of the database.
    ///
    /// # Errors
    /// If the table must not be published to, for example because the publisher with these rights does not take
    /// tables over.
    pub fn is_taken_over(&self, origin: &Origin, rights: &Rights) -> Result<bool, CommitError> {
        let metadata = self.metadata();
        let takes_over = metadata.map(|metadata| origin.takes_over(rights, metadata));
        let takes_over = takes_over.unwrap_or(Ok(false));
        takes_over.map_err(|error| error.of(&self.name))
    }

    /// Returns whether `main` is still to be moved to the publication of `origin`: whether the publication has
    /// its tag, and `main` names an earlier one, or nothing.
    pub fn is_main_behind(&self, origin: &Origin) -> bool {
        self.metadata()
            .is_some_and(|metadata| origin.ahead_of_main(metadata).is_some())
    }

    /// Checks that the table, as it was when it was opened, has the version `version` and the newest snapshot
    /// `snapshot_id`: the caller has read both earlier. The snapshot is compared, too, because in a catalog
    /// another engine may set `main` back to an earlier snapshot, which does not change the version.
    ///
    /// # Errors
    /// If another publisher committed meanwhile, or if `main` was set back.
    pub fn check_is_at(&self, version: u64, snapshot_id: Option<i64>) -> Result<(), CommitError> {
        if self.version() == version && self.snapshot_id() == snapshot_id {
            Ok(())
        } else {
            Err(CommitError::overtaken(&self.name))
        }
    }

    /// Returns whether the table has a tag, or a branch, of this name.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.metadata()
            .is_some_and(|metadata| metadata.refs.contains_key(tag))
    }

    /// Returns the publications that the commits of a publication of `origin` still remove from the table, as it
    /// was when it was opened, by the rule `retention`. There are none if the snapshot is published and `main`
    /// stays. `now_ms` is the time of the commit's [`Stamp`].
    ///
    /// # Errors
    /// Those of [`is_published`](Self::is_published).
    pub fn expired(
        &self,
        origin: &Origin,
        rights: &Rights,
        retention: &Retention,
        now_ms: i64,
    ) -> Result<Expired, CommitError> {
        let is_published = self.is_published(origin, rights)?;
        let takes_over = self.is_taken_over(origin, rights)?;
        let Some(metadata) = self.metadata() else {
            return Ok(Expired::default());
        };
        let ahead = origin.ahead_of_main(metadata);
        if is_published && ahead.is_none() {
            return Ok(Expired::default());
        }
        let published = ahead.filter(|_| is_published);
        let coming = Coming {
            tag: &origin.snapshot,
            published: published.map(|published| published.snapshot_id),
            moves_main: is_published || origin.leads(metadata, takes_over),
        };
        Ok(retention.expired(metadata, &coming, now_ms))
    }

    /// Makes the version hint name the newest version: the publisher of that version may have ended before it wrote
    /// the hint. With a catalog there is no hint.
    ///
    /// # Errors
    /// If a request to the target fails.
    pub fn mend_hint(&self) -> Result<(), TargetError> {
        let newest = self.newest.as_ref();
        newest.map_or(Ok(()), |newest| self.store.mend_hint(&self.name, newest))
    }

    /// Commits a publication, and returns true. If the snapshot is published already, commits
    /// nothing and returns false. In this case it only writes the version hint again, which is out
    /// of date if an earlier publisher was killed right after its commit.
    ///
    /// # Errors
    /// If the publication must not be committed to the table, if another publisher committed
    /// meanwhile, or if a request to the target or its catalog fails. If only the last request, the
    /// commit itself, failed, the commit may have taken effect all the same.
    pub fn commit(self, publication: &Publication, stamp: &Stamp) -> Result<bool, CommitError> {
        let location = self.target.url(&self.name);
        let base = match publication.base {
            Base::Replaced => Vec::new(),
            Base::Kept { ref removed_files } => {
                let removed = Removed::new(removed_files);
                self.manifests(|entry| removed.contains(&entry.data_file))?
            }
        };
        let decided = publication.decide(&location, self.version(), self.metadata(), &base, stamp);
        let change = match decided.map_err(|error| error.of(&self.name))? {
            Decision::IsPublished => {
                self.mend_hint()?;
                return Ok(false);
            }
            Decision::Write(change) => change,
        };
        let Change { objects, metadata } = *change;
        for object in objects {
            let name = format!("{}/{}", self.name, object.name);
            if !self.target.create(&name, object.bytes)? {
                return Err(CommitError::overtaken(&self.name));
            }
        }
        self.store
            .replace(&self.name, self.newest.as_ref(), metadata)?;
        Ok(true)
    }

    /// Makes `main` name the publication of `origin`, which has its tag already, and removes old publications by the
    /// rule `retention`. Returns false, and changes nothing, if `main` names it or a later publication. The time
    /// and the epoch of `stamp` count.
    ///
    /// # Errors
    /// If the table must not be published to, if another publisher committed meanwhile, or if a request to
    /// the target or its catalog fails. If only the last request failed, the commit may have taken effect.
    pub fn move_main(
        self,
        origin: &Origin,
        rights: &Rights,
        retention: Option<&Retention>,
        stamp: &Stamp,
    ) -> Result<bool, CommitError> {
        if !self.is_published(origin, rights)? {
            return Ok(false);
        }
        let metadata = self.metadata();
        let next =
            metadata.and_then(|metadata| origin.move_main(metadata, retention, stamp.now_ms));
        let Some(mut next) = next else {
            return Ok(false);
        };
        next.properties
            .insert(EPOCH.to_owned(), stamp.epoch.clone());
        self.store.replace(&self.name, self.newest.as_ref(), next)?;
        Ok(true)
    }
}

/// Checks that a publication can continue a table. Another engine may have changed the table to a
/// format that ebb does not write, or the metadata may be damaged: an id or sequence number so
/// large that there is no next one.
fn check_continues(table: &str, newest: &Newest) -> Result<(), CommitError> {
    let metadata = &newest.metadata;
    let format = metadata.format_version;
    let have_room = newest.version < u64::MAX
        && (0..i64::MAX).contains(&metadata.last_sequence_number)
        && (0..i32::MAX / 2).contains(&metadata.last_column_id)
        && (0..i32::MAX).contains(&metadata.last_schema_id().unwrap_or(0));
    let reason = if format != FORMAT_VERSION {
        format!("it has Iceberg's format {format}, and ebb writes format {FORMAT_VERSION}")
    } else if !have_room {
        "its version, sequence number, field id or schema id is out of range".to_owned()
    } else {
        return Ok(());
    };
    Err(CommitError::Refused {
        table: table.to_owned(),
        reason: format!("{reason}; choose another target"),
    })
}

/// Returns the store of the metadata of a target's tables: its catalog, if it has one, or the target itself.
fn store_of(target: &Target) -> Box<dyn MetadataStore + '_> {
    #[cfg(feature = "s3")]
    if let Some(catalog) = target.catalog() {
        return Box::new(super::catalog_tables::CatalogTables { target, catalog });
    }
    Box::new(Versions { target })
}
