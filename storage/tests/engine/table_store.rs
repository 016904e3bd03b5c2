//! Tables in a store of their own: the directory holds the log and the manifest only.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common::{DIR, content, files, manual, writer_options};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Db, DetachedOptions, DetachedTable, Error, Imported, Options, ReadFile, Result, SortedWriter,
    SyncFile, Table, TableStore, WriteFile, repair, verify,
};

/// A store of objects, as in the cloud: it has no directories and no links, and keeps deleted
/// objects until `sweep` removes them.
#[derive(Debug, Clone)]
struct Shelf {
    name: &'static str,
    /// The disk of the database's other files, and of the files that are imported.
    disk: MemDisk,
    inside: Arc<Mutex<Inside>>,
}

#[derive(Debug, Default)]
struct Inside {
    objects: BTreeMap<u64, Arc<Vec<u8>>>,
    deleted: Vec<u64>,
    /// The numbers of all objects, including the removed ones.
    used: Vec<u64>,
}

impl Shelf {
    fn new(name: &'static str, disk: &MemDisk) -> Self {
        Self {
            name,
            disk: disk.clone(),
            inside: Arc::default(),
        }
    }

    fn options(&self) -> Options {
        Options {
            table_store: Some(Arc::new(self.clone())),
            ..manual(&self.disk)
        }
    }

    fn put(&self, number: u64, bytes: Vec<u8>) {
        let mut inside = self.inside.lock().unwrap();
        assert!(!inside.used.contains(&number), "{number} is used twice");
        inside.used.push(number);
        inside.objects.insert(number, Arc::new(bytes));
    }

    /// Removes the objects that were marked as deleted. Returns how many objects are left.
    fn sweep(&self) -> usize {
        let mut inside = self.inside.lock().unwrap();
        for number in std::mem::take(&mut inside.deleted) {
            inside.objects.remove(&number);
        }
        inside.objects.len()
    }
}

/// A writer of an object. The object appears in the store only when the writer is synced.
#[derive(Debug)]
struct Upload {
    shelf: Shelf,
    number: u64,
    bytes: Vec<u8>,
}

impl WriteFile for Upload {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.shelf.put(self.number, std::mem::take(&mut self.bytes));
        Ok(())
    }

    fn syncer(&self) -> io::Result<Box<dyn SyncFile>> {
        Err(ErrorKind::Unsupported.into())
    }
}

#[derive(Debug)]
struct Object(Arc<Vec<u8>>);

impl ReadFile for Object {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let from = self.0.get(offset as usize..).unwrap_or_default();
        let part = from.get(..buf.len()).ok_or(ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(part);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

impl TableStore for Shelf {
    fn locator(&self) -> io::Result<String> {
        Ok(format!("shelf:{}", self.name))
    }

    fn name(&self, number: u64) -> PathBuf {
        format!("shelf:{}/{number}", self.name).into()
    }

    fn create(&self, number: u64) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Upload {
            shelf: self.clone(),
            number,
            bytes: Vec::new(),
        }))
    }

    fn import(&self, from: &Path, _: u64, number: u64) -> Result<Imported> {
        self.put(number, self.disk.read_all(from).unwrap());
        Ok(Imported::Copied)
    }

    fn finish(&self) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn ReadFile>> {
        let inside = self.inside.lock().unwrap();
        let object = inside.objects.get(&number).ok_or(ErrorKind::NotFound)?;
        Ok(Arc::new(Object(object.clone())))
    }

    fn list(&self) -> io::Result<Vec<u64>> {
        let inside = self.inside.lock().unwrap();
        Ok(inside.objects.keys().copied().collect())
    }

    fn delete(&self, number: u64) -> io::Result<()> {
        self.inside.lock().unwrap().deleted.push(number);
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(Some(7 << 20))
    }
}

fn users(db: &Db) -> Table {
    let keyspace = db.keyspace("app").unwrap();
    keyspace.table("users", Default::default()).unwrap()
}

fn count(table: &Table) -> usize {
    content(table.range::<&[u8], _>(..)).unwrap().len()
}

