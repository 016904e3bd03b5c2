//! Sweeps of tables with many publications, and of their old metadata files.

use std::cell::Cell;
use std::fs::File;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use object_store::memory::InMemory;

use super::super::expiry::{Expired, Retention};
use super::super::names::metadata_name;
use super::super::tests::{commit, move_main, newest, publication, rights, stamp};
use super::super::{Stamp, data_file_name};
use super::*;
use crate::iceberg::testing::data_file;
use crate::target::faulty::{Event, faulty_target, target};

const TABLE: &str = "ks/t";

fn write(target: &Target, version: u64, unique: &str) -> String {
    let name = data_file_name(TABLE, version, unique);
    let rows = Bytes::from_static(b"rows");
    assert!(target.create(&name, rows).unwrap());
    name
}

/// Publishes one data file as a job does: sweeps, commits, and sweeps again. With `keep`, the newest `keep`
/// publications stay. Returns the name of the data file.
fn publish(target: &Target, day: i64, keep: Option<u32>) -> String {
    let swept = sweep_unsettled(target, TABLE, &|| true).unwrap();
    let table = PublishedTable::open(target, TABLE).unwrap();
    assert_eq!(swept, Some(table.version()));
    let mut publication = publication(&format!("day{day}"), 10 * day as u64);
    publication.retention = keep.map(|publications| Retention {
        publications,
        age: None,
    });
    let name = write(target, table.version() + 1, "a");
    publication.files = vec![data_file(&target.url(&name), 1)];
    publication.swept = swept;
    let expired = publication.retention.map_or_else(Expired::default, |of| {
        let now_ms = stamp(day).now_ms;
        let expired = table.expired(&publication.origin, &rights(), &of, now_ms);
        expired.unwrap()
    });
    assert!(table.commit(&publication, &stamp(day)).unwrap());
    sweep_sparing(target, TABLE, &expired.snapshots).unwrap();
    name
}

fn is_there(target: &Target, name: &str) -> bool {
    target.read(name).unwrap().is_some()
}

/// Returns the number of requests that a sweep makes.
fn request_count(store: &InMemory, sweep: impl Fn(&Target) -> Result<(), CommitError>) -> usize {
    let ends = |at: &usize| {
        let (target, calls) = faulty_target(store, *at, Event::Kill);
        let swept = sweep(&target);
        if calls.met_event() {
            return false;
        }
        swept.unwrap();
        true
    };
    (0..).find(ends).unwrap()
}

/// Regression: a sweep read the manifest list of each snapshot, and publications are kept for ever by default.
#[test]
fn the_requests_of_a_sweep_do_not_grow_with_the_publications() {
    let store = InMemory::new();
    let target = target(&store);
    let unsettled = |target: &Target| sweep_unsettled(target, TABLE, &|| true).map(drop);
    let sparing = |target: &Target| sweep_sparing(target, TABLE, &[]).map(drop);
    (1..=3).for_each(|day| drop(publish(&target, day, None)));
    let few = [
        request_count(&store, unsettled),
        request_count(&store, sparing),
    ];
    (4..=20).for_each(|day| drop(publish(&target, day, None)));
    let many = [
        request_count(&store, unsettled),
        request_count(&store, sparing),
    ];
    assert_eq!(few, many);
    // A sweep of all objects reads the list and the manifest of each older snapshot.
    let all = request_count(&store, |target| sweep(target, TABLE).map(drop));
    assert_eq!(all, many[0] + 2 * 19);
}

#[test]
fn files_of_killed_and_of_overtaken_publishers_are_removed() {
    let store = InMemory::new();
    let target = target(&store);
    let first = publish(&target, 1, None);
    publish(&target, 2, None);
    let killed = write(&target, 3, "killed");
    sweep_unsettled(&target, TABLE, &|| true).unwrap();
    assert!(is_there(&target, &killed), "its publisher may be at work");
    publish(&target, 3, None);
    assert!(!is_there(&target, &killed));
    // These publishers still write for versions that have long been there.
    let late = [1, 2, 3].map(|version| write(&target, version, "late"));
    assert_eq!(sweep_unsettled(&target, TABLE, &|| true).unwrap(), Some(3));
    assert!(!late.iter().any(|late| is_there(&target, late)));
    assert!(is_there(&target, &first));
    assert_eq!(sweep(&target, TABLE).unwrap(), 0);
}

#[test]
fn files_of_removed_publications_go_with_the_next_sweep_and_settle_again() {
    let store = InMemory::new();
    let target = target(&store);
    let names: Vec<String> = (1..=4).map(|day| publish(&target, day, None)).collect();
    publish(&target, 5, Some(2));
    assert!(names.iter().all(|name| is_there(&target, name)));
    publish(&target, 6, None);
    let left: Vec<bool> = names.iter().map(|name| is_there(&target, name)).collect();
    assert_eq!(left, [false, false, false, true]);
    assert_eq!(sweep(&target, TABLE).unwrap(), 0);
    let settled = &newest(&target).properties["ebb.settled-versions"];
    assert_eq!(settled, "0-5");
}

