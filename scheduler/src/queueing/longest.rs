//! The longest of the nodes' queues: in the rack of a node, or of all nodes.

use super::cluster::{Cluster, Locality};
use super::least::Least;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// The length of each node's queue, 0 at first, with a quick search for the longest queue of a rack
/// or of all nodes.
#[derive(Debug)]
pub(super) struct Longest {
    cluster: Cluster,
    /// Keys are `u64::MAX` minus the length, so that the smallest key is the largest
    /// length.
    least: Least,
}

impl Longest {
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            least: Least::new(cluster.nodes as usize),
        }
    }

    pub fn get(&self, node: NodeId) -> u64 {
        u64::MAX - self.least.get(node.0 as usize)
    }

    pub fn set(&mut self, node: NodeId, length: u64) {
        self.least.set(node.0 as usize, u64::MAX - length);
    }

    /// Returns an upper bound of the lengths of all queues. It takes no work, while [`Self::max`]
    /// may have to propagate changes of lengths up the tree.
    pub const fn ceiling(&self) -> u64 {
        u64::MAX - self.least.floor()
    }

    /// Returns the length of the longest queue in `node`'s rack, or of all nodes if `level` is
    /// remote. The queue of `node` itself is included.
    pub fn max(&mut self, node: NodeId, level: Locality) -> u64 {
        u64::MAX
            - match self.range(node, level) {
                Some((from, until)) => self.least.min_within(from, until).0,
                None => self.least.min(),
            }
    }

    /// Draws one of the nodes with the longest queue in the rack of `node`, or of all nodes if
    /// `level` is remote.
    pub fn longest(&mut self, node: NodeId, level: Locality, ties: &mut ChaCha8Rng) -> NodeId {
        let at = match self.range(node, level) {
            Some((from, until)) => self.least.position_within(from, until, ties),
            None => self.least.position(ties),
        };
        NodeId(at as u32)
    }

    fn range(&self, node: NodeId, level: Locality) -> Option<(usize, usize)> {
        let within_rack = level == Locality::Rack;
        within_rack.then(|| self.cluster.rack_range(node)).flatten()
    }

    /// Returns the node whose queue has the largest weight for `node`, among its own queue, the
    /// longest of its rack and the longest of all; `None` if no weight is positive.
    ///
    /// `weight` returns the weight of a queue of this length at this distance. It must not fall
    /// with the length, and must be positive only if there is a task to serve. Among equal weights
    /// the nearer queue comes first; remaining ties are random.
    pub fn heaviest(
        &mut self,
        node: NodeId,
        weight: impl Fn(Locality, u64) -> f64,
        ties: &mut ChaCha8Rng,
    ) -> Option<NodeId> {
        let own = weight(Locality::Local, self.get(node));
        let others_max = [Locality::Rack, Locality::Remote].map(|at| weight(at, self.ceiling()));
        if own > 0.0 && others_max.iter().all(|&other| own >= other) {
            return Some(node);
        }
        let rack = self.cluster.rack_range(node).map(|(from, until)| {
            let length = u64::MAX - self.least.min_within(from, until).0;
            (weight(Locality::Rack, length), from, until)
        });
        let in_rack = rack.map_or(0.0, |(weight, ..)| weight);
        let any = weight(Locality::Remote, u64::MAX - self.least.min());
        if own.max(in_rack).max(any) <= 0.0 {
            return None;
        }
        if own >= in_rack && own >= any {
            return Some(node);
        }
        let at = match rack {
            Some((weight, from, until)) if weight >= any => {
                self.least.position_within(from, until, ties)
            }
            _ => self.least.position(ties),
        };
        Some(NodeId(at as u32))
    }
}
