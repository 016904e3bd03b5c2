//! What server and client say to each other, as JSON.

use ebb_jobs::advice::{Expectation, JobAdvice};
use ebb_jobs::history::{JobRecord, RecordState};
use ebb_scheduler::runtime::JobReport;
use serde::{Deserialize, Serialize};

use crate::node::{JobEnd, JobProgress, ReadInput, RunningJob};

/// A job as a client sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    /// As it is remembered.
    pub record: JobRecord,
    /// What is known of it while it runs, and at its end to those who waited for it.
    pub run: Option<Run>,
    /// How it ended, once it has, where that was recorded in full.
    pub end: Option<Ended>,
}

/// A job that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What it reads.
    pub inputs: Vec<ReadInput>,
    /// The scheduling policy of its node.
    pub policy: String,
    /// How long it was expected to take; asked only where it has a goal.
    pub estimate: Option<Estimate>,
    /// How far it is.
    pub progress: JobProgress,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The runtime's report.
    pub report: JobReport,
    /// Whether it was parked: it is unfinished, and the next server starts it again.
    pub parked: bool,
    /// Why its end is not in the history, if it should be and is not.
    pub unrecorded: Option<String>,
}

/// How long a job will take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// What it reads.
    pub inputs: Vec<ReadInput>,
    /// The estimate, if there is one.
    pub advice: Option<JobAdvice>,
    /// Why there is none.
    pub unknown_because: Option<String>,
}

impl Estimate {
    /// What is expected of a job that reads `inputs`.
    pub fn new(expected: &Expectation, inputs: Vec<ReadInput>) -> Self {
        let (advice, unknown_because) = match expected {
            Expectation::Known(advice) => (Some(advice.clone()), None),
            Expectation::Unknown(why) => (None, Some(why.to_string())),
        };
        Self {
            inputs,
            advice,
            unknown_because,
        }
    }
}

impl JobView {
    /// A job of a node whose policy is called `policy`.
    pub fn of(job: &RunningJob, policy: &str) -> Self {
        let estimate = job.expected();
        let inputs = job.inputs().to_vec();
        Self {
            record: job.record().clone(),
            end: job.end().map(|end| Ended::of(&end)),
            run: Some(Run {
                estimate: estimate.map(|expected| Estimate::new(expected, inputs.clone())),
                inputs,
                policy: policy.to_string(),
                progress: job.progress(),
            }),
        }
    }

    /// A job of which only the record is left.
    pub fn remembered(record: JobRecord) -> Self {
        let is_over = record.state != RecordState::Started;
        let report = record.report.clone().filter(|_| is_over);
        // Of one that did not start there is no report of the runtime.
        let report = report.and_then(|report| serde_json::from_value(report).ok());
        let ended = |report| Ended {
            report,
            parked: false,
            unrecorded: None,
        };
        Self {
            end: report.map(ended),
            run: None,
            record,
        }
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.run.is_some() && self.end.is_none()
    }
}

impl Ended {
    fn of(end: &JobEnd) -> Self {
        Self {
            report: end.report.clone(),
            parked: end.parked,
            unrecorded: end.unrecorded.as_ref().map(ToString::to_string),
        }
    }
}

/// Jobs, the oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobList {
    /// All of them.
    pub jobs: Vec<JobView>,
}

/// Whether a job was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    /// False when it has ended, or its output is being put in place.
    pub stopping: bool,
}

/// What came of a job that was to start again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum RestartView {
    /// It runs.
    Runs(JobView),
    /// It had succeeded.
    HadSucceeded(JobRecord),
    /// It does not start again, and is recorded as failed; says why.
    GivenUp(String),
}

/// The keyspaces of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keyspaces {
    /// Their names.
    pub keyspaces: Vec<String>,
}
