//! Power lost at every I/O call, calls that fail, and bytes that rot.
//!
//! Replay a failed crash with `EBB_SEED=<seed>` and `EBB_CRASH=<call>`; the
//! message says both.

mod common;

use std::collections::BTreeSet;
use std::io::ErrorKind::Other;
use std::sync::{Arc, Mutex};

use common::hooked_disk::{Call, HookedDisk, is_sstable};
use common::one_table::{small, table_options};
use common::*;
use ebb_storage::vfs::{FaultOp, MemVfs};
use ebb_storage::{
    Clock, Db, Durability, Error, Maintenance, ManualClock, Options, SsTableOptions, TableOptions,
};
use rand::RngExt;

/// Operations of one run: few, because the run is repeated for each I/O call
/// that it makes.
const STEPS: usize = 120;

#[test]
fn power_lost_at_any_call_loses_nothing_that_was_synced() {
    for_seeds(0..3, |seed| crash_everywhere(seed, Durability::Sync));
}

#[test]
fn power_lost_at_any_call_leaves_a_prefix_of_the_commits() {
    for_seeds(10..15, |seed| crash_everywhere(seed, Durability::Os));
}

/// A crash between the making of a file and the edit that names it left an orphan,
/// whose number the next opening gave to another file. A pin from before found it.
#[test]
fn no_number_of_a_file_is_used_twice_whatever_the_power_does() {
    for_seeds(50..56, |seed| {
        let mut rng = rng(seed);
        let (mem, made) = (MemVfs::new(), Arc::new(Mutex::new(BTreeSet::new())));
        let names = made.clone();
        let disk = HookedDisk::new(&mem, move |call, path| {
            if call == Call::Create && is_sstable(path) {
                let is_new = names.lock().unwrap().insert(path.to_path_buf());
                assert!(is_new, "{} is made twice", path.display());
            }
            Ok(())
        });
        for round in 0..60 {
            mem.crash_at(rng.random_range(1..400));
            let options = Options {
                vfs: Arc::new(disk.clone()),
                memtable_bytes: 1 << 10,
                ..manual(&mem)
            };
            let use_it = || -> ebb_storage::Result<()> {
                let db = Db::open(DIR, options)?;
                let keyspace = db.keyspace("app")?;
                for at in 0..8_u8 {
                    let name = format!("t{}", at % 2);
                    let table = keyspace.table(&name, Default::default())?;
                    table.put(&[round, at], &[at; 300])?;
                    db.flush()?;
                    if at == 5 {
                        keyspace.drop_table(&name)?;
                    }
                }
                db.compact()
            };
            let _ended_or_lost_power = use_it();
            mem.restart(seed + u64::from(round));
        }
        assert!(made.lock().unwrap().len() > 50, "few files were made");
    });
}

/// Threads flush and compact: where a call comes is chance, so this samples.
#[test]
fn power_lost_while_threads_flush_and_compact_leaves_a_prefix_of_the_commits() {
    for_seeds(30..38, |seed| {
        let mut case = Case::new(seed, [Durability::Sync, Durability::Os][seed as usize % 2]);
        case.maintenance = Maintenance::Background;
        for crash_at in (1..1000).step_by(7) {
            let _replay = Replay(format!("EBB_SEED={seed}, about call {crash_at}"));
            case.recovers_from(crash_at, None);
        }
    });
}

fn crash_everywhere(seed: u64, durability: Durability) {
    let case = Case::new(seed, durability);
    let whole = case.run(None);
    assert_eq!(whole.acknowledged, case.script.len());
    let calls = whole.mem.io_calls();
    let only = env("EBB_CRASH");
    for crash_at in only.map_or(1..=calls, |call| call..=call) {
        let _replay = Replay(format!("EBB_SEED={seed} EBB_CRASH={crash_at} of {calls}"));
        case.recovers_from(crash_at, None);
        // The same crash, and another one in the recovery from it.
        let again = 1 + (seed * 31 + crash_at * 7) % 60;
        case.recovers_from(crash_at, Some(again));
    }
}

