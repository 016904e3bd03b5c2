//! The commit of one table: which objects a publication adds to an Iceberg table, and the step that
//! makes them visible.
//!
//! ```text
//!   TABLE/data/ebb-N-...               data files, which are there already
//!   TABLE/metadata/ebb-N-ID-m0.avro    the manifest
//!   TABLE/metadata/ebb-N-ID-list.avro  the list of manifests
//!   TABLE/metadata/vN.metadata.json    its creation is the commit: of two publishers one creates it
//!   TABLE/metadata/version-hint.text   N, for readers that cannot list
//! ```
//!
//! N is the version that the publication is made for. A publication that ends before the commit leaves
//! objects that nothing names: [`sweep`] removes them once version N is there, because then they cannot
//! be committed any more. What to do is decided by [`Publication::decide`], which looks at no clock and
//! no target.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::iceberg::AvroError;
use crate::iceberg::manifest::{self, DataFile, ManifestEntry};
use crate::iceberg::manifest_list::{self, ListOwner, ManifestFile};
use crate::iceberg::metadata::{MAIN, Snapshot, TableMetadata};
use crate::target::{Target, TargetError};
use crate::types::NestedField;

/// The property and the entry of a summary that hold the database.
const DATABASE_ID: &str = "ebb.database-id";
/// The table of the store.
const TABLE_ID: &str = "ebb.table-id";
/// The named snapshot.
const SNAPSHOT: &str = "ebb.snapshot";
/// The place of the snapshot in the order of commits.
const SEQUENCE_NUMBER: &str = "ebb.sequence-number";
/// The moment at which expiry is judged.
const READ_TIME: &str = "ebb.read-time-s";

/// An error of a commit.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The target cannot be read or written.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The metadata of the table cannot be read or encoded.
    #[error("{table}: {error}")]
    Metadata {
        /// The table in the target.
        table: String,
        /// The reason.
        error: serde_json::Error,
    },
    /// An object of the table is not what it should be.
    #[error("{url}: {error}")]
    Damaged {
        /// The location of the object.
        url: String,
        /// The reason.
        error: AvroError,
    },
    /// The table is not one that this publication may continue.
    #[error("{table}: {reason}")]
    Refused {
        /// The table in the target.
        table: String,
        /// The reason, and what to do.
        reason: String,
    },
}

/// The snapshot and the table that a publication was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The database.
    pub database_id: String,
    /// The table.
    pub table_id: String,
    /// The name of the snapshot, which becomes a tag.
    pub snapshot: String,
    /// The place of the snapshot in the order of commits.
    pub sequence_number: u64,
    /// The moment at which expiry is judged, in seconds since 1970.
    pub read_time_s: i64,
}

/// A table that is about to be committed.
#[derive(Debug, Clone)]
pub struct Publication {
    /// The snapshot and the table.
    pub origin: Origin,
    /// The columns.
    pub columns: Vec<NestedField>,
    /// The greatest field id that was given out.
    pub last_column_id: i32,
    /// The files that hold all rows.
    pub files: Vec<DataFile>,
    /// Whether a tag of this name moves, if it names another snapshot.
    pub replaces_tag: bool,
    /// Properties of the table that the publisher keeps with it.
    pub properties: BTreeMap<String, String>,
}

/// The time and unique numbers, which a decision cannot make itself.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// Milliseconds since 1970.
    pub now_ms: i64,
    /// The id of the new snapshot. Greater than zero.
    pub snapshot_id: i64,
    /// The identity of the table, if this is its first publication.
    pub table_uuid: String,
}

/// The decision about a table.
#[derive(Debug)]
pub enum Decision {
    /// The tag names this snapshot of this table already.
    IsPublished,
    /// The objects to write, in their order. The creation of the last one commits.
    Write(Vec<Object>),
}

/// An object to write. Its name is relative to the folder of the table.
#[derive(Debug)]
pub struct Object {
    /// The name.
    pub name: String,
    /// The content.
    pub bytes: Bytes,
}

