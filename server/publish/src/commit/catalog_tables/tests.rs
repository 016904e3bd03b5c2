//! Publications that a catalog commits, in a folder.

use bytes::Bytes;

use super::super::tests::{
    check_retained, commit, move_main, newest, publication, retain, retaining, stamp,
};
use super::super::{Publication, PublishedTable, data_file_name, sweep};
use crate::catalog::testing::TestCatalog;
use crate::iceberg::metadata::{MAIN, TableMetadata};
use crate::iceberg::testing::data_file;
use crate::target::Target;

/// Creates an empty folder, a catalog, and a target that keeps the files of tables in the folder and commits
/// them to the catalog.
fn place() -> (tempfile::TempDir, TestCatalog, Target) {
    let dir = tempfile::tempdir().unwrap();
    let catalog = TestCatalog::start();
    let target = catalog.commits(Target::folder(dir.path()).unwrap(), None);
    (dir, catalog, target)
}

/// Makes `main` name the first snapshot again, as another engine may do.
fn set_back(metadata: &mut TableMetadata) {
    metadata.current_snapshot_id = Some(1);
    metadata.refs.get_mut(MAIN).unwrap().snapshot_id = 1;
}

#[test]
fn a_catalog_has_the_table_with_its_tags_and_writes_the_metadata() {
    let (_dir, _catalog, target) = place();
    assert!(commit(&target, &publication("monday", 10), 1).unwrap());
    assert!(commit(&target, &publication("tuesday", 20), 2).unwrap());
    assert!(!commit(&target, &publication("tuesday", 20), 3).unwrap());
    let metadata = newest(&target);
    let named = |name: &str| metadata.refs[name].snapshot_id;
    assert_eq!([named("monday"), named("tuesday"), named(MAIN)], [1, 2, 2]);
    assert_eq!(metadata.table_uuid, "uuid-of-ks/t");
    assert_eq!(metadata.location, target.url("ks/t"));
    // The one of the catalog, and one of ebb's own.
    assert_eq!(metadata.properties["of.catalog"], "1");
    assert_eq!(metadata.properties["gc.enabled"], "false");
    let objects = target.list("ks/t/metadata").unwrap();
    assert!(
        !objects
            .iter()
            .any(|object| object.ends_with("json") || object.ends_with("hint.text"))
    );
    let table = PublishedTable::open(&target, "ks/t").unwrap();
    assert_eq!(table.version(), 2);
    assert_eq!(
        table.metadata_place(),
        Some("ks/t/metadata/00001-a.metadata.json")
    );
}

