//! A publication of one table, and the objects that make it a snapshot of the Iceberg table.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::carried::{NextManifest, Removed, carry, listed};
use super::error::DecisionError;
use super::expiry::{Coming, Expired, Retention};
use super::manifests::ReadManifest;
use super::names::own_name;
use super::origin::Origin;
use super::properties::{EPOCH, TAKEN_OVER_AT};
use super::rights::Rights;
use super::settled::Settled;
use super::summary::{Changes, Totals};
use crate::iceberg::manifest::{self, Content, DataFile, ManifestEntry, ROWS};
use crate::iceberg::manifest_list::{self, ListOwner};
use crate::iceberg::metadata::{Snapshot, TableMetadata};
use crate::types::NestedField;

/// A snapshot of a database table, as it is committed to the Iceberg table.
#[derive(Debug, Clone)]
pub struct Publication {
    /// The snapshot and the table of the database.
    pub origin: Origin,
    /// The columns of the Iceberg table, with their field ids.
    pub columns: Vec<NestedField>,
    /// The greatest field id that the Iceberg table has assigned so far, to columns or fields inside of them.
    pub last_column_id: i32,
    /// The files of the newest publication that the new snapshot keeps.
    pub base: Base,
    /// The data files that this publication adds. Together with the kept data files, they contain all rows of
    /// the snapshot.
    pub files: Vec<DataFile>,
    /// The positional delete files that this publication adds. They name rows of kept data files.
    pub deletes: Vec<DataFile>,
    /// The rights of the publisher in the table.
    pub rights: Rights,
    /// True if the commit also makes `main` name the new snapshot, unless `main` names a later publication. If it
    /// is false, the commit adds only the tag, and [`PublishedTable::move_main`](super::PublishedTable::move_main)
    /// does the rest once all tables of the publication have their tags.
    pub moves_main: bool,
    /// The rule by which old publications are removed; `None` if all of them are kept. They are removed by the
    /// commit that moves `main`, or by this one if `main` stays at a later publication.
    pub retention: Option<Retention>,
    /// The version at which [`sweep_unsettled`](super::sweep_unsettled) has swept the table for this publication;
    /// `None` if it has not, or has not ended.
    pub swept: Option<u64>,
    /// The table properties that the commit sets for the caller, in addition to those of the commit itself
    /// (the origin, the epoch, the settled versions, and `gc.enabled`).
    pub properties: BTreeMap<String, String>,
    /// The entries of the snapshot's summary that the commit sets for the caller.
    pub entries: BTreeMap<String, String>,
}

/// The files of the newest publication that the new snapshot keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// All data is written anew: the new snapshot has no file of the newest publication.
    Replaced,
    /// The new snapshot keeps the files of the newest publication, except for the removed ones.
    Kept {
        /// The locations of the files that the new snapshot does not keep, because new files replace them:
        /// data files and delete files. All delete files of a removed data file are removed with it.
        removed_files: Vec<String>,
    },
}

/// The time and the new ids for a publication. The caller provides them, so that equal inputs give equal
/// metadata.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// Milliseconds since 1970.
    pub now_ms: i64,
    /// The id of the new snapshot. Greater than zero.
    pub snapshot_id: i64,
    /// The identity of the table. Used only by the first publication of the table.
    pub table_uuid: String,
    /// The epoch of the commit: a random text. The database has recorded it already (see [`Rights`]).
    pub epoch: String,
}

/// The result of planning a publication of a table.
#[derive(Debug)]
pub(super) enum Decision {
    /// No commit is necessary: the tag already names this publication.
    IsPublished,
    /// A new snapshot is to be committed.
    Write(Box<Change>),
}

/// A commit of an Iceberg table that is planned, but not yet written.
#[derive(Debug)]
pub(super) struct Change {
    /// The objects to write. No snapshot names them before the commit.
    pub(super) objects: Vec<Object>,
    /// The metadata that names the written objects. The commit makes it the newest of the table.
    pub(super) metadata: TableMetadata,
}

/// An object to write. Its name is relative to the folder of the table.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) bytes: Bytes,
}

