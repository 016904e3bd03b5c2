//! Shadow prices of the nodes' queues, learned from the arrivals alone.

use super::cluster::{Cluster, Locality};
use super::longest::Longest;
use super::task::Task;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// The price of each node: the cost of one more waiting task there, measured in waiting tasks.
///
/// Prices are the queue lengths of a simulated second system, the *virtual* one. Every task that
/// arrives in the real system also joins the shortest of its local queues in the virtual one.
/// There, nodes serve the queue with the largest rate times length (JSQ-MaxWeight). After each
/// arrival, nodes serve in turn only while more tasks wait than the target `held`. So the virtual
/// system stays at the boundary of its capacity, whatever the load of the real system is, and
/// prices need neither a clock nor the arrival rates.
///
/// In theory this is the subgradient method for the dual of the capacity's linear programme: at the
/// boundary the queues are proportional to the multipliers of its constraints.
///
/// An arrival changes a price by a few tasks at most. With [`TASKS_PER_NODE`] tasks per node this
/// is so little that prices which differ by a few percent can be distinguished.
#[derive(Debug)]
pub(super) struct Prices {
    cluster: Cluster,
    /// The length of each node's queue in the virtual system, which is the price of the node; in
    /// units of 1 / [`UNITS`] tasks.
    queues: Longest,
    total: u64,
    /// The number of tasks, in units of 1 / [`UNITS`], that the virtual system should hold: the
    /// target of `total`, the sum of all prices. It grows with the arrivals up to `held_max`: while
    /// the sum is small, prices settle after few arrivals; once it is large, they are exact.
    held: u64,
    held_max: u64,
    /// The node that serves next in the virtual system.
    turn: u32,
    /// Nodes whose price the last arrival changed; may have duplicates.
    changed: Vec<NodeId>,
}

/// The number of units in a task: queue lengths are fixed-point numbers.
const UNITS: u64 = 1 << 20;
/// Number of tasks per node that the virtual system holds in the long run, when its target `held`
/// has reached `held_max`.
const TASKS_PER_NODE: u64 = 1000;
/// The number of arrivals after which the target `held` of the virtual system has grown by one
/// task. It grows until it reaches `held_max`.
const ARRIVALS_PER_HELD: u64 = 4;
/// Number of time slots that a node serves, each time it is its turn in the virtual system. One
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

    /// Starts with the given prices of the nodes, in tasks. Until the sum of all prices exceeds
    /// `held_max`, arriving tasks only raise them: the nodes of the virtual system serve no task.
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

    /// Returns the price of `node`: the length, in tasks, of its queue in the virtual system.
    pub fn of(&self, node: NodeId) -> f64 {
        self.queues.get(node) as f64 / UNITS as f64
    }

    /// Returns the nodes whose price the last arrival changed; a node may occur more than once.
    pub fn changed(&self) -> &[NodeId] {
        &self.changed
    }

    /// Adds an arriving task to the virtual system, whose queues set the prices. Then its nodes
    /// serve in turn until at most `held` tasks wait there.
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

    /// Two nodes have data of their own; three of four tasks have their data on node 0. With as
    /// much load as the cluster can serve, node 1 serves tasks of both, so both must have the same
    /// weight there: rate times price, 0.8 * p(1) = 0.2 * p(0), so that p(0) = 4 * p(1). The prices
    /// sum to 2,000 tasks: 1,600 and 400.
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
