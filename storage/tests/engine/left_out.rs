//! A run that a merge cannot read is left out of merges until it can be read. Everything else is
//! merged, read and written.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common::hooked_disk::{Call, HookedDisk, is_sstable};
use crate::common::one_table::table_options;
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Compression, Db, Error, Event, Maintenance, ManualClock, MergePause, Options, SsTableOptions,
    Table, TableStats,
};

const ENOENT: i32 = 2;
const EIO: i32 = 5;

const RUNS: u8 = 9;
/// The number of keys of a run. Only the run `BAD_RUN`, whose first data block has a bad byte, has
/// more keys.
const KEYS: u8 = 50;
const BAD_RUN: u8 = 4;
const BAD_RUN_KEYS: u8 = 60;
const BAD_BYTE: u64 = 100;
const MEMTABLE_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Reads of the byte at `BAD_BYTE` fail with this error number of the operating system.
    Unreadable(i32),
    /// Reads of the bad byte return in turn a wrong value and the right one.
    WrongEverySecondTime,
    /// No SSTable can be created.
    NoOutput,
}

#[derive(Debug, Default)]
struct Faults {
    path: PathBuf,
    fault: Option<Fault>,
}

impl Faults {
    fn meet(&self, mem: &MemDisk, call: Call, path: &Path) -> io::Result<()> {
        let is_bad = match call {
            Call::Read { from, to } => path == self.path && (from..to).contains(&BAD_BYTE),
            _ => false,
        };
        match self.fault {
            Some(Fault::Unreadable(errno)) if is_bad => Err(io::Error::from_raw_os_error(errno)),
            Some(Fault::WrongEverySecondTime) if is_bad => mem.flip_bit(path, BAD_BYTE, 3),
            Some(Fault::NoOutput) if call == Call::Create && is_sstable(path) => {
                Err(io::Error::from_raw_os_error(EIO))
            }
            _ => Ok(()),
        }
    }
}

/// A database whose table "users" has runs that the picker would merge. Merges are paused.
struct Fixture {
    faults: Arc<Mutex<Faults>>,
    clock: ManualClock,
    db: Db,
    users: Table,
    other: Table,
    pause: Option<MergePause>,
}

fn fixture(maintenance: Maintenance) -> Fixture {
    let (mem, clock) = (MemDisk::new(), ManualClock::at_ms(1_000_000));
    let faults = Arc::<Mutex<Faults>>::default();
    let (disk, of_disk) = (mem.clone(), faults.clone());
    let hook = move |call, path: &Path| of_disk.lock().unwrap().meet(&disk, call, path);
    let options = Options {
        maintenance,
        clock: Arc::new(clock.clone()),
        disk: Arc::new(HookedDisk::new(&mem, hook)),
        memtable_bytes: MEMTABLE_BYTES,
        file_bytes: 1 << 20,
        cache_bytes: 0,
        ..manual(&mem)
    };
    let db = Db::open(DIR, options).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let sstable = SsTableOptions {
        block_bytes: 256,
        compression: Compression::None,
        ..SsTableOptions::default()
    };
    let options = table_options(sstable);
    let [users, other] =
        ["users", "other"].map(|name| keyspace.table(name, options.clone()).unwrap());
    let pause = Some(db.pause_merges());
    for run in 0..RUNS {
        let keys = if run == BAD_RUN { BAD_RUN_KEYS } else { KEYS };
        (0..keys).for_each(|key| users.put(&[key], &[run; 100]).unwrap());
        db.flush().unwrap();
        if run == BAD_RUN {
            faults.lock().unwrap().path = files(&mem, ".sst").pop().unwrap();
        }
    }
    Fixture {
        faults,
        clock,
        db,
        users,
        other,
        pause,
    }
}

impl Fixture {
    fn set(&self, fault: Option<Fault>) {
        self.faults.lock().unwrap().fault = fault;
    }

    /// Makes this fault occur from now on, and ends the pause of merges, which then meet it.
    fn begin(&mut self, fault: Fault) {
        self.set(Some(fault));
        drop(self.pause.take());
    }

    fn of_users(&self) -> TableStats {
        let mut tables = self.db.stats().tables.into_iter();
        tables.find(|table| table.name == "users").unwrap()
    }

