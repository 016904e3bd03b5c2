//! Aggregation jobs over one table in the server, one after the other.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use ebb_jobs::history::RecordState;
use ebb_jobs::request::{
    AggregateRequest, ApplicationRequest, InputRequest, JobRequest, OutputPlace, TableInput,
};
use ebb_server::http::JobsClient;
use ebb_server::jobs::{Jobs, ReadJobs};
use serde_json::Value;

use super::indexed::PLAIN;
use super::server::Server;
use super::setting::Setting;
use crate::threads::beside;

/// The longest time for which one request waits for the end of a job.
const LOOK: Duration = Duration::from_millis(100);
/// The longest wait for the end of a job.
const JOB_MAX: Duration = Duration::from_secs(600);

/// Runs aggregation jobs over one table in the server.
#[derive(Debug)]
pub(super) struct Aggregates {
    jobs: JobsClient,
    folder: PathBuf,
    rows: u64,
    /// The number of jobs so far. Each has an output of its own.
    started: u32,
}

/// An aggregation job that has succeeded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aggregate {
    /// The time from the submission to the server's response that the job has ended.
    pub(super) wall_s: f64,
    /// Whether the job had a completion time goal, and met it.
    pub(super) is_in_time: bool,
}

impl Aggregates {
    pub(super) fn new(server: &Server, setting: &Setting<'_>) -> Result<Self> {
        Ok(Self {
            jobs: server.jobs_client()?,
            folder: setting.folder.to_path_buf(),
            rows: setting.args.records,
            started: 0,
        })
    }

    /// Runs an aggregation job to its end, with a completion time goal if `goal_s` is given.
    pub(super) fn run(&mut self, goal_s: Option<f64>) -> Result<Aggregate> {
        let done = self.run_until(goal_s, &AtomicBool::new(false))?;
        done.context("nothing has ended it")
    }

    /// Runs `work` while aggregation jobs run, one after the other. Also returns how many of these
    /// jobs completed.
    pub(super) fn beside<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
        beside(work, |is_over| {
            let mut completed = 0;
            while !is_over.load(Ordering::Relaxed) {
                completed += u64::from(self.run_until(None, is_over)?.is_some());
            }
            Ok(completed)
        })
    }

    /// Runs an aggregation job to its end, or cancels it once `is_over`; `None` if it was
    /// cancelled.
    fn run_until(
        &mut self,
        goal_s: Option<f64>,
        is_over: &AtomicBool,
    ) -> Result<Option<Aggregate>> {
        self.started += 1;
        let output = self
            .folder
            .join(format!("aggregate-{}.jsonl", self.started));
        let request = JobRequest {
            goal_s,
            ..self.request(output.clone())?
        };
        let began = Instant::now();
        let id = self.jobs.submit(&request)?.record.id;
        let ended = loop {
            let job = self.jobs.show(&id, LOOK)?;
            if job.record.state != RecordState::Started {
                break job;
            }
            if is_over.load(Ordering::Relaxed) {
                // An error is ignored: the job may have ended meanwhile, which the next look shows.
                drop(self.jobs.cancel(&id));
            }
            let ran = began.elapsed();
            ensure!(
                ran < JOB_MAX,
                "an aggregate does not end in {} s",
                ran.as_secs()
            );
        };
        let wall_s = began.elapsed().as_secs_f64();
        let state = ended.record.state;
        if state == RecordState::Cancelled && is_over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        ensure!(
            state == RecordState::Succeeded,
            "an aggregate ended as {state:?}"
        );
        let written = fs::read_to_string(&output).context("an aggregate has no output")?;
        let row: Value = serde_json::from_str(written.trim())?;
        let rows = row["rows"].to_string();
        ensure!(
            rows.trim_matches('"') == self.rows.to_string(),
            "{rows} rows"
        );
        let is_in_time = ended.end.and_then(|end| end.report.met) == Some(true);
        Ok(Some(Aggregate { wall_s, is_in_time }))
    }

    fn request(&self, output: PathBuf) -> Result<JobRequest> {
        let application = ApplicationRequest::Aggregate(AggregateRequest {
            reduces: 1,
            by: Vec::new(),
            of: vec!["g".to_owned()],
            quantiles: Vec::new(),
        });
        let table = PLAIN.parse();
        let table = table.map_err(|error: String| anyhow!(error))?;
        let input = InputRequest::Table(TableInput::new(table));
        let output = OutputPlace::File(output).into();
        Ok(JobRequest::new(
            application,
            vec![input],
            output,
            &self.folder,
        ))
    }
}
