//! Shadow prices of the nodes' queues, learned from the arrivals alone.

use super::cluster::{Cluster, Locality};
use super::longest::Longest;
use super::task::Task;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// The price of a waiting task at each node: the multipliers of the capacity's linear
/// programme, in units of tasks.
///
/// They are the queue lengths of a virtual second system. Every arriving task joins the
/// shortest of its local queues there too, and nodes serve the queue with the largest rate
/// times length (JSQ-MaxWeight). This is the subgradient method for the dual of the
/// programme. If the virtual system is at the boundary of its capacity, its queues are
/// proportional to the multipliers. It stays there, whatever the load of the real system
/// is: after each arrival, nodes serve in turn only while more tasks wait than the target
/// `held`. So the prices need neither a clock nor the arrival rates.
///
/// Each arrival moves prices by a task or two. At queues of a thousand tasks that is little
/// enough to distinguish prices that differ by some hundredths.
#[derive(Debug)]
pub(super) struct Prices {
    cluster: Cluster,
    /// The virtual queue of each node, whose length, in units of 1 / [`UNITS`] tasks, is the
    /// price of the node.
    queues: Longest,
    total: u64,
    /// Target of `total`, the sum of all prices, in units of 1 / [`UNITS`] tasks. It grows
    /// with the arrivals up to `held_max`: a small total gives rough prices after few
    /// arrivals, a large one exact prices.
    held: u64,
    held_max: u64,
    /// The node that serves next in the virtual second system, whose queue lengths are the
    /// prices.
    turn: u32,
    /// Nodes whose price the last arrival changed.
    changed: Vec<NodeId>,
}

/// The number of units in a task. Prices of waiting tasks are measured in tasks, as
/// fixed-point numbers.
const UNITS: u64 = 1 << 20;
/// Waiting tasks per node in the virtual second system, once their target has grown to
/// `held_max`.
const TASKS_PER_NODE: u64 = 1000;
/// Number of arrivals after which `held`, the target for all tasks in the virtual system, has
/// grown by one task, until it reaches `held_max`.
const ARRIVALS_PER_HELD: u64 = 4;
/// Slots of service each time that it is a node's turn to serve in the virtual system. One
/// slot would do as well, with four times as many turns.
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

    /// Starts with these prices. The virtual system serves no task, which would lower a price,
    /// before the sum of all prices exceeds `held_max`.
    #[cfg(test)]
    pub fn fixed(cluster: Cluster, prices: &[u64]) -> Self {
        let mut fixed = Self::new(cluster);
        for (node, price) in prices.iter().enumerate() {
            fixed.queues.set(NodeId(node as u32), price * UNITS);
            fixed.total += price * UNITS;
        }
        fixed.held = fixed.held_max;
        fixed
    }

    /// The price of a task that waits at `node`: the length, in tasks, of the node's queue in
    /// the virtual second system.
    pub fn of(&self, node: NodeId) -> f64 {
        self.queues.get(node) as f64 / UNITS as f64
    }

    /// The nodes where the last arrival changed the price of a waiting task; a node may
    /// occur more than once.
    pub fn changed(&self) -> &[NodeId] {
        &self.changed
    }

    /// Adds an arriving task to the virtual second system. Lets the nodes there serve in turn
    /// until at most `held` tasks wait in it.
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
        let level = if from == node {
            Locality::Local
        } else if cluster.rack_of(from) == cluster.rack_of(node) {
            Locality::Rack
        } else {
            Locality::Remote
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

    fn learn<const N: usize>(cluster: Cluster, pattern: &[u32]) -> [f64; N] {
        let mut ties = ChaCha8Rng::seed_from_u64(1);
        let mut prices = Prices::new(cluster);
        for (index, &node) in pattern.iter().cycle().take(40_000).enumerate() {
            prices.arrive(&Task::new(0, index as u32, &[node]), &mut ties);
        }
        std::array::from_fn(|node| prices.of(NodeId(node as u32)))
    }

    /// Two nodes have data of their own, with traffic 3 to 1. At the boundary node 1 serves
    /// both types, so its slot is worth the same for both: 0.8 p(1) = 0.2 p(0), and p(0) =
    /// 4 p(1). Together they hold 2,000 tasks: 1,600 and 400.
    #[test]
    fn prices_are_the_multipliers_of_the_capacity() {
        let [first, second] = learn(Cluster::flat(2, 0.8, 0.2), &[0, 0, 0, 1]);
        assert!((first - 1600.0).abs() < 16.0, "{first}");
        assert!((second - 400.0).abs() < 8.0, "{second}");
    }

    /// All data is on node 0 of four nodes in two racks. So no task waits at another node,
    /// and the price of a task is 0 there.
    #[test]
    fn a_node_without_data_has_no_price() {
        let racks = Cluster::racks(4, 2, [0.8, 0.5, 0.2]);
        let [first, others @ ..] = learn::<4>(racks, &[0]);
        assert!((first - 4000.0).abs() < 4.0, "{first}");
        assert_eq!(others, [0.0; 3]);
    }
}
