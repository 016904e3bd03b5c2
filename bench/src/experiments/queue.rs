//! A table used as a queue: the time to read its first entry, compared with an empty table.
//!
//! Entries are put at the end and deleted at the front, so the table keeps few entries while the
//! number of deleted ones grows. At equal distances the first entry of both tables is read, in
//! turns.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebb_storage::{Db, Durability, Options, Table as StoreTable, TableOptions};
use serde::Serialize;

use super::statistics::median;
use super::table::Table;
use crate::console::{progress_bar, stop_on_interrupt, write_json};

/// Length of a value, in bytes.
const VALUE_BYTES: usize = 100;
/// Reads of a first entry whose median counts as one.
const LOOKS: usize = 5;

/// The length of the queue, and how often its first entry is read.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct QueueArgs {
    /// Entries to put; all but those of the queue's length are deleted
    #[arg(long, value_name = "N", default_value_t = 10_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub entries: u64,

    /// Entries in the queue
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub length: u64,

    /// Entries between two reads of the first entry
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub every: u64,

    /// Delete the entries between two reads by one range
    #[arg(long)]
    pub delete_range: bool,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The result of the experiment.
#[derive(Debug, Serialize)]
struct Outcome {
    entries: u64,
    length: u64,
    delete_range: bool,
    /// Puts and deletes per second; the time of the reads is included.
    writes_per_s: f64,
    /// Time to read the first entry of the queue, in microseconds.
    front: Times,
    /// Time to read the first entry of an empty table, in microseconds.
    empty: Times,
    /// `front` over `empty`, read by read.
    ratio: Times,
    /// The ratio after everything was flushed and merged.
    settled_ratio: f64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Times {
    median: f64,
    p99: f64,
    max: f64,
}

impl Times {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |quantile: f64| values[((values.len() - 1) as f64 * quantile).round() as usize];
        Self {
            median: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

/// Runs the experiment, prints its table, writes its JSON.
///
/// # Errors
/// When the store or the disk fails, the first entry is the wrong one, or the user interrupts the
/// run.
pub fn run(args: &QueueArgs) -> Result<()> {
    ensure!(
        args.entries >= args.every + args.length,
        "--entries has to be at least --every and --length together"
    );
    let dir = tempfile::Builder::new().prefix("ebb-queue-").tempdir();
    let dir = dir.context("cannot create a temporary directory")?;
    let options = Options {
        durability: Durability::Os,
        ..Options::default()
    };
    let db = Db::open(dir.path(), options)?;
    let keyspace = db.keyspace("app")?;
    let queue = keyspace.table("queue", TableOptions::default())?;
    let empty = keyspace.table("empty", TableOptions::default())?;
    let interrupted = stop_on_interrupt()?;
    let bar = progress_bar("queue", args.entries);
    let (mut fronts, mut empties) = (Vec::new(), Vec::new());
    let mut first = 0;
    let started = Instant::now();
    for next in 0..args.entries {
        queue.put(&next.to_be_bytes(), &[7; VALUE_BYTES])?;
        if next - first >= args.length && !args.delete_range {
            queue.delete(&first.to_be_bytes())?;
            first += 1;
        }
        if (next + 1).is_multiple_of(args.every) {
            ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
            if args.delete_range && next > args.length {
                let end = next - args.length;
                queue.delete_range(first.to_be_bytes()..end.to_be_bytes())?;
                first = end;
            }
            fronts.push(look(&queue, Some(first))?);
            empties.push(look(&empty, None)?);
            bar.set_position(next);
        }
    }
    let elapsed_s = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    db.flush()?;
    db.compact()?;
    let settled_ratio = look(&queue, Some(first))? / look(&empty, None)?;
    let ratios = fronts.iter().zip(&empties);
    let outcome = Outcome {
        entries: args.entries,
        length: args.length,
        delete_range: args.delete_range,
        writes_per_s: (args.entries + first) as f64 / elapsed_s,
        ratio: Times::of(ratios.map(|(front, empty)| front / empty).collect()),
        front: Times::of(fronts),
        empty: Times::of(empties),
        settled_ratio,
    };
    outcome.table().print();
    println!(
        "settled: {:.2} times; {:.0} writes/s",
        outcome.settled_ratio, outcome.writes_per_s
    );
    args.json
        .as_ref()
        .map_or(Ok(()), |path| write_json(path, &outcome))
}

/// Returns the time to read the first entry of a table, in microseconds. Fails if the first entry
/// is not `expected`.
fn look(table: &StoreTable, expected: Option<u64>) -> Result<f64> {
    let mut times_us = [0.0; LOOKS];
    for time_us in &mut times_us {
        let asked = Instant::now();
        let first = table.range::<&[u8], _>(..).next().transpose()?;
        *time_us = asked.elapsed().as_secs_f64() * 1e6;
        let first = first.map(|(key, _)| key.to_vec());
        let expected = expected.map(|number| number.to_be_bytes().to_vec());
        ensure!(
            first == expected,
            "the front is {first:?}, not {expected:?}"
        );
    }
    Ok(median(times_us))
}

impl Outcome {
    fn table(&self) -> Table {
        let row = |name: &str, times: Times| {
            let cells = [times.median, times.p99, times.max].map(|value| format!("{value:.1}"));
            std::iter::once(name.to_string()).chain(cells).collect()
        };
        Table {
            title: format!(
                "The front of a queue of {} behind {} that were deleted",
                self.length,
                self.entries - self.length
            ),
            head: ["", "median", "p99", "max"].map(String::from).to_vec(),
            rows: vec![
                row("front (us)", self.front),
                row("empty table (us)", self.empty),
                row("ratio", self.ratio),
            ],
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments queue
  ebb-bench experiments queue --entries 1000000
  ebb-bench experiments queue --delete-range --json-file queue.json

The database lies in a temporary directory (TMPDIR) and goes with the run.";