/// Returns a database with merged and unmerged runs, some rows in the log only, and a snapshot.
fn filled(shelf: &Shelf) -> Db {
    let db = Db::open(DIR, shelf.options()).unwrap();
    let table = users(&db);
    for run in 0..6_u8 {
        for key in 0..100_u8 {
            table.put(&[key], &[run; 20]).unwrap();
        }
        db.flush().unwrap();
        if run == 2 {
            db.keyspace("app").unwrap().create_snapshot("then").unwrap();
        }
    }
    db.compact().unwrap();
    table.put(b"logged", b"1").unwrap();
    db
}

#[test]
fn a_database_whose_tables_are_elsewhere_lives_as_any_other() {
    let mem = MemDisk::new();
    let shelf = Shelf::new("one", &mem);
    let db = filled(&shelf);
    assert!(files(&mem, ".sst").is_empty());
    assert_eq!(db.stats().free_bytes, Some(7 << 20));
    assert_eq!(db.verify().unwrap().findings, []);
    let before = shelf.inside.lock().unwrap().objects.len();
    let named: usize = db.stats().tables.iter().map(|table| table.files).sum();
    assert!(before > named, "merged tables wait to be swept");
    assert_eq!(shelf.sweep(), named);

    let mut writer = SortedWriter::create("/outside", "part", writer_options(&mem)).unwrap();
    writer.put(b"z", b"ingested").unwrap();
    let written = writer.finish().unwrap();
    let info = users(&db).ingest(&written).unwrap();
    assert_eq!((info.files, info.linked_files), (1, 0));
    drop(db);

    for _ in 0..2 {
        let db = Db::open(DIR, shelf.options()).unwrap();
        assert_eq!(count(&users(&db)), 102);
        let then = db.keyspace("app").unwrap().snapshot("then").unwrap();
        let then = then.table("users").unwrap();
        assert_eq!(then.get(&[5]).unwrap().unwrap(), [2; 20][..]);
        db.flush().unwrap();
    }
    let report = verify(DIR, &shelf.options(), &mut |_| ()).unwrap();
    assert_eq!(report.findings, []);
    users(&Db::open(DIR, shelf.options()).unwrap())
        .truncate()
        .unwrap();
}

#[test]
fn tables_that_a_crash_left_unnamed_are_deleted() {
    let mem = MemDisk::new();
    let shelf = Shelf::new("one", &mem);
    drop(filled(&shelf));
    shelf.sweep();
    shelf.put(9999, b"half a table".to_vec());
    let named = shelf.list().unwrap().len() - 1;
    drop(Db::open(DIR, shelf.options()).unwrap());
    assert_eq!(shelf.sweep(), named);
}

#[test]
fn a_backup_and_a_repair_of_it_are_directories_of_their_own() {
    let mem = MemDisk::new();
    let shelf = Shelf::new("one", &mem);
    let db = filled(&shelf);
    let info = db.backup("/copy").unwrap();
    assert!(info.copied_bytes > 0 && info.linked_bytes == 0, "{info:?}");
    drop(db);
    let report = repair(DIR, "/repaired", &shelf.options(), &mut |_| ()).unwrap();
    assert_eq!(report.lost, []);
    for dir in ["/copy", "/repaired"] {
        let db = Db::open(dir, manual(&mem)).unwrap();
        assert_eq!(count(&users(&db)), 101, "{dir}");
        assert_eq!(db.verify().unwrap().findings, []);
    }
}

#[test]
fn a_pinned_table_is_found_by_its_store_and_in_no_other() {
    let mem = MemDisk::new();
    let shelf = Shelf::new("one", &mem);
    let db = filled(&shelf);
    let then = db.keyspace("app").unwrap().snapshot("then").unwrap();
    let pinned = then.table("users").unwrap().pin().unwrap();
    let open = |store: Option<Shelf>| {
        let options = DetachedOptions {
            disk: Arc::new(mem.clone()),
            table_store: store.map(|shelf| Arc::new(shelf) as _),
            ..DetachedOptions::default()
        };
        DetachedTable::open(pinned.description(), options)
    };
    let table = open(Some(shelf)).unwrap();
    assert_eq!(table.get(&[5]).unwrap().unwrap(), [2; 20][..]);
    assert_eq!(content(table.scan::<&[u8], _>(..)).unwrap().len(), 100);
    for store in [None, Some(Shelf::new("two", &mem))] {
        match open(store) {
            Err(Error::InvalidRequest(message)) => {
                assert!(message.contains("shelf:one"), "{message}");
                assert!(
                    message.contains("DetachedOptions::table_store"),
                    "{message}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
