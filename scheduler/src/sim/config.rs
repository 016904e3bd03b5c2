//! The cluster to simulate, and what goes wrong in it.

use super::bounds::TASKS_MAX;
use super::job::SimJob;
use crate::availability::Availability;
use crate::model::{JobId, NodeId, Pool, Resources, TypedSlots};
use crate::policy::{Preemption, ReduceStart};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use thiserror::Error;

/// A node as it is without a transactional load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimNode {
    /// All of it.
    pub capacity: Resources,
    /// Slots by number, for policies that count those. A node that holds more
    /// tasks than it has resources for slows them down.
    pub slots: Option<TypedSlots>,
    /// Its hardware.
    pub pool: Pool,
}

/// How what f(t) leaves is divided among the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Whole nodes, first those where most tasks run, as in the thesis: f(t) is
    /// a number of nodes.
    #[default]
    WholeNodes,
    /// The same part of the CPU of every node.
    Even,
}

/// A node that stops, with all that runs on it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeLoss {
    /// Which node.
    pub node: NodeId,
    /// When it stops, in seconds.
    pub at_s: f64,
    /// When it is back, in seconds; `None`: never.
    pub back_s: Option<f64>,
}

/// What to write down beside what became of each job.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Recording {
    /// Every task.
    pub tasks: bool,
    /// Who held what, at most this often, in seconds; `None`: never.
    pub shares_every_s: Option<f64>,
}

/// The cluster and the clockwork.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// The nodes; their ids are their positions.
    pub nodes: Vec<SimNode>,
    /// What is left for the whole cluster, in hundredths of a core: the truth.
    pub availability: Arc<Availability>,
    /// What the policy is told of it; usually the same.
    pub forecast: Arc<Availability>,
    /// How it is divided among the nodes.
    pub spread: Spread,
    /// Length of a control cycle in seconds; 30 in the thesis.
    pub cycle_s: f64,
    /// When to stop, in seconds, whatever is unfinished.
    pub horizon_s: f64,
    /// When reduces may start.
    pub reduce_start: ReduceStart,
    /// What the policy is told may become of running tasks. They run to their end
    /// all the same, so that [`Preemption::EveryCycle`] is near to the truth only
    /// where tasks are short beside a cycle.
    pub preemption: Preemption,
    /// Nodes that stop.
    pub losses: Vec<NodeLoss>,
    /// Seed of the task lengths.
    pub seed: u64,
    /// What is measured lies between these, in seconds: a warm-up before and a
    /// cool-down after are cut off.
    pub window_s: (f64, f64),
    /// What to record.
    pub recording: Recording,
}

impl SimConfig {
    /// `nodes` nodes of one core and one slot each, a 30 s cycle, reduces after
    /// maps, a horizon of 30 days, seed 0, everything recorded.
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

    /// All CPU there is, in hundredths of a core.
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
        /// Which number.
        what: &'static str,
        /// What was given.
        value: f64,
    },
    /// The window ends before it begins.
    #[error("the window from {from_s} s to {until_s} s is empty")]
    EmptyWindow {
        /// Its start.
        from_s: f64,
        /// Its end.
        until_s: f64,
    },
    /// No nodes.
    #[error("a cluster needs at least one node")]
    NoNodes,
    /// A node that stops is not there, or is back before it stopped.
    #[error("node {0} is not there, or does not come back after it stopped")]
    BadLoss(u32),
    /// Two jobs share an id.
    #[error("{0} is there twice")]
    DuplicateJob(JobId),
    /// A job waits for one that is not there, or, over others, for itself.
    #[error("{job} comes after {after}, which is not there or comes after {job} itself")]
    NeverSubmitted {
        /// Which job.
        job: JobId,
        /// What it waits for.
        after: JobId,
    },
    /// More tasks, jobs or copies of splits than a run may have.
    #[error(
        "a run of {count} {what}, and perhaps more; at most {max}: list fewer or smaller jobs, or \
         generate fewer or smaller ones"
    )]
    TooLarge {
        /// The things that were counted, in the plural.
        what: &'static str,
        /// The number that was counted before the rest was given up.
        count: u64,
        /// The most that there may be.
        max: u64,
    },
    /// A job that makes no sense.
    #[error("{job}: {what}")]
    BadJob {
        /// Which job.
        job: JobId,
        /// What is wrong, and what would be right.
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

/// Fails if there are more than `max`.
pub(super) fn at_most(what: &'static str, count: u64, max: u64) -> Result<(), SimError> {
    if count > max {
        return Err(SimError::TooLarge { what, count, max });
    }
    Ok(())
}

/// Every job that comes after another must be submitted in the end.
fn check_order(jobs: &[SimJob]) -> Result<(), SimError> {
    let waits: HashMap<JobId, Option<JobId>> =
        (jobs.iter().map(|job| (job.job.id, job.after))).collect();
    // Jobs whose chain begins somewhere: each is walked over once.
    let mut settled: HashSet<JobId> = HashSet::new();
    for job in jobs {
        let mut walked: HashSet<JobId> = HashSet::new();
        let mut at = job.job.id;
        while !settled.contains(&at)
            && let Some(after) = waits[&at]
        {
            if !waits.contains_key(&after) || !walked.insert(at) {
                return Err(SimError::NeverSubmitted { job: at, after });
            }
            at = after;
        }
        settled.extend(walked);
    }
    Ok(())
}
