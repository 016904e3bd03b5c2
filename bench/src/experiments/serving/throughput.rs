//! Reads and writes of one record, in turns: the server, Redis, the server again; and the CPU time
//! of each compared with the store in process.

use anyhow::Result;
use serde::Serialize;

use super::embedded::Embedded;
use super::redis::Redis;
use super::report::PartResult;
use super::server::Server;
use super::setting::Setting;
use crate::console::progress_bar;
use crate::experiments::statistics::{median, median_ratio};
use crate::number::fixed;
use crate::ycsb::cql::{Operations, Plan, RawClient};
use crate::ycsb::{Distribution, Operation, Workload};

/// Reads of records that are drawn uniformly, as `redis-benchmark` draws its keys.
pub(super) const READS: Workload = Workload {
    name: "reads",
    mix: &[(100, Operation::Read)],
    distribution: Distribution::Uniform,
};
/// Updates of records that are drawn uniformly, as `redis-benchmark` draws its keys.
pub(super) const WRITES: Workload = Workload {
    name: "writes",
    mix: &[(100, Operation::Update)],
    distribution: Distribution::Uniform,
};

/// The results of one kind of operation, round by round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Kind {
    /// Operations per second of the server, one value for each round.
    pub ops_per_s: Vec<f64>,
    /// Operations per second of the server in the second run of each round. The second run repeats
    /// the first, so the difference between the two is noise.
    pub again_ops_per_s: Vec<f64>,
    /// Operations per second of Redis, one value for each round; empty if Redis is not installed.
    pub redis_ops_per_s: Vec<f64>,
    /// The server's CPU time for an operation, in microseconds, one value for each round.
    pub server_cpu_us: Vec<f64>,
    /// The server's CPU time for an operation in the second run of each round, in microseconds.
    pub again_server_cpu_us: Vec<f64>,
    /// The client's CPU time for an operation, in microseconds, one value for each round.
    pub client_cpu_us: Vec<f64>,
    /// Redis's CPU time for an operation, in microseconds, one value for each round.
    pub redis_cpu_us: Vec<f64>,
    /// CPU time of Redis's client for an operation, in microseconds, one value for each round.
    pub redis_client_cpu_us: Vec<f64>,
    /// CPU time for an operation if a process uses the store without a server, in microseconds,
    /// one value for each round.
    pub embedded_cpu_us: Vec<f64>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Throughput {
    pub reads: Kind,
    pub writes: Kind,
}

impl Kind {
    /// Returns the median ratio of the server's operations per second to those of Redis; `None` if
    /// Redis is not installed.
    fn over_redis(&self) -> Option<f64> {
        median_ratio(&self.ops_per_s, &self.redis_ops_per_s)
    }

    /// Returns the median ratio of the operations per second of the first to those of the second
    /// run of a round: how far two equal runs differ by chance.
    fn over_itself(&self) -> Option<f64> {
        median_ratio(&self.ops_per_s, &self.again_ops_per_s)
    }

    /// Returns the median ratio of the server's CPU time for an operation to that of the store in
    /// process.
    fn cpu_over_embedded(&self) -> Option<f64> {
        median_ratio(&self.server_cpu_us, &self.embedded_cpu_us)
    }

    /// Returns the median ratio of the server's CPU time in the first to that in the second run of
    /// a round: how far two equal runs differ by chance.
    fn cpu_over_itself(&self) -> Option<f64> {
        median_ratio(&self.server_cpu_us, &self.again_server_cpu_us)
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let mut lines = vec![format!(
            "{name}: {:.0} ops/s; cpu per op: server {:.2} us, client {:.2} us, in process \
             {:.2} us",
            median(&self.ops_per_s),
            median(&self.server_cpu_us),
            median(&self.client_cpu_us),
            median(&self.embedded_cpu_us)
        )];
        lines.extend(self.over_redis().map(|ratio| {
            format!(
                "  Redis {:.0} ops/s; cpu per op: server {:.2} us, client {:.2} us; ebb / Redis {}",
                median(&self.redis_ops_per_s),
                median(&self.redis_cpu_us),
                median(&self.redis_client_cpu_us),
                fixed(ratio, 2)
            )
        }));
        lines.push(format!(
            "  cpu through CQL / in process {}; against itself: ops/s {}, cpu {}",
            fixed(self.cpu_over_embedded(), 2),
            fixed(self.over_itself(), 2),
            fixed(self.cpu_over_itself(), 2)
        ));
        lines
    }
}

