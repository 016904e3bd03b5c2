//! A long merge: the space that it needs on disk, and the cost of a restart in its middle.
//!
//! A database gets some runs over the same keys, without merging them. A child process merges all
//! of them, and is killed when it has written half of the output. A second process completes the
//! merge. This process measures the bytes that they write and the size of the directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use ebb_storage::{
    CompactionOptions, CompactionPicker, Db, Durability, Options, Pick, TableOptions, TableShape,
};
use serde::Serialize;

use crate::console::{mb, progress_bar, stop_on_interrupt, temporary_directory, write_json};
use crate::resources::directory_bytes;
use crate::ycsb::{LoadOptions, load};

/// The time between two measurements of the child process.
const LOOK: Duration = Duration::from_millis(20);

/// The size of the merge.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LongMergeArgs {
    /// Records of 1 KiB in each run
    #[arg(long, value_name = "N", default_value_t = 1_250_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub records: u64,

    /// Runs over the same records
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u64).range(2..))]
    pub runs: u64,

    /// Size of a part of the merge in MiB [default: the store's default]
    #[arg(long, value_name = "N")]
    pub part_mb: Option<u64>,

    /// Merge everything in one part
    #[arg(long, conflicts_with = "part_mb")]
    pub whole: bool,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Arguments of the process that merges.
#[derive(Debug, Args)]
pub struct LongMergeCaseArgs {
    /// Directory of the database
    dir: PathBuf,

    /// Bytes of a part
    part_bytes: u64,
}

/// The result of the experiment.
#[derive(Debug, Serialize)]
struct Outcome {
    records: u64,
    runs: u64,
    part_bytes: u64,
    /// Size of the directory before the merge.
    before_bytes: u64,
    /// Size of the directory after the merge.
    live_bytes: u64,
    /// The largest size of the directory during the merge that was not killed.
    peak_bytes: u64,
    /// `peak_bytes` over `before_bytes`.
    peak_over_before: f64,
    /// Bytes that the first process had written when it was killed.
    written_before_kill_bytes: u64,
    /// Bytes that the second process wrote.
    written_after_kill_bytes: u64,
    /// Bytes that both wrote, beyond `live_bytes`.
    written_twice_bytes: u64,
    /// Duration of the merge that was not killed, in seconds.
    merge_s: f64,
}

/// Runs the experiment, prints its figures, writes its JSON.
///
/// # Errors
/// When the store, a process or the disk fails, or the user interrupts the run.
pub fn run(args: &LongMergeArgs) -> Result<()> {
    let stop = stop_on_interrupt()?;
    let work = temporary_directory("merge")?;
    let part_bytes = match (args.whole, args.part_mb) {
        (true, _) => u64::MAX,
        (false, Some(mb)) => mb << 20,
        (false, None) => CompactionOptions::default().part_bytes,
    };
    let merging = |name: &str| -> Result<(PathBuf, u64)> {
        let dir = work.path().join(name);
        fill(&dir, args, &stop)?;
        let bytes = directory_bytes(&dir)?;
        Ok((dir, bytes))
    };
    let (dir, before_bytes) = merging("whole")?;
    let began = Instant::now();
    let undisturbed = Merging::start(&dir, part_bytes)?.watch(&stop, |_| false)?;
    let merge_s = began.elapsed().as_secs_f64();
    let live_bytes = directory_bytes(&dir)?;
    std::fs::remove_dir_all(&dir)?;

    let (dir, _) = merging("killed")?;
    let is_half = |written_bytes| written_bytes > live_bytes / 2;
    let killed = Merging::start(&dir, part_bytes)?.watch(&stop, is_half)?;
    ensure!(killed.was_killed, "the merge was done before it was killed");
    let after = Merging::start(&dir, part_bytes)?.watch(&stop, |_| false)?;
    let written_bytes = killed.written_bytes + after.written_bytes;
    let outcome = Outcome {
        records: args.records,
        runs: args.runs,
        part_bytes,
        before_bytes,
        live_bytes,
        peak_bytes: undisturbed.peak_bytes,
        peak_over_before: undisturbed.peak_bytes as f64 / before_bytes as f64,
        written_before_kill_bytes: killed.written_bytes,
        written_after_kill_bytes: after.written_bytes,
        written_twice_bytes: written_bytes.saturating_sub(live_bytes),
        merge_s,
    };
    println!("{} runs, together    {}", args.runs, mb(before_bytes));
    println!("merged               {} in {merge_s:.1} s", mb(live_bytes));
    println!(
        "most on the disk     {}, {:.2} times what there was before",
        mb(outcome.peak_bytes),
        outcome.peak_over_before
    );
    println!(
        "killed after         {}; {} written after that, {} twice",
        mb(killed.written_bytes),
        mb(after.written_bytes),
        mb(outcome.written_twice_bytes)
    );
    write_json(args.json.as_deref(), &outcome)
}

