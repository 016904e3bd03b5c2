//! Targets in folders and in memory, and targets one of whose calls fails.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;

use object_store::memory::InMemory;

use super::faulty::{Event, faulty_target};
use super::upload::{FOLDER_PART_BYTES, PART_BYTES};
use super::*;

fn target() -> (tempfile::TempDir, Target) {
    let dir = tempfile::tempdir().unwrap();
    let target = Target::folder(&dir.path().join("new/folder")).unwrap();
    (dir, target)
}

#[test]
fn a_name_is_created_once() {
    let (_dir, target) = target();
    target.check_creates_once("1").unwrap();
    assert!(target.list("_ebb").unwrap().is_empty());
    assert!(target.create("a/v1", Bytes::from_static(b"one")).unwrap());
    assert!(!target.create("a/v1", Bytes::from_static(b"two")).unwrap());
    assert_eq!(target.read("a/v1").unwrap().unwrap(), "one");
    assert_eq!(target.read("a/v2").unwrap(), None);
    let part = |name: &str, range| target.get_range(&name.into(), range);
    assert_eq!(part("a/v1", 1..3).unwrap(), "ne");
    assert!(part("a/v1", 3..4).is_err() && part("a/v2", 0..1).is_err());
    assert_eq!(target.name(&target.url("a/v1")), Some("a/v1"));
    assert_eq!(target.name("file:///elsewhere/a/v1"), None);
    target
        .replace("a/v1", Bytes::from_static(b"three"))
        .unwrap();
    assert_eq!(target.read("a/v1").unwrap().unwrap(), "three");
    target.remove("a/v1").unwrap();
    target.remove("a/v1").unwrap();
}

#[test]
fn a_durable_removal_needs_neither_the_object_nor_its_folder() {
    let (dir, target) = target();
    target.remove_durably("_ebb/app/monday.json").unwrap();
    assert!(!dir.path().join("new").exists());
    let create = |name: &str| target.create(name, Bytes::from_static(b"one")).unwrap();
    assert!(create("_ebb/app/monday.json") && create("_ebb/app/tuesday.json"));
    target.remove_durably("_ebb/app/monday.json").unwrap();
    target.remove_durably("_ebb/app/monday.json").unwrap();
    assert_eq!(target.list("_ebb").unwrap(), ["_ebb/app/tuesday.json"]);
    // A bucket has nothing to sync.
    let bucket = faulty::target(&InMemory::new());
    bucket.remove_durably("_ebb/app/monday.json").unwrap();
}

#[test]
fn probes_of_killed_publishers_are_removed_and_nothing_else() {
    let (dir, target) = target();
    let own = dir.path().join("new/folder/_ebb");
    fs::create_dir_all(own.join("app")).unwrap();
    let probes = ["probe-1", "probe-2#1"];
    let others = ["monday.json", "monday.json#1", "app/probe-3"];
    for name in probes.iter().chain(&others) {
        fs::write(own.join(name), "a").unwrap();
    }
    target.check_creates_once("4").unwrap();
    let is_there = |name: &str| own.join(name).exists();
    assert!(!probes.iter().any(|name| is_there(name)));
    assert!(others.iter().all(|name| is_there(name)));
}

#[test]
fn publishers_prove_that_names_are_created_once_wherever_another_one_removes_their_probes() {
    for at in 0.. {
        let store = InMemory::new();
        let rival = faulty::target(&store);
        let prove = move || rival.check_creates_once("rival").unwrap();
        let (target, calls) = faulty_target(&store, at, Event::Meanwhile(Arc::new(prove)));
        target.check_creates_once("1").unwrap();
        assert!(faulty::target(&store).list("").unwrap().is_empty());
        if !calls.met_event() {
            break;
        }
    }
}

#[test]
fn a_create_whose_answer_was_lost_is_distinguished_from_a_rivals() {
    let ours = || Bytes::from_static(b"ours");
    for (rival, is_ours) in [(None, true), (Some("theirs"), false), (Some("ours"), true)] {
        let store = InMemory::new();
        if let Some(bytes) = rival {
            faulty::target(&store).create("v1", bytes.into()).unwrap();
        }
        let (target, _) = faulty_target(&store, 0, Event::LoseAnswer);
        assert_eq!(target.create("v1", ours()).unwrap(), is_ours);
    }
    let (target, _) = faulty_target(&InMemory::new(), 0, Event::Kill);
    let error = target.create("v1", ours()).unwrap_err().to_string();
    assert!(error.starts_with("creating memory://store/v1: "), "{error}");
}

#[test]
fn an_upload_with_a_failed_part_stays_incomplete() {
    // The call 0 begins the upload.
    let store = InMemory::new();
    let (target, _) = faulty_target(&store, 1, Event::LoseAnswer);
    let mut upload = target.upload("data/1").unwrap();
    let part = vec![7; PART_BYTES];
    // The write that finds out is one of the last two, or none.
    let sent = (0..4).try_for_each(|_| upload.write_all(&part));
    let error = upload.complete().unwrap_err();
    let error = sent.map_or_else(|sent| sent.to_string(), |()| error.to_string());
    assert!(error.contains("the connection was closed"), "{error}");
    assert_eq!(faulty::target(&store).read("data/1").unwrap(), None);
}