impl Origin {
    /// Returns whether the tag names this snapshot in the newest metadata of the table, if there is any.
    /// `replaces_tag` is true if a tag that names another snapshot may move.
    ///
    /// # Errors
    /// If the table must not be continued.
    pub fn is_published(
        &self,
        metadata: Option<&TableMetadata>,
        replaces_tag: bool,
    ) -> Result<bool, DecisionError> {
        let refuse = |reason: String| Err(DecisionError::Refused(reason));
        if self.snapshot == MAIN {
            return refuse("a snapshot called main cannot be published, because main is Iceberg's branch; create one with another name".to_owned());
        }
        let Some(metadata) = metadata else {
            return Ok(false);
        };
        let of = |name: &str| metadata.properties.get(name).map(String::as_str);
        let Some(database_id) = of(DATABASE_ID) else {
            return refuse("the target has a table of this name that ebb did not publish; choose another target".to_owned());
        };
        if database_id != self.database_id {
            return refuse(format!(
                "the target has a table of the database {database_id}, and this is {}; choose another target",
                self.database_id
            ));
        }
        if of(TABLE_ID) != Some(&self.table_id) {
            return refuse("the table was dropped and created again since it was published; choose another target, or remove the table there".to_owned());
        }
        if let Some(unknown) = metadata
            .snapshots
            .iter()
            .find(|s| !s.summary.contains_key(SNAPSHOT))
        {
            return refuse(format!(
                "the Iceberg snapshot {} was not made by ebb, and the next publication would hide it; choose another target",
                unknown.snapshot_id
            ));
        }
        let Some(reference) = metadata.refs.get(&self.snapshot) else {
            return Ok(false);
        };
        let mut snapshots = metadata.snapshots.iter();
        let named = snapshots.find(|s| s.snapshot_id == reference.snapshot_id);
        let sequence_number = self.sequence_number.to_string();
        let is_same =
            named.is_some_and(|s| s.summary.get(SEQUENCE_NUMBER) == Some(&sequence_number));
        match is_same || replaces_tag {
            true => Ok(is_same),
            false => refuse(format!(
                "the tag {} names another snapshot; publish with --replace to move it",
                self.snapshot
            )),
        }
    }
}

impl Publication {
    /// Decides which objects to write, after the metadata `previous` of version `version`, if there
    /// is one. `location` is the folder of the table.
    ///
    /// # Errors
    /// A reason for which the table must not be continued, or an error of the encoding.
    pub fn decide(
        &self,
        location: &str,
        version: u64,
        previous: Option<TableMetadata>,
        stamp: &Stamp,
    ) -> Result<Decision, DecisionError> {
        let is_published = self
            .origin
            .is_published(previous.as_ref(), self.replaces_tag);
        if is_published? {
            return Ok(Decision::IsPublished);
        }
        let tag = &self.origin.snapshot;
        let version = version + 1;
        let is_first = previous.is_none();
        let mut metadata = previous
            .unwrap_or_else(|| TableMetadata::new(stamp.table_uuid.clone(), location.to_owned()));
        let parent_snapshot_id = metadata.current_snapshot_id;
        let sequence_number = metadata.last_sequence_number + 1;
        metadata.set_schema(&self.columns, self.last_column_id);
        for (name, value) in self.properties() {
            metadata.properties.insert(name, value);
        }
        let schema = metadata.schema().cloned().unwrap_or_default();

        let id = stamp.snapshot_id;
        let entries = self.files.iter().cloned();
        let entries: Vec<ManifestEntry> =
            entries.map(|file| ManifestEntry::added(id, file)).collect();
        let own = own_name(version, &id.to_string());
        let manifest = Object::metadata(
            format!("{own}-m0.avro"),
            manifest::encode(&entries, &schema),
        );
        let rows: i64 = self.files.iter().map(|file| file.record_count).sum();
        let listed = ManifestFile {
            manifest_path: format!("{location}/{}", manifest.name),
            manifest_length: manifest.bytes.len() as i64,
            partition_spec_id: 0,
            content: 0,
            sequence_number,
            min_sequence_number: sequence_number,
            added_snapshot_id: id,
            added_files_count: entries.len() as i32,
            existing_files_count: 0,
            deleted_files_count: 0,
            added_rows_count: rows,
            existing_rows_count: 0,
            deleted_rows_count: 0,
        };
        let owner = ListOwner {
            snapshot_id: id,
            parent_snapshot_id,
            sequence_number,
        };
        let list = Object::metadata(
            format!("{own}-list.avro"),
            manifest_list::encode(&[listed], owner),
        );
        let snapshot = Snapshot {
            snapshot_id: id,
            parent_snapshot_id,
            sequence_number,
            timestamp_ms: stamp.now_ms.max(metadata.last_updated_ms),
            manifest_list: format!("{location}/{}", list.name),
            summary: self.summary(rows, is_first),
            schema_id: metadata.current_schema_id,
        };
        metadata.add_snapshot(snapshot, tag);
        let root = Object::metadata(format!("v{version}.metadata.json"), metadata.encode()?);
        Ok(Decision::Write(vec![manifest, list, root]))
    }