impl Publication {
    /// Plans the next commit of a table: its metadata and the other objects that it needs. `previous` is the
    /// newest metadata and `version` its version; `None` and 0 if the table does not exist yet. `location` is
    /// the folder of the table. `base` are the manifests of the newest publication; they may be empty if this
    /// publication replaces all files. `stamp` has the time and the new ids.
    ///
    /// # Errors
    /// If the publication must not be committed to the table. The error is the reason.
    pub(super) fn decide(
        &self,
        location: &str,
        version: u64,
        previous: Option<&TableMetadata>,
        base: &[ReadManifest],
        stamp: &Stamp,
    ) -> Result<Decision, DecisionError> {
        // A snapshot that is published again writes nothing.
        if self.origin.is_published(previous, &self.rights)? {
            return Ok(Decision::IsPublished);
        }
        let takes_over = match previous {
            Some(previous) => self.origin.takes_over(&self.rights, previous)?,
            None => false,
        };
        let leads = previous.is_none_or(|previous| self.origin.leads(previous, takes_over));
        let next = self.manifests(previous, base, stamp.snapshot_id);
        let (changes, manifests) = next.map_err(DecisionError)?;
        // The first publication appends: there is nothing to replace.
        let is_replaced = previous.is_some() && self.base == Base::Replaced;
        let version = version + 1;
        // Continued, not made anew: it keeps the schemas and properties, and the snapshots that do not
        // expire, of earlier publications and of other engines.
        let mut metadata = previous
            .cloned()
            .unwrap_or_else(|| TableMetadata::new(stamp.table_uuid.clone(), location.to_owned()));
        let expired = self.expired(previous, leads, stamp.now_ms);
        // Without `main`, the newest snapshot: catalogs do not check the sequence number of one without a parent.
        let newest = metadata
            .snapshots
            .iter()
            .max_by_key(|of| of.sequence_number);
        let newest = newest.map(|newest| newest.snapshot_id);
        let parent_snapshot_id = metadata.current_snapshot_id.or(newest);
        let sequence_number = metadata.last_sequence_number + 1;
        metadata.properties.extend(self.properties());
        let epoch = (EPOCH.to_owned(), stamp.epoch.clone());
        let settled = Settled::of(&metadata).next(self.swept, &expired);
        metadata.properties.extend([epoch, settled.property()]);
        if takes_over {
            let before = metadata.last_sequence_number.to_string();
            let taken_over_at = (TAKEN_OVER_AT.to_owned(), before);
            metadata.properties.extend([taken_over_at]);
        }
        // Before the manifests, which contain the schema.
        let schema_id = metadata.add_schema(&self.columns, self.last_column_id);
        if metadata.current_snapshot_id.is_none() {
            metadata.current_schema_id = schema_id;
        }
        // `add_schema` has returned its id, so the default does not occur.
        let schema = metadata.schema_of(schema_id).cloned().unwrap_or_default();

        // The names contain the id of the snapshot, so that another publisher of the same version
        // does not overwrite these objects.
        let id = stamp.snapshot_id;
        let own = own_name(version, &id.to_string());
        let (mut objects, mut list) = (Vec::new(), Vec::new());
        for next in manifests {
            match next {
                NextManifest::Carried(manifest) => list.push(manifest),
                NextManifest::Written { content, entries } => {
                    let object = Object::metadata(
                        format!("{own}-m{}.avro", objects.len()),
                        manifest::encode(&entries, &schema, content),
                    );
                    let place = (format!("{location}/{}", object.name), object.bytes.len());
                    list.push(listed(place, content, &entries, id, sequence_number));
                    objects.push(object);
                }
            }
        }
        let owner = ListOwner {
            snapshot_id: id,
            parent_snapshot_id,
            sequence_number,
        };
        let list = Object::metadata(
            format!("{own}-list.avro"),
            manifest_list::encode(&list, owner),
        );
        let snapshot = Snapshot {
            snapshot_id: id,
            parent_snapshot_id,
            sequence_number,
            // Readers expect times that do not go back, whatever clock another publisher had.
            timestamp_ms: stamp.now_ms.max(metadata.last_updated_ms),
            manifest_list: format!("{location}/{}", list.name),
            summary: self.summary(&changes, is_replaced),
            schema_id,
        };
        if leads && self.moves_main {
            metadata.add_snapshot(snapshot, &self.origin.snapshot);
        } else {
            metadata.add_tagged(snapshot, &self.origin.snapshot);
        }
        metadata.remove_snapshots(&expired.ids(), &expired.tags);
        objects.push(list);
        Ok(Decision::Write(Box::new(Change { objects, metadata })))
    }

