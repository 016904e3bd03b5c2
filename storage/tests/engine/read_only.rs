//! Databases opened to be read: many at once, beside no writer, and without a trace.

#![expect(
    clippy::disallowed_methods,
    reason = "tests and examples look at clocks and files themselves"
)]

use std::collections::BTreeMap;
use std::io::ErrorKind::ReadOnlyFilesystem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::hooked_disk::{Call, HookedDisk};
use crate::common::one_table::{open, open_at, users};
use crate::common::{DIR, content, files, manual, on_disk};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Error, ErrorKind, FileSystem, Options, Result, Table, WriteBatch, verify};

/// A disk that refuses all changes, and records the calls that tried one.
struct Sealed {
    disk: HookedDisk,
    attempts: Arc<Mutex<Vec<String>>>,
}

impl Sealed {
    fn new(mem: &MemDisk) -> Self {
        let attempts = Arc::<Mutex<Vec<String>>>::default();
        let recorded = attempts.clone();
        let disk = HookedDisk::new(mem, move |call, path| match call {
            Call::Create | Call::SyncDir | Call::Change => {
                let attempt = format!("{call:?} {}", path.display());
                recorded.lock().unwrap().push(attempt);
                Err(ReadOnlyFilesystem.into())
            }
            Call::Open | Call::Read { .. } | Call::ForgetCached => Ok(()),
        });
        Self { disk, attempts }
    }

    fn options(&self) -> Options {
        on_disk(self.disk.clone(), manual(&self.disk.mem))
    }

    #[track_caller]
    fn assert_left_alone(&self) {
        assert_eq!(*self.attempts.lock().unwrap(), [""; 0]);
    }
}

/// Creates a database with rows in files and rows in the log only, and closes it.
fn database() -> MemDisk {
    let mem = MemDisk::new();
    let (db, keyspace, table) = open(manual(&mem), Default::default());
    table.put(b"flushed", b"1").unwrap();
    db.flush().unwrap();
    keyspace.create_snapshot("then").unwrap();
    table.put(b"logged", b"2").unwrap();
    mem
}

fn bytes(mem: &MemDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = files(mem, "").into_iter();
    let with_bytes = |path: PathBuf| (path.clone(), mem.read_all(&path).unwrap());
    paths.map(with_bytes).collect()
}

fn keys(table: &Table) -> Vec<Vec<u8>> {
    let rows = content(table.range::<&[u8], _>(..)).unwrap();
    rows.into_keys().collect()
}

/// Regression: two readers of one database excluded each other, and one on a read-only disk could
/// not read it at all.
#[test]
fn many_read_one_database_at_once_and_leave_no_trace() {
    let mem = database();
    let (before, disk) = (bytes(&mem), Sealed::new(&mem));
    let readers: Vec<_> = (0..3)
        .map(|_| Db::open_read_only(DIR, disk.options()).unwrap())
        .collect();
    for db in &readers {
        assert_eq!(keys(&users(db)), [&b"flushed"[..], b"logged"]);
        let then = db.existing_keyspace("app").unwrap();
        let then = then.snapshot("then").unwrap().table("users").unwrap();
        assert_eq!(content(then.scan::<&[u8], _>(..)).unwrap().len(), 1);
        assert_eq!(db.view().get(&users(db), b"logged").unwrap().unwrap(), "2");
        assert_eq!(db.verify().unwrap().findings, []);
        let cause = db.stats().read_only_cause.unwrap();
        assert!(cause.contains("read-only"), "{cause}");
    }
    drop(readers);
    disk.assert_left_alone();
    assert!(bytes(&mem) == before);
}

