//! A table: sorted keys with values.

use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::api::{Range, WriteBatch};
use crate::db::{DbInner, Engine, IngestInfo, TableCore};
use crate::error::Result;
use crate::key::{KeyRange, ReadTime, SeqNo};
use crate::meter::{Begun, RequestKind, Scan};
use crate::options::{TableOptions, WriteOptions};
use crate::read::IsEnough;
use crate::stats::TableStats;
use crate::version::{Lookup, TableVersion};

/// The bytes of a value. Where possible they are no copy, but share the memory of the block or
/// memtable that has them.
pub type Value = Bytes;

/// A table of an open database. Clones are cheap.
#[derive(Debug, Clone)]
pub struct Table {
    db: Arc<DbInner>,
    pub(crate) core: Arc<TableCore>,
}

impl Table {
    pub(crate) fn new(db: Arc<DbInner>, core: Arc<TableCore>) -> Self {
        Self { db, core }
    }

    /// Returns the name, unique in the keyspace.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    #[inline]
    fn write(&self, add: impl FnOnce(&mut WriteBatch)) -> Result<()> {
        let mut batch = WriteBatch::new();
        add(&mut batch);
        let (payload, tables) = batch.into_parts();
        self.db.write(payload, &tables, WriteOptions::default())
    }

    /// Returns the name of the keyspace.
    pub fn keyspace(&self) -> &str {
        &self.core.keyspace
    }

    /// Returns whether both handles are handles of one table. A table that was created under the name
    /// of a dropped one is another table.
    pub fn is_same_table(&self, other: &Self) -> bool {
        self.core.database == other.core.database && self.core.id == other.core.id
    }

    /// Returns the number of the table. No other table of the database has or had it, whatever its
    /// name, unless a repair had no manifest: it may give the number of a dropped table again. In
    /// snapshots the table has the same number.
    pub fn number(&self) -> u32 {
        self.core.id.0
    }

    /// Returns the options with which the table was created, or altered last.
    pub fn options(&self) -> Arc<TableOptions> {
        self.core.options()
    }

    /// Returns about how many bytes the table takes now, on disk and in memtables. The count
    /// includes versions that only snapshots see. Reads nothing from the disk.
    pub fn approximate_bytes(&self) -> u64 {
        let version = self.core.version();
        let files = version.all_runs().map(|run| run.meta().bytes());
        let memtables = std::iter::once(&version.memtable).chain(&version.frozen);
        let memtables = memtables.map(|memtable| memtable.bytes() as u64);
        files.chain(memtables).sum()
    }

    /// Returns the statistics of this table as in [`Db::stats`](crate::Db::stats), without
    /// computing those of other tables.
    pub fn stats(&self) -> TableStats {
        self.db.table_stats(self.core.clone())
    }

    /// Returns the names of the snapshots that cover the table, with the commits whose states they
    /// show, oldest first. No other table is looked at.
    pub fn snapshots(&self) -> Vec<(String, SeqNo)> {
        let mut bookmarks = self.db.snapshots_of(&self.core.keyspace);
        bookmarks.retain(|bookmark| bookmark.covers(self.core.span()));
        let bookmarks = bookmarks.into_iter();
        bookmarks.map(|it| (it.record.name, it.seq)).collect()
    }

