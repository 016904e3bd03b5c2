//! Files of other format versions, older and newer: refused by name, when a database is opened,
//! verified or repaired, and left as they are.

use std::path::{Path, PathBuf};

use crate::common::one_table::{open, users};
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Error, FileSystem, repair, verify};

const TARGET: &str = "/repaired";
const HEADER_BYTES: usize = 32;
const FOOTER_BYTES: usize = 64;
const MANIFEST_HEADER_BYTES: usize = 32;

/// Returns the disk of a closed database with one file of each kind: an SSTable, a log with a
/// commit, a manifest.
fn database() -> MemDisk {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(manual(&mem), Default::default());
    table.put(b"flushed", b"1").unwrap();
    db.flush().unwrap();
    table.put(b"logged", b"2").unwrap();
    drop((db, keyspace, table));
    mem
}

/// Returns the file with `part` in its name; of several the last by name.
fn file(mem: &MemDisk, part: &str) -> PathBuf {
    let mut paths = mem.list(DIR.as_ref()).unwrap();
    paths.retain(|path| path.to_string_lossy().contains(part));
    paths.sort();
    paths.pop().unwrap()
}

fn change(mem: &MemDisk, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = mem.read_all(path).unwrap();
    change(&mut bytes);
    mem.create(path).unwrap().append(&bytes).unwrap();
}

fn set_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Returns both copies of the manifest.
fn manifests(mem: &MemDisk) -> [PathBuf; 2] {
    let copy = file(mem, "MANIFEST");
    [copy.with_extension(""), copy]
}

/// Sets the format version in the footer of an SSTable, and corrects the checksum of the footer.
fn set_sstable_version(bytes: &mut [u8], version: u32) {
    let at = bytes.len() - FOOTER_BYTES;
    set_u32(bytes, at + 48, version);
    let crc = crc32fast::hash(&bytes[at..at + 52]);
    set_u32(bytes, at + 52, crc);
}

/// Returns every file of the database, by name, with its bytes.
fn contents(mem: &MemDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths = mem.list(DIR.as_ref()).unwrap();
    paths.sort();
    let bytes = |path: PathBuf| (path.clone(), mem.read_all(&path).unwrap());
    paths.into_iter().map(bytes).collect()
}

/// Asserts that opening and repairing the database fail with an error that names the file and its
/// `version`, that neither changes anything, and that verification reports the file and the
/// version.
fn assert_refused(mem: &MemDisk, path: &Path, version: u32, supported: u32) {
    let before = contents(mem);
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
    assert!(before == contents(mem), "something was changed");
    let report = verify(DIR, &manual(mem), &mut |_| ()).unwrap();
    let named = report.findings.iter().find(|found| found.path == path);
    let detail = &named.unwrap().detail;
    assert!(
        detail.contains(&format!("format version {version}")),
        "{detail}"
    );
}

/// Asserts that the database in `dir`, the original or the result of a repair, has all data of
/// [`database`].
fn assert_whole(mem: &MemDisk, dir: &str) {
    let db = Db::open(dir, manual(mem)).unwrap();
    let table = users(&db);
    for (key, value) in [("flushed", "1"), ("logged", "2")] {
        assert_eq!(table.get(key.as_bytes()).unwrap().unwrap(), value);
    }
}

#[test]
fn an_sstable_of_another_version_is_refused_by_name() {
    for version in [0, 1, 2, 3, 4, 5, 6, 7, 77] {
        let mem = database();
        let path = file(&mem, ".sst");
        change(&mem, &path, |bytes| set_sstable_version(bytes, version));
        assert_refused(&mem, &path, version, 8);
    }
}

#[test]
fn a_log_of_another_version_is_refused_by_name() {
    for version in [0, 1, 2, 3, 4, 77] {
        let mem = database();
        let path = file(&mem, ".log");
        change(&mem, &path, |bytes| {
            set_u32(bytes, 8, version);
            // Records as this build has never seen them.
            bytes[HEADER_BYTES..].fill(0xa5);
        });
        assert_refused(&mem, &path, version, 5);
    }
}

