//! Reading at one instant: views, which die with the process, and named
//! snapshots, which do not.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

use bytes::Bytes;

use crate::api::table::{end_read, get_at, get_many_at};
use crate::api::{Cache, Changes, PinnedTable, Range, Table, Value};
use crate::db::{DbInner, TableCore};
use crate::error::{Error, Result};
use crate::key::{KeyRange, ReadPoint, SeqNo};
use crate::meter::Scan;
use crate::options::TableOptions;
use crate::read::{FoundSoFar, IsEnough};
use crate::snapshots::Bookmark;

/// All tables at one instant. While the view lives, flushes and compactions keep every version that
/// it can see.
#[derive(Debug)]
pub struct View {
    db: Arc<DbInner>,
    pub(super) point: ReadPoint,
}

impl View {
    pub(crate) fn now(db: Arc<DbInner>) -> Self {
        let point = db.snapshots.register_view(|| db.read_point());
        Self { db, point }
    }

    /// Returns the view at `point`. The caller has registered `point`, so that merges keep its
    /// versions, and all commits up to it are visible.
    pub(crate) fn registered(db: Arc<DbInner>, point: ReadPoint) -> Self {
        Self { db, point }
    }

    /// Returns the last commit that the view sees.
    pub fn seq(&self) -> SeqNo {
        self.point.seq
    }

    /// Returns the time by which the view judges expiry, in milliseconds since 1970.
    pub fn read_time_ms(&self) -> u64 {
        self.point.read_time_ms
    }

    /// Returns the value of a key at the instant of the view.
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>> {
        let begun = self.db.metering.begin();
        let value = self.get_in(&table.core, key)?;
        end_read(&self.db, begun, [&value]);
        Ok(value)
    }

    /// Returns the entries of a key range at the instant of the view, to be read from either end.
    pub fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, table: &Table, range: R) -> Range {
        let scan = Scan::begin(&self.db.metering);
        self.range_of(&table.core, range).metered(scan)
    }

    /// Returns the entries whose keys begin with `prefix`, at the instant of the view.
    pub fn prefix(&self, table: &Table, prefix: &[u8]) -> Range {
        self.range(table, KeyRange::prefix(prefix))
    }

    /// Returns the values of some keys at the instant of the view, in the order of the keys: as
    /// [`Table::get_many`].
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        table: &Table,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        let begun = self.db.metering.begin();
        let values = self.get_many_in(&table.core, keys, None)?;
        end_read(&self.db, begun, &values);
        Ok(values)
    }

    /// Reads the values of some keys at the instant of the view, newest writes first, until
    /// `enough` returns true because the reader needs no older writes. The returned values then
    /// lack the writes that were not read. `enough` is called between reads of the memtables and
    /// the runs of files, once a version of a key is found; if it never returns true, the result is
    /// that of [`View::get_many`]. This is of use only for tables whose merge operator returns the
    /// [timestamps](crate::MergeOperator::timestamps) of values: without them, older writes may
    /// always matter.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # let table = db.keyspace("k")?.table("t", Default::default())?;
    /// # table.put(b"key", b"5")?;
    /// let is_newer = |found: &ebb_storage::FoundSoFar<'_>| {
    ///     let timestamp = |value: &[u8]| std::str::from_utf8(value).ok()?.parse::<i64>().ok();
    ///     let found_at = found.values[0].as_ref().and_then(|value| timestamp(value));
    ///     found_at > Some(found.greatest_left)
    /// };
    /// let found = db.view().get_many_until(&table, &[b"key"], &is_newer)?;
    /// assert_eq!(found[0].as_deref(), Some(&b"5"[..]));
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`View::get_many`], but only for the memtables and runs that are read.
    pub fn get_many_until<K: AsRef<[u8]>>(
        &self,
        table: &Table,
        keys: &[K],
        enough: &dyn Fn(&FoundSoFar<'_>) -> bool,
    ) -> Result<Vec<Option<Value>>> {
        let begun = self.db.metering.begin();
        let values = self.get_many_in(&table.core, keys, Some(enough))?;
        end_read(&self.db, begun, &values);
        Ok(values)
    }

    fn get_in(&self, core: &TableCore, key: &[u8]) -> Result<Option<Value>> {
        let point = (self.point.seq, self.point.read_time());
        get_at(&self.db, core, &core.peek(), key, point)
    }

    fn get_many_in<K: AsRef<[u8]>>(
        &self,
        core: &TableCore,
        keys: &[K],
        enough: Option<IsEnough<'_>>,
    ) -> Result<Vec<Option<Value>>> {
        let point = (self.point.seq, self.point.read_time());
        get_many_at(&self.db, core, &core.peek(), keys, point, enough)
    }

    fn range_of<K, R>(&self, core: &Arc<TableCore>, range: R) -> Range
    where
        K: AsRef<[u8]>,
        R: RangeBounds<K>,
    {
        let (db, merger) = (self.db.clone(), core.merger.clone());
        Range::new(Some(db), merger, core.version(), self.point, range).flushing(Arc::clone(core))
    }
}

