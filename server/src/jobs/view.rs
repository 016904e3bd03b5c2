//! A job as clients see it. These types are also the JSON of the HTTP API.

use ebb_jobs::advice::{JobAdvice, WhyUnknown};
use ebb_jobs::history::{JobRecord, RecordState};
use ebb_scheduler::runtime::{JobReport, JobStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::wait::Wait;

/// A job: its record in the history, its progress while it runs, and its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    /// The record of the job in the history.
    pub record: JobRecord,
    /// The inputs and the progress of the job, while it runs and in the response to a request that
    /// waited for the end of the job; `null` in a view that was made from the record alone.
    pub run: Option<Run>,
    /// The predicted end, if the job runs and is predicted to end within a week.
    #[serde(default)]
    pub prediction: Option<Prediction>,
    /// The prediction that the job does not end within a week; `null` for all other jobs. If the job runs and
    /// both this and `prediction` are `null`, there is no prediction, or none yet. Older servers leave this
    /// field out.
    #[serde(default)]
    pub beyond_horizon: Option<BeyondHorizon>,
    /// The end of the job; `null` if it has not ended, or if there is no report of its run.
    pub end: Option<JobEnd>,
}

/// The run of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// The inputs of the job.
    pub inputs: Vec<ReadInput>,
    /// The scheduling policy of the node.
    pub policy: String,
    /// The estimate of the time that the job takes, made at its start; `null` for a job without a goal.
    pub estimate: Option<Estimate>,
    /// The progress of the job.
    pub progress: JobProgress,
}

/// An input of a job, for reports about the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReadInput {
    /// The name of the table, or the names of the files, that the job reads.
    pub name: String,
    /// The snapshot of the table that the job reads; `null` for files.
    pub snapshot: Option<String>,
    /// The reasons why files of the input were left out: a sentence for each file, which names it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

/// The progress of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobProgress {
    /// The number of the step that runs now, from 1. A chain has several steps: jobs that run one after the
    /// other.
    pub step: u32,
    /// The number of steps; 1 for a job that is no chain.
    pub steps: u32,
    /// The progress of the step that runs now.
    pub status: JobStatus,
    /// The reason why the job, though it had tasks to run, made little progress lately; `null` if it made
    /// progress, or if no reason is known.
    #[serde(default)]
    pub waits: Option<Wait>,
    /// The progress of a backup or a verification, which has no tasks; absent for other jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteProgress>,
}

/// The progress of a backup or a verification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ByteProgress {
    /// The bytes of files that were read, and for a backup also copied where that is necessary.
    pub bytes_done: u64,
    /// The total number of bytes to be done, as far as it is known.
    pub bytes_total: u64,
    /// The mean rate over the last ten seconds, or since the start, in bytes per second.
    pub bytes_per_s: f64,
}

/// The predicted end of a job that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Prediction {
    /// The predicted end, in milliseconds since 1970: the median. The actual end is as likely to come earlier
    /// as later.
    pub finish_unix_ms: u64,
    /// The lower bound of the end, in milliseconds since 1970. In 9 of 10 cases, a job ends between
    /// this and `high_unix_ms`.
    pub low_unix_ms: u64,
    /// The upper bound of the end, in milliseconds since 1970. In 9 of 10 cases, a job ends between
    /// `low_unix_ms` and this.
    pub high_unix_ms: u64,
    /// The time by which the job should end, in milliseconds since 1970; `null` for a job without a goal.
    pub goal_unix_ms: Option<u64>,
    /// The time from the predicted end to the goal, in seconds; negative if the job is predicted to be late.
    pub slack_s: Option<f64>,
    /// The method of the prediction: `lookahead/` and the name of the policy that it assumes.
    pub method: String,
}

/// The prediction that a job that runs does not end within a week, the horizon of predictions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BeyondHorizon {
    /// The end of the horizon, in milliseconds since 1970: the job is predicted to end after it.
    pub horizon_unix_ms: u64,
    /// The time by which the job should end, in milliseconds since 1970; `null` for a job without a goal.
    pub goal_unix_ms: Option<u64>,
    /// The method of the prediction: `lookahead/` and the name of the policy that it assumes.
    pub method: String,
}

/// A prediction of the end of a job, as a node keeps it.
#[derive(Debug, Clone, PartialEq)]
pub enum EndForecast {
    /// The job is predicted to end within the horizon.
    Within(Prediction),
    /// The job is predicted to end after the horizon.
    Beyond(BeyondHorizon),
}