    /// Returns the number of runs of the table `users`, and the number of those that are left out
    /// of merges.
    fn runs(&self) -> (usize, usize) {
        let stats = self.of_users();
        (stats.runs.len(), stats.left_out_runs)
    }

    fn assert_content(&self) {
        for key in 0..BAD_RUN_KEYS {
            let newest = if key < KEYS { RUNS - 1 } else { BAD_RUN };
            assert_eq!(self.users.get(&[key]).unwrap().unwrap(), [newest; 100][..]);
        }
    }
}

#[test]
fn a_run_that_cannot_be_read_is_left_out_of_merges_until_it_can() {
    for errno in [EIO, ENOENT] {
        let mut it = fixture(Maintenance::Manual);
        let waits = Arc::<Mutex<Vec<u64>>>::default();
        let of_events = waits.clone();
        it.db.on_event(move |event| {
            if let Event::LeftOut { retry_after, .. } = event {
                of_events.lock().unwrap().push(retry_after.as_secs());
            }
        });
        it.begin(Fault::Unreadable(errno));
        let error = it.db.compact().unwrap_err();
        assert!(matches!(&error, Error::Io { path, .. } if is_sstable(path)));
        // The runs above it are merged, and those below it.
        assert_eq!(it.runs(), (3, 1));
        assert!(it.db.stats().maintenance_failure.is_some());
        assert_eq!(it.of_users().quarantine, []);
        assert_eq!(it.db.health().left_out_tables, ["app.users"]);
        // Newer values decide, and other blocks of the file are read.
        it.assert_content();

        // A write that fills a memtable looks for merges of all tables.
        let failures_after = |wait_ms| {
            it.clock.advance_ms(wait_ms);
            it.other.put(b"k", &[0; MEMTABLE_BYTES]).unwrap();
            it.db.stats().merge_read_failures
        };
        for (wait_ms, failures) in [(999, 1), (1, 2), (1999, 2), (1, 3), (4000, 4), (7999, 4)] {
            assert_eq!(failures_after(wait_ms), failures, "after {wait_ms} ms");
        }
        assert_eq!(*waits.lock().unwrap(), [1, 2, 4, 8]);
        // After an operator has mounted the disk again, a manual compaction does not wait for
        // the retry.
        it.db.compact().unwrap_err();
        assert_eq!(failures_after(15_999), 5);
        it.set(None);
        assert_eq!(it.runs(), (3, 1));
        assert_eq!(failures_after(1), 5);
        assert_eq!(it.runs(), (1, 0));
        assert_eq!(it.db.stats().maintenance_failure, None);
        it.assert_content();
    }
}

/// Regression: one failed read in a merge, or three reads that returned wrong bytes of an undamaged
/// file, stopped the writes of all tables.
#[test]
fn what_a_merge_cannot_read_stops_no_write() {
    for fault in [Fault::Unreadable(EIO), Fault::WrongEverySecondTime] {
        let mut it = fixture(Maintenance::Background);
        it.begin(fault);
        until("the other runs to be merged", || {
            let stats = it.db.stats();
            assert_eq!(stats.read_only_cause, None);
            it.runs() == (3, 1) && stats.compactions_running == 0
        });
        assert_eq!(it.of_users().quarantine, []);
        for table in [&it.users, &it.other] {
            table.put(b"more", b"value").unwrap();
        }
        it.db.flush().unwrap();
        it.assert_content();

        // Nothing wakes the merges but the end of the wait.
        it.set(None);
        it.clock.advance_ms(600_000);
        until("the run to be merged", || it.runs().1 == 0);
        it.assert_content();
        assert_eq!(it.db.stats().read_only_cause, None);
    }
}

/// Data that the disk did not take may be lost, even if the next call succeeds.
#[test]
fn an_output_that_cannot_be_written_stops_writes() {
    let mut it = fixture(Maintenance::Background);
    it.begin(Fault::NoOutput);
    let has_stopped = || it.db.stats().read_only_cause.is_some();
    until("the merge to fail", has_stopped);
    assert_eq!(it.runs(), (usize::from(RUNS), 0));
    let refused = it.users.put(b"more", b"value").unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
    it.assert_content();
}