#[test]
fn an_upload_takes_space_for_each_part_before_it_is_sent_and_leaves_nothing_without() {
    let (dir, target) = target();
    let part = vec![7; FOLDER_PART_BYTES];
    for (rest, is_refused_early) in [(FOLDER_PART_BYTES, true), (1, false)] {
        let mut left_bytes = FOLDER_PART_BYTES as u64;
        let upload = target.upload("data/1").unwrap();
        let mut upload = upload.taking_space(move |bytes| {
            let left = left_bytes.checked_sub(bytes);
            left_bytes = left.ok_or(io::ErrorKind::StorageFull)?;
            Ok(())
        });
        upload.write_all(&part).unwrap();
        let more = upload.write_all(&part[..rest]);
        assert_eq!(more.is_err(), is_refused_early);
        if !is_refused_early {
            let error = upload.complete().unwrap_err();
            assert!(matches!(error, TargetError::DiskFull(_)), "{error}");
        }
        let left = fs::read_dir(dir.path().join("new/folder/data")).unwrap();
        assert_eq!(left.count(), 0);
    }
}

#[test]
fn an_upload_appears_when_it_is_complete_or_leaves_nothing() {
    let (dir, target) = target();
    let bytes: Vec<u8> = (0..3 * FOLDER_PART_BYTES + 10)
        .map(|i| (i / 1000) as u8)
        .collect();
    let mut upload = target.upload("data/1").unwrap();
    upload.write_all(&bytes).unwrap();
    assert_eq!(target.read("data/1").unwrap(), None);
    upload.complete().unwrap();
    assert_eq!(target.read("data/1").unwrap().unwrap(), bytes);

    let mut upload = target.upload("data/2").unwrap();
    upload.write_all(&bytes).unwrap();
    drop(upload);
    let files = fs::read_dir(dir.path().join("new/folder/data")).unwrap();
    assert_eq!(files.count(), 1);
}

#[test]
fn an_absent_folder_has_the_location_that_it_gets_and_the_first_object_creates_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    symlink(&root, root.join("link")).unwrap();
    for name in ["lake", "a b/50%20 +*[1]", "link/lake2"] {
        let folder = root.join(name);
        let target = Target::folder(&folder).unwrap();
        assert!(target.list("").unwrap().is_empty());
        assert!(!folder.exists(), "{name}");
        target.create("ks/t", Bytes::from_static(b"one")).unwrap();
        assert_eq!(fs::read(folder.join("ks/t")).unwrap(), b"one");
        let again = Target::folder(&folder).unwrap();
        assert_eq!(again.url("ks/t"), target.url("ks/t"));
        for target in [target, again] {
            assert_eq!(target.list("ks").unwrap(), ["ks/t"], "{name}");
        }
    }
    let url = Target::folder(&root.join("link/lake2")).unwrap().url("");
    assert_eq!(url, format!("file://{}/lake2/", root.display()));
    let error = Target::folder(&root.join("none/../lake")).unwrap_err();
    assert!(error.to_string().contains(".."), "{error}");
}

#[test]
fn a_folder_that_readers_would_not_find_by_its_location_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    // A folder that is there, and absent ones.
    fs::create_dir(dir.path().join("c#")).unwrap();
    for name in ["c#", "c#/lake", "lake #1", "lake?", "a\tb", "a\nb"] {
        let error = Target::folder(&dir.path().join(name)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(name) && error.contains("'#'"), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_target_that_is_a_file_is_refused_by_its_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for path in [file.path().to_path_buf(), file.path().join("below")] {
        let error = Target::folder(&path).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn files_of_an_upload_whose_process_ended_are_removed_and_no_others() {
    let (dir, target) = target();
    let data = dir.path().join("new/folder/data");
    fs::create_dir_all(&data).unwrap();
    let [left, next, whole] = ["ebb-1-a.parquet#1", "ebb-2-a.parquet#12", "ebb-1-b.parquet"];
    for name in [left, next, whole] {
        fs::write(data.join(name), "rows").unwrap();
    }
    let is_left = |object: &str| object.starts_with("ebb-1-");
    assert_eq!(target.remove_unfinished("data", is_left).unwrap(), 1);
    assert!(!data.join(left).exists());
    assert!(data.join(next).exists() && data.join(whole).exists());
    assert_eq!(target.remove_unfinished("none", is_left).unwrap(), 0);
}

#[test]
fn a_dropped_upload_does_not_wait_for_a_store_that_stalls() {
    let (target, calls) = faulty_target(&InMemory::new(), 1, Event::Stall);
    let mut upload = target.upload("data/1").unwrap();
    upload.write_all(&vec![7; PART_BYTES]).unwrap();
    drop(upload);
    assert!(calls.met_event());
}

#[test]
fn objects_that_are_read_at_once_come_in_the_order_of_their_keys() {
    let (_dir, target) = target();
    let keys: Vec<Path> = (0..100).map(|at| format!("many/{at}").into()).collect();
    for (at, key) in keys.iter().enumerate().filter(|(at, _)| at % 7 != 0) {
        target.replace(key.as_ref(), vec![7; at].into()).unwrap();
    }
    let read = |at: usize, bytes: Option<Bytes>| (at, bytes.map(|bytes| bytes.len()));
    let expected = (0..100).map(|at| (at, (at % 7 != 0).then_some(at)));
    let expected: Vec<_> = expected.collect();
    assert_eq!(target.get_each(&keys, read).unwrap(), expected);
    let sizes = expected
        .iter()
        .map(|(_, size)| size.map(|size| size as u64));
    assert_eq!(target.sizes(&keys).unwrap(), sizes.collect::<Vec<_>>());
}
