//! A server with a limit of 1,024 open files, and more SSTables than that: the tail of cached reads
//! over 500 connections, compared with a server that has all SSTables open, or as many as the hard
//! limit of this machine allows; then a full scan, a backup and merges of most SSTables, none of which
//! may fail.
//!
//! Both servers have the same files. Windows alternate between them, and the other one is idle
//! meanwhile. The load only reads, because writes would have the servers merge the files.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ebb_cql::client::Client;
use ebb_cql::protocol::Compression;
use ebb_server::http::JobsClient;
use ebb_storage::{Options, repair};
use serde::Serialize;

use super::args::ServingArgs;
use super::backup::{back_up, record_bytes};
use super::bar::verdict;
use super::connections::raise_limit;
use super::pinned::table;
use super::report::PartResult;
use super::server::{Server, loaded};
use super::setting::Setting;
use super::steady::{MeasuredLoad, SteadyLoad};
use super::throughput::{READS, WRITES};
use super::window::{ALONE, Window};
use crate::experiments::colocation::bootstrap::Estimate;
use crate::threads::pause;
use crate::ycsb::cql::{Operations, Plan, RawClient, pages};

/// The limit of open files of the server.
const FILES_MAX: u32 = 1024;
/// Connections to each server: those of the load, and one for other requests.
const CONNECTIONS: u64 = 500;
/// The largest acceptable ratio of the p99 of reads with the limit to that with all SSTables open.
const P99_MAX: f64 = 1.05;
/// The smallest expected size of an SSTable file, as a fraction of the bytes of keys and values in
/// it: about half of each value can be compressed, see `ycsb::records`.
const COMPRESSED_MIN: f64 = 0.4;
/// The number of rows in a page of the scan.
const PAGE_ROWS: u32 = 1000;
/// The longest wait for the merges.
const MERGE_MAX: Duration = Duration::from_secs(600);
/// The time between two checks whether the merges are done.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Serialize)]
pub struct Descriptors {
    /// The limit of open files.
    pub files_max: u32,
    pub connections: u64,
    /// The number of SSTables of the table before the merges.
    pub sstables: u64,
    /// The number of files that the server without the limit of 1,024 has open: at least as many as SSTables, unless
    /// the hard limit of open files is too low.
    pub open_files: u64,
    /// The load and its reads. The peak rate and the reads of the load alone are those of the
    /// server without the limit.
    #[serde(flatten)]
    pub load: MeasuredLoad,
    /// The ratio of the p99 of reads with the limit of open files to that without it.
    pub limited: Estimate,
    /// The number of blocks that the server with the limit of open files did not find in its block
    /// cache, over all windows.
    pub cache_misses: u64,
    /// The number of rows that the full scan read.
    pub scanned_rows: u64,
    pub backup_files: u64,
    /// The number of SSTables after the merges.
    pub sstables_merged: u64,
    /// The total time for which operations of the server waited for a free file descriptor, in
    /// seconds.
    pub descriptor_wait_s: f64,
    /// Lines of the limited server's log with level WARN or ERROR.
    pub complaints: Vec<String>,
}

impl PartResult for Descriptors {
    fn lines(&self) -> Vec<String> {
        let load = &self.load;
        let mut lines = vec![
            format!(
                "{} SSTables, {} connections, {} open files: reads of an open loop at {:.0} ops/s (peak \
                 {:.0}), p99 with {} open files {:.0} us",
                self.sstables,
                self.connections,
                self.files_max,
                load.rate_ops_per_s,
                load.peak_ops_per_s,
                self.open_files,
                load.p99_us
            ),
            format!(
                "  p99 with the limit / without {}, at most {P99_MAX}: {}; without again {}; windows that \
                 count {:?}; {} blocks were not in the cache; {}",
                self.limited,
                verdict(self.limited.value <= P99_MAX),
                load.alone_again,
                load.windows,
                self.cache_misses,
                load.unanswered()
            ),
            format!(
                "  a scan of {} rows, a backup of {} files and merges into {} SSTables, without an \
                 error; calls waited {:.3} s for descriptors",
                self.scanned_rows, self.backup_files, self.sstables_merged, self.descriptor_wait_s
            ),
            format!(
                "  {} warnings and errors in the log, at most 0: {}",
                self.complaints.len(),
                verdict(self.complaints.is_empty())
            ),
        ];
        lines.extend(self.complaints.iter().map(|line| format!("    {line}")));
        lines
    }
}

