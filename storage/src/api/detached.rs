//! A table of a snapshot, read from its files alone by a process that does not have the database
//! open, for example one that runs an untrusted task.
//!
//! ```text
//!   process with the open database         another process
//!   SnapshotTable ─► PinnedTable ─ text ─► DetachedTable
//!                    keeps the files       opens them for reading
//! ```
//!
//! After a flush, all data of a snapshot is in immutable files. So a reader needs only the list of
//! these files, the snapshot's sequence number, and the time by which the snapshot judges expiry.
//! It takes no lock, and writes nothing.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::api::{Cache, Range, Value};
use crate::db::{DbInner, TableCore};
use crate::disk::{Disk, PatientDisk};
use crate::error::{Error, Result};
use crate::formats::PINNED_TABLE;
use crate::key::{KeyRange, ReadPoint, SeqNo};
use crate::manifest::{DatabaseId, read_database_id};
use crate::memtable::Memtable;
use crate::mutation::{self, Mutation};
use crate::read::{MergeOperators, Merger};
use crate::runs::{Run, RunMeta, RunStore};
use crate::sstable::BlockCache;
use crate::table_store::{LocalTables, OpenFiles, TableStore};
use crate::version::{Lookup, TableVersion};

/// The facts that another process needs to read a table of a snapshot from its files.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    format_version: u32,
    /// The database to which the files belong: file numbers are unique only within a database.
    database: DatabaseId,
    /// The location of the files: [`TableStore::locator`].
    store: String,
    /// The name of the table, as `KEYSPACE.TABLE`.
    table: String,
    seq: SeqNo,
    read_time_ms: u64,
    merge_operator: Option<String>,
    /// The runs that the snapshot sees, newest first.
    runs: Vec<RunMeta>,
}

/// The part of a [`Description`] that is decoded first. Every version of the format has this field.
#[derive(Debug, Deserialize)]
struct Versioned {
    format_version: u32,
}

/// Keeps the files from which one table of a snapshot can be read. The files stay for as long as
/// this value lives, even if the table is dropped and the snapshot deleted. Keeps the database
/// open.
#[derive(Debug)]
pub struct PinnedTable {
    description: String,
    // The runs alone: a version of the table would keep its memtables in memory, too.
    _runs: Vec<Arc<Run>>,
    // The last field: the files are released before the database.
    _db: Arc<DbInner>,
}

impl PinnedTable {
    /// Pins the files of a table. First flushes the data that the snapshot sees and that is only in
    /// memory.
    ///
    /// # Errors
    /// The errors of the flush; [`Error::NotFound`] if the table was dropped, no snapshot keeps it
    /// any more, and data that the snapshot sees is only in memory; the error of a file that the
    /// database could not open, and that no later retry has opened.
    pub(crate) fn new(db: &Arc<DbInner>, core: &TableCore, point: ReadPoint) -> Result<Self> {
        if core.version().has_in_memory(point.seq) {
            mutation::unless(Mutation::PinWithoutFlush, || db.flush_table(core))?;
            // A flush leaves out dropped tables that no snapshot keeps, and the runs alone would be
            // an older state of the table.
            if core.version().has_in_memory(point.seq) {
                let name = format!("{}.{}", core.keyspace, core.name);
                return Err(Error::not_found("snapshot of the dropped table", name));
            }
        }
        let version = core.version();
        let store = db.runs.tables().locator();
        let seen = version.all_runs().filter(|run| run.is_seen_at(point.seq));
        let runs: Vec<_> = seen.cloned().collect();
        // A pin cannot keep a file that is not open.
        if let Some((_, error)) = runs.iter().flat_map(|run| run.unreadable()).next() {
            return Err(error.clone());
        }
        let description = Description {
            format_version: PINNED_TABLE.version,
            database: db.database_id(),
            store: store.map_err(Error::io("tell another process of", db.dir()))?,
            table: format!("{}.{}", core.keyspace, core.name),
            seq: point.seq,
            read_time_ms: point.read_time_ms,
            merge_operator: core.options().merge_operator.clone(),
            runs: runs.iter().map(|run| run.meta().clone()).collect(),
        };
        let description = serde_json::to_string(&description).expect("its keys are strings");
        Ok(Self {
            description,
            _runs: mutation::replace(runs, Mutation::PinWithoutFiles, Vec::new()),
            _db: db.clone(),
        })
    }