#[test]
fn a_branch_and_a_tag_that_move_are_kept_as_long_as_another_engine_has_set() {
    let (_dir, catalog, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    catalog.change("ks/t", retain);
    let mut again = publication("monday", 11);
    again.rights.replaces_tag = true;
    assert!(commit(&target, &again, 2).unwrap());
    check_retained(&newest(&target), 2);
}

/// Regression: another engine set a retention after ebb had read the table, and the commit of ebb undid it.
#[test]
fn retention_that_another_engine_sets_right_before_the_commit_is_kept() {
    let (_dir, catalog, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    let late = PublishedTable::open(&target, "ks/t").unwrap();
    catalog.change("ks/t", retain);
    let mut again = publication("monday", 11);
    again.rights.replaces_tag = true;
    assert!(late.commit(&again, &stamp(2)).unwrap());
    check_retained(&newest(&target), 2);
}

#[test]
fn a_catalog_removes_old_publications_with_the_commit_of_a_new_one() {
    let (_dir, catalog, target) = place();
    for (id, snapshot) in (1..).zip(["monday", "tuesday"]) {
        commit(&target, &publication(snapshot, 10 * id as u64), id).unwrap();
    }
    commit(&target, &retaining("wednesday", 30, 2), 3).unwrap();
    assert_eq!(catalog.commit_count(), 3);
    let metadata = newest(&target);
    assert!(metadata.refs.keys().eq(["main", "tuesday", "wednesday"]));
    assert!(!metadata.has_snapshot(1));
    assert_eq!(PublishedTable::open(&target, "ks/t").unwrap().version(), 3);
    // The list and the manifest of monday.
    assert_eq!(sweep(&target, "ks/t").unwrap(), 2);
    commit(&target, &retaining("thursday", 40, 1), 4).unwrap();
    assert!(newest(&target).refs.keys().eq(["main", "thursday"]));
}

#[test]
fn a_catalog_moves_main_by_a_commit_of_its_own() {
    let (_dir, catalog, target) = place();
    let mut monday = publication("monday", 10);
    monday.moves_main = false;
    assert!(commit(&target, &monday, 1).unwrap());
    assert!(!newest(&target).refs.contains_key(MAIN));
    assert!(move_main(&target, &monday, 2).unwrap());
    let mut tuesday = retaining("tuesday", 20, 1);
    tuesday.moves_main = false;
    tuesday.columns[0].id = 2;
    tuesday.last_column_id = 2;
    assert!(commit(&target, &tuesday, 3).unwrap());
    assert_eq!(newest(&target).current_schema_id, 0);
    assert!(move_main(&target, &tuesday, 4).unwrap());
    let metadata = newest(&target);
    assert!(metadata.refs.keys().eq([MAIN, "tuesday"]));
    assert_eq!(metadata.refs[MAIN].snapshot_id, 3);
    assert_eq!(metadata.current_schema_id, 1);
    assert_eq!(catalog.commit_count(), 4);
}

/// Such a table has no `main` yet, so catalogs would not check the number of a snapshot without a parent.
#[test]
fn of_two_publishers_after_a_first_one_that_was_killed_before_main_one_commits() {
    let (_dir, _catalog, target) = place();
    let tag_only = |snapshot: &str, sequence_number| Publication {
        moves_main: false,
        ..publication(snapshot, sequence_number)
    };
    commit(&target, &tag_only("monday", 10), 1).unwrap();
    let late = PublishedTable::open(&target, "ks/t").unwrap();
    commit(&target, &tag_only("tuesday", 20), 2).unwrap();
    assert!(late.commit(&tag_only("wednesday", 30), &stamp(3)).is_err());
    let numbers = newest(&target).snapshots;
    let numbers: Vec<i64> = numbers.iter().map(|of| of.sequence_number).collect();
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn a_snapshot_that_another_engine_names_right_before_the_commit_is_not_removed() {
    let (_dir, catalog, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    let late = PublishedTable::open(&target, "ks/t").unwrap();
    let name = |metadata: &mut TableMetadata| {
        let tag = metadata.refs["monday"].clone();
        metadata.refs.insert("release".to_owned(), tag);
    };
    catalog.change("ks/t", name);
    let tuesday = retaining("tuesday", 20, 1);
    let error = late.commit(&tuesday, &stamp(2)).unwrap_err().to_string();
    assert!(error.contains("publish again"), "{error}");
    assert_eq!(catalog.commit_count(), 1);
    assert!(commit(&target, &tuesday, 3).unwrap());
    let named = ["main", "monday", "release", "tuesday"];
    assert!(newest(&target).refs.keys().eq(named));
}

#[test]
fn the_retention_of_a_tag_that_is_removed_does_not_stop_its_removal() {
    let (_dir, catalog, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    let late = PublishedTable::open(&target, "ks/t").unwrap();
    catalog.change("ks/t", retain);
    assert!(
        late.commit(&retaining("tuesday", 20, 1), &stamp(2))
            .unwrap()
    );
    assert!(newest(&target).refs.keys().eq(["main", "tuesday"]));
}

/// Regression: two publishers, one with a catalog and one without, published a new table into the same folder
/// at the same time, and both committed. Later publishers of each kind then deleted the files of the other
/// kind.
#[test]
fn of_first_publishers_with_a_catalog_and_without_one_commits() {
    for is_first_with_catalog in [true, false] {
        let (dir, catalog, target) = place();
        let bare = Target::folder(dir.path()).unwrap();
        let (first, second, expected) = if is_first_with_catalog {
            (&target, &bare, "publish with --catalog")
        } else {
            (&bare, &target, "publish without --catalog")
        };
        let late = PublishedTable::open(second, "ks/t").unwrap();
        assert!(commit(first, &publication("monday", 10), 1).unwrap());
        let error = late.commit(&publication("tuesday", 20), &stamp(2));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(catalog.commit_count(), usize::from(is_first_with_catalog));
        assert!(commit(first, &publication("wednesday", 30), 3).unwrap());
        assert_eq!(newest(first).snapshots.len(), 2);
    }
}

#[test]
fn of_two_first_publishers_one_commits() {
    let (_dir, catalog, target) = place();
    let first = PublishedTable::open(&target, "ks/t").unwrap();
    let second = PublishedTable::open(&target, "ks/t").unwrap();
    assert!(first.commit(&publication("monday", 10), &stamp(1)).unwrap());
    let error = second.commit(&publication("tuesday", 20), &stamp(2));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("another publisher"), "{error}");
    assert_eq!(catalog.commit_count(), 1);
}

#[test]
fn a_table_is_committed_in_one_place_only() {
    let (dir, catalog, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    let bare = Target::folder(dir.path()).unwrap();
    let error = commit(&bare, &publication("tuesday", 20), 2);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("--catalog"), "{error}");

    let other = TestCatalog::start();
    let of_other = other.commits(bare.clone(), None);
    let error = commit(&of_other, &publication("tuesday", 20), 2);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains(catalog.url()) && error.contains(other.url()),
        "{error}"
    );

    let without = tempfile::tempdir().unwrap();
    let bare = Target::folder(without.path()).unwrap();
    commit(&bare, &publication("monday", 10), 1).unwrap();
    let of_other = other.commits(bare.clone(), None);
    let error = commit(&of_other, &publication("tuesday", 20), 2);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("without a catalog"), "{error}");
    // Earlier builds left no mark.
    bare.remove("ks/t/metadata/ebb-catalog.txt").unwrap();
    let error = commit(&of_other, &publication("tuesday", 20), 2);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("metadata of the table"), "{error}");
    assert_eq!(newest(&bare).snapshots.len(), 1);

    // The catalog has a table of this name in the first folder.
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = catalog.commits(Target::folder(elsewhere.path()).unwrap(), None);
    let error = commit(&elsewhere, &publication("tuesday", 20), 2);
    let error = error.unwrap_err().to_string();
    assert!(error.contains(&target.url("ks/t")), "{error}");
    assert_eq!((catalog.commit_count(), other.commit_count()), (1, 0));
}

/// Regression: a publisher committed by a catalog in which a published table was only registered.
/// Later, publishers in either place deleted the files of those in the other place.
#[test]
fn a_table_that_is_registered_in_a_further_catalog_is_committed_in_its_first_place_only() {
    for is_first_with_catalog in [true, false] {
        let (dir, catalog, target) = place();
        let bare = Target::folder(dir.path()).unwrap();
        let (first, expected) = if is_first_with_catalog {
            (&target, catalog.url())
        } else {
            (&bare, "publish without --catalog")
        };
        assert!(commit(first, &publication("monday", 10), 1).unwrap());
        let further = TestCatalog::start();
        further.register("ks/t", newest(first));
        let registered = further.commits(bare.clone(), None);
        let error = commit(&registered, &publication("tuesday", 20), 2);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(sweep(&registered, "ks/t").is_err());
        assert_eq!(further.commit_count(), 0);
        assert!(commit(first, &publication("wednesday", 30), 3).unwrap());
    }
}

/// Earlier builds of ebb left no marks.
#[test]
fn a_table_without_a_mark_gets_one_with_its_next_commit() {
    let (dir, catalog, target) = place();
    let bare = Target::folder(dir.path()).unwrap();
    commit(&bare, &publication("monday", 10), 1).unwrap();
    bare.remove("ks/t/metadata/ebb-catalog.txt").unwrap();
    catalog.register("ks/t", newest(&bare));
    let error = commit(&target, &publication("tuesday", 20), 2);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("publish without --catalog"), "{error}");
    assert!(sweep(&target, "ks/t").is_err());
    assert_eq!(catalog.commit_count(), 0);
    assert!(commit(&bare, &publication("tuesday", 20), 2).unwrap());
    let mark = bare.read("ks/t/metadata/ebb-catalog.txt").unwrap();
    assert_eq!(mark.unwrap(), "no catalog");
}

