//! Processes that are killed in the middle of writes, on a real disk: what they
//! acknowledged is there.
//!
//! Several threads of the process write batches over two tables, one of them
//! creates snapshots, flushes and compactions run beside. Its standard output
//! says what was acknowledged; after a SIGKILL this process opens the store and
//! looks, then the next one goes on in the same directory.

mod protocol;
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
use protocol::{Acknowledged, WRITERS, busy_options, counter_key, key, value};

/// The hidden command of the soak tool that becomes the process to kill.
pub const WRITER_COMMAND: &str = "write-until-killed";
/// Processes killed one after the other in one directory.
const KILLS: u32 = 8;
/// A process is killed after so many acknowledgements at most.
const LINES_MAX: usize = 4000;

/// What the processes said before they were killed.
#[derive(Debug, Default)]
struct Said {
    /// The last batch of each writer.
    batches: BTreeMap<u32, u64>,
    /// Snapshots, by the batch of writer 0 before them.
    snapshots: Vec<u64>,
}

/// Kills processes of `program`, which is the soak tool. The seed says when,
/// counted in acknowledgements; the rest is up to the machine.
pub fn run(seed: u64, budget: &Budget, program: &Path) -> Report {
    let mut report = Report::default();
    let mut kill = || -> Result<()> {
        let mut rng = rng(seed);
        let dir = tempfile::tempdir()?;
        let mut said = Said::default();
        for kill in 0..KILLS {
            let lines = rng.random_range(1..LINES_MAX);
            write_until(program, dir.path(), lines, &mut said)?;
            report.count(Counter::Kills, 1);
            check(dir.path(), &said).with_context(|| format!("after kill {}", kill + 1))?;
            if budget.is_spent() {
                break;
            }
        }
        Ok(())
    };
    let outcome = caught(&mut kill);
    report.note(outcome, || format!("kills:{seed}"));
    report
}

/// Runs a process until it has said `lines` lines, then kills it. What is in
/// the pipe by then was acknowledged too.
fn write_until(program: &Path, dir: &Path, lines: usize, said: &mut Said) -> Result<()> {
    let mut child = Command::new(program)
        .arg(WRITER_COMMAND)
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let output = child.stdout.take().context("it has an output")?;
    let mut output = BufReader::new(output);
    let mut read = |said: &mut Said| -> Result<bool> {
        let mut line = String::new();
        if output.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        match line.strip_suffix('\n').and_then(Acknowledged::parse) {
            Some(Acknowledged::Batch { writer, n }) => drop(said.batches.insert(writer, n)),
            Some(Acknowledged::Snapshot { n }) => said.snapshots.push(n),
            None => ensure!(!line.ends_with('\n'), "unexpected line {line:?}"),
        }
        Ok(true)
    };
    let mut by_itself = false;
    for _ in 0..lines {
        if !read(said)? {
            by_itself = true;
            break;
        }
    }
    // One that ended by itself is gone already.
    let _ = child.kill();
    let status = child.wait()?;
    ensure!(!by_itself, "the process ended by itself: {status}");
    while read(said)? {}
    Ok(())
}

fn check(dir: &Path, said: &Said) -> Result<()> {
    let db = Db::open(dir, busy_options())?;
    db.verify()?;
    let keyspace = db.existing_keyspace("kill")?;
    let [a, b] = [keyspace.existing_table("a")?, keyspace.existing_table("b")?];
    for writer in 0..WRITERS {
        let (last_a, last_b) = (counter(&a, writer)?, counter(&b, writer)?);
        ensure!(last_a == last_b, "a batch of writer {writer} is torn");
        let acknowledged = said.batches.get(&writer).copied();
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
    for &n in &said.snapshots {
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

/// Counts a writer's batches, which must be 0, 1, 2, ... with their values.
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

    /// A store that lost an acknowledged batch, a snapshot, or half a batch.
    #[test]
    fn a_loss_is_caught() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), busy_options()).unwrap();
        let keyspace = db.keyspace("kill").unwrap();
        let [a, b] = ["a", "b"].map(|name| keyspace.table(name, Default::default()).unwrap());
        for n in 0..3 {
            db.write(batch([&a, &b], 0, n)).unwrap();
        }
        let mut said = Said::default();
        said.batches.insert(0, 2);
        drop((db, keyspace));
        let reopen = || {
            let db = Db::open(dir.path(), busy_options()).unwrap();
            let keyspace = db.existing_keyspace("kill").unwrap();
            keyspace.existing_table("b").unwrap()
        };
        drop((a, b));
        check(dir.path(), &said).unwrap();
        said.batches.insert(0, 3);
        assert!(check(dir.path(), &said).is_err());
        said.batches.insert(0, 2);
        said.snapshots.push(1);
        assert!(check(dir.path(), &said).is_err());
        said.snapshots.clear();
        reopen().delete(key(0, 1).as_bytes()).unwrap();
        assert!(check(dir.path(), &said).is_err());
    }
}