    /// Sets a key. Errors: see [`Db::write`](crate::Db::write).
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|batch| batch.put(self, key, value))
    }

    /// Sets a key that expires `ttl` after the commit. Read views, iterators and snapshots judge
    /// expiry by the time at which they were created. `ttl` is rounded up to milliseconds.
    pub fn put_with_ttl(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<()> {
        self.write(|batch| batch.put_with_ttl(self, key, value, ttl))
    }

    /// Changes the value of a key by an operand, without reading it: see
    /// [`MergeOperator`](crate::MergeOperator).
    ///
    /// # Errors
    /// [`InvalidRequest`](crate::Error::InvalidRequest) when the table was created without an operator;
    /// otherwise as [`Db::write`](crate::Db::write).
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.write(|batch| batch.merge(self, key, operand))
    }

    /// Removes a key. A missing key is no error.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(|batch| batch.delete(self, key))
    }

    /// Removes all keys of a range, at the cost of one small write. An empty range, or one that
    /// ends before it starts, writes nothing.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # let table = db.keyspace("k")?.table("t", Default::default())?;
    /// for key in ["a", "b", "c"] {
    ///     table.put(key.as_bytes(), b"")?;
    /// }
    /// table.delete_range("b".."c")?;
    /// assert_eq!(table.range::<&[u8], _>(..).count(), 2);
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    pub fn delete_range<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, range: R) -> Result<()> {
        self.write(|batch| batch.delete_range(self, range))
    }

    /// Removes all keys. Versions that snapshots and views see stay. The removal is flushed soon,
    /// and then the files without such versions are deleted unread. This works on a full disk, too.
    ///
    /// # Errors
    /// The errors of [`Db::write_freeing`](crate::Db::write_freeing).
    pub fn truncate(&self) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range::<&[u8], _>(self, ..);
        let (payload, tables) = batch.into_parts();
        let options = WriteOptions::default();
        self.db.write_freeing(payload, &tables, options)
    }

    /// Makes files of a [`SortedWriter`](crate::SortedWriter) part of the table by one commit:
    /// their content becomes visible at once, or not at all, also after a crash, and earlier
    /// snapshots see none of it. The cost is that of verifying the files, whatever is in the table;
    /// no other thread waits for the verification.
    ///
    /// If the file system permits it, the database makes hard links to the files, and the files
    /// must not be changed afterwards. Otherwise it copies them. The caller may remove the files'
    /// own names after the call.
    ///
    /// # Errors
    /// [`InvalidRequest`](crate::Error::InvalidRequest) for no files, or files whose keys overlap;
    /// [`Corruption`](crate::Error::Corruption) for a damaged file, or one that no
    /// [`SortedWriter`](crate::SortedWriter) wrote, such as one of a database; as
    /// [`Db::write`](crate::Db::write).
    pub fn ingest(&self, files: &[impl AsRef<Path>]) -> Result<IngestInfo> {
        let paths: Vec<_> = files.iter().map(AsRef::as_ref).collect();
        self.db.ingest(&self.core, &paths)
    }

    /// Returns the value of a key now; `None` if it has none.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let begun = self.db.metering.begin();
        // The version is loaded first, then the number. A write that the number makes visible is in
        // this version or in a later one. If it is in a later one, the read misses it, which is
        // right for one key: the result is that of the moment at which the version was loaded.
        let version = self.core.peek();
        let seq = self.db.queue.visible();
        let at = (seq, self.db.read_time_now());
        let value = get_at(&self.db, &self.core, &version, key, at)?;
        end_read(&self.db, begun, [&value]);
        Ok(value)
    }

    /// Returns the entries of a key range now, ascending, to be read from either end. Later writes
    /// are not seen.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # let table = db.keyspace("k")?.table("t", Default::default())?;
    /// for key in ["a", "b", "c"] {
    ///     table.put(key.as_bytes(), b"")?;
    /// }
    /// let last = table.range("a".."c").next_back().unwrap()?;
    /// assert_eq!(last.0, "b");
    /// assert_eq!(table.range::<&[u8], _>(..).count(), 3);
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    pub fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, range: R) -> Range {
        let scan = Scan::begin(&self.db.metering);
        // Registered only until the iterator holds its version.
        let point = self.db.snapshots.register_view(|| self.db.read_point());
        let version = self.core.version();
        self.db.end_view(point);
        let (db, merger) = (self.db.clone(), self.core.merger.clone());
        Range::new(Some(db), merger, version, point, range)
            .flushing(Arc::clone(&self.core))
            .metered(scan)
    }

    /// Returns the values of some keys, in their order, all at one instant. Ascending keys that are
    /// neighbours cost less together than one by one.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        let begun = self.db.metering.begin();
        let point = self.db.snapshots.register_view(|| self.db.read_point());
        let version = self.core.version();
        self.db.end_view(point);
        let at = (point.seq, point.read_time());
        let values = get_many_at(&self.db, &self.core, &version, keys, at, None)?;
        end_read(&self.db, begun, &values);
        Ok(values)
    }

    /// Returns the entries whose keys begin with `prefix`, at this instant, as [`Table::range`]
    /// does.
    pub fn prefix(&self, prefix: &[u8]) -> Range {
        self.range(KeyRange::prefix(prefix))
    }
}

/// Records a read in the metrics of requests: its latency since `begun`, and the bytes of `values`.
#[inline]
pub(crate) fn end_read<'a>(
    engine: &Engine,
    begun: Option<Begun>,
    values: impl IntoIterator<Item = &'a Option<Value>>,
) {
    if begun.is_some() {
        let bytes = values.into_iter().flatten().map(Value::len).sum();
        engine.metering.end(RequestKind::Read, begun, bytes);
    }
}

/// Returns the value of a key at a sequence number and a read time, and counts the read.
pub(crate) fn get_at(
    engine: &Engine,
    core: &TableCore,
    version: &TableVersion,
    key: &[u8],
    (seq, read_time): (SeqNo, ReadTime<'_>),
) -> Result<Option<Value>> {
    let mut lookup = Lookup::new(key, read_time);
    version.get(std::slice::from_mut(&mut lookup), seq, &core.merger, None)?;
    engine.counters.count_read(lookup.reads());
    lookup.finish(&core.merger)
}

/// Returns the values of some keys at a sequence number and a read time, and counts the reads.
/// Memtables and runs are read one by one, newest first. If `enough` is given, reading ends once it
/// returns true for the values that were found so far.
pub(crate) fn get_many_at<K: AsRef<[u8]>>(
    engine: &Engine,
    core: &TableCore,
    version: &TableVersion,
    keys: &[K],
    (seq, read_time): (SeqNo, ReadTime<'_>),
    enough: Option<IsEnough<'_>>,
) -> Result<Vec<Option<Value>>> {
    let lookups = keys.iter().map(|key| Lookup::new(key.as_ref(), read_time));
    let mut lookups: Vec<_> = lookups.collect();
    version.get(&mut lookups, seq, &core.merger, enough)?;
    let finish = |lookup: Lookup<'_, '_>| {
        engine.counters.count_read(lookup.reads());
        lookup.finish(&core.merger)
    };
    lookups.into_iter().map(finish).collect()
}
