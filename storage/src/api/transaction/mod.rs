//! Transactions under snapshot isolation: read at one instant, write at another, all or nothing,
//! and only if no other commit has written the same keys in between.
//!
//! ```text
//!   begin ──► reads at number S, own writes on top    (own_writes, range)
//!     │
//!   commit ─► one batch, if nothing that it writes    (commit::conflicts)
//!             or guards was written after S
//! ```
//!
//! A transaction takes no lock: it never waits for another one, and the first
//! to commit wins.

mod own_writes;
mod range;

use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{Table, Value, View, WriteBatch};
use crate::commit::{Clash, WriteSet, split_table_key};
use crate::db::DbInner;
use crate::error::{Error, Result};
use crate::key::{KeyRange, SeqNo};
use crate::options::WriteOptions;

use own_writes::OwnTable;
pub use range::TransactionRange;

/// Reads and writes under snapshot isolation.
///
/// A transaction reads the database as it was when the transaction began, with its own writes on
/// top. [`commit`](Self::commit) makes all writes visible at once. If another commit (of a
/// transaction or not) has written one of the same keys since the transaction began, `commit`
/// writes nothing and returns [`Error::Conflict`]: the first committer wins. Only two
/// [merges](Self::merge) of a key do not conflict. Dropping the transaction rolls it back.
///
/// Two transactions that each read what the other writes may both commit (write
/// skew). Where that matters, [`guard`](Self::guard) what a write relies on, or
/// read it with [`get_for_update`](Self::get_for_update). A write that relies on a range guards it
/// with [`guard_range`](Self::guard_range).
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
/// # let accounts = db.keyspace("bank")?.table("accounts", Default::default())?;
/// # accounts.put(b"ada", b"5")?;
/// use ebb_storage::ErrorKind;
///
/// let (mut one, mut two) = (db.begin(), db.begin());
/// for txn in [&mut one, &mut two] {
///     let balance: u32 = match txn.get(&accounts, b"ada")? {
///         Some(value) => std::str::from_utf8(&value).unwrap().parse().unwrap(),
///         None => 0,
///     };
///     txn.put(&accounts, b"ada", (balance + 1).to_string().as_bytes())?;
/// }
/// one.commit()?;
/// assert_eq!(two.commit().unwrap_err().kind(), ErrorKind::Conflict);
/// assert_eq!(accounts.get(b"ada")?.unwrap(), "6");
/// # Ok::<(), ebb_storage::Error>(())
/// ```
///
/// While a transaction is open, merges keep the versions that it can see, and every commit records
/// its keys in memory: keep it short. A transaction that was open during more writes than are
/// recorded (some millions) is refused with [`Error::TransactionTooOld`].
#[derive(Debug)]
pub struct Transaction {
    db: Arc<DbInner>,
    view: View,
    options: WriteOptions,
    /// For each table, the writes of the transaction, and its guards: keys and ranges that no other
    /// commit may have written since the transaction began.
    tables: Vec<OwnTable>,
}

impl Transaction {
    pub(crate) fn begin(db: Arc<DbInner>, options: WriteOptions) -> Self {
        let point = db.begin_transaction();
        Self {
            view: View::registered(db.clone(), point),
            db,
            options,
            tables: Vec::new(),
        }
    }

    /// Returns the last commit that the transaction sees.
    pub fn seq(&self) -> SeqNo {
        self.view.seq()
    }

    /// Returns the time by which the transaction judges expiry, in milliseconds since 1970: the
    /// time at which it began.
    pub fn read_time_ms(&self) -> u64 {
        self.view.read_time_ms()
    }

    /// Returns the value of a key: the one that the transaction wrote, or else the one from the
    /// time when the transaction began.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a table of another database, here and in the methods below.
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>> {
        self.check_table(table)?;
        let own = self.own(table);
        let below = || match own {
            Some(own) if own.has_cleared(key) => Ok(None),
            _ => self.view.get(table, key),
        };
        match own.and_then(|own| own.writes.get(key)) {
            Some(write) => write.resolve(table, key, below),
            None => below(),
        }
    }

