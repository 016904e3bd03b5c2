//! The results of all parts: the text for the terminal, and the JSON.

use std::fmt::Write;

use serde::Serialize;

use super::args::ServingArgs;
use super::backup::Backup;
use super::beside::BesideLoad;
use super::connections::Connections;
use super::descriptors::Descriptors;
use super::endless::EndlessStatements;
use super::hostile::HostileClients;
use super::hot_row::HotRow;
use super::indexed::Indexed;
use super::logs::Logs;
use super::neighbours::Neighbours;
use super::overload::OverloadedLoad;
use super::pinned::Pinned;
use super::publications::Publications;
use super::secured::Secured;
use super::snapshots::Snapshots;
use super::startup::Startup;
use super::throughput::{Kind, Throughput};
use super::watched::WatchedLoad;
use crate::experiments::colocation::bootstrap::Estimate;
use crate::experiments::statistics::median;
use crate::number::{fixed, percent};
use crate::ycsb::Distribution;

/// All measurements: the content of `--json-file`. A part that was not requested is `None`.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Processors of the machine, shared by client and server.
    pub cpus: usize,
    pub records: u64,
    pub value_bytes: u64,
    pub connections_of_client: u64,
    /// The distribution of the records that operations choose. Some parts have a fixed one
    /// and ignore this.
    pub distribution: Distribution,
    pub throughput: Option<Throughput>,
    pub beside: Option<BesideLoad>,
    pub connections: Option<Connections>,
    pub startup: Option<Startup>,
    pub hot_row: Option<HotRow>,
    pub indexed: Option<Indexed>,
    pub overload: Option<OverloadedLoad>,
    pub secured: Option<Secured>,
    pub watched: Option<WatchedLoad>,
    pub hostile: Option<HostileClients>,
    pub endless: Option<EndlessStatements>,
    pub neighbours: Option<Neighbours>,
    pub logs: Option<Logs>,
    pub backup: Option<Backup>,
    pub publications: Option<Publications>,
    pub pinned: Option<Pinned>,
    pub descriptors: Option<Descriptors>,
    pub snapshots: Option<Snapshots>,
}

impl Report {
    pub fn new(args: &ServingArgs) -> Self {
        Self {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            records: args.records,
            value_bytes: args.value_bytes,
            connections_of_client: args.connections,
            distribution: args.distribution,
            throughput: None,
            beside: None,
            connections: None,
            startup: None,
            hot_row: None,
            indexed: None,
            overload: None,
            secured: None,
            watched: None,
            hostile: None,
            endless: None,
            neighbours: None,
            logs: None,
            backup: None,
            publications: None,
            pinned: None,
            descriptors: None,
            snapshots: None,
        }
    }

