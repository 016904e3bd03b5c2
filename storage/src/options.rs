//! The options of a database and of its tables.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, SystemClock};
use crate::compaction::{CompactionPicker, TieredPicker};
use crate::disk::{Disk, DiskCalls, LocalDisk, PatientDisk, WatchedDisk};
use crate::read::MergeOperators;
use crate::sstable::{BlockCache, SsTableOptions};
use crate::table_store::{LocalTables, OpenFiles, TableStore};

/// The moment at which a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After an fsync. Commits that wait at the same time share one fsync. The write survives a
    /// crash of the machine.
    Sync,
    /// As soon as the operating system has the write. A thread of the database syncs the log, waits
    /// for this time, and so on. A crash of the process loses nothing. A crash of the machine loses
    /// at most the writes that were acknowledged after the last complete fsync began. With
    /// [`Maintenance::Manual`] there is no such thread: the log is synced by
    /// [`Db::sync`](crate::Db::sync), by flushes and merges, and by writes with
    /// [`WriteOptions::sync`].
    Interval(Duration),
    /// As soon as the operating system has the write; the operating system decides when the write
    /// reaches the disk.
    Os,
}

impl Default for Durability {
    fn default() -> Self {
        Self::Interval(Duration::from_millis(100))
    }
}

/// The threads that flush and compact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Maintenance {
    /// Threads of the database flush and compact as soon as there is work.
    #[default]
    Background,
    /// Threads of the caller, which calls [`Db::flush`](crate::Db::flush) and
    /// [`Db::compact`](crate::Db::compact). If a write fills a memtable or the log, the writing
    /// thread flushes memtables and does all merges that are worth it before the write returns. For
    /// simulations, and for hosts that have their own threads.
    Manual,
}

