//! One YCSB run: load, settle, run, settle, report.
//!
//! To *settle* is to flush and compact until no background work is left. After the load, that keeps
//! the load's work out of the run. After the run, it completes the run's own work, which would
//! otherwise fall into later measurements, so that it counts in the CPU time and the bytes of the
//! run.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ebb_storage::{Db, ErrorKind, Keyspace, Options, Stats, Table, TableOptions};

use super::args::YcsbArgs;
use super::outcome::{BytesWritten, Outcome, Reads, Settings, WriteStalls};
use super::snapshots::SnapshotProbe;
use super::verdict::Verdict;
use super::{table, through_cql};
use crate::console::{BAR_STEPS, progress_bar, stop_on_interrupt, temporary_directory, write_json};
use crate::resources::{Usage, directory_bytes, memory_peak_bytes};
use crate::ycsb::{
    Driver, KEY_BYTES, LoadOptions, LoadReport, Pace, ReadFrom, Report, RunOptions, Source, load,
};

const KEYSPACE: &str = "ycsb";
/// The name of the table in YCSB.
const TABLE: &str = "usertable";

/// Runs the workload of the command line, prints the table, and writes the JSON.
pub fn run(args: &YcsbArgs) -> Result<Verdict> {
    // A run that is stopped still reports.
    let stop = stop_on_interrupt()?;
    if let Some(server) = &args.through.cql {
        return through_cql::run(args, server, stop);
    }
    let bench = Bench::open(args, stop)?;
    let outcome = bench.run(args)?;
    print!("{}", table::render(&outcome));
    write_json(args.json.as_deref(), &outcome)?;
    Ok(Verdict::of(outcome.run.mismatches, outcome.run.not_found))
}

struct Bench {
    db: Db,
    keyspace: Keyspace,
    table: Table,
    dir: PathBuf,
    stop: Arc<AtomicBool>,
    /// The directory of the database if it is a temporary one. Declared last: fields are dropped in
    /// order, so the database is closed before its directory is removed.
    _temporary: Option<tempfile::TempDir>,
}

impl Bench {
    fn open(args: &YcsbArgs, stop: Arc<AtomicBool>) -> Result<Self> {
        let (dir, temporary) = match &args.data {
            Some(dir) => (dir.clone(), None),
            None => {
                let temporary = temporary_directory("ycsb")?;
                (temporary.path().to_path_buf(), Some(temporary))
            }
        };
        let options = Options {
            durability: args.durability.into(),
            memtable_bytes: (args.memtable_mb << 20) as usize,
            cache_bytes: args.cache_mb << 20,
            ..Options::default()
        };
        let db = Db::open(&dir, options)?;
        let keyspace = db.keyspace(KEYSPACE)?;
        let table = keyspace.table(TABLE, TableOptions::default())?;
        Ok(Self {
            db,
            keyspace,
            table,
            dir,
            stop,
            _temporary: temporary,
        })
    }

    fn run(&self, args: &YcsbArgs) -> Result<Outcome> {
        let at_open = self.db.stats();
        let load = self.load(args)?;
        self.ensure_snapshot(&args.read_from)?;
        let (before, usage_before) = (self.db.stats(), Usage::now()?);
        let (run, probe) = self.drive(args)?;
        let settling = Instant::now();
        self.settle()?;
        let settle_s = settling.elapsed().as_secs_f64();
        let usage = Usage::now()?.since(&usage_before);
        let after = self.db.stats();
        let directory_bytes = directory_bytes(&self.dir)
            .with_context(|| format!("cannot list {}", self.dir.display()))?;
        let snapshots = probe.map(|probe| probe.finish(&run)).transpose()?;
        let record_bytes = KEY_BYTES as u64 + args.value_bytes;
        let run_bytes = run.latencies_writes.count * record_bytes;
        let load_bytes = load.map_or(0, |load| load.records * record_bytes);
        Ok(Outcome {
            settings: settings(args),
            load,
            ops_per_cpu_s: run.operations as f64 / usage.cpu_s,
            usage,
            settle_s,
            written: BytesWritten::between(&before, &after, run_bytes),
            written_with_load: BytesWritten::between(&at_open, &after, run_bytes + load_bytes),
            reads: Reads::between(&before, &after),
            write_stalls: WriteStalls::between(&before, &after),
            directory_bytes,
            memory_peak_bytes: memory_peak_bytes()?,
            snapshots,
            interrupted: self.stop.load(Ordering::Relaxed),
            run,
        })
    }

