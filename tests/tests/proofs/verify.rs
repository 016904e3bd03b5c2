//! Verification finds all damage, and changes nothing.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ebb_storage::{Db, Error, Finding, MaintenanceProgress, TableOptions, VerifyReport, verify};
use ebb_tests::disk::{self, DIR, MemDisk, manual};
use ebb_tests::made::{Made, open_at};
use ebb_tests::model::World;
use ebb_tests::operation::Mix;
use ebb_tests::session::read_everything;

/// Creates and closes a database of several runs, with snapshots and a log. Returns its expected
/// content.
fn database(mem: &MemDisk) -> World {
    Made::drawn(11, mem, Mix::CHANGES, 150).unwrap().world
}

fn look(mem: &MemDisk) -> VerifyReport {
    verify(DIR, &manual(mem), &mut |_| ()).unwrap()
}

fn paths(mem: &MemDisk) -> Vec<PathBuf> {
    disk::files(mem, DIR, "").unwrap()
}

fn bytes(mem: &MemDisk) -> Vec<Vec<u8>> {
    let read = |path: &PathBuf| mem.read_all(path).unwrap();
    paths(mem).iter().map(read).collect()
}

#[test]
fn a_sound_database_has_no_findings_open_or_closed() {
    let mem = MemDisk::new();
    let expected = database(&mem);
    let before = bytes(&mem);
    let mut last = 0;
    let closed = verify(DIR, &manual(&mem), &mut |progress| {
        assert!(progress.bytes_done >= last && progress.bytes_done <= progress.bytes_total);
        last = progress.bytes_done;
    })
    .unwrap();
    assert_eq!(closed.findings, []);
    assert_eq!(last, closed.bytes);
    assert!(closed.entries > 0 && closed.runs > 0 && closed.wal_records > 0);
    assert!(bytes(&mem) == before, "verifying changed a file");

    let db = open_at(&mem, DIR, &expected).unwrap();
    let open = db.verify().unwrap();
    assert_eq!((open.runs, open.entries), (closed.runs, closed.entries));
    assert_eq!(open.wal_records, closed.wal_records);
    let expected = expected.seen();
    let snapshots = expected.snapshots.len() as u64;
    assert_eq!((open.bookmarks, closed.bookmarks), (snapshots, snapshots));
    assert!(matches!(
        verify(DIR, &manual(&mem), &mut |_| ()),
        Err(Error::BeingWritten { .. })
    ));
    let found = read_everything(&db).unwrap();
    assert!(found == expected, "{}", found.difference(&expected));
}

