//! The cost of snapshots for reads of the live data.
//!
//! Three databases get the same records and the same overwrites: one holds snapshots that
//! were created on the way, one holds none, and one holds none and is merged into one run
//! at the end. When no merge is due any more, all are read in turns. The third database shows how
//! much of a difference comes from the number of runs: a harness that measures "no snapshots" right
//! after loading compares with it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebb_storage::{Db, Keyspace, Options, SnapshotTable, Table as StoreTable, TableOptions};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::statistics::median;
use super::table::Table;
use crate::console::{progress_bar, stop_on_interrupt, write_json};
use crate::number::fixed;
use crate::ycsb::{Stamp, key, read_stamp, write_value};

/// Length of a value, in bytes.
const VALUE_BYTES: usize = 100;
/// Reads of one database, then of the next.
const READS: usize = 20_000;

/// The amount of data, and the number of snapshots.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct HeldArgs {
    /// Records
    #[arg(long, value_name = "N", default_value_t = 500_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub records: u64,

    /// Overwrites of random records
    #[arg(long, value_name = "N", default_value_t = 2_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub overwrites: u64,

    /// Snapshots, created at equal distances between the overwrites
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub snapshots: u64,

    /// Size at which a memtable is flushed, in MiB
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub memtable_mb: u64,

    /// Rounds in which all are read
    #[arg(long, value_name = "N", default_value_t = 15,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: u64,

    /// The same seed overwrites and reads the same records
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A database that is read.
struct Case {
    name: &'static str,
    db: Db,
    keyspace: Keyspace,
    table: StoreTable,
}

/// The latency of reads of one case, over all rounds.
#[derive(Debug, Serialize)]
struct Measured {
    name: &'static str,
    runs: usize,
    p50_us: f64,
    p99_us: f64,
    /// The p50 over that of the case `none` in the same round; the median of all rounds.
    p50_ratio: f64,
}

/// Runs the experiment, prints its table, writes its JSON.
///
/// # Errors
/// When the store or the disk fails, a record is missing, or the user interrupts the run.
pub fn run(args: &HeldArgs) -> Result<()> {
    let dir = tempfile::Builder::new().prefix("ebb-held-").tempdir();
    let dir = dir.context("cannot create a temporary directory")?;
    let stop = stop_on_interrupt()?;
    let open = |name| Case::open(name, &dir.path().join(name), args);
    let cases = [open("none")?, open("held")?, open("one run")?];
    for case in &cases {
        case.fill(args, case.name == "held", &stop)?;
    }
    cases[2].db.compact()?;
    let oldest = cases[1].keyspace.snapshot("s0")?.table("records")?;
    let reads: [(&str, &Case, Option<&SnapshotTable>); 4] = [
        ("none", &cases[0], None),
        ("held, now", &cases[1], None),
        ("held, oldest", &cases[1], Some(&oldest)),
        ("one run", &cases[2], None),
    ];
    let mut rng = ChaCha8Rng::seed_from_u64(args.seed ^ 1);
    let mut quantiles: [Vec<(f64, f64)>; 4] = Default::default();
    let bar = progress_bar("read", args.rounds);
    // The first round fills the caches.
    for round in 0..=args.rounds {
        for turn in 0..reads.len() {
            ensure!(!stop.load(Ordering::Relaxed), "interrupted");
            // Each case is the first of a round in turn.
            let which = (turn + round as usize) % reads.len();
            let (_, case, snapshot) = reads[which];
            let measured = case.read(snapshot, args.records, &mut rng)?;
            if round > 0 {
                quantiles[which].push(measured);
            }
        }
        bar.set_position(round);
    }
    bar.finish_and_clear();
    let measured: Vec<_> = reads
        .iter()
        .zip(&quantiles)
        .map(|((name, case, _), own)| Measured {
            name,
            runs: case.db.stats().tables[0].runs.len(),
            p50_us: median(own.iter().map(|(p50, _)| *p50)),
            p99_us: median(own.iter().map(|(_, p99)| *p99)),
            p50_ratio: median(
                own.iter()
                    .zip(&quantiles[0])
                    .map(|(own, none)| own.0 / none.0),
            ),
        })
        .collect();
    table(args, &measured).print();
    args.json
        .as_ref()
        .map_or(Ok(()), |path| write_json(path, &measured))
}

