//! The table of a run's results.

use std::fmt::Write;

use super::outcome::Outcome;
use super::snapshots::SnapshotsOutcome;
use crate::console::mb;
use crate::ycsb::{Distribution, Latencies, LoadReport, Workload};

/// Returns the table for the terminal, with a newline at the end.
pub fn render(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_all(&mut text, outcome);
    text
}

fn write_all(text: &mut String, outcome: &Outcome) -> std::fmt::Result {
    write_setup(text, outcome)?;
    writeln!(text)?;
    write_latencies(text, outcome)?;
    writeln!(text)?;
    write_costs(text, outcome)?;
    if let Some(snapshots) = &outcome.snapshots {
        writeln!(text)?;
        write_snapshots(text, snapshots, &outcome.run.latencies_writes)?;
    }
    Ok(())
}

fn write_setup(text: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let (run, settings) = (&outcome.run, &outcome.settings);
    let pace = pace(settings.target_ops_per_s);
    write_workload(text, run.workload, run.distribution)?;
    writeln!(
        text,
        "{} threads on {} cpus, {pace}, reads from {}, {} records of {} bytes",
        run.threads, settings.cpus, run.read_from, run.records, settings.value_bytes
    )?;
    write_load(text, outcome.load.as_ref(), outcome.interrupted)
}

/// Describes the pace of a run: an open loop at the target rate, or a closed loop.
pub(super) fn pace(target_ops_per_s: Option<f64>) -> String {
    match target_ops_per_s {
        Some(rate) => format!("open loop at {rate} ops/s"),
        None => "closed loop".to_string(),
    }
}

/// Writes the line of a workload, with the distribution if it is not the workload's own.
pub(super) fn write_workload(
    text: &mut String,
    workload: Workload,
    distribution: Distribution,
) -> std::fmt::Result {
    write!(text, "workload {workload}: {workload:#}")?;
    if distribution != workload.distribution {
        write!(text, "; here {distribution}")?;
    }
    writeln!(text)
}

/// Writes the line of a load, if there was one, and a warning if the run was interrupted.
pub(super) fn write_load(
    text: &mut String,
    load: Option<&LoadReport>,
    interrupted: bool,
) -> std::fmt::Result {
    if let Some(load) = load {
        writeln!(
            text,
            "loaded {} records in {:.1} s: {:.0} records/s, {:.1} MB/s",
            load.records, load.elapsed_s, load.records_per_s, load.mb_per_s
        )?;
    }
    if interrupted {
        writeln!(text, "interrupted: what follows is of a part of the run")?;
    }
    Ok(())
}

fn write_latencies(text: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let run = &outcome.run;
    writeln!(text, "{:<24}{HEADINGS}  ops/s", "latency in us")?;
    for (operation, report) in &run.latencies {
        let rate = report.throughput_ops_per_s;
        writeln!(
            text,
            "{operation:<24}{}  {rate:.0}",
            columns(&report.latencies)
        )?;
    }
    let rate = run.throughput_ops_per_s;
    writeln!(
        text,
        "{:<24}{}  {rate:.0}",
        "all",
        columns(&run.latencies_all)
    )
}

fn write_costs(text: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let Outcome {
        run,
        usage,
        written,
        reads,
        write_stalls,
        ..
    } = outcome;
    writeln!(
        text,
        "throughput     {:.0} ops/s over {:.2} s",
        run.throughput_ops_per_s, run.elapsed_s
    )?;
    // They have no latency, so the percentiles lack the longest waits.
    if run.operations_unserved > 0 {
        writeln!(
            text,
            "overloaded     {} operations were due and never started: the latencies are too low",
            run.operations_unserved
        )?;
    }
    writeln!(
        text,
        "per cpu second {:.0} ops: {:.2} s ({:.2} user, {:.2} system), {:.2} s of settling waited for",
        outcome.ops_per_cpu_s, usage.cpu_s, usage.cpu_user_s, usage.cpu_system_s, outcome.settle_s
    )?;
    // A closed loop does not wait until an operation is due.
    if run.open_loop {
        writeln!(
            text,
            "  pacing       {:.2} s of these went into waiting until operations were due",
            run.pacing_cpu_s
        )?;
    }
    writeln!(
        text,
        "written        wal {} ({} syncs), flushes {}, compactions {}, for {} of records",
        mb(written.wal_bytes),
        written.wal_syncs,
        mb(written.flush_bytes),
        mb(written.compaction_bytes),
        mb(written.user_bytes)
    )?;
    // Of load and run together: merges during the run rewrite records of the load, too.
    if let Some(amplification) = outcome.written_with_load.amplification {
        writeln!(
            text,
            "  with load    {amplification:.2} bytes for each byte of records"
        )?;
    }
    writeln!(
        text,
        "  by kernel    {} dirtied, {} cancelled",
        mb(usage.process_write_bytes),
        mb(usage.process_cancelled_write_bytes)
    )?;
    writeln!(
        text,
        "space          {} on disk, {} memory at most",
        mb(outcome.directory_bytes),
        mb(outcome.memory_peak_bytes)
    )?;
    writeln!(
        text,
        "each read      {:.2} runs touched, {:.2} blocks read, {:.2} from the cache",
        reads.runs_touched_per_read, reads.blocks_read_per_read, reads.blocks_cached_per_read
    )?;
    // The store has only one maximum since its start, so that of the run alone is not known.
    writeln!(
        text,
        "write stalls   {} writes stopped for {:.3} s, {} throttled for {:.3} s; at most {:.1} ms, load included",
        write_stalls.stalls,
        write_stalls.stall_s,
        write_stalls.throttles,
        write_stalls.throttle_s,
        write_stalls.wait_us_max as f64 / 1e3
    )?;
    writeln!(
        text,
        "checks         {} mismatches, {} not found",
        run.mismatches, run.not_found
    )
}

fn write_snapshots(
    text: &mut String,
    snapshots: &SnapshotsOutcome,
    writes: &Latencies,
) -> std::fmt::Result {
    writeln!(
        text,
        "snapshots      {} of {} taken; creation p50 {:.1} us, max {:.1} us",
        snapshots.taken, snapshots.requested, snapshots.creation_p50_us, snapshots.creation_max_us
    )?;
    if writes.count == 0 {
        return writeln!(text, "no writes to compare");
    }
    writeln!(text, "{:<24}{HEADINGS}", "writes, latency in us")?;
    let rows = [
        ("10 ms around each", &snapshots.writes_around.writes),
        ("10 ms without", &snapshots.writes_between.writes),
        ("whole run", writes),
    ];
    for (name, latencies) in rows {
        writeln!(text, "{name:<24}{}", columns(latencies))?;
    }
    Ok(())
}

/// The headings of [`columns`].
pub(super) const HEADINGS: &str =
    "   count      mean       p50       p95       p99     p99.9       max";

/// Returns the count and the latencies in microseconds, in the columns of [`HEADINGS`].
pub(super) fn columns(latencies: &Latencies) -> String {
    let micros = [
        latencies.mean_us,
        latencies.p50_us,
        latencies.p95_us,
        latencies.p99_us,
        latencies.p999_us,
        latencies.max_us,
    ];
    let mut columns = format!("{:>8}", latencies.count);
    for micros in micros {
        let _ = write!(columns, "{micros:>10.1}");
    }
    columns
}
