//! Kills processes in the middle of writes, on a real disk, and checks that everything they
//! acknowledged is there.
//!
//! Several threads of the process write batches to two tables, and one of them creates snapshots.
//! Other threads do every kind of operation, each in keyspaces of its own, by a script that the
//! seed determines. Flushes and compactions run beside them. The process prints acknowledgements on
//! its standard output. After a SIGKILL, this process opens the store and compares; then the next
//! process continues in the same directory.
//!
//! For each script, the store must have everything acknowledged, and the next operation entirely or
//! not at all. The model determines the content.

mod protocol;
mod script;
mod writer;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use ebb_storage::{Db, SnapshotTable, Table};
use rand::RngExt;

pub use writer::write_until_killed;

use crate::caught::caught;
use crate::report::{Budget, Counter, Report};
use crate::seed::rng;
use protocol::{Acknowledged, SCRIPTS, WRITERS, busy_options, counter_key, key, store_dir, value};
use script::Script;

/// The hidden command of `soak` that runs it as the process to kill.
pub const WRITER_COMMAND: &str = "write-until-killed";
/// The number of processes that [`run`] kills, one after the other in one directory.
pub const KILLS: u32 = 8;
/// The limit (exclusive) on the random number of acknowledgements, of any kind, after which a
/// process with an even number is killed.
const LINES_MAX: usize = 4000;
/// The limit (exclusive) on the random number of acknowledged operations of scripts after which a
/// process with an odd number is killed. It is lower than [`LINES_MAX`], because operations of
/// scripts are slower than batches.
const OPERATIONS_MAX: usize = 200;

/// The parameters of a process that writes until it is killed. Several such processes write to the
/// same directory, one after the other. Each continues with what the recovery after the last kill
/// has left.
#[derive(Debug, Clone)]
pub struct Life {
    /// The seed of the scripts, random lists of operations that threads of the process run beside
    /// its batches.
    pub seed: u64,
    /// Number of processes that were killed in this directory before this one.
    pub number: u32,
    /// For each script, the number of operations that earlier processes have done.
    pub done: Vec<u64>,
}

/// Everything that the processes acknowledged before they were killed.
struct Acknowledgements {
    /// The number of the last acknowledged batch of each writer.
    batches: BTreeMap<u32, u64>,
    /// For each snapshot, the number of the last batch that writer 0 had written before it.
    snapshots: Vec<u64>,
    /// The scripts, each advanced by its acknowledged operations.
    scripts: Vec<Script>,
}

impl Acknowledgements {
    fn none(seed: u64) -> Self {
        Self {
            batches: BTreeMap::new(),
            snapshots: Vec::new(),
            scripts: (0..SCRIPTS)
                .map(|thread| Script::new(seed, thread))
                .collect(),
        }
    }

    fn note(&mut self, acknowledged: &Acknowledged) -> Result<()> {
        match *acknowledged {
            Acknowledged::Batch { writer, n } => drop(self.batches.insert(writer, n)),
            Acknowledged::Snapshot { n } => self.snapshots.push(n),
            Acknowledged::Operation { thread, done } => {
                let script = self.scripts.get_mut(thread as usize);
                let script = script.context("a thread that has no script")?;
                script.advance();
                ensure!(
                    script.done() == done,
                    "thread {thread} skipped an operation"
                );
            }
        }
        Ok(())
    }
}

/// Starts processes of `program`, which is the soak tool, one after another in one directory. Kills
/// each and checks what it left. The seed determines the number of acknowledgements after which
/// each process is killed, but not the interleaving of its threads. Each kill is a case of the
/// budget.
pub fn run(seed: u64, budget: &Budget, program: &Path) -> Report {
    let mut report = Report::default();
    let mut kill = || -> Result<()> {
        let mut rng = rng(seed);
        let dir = tempfile::tempdir()?;
        let mut acked = Acknowledgements::none(seed);
        for number in 0..KILLS {
            let end = match number % 2 {
                0 => End::Lines(rng.random_range(1..LINES_MAX)),
                _ => End::Operations(rng.random_range(1..OPERATIONS_MAX)),
            };
            let life = Life {
                seed,
                number,
                done: acked.scripts.iter().map(Script::done).collect(),
            };
            write_until(program, (dir.path(), &life), end, &mut acked)?;
            report.count(Counter::Kills, 1);
            check(dir.path(), &life, &mut acked)
                .with_context(|| format!("after kill {}", number + 1))?;
            if budget.is_spent_after(report.counted(Counter::Kills)) {
                break;
            }
        }
        Ok(())
    };
    let outcome = caught(&mut kill);
    report.note(outcome, || format!("kills:{seed}"));
    report
}

