//! Shadow prices of the nodes' queues, learned from the arrivals alone.

use super::cluster::{Cluster, Locality};
use super::longest::Longest;
use super::task::Task;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// What a task that waits at a node costs: the multipliers of the capacity's linear
/// programme, in units of tasks.
///
/// They are the queue lengths of a second system, which only computes. Every task that
/// arrives joins the shortest of its local queues there too, and nodes serve the queue
/// with the largest rate times length (JSQ-MaxWeight). That is the subgradient method for
/// the dual of the programme, and its queues are in proportion to the multipliers where
/// the system is at the boundary of its capacity. So it is held there: nodes serve, one
/// after the other, only while more tasks wait than shall. It needs no clock for that, and
/// no rates: how much more it serves than really arrives is what is left of the capacity.
///
/// The prices move by a task or two with each arrival. Of queues of a thousand tasks that
/// is little enough to tell prices apart that differ by some hundredths.
#[derive(Debug)]
pub(super) struct Prices {
    cluster: Cluster,
    /// In units of 1 / [`UNITS`] tasks.
    queues: Longest,
    total: u64,
    /// What `total` is held at: it grows with the arrivals, up to `held_max`, so that
    /// prices are there early, and exact later.
    held: u64,
    held_max: u64,
    /// The node that serves next.
    turn: u32,
    /// Nodes whose price changed since the last look.
    changed: Vec<NodeId>,
}

const UNITS: u64 = 1 << 20;
/// Tasks that wait per node, in the end.
const TASKS_PER_NODE: u64 = 1000;
/// One of so many arrivals stays until then.
const ARRIVALS_PER_HELD: u64 = 4;
/// Slots that a node serves at a turn. One would do as well, and take four times as many
/// turns.
const SLOTS_PER_TURN: f64 = 4.0;

impl Prices {
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            queues: Longest::new(cluster),
            total: 0,
            held: 0,
            held_max: UNITS * TASKS_PER_NODE * u64::from(cluster.nodes),
            turn: 0,
            changed: Vec::new(),
        }
    }

    /// Those that are given, until so many tasks arrived that they sum to more than all
    /// nodes hold.
    #[cfg(test)]
    pub fn given(cluster: Cluster, prices: &[u64]) -> Self {
        let mut given = Self::new(cluster);
        for (node, price) in prices.iter().enumerate() {
            given.queues.set(NodeId(node as u32), price * UNITS);
            given.total += price * UNITS;
        }
        given.held = given.held_max;
        given
    }

    /// Of a task that waits at `node`, in tasks.
    pub fn of(&self, node: NodeId) -> f64 {
        self.queues.get(node) as f64 / UNITS as f64
    }

    /// Nodes whose price the last arrival changed, some more than once.
    pub fn changed(&self) -> &[NodeId] {
        &self.changed
    }

    /// A task arrives.
    pub fn arrive(&mut self, task: &Task, ties: &mut ChaCha8Rng) {
        self.changed.clear();
        let shortest = (task.local_nodes()).min_by_key(|&node| self.queues.get(node));
        let at = shortest.expect("a task has a local node");
        self.queues.set(at, self.queues.get(at) + UNITS);
        self.changed.push(at);
        self.total += UNITS;
        self.held = (self.held + UNITS / ARRIVALS_PER_HELD).min(self.held_max);
        while self.total > self.held {
            self.serve(NodeId(self.turn), ties);
            self.turn = (self.turn + 1) % self.cluster.nodes;
        }
    }

    fn serve(&mut self, node: NodeId, ties: &mut ChaCha8Rng) {
        let cluster = self.cluster;
        let weight = |level, length| cluster.rate(level) * length as f64;
        let from = self.queues.heaviest(node, weight, ties);
        let from = from.expect("something waits, and no rate is 0");
        let level = match from == node {
            true => Locality::Local,
            false if cluster.rack_of(from) == cluster.rack_of(node) => Locality::Rack,
            false => Locality::Remote,
        };
        let able = (cluster.rate(level) * SLOTS_PER_TURN * UNITS as f64) as u64;
        let length = self.queues.get(from);
        let served = length.min(able);
        self.queues.set(from, length - served);
        self.total -= served;
        self.changed.push(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn learned<const N: usize>(cluster: Cluster, pattern: &[u32]) -> [f64; N] {
        let mut ties = ChaCha8Rng::seed_from_u64(1);
        let mut prices = Prices::new(cluster);
        for (index, &node) in pattern.iter().cycle().take(40_000).enumerate() {
            prices.arrive(&Task::new(0, index as u32, &[node]), &mut ties);
        }
        std::array::from_fn(|node| prices.of(NodeId(node as u32)))
    }

    /// Two nodes with data of their own, traffic 3 to 1. At the boundary node 1 serves both
    /// types, so a slot of it is worth the same for both: 0.8 p(1) = 0.2 p(0), and p(0) = 4
    /// p(1). Together they hold 2,000 tasks: 1,600 and 400.
    #[test]
    fn prices_are_the_multipliers_of_the_capacity() {
        let [first, second] = learned(Cluster::flat(2, 0.8, 0.2), &[0, 0, 0, 1]);
        assert!((first - 1600.0).abs() < 16.0, "{first}");
        assert!((second - 400.0).abs() < 8.0, "{second}");
    }

    /// All data on node 0 of four in two racks: nobody waits elsewhere.
    #[test]
    fn a_node_without_data_has_no_price() {
        let racks = Cluster::racks(4, 2, [0.8, 0.5, 0.2]);
        let [first, others @ ..] = learned::<4>(racks, &[0]);
        assert!((first - 4000.0).abs() < 4.0, "{first}");
        assert_eq!(others, [0.0; 3]);
    }
}
