//! The configuration of a simulation: the cluster, its failures, and the recording.

use super::bounds::TASKS_MAX;
use super::job::SimJob;
use crate::availability::Availability;
use crate::model::{JobId, NodeId, Pool, Resources, TypedSlots};
use crate::policy::{Preemption, ReduceStart};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use thiserror::Error;

/// A node of the simulated cluster, with the resources that it has without a transactional load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimNode {
    /// Resources of the whole node.
    pub capacity: Resources,
    /// Numbers of map slots and of reduce slots, for the policies that count slots; `None`: the
    /// node has no slots. If no node has slots, these policies count resources, as all others do.
    /// Tasks in slots may need more resources than the node has; then they run slower.
    pub slots: Option<TypedSlots>,
    /// Kind of the node's hardware.
    pub pool: Pool,
}

/// The division of f(t), the capacity left to analytics, among the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Analytics get whole nodes, first those that run most tasks, and a part of one more if f(t)
    /// is no multiple of a node's CPU. In the thesis, f(t) is a number of nodes.
    #[default]
    WholeNodes,
    /// Analytics get the same part of every node's CPU.
    Even,
}

/// The loss of a node with its running tasks. The node is back once all losses of it have ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeLoss {
    /// Position of the node in the cluster.
    pub node: NodeId,
    /// Time at which the node stops, in seconds.
    pub at_s: f64,
    /// Time at which the node is back, in seconds; `None`: never.
    pub back_s: Option<f64>,
}

/// The records of a run in addition to those of the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Recording {
    /// True to record every task.
    pub tasks: bool,
    /// Shortest time between two samples of the jobs' shares, in seconds; `None` for no samples.
    pub shares_every_s: Option<f64>,
}

/// The cluster, the times and the random seed of a simulation.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// The nodes; their ids are their positions.
    pub nodes: Vec<SimNode>,
    /// The true f(t): the capacity of the whole cluster that is left to analytics, in
    /// hundredths of a core.
    pub availability: Arc<Availability>,
    /// The forecast of `availability` with which the policy plans; usually equal to it.
    pub forecast: Arc<Availability>,
    /// Division of `availability` among the nodes.
    pub spread: Spread,
    /// Length of a control cycle in seconds; 30 in the thesis.
    pub cycle_s: f64,
    /// End of the run, in seconds, even if jobs are unfinished.
    pub horizon_s: f64,
    /// Whether reduces may start before the maps are done.
    pub reduce_start: ReduceStart,
    /// Preemption that the policy assumes. The simulator never preempts a task, so
    /// [`Preemption::EveryCycle`] is close to the truth only if tasks are short beside a
    /// cycle.
    pub preemption: Preemption,
    /// Nodes that are lost during the run.
    pub losses: Vec<NodeLoss>,
    /// Seed of the task lengths.
    pub seed: u64,
    /// Begin and end of the measured time, in seconds. It leaves out a warm-up and a
    /// cool-down.
    pub window_s: (f64, f64),
    /// The records of tasks and shares to keep.
    pub recording: Recording,
}

impl SimConfig {
    /// Returns a cluster of `nodes` nodes of one core and one slot each, a 30 s cycle, reduces
    /// after maps, a horizon of 30 days, seed 0, everything recorded.
    #[must_use]
    pub fn one_slot_nodes(nodes: u32, availability: Availability) -> Self {
        let availability = Arc::new(availability);
        let node = SimNode {
            capacity: Resources::cpu_bound(100),
            slots: None,
            pool: Pool::Regular,
        };
        Self {
            nodes: vec![node; nodes as usize],
            forecast: availability.clone(),
            availability,
            spread: Spread::WholeNodes,
            cycle_s: 30.0,
            horizon_s: 30.0 * crate::availability::DAY_S,
            reduce_start: ReduceStart::AfterMaps,
            preemption: Preemption::Never,
            losses: Vec::new(),
            seed: 0,
            window_s: (0.0, f64::INFINITY),
            recording: Recording {
                tasks: true,
                shares_every_s: Some(0.0),
            },
        }
    }

    /// Returns the CPU of all nodes, in hundredths of a core.
    #[must_use]
    pub fn cpu_hundredths(&self) -> f64 {
        let cpu = self.nodes.iter().map(|node| node.capacity.cpu_hundredths);
        cpu.map(f64::from).sum()
    }
}

