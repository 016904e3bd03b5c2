//! The generalized c-mu rule (Mandelbaum and Stolyar 2004; the survey, section III-B).

use super::cluster::{Cluster, Locality};
use super::discipline::Discipline;
use super::task::Task;
use super::type_queues::TypeQueues;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// The generalized c-mu rule: each type of task (a set of nodes that hold the data) has a queue,
/// and an idle node serves the type with the largest C'(Q) mu (equation 2 of Kavousi's survey),
/// where mu is the node's rate for that type.
///
/// The cost is C(Q) = Q^2 for every type, so C'(Q) mu is proportional to Q mu, where Q
/// counts waiting tasks. Among equal weights the nearer type is served first; remaining
/// ties are broken at random.
#[derive(Debug)]
pub(super) struct CMu {
    cluster: Cluster,
    queues: TypeQueues,
}

impl CMu {
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            queues: TypeQueues::new(cluster),
        }
    }
}

impl Discipline for CMu {
    fn route(&mut self, task: Task, _: &mut ChaCha8Rng) {
        self.queues.push(task);
    }

    fn choose(&mut self, node: NodeId, _: &[u32], ties: &mut ChaCha8Rng) -> Option<Task> {
        let mut best = (0.0, None);
        for level in [Locality::Local, Locality::Rack, Locality::Remote] {
            let weight = self.queues.max(node, level) as f64 * self.cluster.rate(level);
            if weight > best.0 {
                best = (weight, Some(level));
            }
        }
        let at = self.queues.longest(node, best.1?, ties)?;
        self.queues.pop(at)
    }

    fn finished(&mut self, _: NodeId, _: &Task, _: &[u32]) {}
}
