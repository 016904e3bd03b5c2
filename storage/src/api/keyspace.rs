//! A keyspace: tables that are snapshotted together.

use std::sync::Arc;
use std::time::Duration;

use crate::api::snapshot_info::scope_of;
use crate::api::{Snapshot, SnapshotInfo, SnapshotScope, Table};
use crate::db::{DbInner, hold_name};
use crate::error::Result;
use crate::key::SeqNo;
use crate::options::{HoldOptions, SnapshotOptions, TableOptions};
use crate::sstable::SsTableOptions;

/// A keyspace of an open database. Clones are cheap.
#[derive(Debug, Clone)]
pub struct Keyspace {
    db: Arc<DbInner>,
    name: Arc<str>,
}

impl Keyspace {
    pub(crate) fn new(db: Arc<DbInner>, name: &str) -> Self {
        Self {
            db,
            name: name.into(),
        }
    }

    /// Returns the name, unique in the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the table of this name; creates it with `options` if it is absent.
    ///
    /// # Errors
    /// [`InvalidRequest`](crate::Error::InvalidRequest) if the table exists with other options; the
    /// message has the existing options and the given ones.
    pub fn table(&self, name: &str, options: TableOptions) -> Result<Table> {
        self.db
            .open_or_create_table(&self.name, name, options)
            .map(|core| Table::new(self.db.clone(), core))
    }

