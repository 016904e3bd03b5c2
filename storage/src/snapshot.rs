//! Reading at one instant: views, which die with the process, and named
//! snapshots, which do not.

use std::ops::RangeBounds;
use std::sync::Arc;

use crate::db::{DbInner, TableCore};
use crate::error::{Error, Result};
use crate::key::SeqNo;
use crate::range::Range;
use crate::retention::Bookmark;
use crate::table::{Table, Value, get_at};

/// All tables at one instant, for as long as it lives: what it can see is kept
/// by flushes and compactions.
#[derive(Debug)]
pub struct View {
    db: Arc<DbInner>,
    seq: SeqNo,
}

impl View {
    pub(crate) fn now(db: Arc<DbInner>) -> Self {
        let seq = db.retention().register_view(|| db.queue().visible());
        Self { db, seq }
    }

    /// The view that was registered at `seq`, which is visible.
    pub(crate) fn registered(db: Arc<DbInner>, seq: SeqNo) -> Self {
        Self { db, seq }
    }

    /// The commit at which it stands.
    pub fn seq(&self) -> SeqNo {
        self.seq
    }

    /// The value of a key at this instant.
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>> {
        get_at(&self.db, &table.core.peek(), key, self.seq)
    }

    /// The entries of a key range at this instant, from both ends.
    pub fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, table: &Table, range: R) -> Range {
        Range::new(&self.db, table.core.version(), self.seq, range, true)
    }
}

impl Clone for View {
    fn clone(&self) -> Self {
        self.db.retention().share_view(self.seq);
        Self {
            db: self.db.clone(),
            seq: self.seq,
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.db.retention().release_view(self.seq);
    }
}

/// An open named snapshot: its tables, each as it was when it was created.
#[derive(Debug, Clone)]
pub struct Snapshot {
    view: View,
    bookmark: Arc<Bookmark>,
}

impl Snapshot {
    pub(crate) fn open(db: Arc<DbInner>, keyspace: &str, name: &str) -> Result<Self> {
        let bookmark = db.retention().open_snapshot(keyspace, name)?;
        let view = View {
            db,
            seq: bookmark.seq,
        };
        // It may have been registered a moment ago, with commits before it
        // still under way.
        view.db.queue().wait_visible(view.seq);
        Ok(Self {
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

    /// The names of its tables, ascending.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.bookmark
            .record
            .tables
            .iter()
            .map(|(name, _)| name.as_str())
    }

    /// A table as it was.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the snapshot does not cover a table of this
    /// name.
    pub fn table(&self, name: &str) -> Result<SnapshotTable> {
        let covered = self
            .bookmark
            .record
            .tables
            .iter()
            .find(|(table, _)| table == name);
        let core = covered.and_then(|(_, id)| self.view.db.catalog().by_id(*id).cloned());
        let core = core.ok_or_else(|| Error::NotFound {
            what: "table",
            name: format!("{name} in snapshot {}", self.name()),
        })?;
        Ok(SnapshotTable {
            view: self.view.clone(),
            core,
        })
    }
}

/// A table as it was when a snapshot was created.
#[derive(Debug, Clone)]
pub struct SnapshotTable {
    view: View,
    core: Arc<TableCore>,
}

impl SnapshotTable {
    /// The value that a key had.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        get_at(&self.view.db, &self.core.peek(), key, self.view.seq)
    }

    /// The entries that a key range had, from both ends.
    pub fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, range: R) -> Range {
        Range::new(
            &self.view.db,
            self.core.version(),
            self.view.seq,
            range,
            true,
        )
    }

    /// The same, leaving no trace in the block cache: for scans beside a load
    /// whose working set is to stay there.
    pub fn scan<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, range: R) -> Range {
        Range::new(
            &self.view.db,
            self.core.version(),
            self.view.seq,
            range,
            false,
        )
    }

    /// Keys that cut the table into at most `parts` pieces of about as many
    /// bytes on disk, ascending; fewer where there is not enough on disk to
    /// tell. Piece `i` goes from key `i - 1` (included) to key `i`.
    pub fn split_keys(&self, parts: usize) -> Result<Vec<bytes::Bytes>> {
        self.core.version().split_keys(self.view.seq, parts)
    }

    /// Bytes on disk of the runs that this snapshot sees.
    pub fn approximate_bytes(&self) -> u64 {
        let version = self.core.version();
        version
            .runs
            .iter()
            .filter(|run| run.is_seen_at(self.view.seq))
            .map(|run| run.meta().bytes)
            .sum()
    }
}
