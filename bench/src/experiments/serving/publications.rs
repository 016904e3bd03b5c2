//! Publications beside reads: the tail of the reads with them and without.
//!
//! The load is that of all parts about the tail, at half of what a closed loop reaches. Each
//! publication writes all rows of the table into a new folder.

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
use super::repeats::BesideRepeats;
use super::report::PartResult;
use super::setting::Setting;
use super::steady::SteadyLoad;
use crate::ycsb::cql::{KEYSPACE, TABLE};

/// The largest acceptable upper end of the confidence interval of the ratio of the p99 of reads beside
/// publications to that of the load alone.
const P99_MAX: f64 = 1.2;
/// The name of the published snapshot.
const SNAPSHOT: &str = "published";
/// The longest time for which one request waits for the end of a publication.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Serialize)]
pub struct Publications {
    /// The number of rows of a publication.
    pub rows: u64,
    /// The load's reads beside publications and alone.
    #[serde(flatten)]
    pub reads: BesideRepeats,
    /// The number of publications that completed during the windows.
    pub completed: u64,
}

impl PartResult for Publications {
    fn lines(&self) -> Vec<String> {
        let BesideRepeats {
            load,
            beside,
            counting,
        } = &self.reads;
        vec![
            format!(
                "publications of {} rows beside reads of an open loop at {:.0} ops/s (peak {:.0}): p99 \
                 alone {:.0} us",
                self.rows, load.rate_ops_per_s, load.peak_ops_per_s, load.p99_us
            ),
            format!(
                "  p99 beside / alone {beside}, upper end at most {P99_MAX}: {}; alone again {}; beside \
                 threads that only count {counting}",
                verdict(beside.high <= P99_MAX),
                load.alone_again
            ),
            format!(
                "  {} publications completed; windows that count {:?}; {}",
                self.completed,
                load.windows,
                load.unanswered()
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
    let mut client = setting.client(&server, None)?;
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
    let repeat = || -> Result<()> {
        publish(&jobs, &lake)?;
        Ok(fs::remove_dir_all(&lake)?)
    };
    let (reads, completed) =
        BesideRepeats::measure("publications", setting, &load, &mut client, repeat)?;
    drop(client);
    server.stop()?;
    Ok(Publications {
        rows: args.records,
        reads,
        completed,
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