    /// Creates the table of this name. If several threads create it at once, one of them gets the
    /// table, and the others get an error. Waits for an fsync.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// use ebb_storage::{ErrorKind, TableOptions};
    ///
    /// let app = db.keyspace("app")?;
    /// let first = app.create_table("users", TableOptions::default())?;
    /// let refused = app.create_table("users", TableOptions::default()).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    /// app.drop_table("users")?;
    /// let second = app.create_table("users", TableOptions::default())?;
    /// assert!(!second.is_same_table(&first));
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::Error::AlreadyExists) for a name in use;
    /// [`InvalidRequest`](crate::Error::InvalidRequest) for an invalid name or option;
    /// [`NotFound`](crate::Error::NotFound) if the keyspace was dropped.
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        self.db
            .create_table(&self.name, name, options)
            .map(|core| Table::new(self.db.clone(), core))
    }

    /// Returns the table of this name.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none.
    pub fn existing_table(&self, name: &str) -> Result<Table> {
        self.db
            .find_table(&self.name, name)
            .map(|core| Table::new(self.db.clone(), core))
    }

    /// Changes the SSTable options of a table. Files that are written from now on get the new options,
    /// and older files get them when they are merged. Waits for an fsync.
    ///
    /// ```
    /// # use ebb_storage::{Compression, SsTableOptions};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// let app = db.keyspace("app")?;
    /// let users = app.table("users", Default::default())?;
    /// let smaller = SsTableOptions {
    ///     bottom_compression: Some(Compression::Zstd),
    ///     ..users.options().sstable.clone()
    /// };
    /// app.alter_table("users", smaller)?;
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is no such table,
    /// [`InvalidRequest`](crate::Error::InvalidRequest) when an option is out of its range, or the
    /// filter prefix is not that of the table.
    pub fn alter_table(&self, name: &str, sstable: SsTableOptions) -> Result<()> {
        self.db.alter_table(&self.name, name, sstable)
    }

    /// Drops a table permanently. Its name is free at once, and its space is freed once no snapshot
    /// covers it and no handle on it is left. Writes through handles on the table fail from now on;
    /// reads through handles, views and snapshots go on. Waits for an fsync.
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

    /// Returns the names of the tables, ascending.
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
    /// [`AlreadyExists`](crate::Error::AlreadyExists) for a name in use;
    /// [`InvalidRequest`](crate::Error::InvalidRequest) for an invalid name; errors of the write.
    pub fn create_snapshot(&self, name: &str) -> Result<()> {
        let created = self.create_snapshot_with(name, SnapshotOptions::default());
        created.map(drop)
    }

    /// Creates a snapshot as [`Keyspace::create_snapshot`] does, with options. Returns the commit
    /// whose state the snapshot shows. A program that may crash before it deletes a snapshot can let
    /// the snapshot expire.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # let app = db.keyspace("app")?;
    /// use std::time::Duration;
    ///
    /// let options = ebb_storage::SnapshotOptions {
    ///     expires_in: Some(Duration::from_secs(3600)),
    ///     ..Default::default()
    /// };
    /// app.create_snapshot_with("job-7", options)?;
    /// assert!(app.snapshots()[0].expires.is_some());
    /// // While the job lives:
    /// app.set_snapshot_expiry("job-7", Some(Duration::from_secs(3600)))?;
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::create_snapshot`];
    /// [`NotFound`](crate::Error::NotFound) for a table that does not exist.
    pub fn create_snapshot_with(&self, name: &str, options: SnapshotOptions) -> Result<SeqNo> {
        self.db.create_snapshot(&self.name, name, &options)
    }

    /// Sets the time until a snapshot expires, counted from now; `None` for never. The change is as
    /// durable as the creation of a snapshot.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none of this name, or
    /// it has expired already.
    pub fn set_snapshot_expiry(&self, name: &str, expires_in: Option<Duration>) -> Result<()> {
        self.db.set_snapshot_expiry(&self.name, name, expires_in)
    }

    /// Opens a snapshot for reading. An open snapshot stays readable, even if it is deleted
    /// meanwhile.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none of this name, or
    /// it has expired.
    pub fn snapshot(&self, name: &str) -> Result<Snapshot> {
        Snapshot::open(self.db.clone(), &self.name, name)
    }

    /// Holds the state of one table in a snapshot: the state stays readable after the snapshot is
    /// deleted. Replaces a hold of the same name. [`Keyspace::snapshots`] lists no holds.
    ///
    /// A hold is released when it expires, when its table is dropped, when the free space comes
    /// near to [`Options::low_water_bytes`](crate::Options::low_water_bytes), and before
    /// [`Db::rewrite_damaged`](crate::Db::rewrite_damaged) replaces damaged files of its table. So the
    /// owner of a hold must be able to go on without it. Until its release, the hold shows the state
    /// that the snapshot showed when the hold was made. `snapshot` may also be the name of a hold, as
    /// in [`Keyspace::holds`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # let app = db.keyspace("app")?;
    /// # app.table("users", Default::default())?.put(b"ada", b"1815")?;
    /// app.create_snapshot("monday")?;
    /// let hold = ebb_storage::HoldOptions {
    ///     name: "copied".into(),
    ///     table: "users".into(),
    ///     held_for: "the copy on the other disk".into(),
    ///     expires_in: None,
    /// };
    /// app.hold_snapshot("monday", &hold)?;
    /// app.delete_snapshot("monday")?;
    /// let held = app.held("copied")?.table("users")?;
    /// assert_eq!(held.get(b"ada")?.unwrap(), "1815");
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is no such snapshot, it does not cover the
    /// table, or the table was dropped; [`InvalidRequest`](crate::Error::InvalidRequest) for an invalid
    /// name of the hold, or if `snapshot` is the hold to be replaced. After an error of the disk the
    /// earlier hold of the name may be gone.
    pub fn hold_snapshot(&self, snapshot: &str, hold: &HoldOptions) -> Result<()> {
        self.db.hold_snapshot(&self.name, snapshot, hold)
    }

    /// Opens a hold (made by [`Keyspace::hold_snapshot`]) for reading, as [`Keyspace::snapshot`]
    /// opens a snapshot.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is no hold of this name, or it was released
    /// or has expired.
    pub fn held(&self, name: &str) -> Result<Snapshot> {
        Snapshot::open(self.db.clone(), &self.name, &hold_name(name))
    }

    /// Returns the holds, which [`Keyspace::hold_snapshot`] made, oldest commit first, in the form
    /// of [`Keyspace::snapshots`]. Their names begin with `hold/`; [`Keyspace::delete_snapshot`]
    /// takes these names, too.
    pub fn holds(&self) -> Vec<SnapshotInfo> {
        SnapshotInfo::list(&self.db, self.db.holds_of(&self.name))
    }

    /// Releases a hold, which [`Keyspace::hold_snapshot`] made.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is no hold of this name, or it was released
    /// or has expired already.
    pub fn release_hold(&self, name: &str) -> Result<()> {
        self.db.delete_snapshot(&self.name, &hold_name(name), None)
    }

    /// Returns the snapshots, oldest first, without reading a file. In the worst case, the cost
    /// grows with the number of these snapshots times the number of tables in the database.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        SnapshotInfo::list(&self.db, self.db.snapshots_of(&self.name))
    }

    /// Returns the entry of one snapshot in [`Keyspace::snapshots`].
    ///
    /// # Errors
    /// As [`Keyspace::snapshot`].
    pub fn snapshot_info(&self, name: &str) -> Result<SnapshotInfo> {
        let bookmark = self.db.find_snapshot(&self.name, name)?;
        Ok(SnapshotInfo::list(&self.db, vec![bookmark]).remove(0))
    }

    /// Returns the commit whose state a snapshot shows, without looking at its tables: as quick
    /// with thousands of snapshots of hundreds of tables as with one.
    ///
    /// # Errors
    /// As [`Keyspace::snapshot`].
    pub fn snapshot_seq(&self, name: &str) -> Result<SeqNo> {
        Ok(self.db.find_snapshot(&self.name, name)?.seq)
    }

    /// Returns the tables that a snapshot was taken of, as quickly as [`Keyspace::snapshot_seq`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # let app = db.keyspace("app")?;
    /// app.create_snapshot("all")?;
    /// assert_eq!(app.snapshot_scope("all")?, ebb_storage::SnapshotScope::Keyspace);
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::snapshot`].
    pub fn snapshot_scope(&self, name: &str) -> Result<SnapshotScope> {
        let found = self.db.find_snapshot(&self.name, name)?;
        Ok(scope_of(&found.record))
    }

    /// Returns the names of the snapshots of the keyspace, oldest first, without looking at their
    /// tables.
    pub fn snapshot_names(&self) -> Vec<String> {
        let bookmarks = self.db.snapshots_of(&self.name).into_iter();
        bookmarks.map(|bookmark| bookmark.record.name).collect()
    }

    /// Deletes a snapshot. Compaction frees its space.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none of this name, or
    /// it has expired already.
    pub fn delete_snapshot(&self, name: &str) -> Result<()> {
        self.db.delete_snapshot(&self.name, name, None)
    }

    /// Deletes a snapshot as [`Keyspace::delete_snapshot`], if it shows the state of the commit
    /// `seq`. A program that keeps the number that [`Keyspace::create_snapshot_with`] returned
    /// never deletes a later snapshot of the same name.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = ebb_storage::Db::open(dir.path(), Default::default())?;
    /// # let app = db.keyspace("app")?;
    /// let mine = app.create_snapshot_with("s", Default::default())?;
    /// app.delete_snapshot("s")?;
    /// app.create_snapshot("s")?;
    /// assert!(app.delete_snapshot_at("s", mine).is_err());
    /// assert_eq!(app.snapshot_names(), ["s"]);
    /// # Ok::<(), ebb_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none of this name and commit, or it has
    /// expired already.
    pub fn delete_snapshot_at(&self, name: &str, seq: SeqNo) -> Result<()> {
        self.db.delete_snapshot(&self.name, name, Some(seq))
    }
}