impl PartResult for Throughput {
    fn lines(&self) -> Vec<String> {
        let mut lines = self.reads.lines("reads");
        lines.extend(self.writes.lines("writes"));
        lines
    }
}

pub fn measure(setting: &Setting<'_>) -> Result<Throughput> {
    let args = setting.args;
    let (records, value_bytes) = (args.records, args.value_bytes as usize);
    let connections = args.connections as usize;
    let embedded = Embedded::load(&setting.folder.join("embedded"), records, value_bytes)?;
    let server = setting.start("served", &[])?;
    let mut client = setting.client(&server, None)?;
    // `None` without Redis on the machine: then its lists stay empty.
    let redis = Redis::start(&setting.folder.join("redis"))?;
    if let Some(redis) = &redis {
        redis.load(records, value_bytes)?;
    }
    // The flushes and merges of the load would count as CPU time of the first operations.
    server.settle()?;
    let mut measured = Throughput::default();
    let bar = progress_bar("serving: throughput", u64::from(args.rounds));
    for _ in 0..args.rounds {
        for (workload, test, kind) in [
            (READS, "get", &mut measured.reads),
            (WRITES, "set", &mut measured.writes),
        ] {
            setting.check_interrupt()?;
            let plan = Plan {
                duration: Some(args.window),
                value_bytes,
                ..Plan::new(Operations::Run(workload, None))
            };
            let (ops_per_s, server_cpu_us, client_cpu_us) = run(&server, &mut client, &plan)?;
            kind.ops_per_s.push(ops_per_s);
            kind.server_cpu_us.push(server_cpu_us);
            kind.client_cpu_us.push(client_cpu_us);
            if let Some(redis) = &redis {
                // Redis serves as many requests as the server did, which takes about as long; after a tiny
                // window at least 1000, so that all its connections have some.
                let requests = (ops_per_s * args.window.as_secs_f64()).max(1000.0) as u64;
                let run = redis.run(test, requests, records, value_bytes, connections)?;
                kind.redis_ops_per_s.push(run.ops_per_s);
                kind.redis_cpu_us.push(run.server_cpu_us);
                kind.redis_client_cpu_us.push(run.client_cpu_us);
            }
            // The second run shows how much a figure changes by itself within a round.
            let (ops_per_s, server_cpu_us, _) = run(&server, &mut client, &plan)?;
            kind.again_ops_per_s.push(ops_per_s);
            kind.again_server_cpu_us.push(server_cpu_us);
            let embedded_cpu_us = embedded.cpu_us(workload, args.window)?;
            kind.embedded_cpu_us.push(embedded_cpu_us);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    drop(client);
    server.stop()?;
    Ok(measured)
}

/// Runs `plan`. Returns the operations per second, and then the server's and the client's CPU time for
/// an operation, in microseconds.
pub(super) fn run(server: &Server, client: &mut RawClient, plan: &Plan) -> Result<(f64, f64, f64)> {
    let before = server.process.usage()?;
    let tally = client.run(plan, |_| ())?;
    let used = server.process.usage()?.since(&before);
    tally.check_values()?;
    let operations = tally.operations.max(1) as f64;
    Ok((
        tally.throughput_ops_per_s(),
        used.cpu_s() * 1e6 / operations,
        tally.cpu.as_secs_f64() * 1e6 / operations,
    ))
}
