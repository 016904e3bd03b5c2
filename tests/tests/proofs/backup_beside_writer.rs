//! Backups of a database that is written to meanwhile, with a power loss at any call.
//!
//! ```text
//!   calls of the backup     1      2      3     ...     n
//!   the writer           W1     W2     W3    ...     Wn
//! ```
//!
//! Before each I/O call of the backup, a writer does one operation: a write, an ingest, a snapshot, a
//! flush or a merge of runs, for example. The writer works in the thread of the backup, so a seed
//! gives the same order of calls in each run, and power can be lost at any of them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use ebb_storage::{BackupInfo, Db};
use ebb_test_support::seed::for_seeds;
use ebb_tests::disk::{DIR, MemDisk};
use ebb_tests::made::{Made, open_at};
use ebb_tests::model::World;
use ebb_tests::operation::{Generator, Mix, Operation};
use ebb_tests::seed::{PrintOnPanic, rng};
use ebb_tests::session::read_everything;

use crate::backup::{TARGET, assert_is_no_database, assert_no_links, database, move_target_away};

/// The number of operations before the backup.
const OPERATIONS_BEFORE: usize = 120;
/// The number of I/O calls, spread evenly over a backup and the writer's operations, at which power
/// is lost, each in a run of its own. Power is also lost at the last calls of the backup.
const SPREAD: u64 = 40;
/// The number of the backup's last calls at which power is lost, beside one for each of its files: in
/// these calls the directory becomes a database, and then the links are removed one by one.
const LAST: usize = 30;

/// The operations of the writer. The clock stands still, so that the content at any instant can be
/// compared with what a backup shows later.
fn mix(is_elsewhere: bool) -> Mix {
    Mix {
        advance: 0,
        reopen: 0,
        backup: 0,
        // An ingest links files. The faults of `move_target_away` would meet these links, too.
        ingest: if is_elsewhere { 0 } else { Mix::CHANGES.ingest },
        ..Mix::CHANGES
    }
}

/// A writer that does its operations before the I/O calls of a backup.
struct Writer {
    made: Made,
    mem: MemDisk,
    generator: Generator,
    /// The number of I/O calls before the backup.
    calls_before: u64,
    written: Written,
}

/// The history of a writer during a backup.
struct Written {
    /// The content when the backup began, and after each acknowledged operation.
    worlds: Vec<World>,
    /// The operation in which power was lost; `None` if power was lost in a call of the backup, or
    /// not at all.
    under_way: Option<Operation>,
    /// The backup's own I/O calls: the number of each among all calls since the backup began,
    /// counted from 1.
    backup_calls: Vec<u64>,
}

impl Writer {
    /// Does the next operation, unless the disk has lost power. Notes the call of the backup that
    /// comes next.
    fn write(&mut self) {
        if !self.mem.has_power() {
            return;
        }
        let operation = self.generator.operation();
        match self.made.apply(&operation) {
            Ok(()) => self.written.worlds.push(self.made.world.clone()),
            Err(error) => {
                assert!(!self.mem.has_power(), "{error:#}");
                self.written.under_way = Some(operation);
            }
        }
        let call = self.mem.io_calls() + 1 - self.calls_before;
        self.written.backup_calls.push(call);
    }
}

/// Backs up `made` while a writer writes to it. Then closes the database.
fn back_up(
    seed: u64,
    mem: &MemDisk,
    made: Made,
    mix: Mix,
) -> (ebb_storage::Result<BackupInfo>, Written) {
    let db = made.session.db().clone();
    let writer = Arc::new(Mutex::new(Writer {
        written: Written {
            worlds: vec![made.world.clone()],
            under_way: None,
            backup_calls: Vec::new(),
        },
        made,
        mem: mem.clone(),
        // Not the operations with which the database was made.
        generator: Generator::new(rng(seed ^ 0xbac), mix),
        calls_before: mem.io_calls(),
    }));
    let writes = Arc::clone(&writer);
    mem.before_each_call(move || writes.lock().unwrap().write());
    let outcome = db.backup(TARGET);
    mem.end_event();
    let writer = Arc::into_inner(writer).expect("the event had the other reference");
    let Writer { written, .. } = writer.into_inner().unwrap();
    (outcome, written)
}

