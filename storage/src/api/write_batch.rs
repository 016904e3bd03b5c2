//! Writes that are committed together.

use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use super::Table;
use crate::commit::Payload;
use crate::db::TableCore;
use crate::key::KeyRange;

/// Writes to any tables of one database. Either all of them become visible and survive a crash, or
/// none of them. They apply in the order in which they were added to the batch.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
/// let app = db.keyspace("app")?;
/// let (users, mails) = (app.table("users", Default::default())?, app.table("mails", Default::default())?);
/// let mut batch = ebb_storage::WriteBatch::new();
/// batch.put(&users, b"ada", b"1815");
/// batch.delete(&mails, b"old");
/// db.write(batch)?;
/// # Ok::<(), ebb_storage::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct WriteBatch {
    payload: Payload,
    /// The tables of the operations, each once.
    tables: Vec<Arc<TableCore>>,
}

impl WriteBatch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key. Limits ([`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES),
    /// [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES)) are checked by
    /// [`Db::write`](crate::Db::write), before anything is written.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) {
        if self.payload.put(table.core.id, key, value) {
            self.note(table);
        }
    }

    /// Sets a key until `ttl` (in milliseconds, rounded up) after the commit.
    pub fn put_with_ttl(&mut self, table: &Table, key: &[u8], value: &[u8], ttl: Duration) {
        if self.payload.put_with_ttl(table.core.id, key, value, ttl) {
            self.note(table);
        }
    }

    /// Changes a key's value by an operand of the table's merge operator. If the table has none,
    /// [`Db::write`](crate::Db::write) refuses the batch.
    pub fn merge(&mut self, table: &Table, key: &[u8], operand: &[u8]) {
        if let Err(e) = table.core.check_merges() {
            self.payload.refuse(e.to_string());
        } else if self.payload.merge(table.core.id, key, operand) {
            self.note(table);
        }
    }

    /// Removes a key.
    pub fn delete(&mut self, table: &Table, key: &[u8]) {
        if self.payload.delete(table.core.id, key) {
            self.note(table);
        }
    }

    /// Removes all keys of a range. An empty range adds no operation.
    pub fn delete_range<K: AsRef<[u8]>, R: RangeBounds<K>>(&mut self, table: &Table, range: R) {
        let range = KeyRange::new(range);
        if self.payload.delete_range(table.core.id, &range) {
            self.note(table);
        }
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.payload.len()
    }

    /// Returns whether the batch has no operation.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn tables(&self) -> &[Arc<TableCore>] {
        &self.tables
    }

    /// Splits the batch into the operations and the tables that they write to.
    #[inline]
    pub(crate) fn into_parts(self) -> (Payload, Vec<Arc<TableCore>>) {
        (self.payload, self.tables)
    }

    #[inline]
    fn note(&mut self, table: &Table) {
        if !self.tables.iter().any(|t| Arc::ptr_eq(t, &table.core)) {
            self.tables.push(table.core.clone());
        }
    }
}
