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

/// All tables at one instant, for as long as it lives: what it can see is kept
/// by flushes and compactions.
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

    /// The view that was registered at `point`, which is visible.
    pub(crate) fn registered(db: Arc<DbInner>, point: ReadPoint) -> Self {
        Self { db, point }
    }

    /// The commit at which it stands.
    pub fn seq(&self) -> SeqNo {
        self.point.seq
    }

    /// The time by which the view judges what has expired, in milliseconds since 1970.
    pub fn read_time_ms(&self) -> u64 {
        self.point.read_time_ms
    }

    /// The value of a key at this instant.
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>> {
        let begun = self.db.metering.begin();
        let value = self.get_in(&table.core, key)?;
        end_read(&self.db, begun, [&value]);
        Ok(value)
    }

    /// The entries of a key range at this instant, from both ends.
    pub fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, table: &Table, range: R) -> Range {
        let scan = Scan::begin(&self.db.metering);
        self.range_of(&table.core, range).metered(scan)
    }

    /// The entries whose keys begin with `prefix`, at this instant.
    pub fn prefix(&self, table: &Table, prefix: &[u8]) -> Range {
        self.range(table, KeyRange::prefix(prefix))
    }

    /// The values of some keys at this instant, in their order: as [`Table::get_many`].
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

    /// What the values of some keys at this instant begin with, newest writes first, until
    /// `enough` says that the reader needs no older ones. It is asked between the places
    /// that hold versions, if ever; the answer is that of [`View::get_many`] where it never
    /// says so. For tables whose merge operator knows the
    /// [timestamps](crate::MergeOperator::timestamps) of values.
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
    /// As [`View::get_many`], of what it reads.
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

/// An open named snapshot: its tables, each as it was when it was created.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// By name; dropped ones too.
    tables: Arc<BTreeMap<String, Arc<TableCore>>>,
    view: View,
    bookmark: Arc<Bookmark>,
}

impl Snapshot {
    pub(crate) fn open(db: Arc<DbInner>, keyspace: &str, name: &str) -> Result<Self> {
        let (bookmark, tables) = {
            // While the bookmark is found under this lock its tables are there,
            // dropped ones too.
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
        // It may have been registered a moment ago, with commits before it
        // still under way.
        view.db.queue.wait_visible(view.seq());
        Ok(Self {
            tables,
            view,
            bookmark: Arc::new(bookmark),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.bookmark.record.name
    }

    /// The commit at which it stands.
    pub fn seq(&self) -> SeqNo {
        self.bookmark.seq
    }

    /// The time by which the snapshot judges what has expired, in milliseconds since 1970: when it was
    /// created.
    pub fn read_time_ms(&self) -> u64 {
        self.view.read_time_ms()
    }

    /// The names of its tables, ascending.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// A table as it was.
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
    /// The number of the table. No other table of the database has or had it, whatever its name.
    pub fn number(&self) -> u32 {
        self.core.id.0
    }

    /// The commit at which the snapshot stands.
    pub fn seq(&self) -> SeqNo {
        self.view.seq()
    }

    /// The options of the table, as they are now.
    pub fn options(&self) -> Arc<TableOptions> {
        self.core.options()
    }

    /// The time by which the table judges what has expired, in milliseconds since 1970: when the snapshot
    /// was created.
    pub fn read_time_ms(&self) -> u64 {
        self.view.read_time_ms()
    }

    /// The value that a key had.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.view.get_in(&self.core, key)
    }

    /// The values that some keys had, in their order.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.view.get_many_in(&self.core, keys, None)
    }

    /// What these values begin with, newest writes first: as [`View::get_many_until`].
    pub fn get_many_until<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        enough: &dyn Fn(&FoundSoFar<'_>) -> bool,
    ) -> Result<Vec<Option<Value>>> {
        self.view.get_many_in(&self.core, keys, Some(enough))
    }

    /// The entries that there were whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: &[u8]) -> Range {
        self.range(KeyRange::prefix(prefix))
    }

    /// The entries that a key range had, from both ends.
    pub fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, range: R) -> Range {
        self.view.range_of(&self.core, range)
    }

    /// The same, leaving no trace in the block cache: for scans beside a load
    /// whose working set is to stay there.
    pub fn scan<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, range: R) -> Range {
        self.range(range).caching(Cache::Bypass)
    }

    /// Returns the keys of a range whose values may differ between `older`, an earlier snapshot of
    /// the same table, and this one: those that were written or deleted in between, also by a
    /// deleted range, and those of which something expired between the times of the two snapshots.
    ///
    /// No key that changed is missing. A key whose value is the same in both may be among them, so
    /// a caller reads both values. Only files that may have changes are read, past the block cache.
    ///
    /// A value expires by [`put_with_ttl`](Table::put_with_ttl), or as the table's merge operator
    /// reports ([`MergeOperator::expiries`](crate::MergeOperator::expiries)). If a value takes
    /// effect on a [group](crate::MergeOperator::group), only the key of that value is returned.
    ///
    /// Both snapshots count as they are read now. What
    /// [`Db::rewrite_damaged`](crate::Db::rewrite_damaged) gave up is missing in both, so it is no
    /// change.
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

    /// Returns keys that cut a range into at most `parts` pieces of about as many bytes on
    /// disk, ascending; fewer if the range has too few blocks on disk. Piece `i`
    /// goes from key `i - 1` (included; or the start of the range) to key `i`.
    pub fn split_keys<K, R>(&self, range: R, parts: usize) -> Vec<Bytes>
    where
        K: AsRef<[u8]>,
        R: RangeBounds<K>,
    {
        let version = self.core.version();
        version.split_keys(self.view.seq(), &KeyRange::new(range), parts)
    }

    /// Its files, to be read by somebody who does not have the database open: see
    /// [`DetachedTable`](crate::DetachedTable). What it sees and no file has is
    /// flushed first.
    ///
    /// # Errors
    /// The errors of [`Db::flush`](crate::Db::flush), and [`Error::Io`](crate::Error::Io) for a file
    /// that did not open.
    pub fn pin(&self) -> Result<PinnedTable> {
        PinnedTable::new(&self.view.db, &self.core, self.view.point)
    }

    /// Bytes on disk of the data blocks in which this snapshot may see something
    /// of a range.
    pub fn approximate_bytes<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, range: R) -> u64 {
        let version = self.core.version();
        version.approximate_bytes(self.view.seq(), &KeyRange::new(range))
    }
}
