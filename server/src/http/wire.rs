//! The JSON bodies of requests and responses.

mod snapshots;
mod tables;

use ebb_jobs::advice::{Expectation, JobAdvice};
use ebb_jobs::history::{JobRecord, RecordState};
use ebb_scheduler::runtime::JobReport;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::node::{JobEnd, JobProgress, Prediction, ReadInput, RunningJob};

pub use self::snapshots::{SnapshotList, SnapshotRenewal, SnapshotRequest, SnapshotView};
pub use self::tables::{BookmarkView, MergeView, RunView, TableList, TableSummary, TableView};

/// A job: its record, and its progress while it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    /// The record of the job in the history.
    pub record: JobRecord,
    /// The present run. It is also in the response to a request that waited for the end.
    pub run: Option<Run>,
    /// The predicted end, if the job runs and there is a prediction.
    #[serde(default)]
    pub prediction: Option<Prediction>,
    /// The end of the job, once it has ended, if its report was recorded.
    pub end: Option<Ended>,
}

/// The run of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// The inputs of the job.
    pub inputs: Vec<ReadInput>,
    /// The scheduling policy of the node.
    pub policy: String,
    /// The estimate of the time that the job takes. It is made at submission, for jobs with a goal.
    pub estimate: Option<Estimate>,
    /// The progress of the job.
    pub progress: JobProgress,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Ended {
    /// The runtime's report.
    pub report: JobReport,
    /// Whether the job was parked: it is unfinished, and the next server starts it again.
    pub parked: bool,
    /// The error that kept the end of the job out of the history, if there was one.
    pub unrecorded: Option<String>,
}

/// How long a job will take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Estimate {
    /// The inputs of the job.
    pub inputs: Vec<ReadInput>,
    /// The estimate, if there is one.
    pub advice: Option<JobAdvice>,
    /// The reason why there is no estimate.
    pub unknown_because: Option<String>,
}

impl Estimate {
    /// The estimate for a job that reads `inputs`.
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
            prediction: job.prediction(),
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
        // The report of a job that did not start is none of the runtime's.
        let report = report.and_then(|report| serde_json::from_value(report).ok());
        let ended = |report| Ended {
            report,
            parked: false,
            unrecorded: None,
        };
        Self {
            end: report.map(ended),
            run: None,
            prediction: None,
            record,
        }
    }

    /// Returns whether the job runs.
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

/// Jobs, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobList {
    /// The jobs of this page.
    pub jobs: Vec<JobView>,
    /// The value of `after` for the next page; `null` on the last one.
    pub next: Option<String>,
}

/// The response to a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cancelled {
    /// Whether the job will stop. False if it has ended, or its output is being put in place.
    pub stopping: bool,
}

/// The result of starting an unfinished job again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum RestartView {
    /// The job runs.
    Runs(JobView),
    /// The job had succeeded.
    HadSucceeded(JobRecord),
    /// The job cannot start again, for this reason, and is recorded as failed.
    GivenUp(String),
}

/// A role of CQL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoleView {
    /// The name of the role.
    pub name: String,
    /// The id of the role, 16 hexadecimal digits. A role that is created again under the same name
    /// has another id.
    pub id: String,
    /// Whether the role may log in. Tokens of a role that may not are invalid.
    pub can_login: bool,
    /// Whether the role has all permissions.
    pub is_superuser: bool,
}

/// The roles of CQL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoleList {
    /// All roles, ordered by name.
    pub roles: Vec<RoleView>,
}

/// The keyspaces of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Keyspaces {
    /// Their names.
    pub keyspaces: Vec<String>,
}
