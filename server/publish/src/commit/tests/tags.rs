//! The tags of publications, and the moves of `main`.

use super::*;

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
    let (_dir, target) = monday();
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
    let (_dir, target) = monday();
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

/// Regression: a publication that moved a branch and a tag removed the settings of other engines for how long
/// they are kept.
#[test]
fn a_branch_and_a_tag_that_move_are_kept_as_long_as_another_engine_has_set() {
    let (_dir, target) = monday();
    change(&target, 2, retain);
    let mut again = publication("monday", 11);
    again.rights.replaces_tag = true;
    assert!(commit(&target, &again, 2).unwrap());
    check_retained(&newest(&target), 2);
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
    let (_dir, target) = monday();
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
