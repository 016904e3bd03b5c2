//! Opening a database and finding things in it, with errors that tell what there
//! is instead.

use std::fmt;
use std::iter::Sum;
use std::path::PathBuf;

use anyhow::Result;
use ebb_storage::{
    Db, ErrorKind, Keyspace, Maintenance, Options, Snapshot, SnapshotTable, Table, TableStats,
};
use indicatif::HumanBytes;

use super::error::CliError;
use super::names::TableName;
use super::print::counted;

/// Where the database is.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Location {
    /// Directory of the database.
    #[arg(
        long,
        value_name = "DIR",
        env = "EBB_DATA",
        hide_env_values = true,
        default_value = "./ebb-data"
    )]
    pub(super) data: PathBuf,
}

impl Location {
    /// Opens the database for a short command. It flushes and merges nothing
    /// beside: a look at a database should not start to rewrite it.
    ///
    /// # Errors
    /// When there is none: none is made.
    pub(super) fn open_existing(&self) -> Result<Db> {
        self.open(false, Maintenance::Manual)
    }

    /// Opens the database for a command that works for a while.
    ///
    /// # Errors
    /// When there is none: none is made.
    pub(super) fn open_with_maintenance(&self) -> Result<Db> {
        self.open(false, Maintenance::Background)
    }

    /// Opens the database, if there is one.
    pub(super) fn open_if_there(&self) -> Result<Option<Db>> {
        match self.open_with_maintenance() {
            Ok(db) => Ok(Some(db)),
            Err(error) => match error.downcast_ref() {
                Some(ebb_storage::Error::NoDatabase { .. }) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Opens the database, or makes one.
    pub(super) fn open_or_create(&self) -> Result<Db> {
        self.open(true, Maintenance::Background)
    }

    fn open(&self, create_if_missing: bool, maintenance: Maintenance) -> Result<Db> {
        let options = Options {
            create_if_missing,
            maintenance,
            ..Options::default()
        };
        Ok(Db::open(&self.data, options)?)
    }
}

/// The keyspace of this name.
pub(super) fn keyspace(db: &Db, name: &str) -> Result<Keyspace> {
    or_known(db.existing_keyspace(name), || CliError::Unknown {
        what: "keyspace",
        name: name.to_string(),
        place: "the database".to_string(),
        known: db.keyspaces(),
    })
}

/// The table of this name, as it is now.
pub(super) fn table(db: &Db, name: &TableName) -> Result<Table> {
    let keyspace = keyspace(db, &name.keyspace)?;
    or_known(keyspace.existing_table(&name.table), || {
        unknown_table(&keyspace, &name.table)
    })
}

/// About how much a table has in it, to tell before it goes. Versions count, and those of
/// a row are several until they are merged.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TableSize {
    versions: u64,
    bytes: u64,
}

impl TableSize {
    pub(super) fn of(db: &Db, name: &TableName) -> Self {
        let stats = db.stats();
        let is_it = |table: &&TableStats| {
            !table.dropped && table.keyspace == name.keyspace && table.name == name.table
        };
        let table = stats.tables.iter().find(is_it);
        table.map_or(Self::default(), |table| Self {
            versions: table.versions,
            bytes: table.file_bytes + table.memtable_bytes,
        })
    }
}

impl Sum for TableSize {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |sum, size| Self {
            versions: sum.versions + size.versions,
            bytes: sum.bytes + size.bytes,
        })
    }
}

impl fmt::Display for TableSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (versions, bytes) = (counted(self.versions, "version"), HumanBytes(self.bytes));
        write!(f, "{versions} ({bytes})")
    }
}

/// That a keyspace has no such table.
pub(super) fn unknown_table(keyspace: &Keyspace, table: &str) -> CliError {
    CliError::Unknown {
        what: "table",
        name: table.to_string(),
        place: format!("keyspace {}", keyspace.name()),
        known: keyspace.tables(),
    }
}

/// That a keyspace has no such snapshot.
pub(super) fn unknown_snapshot(keyspace: &Keyspace, snapshot: &str) -> CliError {
    let known = keyspace.snapshots().into_iter().map(|info| info.name);
    CliError::Unknown {
        what: "snapshot",
        name: snapshot.to_string(),
        place: format!("keyspace {}", keyspace.name()),
        known: known.collect(),
    }
}

/// The table of this name, as it was when a snapshot was created.
pub(super) fn snapshot_table(db: &Db, name: &TableName, snapshot: &str) -> Result<SnapshotTable> {
    let keyspace = keyspace(db, &name.keyspace)?;
    let snapshot: Snapshot = or_known(keyspace.snapshot(snapshot), || {
        unknown_snapshot(&keyspace, snapshot)
    })?;
    or_known(snapshot.table(&name.table), || CliError::Unknown {
        what: "table",
        name: name.table.clone(),
        place: format!("snapshot {} of {}", snapshot.name(), keyspace.name()),
        known: snapshot.tables().map(str::to_string).collect(),
    })
}

/// `unknown` in the place of an error that says that the thing is not there.
pub(super) fn or_known<T>(
    result: ebb_storage::Result<T>,
    unknown: impl FnOnce() -> CliError,
) -> Result<T> {
    result.map_err(|error| match error.kind() {
        ErrorKind::NotFound => unknown().into(),
        _ => error.into(),
    })
}