    /// Returns the values of some keys, in their order.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        table: &Table,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        keys.iter()
            .map(|key| self.get(table, key.as_ref()))
            .collect()
    }

    /// Returns the entries of a key range, ascending, to be read from either end. The transaction's
    /// own writes are included.
    pub fn range<K, R>(&self, table: &Table, range: R) -> Result<TransactionRange<'_>>
    where
        K: AsRef<[u8]>,
        R: RangeBounds<K>,
    {
        self.check_table(table)?;
        let own = self.own(table);
        Ok(TransactionRange::new(own, range, |range| {
            self.view.range(table, range)
        }))
    }

    /// Reads a key as [`Self::get`] does, and guards it as [`Self::guard`] does. Merge operands that
    /// the transaction wrote are folded once: a transaction that reads the key before each of many
    /// merges takes linear time.
    pub fn get_for_update(&mut self, table: &Table, key: &[u8]) -> Result<Option<Value>> {
        let own = self.own_mut(table)?;
        own.guard(key);
        own.fold(key);
        self.get(table, key)
    }

    /// Makes the commit fail if another commit wrote this key since the transaction began, as if
    /// the transaction wrote the key. The key is not written.
    ///
    /// A transaction that writes nothing ignores its guards: its commit succeeds even if another
    /// commit wrote a guarded key, because there is no write to protect.
    pub fn guard(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        self.own_mut(table)?.guard(key);
        Ok(())
    }

    /// Makes the commit fail if another commit wrote a key of this range since the transaction began,
    /// even a key that did not exist: guards each possible key of the range, as [`Self::guard`] does.
    /// An empty range guards nothing.
    pub fn guard_range<K, R>(&mut self, table: &Table, range: R) -> Result<()>
    where
        K: AsRef<[u8]>,
        R: RangeBounds<K>,
    {
        self.own_mut(table)?.guard_range(KeyRange::new(range));
        Ok(())
    }

    /// Sets a key.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a key or value that is too long.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.own_mut(table)?.put(key, value)
    }

    /// Sets a key that expires `ttl` after the commit: see [`Table::put_with_ttl`].
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a key or value that is too long.
    pub fn put_with_ttl(
        &mut self,
        table: &Table,
        key: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> Result<()> {
        self.own_mut(table)?.put_with_ttl(key, value, ttl)
    }

    /// Changes the value of a key by an operand of the table's merge operator. Merges of different
    /// commits do not conflict: all apply, in the order of their commits. A transaction that reads
    /// the key and relies on its value must guard the key.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a table without an operator, and for a key
    /// or operand that is too long.
    pub fn merge(&mut self, table: &Table, key: &[u8], operand: &[u8]) -> Result<()> {
        self.own_mut(table)?.merge(key, operand)
    }

    /// Removes a key. A missing key is no error.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a key that is too long.
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        self.own_mut(table)?.delete(key)
    }

    /// Removes all keys of a range. The commit fails with a conflict if another commit wrote in the
    /// range since the transaction began, even by a merge or by a range delete that overlaps the
    /// range. An empty range is no write. A bound that is too long is an error of the commit.
    pub fn delete_range<K, R>(&mut self, table: &Table, range: R) -> Result<()>
    where
        K: AsRef<[u8]>,
        R: RangeBounds<K>,
    {
        self.own_mut(table)?.delete_range(KeyRange::new(range));
        Ok(())
    }

    /// Commits the writes: makes them visible, as durable as the options require. Returns the sequence
    /// number of the commit; for a transaction that wrote nothing, the number at which it read
    /// ([`Self::seq`]).
    ///
    /// # Errors
    /// [`Error::Conflict`], which names a key, and [`Error::TransactionTooOld`]:
    /// nothing was written, begin again. [`Error::NotFound`] for a table that was
    /// dropped. Otherwise as [`Db::write`](crate::Db::write).
    pub fn commit(self) -> Result<SeqNo> {
        let mut batch = WriteBatch::new();
        for own in &self.tables {
            own.write_to(&mut batch);
        }
        if batch.is_empty() {
            return Ok(self.seq());
        }
        let guards = WriteSet::of_keys_and_ranges(
            self.tables.iter().flat_map(OwnTable::guards),
            self.tables.iter().flat_map(OwnTable::guarded_ranges),
        );
        let (payload, tables) = batch.into_parts();
        self.db.write_if(payload, &tables, self.options, |writes| {
            // A transaction cannot rely on a dropped table, either.
            for own in &self.tables {
                own.table.core.check_writable()?;
            }
            let conflicts = &self.db.conflicts;
            conflicts
                .check(self.seq(), writes, &guards)
                .map_err(|clash| self.refusal(clash))
        })
    }

    fn refusal(&self, clash: Clash) -> Error {
        let Clash::Key(key) = clash else {
            return Error::TransactionTooOld;
        };
        let (id, key) = split_table_key(&key);
        let own = self.tables.iter().find(|own| own.table.core.id == id);
        let table = &own.expect("a clash is with what it wrote or guards").table;
        Error::Conflict {
            table: format!("{}.{}", table.keyspace(), table.name()),
            key: key.to_vec(),
        }
    }

    fn check_table(&self, table: &Table) -> Result<()> {
        if table.core.database == self.db.id {
            return Ok(());
        }
        let name = format!("{}.{}", table.keyspace(), table.name());
        Err(Error::InvalidRequest(format!(
            "table {name} is of another database than the transaction"
        )))
    }

    fn own(&self, table: &Table) -> Option<&OwnTable> {
        let id = table.core.id;
        self.tables.iter().find(|own| own.table.core.id == id)
    }

    fn own_mut(&mut self, table: &Table) -> Result<&mut OwnTable> {
        self.check_table(table)?;
        let id = table.core.id;
        let at = self.tables.iter().position(|own| own.table.core.id == id);
        let at = at.unwrap_or_else(|| {
            self.tables.push(OwnTable::new(table.clone()));
            self.tables.len() - 1
        });
        Ok(&mut self.tables[at])
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.db.conflicts.end(self.view.seq());
    }
}