impl Clone for View {
    fn clone(&self) -> Self {
        self.db.snapshots.share_view(self.point);
        Self {
            db: self.db.clone(),
            point: self.point,
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.db.end_view(self.point);
    }
}

/// An open named snapshot: its tables, each as it was when the snapshot was created.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The tables by name, including those that were dropped since.
    tables: Arc<BTreeMap<String, Arc<TableCore>>>,
    view: View,
    bookmark: Arc<Bookmark>,
}

impl Snapshot {
    pub(crate) fn open(db: Arc<DbInner>, keyspace: &str, name: &str) -> Result<Self> {
        let (bookmark, tables) = {
            // While the bookmark is found under this lock, its tables are in the catalog, dropped
            // ones too.
            let catalog = db.catalog();
            let now_ms = db.now_ms();
            let bookmark = db.snapshots.open_snapshot(keyspace, name, now_ms)?;
            let covered = catalog.covered_by(&bookmark);
            let tables: BTreeMap<_, _> = covered
                .map(|table| (table.name.clone(), table.clone()))
                .collect();
            (bookmark, Arc::new(tables))
        };
        let view = View {
            db,
            point: bookmark.point(),
        };
        // The snapshot may be new, with commits before it still under way.
        view.db.queue.wait_visible(view.seq());
        Ok(Self {
            tables,
            view,
            bookmark: Arc::new(bookmark),
        })
    }

    /// Returns the name, unique in the keyspace.
    pub fn name(&self) -> &str {
        &self.bookmark.record.name
    }

    /// Returns the commit whose state the snapshot shows.
    pub fn seq(&self) -> SeqNo {
        self.bookmark.seq
    }

    /// Returns the time by which the snapshot judges expiry, in milliseconds since 1970: the time
    /// at which it was created.
    pub fn read_time_ms(&self) -> u64 {
        self.view.read_time_ms()
    }

    /// Returns the names of the tables in the snapshot, ascending.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// Returns a table as it was when the snapshot was created.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the snapshot does not cover a table of this
    /// name.
    pub fn table(&self, name: &str) -> Result<SnapshotTable> {
        let missing = || Error::not_found("table", format!("{name} in snapshot {}", self.name()));
        let core = self.tables.get(name).cloned().ok_or_else(missing)?;
        Ok(SnapshotTable {
            view: self.view.clone(),
            core,
        })
    }
}

/// A table as it was when a snapshot was created.
#[derive(Debug, Clone)]
pub struct SnapshotTable {
    pub(super) view: View,
    pub(super) core: Arc<TableCore>,
}

impl SnapshotTable {
    /// Returns the number of the table. No other table of the database has or had it, whatever its
    /// name.
    pub fn number(&self) -> u32 {
        self.core.id.0
    }

    /// Returns whether the table was dropped after the snapshot was created. Another table may have its
    /// name by now.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # let app = db.keyspace("app")?;
    /// app.table("users", Default::default())?;
    /// app.create_snapshot("monday")?;
    /// let users = app.snapshot("monday")?.table("users")?;
    /// assert!(!users.is_dropped());
    /// app.drop_table("users")?;
    /// app.table("users", Default::default())?;
    /// assert!(users.is_dropped());
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    pub fn is_dropped(&self) -> bool {
        self.core.is_dropped()
    }

    /// Returns the commit whose state the snapshot shows.
    pub fn seq(&self) -> SeqNo {
        self.view.seq()
    }

    /// Returns the options of the table, as they are now.
    pub fn options(&self) -> Arc<TableOptions> {
        self.core.options()
    }

    /// Returns the time by which the table judges expiry, in milliseconds since 1970: the time at
    /// which the snapshot was created.
    pub fn read_time_ms(&self) -> u64 {
        self.view.read_time_ms()
    }