    fn properties(&self) -> BTreeMap<String, String> {
        let own = [
            (DATABASE_ID, self.origin.database_id.clone()),
            (TABLE_ID, self.origin.table_id.clone()),
            // Another engine that collects garbage would remove files of tags that it does not know.
            ("gc.enabled", "false".to_owned()),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value));
        self.properties.clone().into_iter().chain(own).collect()
    }

    fn summary(&self, rows: i64, is_first: bool) -> BTreeMap<String, String> {
        let bytes: i64 = self.files.iter().map(|file| file.file_size_in_bytes).sum();
        let operation = if is_first { "append" } else { "overwrite" };
        let files = self.files.len().to_string();
        let entries = [
            ("operation", operation.to_owned()),
            ("added-data-files", files.clone()),
            ("added-records", rows.to_string()),
            ("added-files-size", bytes.to_string()),
            ("total-data-files", files),
            ("total-records", rows.to_string()),
            ("total-files-size", bytes.to_string()),
            ("total-delete-files", "0".to_owned()),
            ("total-position-deletes", "0".to_owned()),
            ("total-equality-deletes", "0".to_owned()),
            (SNAPSHOT, self.origin.snapshot.clone()),
            (SEQUENCE_NUMBER, self.origin.sequence_number.to_string()),
            (READ_TIME, self.origin.read_time_s.to_string()),
        ];
        entries.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

/// The reason for which there is nothing to write.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    /// The table must not be continued.
    #[error("{0}")]
    Refused(String),
    /// The metadata cannot be encoded.
    #[error(transparent)]
    Metadata(#[from] serde_json::Error),
}

impl DecisionError {
    /// Returns the error of a commit of `table`.
    fn of(self, table: &str) -> CommitError {
        let table = table.to_owned();
        match self {
            Self::Refused(reason) => CommitError::Refused { table, reason },
            Self::Metadata(error) => CommitError::Metadata { table, error },
        }
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
        match self.version == version {
            true => Ok(()),
            false => Err(overtaken(&self.name)),
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
        let decided = publication.decide(&location, self.version, self.metadata, stamp);
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
                return Err(overtaken(&self.name));
            }
        }
        write_hint(self.target, &self.name, self.version + 1)?;
        Ok(true)
    }
}

fn overtaken(table: &str) -> CommitError {
    CommitError::Refused {
        table: table.to_owned(),
        reason: "another publisher committed at the same time; publish again".to_owned(),
    }
}

/// Returns the name of a new data file of the table `table`, for a commit that creates `version`.
/// `unique` is of this file alone.
pub fn data_file_name(table: &str, version: u64, unique: &str) -> String {
    format!("{table}/data/{}.parquet", own_name(version, unique))
}

/// Returns the beginning of the names of objects that a publication for `version` writes.
fn own_name(version: u64, unique: &str) -> String {
    format!("ebb-{version}-{unique}")
}

/// Returns N of `.../ebb-N-...`.
fn made_for(name: &str) -> Option<u64> {
    let own = name.rsplit('/').next()?.strip_prefix("ebb-")?;
    own.split('-').next()?.parse().ok()
}

/// Removes the objects that publishers left of the table `name`: those that were made for a version
/// of the metadata that is there, and that no snapshot names. A publisher commits objects for version N
/// only by creating version N, which fails once it is there. Those for a later version are left alone,
/// because their publishers may be at work. Returns the number of the removed ones.
///
/// # Errors
/// If the target refuses, or if metadata is damaged.
pub fn sweep(target: &Target, name: &str) -> Result<usize, CommitError> {
    let table = PublishedTable::open(target, name)?;
    let Some(metadata) = &table.metadata else {
        return Ok(0);
    };
    let named = named(target, name, metadata)?;
    let is_past = |object: &str| made_for(object).is_some_and(|version| version <= table.version);
    let data = format!("{name}/data");
    let mut objects = target.list(&data)?;
    objects.extend(target.list(&format!("{name}/metadata"))?);
    objects.retain(|object| is_past(object) && !named.contains(&target.url(object)));
    objects
        .iter()
        .try_for_each(|object| target.remove(object))?;
    Ok(objects.len() + target.remove_unfinished(&data, is_past)?)
}

