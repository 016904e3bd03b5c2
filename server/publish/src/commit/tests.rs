//! Publications that replace the files before them, publications that keep them, and the removal of
//! objects that are left.

use std::collections::BTreeMap;

use bytes::Bytes;
use ebb_model::types::CqlType;
use serde_json::{Map, Value, json};

use super::names::metadata_name;
use super::{
    Base, CommitError, LiveFile, Origin, Publication, PublishedTable, Retention, Rights, Stamp,
    data_file_name, delete_file_name, sweep,
};
use crate::iceberg::manifest::{self, DataFile, ManifestEntry, POSITIONAL_DELETES, ROWS, Status};
use crate::iceberg::manifest_list::{self, ManifestFile};
use crate::iceberg::metadata::{MAIN, Snapshot, TableMetadata};
use crate::target::Target;
use crate::types::{FieldIds, TypeOptions, field};

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

/// Returns the description of a data file without statistics.
pub(super) fn data_file(url: &str, rows: i64) -> DataFile {
    DataFile {
        content: ROWS,
        file_path: url.to_owned(),
        file_format: "PARQUET".to_owned(),
        record_count: rows,
        file_size_in_bytes: 4,
        column_sizes: None,
        value_counts: None,
        null_value_counts: None,
        lower_bounds: None,
        upper_bounds: None,
        split_offsets: None,
        sort_order_id: None,
        referenced_data_file: None,
    }
}

