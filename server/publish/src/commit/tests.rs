//! Publications into a folder.

mod engines;
mod kept_files;
mod owners;
mod sweeps;
mod tags;

use std::collections::BTreeMap;

use bytes::Bytes;
use ebb_model::types::CqlType;
use serde_json::{Map, Value, json};

use super::names::metadata_name;
use super::{Base, CommitError, Origin, Publication, PublishedTable, Retention, Rights, Stamp};
use crate::data_file::testing::columns;
use crate::iceberg::manifest::{self, ManifestEntry};
use crate::iceberg::manifest_list::{self, ManifestFile};
use crate::iceberg::metadata::{MAIN, Snapshot, TableMetadata};
use crate::target::Target;

pub(super) fn publication(snapshot: &str, sequence_number: u64) -> Publication {
    let columns = columns([("id", CqlType::Int)]).into_iter();
    Publication {
        origin: Origin {
            database_id: "d1".into(),
            table_id: "t1".into(),
            snapshot: snapshot.into(),
            sequence_number,
            read_time_s: 7,
        },
        columns: columns.map(|column| column.field).collect(),
        last_column_id: 1,
        base: Base::Replaced,
        files: Vec::new(),
        deletes: Vec::new(),
        rights: rights(),
        moves_main: true,
        retention: None,
        swept: None,
        properties: BTreeMap::new(),
        entries: BTreeMap::new(),
    }
}

/// Returns the rights of a publisher whose database has recorded the epochs of all [`stamp`]s.
pub(super) fn rights() -> Rights {
    Rights {
        own_epochs: (0..100).map(epoch).collect(),
        ..Rights::default()
    }
}

fn epoch(snapshot_id: i64) -> String {
    format!("epoch {snapshot_id}")
}

/// Returns a publication that keeps the files of the publication before, except for `removed`.
pub(super) fn keeping(snapshot: &str, sequence_number: u64, removed: &[&str]) -> Publication {
    let removed_files = removed.iter().map(|url| (*url).to_owned()).collect();
    Publication {
        base: Base::Kept { removed_files },
        ..publication(snapshot, sequence_number)
    }
}

/// Returns a publication of all rows that keeps the newest `publications` publications, and removes the others.
pub(super) fn retaining(snapshot: &str, sequence_number: u64, publications: u32) -> Publication {
    Publication {
        retention: Some(Retention {
            publications,
            age: None,
        }),
        ..publication(snapshot, sequence_number)
    }
}

pub(super) fn stamp(snapshot_id: i64) -> Stamp {
    Stamp {
        now_ms: 1_000 * snapshot_id,
        snapshot_id,
        table_uuid: "5d2f4b1c-0000-4000-8000-000000000000".into(),
        epoch: epoch(snapshot_id),
    }
}

fn place() -> (tempfile::TempDir, Target) {
    let dir = tempfile::tempdir().unwrap();
    let target = Target::folder(dir.path()).unwrap();
    (dir, target)
}

/// Creates a folder with a publication of the snapshot `monday`.
fn monday() -> (tempfile::TempDir, Target) {
    let (dir, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
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
    let table = PublishedTable::open(target, "ks/t").unwrap();
    table.metadata().unwrap().clone()
}

/// Writes the version `version` of the table's metadata as another engine may: the newest metadata with a change.
fn change(target: &Target, version: u64, change: impl FnOnce(&mut TableMetadata)) {
    let mut metadata = newest(target);
    change(&mut metadata);
    let bytes = metadata.encode().unwrap();
    let name = metadata_name("ks/t", version);
    assert!(target.create(&name, bytes.into()).unwrap());
}

fn object(target: &Target, url: &str) -> Bytes {
    target.read(target.name(url).unwrap()).unwrap().unwrap()
}

/// Reads the list of the manifests of a snapshot.
pub(super) fn manifests(target: &Target, snapshot: &Snapshot) -> Vec<ManifestFile> {
    manifest_list::decode(&object(target, &snapshot.manifest_list)).unwrap()
}

fn entries(target: &Target, listed: &ManifestFile) -> Vec<ManifestEntry> {
    manifest::decode(&object(target, &listed.manifest_path)).unwrap()
}

/// The names of a branch and of a tag, each with the JSON field of the setting by which other engines decide
/// how long the branch's snapshots or the tag are kept.
const RETAINED: [(&str, &str); 2] = [
    (MAIN, "min-snapshots-to-keep"),
    ("monday", "max-ref-age-ms"),
];

/// Sets how long `main` and the tag `monday` are kept, as another engine may.
pub(super) fn retain(metadata: &mut TableMetadata) {
    for (name, member) in RETAINED {
        let reference = metadata.refs.get_mut(name).unwrap();
        reference.others.insert(member.to_owned(), json!(7));
    }
}

/// Checks that `main` and the tag `monday` name the snapshot `snapshot_id`, and have the settings of
/// [`retain`].
pub(super) fn check_retained(metadata: &TableMetadata, snapshot_id: i64) {
    for (name, member) in RETAINED {
        let reference = &metadata.refs[name];
        assert_eq!(reference.snapshot_id, snapshot_id, "{name}");
        let expected: Map<String, Value> = [(member.to_owned(), json!(7))].into_iter().collect();
        assert_eq!(reference.others, expected, "{name}");
    }
}

/// Returns the id of the snapshot that `main` names; `None` if there is no `main`.
fn main_of(target: &Target) -> Option<i64> {
    let metadata = newest(target);
    let named = metadata.refs.get(MAIN).map(|main| main.snapshot_id);
    assert_eq!(named, metadata.current_snapshot_id);
    named
}

/// Moves `main` to the publication that was made of the snapshot `publication`. `id` is that of the stamp.
pub(super) fn move_main(
    target: &Target,
    publication: &Publication,
    id: i64,
) -> Result<bool, CommitError> {
    let table = PublishedTable::open(target, "ks/t")?;
    let Publication {
        origin,
        rights,
        retention,
        ..
    } = publication;
    table.move_main(origin, rights, retention.as_ref(), &stamp(id))
}
