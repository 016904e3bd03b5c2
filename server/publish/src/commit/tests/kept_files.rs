//! Publications that keep the files before them.

use super::*;
use crate::commit::LiveFile;
use crate::iceberg::manifest::{DataFile, Status};
use crate::iceberg::testing::{data_file, delete_file};

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
    let (_dir, target) = monday();
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
