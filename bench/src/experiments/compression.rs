//! Compares compressions with LZ4: zstd for the oldest run, zstd for everything, and none. Measures
//! bytes and the CPU of writing and of reading.
//!
//! One thread writes the same records to a database of each form, as several runs, and merges them
//! into one. Then it reads the databases in turns.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;
use ebb_storage::{
    Compression, Db, Durability, Maintenance, Options, SsTableOptions, Table as StoreTable,
    TableOptions, TieredPicker,
};
use ebb_threads::thread_cpu;
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
  ebb-bench experiments compression
  ebb-bench experiments compression --records 5000000 --cache-mib 64 --json-file compression.json

The databases lie in a temporary directory (TMPDIR) and go with the run.";

const RUNS: u64 = 4;
const ROUNDS: usize = 7;
const READS: usize = 50_000;

/// The name of a form, its compression, and that of the oldest run if it differs.
const FORMS: [(&str, Compression, Option<Compression>); 4] = [
    ("lz4", Compression::Lz4, None),
    (
        "zstd at the bottom",
        Compression::Lz4,
        Some(Compression::Zstd),
    ),
    ("zstd", Compression::Zstd, None),
    ("none", Compression::None, None),
];

/// The size of the databases and of their caches.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompressionArgs {
    /// Records, each of them an order in JSON
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(RUNS..))]
    pub records: u64,

    /// The cache of blocks, indexes and filters, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 32,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub cache_mib: u64,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The result of the experiment.
#[derive(Debug, Serialize)]
struct Outcome {
    records: u64,
    cache_mib: u64,
    forms: Vec<Side>,
}

/// The measurements of one form.
#[derive(Debug, Serialize)]
struct Side {
    form: &'static str,
    /// Size of all SSTables after the merge.
    bytes: u64,
    /// CPU of writing and flushing the records, in seconds.
    load_cpu_s: f64,
    /// CPU of merging them, in seconds.
    merge_cpu_s: f64,
    /// CPU of a look-up of a random key, by round.
    get_us: Vec<f64>,
    /// CPU of a record in a scan of the whole table, by round.
    scan_us: Vec<f64>,
}

struct Filled {
    table: StoreTable,
    side: Side,
}