/// The event after which a process is killed: a number of acknowledgements of some kind.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The number of acknowledgements of any kind.
    Lines(usize),
    /// The number of acknowledged operations of scripts.
    Operations(usize),
}

/// Runs a process until `end`, then kills it. Adds its acknowledgements to `acked`, including those
/// that are in the pipe when it is killed.
fn write_until(
    program: &Path,
    (root, life): (&Path, &Life),
    end: End,
    acked: &mut Acknowledgements,
) -> Result<()> {
    let mut child = Command::new(program)
        .arg(WRITER_COMMAND)
        .arg(root)
        .args([life.seed.to_string(), life.number.to_string()])
        .args(life.done.iter().map(u64::to_string))
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let output = child.stdout.take().context("it has an output")?;
    let mut output = BufReader::new(output);
    // Reads a line, and returns how much nearer to the end it is; `None` if there are no more
    // lines.
    let mut read = |acked: &mut Acknowledgements| -> Result<Option<usize>> {
        let mut line = String::new();
        if output.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let acknowledged = line.strip_suffix('\n').and_then(Acknowledged::parse);
        match &acknowledged {
            Some(acknowledged) => acked.note(acknowledged)?,
            None => ensure!(!line.ends_with('\n'), "unexpected line {line:?}"),
        }
        let is_operation = matches!(acknowledged, Some(Acknowledged::Operation { .. }));
        let counts = is_operation || matches!(end, End::Lines(_));
        Ok(Some(counts.into()))
    };
    let (End::Lines(mut left) | End::Operations(mut left)) = end;
    let mut by_itself = false;
    while left > 0 && !by_itself {
        match read(acked)? {
            Some(nearer) => left -= nearer,
            None => by_itself = true,
        }
    }
    // This fails if the process has already ended by itself.
    let _ = child.kill();
    let status = child.wait()?;
    ensure!(!by_itself, "the process ended by itself: {status}");
    while read(acked)?.is_some() {}
    Ok(())
}

/// Opens the store after the process `life` was killed, and compares it with what was acknowledged.
/// An operation that was done without being acknowledged counts as acknowledged from then on.
fn check(root: &Path, life: &Life, acked: &mut Acknowledgements) -> Result<()> {
    let db = Db::open(store_dir(root), busy_options(life))?;
    db.verify()?;
    for script in &mut acked.scripts {
        script
            .check(&db)
            .with_context(|| format!("thread {}", script.thread()))?;
    }
    let keyspace = db.existing_keyspace("kill")?;
    let [a, b] = [keyspace.existing_table("a")?, keyspace.existing_table("b")?];
    for writer in 0..WRITERS {
        let (last_a, last_b) = (counter(&a, writer)?, counter(&b, writer)?);
        ensure!(last_a == last_b, "a batch of writer {writer} is torn");
        let acknowledged = acked.batches.get(&writer).copied();
        ensure!(
            last_a >= acknowledged,
            "writer {writer} lost {acknowledged:?}, has {last_a:?}"
        );
        let Some(last) = last_a else { continue };
        for table in [&a, &b] {
            let batches = all_of(table.range(prefix(writer)), writer)?;
            ensure!(
                batches == last + 1,
                "writer {writer} has {batches} batches and counted {last}"
            );
        }
    }
    for &n in &acked.snapshots {
        let snapshot = keyspace.snapshot(&format!("at-{n}"))?;
        let [a, b] = [snapshot.table("a")?, snapshot.table("b")?];
        let count = |table: &SnapshotTable, writer| all_of(table.range(prefix(writer)), writer);
        ensure!(
            count(&a, 0)? == n + 1,
            "snapshot at-{n} has another content"
        );
        for writer in 0..WRITERS {
            ensure!(
                count(&a, writer)? == count(&b, writer)?,
                "snapshot at-{n} tears a batch of writer {writer}"
            );
        }
    }
    Ok(())
}