/// A script with all that makes a run of it the same every time.
struct Case {
    seed: u64,
    durability: Durability,
    /// Of the run; recovery is looked at with nobody else at work.
    maintenance: Maintenance,
    script: Vec<Op>,
    states: Vec<Oracle>,
    table_options: Vec<TableOptions>,
}

/// How far a run came.
struct Run {
    mem: MemVfs,
    clock: ManualClock,
    /// Whether all tables were made.
    has_tables: bool,
    /// Operations that returned without an error.
    acknowledged: usize,
    /// Operations that must survive.
    durable: usize,
}

impl Case {
    fn new(seed: u64, durability: Durability) -> Self {
        let mut rng = rng(seed);
        let table_options = TABLES.iter().map(|_| random_table_options(&mut rng));
        let table_options = table_options.collect();
        let steps = env("EBB_STEPS").map_or(STEPS, |steps| steps as usize);
        let (script, states) = random_script(&mut rng, steps, 4);
        Self {
            seed,
            durability,
            maintenance: Maintenance::Manual,
            script,
            states,
            table_options,
        }
    }

    /// The same at each call: many small files, so that much is under way.
    fn options(&self, mem: &MemVfs, clock: &ManualClock) -> Options {
        let mut rng = rng(self.seed ^ 0xeb);
        Options {
            durability: self.durability,
            clock: Arc::new(clock.clone()),
            memtable_bytes: rng.random_range(3000..8000),
            file_bytes: rng.random_range(600..3000),
            wal_segment_bytes: rng.random_range(700..3000),
            wal_bytes_max: rng.random_range(4000..16000),
            ..random_options(&mut rng, mem)
        }
    }

    /// Runs the script until it ends or the power does.
    fn run(&self, crash_at: Option<u64>) -> Run {
        let mem = MemVfs::new();
        if let Some(call) = crash_at {
            mem.crash_at(call);
        }
        let mut run = Run {
            mem: mem.clone(),
            clock: ManualClock::at_ms(START_MS),
            has_tables: false,
            acknowledged: 0,
            durable: 0,
        };
        let options = Options {
            maintenance: self.maintenance,
            ..self.options(&mem, &run.clock)
        };
        let Ok(db) = Db::open(DIR, options) else {
            return run;
        };
        let Ok(tables) = open_tables(&db, &self.table_options) else {
            return run;
        };
        run.has_tables = true;
        let mut last_write = 0;
        for (i, op) in self.script.iter().enumerate() {
            if let Op::Tick(ms) = op {
                run.clock.advance_ms(*ms);
            }
            if apply(&db, &tables, op).is_err() {
                break;
            }
            run.acknowledged = i + 1;
            if matches!(op, Op::Write(_) | Op::Truncate(_)) {
                last_write = i + 1;
            }
            match op {
                _ if self.durability == Durability::Sync => run.durable = i + 1,
                Op::Sync => run.durable = i + 1,
                // It syncs all that it writes out, and all before that.
                Op::Flush => run.durable = last_write.max(run.durable),
                _ => {}
            }
        }
        run
    }

    /// Loses power at a call (and again in the recovery, if asked to), and
    /// holds what is found against what must be there.
    fn recovers_from(&self, crash_at: u64, again_at: Option<u64>) {
        let run = self.run(Some(crash_at));
        let mem = &run.mem;
        mem.restart(self.seed.wrapping_mul(1000) + crash_at);
        if let Some(call) = again_at {
            mem.crash_at(call);
            drop(Db::open(DIR, self.options(mem, &run.clock)));
            mem.restart(crash_at + call);
        }
        let (found, state) = {
            let db = self.reopen(&run);
            let found = Seen::read(&db).unwrap();
            let state = self.check(&run, &found);
            if run.has_tables {
                for (keyspace, table) in TABLES {
                    let keyspace = db.existing_keyspace(keyspace).unwrap();
                    keyspace.existing_table(table).unwrap();
                }
            }
            assert_eq!(files(mem, ".sst").len(), files_in_use(&db), "orphans");
            assert_eq!(files(mem, ".tmp").len(), 0);
            db.verify().unwrap();
            (found, state)
        };
        // Recovery changes nothing that a second one finds.
        let db = self.reopen(&run);
        let second = Seen::read(&db).unwrap();
        assert!(second == found, "{}", second.difference(&found));
        let written = self.goes_on(&db, state, &run.clock, crash_at.is_multiple_of(2));
        lose_power(mem, db, crash_at);
        let third = Seen::read(&self.reopen(&run)).unwrap();
        assert!(third == written, "{}", third.difference(&written));
    }