/// Regression: the commit that moves `main` removed publications, but left the versions of their objects settled.
#[test]
fn files_of_publications_that_a_move_of_main_removes_go_with_the_next_sweep() {
    let store = InMemory::new();
    let target = target(&store);
    let names: Vec<String> = (1..=3).map(|day| publish(&target, day, None)).collect();
    let mut fourth = publication("day4", 40);
    fourth.swept = sweep_unsettled(&target, TABLE, &|| true).unwrap();
    fourth.moves_main = false;
    fourth.retention = Some(Retention {
        publications: 2,
        age: None,
    });
    let name = write(&target, 4, "a");
    let index = row_index::name(&name).unwrap();
    assert!(target.create(&index, Bytes::new()).unwrap());
    fourth.files = vec![data_file(&target.url(&name), 1)];
    let settled = || newest(&target).properties["ebb.settled-versions"].clone();
    assert!(commit(&target, &fourth, 4).unwrap());
    assert_eq!(settled(), "0-3");
    assert_eq!(sweep(&target, TABLE).unwrap(), 0);
    assert!(is_there(&target, &index), "`main` is about to name it");

    assert!(move_main(&target, &fourth, 5).unwrap());
    assert_eq!(settled(), "2-3");
    sweep_unsettled(&target, TABLE, &|| true).unwrap();
    let left: Vec<bool> = names.iter().map(|name| is_there(&target, name)).collect();
    assert_eq!(left, [false, false, true]);
    assert!(is_there(&target, &name) && is_there(&target, &index));

    // The move was version 5. It has no list of manifests to which a file could be compared.
    publish(&target, 6, None);
    assert_eq!(settled(), "0-5");
    let late = write(&target, 5, "late");
    sweep_unsettled(&target, TABLE, &|| true).unwrap();
    assert!(!is_there(&target, &late));
    assert_eq!(sweep(&target, TABLE).unwrap(), 0);
}

#[test]
fn a_sweep_that_is_stopped_is_done_by_the_next_one() {
    let store = InMemory::new();
    let target = target(&store);
    publish(&target, 1, None);
    publish(&target, 2, None);
    let late = ["a", "b"].map(|unique| write(&target, 1, &format!("late-{unique}")));
    for checks in 0_u32.. {
        let left = Cell::new(checks);
        let goes_on = || left.replace(left.get().saturating_sub(1)) > 0;
        let swept = sweep_unsettled(&target, TABLE, &goes_on).unwrap();
        let is_done = !late.iter().any(|late| is_there(&target, late));
        assert_eq!(swept.is_some(), is_done, "{checks}");
        if is_done {
            assert!(checks > 2, "{checks}");
            break;
        }
    }
    assert_eq!(sweep(&target, TABLE).unwrap(), 0);
}

/// Publishes five days into a folder that keeps the newest metadata file and two earlier ones. Each metadata file
/// seems to have been written on its day.
fn five_days(dir: &tempfile::TempDir) -> Target {
    let target = Target::folder(dir.path()).unwrap();
    for day in 1..=5_u64 {
        let mut publication = publication(&format!("day{day}"), day);
        let few = ("write.metadata.previous-versions-max", "2");
        let few = (few.0.to_owned(), few.1.to_owned());
        publication.properties.extend([few]);
        commit(&target, &publication, day as i64).unwrap();
        let file = File::options()
            .write(true)
            .open(dir.path().join(metadata_name(TABLE, day)));
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(24 * 3600 * day);
        file.unwrap().set_modified(written).unwrap();
    }
    target
}

/// Regression: metadata files were never removed. Each names all snapshots, so they took more space than the rows.
#[test]
fn old_metadata_files_are_removed_and_the_table_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let target = five_days(&dir);
    assert_eq!(sweep(&target, TABLE).unwrap(), 2);
    assert_eq!(sweep(&target, TABLE).unwrap(), 0);
    let left = [1, 2, 3, 4, 5].map(|version| is_there(&target, &metadata_name(TABLE, version)));
    assert_eq!(left, [false, false, true, true, true]);
    let metadata = newest(&target);
    assert_eq!(metadata.snapshots.len(), 5);
    assert!(commit(&target, &publication("next", 60), 6).unwrap());
    assert_eq!(newest(&target).snapshots.len(), 6);
}

/// The name of a removed metadata file is free, so the creation of it alone would not show that another publisher
/// has committed this version.
#[test]
fn a_publisher_of_a_version_whose_metadata_was_removed_does_not_commit() {
    let dir = tempfile::tempdir().unwrap();
    let target = Target::folder(dir.path()).unwrap();
    let first = PublishedTable::open(&target, TABLE).unwrap();
    commit(&target, &publication("day0", 1), 50).unwrap();
    let second = PublishedTable::open(&target, TABLE).unwrap();
    for version in 2..=5 {
        commit(
            &target,
            &publication(&format!("day{version}"), 10),
            50 + version,
        )
        .unwrap();
    }
    let next = PublishedTable::open(&target, TABLE).unwrap();
    for version in 1..=3 {
        target.remove(&metadata_name(TABLE, version)).unwrap();
    }
    let before = target.list("ks/t/metadata").unwrap().len();
    for (late, id) in [(first, 61), (second, 62)] {
        let stamp = Stamp {
            table_uuid: "another".to_owned(),
            ..stamp(id)
        };
        let error = late.commit(&publication("late", 20), &stamp).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("another publisher"), "{error}");
    }
    let named = newest(&target);
    assert_eq!(named.snapshots.len(), 5);
    assert!(!named.refs.contains_key("late"));
    let hint = target.read("ks/t/metadata/version-hint.text").unwrap();
    assert_eq!(hint.unwrap(), "5");
    // Both have left a manifest and a list.
    assert_eq!(target.list("ks/t/metadata").unwrap().len(), before + 4);
    assert!(next.commit(&publication("day6", 60), &stamp(66)).unwrap());
}
