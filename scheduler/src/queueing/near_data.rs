//! An adapter: policies of the queueing model for clusters whose jobs have splits, profiles and
//! control cycles.

use super::cluster::Cluster;
use super::discipline::Discipline;
use super::registry::{QUEUEING_POLICIES, QueueingPolicy, queueing_policy};
use super::task::{REPLICAS_MAX, Task};
use super::traffic::{JobSizes, Model, Stream};
use crate::model::{NodeId, TaskKind};
use crate::policy::{self, ClusterView, Decision, Policy, fair_with_idle_slots};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Returns the policy called `name` for scheduling jobs: one of [`policy::by_name`], or an adapted
/// policy of the queueing model. `None` for an unknown name, and for a policy of the model that
/// needs arrival rates.
#[must_use]
pub fn policy_by_name(name: &str) -> Option<Arc<dyn Policy>> {
    policy::by_name(name).or_else(|| {
        let policy = NearData::new(queueing_policy(name)?)?;
        Some(Arc::new(policy))
    })
}

/// Returns the names that [`policy_by_name`] accepts, except those with a parameter, such as
/// `adaptive-data:1`.
pub fn policy_names() -> impl Iterator<Item = &'static str> {
    let of_queues = QUEUEING_POLICIES
        .iter()
        .filter(|policy| !policy.knows_rates);
    let of_jobs = policy::descriptors().into_iter().map(|policy| policy.name);
    of_jobs.chain(of_queues.map(|policy| policy.name))
}

/// Probabilities per slot that a local and a remote task ends, from Wang. Only their ratio, four,
/// matters.
const RATES: [f64; 2] = [0.8, 0.2];

/// A scheduling policy for jobs in which a policy of the queueing model chooses the job that gets
/// an idle slot.
///
/// A [`Policy`] has no memory, so each decision queues all pending maps anew, the oldest job first.
/// Then the queueing policy chooses a map for one idle slot after another, node by node. Its queues
/// do not contain the maps that already run. A split counts as local on its first three replicas,
/// and nodes have no racks. A decision names only jobs: the component that starts a map chooses
/// which one (a local one if there is one). Reduces, and slots of running tasks, are shared as by
/// [`Fair`](policy::Fair). The time of the view seeds the tie breaks, so equal views have equal
/// decisions.
#[derive(Clone, Copy, Debug)]
struct NearData {
    policy: &'static QueueingPolicy,
}

impl NearData {
    /// Makes a policy of the queueing model a scheduling policy for jobs; `None` if it needs the
    /// arrival rates of tasks, which the view of a cluster does not have.
    fn new(policy: &'static QueueingPolicy) -> Option<Self> {
        (!policy.knows_rates).then_some(Self { policy })
    }
}

impl Policy for NearData {
    fn name(&self) -> &'static str {
        self.policy.name
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        match Queues::new(self.policy, view) {
            Some(mut queues) => {
                fair_with_idle_slots(view, |node, can_start| queues.choose(node, can_start))
            }
            None => Decision::default(),
        }
    }
}

/// The pending maps of a cluster's view, queued as tasks of the queueing model under one of its
/// policies.
struct Queues {
    discipline: Box<dyn Discipline>,
    /// For each job, by its position in the view: the number of its running maps.
    running: Vec<u32>,
    ties: ChaCha8Rng,
}

impl Queues {
    /// Routes all pending maps of `view` into the queues of `policy`; `None` if the view has no
    /// nodes, or more than the queueing model permits.
    fn new(policy: &QueueingPolicy, view: &ClusterView) -> Option<Self> {
        let nodes = view.nodes.len() as u32;
        let model = Model {
            cluster: Cluster::flat(nodes, RATES[0], RATES[1]),
            sizes: JobSizes::single(),
            streams: vec![Stream::new(1.0, 0..nodes, 1)],
        };
        let mut queues = Self {
            discipline: policy.build(&model).ok()?,
            running: (view.jobs.iter())
                .map(|job| job.running_of(TaskKind::Map).count() as u32)
                .collect(),
            ties: ChaCha8Rng::seed_from_u64(view.now_s.to_bits()),
        };
        for job in view.by_age(|_| true) {
            queues.route(view, job, nodes);
        }
        Some(queues)
    }

