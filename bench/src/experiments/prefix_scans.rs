//! Scans of a few rows with a common prefix, over many runs: with the prefixes in the filters, and
//! without.
//!
//! Two databases get the same rows. Each prefix is in one of several runs, which are not merged.
//! Then the rows of random prefixes are read from both databases in turns.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebb_storage::{
    Db, Durability, FilterPrefix, MergePause, Options, SsTableOptions, Table as StoreTable,
    TableOptions,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::statistics::median;
use super::table::Table;
use crate::columns;
use crate::console::{progress_bar, temporary_directory, write_json};
use crate::number::fixed;

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments prefix-scans
  ebb-bench experiments prefix-scans --runs 4 --cache-mib 16 --json-file prefix-scans.json

The databases lie in a temporary directory (TMPDIR) and go with the run.";

/// Rows of each prefix.
const ROWS: u64 = 10;
/// Length of their values, in bytes.
const VALUE_BYTES: usize = 100;
const ROUNDS: usize = 11;
const SCANS: usize = 20_000;

/// The number of rows and of runs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PrefixScansArgs {
    /// Prefixes, of ten rows each
    #[arg(long, value_name = "N", default_value_t = 100_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub prefixes: u64,

    /// Runs that they are in
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u64).range(1..=64))]
    pub runs: u64,

    /// The cache of blocks, indexes and filters, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub cache_mib: u64,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The result of the experiment.
#[derive(Debug, Serialize)]
struct Outcome {
    prefixes: u64,
    runs: u64,
    cache_mib: u64,
    without: Side,
    with: Side,
    /// The median `scan_us` with prefixes in the filters, over that without.
    ratio: f64,
}

/// The measurements of one database.
#[derive(Debug, Serialize)]
struct Side {
    /// Time of a scan of the rows of one prefix, by round.
    scan_us: Vec<f64>,
    /// Time of a scan of a prefix without rows, by round.
    absent_us: Vec<f64>,
    /// Size of all SSTables.
    bytes: u64,
    skips_per_scan: f64,
}

struct Filled {
    db: Db,
    table: StoreTable,
    _pause: MergePause,
    side: Side,
}

/// Runs the experiment, prints its table, writes its JSON.
///
/// # Errors
/// When the store or the disk fails, or rows are missing.
pub fn run(args: &PrefixScansArgs) -> Result<()> {
    let dir = temporary_directory("prefix-scans")?;
    let bar = progress_bar("prefixes", 2 * args.prefixes);
    let mut sides = Vec::new();
    for (name, prefix) in [("without", None), ("with", Some(FilterPrefix::Bytes(8)))] {
        sides.push(fill(&dir.path().join(name), prefix, args, || bar.inc(1))?);
    }
    bar.finish_and_clear();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for round in 0..2 * ROUNDS {
        // In turns, and each database is the first of two equally often.
        let at = (round + round / 2) % 2;
        let filled = &mut sides[at];
        // Even prefixes have rows, odd ones have none.
        let scan_us = scans(
            &filled.table,
            || 2 * rng.random_range(0..args.prefixes),
            ROWS,
        )?;
        let absent_us = scans(
            &filled.table,
            || 2 * rng.random_range(0..args.prefixes) + 1,
            0,
        )?;
        filled.side.scan_us.push(scan_us);
        filled.side.absent_us.push(absent_us);
    }
    for filled in &mut sides {
        let stats = filled.db.stats();
        filled.side.skips_per_scan = stats.prefix_skips as f64 / (2 * ROUNDS * SCANS) as f64;
    }
    let [without, with] = sides.try_into().ok().context("there are two")?;
    let (without, with) = (without.side, with.side);
    let outcome = Outcome {
        prefixes: args.prefixes,
        runs: args.runs,
        cache_mib: args.cache_mib,
        ratio: median(with.scan_us.iter().copied()) / median(without.scan_us.iter().copied()),
        without,
        with,
    };
    outcome.table().print();
    write_json(args.json.as_deref(), &outcome)
}

fn fill(
    dir: &Path,
    filter_prefix: Option<FilterPrefix>,
    args: &PrefixScansArgs,
    filled: impl Fn(),
) -> Result<Filled> {
    let options = Options {
        durability: Durability::Os,
        cache_bytes: args.cache_mib << 20,
        ..Options::default()
    };
    let db = Db::open(dir, options)?;
    let pause = db.pause_merges();
    let table = TableOptions {
        sstable: SsTableOptions {
            filter_prefix,
            ..SsTableOptions::default()
        },
        ..TableOptions::default()
    };
    let table = db.keyspace("app")?.table("rows", table)?;
    for run in 0..args.runs {
        for prefix in (run..args.prefixes).step_by(args.runs as usize) {
            for row in 0..ROWS {
                table.put(&key(2 * prefix, row), &[7; VALUE_BYTES])?;
            }
            filled();
        }
        db.flush()?;
    }
    let stats = db.stats();
    let bytes = stats.tables.iter().map(|table| table.file_bytes).sum();
    Ok(Filled {
        table,
        db,
        _pause: pause,
        side: Side {
            scan_us: Vec::new(),
            absent_us: Vec::new(),
            bytes,
            skips_per_scan: 0.0,
        },
    })
}

fn key(prefix: u64, row: u64) -> Vec<u8> {
    [prefix.to_be_bytes(), row.to_be_bytes()].concat()
}

/// Returns the mean time of a scan in microseconds. Fails if a prefix has another number of rows.
fn scans(table: &StoreTable, mut prefix: impl FnMut() -> u64, rows: u64) -> Result<f64> {
    let began = Instant::now();
    for _ in 0..SCANS {
        let prefix = prefix();
        let mut found = 0;
        for row in table.prefix(&prefix.to_be_bytes()) {
            row?;
            found += 1;
        }
        ensure!(
            found == rows,
            "{found} rows begin with {prefix}, not {rows}"
        );
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / SCANS as f64)
}

impl Outcome {
    fn table(&self) -> Table {
        let row = |name: &str, of: &dyn Fn(&Side) -> f64| {
            let (without, with) = (of(&self.without), of(&self.with));
            let cells = [without, with, with / without].map(|value| fixed(value, 2));
            columns::row(name, cells)
        };
        let mut rows = vec![
            row("scan of ten rows (us)", &|side| {
                median(side.scan_us.clone())
            }),
            row("scan of none (us)", &|side| median(side.absent_us.clone())),
            row("SSTables (MB)", &|side| side.bytes as f64 / 1e6),
        ];
        rows.push(vec![
            "runs passed over, a scan".into(),
            format!("{:.2}", self.without.skips_per_scan),
            format!("{:.2}", self.with.skips_per_scan),
            String::new(),
        ]);
        Table {
            title: format!(
                "{} prefixes over {} runs, a cache of {} MiB",
                self.prefixes, self.runs, self.cache_mib
            ),
            head: ["prefixes in filters", "no", "yes", "ratio"]
                .map(String::from)
                .to_vec(),
            rows,
        }
    }
}
