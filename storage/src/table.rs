//! A table: sorted keys with values.

use std::ops::RangeBounds;
use std::sync::Arc;

use bytes::Bytes;

use crate::commit::WriteBatch;
use crate::db::{DbInner, Engine, TableCore};
use crate::error::Result;
use crate::key::{Kind, SeqNo};
use crate::options::WriteOptions;
use crate::range::Range;
use crate::sstable::ReadCounters;
use crate::version::TableVersion;

/// A value, shared with the block or memtable that it lies in where possible.
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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The name of its keyspace.
    pub fn keyspace(&self) -> &str {
        &self.core.keyspace
    }

    /// Sets a key. Errors: see [`Db::write`](crate::Db::write).
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(self, key, value);
        self.db.write(batch, WriteOptions::default())
    }

    /// Removes a key; removing one that is not there is no error.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(self, key);
        self.db.write(batch, WriteOptions::default())
    }

    /// The value of a key now; `None` when it has none.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        // The version first, then the number: what the number makes visible was
        // written to this version or to a later one, and for one key an answer
        // from the moment of the first line is as good as one from the second.
        let version = self.core.peek();
        get_at(&self.db, &version, key, self.db.queue().visible())
    }

    /// The entries of a key range now, ascending, and from both ends. What is
    /// written meanwhile is not seen.
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
        // Registered only until the iterator holds its version.
        let seq = self
            .db
            .retention()
            .register_view(|| self.db.queue().visible());
        let version = self.core.version();
        self.db.retention().release_view(seq);
        Range::new(&self.db, version, seq, range, true)
    }
}

/// The value of a key at `seq`, and the counting that every read does.
pub(crate) fn get_at(
    engine: &Engine,
    version: &TableVersion,
    key: &[u8],
    seq: SeqNo,
) -> Result<Option<Value>> {
    let mut reads = ReadCounters::default();
    let found = version.get(key, seq, &mut reads)?;
    engine.counters().count_read(&reads);
    Ok(found
        .filter(|version| version.kind == Kind::Put)
        .map(|version| version.value))
}