/// Options of a database.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether a new database is created if the directory has none. Default: true.
    pub create_if_missing: bool,
    /// The moment at which a write is acknowledged; a single write can require more durability, by
    /// `WriteOptions::sync`. Default: [`Durability::Interval`] with 100 ms.
    pub durability: Durability,
    /// The size in bytes at which a memtable is flushed. Default: 64 MiB.
    pub memtable_bytes: usize,
    /// One budget, in bytes, for memtables, for the cache of data blocks, indexes and filters, and
    /// for the memory of open SSTables outside of that cache. Memtables get a quarter of the
    /// budget, or `memtables_bytes` if that is set. The cache gets what memtables and open SSTables
    /// leave, and at least an eighth of what memtables leave. Open SSTables need some KiB for each
    /// file of 64 MiB ([`Stats::open_table_bytes`](crate::Stats::open_table_bytes)). The memory
    /// that flushes, merges and readers use while they run comes on top. If this budget is set,
    /// `cache_bytes` has no effect. `None`, the default: memtables and cache have bounds of their
    /// own.
    pub memory_bytes: Option<u64>,
    /// The most bytes that all memtables together take, apart from writes under way; values below 1
    /// MiB count as 1 MiB. Once the open memtables have half of this size, the largest are flushed.
    /// Writers of all tables are slowed from three quarters of this size on, and wait at the bound.
    /// Flushed memtables that readers still hold are not included, and while a database is opened
    /// its memtables may take more, as much as the replayed log needs. `None`, the default: as much
    /// as one table may have, which is `memtable_bytes` times `frozen_memtables_max` + 1, and at
    /// least 64 MiB.
    pub memtables_bytes: Option<usize>,
    /// The number of full memtables of one table that may wait for their flush before writers wait
    /// too. Default: 3.
    pub frozen_memtables_max: usize,
    /// The number of memtables of different tables that may be flushed at once, each by a thread of
    /// its own; at least 1. Only with `Maintenance::Background`. Default: 2.
    pub flush_threads: usize,
    /// The size in bytes at which a WAL segment is closed. Values above an eighth of
    /// `wal_bytes_max` count as that eighth, because only closed segments can be removed. Default:
    /// 32 MiB.
    pub wal_segment_bytes: u64,
    /// The largest size of the WAL in bytes, apart from records under way and segments that a backup
    /// keeps because it cannot link them. From three quarters of this size on, the memtables that need
    /// the oldest segment are flushed, however small. Writers are slowed from seven eighths of this size on,
    /// and wait at the bound. Default: 512 MiB.
    pub wal_bytes_max: u64,
    /// The low-water mark: the number of bytes that writes and merges leave free on the disk of the
    /// directory. The mark is never below twice the size of the manifest and its copy. Writes that
    /// would leave less are refused with [`Error::LowSpace`](crate::Error::LowSpace); operations
    /// that free space still work. Backups and verifications leave twice the mark. 0: there is no
    /// mark, and writes are accepted until the disk is full. Default: 64 MiB.
    pub low_water_bytes: u64,
    /// The size in bytes of the cache, which keeps uncompressed data blocks and partitions of
    /// indexes and filters of all tables; 0 for no cache. Without effect if `memory_bytes` is set.
    /// Default: 256 MiB.
    pub cache_bytes: u64,
    /// The approximate size in bytes of the files of a run: a larger run is cut into several files.
    /// Default: 64 MiB.
    pub file_bytes: u64,
    /// The greatest number of SSTables that are open at once, apart from files that a reader holds
    /// for a moment. SSTables that were not read for a while are closed, and opened again when they
    /// are read. `None`, the default: half of the files that the process may open.
    pub max_open_files: Option<usize>,
    /// The time without writes, and with at most 100 point reads, after which the database counts
    /// as idle. An idle database flushes its memtables, so that older segments of the log can be
    /// removed, and merges runs until little of their data is garbage. `None`: the database never
    /// counts as idle. Only with `Maintenance::Background`. Default: 2 s.
    pub idle_after: Option<Duration>,
    /// The options of compaction: the merge policy for runs, and the threads that merge.
    pub compaction: CompactionOptions,
    /// The threads that flush and compact.
    pub maintenance: Maintenance,
    /// The disk with the database's directory, which holds the log, the manifest and, unless
    /// `table_store` is set, the tables. Default: the disk of this machine.
    pub disk: Arc<dyn Disk>,
    /// The storage of the tables; `None`, the default, is the database's directory, on `disk`. Log
    /// and manifest are always in the directory. A table store must not be shared by several
    /// databases.
    pub table_store: Option<Arc<dyn TableStore>>,
    /// The clock by which entries and snapshots expire, and files are checked. Its
    /// [`Clock::elapsed_ms`] decides when merges try again to read a run that could not be read.
    /// Default: the clock of the machine.
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
            memory_bytes: None,
            memtables_bytes: None,
            frozen_memtables_max: 3,
            flush_threads: 2,
            wal_segment_bytes: 32 << 20,
            wal_bytes_max: 512 << 20,
            low_water_bytes: 64 << 20,
            cache_bytes: 256 << 20,
            file_bytes: 64 << 20,
            max_open_files: None,
            idle_after: Some(Duration::from_secs(2)),
            compaction: CompactionOptions::default(),
            maintenance: Maintenance::default(),
            disk: Arc::new(LocalDisk::default()),
            table_store: None,
            clock: Arc::new(SystemClock),
            merge_operators: MergeOperators::default(),
        }
    }
}

impl Options {
    /// Returns three things: these options with a wrapped disk, which records its calls and waits
    /// for free file descriptors; the wrapper once more as its own type, because it also has the
    /// cache of open tables; and the record of the calls.
    pub(crate) fn for_engine(self) -> (Self, PatientDisk, Arc<DiskCalls>) {
        let calls = DiskCalls::new();
        let watched = Arc::new(WatchedDisk::new(self.disk.clone(), calls.clone()));
        let patient = PatientDisk::new(watched, OpenFiles::new(self.max_open_files));
        let disk = Arc::new(patient.clone());
        (Self { disk, ..self }, patient, calls)
    }

    pub(crate) fn memtables_bytes(&self) -> usize {
        const AT_LEAST: usize = 1 << 20;
        const BY_DEFAULT_AT_LEAST: usize = 64 << 20;
        let of_one_table = self
            .memtable_bytes
            .saturating_mul(self.frozen_memtables_max.saturating_add(1));
        let of_all = self.memory_bytes.map(|all| (all / 4) as usize);
        let given = self.memtables_bytes.or(of_all);
        let given = given.map(|bytes| bytes.max(AT_LEAST));
        given.unwrap_or(of_one_table.max(BY_DEFAULT_AT_LEAST))
    }

