//! The memory of an open database without any requests, for each entry.
//!
//! Separate processes load a database, open it and do nothing, and open an empty one and do
//! nothing. The difference in anonymous memory (pages of no file) between the last two is the cost
//! of the entries: top levels of indexes, and properties of each file. Block cache and memtable are
//! empty.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::{Args, ValueEnum};
use ebb_storage::{Db, Options, TableOptions};
use serde::Serialize;

use super::process;
use crate::console::{mb, progress_bar, stop_on_interrupt, temporary_directory, write_json};
use crate::resources::anonymous_bytes;
use crate::ycsb::{KEY_BYTES, LoadOptions, load};

/// The options of the experiment.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct IdleMemoryArgs {
    #[command(flatten)]
    scale: Scale,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The options of one process of the experiment.
#[derive(Debug, Args)]
pub struct IdleMemoryCaseArgs {
    #[arg(value_enum)]
    case: Case,

    /// Directory of the database
    dir: PathBuf,

    #[command(flatten)]
    scale: Scale,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Writes the entries, and waits for the background work
    Load,
    /// Opens the database, and prints the memory
    Open,
}

#[derive(Debug, Clone, Args, Serialize)]
struct Scale {
    /// Entries to load
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    entries: u64,

    /// Length of each value in bytes
    #[arg(long, value_name = "N", default_value_t = 116 - KEY_BYTES)]
    value_bytes: usize,
}

#[derive(Debug, Serialize)]
struct IdleMemory {
    settings: Scale,
    /// Anonymous memory of the process that has opened the loaded database, in bytes.
    memory_bytes: u64,
    /// Anonymous memory of the process that has opened an empty database, in bytes.
    memory_empty_bytes: u64,
    /// The difference between the memory with the loaded database and that with an empty one,
    /// divided by the number of entries.
    bytes_per_entry: f64,
}

pub fn run(args: &IdleMemoryArgs) -> Result<()> {
    let work = temporary_directory("idle")?;
    let stop = stop_on_interrupt()?;
    let process = |case, dir: &str| run_process(case, &work.path().join(dir), &args.scale, &stop);
    process(Case::Load, "loaded")?;
    let memory_bytes = process(Case::Open, "loaded")?;
    let memory_empty_bytes = process(Case::Open, "empty")?;
    let more = memory_bytes as f64 - memory_empty_bytes as f64;
    let measured = IdleMemory {
        settings: args.scale.clone(),
        memory_bytes,
        memory_empty_bytes,
        bytes_per_entry: more / args.scale.entries as f64,
    };
    println!("memory with the entries  {}", mb(memory_bytes));
    println!("of an empty database     {}", mb(memory_empty_bytes));
    println!("bytes for each entry     {:.2}", measured.bytes_per_entry);
    write_json(args.json.as_deref(), &measured)
}

/// Runs a process, and returns the memory that it printed, in bytes; 0 for the process that loads.
fn run_process(case: Case, dir: &Path, scale: &Scale, stop: &Arc<AtomicBool>) -> Result<u64> {
    let name = case.to_possible_value().expect("no case is skipped");
    let name = name.get_name();
    let mut args = vec![OsString::from("idle-memory-case"), name.into(), dir.into()];
    args.push(format!("--entries={}", scale.entries).into());
    args.push(format!("--value-bytes={}", scale.value_bytes).into());
    // By default mimalloc returns freed pages to the system only with later allocations, so an idle
    // process would keep the pages into which the opening has read the log.
    let envs = [("MIMALLOC_PURGE_DELAY", "0")];
    process::run(name, args, &envs, stop)
}

pub fn run_case(args: &IdleMemoryCaseArgs) -> Result<()> {
    let db = Db::open(&args.dir, Options::default())?;
    let table = db
        .keyspace("idle")?
        .table("entries", TableOptions::default())?;
    let memory_bytes = match args.case {
        Case::Load => {
            let bar = progress_bar("load", args.scale.entries);
            let options = LoadOptions {
                value_bytes: args.scale.value_bytes,
                ..LoadOptions::default()
            };
            let progress = |count| bar.set_position(count);
            load(&db, &table, 0..args.scale.entries, &options, progress)?;
            bar.finish_and_clear();
            db.flush()?;
            db.compact()?;
            0
        }
        Case::Open => anonymous_bytes()?,
    };
    println!("{memory_bytes}");
    Ok(())
}

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments idle-memory
  ebb-bench experiments idle-memory --value-bytes 1024 --json-file idle.json

The database lies in a temporary directory (TMPDIR) and goes with the run.";
