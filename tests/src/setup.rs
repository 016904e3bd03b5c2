//! Set-ups of databases: drawn ones, small enough that everything happens
//! within a few operations, and the named ones of the metamorphic proof.

use std::sync::Arc;
use std::time::Duration;

use ebb_storage::vfs::MemVfs;
use ebb_storage::{
    Bounding, CompactionOptions, Compression, Durability, Maintenance, ManualClock, Options,
    SsTableOptions, TableOptions, TieredPicker,
};
use rand::RngExt;

use crate::operation::{TABLES, TableNo};
use crate::seed::Rng;
use crate::session::{INGEST_DIR, Setup};

/// Any time; clocks under proof stand still unless an operation moves them.
pub const START_MS: u64 = 1_700_000_000_000;

/// Options on a disk in memory under which the caller does all the work, so
/// that a run is the same every time.
fn manual(mem: &MemVfs, clock: &ManualClock) -> Options {
    Options {
        maintenance: Maintenance::Manual,
        vfs: Arc::new(mem.clone()),
        clock: Arc::new(clock.clone()),
        ..Options::default()
    }
}

/// Options of each table, with its merge operator.
pub fn tables(mut sstable: impl FnMut() -> SsTableOptions) -> [TableOptions; TABLES.len()] {
    let mut tables = TableNo::all().map(|table| TableOptions {
        sstable: sstable(),
        merge_operator: table.merge_operator().map(Into::into),
    });
    std::array::from_fn(|_| tables.next().expect("there are as many as there are"))
}

/// A set-up with every number drawn, for lists of some `bytes` of writes: each
/// memtable and file takes a fraction of them.
pub fn drawn(rng: &mut Rng, mem: &MemVfs, bytes: u64) -> Setup {
    let clock = ManualClock::at_ms(START_MS);
    let mut part = |of: std::ops::Range<u64>| bytes / rng.random_range(of);
    let options = Options {
        memtable_bytes: part(3..10) as usize,
        file_bytes: part(6..40),
        wal_segment_bytes: part(4..30),
        wal_bytes_max: part(1..8),
        ..manual(mem, &clock)
    };
    let options = Options {
        frozen_memtables_max: rng.random_range(1..4),
        cache_bytes: if rng.random_bool(0.3) { 0 } else { 1 << 16 },
        compaction: TieredPicker {
            size_ratio: [0.2, 1.0, 1.2, 3.0][rng.random_range(0..4)],
            bounding: [Bounding::Strict, Bounding::Preferred, Bounding::Off]
                [rng.random_range(0..3)],
            runs_before_merge: [2, 4, 8][rng.random_range(0..3)],
            space_amplification_max: [1.2, 2.0, 4.0][rng.random_range(0..3)],
        }
        .into(),
        ..options
    };
    let sstable = || SsTableOptions {
        block_bytes: 1 << rng.random_range(5..12),
        restart_interval: rng.random_range(1..17),
        filter_bits_per_key: [0, 10][rng.random_range(0..2)],
        compression: [Compression::None, Compression::Lz4][rng.random_range(0..2)],
    };
    Setup {
        options,
        clock,
        tables: tables(sstable),
        prefix: String::new(),
        ingest_dir: INGEST_DIR.into(),
    }
}

/// One way to run a list: the same reads must come out of each.
#[derive(Debug, Clone, Copy)]
pub struct Configuration {
    /// What is special about it.
    pub name: &'static str,
    change: fn(&mut Options, &mut SsTableOptions),
    /// A reopening after every so many operations.
    pub reopen_every: Option<usize>,
}

