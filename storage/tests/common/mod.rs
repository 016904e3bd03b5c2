//! What the tests of the whole engine share. Random operations against a model of
//! all that the engine does stand in the crate `ebb-tests`.

#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

pub mod hooked_disk;
pub mod one_table;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Bounding, Compression, Db, FileSystem, Maintenance, Options, Range, Result, SsTableOptions,
    Table, TableOptions, TieredPicker,
};
use rand::{RngExt, SeedableRng};

pub type Rng = rand_chacha::ChaCha8Rng;
/// What a reader finds in a table.
pub type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// The directory that every test on a [`MemDisk`] uses.
pub const DIR: &str = "/db";

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

/// Options on a disk in memory under which the caller does all the work, so
/// that a run is the same every time; with merges for a sixth of garbage.
pub fn manual(mem: &MemDisk) -> Options {
    Options {
        maintenance: Maintenance::Manual,
        disk: Arc::new(mem.clone()),
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

/// All that a database shows: its tables, and those of its snapshots, by name.
pub type Everything = BTreeMap<String, Content>;

/// Reads everything.
pub fn everything(db: &Db) -> Result<Everything> {
    let mut all = Everything::new();
    for name in db.keyspaces() {
        let keyspace = db.existing_keyspace(&name)?;
        for table in keyspace.tables() {
            let range = keyspace.existing_table(&table)?.range::<&[u8], _>(..);
            all.insert(format!("{name}.{table}"), content(range)?);
        }
        for info in keyspace.snapshots() {
            let snapshot = keyspace.snapshot(&info.name)?;
            for table in &info.tables {
                let range = snapshot.table(table)?.range::<&[u8], _>(..);
                let before =
                    all.insert(format!("{name}.{table} in {}", info.name), content(range)?);
                assert!(before.is_none(), "two snapshots named {}", info.name);
            }
        }
    }
    Ok(all)
}

/// The files of the database with this ending, ascending.
pub fn files(mem: &MemDisk, ending: &str) -> Vec<PathBuf> {
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
pub fn lose_power<T>(mem: &MemDisk, handles: T, seed: u64) {
    mem.crash_at(1);
    mem.exists(Path::new(DIR)).unwrap_err();
    drop(handles);
    mem.restart(seed);
}

/// A disk with the same database, all of it durable.
pub fn copy(mem: &MemDisk) -> MemDisk {
    let copy = MemDisk::new();
    copy.create_dir_all(Path::new(DIR)).unwrap();
    for path in files(mem, "") {
        let mut file = copy.create(&path).unwrap();
        file.append(&mem.read_all(&path).unwrap()).unwrap();
        file.sync().unwrap();
    }
    copy.sync_dir(Path::new(DIR)).unwrap();
    copy
}
