//! The choice of the publications that expire, and commits that remove them.

use bytes::Bytes;
use serde_json::{Map, json};

use super::super::names::made_for;
use super::super::tests::{commit, keeping, newest, publication, retaining, stamp};
use super::super::{
    Publication, PublishedTable, data_file_name, delete_file_name, sweep, sweep_sparing,
};
use super::*;
use crate::iceberg::metadata::Reference;
use crate::iceberg::testing::{data_file, delete_file};
use crate::target::Target;

const HOUR_MS: i64 = 3_600_000;

/// The names of publications, one for each hour, oldest first | the tag of the publication of the next hour |
/// how many publications are kept | the age in hours up to which they are kept | the names of those that expire.
const CASES: &str = "
    a b c   | new | 1 |   | a b c
    a b c   | new | 2 |   | a b
    a b c   | new | 3 |   | a
    a b c   | new | 4 |   |
    a b c   | new | 9 |   |
    a b c   | new | 1 | 2 | a b
    a b c   | new | 1 | 3 | a
    a b c   | new | 3 | 1 | a
    a b c   | new | 1 | 9 |
    a b a c | new | 2 |   | a b a
    a b a c | new | 3 |   | a b
    a b a c | new | 4 |   | a
    a b c   | c   | 1 |   | a b c
    a b c   | c   | 2 |   | a
            | new | 1 |   |
";

/// Returns an Iceberg snapshot that was published from the snapshot `name` in the hour `id`.
fn snapshot(id: i64, name: &str) -> Snapshot {
    Snapshot {
        snapshot_id: id,
        parent_snapshot_id: None,
        sequence_number: id,
        timestamp_ms: HOUR_MS * id,
        manifest_list: format!("file:///t/{id}.avro"),
        summary: [("ebb.snapshot".to_owned(), name.to_owned())].into(),
        schema_id: 0,
    }
}

/// Returns the metadata of a table with a publication for each name, one in each hour. Their ids count from 1.
fn published(names: &[&str]) -> TableMetadata {
    let mut metadata = TableMetadata::new("u".to_owned(), "file:///t".to_owned());
    for (id, name) in (1..).zip(names) {
        metadata.add_snapshot(snapshot(id, name), name);
    }
    metadata
}

fn keep(publications: u32) -> Retention {
    Retention {
        publications,
        age: None,
    }
}

/// Returns the publications that expire with the commit of a new one, which `main` names then.
fn expired(retention: Retention, metadata: &TableMetadata, tag: &str, now_ms: i64) -> Expired {
    let coming = Coming {
        tag,
        published: None,
        moves_main: true,
    };
    retention.expired(metadata, &coming, now_ms)
}

fn ids(metadata: &TableMetadata) -> Vec<i64> {
    let snapshots = metadata.snapshots.iter();
    snapshots.map(|snapshot| snapshot.snapshot_id).collect()
}

#[test]
fn the_newest_publications_and_the_young_ones_are_kept() {
    for case in CASES.trim_matches('\n').lines() {
        let columns: Vec<&str> = case.split('|').map(str::trim).collect();
        let names: Vec<&str> = columns[0].split_whitespace().collect();
        let hours = columns[3].parse::<u64>().ok();
        let retention = Retention {
            age: hours.map(|hours| Duration::from_secs(3600 * hours)),
            ..keep(columns[2].parse().unwrap())
        };
        let now_ms = HOUR_MS * (names.len() as i64 + 1);
        let expired = expired(retention, &published(&names), columns[1], now_ms);
        let found: Vec<&str> = expired
            .snapshots
            .iter()
            .filter_map(published_name)
            .collect();
        assert_eq!(found.join(" "), columns[4], "{case}");
    }
}

#[test]
fn a_tag_expires_with_its_snapshot_unless_it_has_moved() {
    let metadata = published(&["a", "b", "a", "c"]);
    let found = expired(keep(2), &metadata, "new", 0);
    assert_eq!(found.ids(), [1, 2, 3].into());
    assert_eq!(found.tags, ["b", "a"]);
    // The new publication takes this tag.
    let found = expired(keep(1), &metadata, "c", 0);
    assert_eq!(found.ids(), [1, 2, 3, 4].into());
    assert_eq!(found.tags, ["b", "a"]);
}

#[test]
fn with_the_tag_alone_main_keeps_its_snapshot_and_the_later_move_removes_the_same_ones() {
    let mut metadata = published(&["a", "b", "c"]);
    let mut coming = Coming {
        tag: "new",
        published: None,
        moves_main: false,
    };
    let found = keep(1).expired(&metadata, &coming, 0);
    assert_eq!(found.ids(), [1, 2].into());
    coming.moves_main = true;
    let before = keep(1).expired(&metadata, &coming, 0);
    assert_eq!(before.ids(), [1, 2, 3].into());
    metadata.add_tagged(snapshot(4, "new"), "new");
    coming.published = Some(4);
    assert_eq!(keep(1).expired(&metadata, &coming, 0), before);
}

#[test]
fn a_publication_that_another_machine_made_in_the_future_is_young() {
    let retention = Retention {
        age: Some(Duration::from_secs(1)),
        ..keep(1)
    };
    let metadata = published(&["a", "b"]);
    let expired = expired(retention, &metadata, "new", HOUR_MS + 1_000);
    assert_eq!(expired.tags, ["a"]);
}