impl Configuration {
    /// The set-up on a disk.
    pub fn setup(&self, mem: &MemVfs) -> Setup {
        let clock = ManualClock::at_ms(START_MS);
        let mut options = Options {
            memtable_bytes: 8 << 10,
            file_bytes: 4 << 10,
            wal_segment_bytes: 8 << 10,
            wal_bytes_max: 64 << 10,
            cache_bytes: 256 << 10,
            durability: Durability::Os,
            ..manual(mem, &clock)
        };
        let mut sstable = SsTableOptions {
            block_bytes: 512,
            ..SsTableOptions::default()
        };
        (self.change)(&mut options, &mut sstable);
        Setup {
            options,
            clock,
            tables: tables(|| sstable.clone()),
            prefix: String::new(),
            ingest_dir: INGEST_DIR.into(),
        }
    }
}

/// The ways to run a list. Each differs from the first in one thing, the last
/// ones in many.
pub const CONFIGURATIONS: &[Configuration] = &[
    configuration("plain", |_, _| {}),
    configuration("tiny blocks", |_, s| s.block_bytes = 1),
    configuration("large blocks", |_, s| s.block_bytes = 64 << 10),
    configuration("no compression", |_, s| s.compression = Compression::None),
    configuration("tiny memtables", |o, _| o.memtable_bytes = 512),
    configuration("large memtables", |o, _| o.memtable_bytes = 4 << 20),
    configuration("no filters", |_, s| s.filter_bits_per_key = 0),
    configuration("poor filters", |_, s| s.filter_bits_per_key = 1),
    configuration("every key a restart", |_, s| s.restart_interval = 1),
    configuration("one restart to a block", |_, s| s.restart_interval = 10_000),
    configuration("no cache", |o, _| o.cache_bytes = 0),
    configuration("small cache", |o, _| o.cache_bytes = 4 << 10),
    configuration("large cache", |o, _| o.cache_bytes = 64 << 20),
    configuration("tiny files", |o, _| o.file_bytes = 256),
    configuration("large files", |o, _| o.file_bytes = 16 << 20),
    configuration("eager merges", |o, _| o.compaction = merges(10.0)),
    configuration("lazy merges", |o, _| o.compaction = merges(0.1)),
    configuration("strict bounds", |o, _| {
        o.compaction = bounds(Bounding::Strict)
    }),
    configuration("no bounds", |o, _| o.compaction = bounds(Bounding::Off)),
    configuration("synced writes", |o, _| o.durability = Durability::Sync),
    configuration("synced in intervals", |o, _| {
        o.durability = Durability::Interval(Duration::from_millis(1));
    }),
    configuration("tiny WAL segments", |o, _| o.wal_segment_bytes = 256),
    configuration("a short WAL", |o, _| o.wal_bytes_max = 2 << 10),
    Configuration {
        reopen_every: Some(7),
        ..configuration("reopened often", |_, _| {})
    },
    Configuration {
        reopen_every: Some(50),
        ..configuration("reopened", |_, _| {})
    },
    configuration("threads", |o, _| o.maintenance = Maintenance::Background),
    configuration("threads, tiny everything", |o, s| {
        o.maintenance = Maintenance::Background;
        tiny(o, s);
    }),
    configuration("one frozen memtable", |o, _| o.frozen_memtables_max = 1),
    configuration("tiny everything", tiny),
    Configuration {
        reopen_every: Some(20),
        ..configuration("tiny everything, reopened", tiny)
    },
];

const fn configuration(
    name: &'static str,
    change: fn(&mut Options, &mut SsTableOptions),
) -> Configuration {
    Configuration {
        name,
        change,
        reopen_every: None,
    }
}

fn tiny(options: &mut Options, sstable: &mut SsTableOptions) {
    options.memtable_bytes = 512;
    options.file_bytes = 256;
    options.wal_segment_bytes = 512;
    options.wal_bytes_max = 4 << 10;
    options.cache_bytes = 2 << 10;
    sstable.block_bytes = 64;
    sstable.restart_interval = 2;
}

fn merges(size_ratio: f64) -> CompactionOptions {
    let picker = TieredPicker {
        size_ratio,
        ..TieredPicker::default()
    };
    picker.into()
}

fn bounds(bounding: Bounding) -> CompactionOptions {
    let picker = TieredPicker {
        bounding,
        ..TieredPicker::default()
    };
    picker.into()
}