/// Returns the locations of all objects that the snapshots of a table name.
fn named(
    target: &Target,
    table: &str,
    metadata: &TableMetadata,
) -> Result<BTreeSet<String>, CommitError> {
    let read = |url: &str| -> Result<Bytes, CommitError> {
        let moved = || CommitError::Refused {
            table: table.to_owned(),
            reason: format!("its metadata names {url}, so it was moved; choose another target"),
        };
        let name = url.strip_prefix(&target.url("")).ok_or_else(moved)?;
        Ok(target.read(name)?.unwrap_or_default())
    };
    let damaged = |url: &str| {
        let url = url.to_owned();
        move |error| CommitError::Damaged { url, error }
    };
    let mut named = BTreeSet::new();
    for snapshot in &metadata.snapshots {
        let list = &snapshot.manifest_list;
        let manifests = manifest_list::decode(&read(list)?).map_err(damaged(list))?;
        named.insert(list.clone());
        for ManifestFile { manifest_path, .. } in manifests {
            let entries = manifest::decode(&read(&manifest_path)?);
            let entries = entries.map_err(damaged(&manifest_path))?;
            named.extend(entries.into_iter().map(|entry| entry.data_file.file_path));
            named.insert(manifest_path);
        }
    }
    Ok(named)
}

/// Returns the version of the newest metadata of the table `name`.
fn newest_version(target: &Target, name: &str) -> Result<Option<u64>, TargetError> {
    let objects = target.list(&format!("{name}/metadata"))?;
    Ok(objects.iter().filter_map(|object| version_of(object)).max())
}

/// Writes the version of the newest metadata into the hint. Publishers write it in any order, so each
/// looks afterwards whether a newer version came meanwhile: the last one to write leaves the newest.
fn write_hint(target: &Target, name: &str, mut version: u64) -> Result<(), TargetError> {
    let hint = format!("{name}/metadata/version-hint.text");
    loop {
        target.replace(&hint, version.to_string().into())?;
        match newest_version(target, name)? {
            Some(newer) if newer > version => version = newer,
            _ => return Ok(()),
        }
    }
}

/// Returns N of `.../vN.metadata.json`.
fn version_of(name: &str) -> Option<u64> {
    let file = name.rsplit('/').next()?;
    file.strip_prefix('v')?
        .strip_suffix(".metadata.json")?
        .parse()
        .ok()
}