    fn route(&mut self, view: &ClusterView, job: usize, nodes: u32) {
        let of = &view.jobs[job];
        let Some(local) = &of.local else {
            // The input is equally near everywhere: the maps are spread over the nodes.
            for index in 0..of.pending_maps {
                let task = Task::new(job as u32, index, &[index % nodes]);
                self.discipline.route(task, &mut self.ties);
            }
            return;
        };
        for split in local.iter() {
            let on: Vec<u32> = (local.splits().nodes_of(split).iter())
                .map(|node| node.0)
                .filter(|&node| node < nodes)
                .take(REPLICAS_MAX)
                .collect();
            let on = if on.is_empty() {
                &[split % nodes]
            } else {
                &on[..]
            };
            let task = Task::new(job as u32, split, on);
            self.discipline.route(task, &mut self.ties);
        }
    }

    /// Returns the job that starts a map in an idle slot of `node`; `None` leaves the slot idle.
    /// `can_start` returns whether a map of the job with this position fits on `node`. A map that
    /// does not fit is removed from the queues, so this decision does not consider it for other
    /// nodes.
    fn choose(&mut self, node: NodeId, can_start: &dyn Fn(usize) -> bool) -> Option<usize> {
        loop {
            let task = (self.discipline).choose(node, &self.running, &mut self.ties)?;
            let job = task.job as usize;
            if can_start(job) {
                self.running[job] += 1;
                return Some(job);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobId, Node, PendingSplits, Resources, Splits};
    use crate::policy::example::{job, view};
    use crate::queueing::QUEUEING_POLICIES;

    /// Returns a view of three nodes with one slot each. Job 1 has `of_first` splits on node 0,
    /// job 2 has one on node 1.
    fn three_nodes(of_first: usize) -> ClusterView {
        let mut jobs = vec![job(1, 0.0, None, of_first as u32), job(2, 1.0, None, 1)];
        for (job, (node, splits)) in jobs.iter_mut().zip([(0, of_first), (1, 1)]) {
            let splits = Splits::new(vec![vec![NodeId(node)]; splits]);
            job.local = Some(PendingSplits::all(Arc::new(splits)));
        }
        let mut view = view(1, 300.0, jobs);
        view.nodes = (0..3)
            .map(|id| Node::new(NodeId(id), Resources::cpu_bound(100)))
            .collect();
        view
    }

    /// Runs the policy `name` with `of_first` tasks of job 1, whose data is on node 0, and one
    /// task of job 2, on node 1. Returns the job in the slot of each of nodes 0, 1 and 2; 0 for
    /// an idle slot.
    fn owners(name: &str, of_first: usize) -> [u64; 3] {
        let decision = policy_by_name(name).unwrap().decide(&three_nodes(of_first));
        [0, 1, 2].map(|node| {
            let mut cells = decision.placement.cells().iter();
            let first = cells.find(|cell| cell.node == NodeId(node));
            first.map_or(0, |cell| cell.job.0)
        })
    }

    /// The adapted policies decide as in the queueing model. Pandas lets node 2, which has none of
    /// the data, serve a task of node 0 only if four tasks wait there after node 0 has taken one;
    /// MaxWeight lets it help at once.
    #[test]
    fn idle_slots_are_offered_to_the_queues() {
        assert_eq!(owners("pandas", 4), [1, 2, 0]);
        assert_eq!(owners("pandas", 5), [1, 2, 1]);
        assert_eq!(owners("jsq-maxweight", 2), [1, 2, 1]);
        assert_eq!(owners("late-binding", 4), [1, 2, 1]);
        assert_eq!(owners("naive-fair", 2)[0], 1);
    }

    #[test]
    fn every_policy_without_arrival_rates_decides_deterministically() {
        for policy in QUEUEING_POLICIES {
            let found = policy_by_name(policy.name);
            assert_eq!(found.is_none(), policy.knows_rates, "{}", policy.name);
            let Some(found) = found else { continue };
            assert_eq!(found.name(), policy.name);
            let view = three_nodes(20);
            let decision = found.decide(&view);
            assert_eq!(decision, found.decide(&view));
            let slots = [JobId(1), JobId(2)].map(|job| decision.placement.slots(job));
            assert!(slots.iter().sum::<u32>() <= 3 && slots[0] > 0, "{slots:?}");
            let nowhere = ClusterView {
                nodes: Vec::new(),
                ..view
            };
            assert_eq!(found.decide(&nowhere).placement.total(), 0);
        }
    }
}