/// Returns the description of a file that deletes rows of the data file `of`.
pub(super) fn delete_file(url: &str, of: &str, rows: i64) -> DataFile {
    DataFile {
        content: POSITIONAL_DELETES,
        referenced_data_file: Some(of.to_owned()),
        ..data_file(url, rows)
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
        let list = manifests(&target, snapshot);
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
    other.rights.replaces_tag = true;
    assert!(commit(&target, &other, 4).unwrap());
    assert_eq!(newest(&target).refs["monday"].snapshot_id, 4);
}

/// Regression: such a snapshot was reported as published already.
#[test]
fn a_snapshot_of_another_time_is_not_the_one_with_its_name_and_sequence_number() {
    let (_dir, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    // The database was restored from a backup, and as much was written again.
    let mut other = publication("monday", 10);
    other.origin.read_time_s += 1;
    let error = commit(&target, &other, 2).unwrap_err().to_string();
    assert!(error.contains("--replace"), "{error}");
    other.rights.replaces_tag = true;
    assert!(commit(&target, &other, 3).unwrap());
    assert_eq!(newest(&target).refs["monday"].snapshot_id, 3);
    assert!(!commit(&target, &other, 4).unwrap());
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

/// Regression: a publication that moved a branch and a tag removed the settings of other engines for how long
/// they are kept.
#[test]
fn a_branch_and_a_tag_that_move_are_kept_as_long_as_another_engine_has_set() {
    let (_dir, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    let mut retained = newest(&target);
    retain(&mut retained);
    let bytes = retained.encode().unwrap();
    let name = metadata_name("ks/t", 2);
    assert!(target.create(&name, bytes.into()).unwrap());
    let mut again = publication("monday", 11);
    again.rights.replaces_tag = true;
    assert!(commit(&target, &again, 2).unwrap());
    check_retained(&newest(&target), 2);
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

#[test]
fn main_follows_the_tag_by_a_commit_of_its_own_and_takes_the_schema_along() {
    let (_dir, target) = place();
    let tag_only = |snapshot: &str, sequence_number| Publication {
        moves_main: false,
        ..publication(snapshot, sequence_number)
    };
    let monday = tag_only("monday", 10);
    assert!(commit(&target, &monday, 1).unwrap());
    assert_eq!(main_of(&target), None);
    assert!(!commit(&target, &monday, 2).unwrap());
    assert!(move_main(&target, &monday, 2).unwrap());
    assert_eq!(main_of(&target), Some(1));
    assert!(!move_main(&target, &monday, 3).unwrap());

    let mut tuesday = tag_only("tuesday", 20);
    tuesday.columns[0].id = 2;
    tuesday.last_column_id = 2;
    assert!(commit(&target, &tuesday, 4).unwrap());
    let metadata = newest(&target);
    let schemas = (metadata.current_schema_id, metadata.snapshots[1].schema_id);
    assert_eq!((main_of(&target), schemas), (Some(1), (0, 1)));
    assert_eq!(metadata.refs["tuesday"].snapshot_id, 4);
    assert!(move_main(&target, &tuesday, 5).unwrap());
    let metadata = newest(&target);
    let log: Vec<i64> = metadata
        .snapshot_log
        .iter()
        .map(|of| of.snapshot_id)
        .collect();
    assert_eq!((log, metadata.current_schema_id), (vec![1, 4], 1));
    assert_eq!(metadata.last_sequence_number, 2);
}

#[test]
fn main_never_moves_to_an_older_snapshot_of_the_database() {
    let (_dir, target) = place();
    commit(&target, &publication("tuesday", 20), 1).unwrap();
    let monday = publication("monday", 10);
    assert!(commit(&target, &monday, 2).unwrap());
    assert!(!move_main(&target, &monday, 3).unwrap());
    let metadata = newest(&target);
    assert_eq!(metadata.refs["monday"].snapshot_id, 2);
    assert_eq!(main_of(&target), Some(1));

    // A later one of which `main` is not moved yet does not keep it from moving to an earlier one before.
    let mut thursday = publication("thursday", 40);
    thursday.moves_main = false;
    commit(&target, &thursday, 4).unwrap();
    assert!(commit(&target, &publication("wednesday", 30), 5).unwrap());
    assert_eq!(main_of(&target), Some(5));
    assert!(move_main(&target, &thursday, 6).unwrap());
    assert_eq!(main_of(&target), Some(4));
}

#[test]
fn old_publications_go_with_the_move_of_main() {
    let (_dir, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    let mut tuesday = retaining("tuesday", 20, 1);
    tuesday.moves_main = false;
    let expired = |id: i64| {
        let table = PublishedTable::open(&target, "ks/t").unwrap();
        let (origin, rights) = (&tuesday.origin, &tuesday.rights);
        let retention = tuesday.retention.unwrap();
        let expired = table.expired(origin, rights, &retention, stamp(id).now_ms);
        expired.unwrap()
    };
    let before = expired(2);
    assert_eq!(before.tags, ["monday"]);
    commit(&target, &tuesday, 2).unwrap();
    assert_eq!(newest(&target).snapshots.len(), 2);
    assert_eq!(expired(3), before);
    assert!(move_main(&target, &tuesday, 3).unwrap());
    assert!(newest(&target).refs.keys().eq([MAIN, "tuesday"]));
    assert!(expired(4).snapshots.is_empty());
}

/// Two copies of a database have one id, but only one of them has recorded the epoch of a commit.
#[test]
fn a_publisher_stops_at_an_epoch_that_its_database_has_not_written() {
    let (_dir, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    let mut copy = publication("tuesday", 20);
    copy.rights.own_epochs.retain(|own| *own != epoch(1));
    let error = commit(&target, &copy, 2).unwrap_err().to_string();
    assert!(error.starts_with("ks/t: another copy"), "{error}");
    assert!(error.contains("--take-over"), "{error}");
    // Nor does it accept what the other one has published of the same snapshot.
    let mut same = publication("monday", 10);
    same.rights = copy.rights.clone();
    assert!(commit(&target, &same, 2).is_err());
    assert!(move_main(&target, &same, 2).is_err());

    copy.rights.takes_over = true;
    assert!(commit(&target, &copy, 2).unwrap());
    let mut first = publication("wednesday", 30);
    first.rights.own_epochs.retain(|own| *own != epoch(2));
    assert!(commit(&target, &first, 3).is_err());
    assert_eq!(newest(&target).snapshots.len(), 2);
}

#[test]
fn a_move_of_main_has_an_epoch_too() {
    let (_dir, target) = place();
    let mut monday = publication("monday", 10);
    monday.moves_main = false;
    commit(&target, &monday, 1).unwrap();
    move_main(&target, &monday, 2).unwrap();
    let table = PublishedTable::open(&target, "ks/t").unwrap();
    assert_eq!(table.epoch(), Some(&epoch(2)[..]));
}

/// The database was restored: its id is another one, and its sequence numbers begin again below those that are
/// published.
#[test]
fn a_table_that_is_taken_over_keeps_its_tags_and_main_follows_the_new_owner() {
    let (_dir, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    commit(&target, &publication("tuesday", 20), 2).unwrap();
    let restored = |snapshot: &str, sequence_number| {
        let mut publication = publication(snapshot, sequence_number);
        publication.origin.database_id = "d2".into();
        publication
    };
    let mut wednesday = restored("wednesday", 15);
    let error = commit(&target, &wednesday, 3).unwrap_err().to_string();
    assert!(error.contains("--take-over"), "{error}");
    wednesday.rights.takes_over = true;
    wednesday.moves_main = false;
    let at = || PublishedTable::open(&target, "ks/t").unwrap();
    let takes_over = |of: &Publication| at().is_taken_over(&of.origin, &of.rights).unwrap();
    assert!(takes_over(&wednesday));
    assert!(commit(&target, &wednesday, 3).unwrap());
    // Until `main` has moved, it names no publication of the new owner.
    assert!(!takes_over(&wednesday));
    assert_eq!((main_of(&target), at().origin()), (Some(2), None));
    assert!(move_main(&target, &wednesday, 4).unwrap());
    assert_eq!(at().origin(), Some(wednesday.origin.clone()));
    let tags = [MAIN, "monday", "tuesday", "wednesday"];
    assert!(newest(&target).refs.keys().eq(tags));

    // The next one needs no option, and the database before is refused.
    assert!(commit(&target, &restored("thursday", 16), 5).unwrap());
    assert_eq!(main_of(&target), Some(5));
    assert!(commit(&target, &publication("friday", 30), 6).is_err());
}

/// The rows of the restored database may differ from those that were published under the same name.
#[test]
fn a_snapshot_with_the_tag_of_the_owner_before_is_published_again_when_the_table_is_taken_over() {
    let (_dir, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    let mut again = publication("monday", 10);
    again.origin.database_id = "d2".into();
    again.rights.takes_over = true;
    assert!(commit(&target, &again, 2).unwrap());
    assert_eq!(newest(&target).refs["monday"].snapshot_id, 2);
    assert_eq!(main_of(&target), Some(2));
    assert!(!commit(&target, &again, 3).unwrap());
}

/// Earlier builds of ebb wrote no epochs.
#[test]
fn a_table_without_an_epoch_is_continued() {
    let (_dir, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    let mut before = newest(&target);
    before.properties.remove("ebb.epoch").unwrap();
    let bytes = before.encode().unwrap();
    let name = metadata_name("ks/t", 2);
    assert!(target.create(&name, bytes.into()).unwrap());
    let mut tuesday = publication("tuesday", 20);
    tuesday.rights.own_epochs.clear();
    assert!(commit(&target, &tuesday, 2).unwrap());
}

#[test]
fn a_table_with_metadata_of_another_engine_is_refused() {
    for name in ["00001-a5c35e7d.metadata.json", "v1.gz.metadata.json"] {
        let (_dir, target) = place();
        let name = format!("ks/t/metadata/{name}");
        assert!(target.create(&name, Bytes::from_static(b"{}")).unwrap());
        let error = commit(&target, &publication("monday", 10), 1).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("ks/t: ") && error.contains(&name),
            "{error}"
        );
        assert!(sweep(&target, "ks/t").is_err());
        assert_eq!(target.list("ks/t").unwrap(), [name]);
    }
}

#[test]
fn metadata_that_cannot_be_read_are_named() {
    let (_dir, target) = place();
    let name = metadata_name("ks/t", 1);
    assert!(target.create(&name, Bytes::from_static(b"{")).unwrap());
    let error = commit(&target, &publication("monday", 10), 1).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with(&format!("{name}: ")), "{error}");
}

#[test]
fn a_table_that_another_engine_upgraded_is_not_continued() {
    let (_dir, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    let mut upgraded = newest(&target);
    upgraded.format_version = 3;
    let bytes = upgraded.encode().unwrap();
    let name = metadata_name("ks/t", 2);
    assert!(target.create(&name, bytes.into()).unwrap());
    let error = commit(&target, &publication("tuesday", 20), 2).unwrap_err();
    assert!(error.to_string().contains("format 3"), "{error}");
    assert!(sweep(&target, "ks/t").is_err());
}

#[test]
fn a_table_whose_numbers_leave_no_room_is_not_continued() {
    for (version, sequence_number, last_column_id, schema_id) in [
        (u64::MAX, 1, 1, 0),
        (2, i64::MAX, 1, 0),
        (2, 1, i32::MAX, 0),
        (2, 1, 1, i32::MAX),
        (2, 1, 1, -1),
    ] {
        let (_dir, target) = place();
        commit(&target, &publication("monday", 10), 1).unwrap();
        let mut damaged = newest(&target);
        damaged.last_sequence_number = sequence_number;
        damaged.last_column_id = last_column_id;
        damaged.schemas[0]["schema-id"] = json!(schema_id);
        let bytes = damaged.encode().unwrap();
        let name = metadata_name("ks/t", version);
        assert!(target.create(&name, bytes.into()).unwrap());
        let error = commit(&target, &publication("tuesday", 20), 2).unwrap_err();
        assert!(error.to_string().contains("out of range"), "{error}");
    }
}

#[test]
fn objects_that_cannot_be_committed_any_more_are_swept_and_no_others() {
    let (dir, target) = place();
    let file = |version, unique: &str| {
        let name = data_file_name("ks/t", version, unique);
        target.create(&name, Bytes::from_static(b"rows")).unwrap();
        data_file(&target.url(&name), 1)
    };
    let mut first = publication("monday", 10);
    first.files = vec![file(1, "a"), file(1, "b")];
    file(1, "left");
    commit(&target, &first, 1).unwrap();
    let mut second = publication("tuesday", 20);
    second.files = vec![file(2, "a")];
    // The publisher of this file is still at work.
    file(3, "next");
    commit(&target, &second, 2).unwrap();
    let foreign = "ks/t/data/00000-0-of-another-engine.parquet";
    target.create(foreign, Bytes::new()).unwrap();
    // A publisher whose commit of version 2 failed left this manifest: the committed snapshots are 1 and 2.
    let manifest = "ks/t/metadata/ebb-2-77-m0.avro";
    target.create(manifest, Bytes::new()).unwrap();
    // Objects that killed processes did not complete, and such of another publisher that is at work: they are
    // for a later version, or a version hint, which belongs to no version and is never swept.
    let killed = [
        "ks/t/data/ebb-2-killed.parquet#1",
        "ks/t/metadata/ebb-2-78-m0.avro#1",
        "ks/t/metadata/v1.metadata.json#1",
        "ks/t/metadata/v2.metadata.json#12",
        "_ebb/.index/ks/t/ebb-1-killed.idx#1",
    ];
    let at_work = [
        "ks/t/data/ebb-3-other.parquet#1",
        "ks/t/metadata/ebb-3-78-list.avro#1",
        "ks/t/metadata/v3.metadata.json#1",
        "ks/t/metadata/version-hint.text#1",
    ];
    std::fs::create_dir_all(dir.path().join("_ebb/.index/ks/t")).unwrap();
    for name in killed.iter().chain(&at_work) {
        std::fs::write(dir.path().join(name), "rows").unwrap();
    }

    // The two are the data file `left` and `manifest`.
    assert_eq!(sweep(&target, "ks/t").unwrap(), 2 + killed.len());
    assert_eq!(sweep(&target, "ks/t").unwrap(), 0);
    let is_there = |name: &str| dir.path().join(name).exists();
    assert!(!killed.iter().any(|name| is_there(name)));
    assert!(at_work.iter().all(|name| is_there(name)));
    assert_eq!(newest(&target).snapshots.len(), 2);
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

const A: &str = "file:///t/a.parquet";
const B: &str = "file:///t/b.parquet";
const C: &str = "file:///t/c.parquet";
const D: &str = "file:///t/d.parquet";
const E: &str = "file:///t/e.parquet";

/// Publishes the files A and B, then keeps them and adds C and the delete file D, which deletes rows of A.
/// Returns the second publication.
fn with_deletes(target: &Target) -> Publication {
    let mut first = publication("monday", 10);
    first.files = vec![data_file(A, 10), data_file(B, 10)];
    commit(target, &first, 1).unwrap();
    let mut second = keeping("tuesday", 20, &[]);
    second.files = vec![data_file(C, 5)];
    second.deletes = vec![delete_file(D, A, 2)];
    commit(target, &second, 2).unwrap();
    second
}

fn summary<'m>(metadata: &'m TableMetadata, names: &[&str]) -> Vec<&'m str> {
    let summary = &metadata.newest().unwrap().summary;
    let entry = |name: &&str| summary.get(*name).map_or("", String::as_str);
    names.iter().map(entry).collect()
}

/// Returns the locations of the live data files, and for each the locations of its delete files.
fn live(target: &Target) -> Vec<(String, Vec<String>)> {
    let table = PublishedTable::open(target, "ks/t").unwrap();
    let deletes = |live: &LiveFile| -> Vec<String> {
        let deletes = live.deletes.iter();
        deletes.map(|of| of.file.file_path.clone()).collect()
    };
    let files = table.live_files().unwrap();
    let files = files.iter();
    files
        .map(|live| (live.file.file_path.clone(), deletes(live)))
        .collect()
}

fn named(files: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let owned = |name: &&str| (*name).to_owned();
    let files = files.iter();
    files
        .map(|(file, deletes)| (owned(file), deletes.iter().map(owned).collect()))
        .collect()
}

#[test]
fn a_publication_that_keeps_files_carries_their_manifests_on() {
    let (_dir, target) = place();
    let second = with_deletes(&target);
    let metadata = newest(&target);
    let [before, after] = [0, 1].map(|at: usize| manifests(&target, &metadata.snapshots[at]));
    assert_eq!((before.len(), after.len()), (1, 3));
    assert_eq!(after[0], before[0]);
    let contents = after.iter().map(|of| (of.content, of.sequence_number));
    assert_eq!(contents.collect::<Vec<_>>(), [(0, 1), (0, 2), (1, 2)]);
    assert_eq!(
        entries(&target, &after[2]),
        [ManifestEntry::added(2, delete_file(D, A, 2))]
    );
    // The header of an Avro file is not compressed: names and values, each after twice its length.
    let header_has = |listed: &ManifestFile, entry: &[u8]| {
        let bytes = object(&target, &listed.manifest_path);
        bytes.windows(entry.len()).any(|part| part == entry)
    };
    assert!(header_has(&after[1], b"\x0econtent\x08data"));
    assert!(header_has(&after[2], b"\x0econtent\x0edeletes"));

    assert_eq!(live(&target), named(&[(A, &[D]), (B, &[]), (C, &[])]));
    let table = PublishedTable::open(&target, "ks/t").unwrap();
    assert_eq!(table.origin(), Some(second.origin));
    let files = table.live_files().unwrap();
    assert_eq!((files[0].deleted_rows(), files[2].sequence_number), (2, 2));
    let names = [
        "operation",
        "total-data-files",
        "total-records",
        "total-delete-files",
        "total-position-deletes",
        "added-position-deletes",
        "deleted-records",
    ];
    assert_eq!(
        summary(&metadata, &names),
        ["overwrite", "3", "25", "1", "2", "2", ""]
    );
}

#[test]
fn a_data_file_leaves_with_its_deletes_and_other_files_keep_their_numbers() {
    let (_dir, target) = place();
    with_deletes(&target);
    let mut third = keeping("wednesday", 30, &[A]);
    third.files = vec![data_file(E, 8)];
    commit(&target, &third, 3).unwrap();
    let metadata = newest(&target);
    let before = manifests(&target, &metadata.snapshots[1]);
    let after = manifests(&target, &metadata.snapshots[2]);
    // These are the manifests of A and B, of C, of the delete file D, and of E.
    assert_eq!(after.len(), 4);
    assert_eq!(after[1], before[1]);
    let statuses = |listed: &ManifestFile| {
        let entries = entries(&target, listed).into_iter();
        let status = |entry: ManifestEntry| {
            assert_eq!(entry.file_sequence_number, entry.sequence_number);
            (entry.status, entry.snapshot_id, entry.sequence_number)
        };
        entries.map(status).collect::<Vec<_>>()
    };
    let (existing, deleted) = (Status::Existing as i32, Status::Deleted as i32);
    assert_eq!(
        statuses(&after[0]),
        [(deleted, Some(3), Some(1)), (existing, Some(1), Some(1))]
    );
    assert_eq!(statuses(&after[2]), [(deleted, Some(3), Some(2))]);
    assert_eq!(
        (after[0].sequence_number, after[0].min_sequence_number),
        (3, 1)
    );
    // The least number is that of the live entries; without any, that of the manifest itself.
    assert_eq!((after[2].content, after[2].min_sequence_number), (1, 3));
    let counts = [
        after[0].existing_files_count,
        after[0].deleted_files_count,
        after[0].added_files_count,
    ];
    assert_eq!(counts, [1, 1, 0]);
    assert_eq!(
        (after[0].existing_rows_count, after[0].deleted_rows_count),
        (10, 10)
    );

    assert_eq!(live(&target), named(&[(B, &[]), (C, &[]), (E, &[])]));
    let names = [
        "operation",
        "total-data-files",
        "total-records",
        "total-delete-files",
        "removed-position-deletes",
        "deleted-data-files",
    ];
    assert_eq!(
        summary(&metadata, &names),
        ["overwrite", "3", "23", "0", "2", "1"]
    );

    // A manifest without live entries is dropped, and a publication without changes adds none.
    commit(&target, &keeping("thursday", 40, &[]), 4).unwrap();
    let metadata = newest(&target);
    let last = manifests(&target, &metadata.snapshots[3]);
    assert_eq!(last, [after[0].clone(), after[1].clone(), after[3].clone()]);
    assert_eq!(summary(&metadata, &names[..3]), ["append", "3", "23"]);
}

#[test]
fn a_snapshot_without_files_has_a_manifest() {
    let (_dir, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    commit(&target, &keeping("tuesday", 20, &[]), 2).unwrap();
    let metadata = newest(&target);
    for snapshot in &metadata.snapshots {
        let listed = manifests(&target, snapshot);
        assert_eq!(listed.len(), 1);
        assert!(entries(&target, &listed[0]).is_empty());
    }
}

#[test]
fn files_of_deletes_give_way_to_one_that_has_their_rows() {
    let (_dir, target) = place();
    with_deletes(&target);
    let mut third = keeping("wednesday", 30, &[D]);
    third.deletes = vec![delete_file(E, A, 3)];
    commit(&target, &third, 3).unwrap();
    assert_eq!(live(&target), named(&[(A, &[E]), (B, &[]), (C, &[])]));
    let names = ["operation", "total-position-deletes", "total-records"];
    assert_eq!(summary(&newest(&target), &names), ["delete", "3", "25"]);
}

#[test]
fn files_that_do_not_fit_to_the_base_are_refused() {
    let (_dir, target) = place();
    let refused = |publication: &Publication| {
        let error = commit(&target, publication, 9).unwrap_err().to_string();
        assert!(error.starts_with("ks/t: "), "{error}");
        error
    };
    let error = refused(&keeping("monday", 10, &[]));
    assert!(error.contains("no publication whose files"), "{error}");
    with_deletes(&target);
    let error = refused(&keeping("wednesday", 30, &[E]));
    assert!(error.contains("e.parquet"), "{error}");
    // Deletes of a file that is not there, of one that leaves, of none, and of one that is replaced.
    let mut no_file = delete_file("x", A, 1);
    no_file.referenced_data_file = None;
    let cases: [(&[&str], DataFile); 3] = [
        (&[], delete_file("x", E, 1)),
        (&[A], delete_file("x", A, 1)),
        (&[], no_file),
    ];
    for (removed, file) in cases {
        let mut other = keeping("wednesday", 30, removed);
        other.deletes = vec![file];
        let error = refused(&other);
        assert!(error.contains("of no data file that stays"), "{error}");
    }
    let mut replaced = publication("wednesday", 30);
    replaced.deletes = vec![delete_file("x", A, 1)];
    refused(&replaced);
    assert_eq!(newest(&target).snapshots.len(), 2);
}

#[test]
fn deletes_that_a_snapshot_names_are_kept_and_indexes_of_the_newest_one() {
    let (_dir, target) = place();
    let write = |name: String| {
        target.create(&name, Bytes::from_static(b"rows")).unwrap();
        target.url(&name)
    };
    let index = |version: u64| format!("_ebb/.index/ks/t/ebb-{version}-a.idx");
    let data = [1, 2, 3, 4].map(|version| write(data_file_name("ks/t", version, "a")));
    let deletes = write(delete_file_name("ks/t", 2, "a"));
    let left = write(delete_file_name("ks/t", 2, "left"));
    (1..=4).for_each(|version| drop(write(index(version))));

    let mut first = publication("monday", 10);
    first.files = vec![data_file(&data[0], 10)];
    commit(&target, &first, 1).unwrap();
    let mut second = keeping("tuesday", 20, &[]);
    second.files = vec![data_file(&data[1], 5)];
    second.deletes = vec![delete_file(&deletes, &data[0], 2)];
    commit(&target, &second, 2).unwrap();
    assert_eq!(sweep(&target, "ks/t").unwrap(), 1);
    assert_eq!(target.read(target.name(&left).unwrap()).unwrap(), None);

    // The first data file and its deletes are of a tag now, and no row is looked for in them.
    let mut third = keeping("wednesday", 30, &[&data[0]]);
    third.files = vec![data_file(&data[2], 8)];
    commit(&target, &third, 3).unwrap();
    assert_eq!(sweep(&target, "ks/t").unwrap(), 1);
    for url in data.iter().chain([&deletes]) {
        assert_eq!(object(&target, url), "rows");
    }
    let mut indexes = target.list("_ebb").unwrap();
    indexes.sort();
    assert_eq!(indexes, [index(2), index(3), index(4)]);
}
