//! A run that a merge cannot read is left out of merges until it can be read. Everything else is
//! merged, read and written.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
/// The number of keys of each run but `BAD_RUN`, whose first data block has the bad byte. That run
/// has [`BAD_RUN_KEYS`].
const KEYS: u8 = 50;
const BAD_RUN: u8 = 4;
const BAD_RUN_KEYS: u8 = 60;
const BAD_BYTE: u64 = 100;
const MEMTABLE_BYTES: usize = 64 << 10;
/// The number of failed merges in a row after which a run is left out, though its files are whole.
const SUSPICIONS_MAX: usize = 3;
const HOUR_MS: u64 = 3_600_000;

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Reads of the byte at `BAD_BYTE` fail with this error number of the operating system.
    Unreadable(i32),
    /// The next reads of the bad byte, as many as this number, return a wrong value and the right
    /// one by turns, beginning with the wrong one. If the number is even, later reads return the
    /// right one.
    WrongEverySecondTime(u64),
    /// No SSTable can be created.
    NoOutput,
}

#[derive(Debug, Default)]
struct Faults {
    path: PathBuf,
    fault: Option<Fault>,
}

impl Faults {
    fn meet(&mut self, mem: &MemDisk, call: Call, path: &Path) -> io::Result<()> {
        let is_bad = match call {
            Call::Read { from, to } => path == self.path && (from..to).contains(&BAD_BYTE),
            _ => false,
        };
        match &mut self.fault {
            Some(Fault::Unreadable(errno)) if is_bad => Err(io::Error::from_raw_os_error(*errno)),
            Some(Fault::WrongEverySecondTime(reads)) if is_bad && *reads > 0 => {
                *reads -= 1;
                mem.flip_bit(path, BAD_BYTE, 3)
            }
            Some(Fault::NoOutput) if call == Call::Create && is_sstable(path) => {
                Err(io::Error::from_raw_os_error(EIO))
            }
            _ => Ok(()),
        }
    }
}

/// A database whose table "users" has [`RUNS`] runs that the picker would merge, and whose table
/// "other" is empty. Merges are paused.
struct Fixture {
    mem: MemDisk,
    faults: Arc<Mutex<Faults>>,
    clock: ManualClock,
    db: Db,
    users: Table,
    other: Table,
    pause: Option<MergePause>,
}

