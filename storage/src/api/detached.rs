//! A table of a snapshot read from its files alone, by whoever does not have the
//! database open: a process that runs an untrusted task, say.
//!
//! ```text
//!   who has the database open              who does not
//!   SnapshotTable ─► PinnedTable ─ text ─► DetachedTable
//!                    keeps the files       opens them for reading
//! ```
//!
//! What a snapshot sees lies in immutable files once it is flushed, so a list of
//! them, the snapshot's number and the time at which it judges what expires are
//! all that a reader needs. Nothing is locked, and nothing is written.

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
use crate::runs::{RunMeta, RunStore};
use crate::sstable::BlockCache;
use crate::table_store::{LocalTables, OpenFiles, TableStore};
use crate::version::{Lookup, TableVersion};

/// What a reader has to know of a table.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    format_version: u32,
    /// Whose files they are: numbers of files mean nothing in another database.
    database: DatabaseId,
    /// Where the files are: [`TableStore::locator`].
    store: String,
    /// As `KEYSPACE.TABLE`.
    table: String,
    seq: SeqNo,
    read_time_ms: u64,
    merge_operator: Option<String>,
    /// Those that the snapshot sees, newest first.
    runs: Vec<RunMeta>,
}

/// All that every version of a description has.
#[derive(Debug, Deserialize)]
struct Versioned {
    format_version: u32,
}

/// The files of a table of a snapshot, which stay for as long as this lives,
/// whatever becomes of table and snapshot. Keeps the database open.
#[derive(Debug)]
pub struct PinnedTable {
    description: String,
    _files: Arc<TableVersion>,
    // Last, so that the files are let go of before the database is.
    _db: Arc<DbInner>,
}

impl PinnedTable {
    /// Flushes what the snapshot sees and no file has, if there is any.
    ///
    /// # Errors
    /// Those of the flush; `Io` if a file did not open and was not opened since.
    pub(crate) fn new(db: &Arc<DbInner>, core: &TableCore, point: ReadPoint) -> Result<Self> {
        if core.version().has_in_memory(point.seq) {
            mutation::unless(Mutation::PinWithoutFlush, || db.flush_table(core))?;
        }
        let version = core.version();
        let store = db.runs.tables().locator();
        let runs = version.all_runs();
        let runs: Vec<_> = runs.filter(|run| run.is_seen_at(point.seq)).collect();
        // The pin could not keep a file that is opened again later.
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
            runs: runs.into_iter().map(|run| run.meta().clone()).collect(),
        };
        let description = serde_json::to_string(&description).expect("its keys are strings");
        Ok(Self {
            description,
            _files: match mutation::is(Mutation::PinWithoutFiles) {
                true => Arc::new(TableVersion::new(Memtable::default(), Vec::new())),
                false => version,
            },
            _db: db.clone(),
        })
    }

    /// What [`DetachedTable::open`] needs: a line of text, good for as long as
    /// this value lives.
    pub fn description(&self) -> &str {
        &self.description
    }
}

/// A table as it was when a snapshot was created, read from files that somebody
/// else pins ([`PinnedTable`]). Clones are cheap.
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

/// How a [`DetachedTable`] is opened.
#[derive(Debug, Clone)]
pub struct DetachedOptions {
    /// Bytes of the block cache for [`DetachedTable::get`], and for ranges that
    /// [fill](Cache::Fill) it; 0 for none.
    pub cache_bytes: u64,
    /// Like [`Options::max_open_files`](crate::Options::max_open_files), for this table alone.
    pub max_open_files: Option<usize>,
    /// The disk that the files are on.
    pub disk: Arc<dyn Disk>,
    /// Where the tables are, if not in the database's directory: what it has as
    /// [`Options::table_store`](crate::Options::table_store).
    pub table_store: Option<Arc<dyn TableStore>>,
    /// Among them the table's, if it has one.
    pub merge_operators: MergeOperators,
}

impl Default for DetachedOptions {
    /// No cache, the real disk, no merge operators.
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
    /// Opens what a [`PinnedTable`] describes.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for what is no description, or one of another
    /// database than is there now, a restored copy for example; [`Error::Io`] when a
    /// file is not there, as when the pin is gone; [`Error::Corruption`]. A read may fail
    /// in the same ways: a file that was closed to make room for others is opened again.
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

    /// The time by which the table judges what has expired, in milliseconds since 1970: when the snapshot
    /// was created.
    pub fn read_time_ms(&self) -> u64 {
        self.point.read_time_ms
    }

    /// The value that a key had.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let mut lookup = Lookup::new(key, self.point.read_time());
        let lookups = std::slice::from_mut(&mut lookup);
        self.version
            .get(lookups, self.point.seq, &self.merger, None)?;
        lookup.finish(&self.merger)
    }

    /// Keys that cut a range into at most `parts` pieces of about as many bytes on
    /// disk: as [`SnapshotTable::split_keys`](crate::SnapshotTable::split_keys).
    pub fn split_keys<K, R>(&self, range: R, parts: usize) -> Vec<Bytes>
    where
        K: AsRef<[u8]>,
        R: std::ops::RangeBounds<K>,
    {
        let keys = KeyRange::new(range);
        self.version.split_keys(self.point.seq, &keys, parts)
    }

    /// The entries that a key range had, from both ends; past the cache.
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
    /// The store that the files are in.
    ///
    /// # Errors
    /// `InvalidRequest` when it is none that is at hand, or now another database's.
    fn tables(
        &self,
        options: &DetachedOptions,
        files: &Arc<OpenFiles>,
    ) -> Result<Arc<dyn TableStore>> {
        if let Some(store) = &options.table_store {
            let found = store
                .locator()
                .map_err(Error::io("find", Path::new("tables")))?;
            return match found == self.store {
                true => Ok(store.clone()),
                false => Err(self.elsewhere(&found)),
            };
        }
        let Some(dir) = LocalTables::dir_of(&self.store) else {
            return Err(self.elsewhere("no store that was given"));
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

    fn elsewhere(&self, found: &str) -> Error {
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