/// Measures two new servers over the same files: one has a limit of open files, the other has all
/// SSTables open.
///
/// # Errors
/// When a server fails, refuses a request or returns a wrong value, or the user interrupts the run.
pub fn measure(setting: &Setting<'_>) -> Result<Descriptors> {
    let args = setting.args;
    // The server with all SSTables open inherits the raised limit; the other one gets a lower one.
    raise_limit()?;
    let (few, all) = (
        setting.folder.join("few-open"),
        setting.folder.join("all-open"),
    );
    // One server loads the records. Both measured ones get a copy of its files, cut into small SSTables.
    let loader = setting.start("loaded", &[])?;
    // `client` connects and loads the records.
    drop(setting.client(&loader, None)?);
    loader.stop()?;
    for cut_into in [&few, &all] {
        cut(args, &setting.folder.join("loaded"), cut_into)?;
    }
    // Small memtables, so that overwritten records come to files while they are written. No request is
    // logged as slow: a backup takes its time.
    let more = ["--memtables-bytes", "4MiB", "--slow-request-ms", "3600000"].map(str::to_owned);
    let open = setting.start("all-open", &more)?;
    let limited = Server::start_with_files(FILES_MAX, &setting.binary, &few, &more)?;
    let jobs = limited.jobs_client()?;
    let sstables = table(&jobs)?.files;
    ensure!(
        sstables >= args.sstables,
        "only {sstables} SSTables were made, because blocks are not cut: give more --records, or fewer \
         --sstables"
    );
    let open_files = open.process.open_files()?;
    // All records are there, so these clients only connect.
    let mut open_client = loaded(&open, None, CONNECTIONS - 1, args)?;
    let mut limited_client = loaded(&limited, None, CONNECTIONS - 1, args)?;
    let load = SteadyLoad::find_of(READS, args, &mut open_client)?;
    // Runs the same closed loops, so that its caches are as warm as the other server's.
    SteadyLoad::find_of(READS, args, &mut limited_client)?;
    let misses_before = jobs.stats()?.stats.cache_misses;
    // Conditions 0 and 1 are the server with all SSTables open, 2 is the limited one.
    let windows = setting.in_turns("descriptors", ALONE.len() + 1, |turn| {
        let is_open = ALONE.contains(&turn);
        let client = if is_open {
            &mut open_client
        } else {
            &mut limited_client
        };
        Window::of_reads(client, &load.plan)
    })?;
    let cache_misses = jobs.stats()?.stats.cache_misses - misses_before;
    // The rest is about the limited server alone.
    drop(open_client);
    open.stop()?;
    let mut scanner = Client::connect(limited.address, Compression::None)?;
    let scanned_rows = pages(&mut scanner, PAGE_ROWS, || true)?;
    ensure!(
        scanned_rows == args.records,
        "a scan read {scanned_rows} rows"
    );
    let backup_files = back_up(&jobs, &setting.folder.join("backup"))?.files;
    let sstables_merged = merge(setting, &jobs, &mut limited_client, sstables)?;
    // Merges must not have lost a row.
    let scanned_again = pages(&mut scanner, PAGE_ROWS, || true)?;
    ensure!(
        scanned_again == args.records,
        "after the merge a scan read {scanned_again} rows"
    );
    let waited_us = jobs.stats()?.stats.descriptor_wait_us;
    drop((limited_client, scanner));
    // Read before the stop, which consumes the server.
    let log = limited.log()?;
    limited.stop()?;
    Ok(Descriptors {
        files_max: FILES_MAX,
        connections: CONNECTIONS,
        sstables,
        open_files,
        load: load.measured(&windows),
        limited: windows.p99(2, &ALONE),
        cache_misses,
        scanned_rows,
        backup_files,
        sstables_merged,
        descriptor_wait_s: waited_us as f64 / 1e6,
        complaints: complaints(&log),
    })
}

/// Copies the database in `from` into the new directory `to`, with SSTables so small that there
/// should be at least `--sstables` of them. Uses a repair for this: a repair writes each table as
/// one sorted run, in files of the size in its options, even if nothing is damaged.
fn cut(args: &ServingArgs, from: &Path, to: &Path) -> Result<()> {
    let file_bytes = args.records * record_bytes(args) / args.sstables;
    let options = Options {
        file_bytes: (file_bytes as f64 * COMPRESSED_MIN) as u64,
        ..Options::default()
    };
    let report = repair(from, to, &options, &mut |_| ())?;
    ensure!(
        report.lost.is_empty(),
        "records were lost: {:?}",
        report.lost
    );
    Ok(())
}

/// Updates random records, half as many times as there are records, and waits until merges have
/// left fewer than half of the SSTables. Returns the number of SSTables that are left.
fn merge(
    setting: &Setting<'_>,
    jobs: &JobsClient,
    client: &mut RawClient,
    sstables: u64,
) -> Result<u64> {
    let args = setting.args;
    let overwrites = Plan {
        operations_max: Some(args.records / 2),
        value_bytes: args.value_bytes as usize,
        ..Plan::new(Operations::Run(WRITES, None))
    };
    client.run(&overwrites, |_| ())?;
    let began = Instant::now();
    loop {
        setting.check_interrupt()?;
        let left = table(jobs)?.files;
        if left < sstables / 2 {
            return Ok(left);
        }
        ensure!(
            began.elapsed() < MERGE_MAX,
            "{left} of {sstables} SSTables are not merged"
        );
        pause(LOOK);
    }
}

/// Returns the lines of a log with level WARN or ERROR. Each line is an object of JSON.
fn complaints(log: &str) -> Vec<String> {
    let is_one = |line: &&str| ["WARN", "ERROR"].iter().any(|level| has_level(line, level));
    log.lines().filter(is_one).map(str::to_owned).collect()
}

fn has_level(line: &str, level: &str) -> bool {
    line.contains(&format!("\"level\":\"{level}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_and_errors_of_a_log_are_complaints() {
        let log = "{\"level\":\"INFO\",\"message\":\"an ERROR in a name\"}\n\
                   {\"level\":\"WARN\",\"message\":\"a\"}\n{\"level\":\"ERROR\",\"message\":\"b\"}\n";
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(complaints(log), lines[1..]);
    }
}