#[test]
fn snapshots_that_other_names_need_or_other_engines_made_stay() {
    let mut metadata = published(&["a", "b", "c", "d"]);
    let reference = |snapshot_id, kind: &str| Reference {
        snapshot_id,
        kind: kind.to_owned(),
        others: Map::new(),
    };
    let refs = &mut metadata.refs;
    refs.insert("release".to_owned(), reference(1, "tag"));
    refs.insert("audit".to_owned(), reference(2, "branch"));
    refs.insert("c".to_owned(), reference(3, "branch"));
    let mut foreign = snapshot(9, "");
    foreign.summary.clear();
    foreign.sequence_number = 0;
    metadata.snapshots.push(foreign);
    let expired = expired(keep(1), &metadata, "new", 0);
    assert_eq!(expired.ids(), [4].into());
    assert_eq!(expired.tags, ["d"]);
}

#[test]
fn metadata_without_a_snapshot_has_no_gap_in_its_history_and_no_statistics_of_it() {
    let mut metadata = published(&["a", "b", "c"]);
    let files = json!([{"snapshot-id": 1}, {"snapshot-id": 2}]);
    for member in ["statistics", "partition-statistics"] {
        metadata.others.insert(member.to_owned(), files.clone());
    }
    metadata.remove_snapshots(&[2].into(), &["b".to_owned()]);
    assert_eq!(ids(&metadata), [1, 3]);
    let log = metadata.snapshot_log.iter();
    let log: Vec<i64> = log.map(|entry| entry.snapshot_id).collect();
    assert_eq!(log, [3]);
    assert!(metadata.refs.keys().eq(["a", "c", "main"]));
    for member in ["statistics", "partition-statistics"] {
        assert_eq!(metadata.others[member], json!([{"snapshot-id": 1}]));
    }
}

/// Commits a publication, and sweeps as a publisher does. Returns the publications that it removed.
fn publish(target: &Target, publication: &Publication, id: i64) -> Expired {
    let table = PublishedTable::open(target, "ks/t").unwrap();
    let retention = publication.retention.unwrap();
    let (origin, rights) = (&publication.origin, &publication.rights);
    let expired = table.expired(origin, rights, &retention, stamp(id).now_ms);
    let expired = expired.unwrap();
    assert!(table.commit(publication, &stamp(id)).unwrap());
    sweep_sparing(target, "ks/t", &expired.snapshots).unwrap();
    expired
}

#[test]
fn the_files_of_a_removed_publication_go_with_the_next_sweep_that_does_not_spare_them() {
    let dir = tempfile::tempdir().unwrap();
    let target = Target::folder(dir.path()).unwrap();
    let write = |name: String| {
        target.create(&name, Bytes::from_static(b"rows")).unwrap();
        target.url(&name)
    };
    let data = [1, 2, 3, 4].map(|version| write(data_file_name("ks/t", version, "a")));
    let deletes = write(delete_file_name("ks/t", 2, "a"));
    let mut monday = publication("monday", 10);
    monday.files = vec![data_file(&data[0], 10)];
    commit(&target, &monday, 1).unwrap();
    let mut tuesday = keeping("tuesday", 20, &[]);
    tuesday.files = vec![data_file(&data[1], 5)];
    tuesday.deletes = vec![delete_file(&deletes, &data[0], 2)];
    commit(&target, &tuesday, 2).unwrap();
    let mut wednesday = retaining("wednesday", 30, 2);
    wednesday.files = vec![data_file(&data[2], 8)];
    let expired = publish(&target, &wednesday, 3);
    assert_eq!(expired.tags, ["monday"]);
    // Only the list of manifests is removed: tuesday keeps the manifest and the data file of monday.
    assert_eq!(sweep(&target, "ks/t").unwrap(), 1);

    let before = target.list("ks/t").unwrap().len();
    let mut thursday = retaining("thursday", 40, 1);
    thursday.files = vec![data_file(&data[3], 9)];
    let expired = publish(&target, &thursday, 4);
    assert_eq!(expired.tags, ["tuesday", "wednesday"]);
    let metadata = newest(&target);
    assert_eq!(ids(&metadata), [4]);
    assert!(metadata.refs.keys().eq(["main", "thursday"]));
    // A manifest, a list and the metadata are new, and readers of the removed publications have all files.
    assert_eq!(target.list("ks/t").unwrap().len(), before + 3);

    // Of tuesday three manifests, their list, two data files and a delete file are removed; of wednesday a
    // manifest, its list and a data file.
    assert_eq!(sweep(&target, "ks/t").unwrap(), 7 + 3);
    let left = target.list("ks/t").unwrap();
    let mut versions = left.iter().filter_map(|name| made_for(name));
    assert!(versions.all(|version| version == 4), "{left:?}");
    assert!(left.contains(&data_file_name("ks/t", 4, "a")));
}

#[test]
fn a_snapshot_whose_publication_was_removed_can_be_published_again() {
    let dir = tempfile::tempdir().unwrap();
    let target = Target::folder(dir.path()).unwrap();
    commit(&target, &publication("monday", 10), 1).unwrap();
    commit(&target, &retaining("tuesday", 20, 1), 2).unwrap();
    // There is nothing to commit, and so nothing is removed.
    commit(&target, &publication("wednesday", 30), 3).unwrap();
    assert!(!commit(&target, &retaining("tuesday", 20, 1), 4).unwrap());
    assert_eq!(ids(&newest(&target)), [2, 3]);
    assert!(commit(&target, &publication("monday", 10), 5).unwrap());
    assert_eq!(ids(&newest(&target)), [2, 3, 5]);
}
