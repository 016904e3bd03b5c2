//! A job as clients see it. These types are also the JSON of the HTTP API.

use ebb_jobs::advice::{JobAdvice, WhyUnknown};
use ebb_jobs::history::{JobRecord, RecordState};
use ebb_scheduler::runtime::{JobReport, JobStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::wait::Wait;

/// A job: its record, and its progress while it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    /// The record of the job in the history.
    pub record: JobRecord,
    /// The run of the job, while it runs, and in the response to a request that waited for its end.
    pub run: Option<Run>,
    /// The predicted end, if the job runs and there is a prediction.
    #[serde(default)]
    pub prediction: Option<Prediction>,
    /// The end of the job, once it has ended, if its report was recorded.
    pub end: Option<JobEnd>,
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

/// An input as a report names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReadInput {
    /// The name of the table, or the names of the files, that the job reads.
    pub name: String,
    /// The snapshot of the table.
    pub snapshot: Option<String>,
    /// The problems of the files that were left out: a sentence for each, which names the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

/// The progress of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobProgress {
    /// The number of the job that runs now, from 1, in a chain of jobs that run one after the
    /// other.
    pub step: u32,
    /// The number of jobs in the chain; 1 for a single job.
    pub steps: u32,
    /// The progress of the job that runs now in the chain.
    pub status: JobStatus,
    /// The reason why the job, though it had tasks to run, made little progress lately; null if it
    /// made progress, or if no reason is known.
    #[serde(default)]
    pub waits: Option<Wait>,
    /// The progress of a backup or a verification, which has no tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteProgress>,
}

/// The progress of a backup or a verification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ByteProgress {
    /// Bytes that are done: read, and for a backup copied where that is necessary.
    pub bytes_done: u64,
    /// Bytes in all, as far as is known.
    pub bytes_total: u64,
    /// Bytes per second over the last ten seconds.
    pub bytes_per_s: f64,
}

/// The predicted end of a job that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Prediction {
    /// The predicted end, in milliseconds since 1970. The actual end is before or after it with the
    /// same probability.
    pub finish_unix_ms: u64,
    /// The lower bound of the end, in milliseconds since 1970. In 9 of 10 cases, a job ends between
    /// this and `high_unix_ms`.
    pub low_unix_ms: u64,
    /// The upper bound of the end, in milliseconds since 1970. In 9 of 10 cases, a job ends between
    /// `low_unix_ms` and this.
    pub high_unix_ms: u64,
    /// The goal of the job, in milliseconds since 1970.
    pub goal_unix_ms: Option<u64>,
    /// The time from the predicted end to the goal, in seconds; negative if the job will be late.
    pub slack_s: Option<f64>,
    /// The method of the prediction: `lookahead/` and the name of the policy that it assumes.
    pub method: String,
}

/// The end of a job, as the node that ran it reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Ended)]
pub struct JobEnd {
    /// The runtime's report.
    pub report: JobReport,
    /// Whether the job was parked: it is unfinished, and the next server starts it again. If the outcome in
    /// the report is a failure, that is the reason why this server accepted no further step of the job.
    pub parked: bool,
    /// The error that kept the history from recording that the job has ended or was parked, if there was one.
    /// Missing attempts are no such error: the record has their number.
    pub unrecorded: Option<String>,
    /// The reason why the job took longer than its work needs, on average over its time.
    #[serde(default)]
    pub waited: Option<Wait>,
    /// Lines about the output, if there is more to it than rows: how much of each table a publication
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
    /// The reason why there is no estimate.
    pub unknown_because: Option<String>,
}

/// The result of starting an unfinished job again.
// A node returns the handle of the job that runs as `J`, and clients get a view of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RestartView)]
#[serde(rename_all = "kebab-case")]
pub enum Restart<J> {
    /// The job runs.
    Runs(J),
    /// The job had succeeded before, so it does not start again.
    HadSucceeded(Box<JobRecord>),
    /// The job cannot start again, for this reason, and is recorded as failed.
    GivenUp(String),
}

/// The result of starting an unfinished job again, for a client.
pub type RestartView = Restart<JobView>;

impl JobView {
    /// Returns the view of a job that does not run.
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
    /// Converts the handle of the running job, if there is one.
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
