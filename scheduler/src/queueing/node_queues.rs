//! Policies with a queue for each node: the survey's JSQ-MaxWeight, and Pandas (Xie and Lu,
//! INFOCOM 2015; the survey, section IV-B) with a variant for racks.

use super::cluster::{Cluster, Locality};
use super::discipline::Discipline;
use super::longest::Longest;
use super::queues::Queues;
use super::task::Task;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// A policy with one queue for each node. A task joins the shortest of the queues of the nodes with
/// its data. An idle node serves the queue with the largest weight, which the [`Rule`] defines. Of
/// queues with the same weight the node prefers its own, then one in its rack.
///
/// For joining, the length of a queue includes its tasks in service. (Kavousi's survey, see the
/// [module](super), leaves them out in its equation (6), and breaks all ties at random.)
#[derive(Debug)]
pub(super) struct NodeQueues {
    cluster: Cluster,
    rule: Rule,
    queues: Queues,
    longest: Longest,
}

/// The rule for the weight that an idle node gives to each queue. The node serves the queue with
/// the largest weight. It cannot choose a queue without waiting tasks, nor one with a weight of 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The length, tasks in service included, times the rate at which the node serves tasks of the
    /// queue: alpha for its own queue, beta for those of its rack, gamma for all others. This is
    /// equation (5) of Kavousi's survey; without racks, its equation (4), whose printed form has
    /// beta in place of gamma.
    MaxWeight,
    /// The node's own queue comes first. If it is empty, the node serves the longest queue of all,
    /// provided that at least alpha / gamma tasks wait there (the rate of local tasks over that of
    /// remote ones). With fewer, the task would end sooner on its own node.
    Pandas,
    /// Like `Pandas`, but a node whose own queue is empty first serves the longest queue of its
    /// rack, provided that at least alpha / beta tasks wait there (the rate of local tasks over
    /// that of tasks in the rack), and only then the longest queue of all.
    PandasRack,
}

impl Rule {
    fn weight(self, cluster: &Cluster, level: Locality, length: u64) -> f64 {
        let rate = cluster.rate(level);
        if self == Self::MaxWeight {
            return length as f64 * rate;
        }
        let gains = length as f64 >= cluster.local / rate;
        match level {
            Locality::Local if length > 0 => 3.0,
            Locality::Rack if gains && self == Self::PandasRack => 2.0,
            Locality::Remote if gains => 1.0,
            _ => 0.0,
        }
    }
}

impl NodeQueues {
    pub fn new(cluster: Cluster, rule: Rule) -> Self {
        Self {
            cluster,
            rule,
            queues: Queues::new(cluster.nodes, cluster.nodes),
            longest: Longest::new(cluster),
        }
    }

    fn update_length(&mut self, queue: u32) {
        let length = match self.queues.waiting(queue) {
            waiting if waiting == 0 || self.rule != Rule::MaxWeight => waiting,
            _ => self.queues.length(queue),
        };
        self.longest.set(NodeId(queue), length.into());
    }
}

impl Discipline for NodeQueues {
    fn route(&mut self, task: Task, ties: &mut ChaCha8Rng) {
        let candidates = task.local_nodes().map(|node| node.0);
        let queue = self.queues.shortest(candidates, ties);
        self.queues.push(queue, task);
        self.update_length(queue);
    }

    fn choose(&mut self, node: NodeId, running: &[u32], ties: &mut ChaCha8Rng) -> Option<Task> {
        let weight = |level, length| self.rule.weight(&self.cluster, level, length);
        let queue = self.longest.heaviest(node, weight, ties)?.0;
        let task = self.queues.serve(queue, node, running);
        self.update_length(queue);
        task
    }

    fn finished(&mut self, node: NodeId, _: &Task, _: &[u32]) {
        let queue = self.queues.finished(node);
        self.update_length(queue);
    }
}