#[test]
fn a_verification_ends_at_the_step_that_stops_it() {
    let mem = MemDisk::new();
    let expected = database(&mem);
    let db = open_at(&mem, DIR, &expected).unwrap();
    let stopped_at = |last: u64| {
        let mut steps = 0;
        let step = |now: MaintenanceProgress| {
            assert!(now.bytes_done <= now.bytes_total);
            steps += 1;
            if steps == last {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let verified = db.verify_while(|| true, step);
        (verified.unwrap(), steps)
    };
    let (whole, steps) = stopped_at(u64::MAX);
    let whole = whole.expect("nothing stops it");
    assert_eq!(whole.findings, []);
    assert!(steps > whole.files, "each block is a step, too");
    for last in 1..=steps {
        assert_eq!(stopped_at(last), (None, last));
    }
    assert_eq!(db.verify_all(|_| ()).unwrap(), whole);
}

/// A server verifies under a lease, which it checks at each step. So a step must not be long, even
/// if the log has a single large record.
#[test]
fn the_log_is_verified_in_pieces() {
    let mem = MemDisk::new();
    let db = Db::open(DIR, manual(&mem)).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let table = keyspace.table("users", TableOptions::default()).unwrap();
    table.put(b"key", &vec![7; 1 << 20]).unwrap();
    let (mut done, mut longest) = (0, 0_u64);
    let step = |now: MaintenanceProgress| {
        longest = longest.max(now.bytes_done - done);
        done = now.bytes_done;
        ControlFlow::Continue(())
    };
    let report = db.verify_while(|| true, step).unwrap().unwrap();
    assert_eq!(report.findings, []);
    assert!(done > 1 << 20, "{done} bytes");
    assert!(longest <= 256 << 10, "{longest} of {done} bytes");
}

#[test]
fn every_damaged_file_is_named_and_nothing_panics() {
    let mem = MemDisk::new();
    database(&mem);
    for path in paths(&mem) {
        let len = mem.file_len(&path).unwrap();
        let tail = last_record(&mem, &path);
        for at in (0..len).step_by(13) {
            mem.flip_bit(&path, at, (at % 8) as u8).unwrap();
            let report = look(&mem);
            // A crash may also tear the end of a log or of a manifest.
            let is_found = report.findings.iter().any(|f| f.path == path)
                || report.wal_torn_bytes > 0
                || at >= tail;
            assert!(
                is_found,
                "{} at {at}: {:?}",
                path.display(),
                report.findings
            );
            mem.flip_bit(&path, at, (at % 8) as u8).unwrap();
        }
    }
    assert_eq!(look(&mem).findings, []);
}

/// Returns the offset of the last record of a manifest; for any other file, its length.
fn last_record(mem: &MemDisk, path: &Path) -> u64 {
    let bytes = mem.read_all(path).unwrap();
    if !path.to_string_lossy().contains("MANIFEST") {
        return bytes.len() as u64;
    }
    let (mut start, mut next) = (32, 32);
    while next < bytes.len() {
        start = next;
        let len = u32::from_le_bytes(bytes[start + 4..start + 8].try_into().unwrap());
        next = start + 8 + len as usize;
    }
    start as u64
}

#[test]
fn all_damage_is_found_not_only_the_first() {
    let mem = MemDisk::new();
    database(&mem);
    let tables = disk::files(&mem, DIR, ".sst").unwrap();
    assert!(tables.len() > 2);
    disk::remove(&mem, &tables[0]).unwrap();
    for path in &tables[1..] {
        mem.flip_bit(path, 3, 0).unwrap();
    }
    let report = look(&mem);
    for path in &tables {
        assert!(
            report.findings.iter().any(|f| f.path == *path),
            "{} in {:?}",
            path.display(),
            report.findings
        );
    }
    let missing = |f: &&Finding| f.path == tables[0] && f.detail.contains("missing");
    assert_eq!(report.findings.iter().filter(missing).count(), 1);
}

#[test]
fn a_directory_whose_manifest_is_damaged_is_still_verified() {
    let mem = MemDisk::new();
    database(&mem);
    let mut copies = paths(&mem);
    copies.retain(|path| path.to_string_lossy().contains("MANIFEST"));
    for copy in &copies {
        mem.flip_bit(copy, 30, 1).unwrap();
    }
    let table = paths(&mem).remove(0);
    mem.flip_bit(&table, 3, 0).unwrap();
    let report = look(&mem);
    for path in [copies.remove(0), table] {
        assert!(report.findings.iter().any(|f| f.path == path));
    }
    assert!(report.files > 2);
}

#[test]
fn an_empty_or_missing_directory_is_no_database() {
    let mem = MemDisk::new();
    disk::create_dir(&mem, DIR).unwrap();
    for dir in [DIR, "/none"] {
        let error = verify(dir, &manual(&mem), &mut |_| ()).unwrap_err();
        assert!(matches!(error, Error::NoDatabase { .. }), "{error}");
    }
}

/// Regression: the manifest counts the range tombstones of a run, but its files count versions
/// only. So after the first flush of a range tombstone, `verify` reported that the manifest
/// contradicts itself. The last file of a run may have range tombstones only, which is no damage
/// either.
#[test]
fn a_run_with_range_tombstones_is_sound() {
    let mem = MemDisk::new();
    let db = Db::open(DIR, manual(&mem)).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let table = keyspace.table("users", TableOptions::default()).unwrap();
    keyspace.create_snapshot("before").unwrap();
    table.delete_range("b".."d").unwrap();
    db.flush().unwrap();
    db.verify().unwrap();
    table.put(b"a", b"1").unwrap();
    table.put(b"e", b"1").unwrap();
    table.delete_range("c".."g").unwrap();
    db.flush().unwrap();
    db.verify().unwrap();
}