    /// Returns the value of a key in the snapshot.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.view.get_in(&self.core, key)
    }

    /// Returns the values of some keys in the snapshot, in the order of the keys.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.view.get_many_in(&self.core, keys, None)
    }

    /// Reads the values of some keys in the snapshot, and begins with the newest writes. Stops once
    /// `enough` returns true: see [`View::get_many_until`].
    pub fn get_many_until<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        enough: &dyn Fn(&FoundSoFar<'_>) -> bool,
    ) -> Result<Vec<Option<Value>>> {
        self.view.get_many_in(&self.core, keys, Some(enough))
    }

    /// Returns the entries in the snapshot whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: &[u8]) -> Range {
        self.range(KeyRange::prefix(prefix))
    }

    /// Returns the entries of a key range in the snapshot, to be read from either end.
    pub fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, range: R) -> Range {
        self.view.range_of(&self.core, range)
    }

    /// Returns the entries of a key range as [`Self::range`], without filling the block cache: for
    /// scans that must not displace the blocks that other requests need.
    pub fn scan<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, range: R) -> Range {
        self.range(range).caching(Cache::Bypass)
    }

    /// Returns the keys of a range whose values may differ between `older`, an earlier snapshot of
    /// the same table, and this one: the keys that were written or deleted in between, also by a
    /// deleted range, and the keys with a value that expired between the times of the two
    /// snapshots.
    ///
    /// No key that changed is missing. A key whose value is the same in both may be among them, so
    /// a caller reads both values. Only files that may have changes are read, past the block cache.
    ///
    /// A value expires by [`put_with_ttl`](Table::put_with_ttl), or as the table's merge operator
    /// reports ([`MergeOperator::expiries`](crate::MergeOperator::expiries)). If a changed value
    /// deletes content of other keys, as the head of a [group](crate::MergeOperator::group) can,
    /// only the key of that value is returned, and the caller has to read the whole group.
    ///
    /// The snapshots are compared as they are read now. Data whose loss
    /// [`Db::rewrite_damaged`](crate::Db::rewrite_damaged) made permanent is missing in both snapshots,
    /// so its loss is no change.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # let app = db.keyspace("app")?;
    /// # let users = app.table("users", Default::default())?;
    /// use ebb_storage::Changes;
    ///
    /// users.put(b"ada", b"1815")?;
    /// users.put(b"bob", b"1900")?;
    /// app.create_snapshot("monday")?;
    /// users.put(b"ada", b"1852")?;
    /// app.create_snapshot("tuesday")?;
    /// let [monday, tuesday] = ["monday", "tuesday"].map(|name| app.snapshot(name));
    /// let (monday, tuesday) = (monday?.table("users")?, tuesday?.table("users")?);
    /// let Changes::Keys(keys) = tuesday.changed_keys::<&[u8], _>(&monday, ..)? else {
    ///     panic!("the table was not truncated");
    /// };
    /// assert_eq!(keys.collect::<Result<Vec<_>, _>>()?, ["ada"]);
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if `older` is the newer one of the two; an error of a file that
    /// cannot be read or is damaged, here or from the iterator, if it may have changes.
    pub fn changed_keys<K, R>(&self, older: &Self, range: R) -> Result<Changes>
    where
        K: AsRef<[u8]>,
        R: RangeBounds<K>,
    {
        Changes::between(older, self, &KeyRange::new(range))
    }

    /// Returns keys that cut a range into at most `parts` pieces of about equal size on disk,
    /// ascending; fewer if the range has too few blocks on disk. Each piece goes from one of these
    /// keys (included) to the next one (excluded). The first piece begins where the range does, and the
    /// last piece ends where the range does.
    pub fn split_keys<K, R>(&self, range: R, parts: usize) -> Vec<Bytes>
    where
        K: AsRef<[u8]>,
        R: RangeBounds<K>,
    {
        let version = self.core.version();
        version.split_keys(self.view.seq(), &KeyRange::new(range), parts)
    }

    /// Pins the files, to be read without opening the database: see
    /// [`DetachedTable`](crate::DetachedTable). First flushes data that the snapshot sees and no
    /// file has.
    ///
    /// # Errors
    /// The errors of [`Db::flush`](crate::Db::flush); [`Error::NotFound`](crate::Error::NotFound) if
    /// the table was dropped, the snapshot deleted, and some of the data is only in memory;
    /// [`Error::Io`](crate::Error::Io) for a file that did not open.
    pub fn pin(&self) -> Result<PinnedTable> {
        PinnedTable::new(&self.view.db, &self.core, self.view.point)
    }

    /// Returns the bytes on disk of the data blocks in which this snapshot may see keys of a range.
    pub fn approximate_bytes<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, range: R) -> u64 {
        let version = self.core.version();
        version.approximate_bytes(self.view.seq(), &KeyRange::new(range))
    }
}
