//! Helpers of the tests of the whole engine. The tests that compare random operations with a
//! model of the whole engine are in the crate `ebb-tests`.

#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

pub mod hooked_disk;
pub mod limited_disk;
pub mod one_table;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    CompactionPicker, Db, Disk, FileSystem, Keyspace, Maintenance, ManualClock, Options, Pick,
    Range, Result, SnapshotOptions, SortedWriterOptions, TableShape, TieredPicker,
};
pub use ebb_test_support::seed::{explores, for_seeds, number};
pub use ebb_test_support::wait::until;
use rand::{RngExt, SeedableRng};

pub type Rng = rand_chacha::ChaCha8Rng;
/// The keys and values that a reader finds in a table.
pub type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// The directory that every test on a [`MemDisk`] uses.
pub const DIR: &str = "/db";

pub fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// Asserts that a value matches a pattern, which may have a guard.
macro_rules! assert_is {
    ($value:expr, $pattern:pat $(if $guard:expr)?) => {
        match $value {
            $pattern $(if $guard)? => {}
            ref value => panic!("{value:?} is not {}", stringify!($pattern $(if $guard)?)),
        }
    };
}
pub(crate) use assert_is;

/// Prints which part of a test failed, if the test panics while this value lives.
pub struct FailedAt(pub String);

impl Drop for FailedAt {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed at {}", self.0);
        }
    }
}

/// Sets a flag when it is dropped, by a panic too: threads that run until the flag is set end
/// with the test.
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a test in a thread of its own, so that the test fails if the engine hangs.
///
/// # Panics
/// If the test panics, or does not end.
pub fn must_end(test: impl FnOnce() + Send + 'static) {
    let (done, outcome) = mpsc::channel();
    thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    // Longer than `until` waits: its message says more.
    let outcome = outcome.recv_timeout(2 * ebb_test_support::wait::HANG);
    outcome.expect("the test ends without a panic");
}

/// Returns options for a database in memory. Maintenance is left to the caller, so that each run of
/// a test with the same seed does the same. A merge is due as soon as a table's runs take about 1.2
/// times the space that they would take as one run, or there are four of them. Nothing happens just
/// because the database is idle, as that would depend on the speed of the machine. There is no
/// low-water mark: full disks of tests are small.
pub fn manual(mem: &MemDisk) -> Options {
    Options {
        maintenance: Maintenance::Manual,
        idle_after: None,
        low_water_bytes: 0,
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

/// Returns the options of [`manual`] with a clock that the test sets.
pub fn clocked(mem: &MemDisk, clock: &ManualClock) -> Options {
    Options {
        clock: Arc::new(clock.clone()),
        ..manual(mem)
    }
}

/// Returns `options` with another disk.
pub fn on_disk(disk: impl Disk + 'static, options: Options) -> Options {
    Options {
        disk: Arc::new(disk),
        ..options
    }
}

/// Returns options of a writer of sorted files on `mem`.
pub fn writer_options(mem: &MemDisk) -> SortedWriterOptions {
    SortedWriterOptions {
        disk: Arc::new(mem.clone()),
        ..SortedWriterOptions::default()
    }
}

/// A picker that merges random neighbours, whatever snapshots stand between them.
#[derive(Debug)]
pub struct AnyNeighbours(Mutex<Rng>);

impl AnyNeighbours {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(rng(seed)))
    }
}

impl CompactionPicker for AnyNeighbours {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let mut rng = self.0.lock().unwrap();
        let runs = table.runs.len();
        if runs == 0 || rng.random_bool(0.5) || table.runs.iter().any(|run| run.is_busy) {
            return None;
        }
        let newest = rng.random_range(0..runs);
        let oldest = rng.random_range(newest..runs);
        Some(Pick::merge(&table.runs[newest..=oldest]))
    }
}

/// Creates a snapshot of one table.
pub fn create_table_snapshot(keyspace: &Keyspace, name: &str, table: &str) -> Result<()> {
    let options = SnapshotOptions {
        table: Some(table.to_string()),
        ..SnapshotOptions::default()
    };
    keyspace.create_snapshot_with(name, options).map(drop)
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

/// The whole readable content of a database. The names are `keyspace.table` for a table, and
/// `keyspace.table in snapshot` for a table in a snapshot.
pub type Everything = BTreeMap<String, Content>;

/// Reads all tables, and all tables of all snapshots.
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

/// Returns the files of the database whose names end with `ending`, ascending.
pub fn files(mem: &MemDisk, ending: &str) -> Vec<PathBuf> {
    let mut files = mem.list(Path::new(DIR)).unwrap();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

/// Returns the only element.
#[track_caller]
pub fn only<T: Debug>(all: &[T]) -> &T {
    let [one] = all else {
        panic!("one element expected: {all:?}");
    };
    one
}

/// Copies a directory, byte by byte.
pub fn copy_dir(mem: &MemDisk, from: &str, to: &str) {
    mem.create_dir_all(to.as_ref()).unwrap();
    for path in mem.list(from.as_ref()).unwrap() {
        let mut file = mem
            .create(&Path::new(to).join(path.file_name().unwrap()))
            .unwrap();
        file.append(&mem.read_all(&path).unwrap()).unwrap();
    }
}

/// Flips a bit of an SSTable. With `is_whole`, the file then does not open any more; otherwise only
/// its first data block is damaged. A second call undoes the first.
pub fn damage_file(mem: &MemDisk, path: &Path, is_whole: bool) {
    let byte = if is_whole {
        mem.file_len(path).unwrap() - 20
    } else {
        // The header has 20 bytes.
        24
    };
    mem.flip_bit(path, byte, 0).unwrap();
}

/// Returns the number of SSTables of all tables, by the statistics of the database.
pub fn files_in_use(db: &Db) -> usize {
    db.stats().tables.iter().map(|table| table.files).sum()
}

/// Cuts the power, drops the handles (which can then save nothing any more), and starts the machine
/// again.
pub fn lose_power<T>(mem: &MemDisk, handles: T, seed: u64) {
    mem.crash_at(1);
    mem.exists(Path::new(DIR)).unwrap_err();
    drop(handles);
    mem.restart(seed);
}

/// Returns a new disk with a copy of the files of the database on `mem`. All bytes of the copy are
/// durable, even those that are not synced on `mem`.
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
