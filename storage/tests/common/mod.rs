//! What the tests of the whole engine share: seeds, a random script of
//! operations, and the oracle that says what the database must hold.

#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

pub mod hooked_disk;
pub mod one_table;
mod oracle;
mod script;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebb_storage::vfs::{MemVfs, Vfs};
use ebb_storage::{
    Bounding, Compression, Db, Maintenance, Options, Range, Result, SsTableOptions, Table,
    TableOptions, TieredPicker,
};
pub use oracle::{Cell, Oracle, Seen, Tables};
use rand::{RngExt, SeedableRng};
pub use script::{Change, Op, Write, apply, random_key, random_op, random_script};

pub type Rng = rand_chacha::ChaCha8Rng;
/// What a reader finds in a table.
pub type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// The directory that every test on a [`MemVfs`] uses.
pub const DIR: &str = "/db";

/// The tables of every random test, by keyspace and name.
pub const TABLES: [(&str, &str); 4] = [
    ("app", "mails"),
    ("app", "users"),
    ("log", "events"),
    ("log", "quiet"),
];

pub fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// A number from the environment.
pub fn env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

/// Runs a random test for each seed, for EBB_SEED alone, or for EBB_SEEDS seeds
/// from the first.
pub fn for_seeds(seeds: std::ops::Range<u64>, mut test: impl FnMut(u64)) {
    let seeds = match (env("EBB_SEED"), env("EBB_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => seeds.start..seeds.start + count,
        (None, None) => seeds,
    };
    for seed in seeds {
        let _replay = Replay(format!("EBB_SEED={seed}"));
        test(seed);
    }
}

/// Says how to replay when the test panics while it lives.
pub struct Replay(pub String);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay this with {}", self.0);
        }
    }
}

/// The time at which the clock of a random test starts, as its oracle does.
pub const START_MS: u64 = 0;

/// Options on a disk in memory under which the caller does all the work, so
/// that a run is the same every time; with merges for a sixth of garbage.
pub fn manual(mem: &MemVfs) -> Options {
    Options {
        maintenance: Maintenance::Manual,
        vfs: Arc::new(mem.clone()),
        memtable_bytes: 16 << 10,
        file_bytes: 8 << 10,
        cache_bytes: 1 << 20,
        compaction: TieredPicker {
            space_amplification_max: 1.2,
            runs_before_merge: 4,
            ..TieredPicker::default()
        }
        .into(),
        ..Options::default()
    }
}

/// [`manual`], with every number drawn.
pub fn random_options(rng: &mut Rng, mem: &MemVfs) -> Options {
    Options {
        memtable_bytes: 1 << rng.random_range(10..16),
        frozen_memtables_max: rng.random_range(1..4),
        wal_segment_bytes: 1 << rng.random_range(9..16),
        wal_bytes_max: 1 << rng.random_range(12..18),
        cache_bytes: if rng.random_bool(0.3) { 0 } else { 1 << 16 },
        file_bytes: 1 << rng.random_range(9..15),
        compaction: TieredPicker {
            size_ratio: [0.2, 1.0, 1.2, 3.0][rng.random_range(0..4)],
            bounding: [Bounding::Strict, Bounding::Preferred, Bounding::Off]
                [rng.random_range(0..3)],
            runs_before_merge: [2, 4, 8][rng.random_range(0..3)],
            space_amplification_max: [1.2, 2.0, 4.0][rng.random_range(0..3)],
        }
        .into(),
        ..manual(mem)
    }
}

pub fn random_table_options(rng: &mut Rng) -> TableOptions {
    TableOptions {
        sstable: SsTableOptions {
            block_bytes: 1 << rng.random_range(5..12),
            restart_interval: rng.random_range(1..17),
            filter_bits_per_key: [0, 10][rng.random_range(0..2)],
            compression: [Compression::None, Compression::Lz4][rng.random_range(0..2)],
        },
        merge_operator: Some("append".into()),
    }
}

/// The four tables, made where they are missing.
pub fn open_tables(db: &Db, options: &[TableOptions]) -> Result<Vec<Table>> {
    TABLES
        .iter()
        .zip(options)
        .map(|((keyspace, table), options)| db.keyspace(keyspace)?.table(table, options.clone()))
        .collect()
}

/// Reads a range to its end; entries must ascend.
pub fn content(range: Range) -> Result<Content> {
    let mut content = Content::new();
    for entry in range {
        let (key, value) = entry?;
        if let Some((last, _)) = content.last_key_value() {
            assert!(last[..] < key[..], "{key:?} after {last:?}");
        }
        content.insert(key.to_vec(), value.to_vec());
    }
    Ok(content)
}

pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Random bounds; the lower may lie above the upper.
pub fn random_bounds(rng: &mut Rng) -> Bounds {
    let mut bound = || match rng.random_range(0..3) {
        0 => Bound::Included(random_key(rng)),
        1 => Bound::Excluded(random_key(rng)),
        _ => Bound::Unbounded,
    };
    (bound(), bound())
}

fn lies_within(key: &[u8], (lower, upper): &Bounds) -> bool {
    let above = match lower {
        Bound::Included(lower) => key >= &lower[..],
        Bound::Excluded(lower) => key > &lower[..],
        Bound::Unbounded => true,
    };
    let below = match upper {
        Bound::Included(upper) => key <= &upper[..],
        Bound::Excluded(upper) => key < &upper[..],
        Bound::Unbounded => true,
    };
    above && below
}

/// What of a content lies within bounds, ascending.
pub fn within(content: &Content, bounds: &Bounds) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = content.iter().filter(|(key, _)| lies_within(key, bounds));
    entries
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The files of the database with this ending, ascending.
pub fn files(mem: &MemVfs, ending: &str) -> Vec<PathBuf> {
    let mut files = mem.list(Path::new(DIR)).unwrap();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

/// SSTables of all tables, by the database's own account.
pub fn files_in_use(db: &Db) -> usize {
    db.stats().tables.iter().map(|table| table.files).sum()
}

/// Cuts the power, lets go of the handles (which can then save nothing any
/// more), and starts the machine again.
pub fn lose_power<T>(mem: &MemVfs, handles: T, seed: u64) {
    mem.crash_at(1);
    mem.exists(Path::new(DIR)).unwrap_err();
    drop(handles);
    mem.restart(seed);
}

/// A disk with the same database, all of it durable.
pub fn copy(mem: &MemVfs) -> MemVfs {
    let copy = MemVfs::new();
    copy.create_dir_all(Path::new(DIR)).unwrap();
    for path in files(mem, "") {
        let mut file = copy.create(&path).unwrap();
        file.append(&mem.read_all(&path).unwrap()).unwrap();
        file.sync().unwrap();
    }
    copy.sync_dir(Path::new(DIR)).unwrap();
    copy
}
