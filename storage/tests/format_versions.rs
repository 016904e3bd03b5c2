//! Files of other format versions: read where this build can, refused by name
//! where it cannot, by an opening, a verification and a repair alike.

mod common;

use std::path::{Path, PathBuf};

use common::*;
use ebb_storage::vfs::{MemVfs, Vfs};
use ebb_storage::{Db, Error, repair, verify};

const TARGET: &str = "/repaired";
const HEADER_BYTES: usize = 32;
const FOOTER_BYTES: usize = 64;

/// One file of each kind, closed: an SSTable, a log with a commit, a manifest.
fn database() -> MemVfs {
    let mem = MemVfs::new();
    let db = Db::open(DIR, manual(&mem)).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let table = keyspace.table("users", Default::default()).unwrap();
    table.put(b"flushed", b"1").unwrap();
    db.flush().unwrap();
    table.put(b"logged", b"2").unwrap();
    drop((db, keyspace, table));
    mem
}

/// The newest file with this in its name.
fn file(mem: &MemVfs, part: &str) -> PathBuf {
    let mut paths = mem.list(DIR.as_ref()).unwrap();
    paths.retain(|path| path.to_string_lossy().contains(part));
    paths.sort();
    paths.pop().unwrap()
}

fn change(mem: &MemVfs, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = mem.read_all(path).unwrap();
    change(&mut bytes);
    mem.create(path).unwrap().append(&bytes).unwrap();
}

fn set_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Gives an SSTable a version, with the checksum of the footer made right.
fn set_sstable_version(bytes: &mut [u8], version: u32) {
    let at = bytes.len() - FOOTER_BYTES;
    set_u32(bytes, at + 48, version);
    let crc = crc32fast::hash(&bytes[at..at + 52]);
    set_u32(bytes, at + 52, crc);
}

/// All three refuse, and name the file and the versions; a repair makes nothing.
fn assert_refused(mem: &MemVfs, path: &Path, version: u32, supported: u32) {
    let assert_named = |error: Error| match error {
        Error::UnsupportedFormat {
            path: named,
            found,
            supported: known,
        } => assert_eq!((&*named, found, known), (path, version, supported)),
        other => panic!("{}: {other}", path.display()),
    };
    assert_named(Db::open(DIR, manual(mem)).unwrap_err());
    assert_named(repair(DIR, TARGET, &manual(mem), &mut |_| ()).unwrap_err());
    assert!(!mem.exists(TARGET.as_ref()).unwrap());
    let report = verify(DIR, &manual(mem), &mut |_| ()).unwrap();
    let named = report.findings.iter().find(|found| found.path == path);
    let detail = &named.unwrap().detail;
    assert!(
        detail.contains(&format!("format version {version}")),
        "{detail}"
    );
}

/// What [`database`] wrote is all there, in the source or what repair made of it.
fn assert_whole(mem: &MemVfs, dir: &str) {
    let db = Db::open(dir, manual(mem)).unwrap();
    let table = db.existing_keyspace("app").unwrap();
    let table = table.existing_table("users").unwrap();
    for (key, value) in [("flushed", "1"), ("logged", "2")] {
        assert_eq!(table.get(key.as_bytes()).unwrap().unwrap(), value);
    }
}

#[test]
fn an_sstable_of_another_version_is_refused_by_name() {
    for version in [0, 4, 77] {
        let mem = database();
        let path = file(&mem, ".sst");
        change(&mem, &path, |bytes| set_sstable_version(bytes, version));
        assert_refused(&mem, &path, version, 3);
    }
}

#[test]
fn an_sstable_of_version_1_opens() {
    let mem = database();
    let path = file(&mem, ".sst");
    change(&mem, &path, |bytes| {
        // The properties say it too, under the checksum of their block.
        let footer = bytes.len() - FOOTER_BYTES;
        let start = u64::from_le_bytes(bytes[footer + 32..footer + 40].try_into().unwrap());
        let block = &mut bytes[start as usize..footer];
        let said = b"\"format_version\":3";
        let at = block.windows(said.len()).position(|part| part == said);
        block[at.unwrap() + said.len() - 1] = b'1';
        let crc_at = block.len() - 4;
        let crc = crc32fast::hash(&block[..crc_at]);
        set_u32(block, crc_at, crc);
        set_sstable_version(bytes, 1);
    });
    let report = verify(DIR, &manual(&mem), &mut |_| ()).unwrap();
    assert_eq!(report.findings, []);
    let report = repair(DIR, TARGET, &manual(&mem), &mut |_| ()).unwrap();
    assert_eq!(report.lost, []);
    assert_whole(&mem, TARGET);
    assert_whole(&mem, DIR);
}

#[test]
fn a_log_of_another_version_is_refused_by_name() {
    for version in [0, 2, 77] {
        let mem = database();
        let path = file(&mem, ".log");
        change(&mem, &path, |bytes| {
            set_u32(bytes, 8, version);
            // Records as this build has never seen them.
            bytes[HEADER_BYTES..].fill(0xa5);
        });
        assert_refused(&mem, &path, version, 1);
    }
}

#[test]
fn a_manifest_of_another_version_is_refused_by_name() {
    for version in [0, 2, 77] {
        // From the start, or from some edit on, it says what only that version
        // knows.
        for keep in [false, true] {
            let mem = database();
            let path = file(&mem, "MANIFEST");
            change(&mem, &path, |bytes| {
                set_u32(bytes, 8, version);
                if !keep {
                    bytes.truncate(12);
                }
                let json = b"{\"of another version\":{}}";
                let mut record = (json.len() as u32).to_le_bytes().to_vec();
                record.extend_from_slice(json);
                bytes.extend_from_slice(&crc32fast::hash(&record).to_le_bytes());
                bytes.extend_from_slice(&record);
            });
            let refused = repair(DIR, TARGET, &manual(&mem), &mut |_| ());
            assert!(matches!(refused, Err(Error::UnsupportedFormat { .. })));
            assert_refused(&mem, &path, version, 1);
        }
    }
}

/// The version of a log or of a manifest is under no checksum. One that is
/// damaged keeps the database from opening, and costs a repair nothing.
#[test]
fn a_damaged_version_in_front_of_good_records_is_repaired() {
    for part in [".log", "MANIFEST"] {
        let mem = database();
        let path = file(&mem, part);
        change(&mem, &path, |bytes| set_u32(bytes, 8, 3));
        let refused = Db::open(DIR, manual(&mem)).unwrap_err();
        assert!(matches!(refused, Error::UnsupportedFormat { .. }));
        let report = repair(DIR, TARGET, &manual(&mem), &mut |_| ()).unwrap();
        assert!(report.lost.iter().all(|lost| lost.path == path));
        assert_whole(&mem, TARGET);
    }
}