fn options(part_bytes: u64, picker: impl CompactionPicker + 'static) -> Options {
    Options {
        durability: Durability::Os,
        compaction: CompactionOptions {
            picker: Arc::new(picker),
            part_bytes,
            ..CompactionOptions::default()
        },
        ..Options::default()
    }
}

/// A picker that merges nothing, or all runs of a table.
#[derive(Debug)]
enum Picker {
    Nothing,
    All,
}

impl CompactionPicker for Picker {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let is_wanted = matches!(self, Self::All) && table.runs.len() > 1;
        let is_free = table.runs.iter().all(|run| !run.is_busy);
        (is_wanted && is_free).then(|| Pick::merge(table.runs))
    }
}

/// Writes the runs. Each is one memtable with all records.
fn fill(dir: &Path, args: &LongMergeArgs, stop: &Arc<AtomicBool>) -> Result<()> {
    let options = Options {
        memtable_bytes: 16 << 30,
        wal_bytes_max: 64 << 30,
        idle_after: None,
        ..options(u64::MAX, Picker::Nothing)
    };
    let db = Db::open(dir, options)?;
    let table = db
        .keyspace("merge")?
        .table("records", TableOptions::default())?;
    let bar = progress_bar("load", args.runs * args.records);
    for run in 0..args.runs {
        let options = LoadOptions {
            stop: stop.clone(),
            ..LoadOptions::default()
        };
        let progress = |count| bar.set_position(run * args.records + count);
        load(&db, &table, 0..args.records, &options, progress)?;
        ensure!(!stop.load(Ordering::Relaxed), "interrupted");
        db.flush()?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// The process that merges. It is killed when this value is dropped.
struct Merging {
    child: Child,
    dir: PathBuf,
}

/// Measurements of a process that merged.
struct Watched {
    written_bytes: u64,
    peak_bytes: u64,
    was_killed: bool,
}

impl Merging {
    fn start(dir: &Path, part_bytes: u64) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program again")?;
        let child = Command::new(program)
            .args(["experiments", "long-merge-case"])
            .arg(dir)
            .arg(part_bytes.to_string())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start the process that merges")?;
        Ok(Self {
            child,
            dir: dir.to_path_buf(),
        })
    }

    /// Measures the process until it has ended. Kills it when `is_to_be_killed` returns true for
    /// the bytes that it has written.
    fn watch(
        mut self,
        stop: &AtomicBool,
        is_to_be_killed: impl Fn(u64) -> bool,
    ) -> Result<Watched> {
        let mut seen = Watched {
            written_bytes: 0,
            peak_bytes: 0,
            was_killed: false,
        };
        loop {
            ensure!(!stop.load(Ordering::Relaxed), "interrupted");
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "the process that merges failed: {status}");
                return Ok(seen);
            }
            // Files come and go meanwhile.
            let bytes = directory_bytes(&self.dir).unwrap_or(0);
            seen.peak_bytes = seen.peak_bytes.max(bytes);
            if let Some(written) = written_bytes(self.child.id()) {
                seen.written_bytes = written;
            }
            if is_to_be_killed(seen.written_bytes) {
                self.child.kill()?;
                self.child.wait()?;
                seen.was_killed = true;
                return Ok(seen);
            }
            park_timeout(LOOK);
        }
    }
}

impl Drop for Merging {
    fn drop(&mut self) {
        // Unless there was an error, the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the bytes that a process has written so far, to the page cache at least; `None` if it
/// has ended.
fn written_bytes(process: u32) -> Option<u64> {
    let io = std::fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "))?;
    line.parse().ok().filter(|&bytes| bytes > 0)
}

/// Merges a database until it is one run.
///
/// # Errors
/// When the store fails, or a table still has several runs.
pub fn run_case(args: &LongMergeCaseArgs) -> Result<()> {
    let db = Db::open(&args.dir, options(args.part_bytes, Picker::All))?;
    db.compact()?;
    let stats = db.stats();
    match stats.tables.iter().find(|table| table.runs.len() != 1) {
        Some(table) => bail!("table {} has {} runs", table.name, table.runs.len()),
        None => Ok(()),
    }
}

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments long-merge
  ebb-bench experiments long-merge --whole
  ebb-bench experiments long-merge --records 100000 --part-mb 16 --json-file merge.json

The databases lie in a temporary directory (TMPDIR) and go with the run.";