impl Written {
    /// Returns the content after the last acknowledged operation.
    fn last(&self) -> &World {
        self.worlds.last().expect("there is one at the beginning")
    }

    /// Asserts that a database has everything that was acknowledged, and the operation in which
    /// power was lost whole or not at all.
    fn assert_kept(&self, db: &Db) {
        db.verify().unwrap();
        let found = read_everything(db).unwrap();
        let mut after = self.last().clone();
        if let Some(operation) = &self.under_way {
            after.apply(operation);
        }
        let last = self.last().seen();
        let is_kept = found == last || found == after.seen();
        assert!(is_kept, "{}", found.difference(&last));
    }

    /// Returns the numbers of the calls at which power is lost, each in a run of its own: some that
    /// are spread evenly over all calls, also those of the writer, and the last `last` calls of the
    /// backup. At the greatest number the backup has completed before.
    fn calls_to_fail(&self, seed: u64, last: usize) -> BTreeSet<u64> {
        let end = self.backup_calls.last().map_or(1, |call| call + 1);
        let stride = end.div_ceil(SPREAD);
        let spread = (1..end).filter(|call| call % stride == seed % stride);
        let of_backup = self.backup_calls.iter().rev().take(last).copied();
        spread.chain(of_backup).chain([end]).collect()
    }
}

/// In every other seed the target is on another file system.
#[test]
fn power_lost_beside_a_writer_leaves_one_instant_of_all_tables_or_no_database() {
    let test = "power_lost_beside_a_writer_leaves_one_instant_of_all_tables_or_no_database";
    for_seeds(test, 2, |seed| {
        let is_elsewhere = seed % 2 == 1;
        let run = |files: u64, crash_at: Option<u64>| {
            let mem = MemDisk::new();
            let made = database(seed, &mem, OPERATIONS_BEFORE);
            move_target_away(&mem, files);
            if let Some(call) = crash_at {
                mem.crash_at(call);
            }
            let (outcome, written) = back_up(seed, &mem, made, mix(is_elsewhere));
            (mem, outcome, written)
        };
        let (_, info, written) = run(0, None);
        let all = info.unwrap().files;
        let (files, written) = if is_elsewhere {
            let (_, info, written) = run(all, None);
            assert_eq!(info.unwrap().linked_bytes, 0);
            (all, written)
        } else {
            (0, written)
        };
        let last_calls = LAST + usize::try_from(all).unwrap();
        let (mut refused, mut complete, mut older) = (0, 0, 0);
        for call in written.calls_to_fail(seed, last_calls) {
            let _case = PrintOnPanic(format!("power lost at call {call}"));
            let (mem, outcome, written) = run(files, Some(call));
            mem.restart(seed * 1000 + call);
            let last = written.last();
            written.assert_kept(&open_at(&mem, DIR, last).unwrap());
            assert_no_links(&mem);
            match open_at(&mem, TARGET, last) {
                Ok(copy) => {
                    copy.verify().unwrap();
                    let found = read_everything(&copy).unwrap();
                    // All tables and snapshots are those of one instant.
                    let mut worlds = written.worlds.iter();
                    let was_current = worlds.any(|world| world.seen() == found);
                    assert!(was_current, "{}", found.difference(&last.seen()));
                    if let Ok(info) = outcome {
                        assert_eq!(info.damaged, []);
                    }
                    older += u32::from(found != last.seen());
                    complete += 1;
                }
                Err(error) => {
                    assert!(outcome.is_err(), "{error}");
                    assert_is_no_database(&error);
                    refused += 1;
                }
            }
        }
        // The writer wrote after the instant that the backups show.
        assert!(refused > 0 && complete > 0 && older > 0);
    });
}
