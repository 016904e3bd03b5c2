//! One YCSB run against a server: connect, load, settle, run, report.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::args::{ClientArg, YcsbArgs};
use super::cql_outcome::{CqlOutcome, CqlSettings, render};
use super::verdict::Verdict;
use crate::console::{BAR_STEPS, progress_bar, write_json};
use crate::ycsb::cql::{Operations, Plan, RawClient, ServerProcess, Sessions, SnapshotRead, Tally};
use crate::ycsb::{KEY_BYTES, LoadReport, Pace, ReadFrom};

/// The longest wait for the server's background work after the load. The run then starts even if
/// that work is not done.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// Runs the workload of the command line against a server, prints the table, and writes the JSON.
pub fn run(args: &YcsbArgs, server: &str, stop: Arc<AtomicBool>) -> Result<Verdict> {
    let address = resolve(server)?;
    let connections = args.through.connections as usize;
    let mut client = RawClient::connect(address, None, connections, args.threads())?;
    let process = match args.through.server_pid {
        Some(pid) => Some(ServerProcess::new(pid)?),
        None => ServerProcess::listening_on(address),
    };
    let load = load(args, &mut client, &stop)?;
    if let Some(process) = process.as_ref().filter(|_| load.is_some()) {
        process.settle(SETTLE_MAX)?;
    }
    client.read_from(snapshot_read(args))?;
    let records = client.records();
    let before = process.as_ref().map(ServerProcess::usage).transpose()?;
    let tally = drive(args, &mut client, &stop)?;
    let usage = match (&process, before) {
        (Some(process), Some(before)) => Some(process.usage()?.since(&before)),
        _ => None,
    };
    let settings = CqlSettings {
        server: address,
        client: args.through.client,
        connections,
        in_flight: args.through.in_flight,
        tick_us: args.through.tick_us,
        threads: args.threads(),
        idle_class: args.through.idle_class,
        snapshot_form: args.through.snapshot_form,
        sessions: Sessions::of(process.as_ref()),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        records,
        value_bytes: args.value_bytes,
        read_from: client.reads_from().to_string(),
        target_ops_per_s: args.target,
        distribution: args.distribution.unwrap_or(args.workload.distribution),
        seed: args.seed,
    };
    let interrupted = stop.load(Ordering::Relaxed);
    let outcome = CqlOutcome::new(args.workload, settings, load, &tally, usage, interrupted);
    print!("{}", render(&outcome));
    write_json(args.json.as_deref(), &outcome)?;
    Ok(Verdict::of(outcome.mismatches, outcome.not_found))
}

fn snapshot_read(args: &YcsbArgs) -> Option<SnapshotRead> {
    match &args.read_from {
        ReadFrom::Live => None,
        ReadFrom::Snapshot(name) => Some(SnapshotRead {
            name: name.clone(),
            form: args.through.snapshot_form,
        }),
    }
}

fn resolve(server: &str) -> Result<SocketAddr> {
    let resolved = server.to_socket_addrs();
    let mut addresses =
        resolved.with_context(|| format!("{server:?} is no HOST:PORT of a server"))?;
    let first = addresses.next();
    first.with_context(|| format!("the host of {server:?} has no address"))
}

/// Adds records to the table until it has `--records` of them. Returns `None` if it has that many
/// already. An interrupted load is an error.
fn load(
    args: &YcsbArgs,
    client: &mut RawClient,
    stop: &Arc<AtomicBool>,
) -> Result<Option<LoadReport>> {
    let present = client.records();
    if present >= args.records {
        return Ok(None);
    }
    let plan = Plan {
        value_bytes: args.value_bytes as usize,
        idle_class: args.through.idle_class,
        stop: stop.clone(),
        ..Plan::load(present..args.records)
    };
    let bar = progress_bar("load", args.records - present);
    let tally = client.run(&plan, |done| bar.set_position(done))?;
    bar.finish_and_clear();
    ensure!(
        !stop.load(Ordering::Relaxed),
        "interrupted after {} of {} records",
        present + tally.operations,
        args.records
    );
    let elapsed_s = tally.elapsed.as_secs_f64();
    let record_bytes = KEY_BYTES as u64 + args.value_bytes;
    Ok(Some(LoadReport {
        records: tally.operations,
        elapsed_s,
        records_per_s: tally.throughput_ops_per_s(),
        mb_per_s: (tally.operations * record_bytes) as f64 / 1e6 / elapsed_s.max(1e-9),
    }))
}

fn drive(args: &YcsbArgs, client: &mut RawClient, stop: &Arc<AtomicBool>) -> Result<Tally> {
    let plan = Plan {
        pace: args.target.map_or(Pace::Closed, Pace::steady),
        tick: Duration::from_micros(args.through.tick_us),
        in_flight: args.through.in_flight as usize,
        operations_max: args.operations_max(),
        duration: args.duration,
        stop: stop.clone(),
        value_bytes: args.value_bytes as usize,
        seed: args.seed,
        idle_class: args.through.idle_class,
        ..Plan::new(Operations::Run(args.workload, args.distribution))
    };
    let bar = progress_bar("run", BAR_STEPS);
    let begun = Instant::now();
    let progress = |done: u64| {
        let by_time = plan.duration.map_or(0.0, |duration| {
            begun.elapsed().as_secs_f64() / duration.as_secs_f64()
        });
        let by_operations = plan
            .operations_max
            .map_or(0.0, |max| done as f64 / max as f64);
        bar.set_position((by_time.max(by_operations) * BAR_STEPS as f64) as u64);
    };
    let tally = match args.through.client {
        ClientArg::Raw => client.run(&plan, progress)?,
        #[cfg(feature = "scylla")]
        ClientArg::Scylla => run_by_driver(args, client, &plan, progress)?,
    };
    bar.finish_and_clear();
    Ok(tally)
}

#[cfg(feature = "scylla")]
fn run_by_driver(
    args: &YcsbArgs,
    client: &mut RawClient,
    plan: &Plan,
    progress: impl Fn(u64) + Sync,
) -> Result<Tally> {
    let connections = args.through.connections as usize;
    let mut driver = client.driver(connections, args.threads())?;
    client.run_by(&mut driver, plan, progress)
}
