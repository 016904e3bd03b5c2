//! The predicted end of a job.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The predicted end of a job that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Prediction {
    /// The predicted end, in milliseconds since 1970. The actual end is before or after it with the
    /// same probability.
    pub finish_unix_ms: u64,
    /// The begin of the interval that contains the end in 9 of 10 cases.
    pub low_unix_ms: u64,
    /// The end of that interval.
    pub high_unix_ms: u64,
    /// The goal of the job, in milliseconds since 1970.
    pub goal_unix_ms: Option<u64>,
    /// The time from the predicted end to the goal, in seconds; negative if the job will be late.
    pub slack_s: Option<f64>,
    /// The method of the prediction: `lookahead/` and the name of the policy that it assumes.
    pub method: String,
}