fn counter(table: &Table, writer: u32) -> Result<Option<u64>> {
    match table.get(counter_key(writer).as_bytes())? {
        Some(value) => Ok(Some(std::str::from_utf8(&value)?.parse()?)),
        None => Ok(None),
    }
}

fn prefix(writer: u32) -> std::ops::Range<String> {
    format!("w{writer}-")..format!("w{writer}.")
}

/// Counts the batches of a writer in `range`.
///
/// # Errors
/// If a batch of the sequence 0, 1, 2, ... is missing before the last one, or has a wrong value.
fn all_of(range: ebb_storage::Range, writer: u32) -> Result<u64> {
    let mut n = 0;
    for entry in range {
        let (found_key, found_value) = entry?;
        ensure!(
            found_key == key(writer, n) && found_value == value(writer, n),
            "writer {writer}: {found_key:?} where batch {n} should be, or another value"
        );
        n += 1;
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::protocol::batch;
    use super::*;
    use crate::session::{Session, read_prefixed};

    fn life() -> Life {
        Life {
            seed: 1,
            number: 0,
            done: vec![0; SCRIPTS as usize],
        }
    }

    /// The check fails for a store that lost an acknowledged batch or a snapshot, or that has only
    /// half of a batch.
    #[test]
    fn a_loss_is_caught() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let open = || Db::open(store_dir(root), busy_options(&life())).unwrap();
        let db = open();
        let keyspace = db.keyspace("kill").unwrap();
        let [a, b] = ["a", "b"].map(|name| keyspace.table(name, Default::default()).unwrap());
        for n in 0..3 {
            db.write(batch([&a, &b], 0, n)).unwrap();
        }
        let mut acked = Acknowledgements::none(1);
        acked.batches.insert(0, 2);
        drop((db, keyspace, a, b));
        check(root, &life(), &mut acked).unwrap();
        acked.batches.insert(0, 3);
        assert!(check(root, &life(), &mut acked).is_err());
        acked.batches.insert(0, 2);
        acked.snapshots.push(1);
        assert!(check(root, &life(), &mut acked).is_err());
        acked.snapshots.clear();
        let keyspace = open().existing_keyspace("kill").unwrap();
        let b = keyspace.existing_table("b").unwrap();
        b.delete(key(0, 1).as_bytes()).unwrap();
        drop((keyspace, b));
        assert!(check(root, &life(), &mut acked).is_err());
    }

    /// The store may have one operation beyond the last acknowledged one, but not two, and no
    /// acknowledged operation may be missing.
    #[test]
    fn an_operation_lost_or_out_of_nowhere_is_caught() {
        let root = tempfile::tempdir().unwrap();
        let db = Db::open(store_dir(root.path()), busy_options(&life())).unwrap();
        let mut script = Script::new(1, 0);
        let setup = script.setup(root.path(), busy_options(&life()));
        let mut session = Session::over(db.clone(), setup);
        let mut visible = Vec::new();
        while visible.len() < 100 {
            let before = read_prefixed(&db, &script.prefix()).unwrap();
            let operation = script.next().clone();
            assert_eq!(session.apply(&operation).unwrap(), script.advance());
            if read_prefixed(&db, &script.prefix()).unwrap() != before {
                visible.push(script.done());
            }
        }
        let done = script.done();
        let check_after = |acknowledged| {
            let mut script = Script::new(1, 0);
            script.advance_to(acknowledged);
            script.check(&db).map(|()| script.done())
        };
        assert_eq!(check_after(done - 1).unwrap(), done);
        assert!((done..=done + 1).contains(&check_after(done).unwrap()));
        let before = visible[visible.len() - 2];
        assert!(check_after(before - 1).is_err(), "two operations too many");
        let mut ahead = Script::new(1, 0);
        ahead.advance_to(done);
        while ahead.world().seen() == script.world().seen() {
            ahead.advance();
        }
        assert!(check_after(ahead.done()).is_err(), "one is lost");
    }
}