impl Case {
    fn open(name: &'static str, dir: &Path, args: &HeldArgs) -> Result<Self> {
        let options = Options {
            memtable_bytes: (args.memtable_mb << 20) as usize,
            ..Options::default()
        };
        let db = Db::open(dir, options)?;
        let keyspace = db.keyspace("app")?;
        let table = keyspace.table("records", TableOptions::default())?;
        Ok(Self {
            name,
            db,
            keyspace,
            table,
        })
    }

    /// Loads and overwrites records, and waits until no merge is due. Creates snapshots if `hold`.
    fn fill(&self, args: &HeldArgs, hold: bool, stop: &AtomicBool) -> Result<()> {
        let bar = progress_bar(self.name, args.records + args.overwrites);
        let mut rng = ChaCha8Rng::seed_from_u64(args.seed);
        let mut value = Vec::new();
        let every = args.overwrites.div_ceil(args.snapshots);
        for step in 0..args.records + args.overwrites {
            let (number, version) = match step.checked_sub(args.records) {
                None => (step, 0),
                Some(overwrite) => (rng.random_range(0..args.records), overwrite + 1),
            };
            let overwrites = step.checked_sub(args.records);
            if let Some(nth) = overwrites.filter(|done| hold && done.is_multiple_of(every)) {
                self.keyspace
                    .create_snapshot(&format!("s{}", nth / every))?;
            }
            write_value(&mut value, Stamp { number, version }, VALUE_BYTES);
            self.table.put(&key(number), &value)?;
            if step.is_multiple_of(10_000) {
                ensure!(!stop.load(Ordering::Relaxed), "interrupted");
                bar.set_position(step);
            }
        }
        self.db.flush()?;
        loop {
            let stats = self.db.stats();
            if stats.compaction_debt_bytes == 0 && stats.compactions_running == 0 {
                break;
            }
            ensure!(!stop.load(Ordering::Relaxed), "interrupted");
            std::thread::park_timeout(Duration::from_millis(50));
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Returns the p50 and p99 of reads of random records, in microseconds.
    fn read(
        &self,
        snapshot: Option<&SnapshotTable>,
        records: u64,
        rng: &mut ChaCha8Rng,
    ) -> Result<(f64, f64)> {
        let mut times_us = Vec::with_capacity(READS);
        for _ in 0..READS {
            let number = rng.random_range(0..records);
            let key = key(number);
            let asked = Instant::now();
            let value = match snapshot {
                None => self.table.get(&key)?,
                Some(snapshot) => snapshot.get(&key)?,
            };
            times_us.push(asked.elapsed().as_secs_f64() * 1e6);
            let stamp = value.and_then(|value| read_stamp(&value));
            ensure!(
                stamp.is_some_and(|stamp| stamp.number == number),
                "record {number} of {} is gone",
                self.name
            );
        }
        times_us.sort_by(f64::total_cmp);
        Ok((times_us[READS / 2], times_us[READS * 99 / 100]))
    }
}

fn table(args: &HeldArgs, measured: &[Measured]) -> Table {
    let row = |case: &Measured| {
        vec![
            case.name.to_string(),
            case.runs.to_string(),
            format!("{:.2}", case.p50_us),
            format!("{:.2}", case.p99_us),
            fixed(case.p50_ratio, 2),
        ]
    };
    Table {
        title: format!(
            "Reads of {} records after {} overwrites, {} snapshots held or none",
            args.records, args.overwrites, args.snapshots
        ),
        head: ["", "runs", "p50 (us)", "p99 (us)", "p50 / none"]
            .map(String::from)
            .to_vec(),
        rows: measured.iter().map(row).collect(),
    }
}

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments held-snapshots
  ebb-bench experiments held-snapshots --snapshots 1 --json-file held.json

Databases lie in a temporary directory (TMPDIR) and go with the run.";
