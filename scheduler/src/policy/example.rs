//! The cluster and the jobs in the worked examples of the policies.

use super::{ClusterView, Decision, JobView, Preemption, ReduceStart, RunningTask};
use crate::availability::Availability;
use crate::model::{Job, JobId, Node, NodeId, Phase, Profile, Resources};
use std::sync::Arc;

/// Returns a job whose maps each take a core for 10 s.
pub(crate) fn job(id: u64, submitted_s: f64, goal_s: Option<f64>, maps: u32) -> JobView {
    let job = Job::new(JobId(id), submitted_s, goal_s);
    JobView::new(job, maps, 0, Profile::cpu(100, 10.0, 10.0))
}

/// Returns a map that has run on `node` since `since_s`, in seconds.
pub(super) fn running_map(index: u32, node: u32, since_s: f64) -> RunningTask {
    RunningTask {
        index,
        node: NodeId(node),
        phase: Phase::Map,
        since_s,
    }
}

/// Returns a view of one node with room for `slots` maps of one core, in a cycle of 10 s that
/// starts at time 0. The forecast is `forecast_hundredths` of a core at all times.
pub(crate) fn view(slots: u32, forecast_hundredths: f64, jobs: Vec<JobView>) -> ClusterView {
    ClusterView {
        now_s: 0.0,
        cycle_s: 10.0,
        nodes: vec![Node::new(NodeId(0), Resources::cpu_bound(slots * 100))],
        availability: Arc::new(Availability::constant(forecast_hundredths).unwrap()),
        jobs,
        preemption: Preemption::Never,
        reduce_start: ReduceStart::AfterMaps,
    }
}

/// Returns three jobs with goals at 40, 60 and 100 s; the one with the latest goal was submitted
/// first. `fit::tests::a_walk_by_hand` places the same tasks.
pub(super) fn three_goals() -> Vec<JobView> {
    vec![
        job(1, 2.0, Some(40.0), 7),
        job(2, 1.0, Some(60.0), 12),
        job(3, 0.0, Some(100.0), 20),
    ]
}

/// Returns the number of slots of each job, by id from 1 to `jobs`.
pub(super) fn slots(decision: &Decision, jobs: u64) -> Vec<u32> {
    (1..=jobs)
        .map(|id| decision.placement.slots(JobId(id)))
        .collect()
}