    /// Returns the most bytes of the memory of dropped memtables that are kept for the next
    /// memtables, instead of being freed.
    pub(crate) fn spare_memtable_bytes(&self) -> usize {
        self.memtable_bytes.min(self.memtables_bytes() / 4)
    }

    /// Returns a new block cache of the size that these options set.
    pub(crate) fn block_cache(&self) -> BlockCache {
        match self.memory_bytes {
            Some(all) => {
                BlockCache::beside_tables(all.saturating_sub(self.memtables_bytes() as u64))
            }
            None => BlockCache::new(self.cache_bytes),
        }
    }

    /// Returns the length of the log, in bytes, above which memtables are flushed to shorten the
    /// log.
    pub(crate) fn wal_flush_bytes(&self) -> u64 {
        self.wal_bytes_max / 4 * 3
    }

    pub(crate) fn tables(&self, dir: &Path) -> Arc<dyn TableStore> {
        match &self.table_store {
            Some(store) => store.clone(),
            None => Arc::new(LocalTables::new(self.disk.clone(), dir)),
        }
    }
}

/// Options of compaction: the merge policy for runs, and the threads that merge.
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
    /// The policy that picks merges. Default: [`TieredPicker`].
    pub picker: Arc<dyn CompactionPicker>,
    /// The number of merges that may run at once, each in a thread of its own; at least 1. If there
    /// are several threads, one of them is for short merges alone, so that new runs do not pile up
    /// behind long ones. Default: 2.
    pub threads: usize,
    /// The least number of bytes that a merge must read to count as long, at least 1. If there are
    /// several threads, one of them is for shorter merges alone. Default: 256 MiB, a few seconds.
    pub long_merge_bytes: u64,
    /// The approximate size in bytes of the parts of a merge: a merge that writes more bytes than
    /// this is done in several parts. A part is durable once it is done: the merge needs free space
    /// for about two parts, and a restart repeats at most one. Default: 256 MiB.
    pub part_bytes: u64,
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
            threads: 2,
            long_merge_bytes: 256 << 20,
            part_bytes: 256 << 20,
        }
    }
}

/// Options of a table, stored with it when it is created.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableOptions {
    /// The format options of the table's files.
    pub sstable: SsTableOptions,
    /// The name of the operator that [`Table::merge`](crate::Table::merge) applies. `None`, the
    /// default: the table has no operator, and refuses merges.
    pub merge_operator: Option<String>,
}

/// Options of a named snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapshotOptions {
    /// The only table that the snapshot covers; `None`: all tables of the keyspace.
    pub table: Option<String>,
    /// The time from the creation of the snapshot to its deletion, unless the expiry is changed by
    /// [`Keyspace::set_snapshot_expiry`](crate::Keyspace::set_snapshot_expiry); `None`: the
    /// snapshot does not expire. A time after the year 9999 counts as the end of that year.
    pub expires_in: Option<Duration>,
}

/// Options of a hold, which keeps what a snapshot shows of a table readable after the snapshot is
/// deleted: see [`Keyspace::hold_snapshot`](crate::Keyspace::hold_snapshot).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldOptions {
    /// The name of the hold, of the same characters as the name of a snapshot. Holds and snapshots
    /// have separate names, so a hold may have the name of a snapshot.
    pub name: String,
    /// The table whose versions the hold keeps.
    pub table: String,
    /// A note, in any form: who keeps the hold, and for what purpose.
    pub held_for: String,
    /// The time from the creation of the hold to its release, unless the hold is released earlier;
    /// `None`: the hold does not expire. A time after the year 9999 counts as the end of that year.
    pub expires_in: Option<Duration>,
}

/// Options of one write, or of the commit of one transaction.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteOptions {
    /// Whether the write waits for an fsync even if the database's durability does not require one.
    pub sync: bool,
}
