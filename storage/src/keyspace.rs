//! A keyspace: tables that are snapshotted together.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::db::DbInner;
use crate::error::Result;
use crate::key::SeqNo;
use crate::options::TableOptions;
use crate::snapshot::Snapshot;
use crate::table::Table;

/// A keyspace of an open database. Clones are cheap.
#[derive(Debug, Clone)]
pub struct Keyspace {
    db: Arc<DbInner>,
    name: Arc<str>,
}

/// What there is to know about a snapshot without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its name, unique in its keyspace.
    pub name: String,
    /// The commit at which it stands.
    pub seq: SeqNo,
    /// The tables that it covers.
    pub tables: Vec<String>,
    /// Whether it was taken of one table rather than of the keyspace.
    pub single_table: bool,
    /// When it was created, by the clock of the machine.
    pub created: SystemTime,
}

impl Keyspace {
    pub(crate) fn new(db: Arc<DbInner>, name: &str) -> Self {
        Self {
            db,
            name: name.into(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The table of this name; created with `options` when absent.
    ///
    /// # Errors
    /// [`InvalidRequest`](crate::Error::InvalidRequest), naming both, when it was
    /// created with other options.
    pub fn table(&self, name: &str, options: TableOptions) -> Result<Table> {
        self.db
            .open_or_create_table(&self.name, name, options)
            .map(|core| Table::new(self.db.clone(), core))
    }

    /// The table of this name.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none.
    pub fn existing_table(&self, name: &str) -> Result<Table> {
        self.db
            .find_table(&self.name, name)
            .map(|core| Table::new(self.db.clone(), core))
    }

    /// Drops a table, for good: its name is free at once and its space comes
    /// back when the last snapshot that covers it is deleted. Writes through
    /// handles on it are refused from now on; who reads it (by a handle, a view,
    /// a snapshot) may go on. Waits for an fsync.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// let app = db.keyspace("app")?;
    /// let users = app.table("users", Default::default())?;
    /// users.put(b"ada", b"1815")?;
    /// app.create_snapshot("before")?;
    /// app.drop_table("users")?;
    /// assert!(users.put(b"ada", b"1852").is_err());
    /// assert!(app.existing_table("users").is_err());
    /// assert_eq!(app.snapshot("before")?.table("users")?.get(b"ada")?.unwrap(), "1815");
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none of this name.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.db.drop_table(&self.name, name)
    }

    /// The names of its tables, ascending.
    pub fn tables(&self) -> Vec<String> {
        let catalog = self.db.catalog();
        catalog
            .tables_of(&self.name)
            .into_iter()
            .map(|table| table.name.clone())
            .collect()
    }

    /// Creates a snapshot of every table, all at one instant. This costs as
    /// much as a small write; nothing is flushed or copied. The snapshot stays
    /// until it is deleted, over restarts.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::Error::AlreadyExists) for a name in use.
    pub fn create_snapshot(&self, name: &str) -> Result<()> {
        self.db.create_snapshot(&self.name, name, None)
    }

    /// Creates a snapshot of one table.
    ///
    /// # Errors
    /// As [`Keyspace::create_snapshot`];
    /// [`NotFound`](crate::Error::NotFound) for a table that does not exist.
    pub fn create_table_snapshot(&self, name: &str, table: &str) -> Result<()> {
        self.db.create_snapshot(&self.name, name, Some(table))
    }

    /// Opens a snapshot for reading. What is open stays readable, even when the
    /// snapshot is deleted meanwhile.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none of this name.
    pub fn snapshot(&self, name: &str) -> Result<Snapshot> {
        Snapshot::open(self.db.clone(), &self.name, name)
    }

    /// The snapshots, oldest first; instant, however many.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        let info = |bookmark: crate::retention::Bookmark| SnapshotInfo {
            name: bookmark.record.name,
            seq: bookmark.seq,
            tables: bookmark
                .record
                .tables
                .into_iter()
                .map(|(name, _)| name)
                .collect(),
            single_table: bookmark.record.single_table,
            created: UNIX_EPOCH + Duration::from_millis(bookmark.record.created_ms),
        };
        self.db
            .snapshots_of(&self.name)
            .into_iter()
            .map(info)
            .collect()
    }

    /// Deletes a snapshot; its space comes back by compaction.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none of this name.
    pub fn delete_snapshot(&self, name: &str) -> Result<()> {
        self.db.delete_snapshot(&self.name, name)
    }
}