#[test]
fn a_catalog_with_another_url_commits_a_table_once_its_mark_is_removed() {
    let (dir, before, target) = place();
    assert!(commit(&target, &publication("monday", 10), 1).unwrap());
    let after = TestCatalog::start();
    after.register("ks/t", newest(&target));
    let moved = after.commits(Target::folder(dir.path()).unwrap(), None);
    let error = commit(&moved, &publication("tuesday", 20), 2);
    let error = error.unwrap_err().to_string();
    let mark = "ks/t/metadata/ebb-catalog.txt";
    let remedy = format!("remove {}", target.url(mark));
    assert!(error.contains(&remedy), "{error}");

    target.remove(mark).unwrap();
    assert!(commit(&moved, &publication("tuesday", 20), 2).unwrap());
    assert_eq!(newest(&moved).snapshots.len(), 2);
    let error = commit(&target, &publication("wednesday", 30), 3);
    let error = error.unwrap_err().to_string();
    assert!(error.contains(after.url()), "{error}");
    assert_eq!((before.commit_count(), after.commit_count()), (1, 1));
}

#[test]
fn a_main_that_was_set_back_meanwhile_does_not_let_a_late_publisher_commit() {
    let (_dir, catalog, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    let late = PublishedTable::open(&target, "ks/t").unwrap();
    commit(&target, &publication("tuesday", 20), 2).unwrap();
    // What the late publisher has written may be swept now.
    catalog.change("ks/t", set_back);
    let error = late.commit(&publication("wednesday", 30), &stamp(3));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("400"), "{error}");
    assert_eq!(newest(&target).snapshots.len(), 2);
}