    /// Returns the description for [`DetachedTable::open`]: a line of text, valid for as long as
    /// this value lives.
    pub fn description(&self) -> &str {
        &self.description
    }
}

/// A table as it was when a snapshot was created, read from files that a [`PinnedTable`] keeps,
/// perhaps in another process. Clones are cheap.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use ebb_storage::{Db, DetachedOptions, DetachedTable, Options, TableOptions};
///
/// let db = Db::open(dir.path(), Options::default())?;
/// let app = db.keyspace("app")?;
/// app.table("users", TableOptions::default())?.put(b"ada", b"1815")?;
/// app.create_snapshot("monday")?;
/// let pinned = app.snapshot("monday")?.table("users")?.pin()?;
///
/// // In another process, for example:
/// let users = DetachedTable::open(pinned.description(), DetachedOptions::default())?;
/// assert_eq!(users.get(b"ada")?.unwrap(), "1815");
/// # Ok::<(), ebb_storage::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct DetachedTable {
    version: Arc<TableVersion>,
    merger: Arc<Merger>,
    point: ReadPoint,
}

/// Options for opening a [`DetachedTable`].
#[derive(Debug, Clone)]
pub struct DetachedOptions {
    /// Bytes of the block cache for [`DetachedTable::get`], and for ranges that
    /// [fill](Cache::Fill) it; 0 for none.
    pub cache_bytes: u64,
    /// Like [`Options::max_open_files`](crate::Options::max_open_files), for this table alone.
    pub max_open_files: Option<usize>,
    /// The disk that the files are on.
    pub disk: Arc<dyn Disk>,
    /// The store of the tables, if they are not in the database's directory: the same as the
    /// database's [`Options::table_store`](crate::Options::table_store).
    pub table_store: Option<Arc<dyn TableStore>>,
    /// The known merge operators. If the table has an operator that is not among them, reads of
    /// values with operands fail.
    pub merge_operators: MergeOperators,
}

impl Default for DetachedOptions {
    /// Returns options with no cache, the disk of this machine and no merge operators.
    fn default() -> Self {
        Self {
            cache_bytes: 0,
            max_open_files: None,
            disk: Arc::new(crate::disk::LocalDisk::default()),
            table_store: None,
            merge_operators: MergeOperators::default(),
        }
    }
}

impl DetachedTable {
    /// Opens the table that a [`PinnedTable`] describes.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if `description` is malformed or has another format version, if the
    /// options lack the described table store, or if another database is now in the place of the
    /// described one, for example a restored copy; [`Error::Io`] if a file is missing, as after the
    /// pin was dropped; [`Error::Corruption`]. A read may fail with the last two, because a file
    /// that was closed to make room for others is opened again.
    pub fn open(description: &str, options: DetachedOptions) -> Result<Self> {
        let description = Description::parse(description)?;
        let files = OpenFiles::new(options.max_open_files);
        let tables = description.tables(&options, &files)?;
        let cache = Arc::new(BlockCache::new(options.cache_bytes));
        let store = RunStore::new(tables, files, cache, 0);
        // The pin of a file that is missing may be gone.
        let open = |meta: &RunMeta| -> Result<_> {
            let run = store.open_run(meta, |_, _| ())?;
            let failed = run.unreadable().next().map(|(_, error)| error.clone());
            failed.map_or(Ok(run), Err)
        };
        let runs = description.runs.iter().map(open).collect::<Result<_>>()?;
        let operator = description.merge_operator.as_deref();
        Ok(Self {
            version: Arc::new(TableVersion::new(Memtable::default(), runs)),
            merger: Arc::new(Merger::new(
                description.table,
                operator,
                &options.merge_operators,
            )),
            point: ReadPoint {
                seq: description.seq,
                read_time_ms: description.read_time_ms,
            },
        })
    }

    /// Returns the time by which the table judges expiry, in milliseconds since 1970: the time at
    /// which the snapshot was created.
    pub fn read_time_ms(&self) -> u64 {
        self.point.read_time_ms
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let mut lookup = Lookup::new(key, self.point.read_time());
        let lookups = std::slice::from_mut(&mut lookup);
        self.version
            .get(lookups, self.point.seq, &self.merger, None)?;
        lookup.finish(&self.merger)
    }