#[test]
fn a_manifest_of_another_version_is_refused_by_name() {
    for version in [0, 1, 2, 3, 4, 5, 6, 7, 8, 77] {
        // From the start, or from some edit on, it contains a field that only that version
        // knows.
        for keep in [false, true] {
            let mem = database();
            let [path, copy] = manifests(&mem);
            for path in [&path, &copy] {
                change(&mem, path, |bytes| {
                    set_u32(bytes, 8, version);
                    if !keep {
                        bytes.truncate(MANIFEST_HEADER_BYTES);
                    }
                    bytes.extend(record(b"{\"of another version\":{}}"));
                });
            }
            let refused = repair(DIR, TARGET, &manual(&mem), &mut |_| ());
            assert!(matches!(refused, Err(Error::UnsupportedFormat { .. })));
            assert_refused(&mem, &path, version, 9);
            // Older builds kept one manifest.
            for copy in [copy, Path::new(DIR).join("CURRENT.copy")] {
                mem.remove(&copy).unwrap();
            }
            assert_refused(&mem, &path, version, 9);
        }
    }
}

/// Returns a record of the manifest with this content and the right checksum.
fn record(json: &[u8]) -> Vec<u8> {
    let mut framed = (json.len() as u32).to_le_bytes().to_vec();
    framed.extend_from_slice(json);
    let mut record = crc32fast::hash(&framed).to_le_bytes().to_vec();
    record.extend_from_slice(&framed);
    record
}

/// Returns the edits of a manifest as JSON.
fn records(bytes: &[u8]) -> Vec<String> {
    let (mut at, mut records) = (MANIFEST_HEADER_BYTES, Vec::new());
    while at < bytes.len() {
        let len = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        records.push(String::from_utf8(bytes[at + 8..at + 8 + len].to_vec()).unwrap());
        at += 8 + len;
    }
    records
}

/// Regression: an older build ignored the fields that a newer one had added to the manifest, and so
/// misread it.
#[test]
fn a_manifest_with_an_unknown_field_is_refused() {
    let known = [
        "\"wal_floor\":",
        "\"flushed_seq\":",
        "\"as_of\":",
        "\"compression\":",
        "\"smallest_seq\":",
    ];
    for field in known {
        let mem = database();
        for path in manifests(&mem) {
            change(&mem, &path, |bytes| {
                let mut records = records(bytes);
                let has_field = |json: &&mut String| json.contains(field);
                let json = records.iter_mut().find(has_field).unwrap();
                *json = json.replacen(field, &format!("\"of_tomorrow\":1,{field}"), 1);
                bytes.truncate(MANIFEST_HEADER_BYTES);
                records
                    .iter()
                    .for_each(|json| bytes.extend(record(json.as_bytes())));
            });
        }
        let before = contents(&mem);
        let refused = Db::open(DIR, manual(&mem)).unwrap_err().to_string();
        let is_named = refused.contains("of_tomorrow") && refused.contains("MANIFEST");
        assert!(is_named, "{refused}");
        assert!(before == contents(&mem), "something was changed");
    }
}

/// An opening that refuses a file of another version must change nothing. Regression: before it
/// found the file, it had cut off an incomplete record at the end of the log, and replaced the
/// manifest.
#[test]
fn leftovers_of_a_crash_stay_when_another_file_is_refused() {
    let mem = database();
    let log = file(&mem, ".log");
    change(&mem, &log, |bytes| bytes.extend_from_slice(&[7; 9]));
    mem.create(&Path::new(DIR).join("000099.sst")).unwrap();
    let sstable = mem.list(DIR.as_ref()).unwrap().into_iter();
    let mut sstable = sstable.filter(|path| path.to_string_lossy().contains(".sst"));
    let path = sstable.find(|path| !mem.read_all(path).unwrap().is_empty());
    let path = path.unwrap();
    change(&mem, &path, |bytes| set_sstable_version(bytes, 77));
    let before = contents(&mem);
    let refused = Db::open(DIR, manual(&mem)).unwrap_err();
    assert!(matches!(refused, Error::UnsupportedFormat { .. }));
    assert!(before == contents(&mem), "something was changed");
}

/// The version of a log or of a manifest is under no checksum. One that is
/// damaged keeps the database from opening, and costs a repair nothing.
#[test]
fn a_damaged_version_in_front_of_good_records_is_repaired() {
    let parts: [fn(&MemDisk) -> Vec<PathBuf>; 2] =
        [|mem| vec![file(mem, ".log")], |mem| manifests(mem).to_vec()];
    for part in parts {
        let mem = database();
        let paths = part(&mem);
        for path in &paths {
            change(&mem, path, |bytes| set_u32(bytes, 8, 77));
        }
        let refused = Db::open(DIR, manual(&mem)).unwrap_err();
        assert!(matches!(refused, Error::UnsupportedFormat { .. }));
        let report = repair(DIR, TARGET, &manual(&mem), &mut |_| ()).unwrap();
        assert!(report.lost.iter().all(|lost| paths.contains(&lost.path)));
        assert_whole(&mem, TARGET);
    }
}