#[test]
fn a_main_that_was_set_back_is_no_base_of_what_was_compared_with_the_snapshot_before() {
    let (_dir, catalog, target) = place();
    commit(&target, &publication("monday", 10), 1).unwrap();
    commit(&target, &publication("tuesday", 20), 2).unwrap();
    let at = || PublishedTable::open(&target, "ks/t").unwrap();
    let (version, snapshot_id) = (at().version(), at().snapshot_id());
    at().check_is_at(version, snapshot_id).unwrap();
    catalog.change("ks/t", set_back);
    assert_eq!((at().version(), at().snapshot_id()), (version, Some(1)));
    let error = at().check_is_at(version, snapshot_id).unwrap_err();
    assert!(error.to_string().contains("publish again"), "{error}");
}

#[test]
fn objects_that_cannot_be_committed_any_more_are_swept_and_no_others() {
    let (_dir, _catalog, target) = place();
    let file = |version, unique: &str| {
        let name = data_file_name("ks/t", version, unique);
        target.create(&name, Bytes::from_static(b"rows")).unwrap();
        data_file(&target.url(&name), 1)
    };
    let mut first = publication("monday", 10);
    first.files = vec![file(1, "a")];
    file(1, "left");
    // Its publisher is still at work.
    file(2, "next");
    commit(&target, &first, 1).unwrap();
    assert_eq!(sweep(&target, "ks/t").unwrap(), 1);
    let mut left = target.list("ks/t/data").unwrap();
    left.sort();
    let own = |version, unique| data_file_name("ks/t", version, unique);
    assert_eq!(left, [own(1, "a"), own(2, "next")]);
    assert!(commit(&target, &publication("tuesday", 20), 2).unwrap());
}
