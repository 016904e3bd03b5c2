//! A process that is killed in the middle of writes loses nothing that it
//! acknowledged.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use ebb_storage::{Db, SnapshotTable, Table};
use ebb_tests::{Acknowledged, WRITERS, busy_options, counter_key, key, value};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How often the process is killed; `EBB_KILLS` for more.
const KILLS: u32 = 8;

/// What the process said before it was killed.
#[derive(Debug, Default)]
struct Said {
    /// The last batch of each writer.
    batches: BTreeMap<u32, u64>,
    /// Snapshots, by the batch of writer 0 before them.
    snapshots: Vec<u64>,
}

#[test]
fn what_was_acknowledged_before_a_sigkill_is_there_after_it() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("EBB_SEED").unwrap_or_else(rand::random::<u32>);
    let kills = number("EBB_KILLS").unwrap_or(KILLS);
    println!("replay with EBB_SEED={seed}");
    let mut random = ChaCha8Rng::seed_from_u64(u64::from(seed));
    let dir = tempfile::tempdir().unwrap();
    let mut said = Said::default();
    for kill in 0..kills {
        let lines = random.random_range(1..4000);
        write_until(dir.path(), lines, &mut said);
        check(dir.path(), &said, kill);
    }
}

/// Runs the writing process until it has said `lines` lines, then kills it.
/// What is in the pipe by then was acknowledged too.
fn write_until(dir: &Path, lines: usize, said: &mut Said) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_writer"))
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut read = |said: &mut Said| {
        let mut line = String::new();
        if output.read_line(&mut line).unwrap() == 0 {
            return false;
        }
        match line.strip_suffix('\n').and_then(Acknowledged::parse) {
            Some(Acknowledged::Batch { writer, n }) => drop(said.batches.insert(writer, n)),
            Some(Acknowledged::Snapshot { n }) => said.snapshots.push(n),
            None => assert!(!line.ends_with('\n'), "unexpected line {line:?}"),
        }
        true
    };
    for _ in 0..lines {
        assert!(read(said), "the writer ended by itself");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    while read(said) {}
}

fn check(dir: &Path, said: &Said, kill: u32) {
    let db = Db::open(dir, busy_options()).unwrap();
    db.verify().unwrap();
    let keyspace = db.existing_keyspace("kill").unwrap();
    let [a, b] = ["a", "b"].map(|name| keyspace.existing_table(name).unwrap());
    for writer in 0..WRITERS {
        let (last_a, last_b) = (counter(&a, writer), counter(&b, writer));
        assert_eq!(
            last_a, last_b,
            "kill {kill}: a batch of writer {writer} is torn"
        );
        let acknowledged = said.batches.get(&writer).copied();
        assert!(
            last_a >= acknowledged,
            "kill {kill}: writer {writer} lost {acknowledged:?}, has {last_a:?}"
        );
        let Some(last) = last_a else { continue };
        for table in [&a, &b] {
            assert_eq!(
                all_of(table.range(prefix(writer)), writer),
                last + 1,
                "kill {kill}: writer {writer}"
            );
        }
    }
    for &n in &said.snapshots {
        let snapshot = keyspace.snapshot(&format!("at-{n}")).unwrap();
        let [a, b] = ["a", "b"].map(|name| snapshot.table(name).unwrap());
        assert_eq!(
            all_of(a.range(prefix(0)), 0),
            n + 1,
            "kill {kill}: snapshot at-{n}"
        );
        for writer in 0..WRITERS {
            let count = |table: &SnapshotTable| all_of(table.range(prefix(writer)), writer);
            assert_eq!(
                count(&a),
                count(&b),
                "kill {kill}: snapshot at-{n} tears a batch of writer {writer}"
            );
        }
    }
}

fn counter(table: &Table, writer: u32) -> Option<u64> {
    let value = table.get(counter_key(writer).as_bytes()).unwrap()?;
    Some(std::str::from_utf8(&value).unwrap().parse().unwrap())
}

fn prefix(writer: u32) -> std::ops::Range<String> {
    format!("w{writer}-")..format!("w{writer}.")
}

/// Counts a writer's batches, which must be 0, 1, 2, ... with their values.
fn all_of(range: ebb_storage::Range, writer: u32) -> u64 {
    let mut n = 0;
    for entry in range {
        let (found_key, found_value) = entry.unwrap();
        assert_eq!(
            (found_key, found_value),
            (key(writer, n).into(), value(writer, n).into())
        );
        n += 1;
    }
    n
}
