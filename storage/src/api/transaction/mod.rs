//! Transactions under snapshot isolation: read at one instant, write at another,
//! all or nothing, and only if nobody else wrote the same meanwhile.
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
use crate::commit::{Clash, TableKey, split_table_key};
use crate::db::DbInner;
use crate::error::{Error, Result};
use crate::key::{KeyRange, SeqNo};
use crate::options::WriteOptions;

use own_writes::OwnTable;
pub use range::TransactionRange;

/// Options of a transaction.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransactionOptions {
    /// Its commit waits for an fsync even where the database's durability would
    /// not.
    pub sync: bool,
}

/// Reads and writes under snapshot isolation.
///
/// It reads the database as it was when the transaction began, with its own
/// writes on top. [`commit`](Self::commit) makes all its writes visible at once,
/// or none, with [`Error::Conflict`], if a key that it writes was written by
/// another commit meanwhile, transaction or not: the first committer wins.
/// Dropping it rolls back.
///
/// Two transactions that each read what the other writes may both commit (write
/// skew). Where that matters, [`guard`](Self::guard) what a write relies on, or
/// read it with [`get_for_update`](Self::get_for_update).
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
/// A transaction keeps what it can see from being merged away, and makes every
/// commit remember what it writes: keep it short. One that was open over more
/// writes than are remembered (some millions) is refused with
/// [`Error::TransactionTooOld`].
#[derive(Debug)]
pub struct Transaction {
    db: Arc<DbInner>,
    view: View,
    options: TransactionOptions,
    /// What it did to each table that it wrote to or guards.
    tables: Vec<OwnTable>,
}

impl Transaction {
    pub(crate) fn begin(db: Arc<DbInner>, options: TransactionOptions) -> Self {
        let point = db.begin_transaction();
        Self {
            view: View::registered(db.clone(), point),
            db,
            options,
            tables: Vec::new(),
        }
    }

    /// The commit at which it reads.
    pub fn seq(&self) -> SeqNo {
        self.view.seq()
    }

    /// The time by which the transaction judges what has expired, in milliseconds since 1970: when it
    /// began.
    pub fn read_time_ms(&self) -> u64 {
        self.view.read_time_ms()
    }

    /// The value of a key: what the transaction wrote, or else what it had when
    /// the transaction began.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a table of another database, here and in
    /// all that follows.
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

    /// The values of some keys, in their order.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        table: &Table,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        keys.iter()
            .map(|key| self.get(table, key.as_ref()))
            .collect()
    }

    /// The entries of a key range, ascending, and from both ends; own writes
    /// included.
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

    /// [`Self::get`] and [`Self::guard`] in one.
    pub fn get_for_update(&mut self, table: &Table, key: &[u8]) -> Result<Option<Value>> {
        self.guard(table, key)?;
        self.get(table, key)
    }

    /// Makes the commit fail if another one wrote this key since the transaction
    /// began, as if the transaction wrote it, which it does not.
    ///
    /// A transaction that writes nothing has nothing to protect: it commits
    /// whatever it guards.
    pub fn guard(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        self.own_mut(table)?.guard(key);
        Ok(())
    }

    /// Sets a key.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a key or value that is too long.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.own_mut(table)?.put(key, value)
    }

    /// Sets a key for a time, counted from the commit: see
    /// [`Table::put_with_ttl`].
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

    /// Changes the value of a key by an operand of the table's merge operator.
    /// It is in no conflict with the merges of others: all apply, in the order of
    /// their commits. Who reads the key and relies on what it read guards it.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a table without an operator, and for a key
    /// or operand that is too long.
    pub fn merge(&mut self, table: &Table, key: &[u8], operand: &[u8]) -> Result<()> {
        self.own_mut(table)?.merge(key, operand)
    }

    /// Removes a key; removing one that is not there is no error.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a key that is too long.
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        self.own_mut(table)?.delete(key)
    }

    /// Removes all keys of a range. The commit is in conflict with any write in
    /// the range since the transaction began, merges too. An empty range is no
    /// write; a bound that is too long is reported by the commit.
    pub fn delete_range<K, R>(&mut self, table: &Table, range: R) -> Result<()>
    where
        K: AsRef<[u8]>,
        R: RangeBounds<K>,
    {
        self.own_mut(table)?.delete_range(KeyRange::new(range));
        Ok(())
    }

    /// Makes its writes visible, and as durable as was asked; returns the number
    /// at which they are. A transaction that wrote nothing has nothing to do,
    /// and returns the number at which it read.
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
        let guards: Vec<TableKey> = self.tables.iter().flat_map(OwnTable::guards).collect();
        let options = WriteOptions {
            sync: self.options.sync,
        };
        let (payload, tables) = batch.into_parts();
        self.db.write_if(payload, &tables, options, |writes| {
            // Nor can it rely on a table that was dropped.
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
