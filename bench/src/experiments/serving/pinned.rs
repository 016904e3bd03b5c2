//! The bytes that the server reports as pinned by five snapshots, compared with the bytes that are
//! freed when the snapshots are deleted.
//!
//! A fifth of the records is overwritten after each snapshot. Versions that are not pinned are
//! merged away before the measurement: an idle server does that.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebb_server::http::{JobsClient, SnapshotRequest, TableSummary};
use serde::Serialize;

use super::bar::verdict;
use super::report::PartResult;
use super::server::Server;
use super::setting::Setting;
use super::throughput::WRITES;
use crate::console::progress_bar;
use crate::experiments::statistics::{median, median_ratio};
use crate::number::fixed;
use crate::threads::pause;
use crate::ycsb::cql::{KEYSPACE, Operations, Plan, TABLE};

/// The number of snapshots in a round.
const SNAPSHOTS: u64 = 5;
/// The smallest acceptable ratio of reported bytes to freed bytes; [`RATIO_MAX`] is the largest.
const RATIO_MIN: f64 = 0.9;
const RATIO_MAX: f64 = 1.1;
/// The pause after the last request. By its end the server counts as idle, and has begun to merge.
const IDLE: Duration = Duration::from_secs(3);
/// The longest wait for the server's merges.
const MERGES_MAX: Duration = Duration::from_secs(600);

/// The result of the part, round by round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Pinned {
    /// The pinned bytes by the server's estimate, which reads no data, for each round.
    pub estimated_bytes: Vec<f64>,
    /// The pinned bytes by an exact count, which reads the whole table, for each round.
    pub counted_bytes: Vec<f64>,
    /// The bytes of files that the deletion of the snapshots freed, for each round.
    pub freed_bytes: Vec<f64>,
}

impl PartResult for Pinned {
    fn lines(&self) -> Vec<String> {
        let mb = |bytes: &[f64]| median(bytes) / 1e6;
        let line = |name: &str, bytes: &[f64]| {
            let ratio = median_ratio(bytes, &self.freed_bytes);
            let is_within = ratio.is_some_and(|ratio| (RATIO_MIN..=RATIO_MAX).contains(&ratio));
            format!(
                "  {name} {:.1} MB; over what came back {}, {RATIO_MIN} to {RATIO_MAX}: {}",
                mb(bytes),
                fixed(ratio, 3),
                verdict(is_within)
            )
        };
        vec![
            format!(
                "pinned by {SNAPSHOTS} snapshots: {:.1} MB of files came back",
                mb(&self.freed_bytes)
            ),
            line("counted", &self.counted_bytes),
            line("estimated", &self.estimated_bytes),
        ]
    }
}

/// Starts a server, and compares the bytes that it reports as pinned by snapshots with the
/// bytes that the deletion of the snapshots frees.
///
/// # Errors
/// When the server fails or does not become quiet, or the user interrupts the run.
pub fn measure(setting: &Setting<'_>) -> Result<Pinned> {
    let args = setting.args;
    let server = setting.start("pinned", &[])?;
    let mut client = setting.client(&server, None)?;
    let jobs = server.jobs_client()?;
    let overwrites = Plan {
        operations_max: Some(args.records / SNAPSHOTS),
        value_bytes: args.value_bytes as usize,
        ..Plan::new(Operations::Run(WRITES, None))
    };
    let mut found = Pinned::default();
    let bar = progress_bar("serving: pinned", u64::from(args.rounds));
    for _ in 0..args.rounds {
        for number in 1..=SNAPSHOTS {
            setting.check_interrupt()?;
            jobs.create_snapshot(&snapshot(number))?;
            client.run(&overwrites, |_| ())?;
        }
        until_merged(&server)?;
        let before = table(&jobs)?;
        let counted = jobs.snapshots(Some(KEYSPACE), true)?;
        let counted = counted.pinned_exact_together_bytes;
        for number in 1..=SNAPSHOTS {
            jobs.delete_snapshot(KEYSPACE, &snapshot(number).name)?;
        }
        until_merged(&server)?;
        let freed_bytes = before.file_bytes.saturating_sub(table(&jobs)?.file_bytes);
        found.estimated_bytes.push(before.pinned_bytes as f64);
        found
            .counted_bytes
            .push(counted.context("a count was requested")? as f64);
        found.freed_bytes.push(freed_bytes as f64);
        bar.inc(1);
    }
    bar.finish_and_clear();
    drop(client);
    server.stop()?;
    Ok(found)
}

fn snapshot(number: u64) -> SnapshotRequest {
    SnapshotRequest {
        keyspace: KEYSPACE.to_owned(),
        name: format!("s{number}"),
        table: None,
        expires_in_s: None,
    }
}

/// Returns the summary of the table of records.
pub(super) fn table(jobs: &JobsClient) -> Result<TableSummary> {
    let mut tables = jobs.tables()?.into_iter();
    let table = tables.find(|table| table.keyspace == KEYSPACE && table.table == TABLE);
    table.context("the table of records is there")
}

/// Waits until the server is idle, has flushed its memtables, and has completed its merges.
fn until_merged(server: &Server) -> Result<()> {
    pause(IDLE);
    let is_quiet = server.process.settle(MERGES_MAX)?;
    ensure!(
        is_quiet,
        "the server still merges after {} s",
        MERGES_MAX.as_secs()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_bytes_are_within_their_bars_or_not() {
        let found = Pinned {
            estimated_bytes: vec![120e6],
            counted_bytes: vec![98e6],
            freed_bytes: vec![100e6],
        };
        let lines = found.lines();
        assert!(lines[1].ends_with("0.980, 0.9 to 1.1: meets"), "{lines:?}");
        assert!(lines[2].ends_with("1.200, 0.9 to 1.1: misses"), "{lines:?}");
        // A ratio to 0 freed bytes is not within the bars.
        let found = Pinned {
            freed_bytes: vec![0.0],
            ..found
        };
        assert!(found.lines()[1].ends_with(": misses"));
    }
}