#[cfg(test)]
mod kills;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{FieldIds, TypeOptions, field};
    use ebb_model::types::CqlType;

    pub(super) fn publication(snapshot: &str, sequence_number: u64) -> Publication {
        let mut ids = FieldIds::default();
        let options = TypeOptions::default();
        let column = field("id", &CqlType::Int, false, &options, None, &mut ids);
        Publication {
            origin: Origin {
                database_id: "d1".into(),
                table_id: "t1".into(),
                snapshot: snapshot.into(),
                sequence_number,
                read_time_s: 7,
            },
            columns: vec![column],
            last_column_id: ids.last,
            files: Vec::new(),
            replaces_tag: false,
            properties: BTreeMap::new(),
        }
    }

    fn stamp(snapshot_id: i64) -> Stamp {
        Stamp {
            now_ms: 1_000 * snapshot_id,
            snapshot_id,
            table_uuid: "5d2f4b1c-0000-4000-8000-000000000000".into(),
        }
    }

    fn place() -> (tempfile::TempDir, Target) {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::folder(dir.path()).unwrap();
        (dir, target)
    }

    pub(super) fn commit(
        target: &Target,
        publication: &Publication,
        id: i64,
    ) -> Result<bool, CommitError> {
        PublishedTable::open(target, "ks/t")?.commit(publication, &stamp(id))
    }

    pub(super) fn newest(target: &Target) -> TableMetadata {
        PublishedTable::open(target, "ks/t")
            .unwrap()
            .metadata
            .unwrap()
    }

    #[test]
    fn each_publication_has_its_tag_and_main_is_the_newest() {
        let (_dir, target) = place();
        assert!(commit(&target, &publication("monday", 10), 1).unwrap());
        assert!(commit(&target, &publication("tuesday", 20), 2).unwrap());
        let metadata = newest(&target);
        let named = |name: &str| metadata.refs[name].snapshot_id;
        assert_eq!(
            [named("monday"), named("tuesday"), named("main")],
            [1, 2, 2]
        );
        assert_eq!(metadata.snapshots[1].parent_snapshot_id, Some(1));
        assert_eq!(metadata.schemas.len(), 1);
        let hint = target
            .read("ks/t/metadata/version-hint.text")
            .unwrap()
            .unwrap();
        assert_eq!(hint, "2");
        for snapshot in &metadata.snapshots {
            let list = snapshot
                .manifest_list
                .strip_prefix(&target.url(""))
                .unwrap();
            let list = manifest_list::decode(&target.read(list).unwrap().unwrap()).unwrap();
            assert_eq!(list.len(), 1);
            assert_eq!(list[0].sequence_number, snapshot.sequence_number);
        }
    }

    #[test]
    fn what_is_published_is_not_published_again_and_a_tag_moves_only_on_demand() {
        let (_dir, target) = place();
        commit(&target, &publication("monday", 10), 1).unwrap();
        assert!(!commit(&target, &publication("monday", 10), 2).unwrap());
        let mut other = publication("monday", 11);
        let error = commit(&target, &other, 3).unwrap_err().to_string();
        assert!(error.contains("--replace"), "{error}");
        other.replaces_tag = true;
        assert!(commit(&target, &other, 4).unwrap());
        assert_eq!(newest(&target).refs["monday"].snapshot_id, 4);
    }

    #[test]
    fn a_table_of_another_database_is_refused() {
        let (_dir, target) = place();
        commit(&target, &publication("monday", 10), 1).unwrap();
        let mut other = publication("tuesday", 20);
        other.origin.database_id = "d2".into();
        let error = commit(&target, &other, 2).unwrap_err().to_string();
        assert!(
            error.starts_with("ks/t: ") && error.contains("database d1"),
            "{error}"
        );
        let mut other = publication("tuesday", 20);
        other.origin.table_id = "t2".into();
        assert!(commit(&target, &other, 2).is_err());
        assert!(commit(&target, &publication("main", 20), 2).is_err());
        assert_eq!(newest(&target).snapshots.len(), 1);
    }

    #[test]
    fn objects_that_cannot_be_committed_any_more_are_swept_and_no_others() {
        let (dir, target) = place();
        let file = |version, unique: &str| {
            let name = data_file_name("ks/t", version, unique);
            target.create(&name, Bytes::from_static(b"rows")).unwrap();
            DataFile {
                content: 0,
                file_path: target.url(&name),
                file_format: "PARQUET".into(),
                record_count: 1,
                file_size_in_bytes: 4,
                column_sizes: None,
                value_counts: None,
                null_value_counts: None,
                lower_bounds: None,
                upper_bounds: None,
                split_offsets: None,
                sort_order_id: None,
            }
        };
        let mut first = publication("monday", 10);
        first.files = vec![file(1, "a"), file(1, "b")];
        file(1, "left");
        commit(&target, &first, 1).unwrap();
        let mut second = publication("tuesday", 20);
        second.files = vec![file(2, "a")];
        // Its publisher is still at work.
        file(3, "next");
        commit(&target, &second, 2).unwrap();
        let foreign = "ks/t/data/00000-0-of-another-engine.parquet";
        target.create(foreign, Bytes::new()).unwrap();
        let manifest = "ks/t/metadata/ebb-2-77-m0.avro";
        target.create(manifest, Bytes::new()).unwrap();
        // An upload whose process was killed, and one of another publisher that is at work.
        let [killed, other] = ["ebb-2-killed", "ebb-3-other"]
            .map(|name| dir.path().join(format!("ks/t/data/{name}.parquet#1")));
        std::fs::write(&killed, "rows").unwrap();
        std::fs::write(&other, "rows").unwrap();

        assert_eq!(sweep(&target, "ks/t").unwrap(), 3);
        assert_eq!(sweep(&target, "ks/t").unwrap(), 0);
        assert!(!killed.exists() && other.exists());
        assert_eq!(target.read(manifest).unwrap(), None);
        let mut left = target.list("ks/t/data").unwrap();
        left.sort();
        let own = |version, unique| data_file_name("ks/t", version, unique);
        let kept = [own(1, "a"), own(1, "b"), own(2, "a"), own(3, "next")];
        assert_eq!(left[1..], kept);
        assert_eq!(left[0], foreign);
        assert_eq!(sweep(&target, "ks/none").unwrap(), 0);
    }

    #[test]
    fn nothing_of_a_folder_that_was_moved_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::folder(&dir.path().join("old")).unwrap();
        commit(&target, &publication("monday", 10), 1).unwrap();
        std::fs::rename(dir.path().join("old"), dir.path().join("new")).unwrap();
        let target = Target::folder(&dir.path().join("new")).unwrap();
        let before = target.list("ks").unwrap().len();
        let error = sweep(&target, "ks/t").unwrap_err().to_string();
        assert!(error.contains("moved"), "{error}");
        assert_eq!(target.list("ks").unwrap().len(), before);
    }

    #[test]
    fn of_two_publishers_at_once_one_commits() {
        let (_dir, target) = place();
        let first = PublishedTable::open(&target, "ks/t").unwrap();
        let second = PublishedTable::open(&target, "ks/t").unwrap();
        assert!(first.commit(&publication("monday", 10), &stamp(1)).unwrap());
        let error = second.commit(&publication("tuesday", 20), &stamp(2));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("another publisher"), "{error}");
        assert_eq!(newest(&target).snapshots.len(), 1);
    }
}
