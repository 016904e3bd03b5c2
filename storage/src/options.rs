//! How a database and its tables are set up.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, SystemClock};
use crate::compaction::{CompactionPicker, TablePickers, TieredPicker};
use crate::disk::{Disk, LocalDisk};
use crate::read::MergeOperators;
use crate::sstable::SsTableOptions;
use crate::table_store::{LocalTables, TableStore};

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After an fsync, shared by all who wait for one: survives a crash of the
    /// machine.
    Sync,
    /// When the operating system has it; an fsync follows within this time. A
    /// crash of the process loses nothing, a crash of the machine at most what
    /// was acknowledged since.
    Interval(Duration),
    /// When the operating system has it; the operating system decides when it
    /// reaches the disk.
    Os,
}

impl Default for Durability {
    fn default() -> Self {
        Self::Interval(Duration::from_millis(100))
    }
}

/// Who flushes and compacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Maintenance {
    /// Threads of the database, as soon as there is work.
    #[default]
    Background,
    /// The caller, by [`Db::flush`](crate::Db::flush) and
    /// [`Db::compact`](crate::Db::compact); a write that fills a memtable
    /// flushes it before it returns. For simulations, and for hosts that
    /// have their own threads.
    Manual,
}

/// Options of a database.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether opening a directory without a database makes one. Default: true.
    pub create_if_missing: bool,
    /// When a write is acknowledged; can be raised per write.
    pub durability: Durability,
    /// A memtable of this many bytes is flushed. Default: 64 MiB.
    pub memtable_bytes: usize,
    /// Full memtables of one table that may wait for their flush before writers
    /// wait too. Default: 3.
    pub frozen_memtables_max: usize,
    /// A WAL segment of this many bytes is closed; at most half of
    /// `wal_bytes_max` counts, because only closed segments can go. Default:
    /// 32 MiB.
    pub wal_segment_bytes: u64,
    /// When the WAL is larger, the memtable that holds on to its oldest segment
    /// is flushed, however small. Default: 512 MiB.
    pub wal_bytes_max: u64,
    /// Blocks kept in memory, uncompressed, over all tables. Default: 256 MiB.
    pub cache_bytes: u64,
    /// Runs are cut into files of about this many bytes. Default: 64 MiB.
    pub file_bytes: u64,
    /// When nobody has written and hardly anybody read for so long, memtables are
    /// flushed, so that the log can go, and runs are merged until little of them is
    /// garbage; `None`: never.
    /// Only with `Maintenance::Background`. Default: 2 s.
    pub idle_after: Option<Duration>,
    /// How runs are merged.
    pub compaction: CompactionOptions,
    /// Who flushes and compacts.
    pub maintenance: Maintenance,
    /// The disk with the directory: log and manifest lie there, and tables unless
    /// `table_store` says else. Default: the one of this machine.
    pub disk: Arc<dyn Disk>,
    /// Where the tables lie; `None`, the default, is the database's directory, on
    /// `disk`. Log and manifest are there always. A store is of one database only.
    pub table_store: Option<Arc<dyn TableStore>>,
    /// Tells the time to what expires. Default: the clock of the machine.
    pub clock: Arc<dyn Clock>,
    /// The merge operators that tables may name. Default: the built-in ones.
    pub merge_operators: MergeOperators,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            create_if_missing: true,
            durability: Durability::default(),
            memtable_bytes: 64 << 20,
            frozen_memtables_max: 3,
            wal_segment_bytes: 32 << 20,
            wal_bytes_max: 512 << 20,
            cache_bytes: 256 << 20,
            file_bytes: 64 << 20,
            idle_after: Some(Duration::from_secs(2)),
            compaction: CompactionOptions::default(),
            maintenance: Maintenance::default(),
            disk: Arc::new(LocalDisk),
            table_store: None,
            clock: Arc::new(SystemClock),
            merge_operators: MergeOperators::default(),
        }
    }
}

impl Options {
    /// Where the tables of the database in `dir` lie.
    pub(crate) fn tables(&self, dir: &Path) -> Arc<dyn TableStore> {
        match &self.table_store {
            Some(store) => store.clone(),
            None => Arc::new(LocalTables::new(self.disk.clone(), dir)),
        }
    }
}

/// How runs are merged.
///
/// ```
/// use ebb_storage::{Bounding, CompactionOptions, TieredPicker};
///
/// let bounding = Bounding::Strict;
/// let options = CompactionOptions {
///     threads: 1,
///     ..TieredPicker { bounding, ..TieredPicker::default() }.into()
/// };
/// # assert_eq!(options.threads, 1);
/// ```
#[derive(Debug, Clone)]
pub struct CompactionOptions {
    /// Decides what is merged in tables without a picker of their own. Default:
    /// [`TieredPicker`].
    pub picker: Arc<dyn CompactionPicker>,
    /// The tables with one. Default: none.
    pub table_pickers: TablePickers,
    /// Merges that may go on at once, each in a thread of its own; at least 1. A
    /// second one does not let new runs pile up behind a long merge. Default: 2.
    pub threads: usize,
    /// Bytes of keys and values, before compression, that all merges together may
    /// take in per second; a merge reads and writes about as much. Does not count
    /// while writers are slowed for what is behind. `None`, the default: as fast
    /// as they can.
    pub bytes_per_sec: Option<u64>,
}

impl CompactionOptions {
    /// The picker of a table.
    pub(crate) fn picker_of(&self, keyspace: &str, name: &str) -> &dyn CompactionPicker {
        let own = self.table_pickers.get(keyspace, name);
        &**own.unwrap_or(&self.picker)
    }
}

impl Default for CompactionOptions {
    fn default() -> Self {
        TieredPicker::default().into()
    }
}

impl From<TieredPicker> for CompactionOptions {
    fn from(picker: TieredPicker) -> Self {
        Self {
            picker: Arc::new(picker),
            table_pickers: TablePickers::default(),
            threads: 2,
            bytes_per_sec: None,
        }
    }
}

/// Options of a table, stored with it when it is created.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableOptions {
    /// The form of its files.
    pub sstable: SsTableOptions,
    /// The name of the operator that [`Table::merge`](crate::Table::merge)
    /// applies; none by default.
    pub merge_operator: Option<String>,
}

/// Options of a named snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapshotOptions {
    /// Only this table of the keyspace; all without.
    pub table: Option<String>,
    /// It is deleted so long after its creation, unless renewed by
    /// [`Keyspace::set_snapshot_expiry`](crate::Keyspace::set_snapshot_expiry);
    /// never without.
    pub expires_in: Option<Duration>,
}

/// Options of one write.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteOptions {
    /// Waits for an fsync even where the database's durability would not.
    pub sync: bool,
}
