//! The removal of objects that are left.

use super::*;
use crate::commit::{data_file_name, delete_file_name, sweep};
use crate::iceberg::testing::{data_file, delete_file};

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