    /// Returns the report as text for the terminal, with a newline at the end.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "{} records of {} bytes, {} connections, client and server on {} cpus\n",
            self.records, self.value_bytes, self.connections_of_client, self.cpus
        )?;
        if let Some(throughput) = &self.throughput {
            write_kind(text, "reads", &throughput.reads)?;
            write_kind(text, "writes", &throughput.writes)?;
        }
        if let Some(beside) = &self.beside {
            write_beside(text, beside)?;
        }
        if let Some(it) = &self.connections {
            let mb = |bytes: u64| bytes as f64 / 1e6;
            writeln!(
                text,
                "idle connections: {} take the server from {:.1} to {:.1} MB",
                it.connections,
                mb(it.before_bytes),
                mb(it.with_bytes)
            )?;
        }
        if let Some(startup) = &self.startup {
            let ms = |seconds: &[f64]| {
                let most = seconds.iter().copied().fold(0.0, f64::max);
                format!(
                    "{:.0} ms (at most {:.0})",
                    median(seconds) * 1e3,
                    most * 1e3
                )
            };
            writeln!(
                text,
                "first answer with {:.2} GB: after a stop {}, after SIGKILL {}",
                startup.data_bytes as f64 / 1e9,
                ms(&startup.after_stop_s),
                ms(&startup.after_kill_s)
            )?;
        }
        if let Some(hot_row) = &self.hot_row {
            writeln!(text, "writes of one row: {}", hot_row.lines().join("; "))?;
        }
        if let Some(indexed) = &self.indexed {
            writeln!(text, "an index: {}", indexed.lines().join("; "))?;
        }
        // The results above have one line or a format of their own. These parts make their lines
        // themselves.
        let lines = [
            self.overload.as_ref().map(OverloadedLoad::lines),
            self.secured.as_ref().map(Secured::lines),
            self.watched.as_ref().map(WatchedLoad::lines),
            self.hostile.as_ref().map(HostileClients::lines),
            self.endless.as_ref().map(EndlessStatements::lines),
            self.neighbours.as_ref().map(Neighbours::lines),
            self.logs.as_ref().map(Logs::lines),
            self.backup.as_ref().map(Backup::lines),
            self.publications.as_ref().map(Publications::lines),
            self.pinned.as_ref().map(Pinned::lines),
            self.descriptors.as_ref().map(Descriptors::lines),
            self.snapshots.as_ref().map(Snapshots::lines),
        ];
        for line in lines.into_iter().flatten().flatten() {
            writeln!(text, "{line}")?;
        }
        Ok(())
    }
}

fn write_kind(text: &mut String, name: &str, kind: &Kind) -> std::fmt::Result {
    writeln!(
        text,
        "{name}: {:.0} ops/s; cpu per op: server {:.2} us, client {:.2} us, in process {:.2} us",
        median(&kind.ops_per_s),
        median(&kind.server_cpu_us),
        median(&kind.client_cpu_us),
        median(&kind.embedded_cpu_us)
    )?;
    if let Some(ratio) = kind.over_redis() {
        writeln!(
            text,
            "  Redis {:.0} ops/s; cpu per op: server {:.2} us, client {:.2} us; ebb / Redis {}",
            median(&kind.redis_ops_per_s),
            median(&kind.redis_cpu_us),
            median(&kind.redis_client_cpu_us),
            fixed(ratio, 2)
        )?;
    }
    writeln!(
        text,
        "  cpu through CQL / in process {}; against itself: ops/s {}, cpu {}",
        fixed(kind.cpu_over_embedded(), 2),
        fixed(kind.over_itself(), 2),
        fixed(kind.cpu_over_itself(), 2)
    )
}

fn write_beside(text: &mut String, beside: &BesideLoad) -> std::fmt::Result {
    let shown = |it: &Estimate| {
        let [value, low, high] = [it.value, it.low, it.high].map(|ratio| fixed(ratio, 2));
        format!("{value} ({low} to {high})")
    };
    writeln!(
        text,
        "open loop at {:.0} ops/s (peak {:.0}): p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us",
        beside.rate_ops_per_s, beside.peak_ops_per_s, beside.p50_us, beside.p99_us, beside.p999_us
    )?;
    writeln!(
        text,
        "  p99 over alone: alone again {}, three jobs {}, a pager {}",
        shown(&beside.alone_again),
        shown(&beside.jobs),
        shown(&beside.pager)
    )?;
    writeln!(
        text,
        "  jobs used {} of what was idle; the pager read {:.0} rows/s; windows that count {:?}",
        fixed(beside.idle_cpu_used, 2),
        beside.paged_rows_per_s,
        beside.windows
    )?;
    match &beside.paused {
        Some(paused) => {
            let paused: Vec<String> = paused.iter().map(|part| percent(*part, 1)).collect();
            writeln!(
                text,
                "  left out because the machine paused: {}",
                paused.join(", ")
            )?;
        }
        None => writeln!(
            text,
            "  pauses of the machine count, because they could not be observed"
        )?,
    }
    if beside.unserved > 0 {
        let unserved = beside.unserved;
        writeln!(text, "  {unserved} operations were due and never began")?;
    }
    Ok(())
}