    fn reopen(&self, run: &Run) -> Db {
        let options = self.options(&run.mem, &run.clock);
        Db::open(DIR, options).unwrap_or_else(|e| panic!("recovery: {e}"))
    }

    /// Returns the state that the database is in.
    fn check(&self, run: &Run, found: &Seen) -> Oracle {
        // The operation under way may be there or not; whole, if it is.
        let last = (run.acknowledged + 1).min(self.script.len());
        let now_ms = run.clock.now_ms();
        let possible = &mut self.states[run.durable..=last].iter();
        let state = possible.find(|state| state.is_seen_as(found, now_ms));
        let difference = |state: &Oracle| found.difference(&state.seen_at(now_ms));
        let state = state.unwrap_or_else(|| {
            panic!(
                "after {} acknowledged operations, {} of them durable, then {:?}: {}; or {}",
                run.acknowledged,
                run.durable,
                self.script.get(run.acknowledged),
                difference(&self.states[run.durable]),
                difference(&self.states[last]),
            )
        });
        let mut state = state.clone();
        state.now_ms = now_ms;
        state
    }

    /// New writes get numbers above every snapshot, so that none slips into one.
    /// Returns what is there in the end: in files, or in the log behind what the
    /// crash left of it.
    fn goes_on(&self, db: &Db, mut state: Oracle, clock: &ManualClock, flush: bool) -> Seen {
        for keyspace in db.keyspaces() {
            let newest = db.existing_keyspace(&keyspace).unwrap().snapshots();
            let newest = newest.into_iter().map(|snapshot| snapshot.seq).max();
            assert!(newest <= Some(db.view().seq()));
        }
        let tables = open_tables(db, &self.table_options).unwrap();
        for i in 0..3 {
            let op = Op::Write(
                (0..TABLES.len())
                    .map(|table| Write {
                        table,
                        change: match format!("key{:02}", i * 7).into_bytes() {
                            key if i == 1 => Change::Delete(key),
                            key => Change::Put(key, b"after the crash".to_vec()),
                        },
                    })
                    .collect(),
            );
            apply(db, &tables, &op).unwrap();
            state.apply(&op);
        }
        let expected = state.seen_at(clock.now_ms());
        let found = Seen::read(db).unwrap();
        assert!(found == expected, "{}", found.difference(&expected));
        db.sync().unwrap();
        if flush {
            db.flush().unwrap();
            db.compact().unwrap();
        }
        let found = Seen::read(db).unwrap();
        assert!(found == expected, "{}", found.difference(&expected));
        expected
    }
}

#[test]
fn after_an_fsync_that_failed_nothing_is_written_and_what_was_acknowledged_is_recovered() {
    let mem = MemVfs::new();
    let (db, table) = small(&mem, Durability::Sync);
    table.put(b"a", b"1").unwrap();
    mem.fail_next(FaultOp::Sync, 1, Other);
    assert!(matches!(table.put(b"b", b"2"), Err(Error::ReadOnly { .. })));
    // The disk works again; nobody knows what it dropped.
    for _ in 0..2 {
        assert!(matches!(table.put(b"a", b"3"), Err(Error::ReadOnly { .. })));
        assert!(matches!(table.delete(b"a"), Err(Error::ReadOnly { .. })));
        let keyspace = db.existing_keyspace("app").unwrap();
        let refused = keyspace.create_snapshot("s");
        assert!(matches!(refused, Err(Error::ReadOnly { .. })));
        assert_eq!(keyspace.snapshots(), []);
        assert!(matches!(db.sync(), Err(Error::ReadOnly { .. })));
        assert!(matches!(db.flush(), Err(Error::ReadOnly { .. })));
        assert_eq!(table.get(b"a").unwrap().unwrap(), "1");
        assert_eq!(table.get(b"b").unwrap(), None);
    }
    assert!(db.stats().read_only_cause.is_some());
    drop((db, table));
    mem.restart(1);

    let (_db, table) = small(&mem, Durability::Sync);
    assert_eq!(table.get(b"a").unwrap().unwrap(), "1");
    table.put(b"a", b"4").unwrap();
    assert_eq!(table.get(b"a").unwrap().unwrap(), "4");
}

