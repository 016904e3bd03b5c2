//! What creating a snapshot takes beside busy writers, against a commit of one
//! entry.
//!
//! One thread does both in turns, so that both meet the same writers and the same
//! scheduler; others write in a closed loop. A time is that of the whole call, and
//! so at least that in the commit queue.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use ebb_storage::{Db, Durability, Keyspace, Options, Table, TableOptions};
use serde::Serialize;

use crate::console::{progress_bar, stop_on_interrupt, temporary_directory, write_json};
use crate::threads::value_of;
use crate::ycsb::{KEY_BYTES, Stamp, key, write_value};

/// Length of a value, in bytes: an entry has 116, key included.
const VALUE_BYTES: usize = 116 - KEY_BYTES;
/// Records that all write.
const RECORDS: u64 = 100_000;

/// Who writes, and how often it is measured.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CreationArgs {
    /// Threads that write meanwhile
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub writers: u64,

    /// Snapshots to create, and commits to measure beside them
    #[arg(long, value_name = "N", default_value_t = 5000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub samples: u64,

    /// Wait for an fsync at each commit, snapshots included
    #[arg(long)]
    pub sync: bool,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What it came to.
#[derive(Debug, Serialize)]
struct Outcome {
    writers: u64,
    samples: u64,
    sync: bool,
    /// Commits per second of the writers.
    writes_per_s: f64,
    commit: Latencies,
    creation: Latencies,
    /// The p99 of creations over that of commits.
    creation_over_commit_p99: f64,
    /// The longest that a write was held up for background work, in microseconds.
    write_wait_us_max: u64,
}

/// In microseconds.
#[derive(Debug, Serialize)]
struct Latencies {
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

/// Runs the experiment, prints its table, writes its JSON.
pub fn run(args: &CreationArgs) -> Result<()> {
    let dir = temporary_directory("creation")?;
    let mut options = Options::default();
    if args.sync {
        options.durability = Durability::Sync;
    }
    let db = Db::open(dir.path(), options)?;
    let keyspace = db.keyspace("creation")?;
    let table = keyspace.table("entries", TableOptions::default())?;
    let interrupted = stop_on_interrupt()?;

    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let started = Instant::now();
    let measured = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..args.writers)
            .map(|writer| {
                let (table, is_over, written) = (&table, &is_over, &written);
                scope.spawn(move || -> Result<()> {
                    let mut value = Vec::new();
                    for version in 1.. {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        let number = (version * args.writers + writer) % RECORDS;
                        put(table, &mut value, Stamp { number, version })?;
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let measured = measure(args.samples, &keyspace, &table, &interrupted);
        is_over.store(true, Ordering::Relaxed);
        for writer in writers {
            value_of(writer.join())?;
        }
        measured
    });
    let elapsed_s = started.elapsed().as_secs_f64();
    let (commits, creations) = measured?;
    let (commit, creation) = (Latencies::of(commits), Latencies::of(creations));
    let outcome = Outcome {
        writers: args.writers,
        samples: args.samples,
        sync: args.sync,
        writes_per_s: written.into_inner() as f64 / elapsed_s,
        creation_over_commit_p99: creation.p99_us / commit.p99_us,
        commit,
        creation,
        write_wait_us_max: db.stats().write_wait_us_max,
    };
    print!("{outcome}");
    write_json(args.json.as_deref(), &outcome)
}

/// Microseconds of so many commits, and of as many creations.
fn measure(
    samples: u64,
    keyspace: &Keyspace,
    table: &Table,
    interrupted: &AtomicBool,
) -> Result<(Vec<f64>, Vec<f64>)> {
    const SNAPSHOT: &str = "measured";
    let (mut commits, mut creations) = (Vec::new(), Vec::new());
    let mut value = Vec::new();
    let bar = progress_bar("create", samples);
    for version in 0..samples {
        ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
        let number = version % RECORDS;
        commits.push(time_us(|| {
            put(table, &mut value, Stamp { number, version })
        })?);
        creations.push(time_us(|| Ok(keyspace.create_snapshot(SNAPSHOT)?))?);
        keyspace.delete_snapshot(SNAPSHOT)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((commits, creations))
}

fn put(table: &Table, value: &mut Vec<u8>, stamp: Stamp) -> Result<()> {
    write_value(value, stamp, VALUE_BYTES);
    Ok(table.put(&key(stamp.number), value)?)
}

fn time_us(call: impl FnOnce() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    call()?;
    Ok(started.elapsed().as_secs_f64() * 1e6)
}

impl Latencies {
    /// Of at least one.
    fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let last = samples.len() - 1;
        Self {
            p50_us: samples[last / 2],
            p99_us: samples[last * 99 / 100],
            max_us: samples[last],
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<12} {:>10} {:>10} {:>10}", "us", "p50", "p99", "max")?;
        for (name, times) in [("commit", &self.commit), ("creation", &self.creation)] {
            let Latencies {
                p50_us,
                p99_us,
                max_us,
            } = times;
            writeln!(f, "{name:<12} {p50_us:>10.1} {p99_us:>10.1} {max_us:>10.1}")?;
        }
        writeln!(
            f,
            "p99 of creation over commit {:.2}; {} writers, {:.0} commits/s; writes held up for at most {:.1} ms",
            self.creation_over_commit_p99,
            self.writers,
            self.writes_per_s,
            self.write_wait_us_max as f64 / 1e3,
        )
    }
}

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments snapshot-creation
  ebb-bench experiments snapshot-creation --sync --json-file creation.json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_samples() {
        let samples = (1..=101).rev().map(f64::from).collect();
        let Latencies {
            p50_us,
            p99_us,
            max_us,
        } = Latencies::of(samples);
        assert_eq!((p50_us, p99_us, max_us), (51.0, 100.0, 101.0));
        assert_eq!(Latencies::of(vec![3.0]).p99_us, 3.0);
    }
}
