//! What a study comes to.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebb_scheduler::availability::Availability;
use ebb_scheduler::model::Pool;
use ebb_scheduler::planning::OfflineBound;
use ebb_scheduler::sim::scenario::Point;
use ebb_scheduler::sim::{Interval, JobRecord, Metrics, ShareSample, TaskRecord};
use serde::Serialize;

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
    /// What any scheduler misses at least, where the scenario asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundResult>,
}

/// A lower bound on goals missed at one point.
#[derive(Clone, Debug, Serialize)]
pub struct BoundResult {
    /// Goals missed at least, 0 to 1; `None` without goals.
    pub missed_fraction: Option<Interval>,
    /// Each replica.
    pub replicas: Vec<OfflineBound>,
}

impl BoundResult {
    pub(super) fn new(replicas: Vec<OfflineBound>) -> Self {
        let fractions = replicas.iter().map(OfflineBound::missed_fraction);
        Self {
            missed_fraction: Interval::of_known(fractions),
            replicas,
        }
    }
}

/// One policy at one point. Each number is over the replicas that have it, and `None` where none
/// has: see [`Metrics`].
#[derive(Clone, Debug, Serialize)]
pub struct PolicyResult {
    /// Its name.
    pub policy: String,
    /// Goals missed, 0 to 1.
    pub missed_fraction: Option<Interval>,
    /// Goals missed beyond the bound, of the jobs submitted within the window that
    /// counts, 0 to 1; where there is a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above_bound: Option<Interval>,
    /// Time beyond the goal of jobs that missed it, in seconds.
    pub beyond_s: Option<Interval>,
    /// Time left until the goal for jobs that met it, in seconds.
    pub distance_s: Option<Interval>,
    /// Mean tardiness of all jobs with a goal that were submitted within the window that
    /// counts, in seconds.
    pub tardiness_s: Option<Interval>,
    /// Its 99th percentile, in seconds.
    pub tardiness_p99_s: Option<Interval>,
    /// CPU held of what f(t) left.
    pub utilisation: Option<Interval>,
    /// Maps that ran where their input lay, 0 to 1.
    pub locality: Option<Interval>,
    /// What remote maps read over the network, in bytes.
    pub remote_bytes: Interval,
    /// End of the last job, in seconds.
    pub makespan_s: Option<Interval>,
    /// Each replica.
    pub replicas: Vec<Metrics>,
    /// Listed jobs.
    pub jobs: Vec<JobResult>,
    /// Tasks of the first replica, where the scenario records them.
    pub tasks: Vec<TaskRecord>,
    /// Who held what in the first replica, where the scenario records it.
    pub shares: Vec<ShareSample>,
    /// f(t), for pictures.
    #[serde(skip)]
    pub availability: Arc<Availability>,
    /// The hardware of each node, for pictures.
    #[serde(skip)]
    pub pools: Vec<Pool>,
}

/// A listed job.
#[derive(Clone, Debug, Serialize)]
pub struct JobResult {
    /// As the file calls it, or its id.
    pub name: String,
    /// From its submission to its end in seconds, over the replicas that ended it; `None` if none
    /// did.
    pub took_s: Option<Interval>,
    /// Replicas in which it met its goal, 0 to 1; `None` without a goal.
    pub met_fraction: Option<f64>,
    /// What became of it in the first replica.
    #[serde(flatten)]
    pub record: JobRecord,
}

impl PointResult {
    /// Compares every policy with a bound, replica by replica.
    pub(super) fn set_bound(&mut self, bound: BoundResult) {
        for policy in &mut self.policies {
            let pairs = policy.replicas.iter().zip(&bound.replicas);
            let above = pairs.map(|(metrics, bound)| {
                let above = f64::from(metrics.missed_of_submitted) - f64::from(bound.missed);
                (bound.jobs > 0).then_some(above / f64::from(bound.jobs))
            });
            policy.above_bound = Interval::of_known(above);
        }
        self.bound = Some(bound);
    }

    /// The swept values in words; empty without a sweep.
    #[must_use]
    pub fn label(&self) -> String {
        Self::words(&self.set)
    }

    /// Swept values in words; empty without any.
    #[must_use]
    pub fn words(set: &BTreeMap<String, String>) -> String {
        let words = (set.iter()).map(|(path, value)| format!("{} {value}", Self::short(path)));
        words.collect::<Vec<_>>().join(", ")
    }

    /// The last part of a field's path, in words.
    pub(super) fn short(path: &str) -> String {
        let last = path.rsplit('.').next().unwrap_or_default();
        last.replace('_', " ")
    }
}

/// Records of the first replica of a run, kept beside its numbers.
#[derive(Clone, Debug)]
pub(super) struct FirstReplica {
    pub tasks: Vec<TaskRecord>,
    pub shares: Vec<ShareSample>,
    pub availability: Arc<Availability>,
    pub pools: Vec<Pool>,
}

impl PolicyResult {
    /// Sums the replicas up, `listed` being the listed jobs in each.
    pub(super) fn new(
        policy: &str,
        point: &Point,
        (replicas, listed): (Vec<Metrics>, &[Vec<JobRecord>]),
        first: FirstReplica,
    ) -> Self {
        let over = |of: fn(&Metrics) -> Option<f64>| Interval::of_known(replicas.iter().map(of));
        let remote_bytes: Vec<f64> = (replicas.iter())
            .map(|replica| replica.remote_bytes as f64)
            .collect();
        let jobs = (0..listed.first().map_or(0, Vec::len))
            .map(|at| JobResult::new(point, listed.iter().map(|records| &records[at])));
        Self {
            policy: policy.to_string(),
            missed_fraction: over(|m| m.missed_fraction),
            above_bound: None,
            beyond_s: over(|m| m.beyond_s),
            distance_s: over(|m| m.distance_s),
            tardiness_s: over(|m| m.tardiness_s),
            tardiness_p99_s: over(|m| m.tardiness_p99_s),
            utilisation: over(|m| m.utilisation),
            locality: over(|m| m.locality),
            remote_bytes: Interval::of(&remote_bytes),
            makespan_s: over(|m| m.makespan_s),
            jobs: jobs.collect(),
            tasks: first.tasks,
            shares: first.shares,
            replicas,
            availability: first.availability,
            pools: first.pools,
        }
    }
}

impl JobResult {
    /// Of one job in each replica, the first one first.
    fn new<'a>(point: &Point, mut records: impl Iterator<Item = &'a JobRecord> + Clone) -> Self {
        let took = records.clone().filter_map(|record| {
            let finished_s = record.finished_s?;
            Some(finished_s - record.job.submitted_s)
        });
        let met = |record: &JobRecord| Some(f64::from(u8::from(record.met?)));
        let met = Interval::of_known(records.clone().map(met));
        let took_s = Interval::of_known(took.map(Some));
        let record = *records.next().expect("at least one replica");
        let name = point.job_name(record.job.id).map(str::to_string);
        Self {
            name: name.unwrap_or_else(|| record.job.id.to_string()),
            took_s,
            met_fraction: met.map(|met| met.mean),
            record,
        }
    }
}