/// The fsync of a commit failed, and reopening found the commit in the page
/// cache. It was never written, as the system took the page for clean; commits
/// that were acknowledged after the reopening lay behind it, in a segment of
/// their own. The next power loss left a hole before them, and the database did
/// not open any more. The same with an edit of the manifest: the opening that found
/// it removed what it replaced, and then it was gone.
#[test]
fn what_a_reopening_found_after_a_failed_fsync_is_there_for_good() {
    for seed in 0..20 {
        let mem = MemVfs::new();
        let (db, table) = small(&mem, Durability::Sync);
        table.put(b"a", b"1").unwrap();
        mem.fail_next(FaultOp::Sync, 1, Other);
        table.put(b"b", &[2; 700]).unwrap_err();
        drop((db, table));
        let (db, table) = small(&mem, Durability::Sync);
        let found = table.get(b"b").unwrap();
        table.put(b"c", b"3").unwrap();
        // The first of these begins a manifest, to which the next edits are appended.
        for value in [b"4", b"5", b"6", b"7"] {
            table.put(b"d", value).unwrap();
            db.flush().unwrap();
        }
        // The fsync of what is merged, and that of the edit.
        mem.fail_next(FaultOp::Sync, 2, Other);
        db.compact().unwrap_err();
        drop((db, table));
        // Removes what was merged, if it found the edit.
        let (db, table) = small(&mem, Durability::Sync);
        lose_power(&mem, (db, table), seed);

        let (_db, table) = small(&mem, Durability::Sync);
        assert_eq!(table.get(b"a").unwrap().unwrap(), "1");
        assert_eq!(table.get(b"b").unwrap(), found, "seed {seed}");
        assert_eq!(table.get(b"c").unwrap().unwrap(), "3");
        assert_eq!(table.get(b"d").unwrap().unwrap(), "7");
    }
}

/// Without an fsync an acknowledged write may go with the machine, never with the
/// process: what the disk shows at that moment is what the next process finds.
#[test]
fn what_was_acknowledged_survives_a_crash_of_the_process() {
    let mem = MemVfs::new();
    let (db, table) = small(&mem, Durability::Os);
    let keyspace = db.existing_keyspace("app").unwrap();
    for i in 0..40_u8 {
        table.put(&[i % 7], &[i]).unwrap();
        keyspace.create_snapshot(&format!("s{i}")).unwrap();
        if i % 3 == 0 {
            keyspace.delete_snapshot(&format!("s{i}")).unwrap();
        }
        if i % 11 == 0 {
            db.flush().unwrap();
        }
        let left = copy(&mem);
        let (found, _table) = small(&left, Durability::Os);
        let (found, expected) = (Seen::read(&found), Seen::read(&db));
        let (found, expected) = (found.unwrap(), expected.unwrap());
        assert!(found == expected, "{}", found.difference(&expected));
    }
}

