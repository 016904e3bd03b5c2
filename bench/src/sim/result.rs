//! The results of a study.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebb_scheduler::availability::Availability;
use ebb_scheduler::model::Pool;
use ebb_scheduler::planning::OfflineBound;
use ebb_scheduler::sim::scenario::Point;
use ebb_scheduler::sim::{Interval, JobRecord, Metrics, ShareSample, TaskRecord};
use serde::Serialize;

/// The results of a scenario under several policies.
#[derive(Clone, Debug, Serialize)]
pub struct StudyResult {
    /// The scenario's title.
    pub title: String,
    /// The number of replicas: how often each combination of swept values is simulated under each
    /// policy, every time with other random numbers.
    pub replicas: u32,
    /// CPU time of all runs, in seconds.
    pub cpu_s: f64,
    /// The results for each combination of swept values.
    pub points: Vec<PointResult>,
}

/// The results for one combination of swept values.
#[derive(Clone, Debug, Serialize)]
pub struct PointResult {
    /// The swept fields, with their values at this point.
    pub set: BTreeMap<String, String>,
    /// The policies, in the order of the scenario.
    pub policies: Vec<PolicyResult>,
    /// The lower bound on missed goals under any scheduler, if the scenario requests it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundResult>,
}

/// A lower bound on the number of goals that are missed at one point under any scheduler.
#[derive(Clone, Debug, Serialize)]
pub struct BoundResult {
    /// The lower bound as a fraction of the goals, 0 to 1: no scheduler misses fewer. `None`
    /// without goals.
    pub missed_fraction: Option<Interval>,
    /// The lower bound on missed goals in each replica, a simulation with random numbers of its
    /// own.
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

/// The results of one policy for one combination of swept values (a point). The point is simulated
/// several times, each time with other random numbers: these simulations are the replicas. Each
/// [`Interval`] has the mean of a metric over the replicas, and the uncertainty of this mean.
/// Replicas in which the metric has no value (see [`Metrics`]) are left out; the interval is `None`
/// if all are.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyResult {
    pub policy: String,
    /// The fraction of the goals that were missed, 0 to 1.
    pub missed_fraction: Option<Interval>,
    /// The number of missed goals minus the lower bound on missed goals, as a fraction of
    /// [`OfflineBound::jobs`]. Counts only missed goals of jobs that were submitted within the
    /// measured window. `None` if the scenario requests no bound, or if the bound has no jobs in
    /// any replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above_bound: Option<Interval>,
    /// Mean time from the goal to the end of jobs that missed their goals, in seconds.
    pub beyond_s: Option<Interval>,
    /// Mean time from the end to the goal of jobs that met their goals, in seconds.
    pub distance_s: Option<Interval>,
    /// Mean tardiness of all jobs with a goal that were submitted within the measured window, in
    /// seconds.
    pub tardiness_s: Option<Interval>,
    /// The 99th percentile of the tardiness, in seconds.
    pub tardiness_p99_s: Option<Interval>,
    /// The CPU that running tasks occupied within the measured window, as a fraction of the
    /// capacity f(t).
    pub utilisation: Option<Interval>,
    /// The fraction of the maps that ran where their input lay, 0 to 1.
    pub locality: Option<Interval>,
    /// Bytes that remote maps (on a node without their input) read over the network.
    pub remote_bytes: Interval,
    /// The end of the last job, in seconds.
    pub makespan_s: Option<Interval>,
    /// The metrics of each replica.
    pub replicas: Vec<Metrics>,
    /// The jobs that the scenario lists.
    pub jobs: Vec<JobResult>,
    /// The tasks in the first replica (simulation with its own random numbers); empty unless the
    /// scenario records tasks.
    pub tasks: Vec<TaskRecord>,
    /// The cores that the running tasks of each job occupied over time in the first replica; empty
    /// unless the scenario records shares.
    pub shares: Vec<ShareSample>,
    /// The capacity for jobs over time, f(t), to be drawn in pictures.
    #[serde(skip)]
    pub availability: Arc<Availability>,
    /// The hardware of each node, for pictures.
    #[serde(skip)]
    pub pools: Vec<Pool>,
}

/// A job that the scenario lists.
#[derive(Clone, Debug, Serialize)]
pub struct JobResult {
    /// The name in the scenario, or else the id.
    pub name: String,
    /// Mean time from submission to end, in seconds, over the replicas (repeated simulations) in
    /// which the job ended; `None` if it ended in none.
    pub took_s: Option<Interval>,
    /// The fraction of the replicas (repeated simulations) in which the job met its goal, 0 to 1;
    /// `None` without a goal.
    pub met_fraction: Option<f64>,
    /// The record of the job in the first replica.
    #[serde(flatten)]
    pub record: JobRecord,
}

impl PointResult {
    /// Sets the lower bound on missed goals, and computes from it how many more goals each policy
    /// missed, replica by replica.
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

    /// Returns the swept values as text; empty without a sweep.
    #[must_use]
    pub fn label(&self) -> String {
        Self::words(&self.set)
    }

    /// Returns swept values as text; empty without values.
    #[must_use]
    pub fn words(set: &BTreeMap<String, String>) -> String {
        let words = (set.iter()).map(|(path, value)| format!("{} {value}", Self::short(path)));
        words.collect::<Vec<_>>().join(", ")
    }

    /// Returns the last part of a field's path, as words.
    pub(super) fn short(path: &str) -> String {
        let last = path.rsplit('.').next().unwrap_or_default();
        last.replace('_', " ")
    }
}

/// The records of the first replica (the first simulation of a point), which are kept in addition
/// to its metrics.
#[derive(Clone, Debug)]
pub(super) struct FirstReplica {
    pub tasks: Vec<TaskRecord>,
    pub shares: Vec<ShareSample>,
    pub availability: Arc<Availability>,
    pub pools: Vec<Pool>,
}

impl PolicyResult {
    /// Summarizes the results of all replicas. `listed` has, for each replica, the records of the
    /// jobs that the scenario lists; `first` has the detailed records of the first replica.
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
    /// Summarizes the records of one job in each replica, the first replica first.
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
