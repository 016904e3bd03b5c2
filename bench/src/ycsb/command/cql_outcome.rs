//! The results of a YCSB run against a server: the JSON, and the table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;

use serde::Serialize;

use super::args::ClientArg;
use super::table::{HEADINGS, columns, pace, write_load, write_workload};
use crate::ycsb::cql::{ServerUsage, Sessions, SnapshotForm, Tally};
use crate::ycsb::{Distribution, Latencies, LoadReport, Operation, Workload};

/// The results of a run against a server, as `--json-file` contains them.
#[derive(Debug, Serialize)]
pub struct CqlOutcome {
    pub workload: Workload,
    pub settings: CqlSettings,
    /// The report of the load; `None` if the records were in the table already.
    pub load: Option<LoadReport>,
    /// The time from the start of the run to the end of its last operation, in seconds.
    pub elapsed_s: f64,
    pub operations: u64,
    pub throughput_ops_per_s: f64,
    /// The number of operations of an open loop that were due before the end and never began.
    /// Unless the run was interrupted, any such operation shows that the rate was too high for
    /// server and client.
    pub operations_unserved: u64,
    /// Latencies of each kind of operation that occurred.
    pub latencies: BTreeMap<Operation, Latencies>,
    pub latencies_all: Latencies,
    /// The number of wrong values. A value is wrong if its stamp is damaged, if it belongs to
    /// another record, or if a read from a snapshot returned it although this run wrote it.
    pub mismatches: u64,
    /// The number of reads that found no record, and of scans that did not find their first record,
    /// although the record exists.
    pub not_found: u64,
    pub records_scanned: u64,
    /// CPU time of the client per operation, in microseconds.
    pub client_cpu_us_per_op: f64,
    /// CPU time of the server per operation, in microseconds; includes the server's background work
    /// during the run. `None` if the server's process is not known.
    pub server_cpu_us_per_op: Option<f64>,
    /// The CPU time of the server's process during the run; `None` if the process is not known.
    pub server: Option<ServerUsage>,
    pub interrupted: bool,
}

/// The settings of a run against a server.
#[derive(Debug, Serialize)]
pub struct CqlSettings {
    pub server: SocketAddr,
    pub client: ClientArg,
    pub connections: usize,
    /// The most requests in flight on each connection.
    pub in_flight: u64,
    /// The interval at which an open loop sent due operations and read responses, in microseconds;
    /// 0 if it did so without delay.
    pub tick_us: u64,
    pub threads: usize,
    pub idle_class: bool,
    /// The way in which reads name their snapshot, if they read one.
    pub snapshot_form: SnapshotForm,
    /// Whether client and server are in the same session, autogroup and cgroup: the groups among
    /// which the kernel divides CPU time.
    pub sessions: Sessions,
    pub cpus: usize,
    /// The number of records in the table when the run began.
    pub records: u64,
    pub value_bytes: u64,
    pub read_from: String,
    /// The rate of an open loop; `None` for a closed loop.
    pub target_ops_per_s: Option<f64>,
    pub distribution: Distribution,
    pub seed: u64,
}

impl CqlOutcome {
    pub fn new(
        workload: Workload,
        settings: CqlSettings,
        load: Option<LoadReport>,
        tally: &Tally,
        server: Option<ServerUsage>,
        interrupted: bool,
    ) -> Self {
        let operations = tally.operations.max(1) as f64;
        let of = |operation| Some((operation, tally.of(operation)?));
        Self {
            workload,
            settings,
            load,
            elapsed_s: tally.elapsed.as_secs_f64(),
            operations: tally.operations,
            throughput_ops_per_s: tally.throughput_ops_per_s(),
            operations_unserved: tally.unserved,
            latencies: Operation::ALL.into_iter().filter_map(of).collect(),
            latencies_all: Latencies::from(&tally.all()),
            mismatches: tally.mismatches,
            not_found: tally.not_found,
            records_scanned: tally.records_scanned,
            client_cpu_us_per_op: tally.cpu.as_secs_f64() * 1e6 / operations,
            server_cpu_us_per_op: server.map(|used| used.cpu_s() * 1e6 / operations),
            server,
            interrupted,
        }
    }
}

/// Returns the table for the terminal, with a newline at the end.
pub fn render(outcome: &CqlOutcome) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_all(&mut text, outcome);
    text
}

fn write_all(text: &mut String, outcome: &CqlOutcome) -> std::fmt::Result {
    let settings = &outcome.settings;
    let pace = pace(settings.target_ops_per_s);
    write_workload(text, outcome.workload, settings.distribution)?;
    writeln!(
        text,
        "{} connections to {} with {} in flight each, {pace}, reads from {}, {} records of {} bytes",
        settings.connections,
        settings.server,
        settings.in_flight,
        settings.read_from,
        settings.records,
        settings.value_bytes
    )?;
    let class = if settings.idle_class {
        "idle"
    } else {
        "ordinary"
    };
    writeln!(
        text,
        "client: {}, {} threads of {} cpus in the {class} class; {}",
        match settings.client {
            ClientArg::Raw => "raw",
            #[cfg(feature = "scylla")]
            ClientArg::Scylla => "ScyllaDB's driver",
        },
        settings.threads,
        settings.cpus,
        settings.sessions
    )?;
    write_load(text, outcome.load.as_ref(), outcome.interrupted)?;
    writeln!(text, "\n{:<24}{HEADINGS}", "latency in us")?;
    for (operation, latencies) in &outcome.latencies {
        writeln!(text, "{operation:<24}{}", columns(latencies))?;
    }
    writeln!(text, "{:<24}{}", "all", columns(&outcome.latencies_all))?;
    writeln!(
        text,
        "\nthroughput     {:.0} ops/s over {:.2} s",
        outcome.throughput_ops_per_s, outcome.elapsed_s
    )?;
    // They have no latency, so the percentiles lack the longest waits.
    if outcome.operations_unserved > 0 {
        writeln!(
            text,
            "overloaded     {} operations were due and never began: the latencies are too low",
            outcome.operations_unserved
        )?;
    }
    let client = outcome.client_cpu_us_per_op;
    match (&outcome.server, outcome.server_cpu_us_per_op) {
        (Some(used), Some(server)) => writeln!(
            text,
            "cpu per op     server {server:.2} us ({:.2} s user, {:.2} s system in all), client {client:.2} us",
            used.cpu_user_s, used.cpu_system_s
        )?,
        _ => writeln!(
            text,
            "cpu per op     client {client:.2} us; the server's process is not known (--server-pid)"
        )?,
    }
    writeln!(
        text,
        "checks         {} mismatches, {} not found",
        outcome.mismatches, outcome.not_found
    )
}