/// The manifest takes no edit after one that failed, so nothing could be flushed
/// any more; but writes were still taken, into memtables that only grew.
#[test]
fn after_an_edit_of_the_manifest_that_failed_no_write_is_taken() {
    let mem = MemVfs::new();
    let (db, table) = small(&mem, Durability::Os);
    table.put(b"a", b"1").unwrap();
    mem.fail_next(FaultOp::Sync, 1, Other);
    let keyspace = db.existing_keyspace("app").unwrap();
    let failed = keyspace.table("mails", TableOptions::default());
    assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
    assert!(matches!(table.put(b"a", b"2"), Err(Error::ReadOnly { .. })));
    assert_eq!(table.get(b"a").unwrap().unwrap(), "1");
    drop((db, keyspace, table));
    let (_db, table) = small(&mem, Durability::Os);
    assert_eq!(table.get(b"a").unwrap().unwrap(), "1");
    table.put(b"a", b"2").unwrap();
}

#[test]
fn a_full_disk_is_a_clean_error_wherever_it_strikes() {
    let whole = fill(&MemVfs::new()).1.unwrap();
    for room in (0..whole).step_by(97) {
        let mem = MemVfs::new();
        mem.set_capacity_bytes(Some(room));
        let (acknowledged, outcome) = fill(&mem);
        match outcome {
            // What could not be flushed is in the log.
            Ok(_) => assert_eq!(acknowledged, WRITES),
            Err(Error::DiskFull { .. }) => {}
            Err(error) => panic!("with room for {room} bytes: {error}"),
        }
        mem.set_capacity_bytes(None);
        let (_db, table) = small(&mem, Durability::Os);
        let found = content(table.range::<&[u8], _>(..)).unwrap();
        assert_eq!(found.len(), acknowledged, "with room for {room} bytes");
    }
}

const WRITES: usize = 120;

/// Writes until an error; what was written reads back all the while. Returns
/// the writes acknowledged, and the bytes on disk in the end.
fn fill(mem: &MemVfs) -> (usize, Result<u64, Error>) {
    let mut acknowledged = 0;
    let mut fill = || {
        let options = Options {
            durability: Durability::Os,
            memtable_bytes: 4 << 10,
            file_bytes: 1 << 10,
            wal_segment_bytes: 1 << 10,
            ..manual(mem)
        };
        let db = Db::open(DIR, options)?;
        let sstable = SsTableOptions {
            block_bytes: 256,
            ..SsTableOptions::default()
        };
        let table = db.keyspace("app")?.table("users", table_options(sstable))?;
        for i in 0..WRITES {
            let written = table.put(format!("key{i:03}").as_bytes(), &[i as u8; 100]);
            for i in 0..acknowledged {
                let found = table.get(format!("key{i:03}").as_bytes()).unwrap();
                assert_eq!(found.unwrap(), [i as u8; 100][..]);
            }
            written?;
            acknowledged = i + 1;
        }
        Ok(mem.used_bytes())
    };
    let outcome = fill();
    (acknowledged, outcome)
}

#[test]
fn a_read_that_fails_is_an_error_and_the_next_one_may_succeed() {
    let mem = MemVfs::new();
    let options = Options {
        cache_bytes: 0,
        ..manual(&mem)
    };
    let db = Db::open(DIR, options).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let table = keyspace.table("users", TableOptions::default()).unwrap();
    for i in 0..500 {
        table
            .put(format!("key{i:03}").as_bytes(), &[7; 50])
            .unwrap();
    }
    db.flush().unwrap();

    mem.fail_next(FaultOp::Read, 1, Other);
    assert!(matches!(table.get(b"key123"), Err(Error::Io { .. })));
    assert_eq!(table.get(b"key123").unwrap().unwrap(), [7; 50][..]);

    for nth in 1..4 {
        mem.fail_next(FaultOp::Read, nth, Other);
        let mut seen = 0;
        let mut range = table.range::<&[u8], _>(..);
        let error = loop {
            match range.next().unwrap() {
                Ok((key, _)) => assert_eq!(key, format!("key{seen:03}")),
                Err(e) => break e,
            }
            seen += 1;
        };
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(range.next().is_none() && range.next_back().is_none());
    }
    assert_eq!(table.range::<&[u8], _>(..).count(), 500);
    // A read that fails does not stop writes.
    table.put(b"key123", b"new").unwrap();
}
