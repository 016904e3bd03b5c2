//! What a study comes to.

use ebb_scheduler::availability::Availability;
use ebb_scheduler::sim::scenario::Point;
use ebb_scheduler::sim::{Interval, JobRecord, Metrics, ShareSample, SimReport, TaskRecord};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A scenario under several policies.
#[derive(Clone, Debug, Serialize)]
pub struct StudyResult {
    /// The scenario's title.
    pub title: String,
    /// Replicas of each point.
    pub replicas: u32,
    /// CPU time of all runs, in seconds.
    pub cpu_s: f64,
    /// One for each combination of swept values.
    pub points: Vec<PointResult>,
}

/// One set of values.
#[derive(Clone, Debug, Serialize)]
pub struct PointResult {
    /// What was swept and its value here.
    pub set: BTreeMap<String, String>,
    /// In the order asked for.
    pub policies: Vec<PolicyResult>,
}

/// One policy at one point.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyResult {
    /// Its name.
    pub policy: String,
    /// Goals missed, 0 to 1.
    pub missed_fraction: Interval,
    /// Time beyond the goal of jobs that missed it, in seconds.
    pub beyond_s: Interval,
    /// Time left until the goal for jobs that met it, in seconds.
    pub distance_s: Interval,
    /// CPU held of what f(t) left.
    pub utilisation: Interval,
    /// Maps that ran where their input lay, 0 to 1.
    pub locality: Interval,
    /// End of the last job, in seconds.
    pub makespan_s: Interval,
    /// Each replica.
    pub replicas: Vec<Metrics>,
    /// Listed jobs in the first replica.
    pub jobs: Vec<JobResult>,
    /// Tasks of the first replica, where the scenario records them.
    pub tasks: Vec<TaskRecord>,
    /// Who held what in the first replica, where the scenario records it.
    pub shares: Vec<ShareSample>,
    /// f(t), for pictures.
    #[serde(skip)]
    pub availability: Arc<Availability>,
}

/// A listed job.
#[derive(Clone, Debug, Serialize)]
pub struct JobResult {
    /// As the file calls it, or its id.
    pub name: String,
    /// What became of it.
    #[serde(flatten)]
    pub record: JobRecord,
}

impl PointResult {
    /// The swept values in words; empty without a sweep.
    #[must_use]
    pub fn label(&self) -> String {
        let short = |path: &String| {
            path.rsplit('.')
                .next()
                .unwrap_or_default()
                .replace('_', " ")
        };
        let values = self.set.iter();
        let words = values.map(|(path, value)| format!("{} {value}", short(path)));
        words.collect::<Vec<_>>().join(", ")
    }
}

impl PolicyResult {
    /// Sums the replicas up; `first` is the whole report of the first one.
    pub(super) fn new(
        policy: &str,
        point: &Point,
        replicas: Vec<Metrics>,
        first: SimReport,
        availability: Arc<Availability>,
    ) -> Self {
        let over =
            |of: fn(&Metrics) -> f64| Interval::of(&replicas.iter().map(of).collect::<Vec<f64>>());
        let named = |record: &JobRecord| {
            let name = point.job_name(record.job.id);
            name.map(str::to_string)
        };
        let listed = (first.jobs.iter()).filter_map(|record| {
            let listed = point.is_listed(record.job.id);
            listed.then(|| JobResult {
                name: named(record).unwrap_or_else(|| record.job.id.to_string()),
                record: *record,
            })
        });
        Self {
            policy: policy.to_string(),
            missed_fraction: over(|m| m.missed_fraction),
            beyond_s: over(|m| m.beyond_s),
            distance_s: over(|m| m.distance_s),
            utilisation: over(|m| m.utilisation),
            locality: over(|m| m.locality),
            makespan_s: over(|m| m.makespan_s),
            jobs: listed.collect(),
            tasks: first.tasks,
            shares: first.shares,
            replicas,
            availability,
        }
    }
}