/// The end of a job, as the node that ran it reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Ended)]
pub struct JobEnd {
    /// The runtime's report.
    pub report: JobReport,
    /// Whether the job was parked: it is unfinished, and the next server starts it again. If the outcome in
    /// the report is a failure, its cause is the reason why this server accepted no further step of the job.
    pub parked: bool,
    /// The error that kept the history from recording that the job has ended or was parked, if there was one.
    /// Missing attempts are no such error: the record has their number.
    pub unrecorded: Option<String>,
    /// The reason why the job took longer than its work needs, computed from averages over its
    /// whole run; `null` if no such reason is known.
    #[serde(default)]
    pub waited: Option<Wait>,
    /// Lines about the output, if there is more to report than its rows: how much of each table a publication
    /// wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An estimate of how long a job will take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Estimate {
    /// The inputs of the job.
    pub inputs: Vec<ReadInput>,
    /// The estimate, if there is one.
    pub advice: Option<JobAdvice>,
    /// The reason why there is no estimate; `null` if there is one.
    pub unknown_because: Option<String>,
}

/// The result of starting an unfinished job again.
// A node returns the handle of the job that runs as `J`, and clients get a view of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RestartView)]
#[serde(rename_all = "kebab-case")]
pub enum Restart<J> {
    /// The job has started again and runs.
    Runs(J),
    /// The output of the job was in place already, so the job is recorded as succeeded and does not start
    /// again.
    HadSucceeded(Box<JobRecord>),
    /// The job must not start again, for the reason in this text, and is recorded as failed.
    GivenUp(String),
}

/// The result of starting an unfinished job again, for a client.
pub type RestartView = Restart<JobView>;

impl JobView {
    /// Returns the view of a job that does not run, made from its record alone.
    pub fn remembered(record: JobRecord) -> Self {
        let is_over = record.state != RecordState::Started;
        let report = record.report.clone().filter(|_| is_over);
        let waited = (report.as_ref()).and_then(|report| {
            let waited = report["waited"].clone();
            serde_json::from_value::<Option<Wait>>(waited).ok()?
        });
        let notes = report.as_ref().map(|report| report["notes"].clone());
        let notes = notes.and_then(|notes| serde_json::from_value(notes).ok());
        let notes: Vec<String> = notes.unwrap_or_default();
        // The report of a job that did not start is none of the runtime's.
        let report = report.and_then(|report| serde_json::from_value(report).ok());
        let ended = |report| JobEnd {
            report,
            parked: false,
            unrecorded: None,
            waited,
            notes,
        };
        Self {
            end: report.map(ended),
            run: None,
            prediction: None,
            beyond_horizon: None,
            record,
        }
    }

    /// Returns whether the job runs.
    pub fn is_running(&self) -> bool {
        self.run.is_some() && self.end.is_none()
    }

    /// Returns the reason why the job makes little progress, if it runs and there is one.
    pub fn waits(&self) -> Option<&Wait> {
        let run = self.run.as_ref().filter(|_| self.end.is_none())?;
        run.progress.waits.as_ref()
    }

    /// Returns the reason why the job took longer than its work needs, if it has ended and there is one.
    pub fn waited(&self) -> Option<&Wait> {
        self.end.as_ref()?.waited.as_ref()
    }
}

impl BeyondHorizon {
    /// Returns whether the job is predicted to miss its goal. A goal after the horizon may still be met.
    pub fn is_late(&self) -> bool {
        let goal_unix_ms = self.goal_unix_ms;
        goal_unix_ms.is_some_and(|goal_unix_ms| goal_unix_ms <= self.horizon_unix_ms)
    }
}

impl Estimate {
    /// Returns the estimate for a job that reads `inputs`.
    pub fn new(advice: Result<JobAdvice, WhyUnknown>, inputs: Vec<ReadInput>) -> Self {
        let (advice, unknown_because) = match advice {
            Ok(advice) => (Some(advice), None),
            Err(why) => (None, Some(why.to_string())),
        };
        Self {
            inputs,
            advice,
            unknown_because,
        }
    }
}

impl<J> Restart<J> {
    /// Converts the running job of [`Restart::Runs`]. The other results stay as they are.
    pub fn map<V>(self, convert: impl FnOnce(J) -> V) -> Restart<V> {
        match self {
            Self::Runs(job) => Restart::Runs(convert(job)),
            Self::HadSucceeded(record) => Restart::HadSucceeded(record),
            Self::GivenUp(cause) => Restart::GivenUp(cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use utoipa::PartialSchema;

    use super::*;

    #[test]
    fn the_json_and_the_schemas_keep_the_names_that_clients_know() {
        let given_up: RestartView = Restart::GivenUp("why".to_string());
        assert_eq!(json!(given_up), json!({"given-up": "why"}));
        assert_eq!(RestartView::name(), "RestartView");
        assert_eq!(JobEnd::name(), "Ended");
        let schema = json!(RestartView::schema()).to_string();
        assert!(schema.contains("#/components/schemas/JobView"), "{schema}");
    }
}