/// A configuration that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SimError {
    /// A number that must be positive and finite is not.
    #[error("{what} must be positive and finite, got {value}")]
    NotPositive {
        /// Name of the number.
        what: &'static str,
        /// The value that the caller passed.
        value: f64,
    },
    /// The measured window is invalid: it does not end after its start, or its start is negative or
    /// not finite.
    #[error("the window from {from_s} s to {until_s} s is empty")]
    EmptyWindow {
        /// Start of the window, in seconds. The metrics include the jobs that are submitted or
        /// finish within the window.
        from_s: f64,
        /// End of the window, in seconds.
        until_s: f64,
    },
    /// The cluster has no nodes.
    #[error("a cluster needs at least one node")]
    NoNodes,
    /// A loss of the node with this number is invalid: the node does not exist, the time of the
    /// loss is not finite, or the node does not come back after that time.
    #[error("node {0} does not exist, or comes back before it stopped")]
    BadLoss(u32),
    /// Two jobs share an id.
    #[error("{0} is listed twice")]
    DuplicateJob(JobId),
    /// A job waits for a job that does not exist, or, through others, for itself.
    #[error("{job} comes after {after}, which does not exist or comes after {job} itself")]
    NeverSubmitted {
        /// The waiting job.
        job: JobId,
        /// The job that `job` waits for.
        after: JobId,
    },
    /// The run has more tasks, jobs or copies of splits than allowed.
    #[error(
        "the run has {count} {what} or more; at most {max} are allowed: list fewer or smaller jobs, \
         or generate fewer or smaller ones"
    )]
    TooLarge {
        /// The things of which a run has too many, in the plural, such as `tasks`.
        what: &'static str,
        /// The number of these things in the run. The count may have stopped once it exceeded
        /// `max`.
        count: u64,
        /// The largest count that is allowed.
        max: u64,
    },
    /// A job has invalid values.
    #[error("{job}: {what}")]
    BadJob {
        /// The job with invalid values.
        job: JobId,
        /// The rule that the job violates.
        what: &'static str,
    },
}

pub(super) fn check(config: &SimConfig, jobs: &[SimJob]) -> Result<(), SimError> {
    for (what, value) in [("cycle_s", config.cycle_s), ("horizon_s", config.horizon_s)] {
        if !(value.is_finite() && value > 0.0) {
            return Err(SimError::NotPositive { what, value });
        }
    }
    let (from_s, until_s) = config.window_s;
    if !(from_s.is_finite() && from_s >= 0.0 && until_s > from_s) {
        return Err(SimError::EmptyWindow { from_s, until_s });
    }
    if config.nodes.is_empty() {
        return Err(SimError::NoNodes);
    }
    for loss in &config.losses {
        let there = (loss.node.0 as usize) < config.nodes.len();
        let back = loss.back_s.is_none_or(|back_s| back_s > loss.at_s);
        if !there || !back || !loss.at_s.is_finite() {
            return Err(SimError::BadLoss(loss.node.0));
        }
    }
    let mut ids: Vec<JobId> = jobs.iter().map(|job| job.job.id).collect();
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(SimError::DuplicateJob(pair[0]));
    }
    check_order(jobs)?;
    let tasks: u64 = jobs.iter().map(SimJob::tasks).sum();
    at_most("tasks", tasks, TASKS_MAX)?;
    jobs.iter().try_for_each(|job| {
        job.check(config.nodes.len())
            .map_err(|what| SimError::BadJob {
                job: job.job.id,
                what,
            })
    })
}

/// Fails if `count` exceeds `max`; `what` names the counted things in the error.
pub(super) fn at_most(what: &'static str, count: u64, max: u64) -> Result<(), SimError> {
    if count > max {
        return Err(SimError::TooLarge { what, count, max });
    }
    Ok(())
}

/// Fails if a job follows one that does not exist, or if jobs follow each other in a
/// circle: these would never be submitted.
fn check_order(jobs: &[SimJob]) -> Result<(), SimError> {
    let predecessors: HashMap<JobId, Option<JobId>> =
        (jobs.iter().map(|job| (job.job.id, job.after))).collect();
    // Jobs whose chain of predecessors was followed to its start, so that each job is
    // visited once.
    let mut settled: HashSet<JobId> = HashSet::new();
    for job in jobs {
        let mut visited: HashSet<JobId> = HashSet::new();
        let mut at = job.job.id;
        while !settled.contains(&at)
            && let Some(after) = predecessors[&at]
        {
            if !predecessors.contains_key(&after) || !visited.insert(at) {
                return Err(SimError::NeverSubmitted { job: at, after });
            }
            at = after;
        }
        settled.extend(visited);
    }
    Ok(())
}
