//! Set-ups of databases: random ones, so small that everything happens within a few operations, and
//! the named ones of the metamorphic proof.

pub mod any_picker;
pub mod configuration;
pub mod pickers;

use std::sync::Arc;

use ebb_storage::{
    CompactionOptions, Compression, FilterPrefix, ManualClock, Options, SsTableOptions,
    TableOptions,
};
use rand::RngExt;

use crate::disk::{INGEST_DIR, MemDisk, manual};
use crate::operation::{TABLES, TableNo};
use crate::seed::Rng;
use crate::session::Setup;

/// The time at which the clocks of randomized tests start, in milliseconds since 1970; arbitrary.
/// These clocks stand still unless an operation moves them.
pub const START_MS: u64 = 1_700_000_000_000;

/// Returns the options of each table, with its merge operator.
pub fn tables(mut sstable: impl FnMut() -> SsTableOptions) -> [TableOptions; TABLES.len()] {
    let mut tables = TableNo::all().map(|table| TableOptions {
        sstable: sstable(),
        merge_operator: table.merge_operator().map(Into::into),
    });
    std::array::from_fn(|_| tables.next().expect("there are as many as there are"))
}

/// Draws the sizes of memtables, files, WAL segments and cache, and a compaction picker, for lists
/// of operations that write about `bytes` in total. Each memtable and file has a fraction of
/// `bytes`. A WAL segment may be as large as `bytes`, so that a crash finds much in the segment
/// that is not synced.
pub fn drawn_options(rng: &mut Rng, mem: &MemDisk, clock: &ManualClock, bytes: u64) -> Options {
    let mut part = |of: std::ops::Range<u64>| bytes / rng.random_range(of);
    let options = Options {
        memtable_bytes: part(3..10) as usize,
        file_bytes: part(6..40),
        wal_segment_bytes: part(1..20),
        wal_bytes_max: 4 * part(1..20),
        clock: Arc::new(clock.clone()),
        ..manual(mem)
    };
    // In every second database no merge is split into parts.
    let part_bytes = match rng.random_range(0..6) {
        0 => 1,
        1 | 2 => bytes / rng.random_range(20..200),
        _ => u64::MAX,
    };
    Options {
        frozen_memtables_max: rng.random_range(1..4),
        cache_bytes: if rng.random_bool(0.3) { 0 } else { 1 << 16 },
        compaction: CompactionOptions {
            part_bytes,
            ..pickers::drawn(rng).1
        },
        ..options
    }
}

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

/// Draws the options of a database on `mem`, as [`drawn_options`] does, and those of its tables,
/// for lists of operations that write about `bytes` in total.
pub fn drawn(rng: &mut Rng, mem: &MemDisk, bytes: u64) -> Setup {
    let clock = ManualClock::at_ms(START_MS);
    let options = drawn_options(rng, mem, &clock, bytes);
    let sstable = || SsTableOptions {
        block_bytes: 1 << rng.random_range(5..12),
        restart_interval: rng.random_range(1..17),
        filter_bits_per_key: [0, 10][rng.random_range(0..2)],
        filter_prefix: match rng.random_range(0..4) {
            0 => None,
            bytes => Some(FilterPrefix::Bytes(bytes)),
        },
        compression: COMPRESSIONS[rng.random_range(0..COMPRESSIONS.len())],
        bottom_compression: match rng.random_range(0..4) {
            at if at < COMPRESSIONS.len() => Some(COMPRESSIONS[at]),
            _ => None,
        },
    };
    Setup {
        options,
        clock,
        tables: tables(sstable),
        prefix: String::new(),
        ingest_dir: INGEST_DIR.into(),
    }
}
