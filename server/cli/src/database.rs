//! The database of a command: its directory, and how it is opened. Tables in it are looked up by
//! `ebb_tables::lookup`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::builder::BoolishValueParser;
use ebb_storage::{Db, Disk, LocalDisk, Maintenance, Options, Table};
pub(super) use ebb_tables::lookup::{
    keyspace, or_known, snapshot_table, table, unknown_snapshot, unknown_table,
};
use ebb_tables::{database_options, is_cql_table};
use indicatif::HumanBytes;

use super::error::CliError;
use super::lock_holder::with_holder;
use super::names::TableName;
use super::print::counted;

/// The options for the directory of the database.
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
    /// Give new files the mode 0640, and new directories 0750, as `ebb serve --group-readable`.
    #[arg(long, env = "EBB_GROUP_READABLE")]
    #[arg(hide_env_values = true, hide_short_help = true)]
    #[arg(value_parser = BoolishValueParser::new())]
    pub(super) group_readable: bool,
}

/// Returns the disk through which a database opens its files. With `group_readable`, new files get the mode
/// 0640 and new directories 0750, otherwise 0600 and 0700.
pub(super) fn disk(group_readable: bool) -> Arc<dyn Disk> {
    Arc::new(if group_readable {
        LocalDisk::group_readable()
    } else {
        LocalDisk::default()
    })
}

impl Location {
    /// Returns the options with which a command opens the database: the defaults, with the merge operators
    /// of CQL tables, and the [`disk`] that `--group-readable` selects.
    pub(super) fn options(&self) -> Options {
        Options {
            disk: disk(self.group_readable),
            ..database_options()
        }
    }

    /// Opens the database for a command that only reads. Several such commands can run at once, and none
    /// writes a byte.
    ///
    /// # Errors
    /// When there is no database, or another process has it open for writing.
    pub(super) fn open_to_read(&self) -> Result<Db> {
        let opened = Db::open_read_only(&self.data, self.options());
        opened.map_err(|error| with_holder(error.into(), &self.data))
    }

    /// Opens the database for a short command that writes, without flushes and merges in the background: the
    /// write of one row should not start a rewrite of the database.
    ///
    /// # Errors
    /// When there is no database (none is created), or another process has it open.
    pub(super) fn open_existing(&self) -> Result<Db> {
        self.open(false, Maintenance::Manual)
    }

    /// Opens the database, with flushes and merges in the background, for a command that works for a while.
    /// Returns `None` if there is no database.
    pub(super) fn open_if_there(&self) -> Result<Option<Db>> {
        match self.open(false, Maintenance::Background) {
            Ok(db) => Ok(Some(db)),
            Err(error) => match error.downcast_ref() {
                Some(ebb_storage::Error::NoDatabase { .. }) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Opens the database, with flushes and merges in the background, and creates it if there is none.
    pub(super) fn open_or_create(&self) -> Result<Db> {
        self.open(true, Maintenance::Background)
    }

    fn open(&self, create_if_missing: bool, maintenance: Maintenance) -> Result<Db> {
        let options = Options {
            create_if_missing,
            maintenance,
            ..self.options()
        };
        let opened = Db::open(&self.data, options);
        opened.map_err(|error| with_holder(error.into(), &self.data))
    }
}

/// Returns a table for a command that writes plain keys and values.
///
/// # Errors
/// When there is no such table, or it was created by CQL.
pub(super) fn raw_table(db: &Db, name: &TableName) -> Result<Table> {
    let table = table(db, name)?;
    refuse_cql(&table)?;
    Ok(table)
}

/// Checks that CQL did not create the table: a plain key would be a damaged row for CQL.
///
/// # Errors
/// When CQL created it.
pub(super) fn refuse_cql(table: &Table) -> Result<(), CliError> {
    if !is_cql_table(table) {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "table {}.{} was made by CQL, and is written to by CQL only",
        table.keyspace(),
        table.name()
    )))
}

/// The approximate size of tables, which is printed before they are dropped. It contains all versions of a
/// row, also those that merges have yet to remove.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TableSize {
    versions: u64,
    bytes: u64,
}

impl TableSize {
    /// Returns the size of a table, or of all tables of a keyspace if `table` is `None`.
    pub(super) fn of(db: &Db, keyspace: &str, table: Option<&str>) -> Self {
        let mut size = Self::default();
        for stats in db.stats().tables {
            let is_it = stats.keyspace == keyspace && table.is_none_or(|table| stats.name == table);
            if is_it && !stats.dropped {
                size.versions += stats.versions;
                size.bytes += stats.file_bytes + stats.memtable_bytes;
            }
        }
        size
    }
}

impl fmt::Display for TableSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (versions, bytes) = (counted(self.versions, "version"), HumanBytes(self.bytes));
        write!(f, "{versions} ({bytes})")
    }
}