fn fixture(maintenance: Maintenance) -> Fixture {
    let (mem, clock) = (MemDisk::new(), ManualClock::at_ms(2 * HOUR_MS));
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
        mem,
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

    fn stats_of(&self, name: &str) -> TableStats {
        let mut tables = self.db.stats().tables.into_iter();
        tables.find(|table| table.name == name).unwrap()
    }

    fn of_users(&self) -> TableStats {
        self.stats_of("users")
    }

    /// Writes a run of the table `other`, with the same keys as every other run of it.
    fn write_other(&self) {
        (0..KEYS).for_each(|key| self.other.put(&[key], &[key; 100]).unwrap());
        self.db.flush().unwrap();
    }

    /// Fills a memtable. Under `Maintenance::Manual` such a write looks for merges of all tables, but does
    /// not retry a run that waits for its next try.
    fn look_for_merges(&self) {
        self.other.put(b"k", &[0; MEMTABLE_BYTES]).unwrap();
    }

    /// Returns the number of runs of the table `users`, and the number of those that are left out
    /// of merges.
    fn runs(&self) -> (usize, usize) {
        let stats = self.of_users();
        (stats.runs.len(), stats.left_out_runs)
    }

    /// Checks one file after the other, until the file of `BAD_RUN` has been checked.
    fn check_up_to_bad_file(&self) {
        loop {
            // The file whose check is the longest ago comes next.
            self.clock.advance_ms(1);
            let mut check = self.db.next_file_check(Duration::ZERO).unwrap().unwrap();
            let is_bad = check.path() == self.faults.lock().unwrap().path;
            check.read(&mut |_| ControlFlow::Continue(()));
            assert!(check.finish().unwrap());
            if is_bad {
                return;
            }
        }
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
        let path = it.faults.lock().unwrap().path.clone();
        let bad_bytes = it.mem.file_len(&path).unwrap();
        assert_eq!(it.of_users().unmergeable_bytes, bad_bytes);
        assert!(it.db.stats().maintenance_failure.is_some());
        assert_eq!(it.of_users().quarantine, []);
        assert_eq!(it.db.health().left_out_tables, ["app.users"]);
        // Newer values decide, and other blocks of the file are read.
        it.assert_content();

        let failures_after = |wait_ms| {
            it.clock.advance_ms(wait_ms);
            it.look_for_merges();
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
        // The run has been out since the first look, before these waits.
        assert_eq!(it.db.stats().oldest_unmergeable_run_ms, 30_998);
        it.set(None);
        assert_eq!(it.runs(), (3, 1));
        assert_eq!(failures_after(1), 5);
        assert_eq!(it.runs(), (1, 0));
        assert_eq!(it.of_users().unmergeable_bytes, 0);
        assert_eq!(it.db.stats().oldest_unmergeable_run_ms, 0);
        assert_eq!(it.db.stats().maintenance_failure, None);
        it.assert_content();
    }
}

/// Regression: one failed read in a merge, or three reads that returned wrong bytes of an undamaged
/// file, stopped the writes of all tables.
#[test]
fn what_a_merge_cannot_read_stops_no_write() {
    for fault in [
        Fault::Unreadable(EIO),
        Fault::WrongEverySecondTime(u64::MAX),
    ] {
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

        // Nothing wakes the merges but the end of the wait, which a clock that was set back does not
        // delay.
        it.set(None);
        it.clock.set_ms(HOUR_MS);
        it.clock.advance_ms(600_000);
        until("the run to be merged", || it.runs().1 == 0);
        it.assert_content();
        assert_eq!(it.db.stats().read_only_cause, None);
    }
}

/// Regression: while a clock that was set back caught up, a run was not merged again.
#[test]
fn a_run_is_merged_again_though_the_clock_was_set_back() {
    let mut it = fixture(Maintenance::Manual);
    it.begin(Fault::Unreadable(EIO));
    it.db.compact().unwrap_err();
    assert_eq!(it.runs(), (3, 1));
    it.clock.set_ms(HOUR_MS);
    it.set(None);
    for (wait_ms, runs) in [(999, (3, 1)), (1, (1, 0))] {
        it.clock.advance_ms(wait_ms);
        it.look_for_merges();
        assert_eq!(it.runs(), runs, "after {wait_ms} ms");
    }
    it.assert_content();
}

/// Regression: a sound merge of any table started the count of the failed merges again. While
/// another table was merged, a merge that failed was repeated at once, without end.
#[test]
fn merges_of_another_table_do_not_keep_a_suspected_run_in_merges() {
    let mut it = fixture(Maintenance::Manual);
    // The runs below each snapshot are merged by themselves: one merge after each failure.
    let keyspace = it.db.existing_keyspace("app").unwrap();
    for snapshot in 0..2 * SUSPICIONS_MAX {
        (0..4).for_each(|_| it.write_other());
        create_table_snapshot(&keyspace, &format!("s{snapshot}"), "other").unwrap();
    }
    let events = Arc::<Mutex<Vec<String>>>::default();
    let log = events.clone();
    it.db.on_event(move |event| {
        let (table, what) = match event {
            Event::Merged { table, .. } => (table, "merged"),
            Event::LeftOut { table, .. } => (table, "left out"),
            _ => return,
        };
        log.lock().unwrap().push(format!("{table}: {what}"));
    });
    it.begin(Fault::WrongEverySecondTime(u64::MAX));
    it.db.compact().unwrap_err();
    assert_eq!(it.runs(), (3, 1));
    assert_eq!(it.of_users().quarantine, []);
    let events = events.lock().unwrap();
    let is_merge = |event: &&String| *event == "other: merged";
    let left_out = events.iter().position(|event| event == "users: left out");
    let before = events[..left_out.unwrap()].iter().filter(is_merge).count();
    assert!(before <= SUSPICIONS_MAX, "{events:?}");
    // There are more merges of the other table.
    let all = events.iter().filter(is_merge).count();
    assert!(all > SUSPICIONS_MAX, "{events:?}");
    it.assert_content();
}

/// Regression: after a run had been left out, the next wrong reading of any other run left that run
/// out, too.
#[test]
fn one_wrong_reading_leaves_no_run_out_after_another_was_left_out() {
    let mut it = fixture(Maintenance::Manual);
    it.begin(Fault::WrongEverySecondTime(u64::MAX));
    // The second time, no merge of another run is left to do after the failure.
    for failures in [1, 2] {
        it.db.compact().unwrap_err();
        assert_eq!(it.runs(), (3, 1));
        assert_eq!(it.db.stats().merge_read_failures, failures);
    }
    it.pause = Some(it.db.pause_merges());
    // More runs than `users` has: the tables with the most runs are merged first.
    (0..5).for_each(|_| it.write_other());
    it.faults.lock().unwrap().path = files(&it.mem, ".sst").pop().unwrap();
    it.begin(Fault::WrongEverySecondTime(2));
    it.look_for_merges();
    let other = it.stats_of("other");
    assert_eq!((other.runs.len(), other.left_out_runs), (1, 0));
    assert_eq!(other.quarantine, []);
    assert_eq!(it.db.stats().merge_read_failures, 2);
    let fault = it.faults.lock().unwrap().fault;
    // The merge met it.
    assert_is!(fault, Some(Fault::WrongEverySecondTime(0)));
    assert_eq!(it.runs(), (3, 1));
    it.assert_content();
}

/// Regression: sound checks of a file did not end the count of its wrong readings, so the third one
/// left the run out of merges, however long ago the others were.
#[test]
fn a_sound_check_of_a_file_ends_the_count_of_its_wrong_readings() {
    let it = fixture(Maintenance::Manual);
    let all = usize::from(RUNS);
    let check_wrong = || {
        it.set(Some(Fault::WrongEverySecondTime(2)));
        it.check_up_to_bad_file();
        let fault = it.faults.lock().unwrap().fault;
        // The check met it.
        assert_is!(fault, Some(Fault::WrongEverySecondTime(0)));
    };
    for _ in 0..SUSPICIONS_MAX {
        check_wrong();
        assert_eq!(it.runs(), (all, 0));
        it.check_up_to_bad_file();
    }
    // Without a sound check in between, the third wrong reading leaves the run out.
    for left_out in [0, 0, 1] {
        check_wrong();
        assert_eq!(it.runs(), (all, left_out));
    }
    assert_eq!(it.of_users().quarantine, []);
    it.assert_content();
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
