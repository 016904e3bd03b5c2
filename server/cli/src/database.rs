//! Opening a database; what is in it is found by `ebb_server::lookup`.

use std::fmt;
use std::iter::Sum;
use std::path::PathBuf;

use anyhow::Result;
pub(super) use ebb_server::lookup::{
    keyspace, or_known, snapshot_table, table, unknown_snapshot, unknown_table,
};
use ebb_storage::{Db, Maintenance, Options, TableStats};
use indicatif::HumanBytes;

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