    /// Returns keys that cut a range into at most `parts` pieces of about equal size on disk, as
    /// [`SnapshotTable::split_keys`](crate::SnapshotTable::split_keys).
    pub fn split_keys<K, R>(&self, range: R, parts: usize) -> Vec<Bytes>
    where
        K: AsRef<[u8]>,
        R: std::ops::RangeBounds<K>,
    {
        let keys = KeyRange::new(range);
        self.version.split_keys(self.point.seq, &keys, parts)
    }

    /// Returns the entries of a key range, to be read from either end, without filling the block
    /// cache.
    pub fn scan<K, R>(&self, range: R) -> Range
    where
        K: AsRef<[u8]>,
        R: std::ops::RangeBounds<K>,
    {
        let (version, merger) = (self.version.clone(), self.merger.clone());
        Range::new(None, merger, version, self.point, range).caching(Cache::Bypass)
    }
}

impl Description {
    /// Returns the table store that has the files of the described table.
    ///
    /// # Errors
    /// `InvalidRequest` if the options lack the described store, or if another database is now in
    /// the place of the described one.
    fn tables(
        &self,
        options: &DetachedOptions,
        files: &Arc<OpenFiles>,
    ) -> Result<Arc<dyn TableStore>> {
        if let Some(store) = &options.table_store {
            let found = store
                .locator()
                .map_err(Error::io("find", Path::new("tables")))?;
            return if found == self.store {
                Ok(store.clone())
            } else {
                Err(self.wrong_store(&found))
            };
        }
        let Some(dir) = LocalTables::dir_of(&self.store) else {
            return Err(self.wrong_store("no store that was given"));
        };
        let disk = PatientDisk::new(options.disk.clone(), files.clone());
        let found = read_database_id(&disk, dir)?;
        if found != self.database && !mutation::is(Mutation::PinOfAnyDatabase) {
            return Err(Error::InvalidRequest(format!(
                "table {} was pinned in the database {}; in {} there is {found} now, another one \
                 or a copy: pin it again",
                self.table,
                self.database,
                dir.display()
            )));
        }
        Ok(Arc::new(LocalTables::new(Arc::new(disk), dir)))
    }

    fn wrong_store(&self, found: &str) -> Error {
        Error::InvalidRequest(format!(
            "table {} was pinned in the store {}, and DetachedOptions::table_store is {found}",
            self.table, self.store
        ))
    }

    fn parse(text: &str) -> Result<Self> {
        let bad = |what: String| {
            Error::InvalidRequest(format!("this describes no table of a snapshot: {what}"))
        };
        // The version first: another one may have other fields.
        let Versioned { format_version } =
            serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
        let known = PINNED_TABLE.version;
        if format_version != known {
            return Err(bad(format!(
                "its form is {format_version}; this build knows {known}: both processes must \
                 be of the same one"
            )));
        }
        let description: Self = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
        for run in &description.runs {
            run.check().map_err(bad)?;
        }
        Ok(description)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::api::Keyspace;
    use crate::options::{Maintenance, Options, TableOptions};
    use crate::simulation::MemDisk;

    /// Regression: a pin kept the memtable that was open when it was made. Later writes went into
    /// this memtable, and their memory was not freed after the flush, as long as the pin lived.
    #[test]
    fn a_pin_keeps_no_memtable() {
        let options = Options {
            disk: Arc::new(MemDisk::new()),
            maintenance: Maintenance::Manual,
            low_water_bytes: 0,
            ..Options::default()
        };
        let db = DbInner::open(Path::new("/db"), options).unwrap();
        db.open_or_create_keyspace("app").unwrap();
        let keyspace = Keyspace::new(db.clone(), "app");
        let table = keyspace.table("t", TableOptions::default()).unwrap();
        table.put(b"k", b"then").unwrap();
        keyspace.create_snapshot("s").unwrap();
        let snapshot = keyspace.snapshot("s").unwrap();
        let pinned = snapshot.table("t").unwrap().pin().unwrap();
        let memtable = Arc::downgrade(&table.core.version().memtable);
        table.put(b"k", b"now").unwrap();
        db.flush_all().unwrap();
        assert_eq!(db.release_retired(), 0);
        assert!(memtable.upgrade().is_none());
        drop(pinned);
    }
}
