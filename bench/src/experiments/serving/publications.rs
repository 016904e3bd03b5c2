//! Publications beside reads: the tail of the reads with them and without.
//!
//! The load is that of all parts about the tail, at half of what a closed loop reaches. Each
//! publication writes all rows of the table into a new folder. In other windows the load runs beside
//! [threads of the idle class](super::idlers) that only count: a job that uses all the CPU that the
//! load leaves cannot be better than these.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use ebb_jobs::history::RecordState;
use ebb_jobs::request::{
    ApplicationRequest, InputRequest, JobRequest, OutputPlace, PublishRequest, PublishTarget,
    TableInput,
};
use ebb_server::http::{JobsClient, SnapshotRequest};
use ebb_server::jobs::{Jobs, ReadJobs};
use serde::Serialize;

use super::bar::verdict;
use super::idlers::{IdleWork, Idlers};
use super::server::loaded;
use super::setting::Setting;
use super::steady::{SteadyLoad, beside_repeats};
use super::window::{ALONE, Window};
use crate::experiments::colocation::bootstrap::Estimate;
use crate::ycsb::cql::{KEYSPACE, TABLE};

/// The largest acceptable upper end of the confidence interval of the ratio of the p99 of reads beside
/// publications to that of the load alone.
const P99_MAX: f64 = 1.2;
/// The index, among the compared conditions, of the load beside publications. Before it comes the
/// load alone, twice.
const PUBLICATIONS: usize = ALONE.len();
/// The index of the load beside threads that only increment a counter.
const COUNTING: usize = PUBLICATIONS + 1;
/// The name of the published snapshot.
const SNAPSHOT: &str = "published";
/// The longest time for which one request waits for the end of a publication.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Serialize)]
pub struct Publications {
    /// The number of rows of a publication.
    pub rows: u64,
    /// The peak rate: operations per second of a closed loop.
    pub peak_ops_per_s: f64,
    /// Operations per second of the load: half of the peak, unless a rate was given.
    pub rate_ops_per_s: f64,
    /// The p99 of reads alone, in microseconds.
    pub p99_us: f64,
    /// The ratio of the p99 of reads in some of the windows alone to that in the others: noise.
    pub alone_again: Estimate,
    /// The ratio of the p99 of reads beside publications to that alone.
    pub beside: Estimate,
    /// The ratio of the p99 of reads beside threads of the idle class that only count to that alone.
    pub counting: Estimate,
    /// The number of publications that completed during the windows.
    pub completed: u64,
    /// The number of windows of each condition (alone, alone again, beside publications, beside
    /// threads that count) that were not spoiled (disturbed by other processes or pauses of the
    /// machine). If any condition has fewer than two of these, spoiled windows are compared too.
    pub windows: Vec<usize>,
    /// The number of operations that were due and never began, over all windows.
    pub unserved: u64,
}

impl Publications {
    pub fn lines(&self) -> Vec<String> {
        vec![
            format!(
                "publications of {} rows beside reads of an open loop at {:.0} ops/s (peak {:.0}): p99 \
                 alone {:.0} us",
                self.rows, self.rate_ops_per_s, self.peak_ops_per_s, self.p99_us
            ),
            format!(
                "  p99 beside / alone {}, upper end at most {P99_MAX}: {}; alone again {}; beside threads \
                 that only count {}",
                self.beside,
                verdict(self.beside.high <= P99_MAX),
                self.alone_again,
                self.counting
            ),
            format!(
                "  {} publications completed; windows that count {:?}; {} operations were due and \
                 never began",
                self.completed, self.windows, self.unserved
            ),
        ]
    }
}

/// Measures the tail latency of reads beside publications by a new server.
///
/// # Errors
/// When the server was built without the feature `publish`, fails or returns a wrong value, a
/// publication fails, or the user interrupts the run.
pub fn measure(setting: &Setting<'_>) -> Result<Publications> {
    let args = setting.args;
    let server = setting.start("published", &[])?;
    let mut client = loaded(&server, None, args.connections, args)?;
    // The flushes and merges of the loading belong to no window.
    server.settle()?;
    let jobs = server.jobs_client()?;
    jobs.create_snapshot(&SnapshotRequest {
        keyspace: KEYSPACE.to_owned(),
        name: SNAPSHOT.to_owned(),
        table: None,
        expires_in_s: None,
    })?;
    let load = SteadyLoad::find(args, &mut client)?;
    let lake = setting.folder.join("lake");
    let mut completed = 0;
    let windows = setting.in_turns("publications", COUNTING + 1, |turn| {
        let mut run = || Window::of_reads(&mut client, &load.plan);
        if ALONE.contains(&turn) {
            return run();
        }
        if turn == COUNTING {
            let _idlers = Idlers::start(IdleWork::Count)?;
            return run();
        }
        let (window, publications) = beside_repeats(run, || {
            publish(&jobs, &lake)?;
            Ok(fs::remove_dir_all(&lake)?)
        })?;
        completed += publications;
        Ok(window)
    })?;
    drop(client);
    server.stop()?;
    let [p99_us] = windows.alone_us([0.99]);
    Ok(Publications {
        rows: args.records,
        peak_ops_per_s: load.peak_ops_per_s,
        rate_ops_per_s: load.rate_ops_per_s,
        p99_us,
        alone_again: windows.p99(1, &[0]),
        beside: windows.p99(PUBLICATIONS, &ALONE),
        counting: windows.p99(COUNTING, &ALONE),
        completed,
        windows: windows.whole(),
        unserved: windows.all().map(|window| window.unserved).sum(),
    })
}

/// Has the server publish all rows of the snapshot into the new folder `lake`.
fn publish(jobs: &JobsClient, lake: &Path) -> Result<()> {
    let table = format!("{KEYSPACE}.{TABLE}").parse();
    let input = InputRequest::Table(TableInput {
        snapshot: Some(SNAPSHOT.to_owned()),
        ..TableInput::new(table.map_err(|error: String| anyhow!(error))?)
    });
    let options = PublishRequest {
        full: true,
        // The folder is removed, so no later publication is compared with this one.
        pin_max: Some("0s".parse().map_err(|error: String| anyhow!(error))?),
        ..PublishRequest::default()
    };
    let target = lake.to_str().context("the path of the folder is UTF-8")?;
    let target: Result<PublishTarget, _> = target.parse();
    let target = target.map_err(|error: String| anyhow!(error))?;
    let request = JobRequest::new(
        ApplicationRequest::Publish(options),
        vec![input],
        OutputPlace::Iceberg(target).into(),
        lake.parent().context("the folder is below another one")?,
    );
    let id = jobs.submit(&request)?.record.id;
    loop {
        let state = jobs.show(&id, LOOK)?.record.state;
        if state != RecordState::Started {
            ensure!(
                state == RecordState::Succeeded,
                "a publication ended as {state:?}"
            );
            return Ok(());
        }
    }
}