    /// Adds records to the table until it has `--records` of them. Returns `None` if it has that
    /// many already. An interrupted load is an error.
    fn load(&self, args: &YcsbArgs) -> Result<Option<LoadReport>> {
        let present = Source::Live(self.table.clone()).records()?;
        if present >= args.records {
            return Ok(None);
        }
        let options = LoadOptions {
            threads: args.threads(),
            value_bytes: args.value_bytes as usize,
            stop: self.stop.clone(),
            ..LoadOptions::default()
        };
        let missing = present..args.records;
        let bar = progress_bar("load", args.records - present);
        let report = load(&self.db, &self.table, missing, &options, |done| {
            bar.set_position(done);
        })?;
        bar.finish_and_clear();
        ensure!(
            !self.stop.load(Ordering::Relaxed),
            "interrupted after {} of {} records",
            present + report.records,
            args.records
        );
        self.settle()?;
        Ok(Some(report))
    }

    fn ensure_snapshot(&self, read_from: &ReadFrom) -> Result<()> {
        let ReadFrom::Snapshot(name) = read_from else {
            return Ok(());
        };
        match self.keyspace.create_snapshot(name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            created => Ok(created?),
        }
    }

    /// Runs the workload, and takes snapshots during the run if the options request some.
    fn drive(&self, args: &YcsbArgs) -> Result<(Report, Option<SnapshotProbe<'_>>)> {
        let options = RunOptions {
            distribution: args.distribution,
            threads: args.threads(),
            pace: args.target.map_or(Pace::Closed, Pace::steady),
            operations_max: args.operations_max(),
            duration: args.duration,
            stop: self.stop.clone(),
            value_bytes: args.value_bytes as usize,
            seed: args.seed,
            ..RunOptions::new(args.workload)
        };
        let seq = self.db.view().seq();
        let mut probe =
            (args.snapshots > 0).then(|| SnapshotProbe::new(&self.keyspace, args.snapshots, seq));
        // Windows of snapshots are 10 ms long, so progress must be polled more often than that.
        let tick = match &probe {
            Some(_) => Duration::from_millis(1),
            None => Duration::from_millis(100),
        };
        let driver = Driver::start(&self.db, &self.table, &args.read_from, options)?;
        let bar = progress_bar("run", BAR_STEPS);
        while !driver.wait_for_end(tick) {
            bar.set_position((driver.progress() * BAR_STEPS as f64) as u64);
            if let Some(probe) = &mut probe {
                probe.poll(&driver)?;
            }
        }
        bar.finish_and_clear();
        Ok((driver.join()?, probe))
    }

    fn settle(&self) -> Result<()> {
        self.db.flush()?;
        self.db.compact()?;
        self.db.sync()?;
        Ok(())
    }
}

impl BytesWritten {
    fn between(before: &Stats, after: &Stats, user_bytes: u64) -> Self {
        let wal_bytes = after.wal_bytes_written - before.wal_bytes_written;
        let flush_bytes = after.flush_bytes - before.flush_bytes;
        let compaction_bytes = after.compaction_bytes - before.compaction_bytes;
        let all = (wal_bytes + flush_bytes + compaction_bytes) as f64;
        Self {
            user_bytes,
            wal_bytes,
            wal_syncs: after.wal_syncs - before.wal_syncs,
            flush_bytes,
            compaction_bytes,
            amplification: (user_bytes > 0).then(|| all / user_bytes as f64),
        }
    }
}

impl Reads {
    fn between(before: &Stats, after: &Stats) -> Self {
        let point_reads = after.reads - before.reads;
        let per_read = |of: fn(&Stats) -> u64| match point_reads {
            0 => 0.0,
            reads => (of(after) - of(before)) as f64 / reads as f64,
        };
        Self {
            point_reads,
            runs_touched_per_read: per_read(|stats| stats.runs_touched),
            blocks_read_per_read: per_read(|stats| stats.blocks_read),
            blocks_cached_per_read: per_read(|stats| stats.blocks_cached),
            filter_skips_per_read: per_read(|stats| stats.filter_skips),
        }
    }
}

impl WriteStalls {
    fn between(before: &Stats, after: &Stats) -> Self {
        Self {
            stalls: after.stalls - before.stalls,
            stall_s: (after.stall_us - before.stall_us) as f64 / 1e6,
            throttles: after.throttles - before.throttles,
            throttle_s: (after.throttle_us - before.throttle_us) as f64 / 1e6,
            wait_us_max: after.write_wait_us_max,
        }
    }
}

fn settings(args: &YcsbArgs) -> Settings {
    Settings {
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        value_bytes: args.value_bytes,
        operations_max: args.operations_max(),
        duration_s: args.duration.map(|duration| duration.as_secs_f64()),
        target_ops_per_s: args.target,
        durability: args.durability,
        cache_mb: args.cache_mb,
        memtable_mb: args.memtable_mb,
        seed: args.seed,
    }
}