/// Runs the experiment, prints its table, writes its JSON.
///
/// # Errors
/// When the store or the disk fails, or a record is missing.
pub fn run(args: &CompressionArgs) -> Result<()> {
    let dir = temporary_directory("compression")?;
    let bar = progress_bar("forms", (FORMS.len() * (1 + ROUNDS)) as u64);
    let mut sides = Vec::new();
    for (at, form) in FORMS.into_iter().enumerate() {
        sides.push(fill(&dir.path().join(at.to_string()), form, args)?);
        bar.inc(1);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for round in 0..ROUNDS {
        for at in 0..sides.len() {
            // Each form is the first of a round in turn.
            let at = (round + at) % FORMS.len();
            let Filled { table, side } = &mut sides[at];
            side.get_us
                .push(gets(table, || rng.random_range(0..args.records))?);
            side.scan_us.push(scan(table, args.records)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let outcome = Outcome {
        records: args.records,
        cache_mib: args.cache_mib,
        forms: sides.into_iter().map(|filled| filled.side).collect(),
    };
    outcome.table().print();
    write_json(args.json.as_deref(), &outcome)
}

fn fill(
    dir: &Path,
    (form, compression, bottom_compression): (&'static str, Compression, Option<Compression>),
    args: &CompressionArgs,
) -> Result<Filled> {
    let options = Options {
        durability: Durability::Os,
        maintenance: Maintenance::Manual,
        memtable_bytes: 1 << 30,
        compaction: TieredPicker {
            runs_before_merge: 2,
            ..TieredPicker::default()
        }
        .into(),
        cache_bytes: args.cache_mib << 20,
        ..Options::default()
    };
    let db = Db::open(dir, options)?;
    let table = TableOptions {
        sstable: SsTableOptions {
            compression,
            bottom_compression,
            ..SsTableOptions::default()
        },
        ..TableOptions::default()
    };
    let table = db.keyspace("app")?.table("orders", table)?;
    let began = thread_cpu();
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    for run in 0..RUNS {
        for number in (run..args.records).step_by(RUNS as usize) {
            table.put(&number.to_be_bytes(), order(number, &mut rng).as_bytes())?;
        }
        db.flush()?;
    }
    let loaded = thread_cpu();
    db.compact()?;
    let merged = thread_cpu();
    let stats = db.stats();
    ensure!(
        stats.tables[0].runs.len() == 1,
        "the runs are not merged into one"
    );
    Ok(Filled {
        table,
        side: Side {
            form,
            bytes: stats.tables[0].file_bytes,
            load_cpu_s: (loaded - began).as_secs_f64(),
            merge_cpu_s: (merged - loaded).as_secs_f64(),
            get_us: Vec::new(),
            scan_us: Vec::new(),
        },
    })
}

/// Returns an order of a shop as JSON: the names repeat, the numbers do not.
fn order(number: u64, rng: &mut ChaCha8Rng) -> String {
    const CITIES: [&str; 8] = [
        "Lisbon", "Turin", "Oslo", "Gdansk", "Ghent", "Porto", "Graz", "Lyon",
    ];
    const ITEMS: [&str; 8] = [
        "kettle",
        "desk lamp",
        "notebook",
        "umbrella",
        "bookshelf",
        "teapot",
        "rug",
        "mirror",
    ];
    const STATES: [&str; 4] = ["open", "paid", "shipped", "returned"];
    let mut one_of = |words: &[&'static str]| words[rng.random_range(0..words.len())];
    let (city, item, state) = (one_of(&CITIES), one_of(&ITEMS), one_of(&STATES));
    format!(
        "{{\"order\":{number},\"customer\":\"{:016x}\",\"city\":\"{city}\",\"item\":\"{item}\",\
         \"count\":{},\"price_cents\":{},\"state\":\"{state}\",\"placed_ms\":{}}}",
        rng.random::<u64>(),
        rng.random_range(1..5),
        rng.random_range(100..100_000),
        1_700_000_000_000 + number * 1_000 + rng.random_range(0..1_000)
    )
}

/// Returns the CPU microseconds of a look-up.
fn gets(table: &StoreTable, mut number: impl FnMut() -> u64) -> Result<f64> {
    let began = thread_cpu();
    for _ in 0..READS {
        let number = number();
        let found = table.get(&number.to_be_bytes())?;
        ensure!(found.is_some(), "order {number} is not there");
    }
    Ok((thread_cpu() - began).as_secs_f64() * 1e6 / READS as f64)
}

/// Returns the CPU microseconds of a record in a scan of the whole table.
fn scan(table: &StoreTable, records: u64) -> Result<f64> {
    let began = thread_cpu();
    let mut found = 0;
    for record in table.range::<&[u8], _>(..) {
        record?;
        found += 1;
    }
    ensure!(found == records, "{found} orders are there, not {records}");
    Ok((thread_cpu() - began).as_secs_f64() * 1e6 / records as f64)
}

impl Outcome {
    fn table(&self) -> Table {
        let lz4 = &self.forms[0];
        let row = |name: &str, digits: usize, of: &dyn Fn(&Side) -> f64| {
            let cells = self.forms.iter().map(|side| {
                let (value, beside) = (of(side), of(lz4));
                format!("{} ({})", fixed(value, digits), fixed(value / beside, 2))
            });
            columns::row(name, cells)
        };
        let rows = vec![
            row("SSTables (MB)", 1, &|side| side.bytes as f64 / 1e6),
            row("CPU of loading (s)", 2, &|side| side.load_cpu_s),
            row("CPU of merging (s)", 2, &|side| side.merge_cpu_s),
            row("CPU of a get (us)", 2, &|side| median(side.get_us.clone())),
            row("CPU of a record, scanned (us)", 3, &|side| {
                median(side.scan_us.clone())
            }),
        ];
        let forms = self.forms.iter().map(|side| side.form.to_string());
        Table {
            title: format!(
                "{} orders, a cache of {} MiB; in brackets: over lz4",
                self.records, self.cache_mib
            ),
            head: columns::row("blocks", forms),
            rows,
        }
    }
}