#[test]
fn a_reader_is_refused_beside_a_writer_and_a_writer_beside_readers() {
    let mem = database();
    let writer = Db::open(DIR, manual(&mem)).unwrap();
    let refused = Db::open_read_only(DIR, manual(&mem)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    let message = refused.to_string();
    assert!(
        message.contains("open for writing in another process"),
        "{message}"
    );
    drop(writer);
    let readers = [(); 2].map(|()| Db::open_read_only(DIR, manual(&mem)).unwrap());
    for reader in readers {
        let refused = Db::open(DIR, manual(&mem)).unwrap_err();
        assert!(matches!(refused, Error::Locked { .. }), "{refused}");
        drop(reader);
    }
    drop(Db::open(DIR, manual(&mem)).unwrap());
}

/// Regression: two verifications of a closed database excluded each other, and readers, too.
#[test]
fn a_verification_shares_the_lock_with_readers_and_keeps_writers_out() {
    let mem = database();
    let (before, disk) = (bytes(&mem), Sealed::new(&mem));
    let _reader = Db::open_read_only(DIR, disk.options()).unwrap();
    let mut looks = 0;
    let report = verify(DIR, &disk.options(), &mut |_| {
        looks += 1;
        let beside = verify(DIR, &disk.options(), &mut |_| ()).unwrap();
        assert_eq!(beside.findings, []);
        let refused = Db::open(DIR, manual(&mem)).unwrap_err();
        assert!(matches!(refused, Error::Locked { .. }), "{refused}");
    });
    assert_eq!(report.unwrap().findings, []);
    assert!(looks > 0);
    disk.assert_left_alone();
    assert!(bytes(&mem) == before);
}

/// A plain copy of a database may lack the lock file. Readers do not make one, and so keep no
/// writer away.
#[test]
fn without_a_lock_file_readers_read_and_no_writer_is_kept_away() {
    let mem = database();
    mem.remove(&Path::new(DIR).join("LOCK")).unwrap();
    let (before, disk) = (bytes(&mem), Sealed::new(&mem));
    let reader = Db::open_read_only(DIR, disk.options()).unwrap();
    let report = verify(DIR, &disk.options(), &mut |_| ()).unwrap();
    assert_eq!(report.findings, []);
    disk.assert_left_alone();
    assert!(bytes(&mem) == before, "a lock file, perhaps");
    assert_eq!(keys(&users(&reader)), [&b"flushed"[..], b"logged"]);
    drop(Db::open(DIR, manual(&mem)).unwrap());
    drop(reader);
}

#[test]
fn everything_that_would_write_is_refused() {
    let mem = database();
    let (before, disk) = (bytes(&mem), Sealed::new(&mem));
    let db = Db::open_read_only(DIR, disk.options()).unwrap();
    let (keyspace, table) = (db.existing_keyspace("app").unwrap(), users(&db));
    let mut batch = WriteBatch::new();
    batch.delete(&table, b"flushed");
    let mut transaction = db.begin();
    transaction.put(&table, b"k", b"v").unwrap();
    let hour = Some(Duration::from_secs(3600));
    let refused: Vec<Result<()>> = vec![
        table.put(b"k", b"v"),
        table.delete(b"flushed"),
        table.truncate(),
        table.ingest(&["/elsewhere.sst"]).map(drop),
        db.write(batch),
        transaction.commit().map(drop),
        db.keyspace("new").map(drop),
        db.drop_keyspace("app"),
        keyspace.table("new", Default::default()).map(drop),
        keyspace.drop_table("users"),
        keyspace.create_snapshot("now"),
        keyspace.set_snapshot_expiry("then", hour),
        keyspace.delete_snapshot("then"),
        db.flush(),
        db.compact(),
        // What the log has and no file does could not be pinned.
        keyspace
            .snapshot("then")
            .and_then(|then| then.table("users")?.pin())
            .map(drop),
    ];
    let last = refused.len() - 1;
    for (at, refused) in refused.into_iter().enumerate() {
        match refused {
            Err(Error::OpenedReadOnly) => {}
            // All that this one sees is in files.
            Ok(()) if at == last => {}
            other => panic!("{at}: {other:?}"),
        }
    }
    assert_eq!(keys(&table), [&b"flushed"[..], b"logged"]);
    assert!(db.existing_keyspace("new").is_err());
    assert_eq!(keyspace.snapshots().len(), 1);
    drop((db, keyspace, table));
    disk.assert_left_alone();
    assert!(bytes(&mem) == before);
}

/// The leftovers of a crash are for the next writer to clear away.
#[test]
fn readers_ignore_the_leftovers_of_a_crash_and_leave_them() {
    let mem = database();
    let orphans = ["000099.sst", "CURRENT.tmp", "MANIFEST-000099"];
    for orphan in orphans {
        let mut file = mem.create(&Path::new(DIR).join(orphan)).unwrap();
        file.append(b"torn").unwrap();
    }
    let log = files(&mem, ".log").pop().unwrap();
    let mut torn = mem.read_all(&log).unwrap();
    torn.extend_from_slice(&[7; 40]);
    mem.create(&log).unwrap().append(&torn).unwrap();
    let (before, disk) = (bytes(&mem), Sealed::new(&mem));
    for _ in 0..2 {
        let db = Db::open_read_only(DIR, disk.options()).unwrap();
        assert_eq!(keys(&users(&db)), [&b"flushed"[..], b"logged"]);
    }
    disk.assert_left_alone();
    assert!(bytes(&mem) == before);
    let db = Db::open(DIR, manual(&mem)).unwrap();
    assert_eq!(keys(&users(&db)), [&b"flushed"[..], b"logged"]);
    assert!(files(&mem, "99").is_empty());
}

#[test]
fn an_opening_without_a_database_creates_nothing() {
    let mem = MemDisk::new();
    mem.create_dir_all(DIR.as_ref()).unwrap();
    let disk = Sealed::new(&mem);
    for dir in [DIR, "/nowhere"] {
        let refused = Db::open_read_only(dir, disk.options()).unwrap_err();
        assert!(matches!(refused, Error::NoDatabase { .. }), "{refused}");
        assert!(!Db::exists(dir, &disk.options()).unwrap());
    }
    disk.assert_left_alone();
}

/// Reads the directory with and without a lock file: a plain copy of a database may lack it, and
/// readers cannot create it in a read-only directory.
#[test]
fn a_read_only_directory_on_the_real_disk_is_read() {
    use std::os::unix::fs::PermissionsExt;

    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("db");
    let (db, keyspace, table) = open_at(&dir, Options::default(), Default::default());
    table.put(b"k", b"v").unwrap();
    drop((db, keyspace, table));
    let seal = |mode| std::fs::set_permissions(&dir, PermissionsExt::from_mode(mode)).unwrap();
    let names = || {
        let names = std::fs::read_dir(&dir).unwrap();
        let mut names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
        names.sort();
        names
    };
    for has_lock in [true, false] {
        if !has_lock {
            std::fs::remove_file(dir.join("LOCK")).unwrap();
        }
        let before = names();
        seal(0o555);
        let readers = [(); 2].map(|()| Db::open_read_only(&dir, Options::default()).unwrap());
        for db in &readers {
            assert_eq!(users(db).get(b"k").unwrap().unwrap(), "v");
        }
        let report = verify(&dir, &Options::default(), &mut |_| ()).unwrap();
        assert_eq!(report.findings, []);
        drop(readers);
        seal(0o755);
        assert_eq!(names(), before);
    }
}