    /// Returns the publications that the commit removes. `previous` is the newest metadata of the table, and
    /// `now_ms` the time in milliseconds since 1970. `leads` is true if `main` is to name this publication, now or
    /// by a later commit.
    fn expired(&self, previous: Option<&TableMetadata>, leads: bool, now_ms: i64) -> Expired {
        let is_later = leads && !self.moves_main;
        let (Some(retention), Some(previous), false) = (&self.retention, previous, is_later) else {
            return Expired::default();
        };
        let coming = Coming {
            tag: &self.origin.snapshot,
            published: None,
            moves_main: leads,
        };
        retention.expired(previous, &coming, now_ms)
    }

    /// Returns two things about the new Iceberg snapshot `snapshot_id`: the totals of the files that it
    /// keeps, removes and adds, and its manifests. `previous` is the newest metadata of the table, `base` are
    /// the manifests of the newest publication.
    ///
    /// # Errors
    /// If the publication keeps files but there is no newest publication, if it removes a file that `base` does
    /// not list, or if it deletes rows of a file that it does not keep. The error is a sentence.
    fn manifests(
        &self,
        previous: Option<&TableMetadata>,
        base: &[ReadManifest],
        snapshot_id: i64,
    ) -> Result<(Changes, Vec<NextManifest>), String> {
        let (base, removed_files): (&[ReadManifest], &[String]) = match &self.base {
            Base::Replaced => (&[], &[]),
            Base::Kept { removed_files } => (base, removed_files),
        };
        let has_newest = previous.is_some_and(|metadata| metadata.newest().is_some());
        if self.base != Base::Replaced && !has_newest {
            return Err(
                "there is no publication whose files could be kept; publish again".to_owned(),
            );
        }
        let leaving = Removed::new(removed_files);
        leaving.check(base)?;
        let live = base.iter().flat_map(ReadManifest::live);
        let (removed, kept): (Vec<&DataFile>, Vec<&DataFile>) = live
            .map(|entry| &entry.data_file)
            .partition(|file| leaving.contains(file));
        self.check_deletes(&kept)?;
        let changes = Changes {
            kept: Totals::of(kept),
            removed: Totals::of(removed),
            added: Totals::of(self.files.iter().chain(&self.deletes)),
        };

        let mut manifests = carry(base, &leaving, snapshot_id);
        for (content, files) in [
            (Content::Data, &self.files),
            (Content::Deletes, &self.deletes),
        ] {
            // A snapshot without rows has a manifest all the same.
            if manifests.is_empty() || !files.is_empty() {
                let files = files.iter().cloned();
                let entries = files.map(|file| ManifestEntry::added(snapshot_id, file));
                manifests.push(NextManifest::Written {
                    content,
                    entries: entries.collect(),
                });
            }
        }
        Ok((changes, manifests))
    }

    /// Checks that each new delete file names rows of one data file among the kept files.
    fn check_deletes(&self, kept: &[&DataFile]) -> Result<(), String> {
        let rows = kept.iter().filter(|file| file.content == ROWS);
        let known: BTreeSet<&str> = rows.map(|file| &file.file_path[..]).collect();
        let is_known = |file: &&DataFile| {
            let name = file.referenced_data_file.as_deref();
            name.is_some_and(|name| known.contains(name))
        };
        match self.deletes.iter().find(|file| !is_known(file)) {
            None => Ok(()),
            Some(file) => Err(format!(
                "the deletes in {} are of no data file that stays; publish again",
                file.file_path
            )),
        }
    }

    fn properties(&self) -> BTreeMap<String, String> {
        // Another engine that collects garbage would remove files of tags that it does not know.
        let garbage = [("gc.enabled", "false".to_owned())];
        let own = self.origin.properties().into_iter().chain(garbage);
        let own = own.map(|(name, value)| (name.to_owned(), value));
        self.properties.clone().into_iter().chain(own).collect()
    }

    fn summary(&self, changes: &Changes, is_replaced: bool) -> BTreeMap<String, String> {
        let operation = [("operation", changes.operation(is_replaced).to_owned())];
        let numbers = changes.summary().into_iter();
        let numbers = numbers.map(|(name, number)| (name, number.to_string()));
        let entries = operation.into_iter().chain(numbers);
        let entries = entries.chain(self.origin.summary());
        let entries = entries.map(|(name, value)| (name.to_owned(), value));
        self.entries.clone().into_iter().chain(entries).collect()
    }
}

impl Object {
    fn metadata(name: String, bytes: Vec<u8>) -> Self {
        Self {
            name: format!("metadata/{name}"),
            bytes: bytes.into(),
        }
    }
}
