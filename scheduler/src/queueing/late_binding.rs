//! Late binding: a task waits at all of its local nodes at once. No publication.

use super::cluster::{Cluster, Locality};
use super::discipline::Discipline;
use super::longest::Longest;
use super::prices::Prices;
use super::task::Task;
use super::waiting::{As, Homes, Waiting};
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// Tasks are not routed: each waits at every node that holds its data, and the first of
/// them that is free serves it. So no task waits at a busy node while another with its
/// data is idle, as it may where it joined the shortest queue and the lengths turned out
/// otherwise.
///
/// A node n has a price p(n), see [`Prices`]. The *homes* of a task are those of its local
/// nodes whose price is next to the least when it arrives. The *share* S(n) is the sum,
/// over the tasks with a home at n that wait, of one over the number of their homes. An
/// idle node m serves what has the largest weight:
///
/// - a task at home there: alpha (S(m) + (1 + [`NEARER`]) p(m));
/// - another that it has the data of, the one that waits longest: the same with S and p
///   of its home;
/// - one of node n in its rack: beta (S(n) + (1 + [`NEARER`] x) p(n)), where x goes from -1
///   to 1 while S(n) goes from 0 to 2 [`STOCK`];
/// - one of any node n: gamma (S(n) + p(n)).
///
/// It is MaxWeight on lengths that the prices are added to. The prices alone would say
/// what no optimal plan does; S then decides between what is as good. Between a nearer
/// and a farther queue of the same value the nearer holds more tasks for the same work, so
/// it goes first; but a node in the rack leaves enough to n that n is not without work
/// soon after.
#[derive(Debug)]
pub(super) struct LateBinding {
    cluster: Cluster,
    waiting: Waiting,
    prices: Prices,
    /// S per node, in units of 1 / [`UNITS`].
    shares: Vec<u32>,
    idle: Vec<bool>,
    /// Per node, its weight for others of its rack and for any, over their rate: the bits
    /// of numbers that are not negative, which have their order. 0 where nobody may help.
    for_rack: Longest,
    for_any: Longest,
}

/// Divisible by any number of homes.
const UNITS: u32 = 6;
/// By how much of the price nearer work comes first.
const NEARER: f64 = 0.1;
/// What a node keeps of its tasks where others in the rack have work elsewhere.
const STOCK: f64 = 6.0;
/// A local node is a home where its price is at most so many times the least, and some
/// tasks: prices that are equal in the long run differ by a task or two.
const HOME_PRICE_MAX: f64 = 1.05;
const HOME_PRICE_SLACK: f64 = 2.0;
/// Tasks that are still to come and wait for less long where a node without a price helps,
/// of those that wait when it does.
const TO_COME: f64 = 0.7;

impl LateBinding {
    pub fn new(cluster: Cluster) -> Self {
        Self::with_prices(cluster, Prices::new(cluster))
    }

    fn with_prices(cluster: Cluster, prices: Prices) -> Self {
        Self {
            cluster,
            waiting: Waiting::new(cluster.nodes),
            prices,
            shares: vec![0; cluster.nodes as usize],
            idle: vec![true; cluster.nodes as usize],
            for_rack: Longest::new(cluster),
            for_any: Longest::new(cluster),
        }
    }

    fn share(&self, node: NodeId) -> f64 {
        f64::from(self.shares[node.0 as usize]) / f64::from(UNITS)
    }

    /// Whether a helper at this distance makes the tasks of n end sooner, if those that
    /// are to come count as `to_come` of one.
    ///
    /// The last of the tasks that wait there ends after S(n) / alpha slots by its own
    /// nodes, 1 / alpha later where n is busy, and after 1 / rate by the helper. An idle
    /// node takes one itself in this slot.
    fn gains(&self, n: NodeId, level: Locality, to_come: f64) -> bool {
        let busy = f64::from(u8::from(!self.idle[n.0 as usize]));
        let share = self.share(n);
        let rate = self.cluster.rate(level);
        share >= 2.0 - busy && share + busy + to_come >= self.cluster.local / rate
    }

    /// Whether m should help n. It costs the tasks of m what it gives those of n, so what
    /// is to come counts only as far as the price of m is below that of n.
    fn helps(&self, m: NodeId, n: NodeId, level: Locality) -> bool {
        let cheaper = 1.0 - self.prices.of(m) / self.prices.of(n).max(f64::MIN_POSITIVE);
        self.gains(n, level, TO_COME * cheaper.max(0.0))
    }

    fn changed(&mut self, node: NodeId) {
        let share = self.share(node);
        let price = self.prices.of(node);
        if self.cluster.rack_nodes.is_some() {
            let stocked = ((share - STOCK) / STOCK).min(1.0);
            let weight = match self.gains(node, Locality::Rack, TO_COME) {
                true => share + price * (1.0 + NEARER * stocked),
                false => 0.0,
            };
            self.for_rack.set(node, weight.to_bits());
        }
        let weight = match self.gains(node, Locality::Remote, TO_COME) {
            true => share + price,
            false => 0.0,
        };
        self.for_any.set(node, weight.to_bits());
    }

    fn set_idle(&mut self, node: NodeId, idle: bool) {
        self.idle[node.0 as usize] = idle;
        // With nothing, or enough, to take it does not matter.
        let share = self.share(node);
        if share > 0.0 && share < (self.cluster.local / self.cluster.remote).max(2.0) {
            self.changed(node);
        }
    }

    /// Of tasks with a home at n, for a node with their data.
    fn local_weight(&self, n: NodeId) -> f64 {
        self.cluster.local * (self.share(n) + (1.0 + NEARER) * self.prices.of(n))
    }

    /// Which queue `node` takes its next task from.
    fn source(&mut self, node: NodeId, ties: &mut ChaCha8Rng) -> Option<(NodeId, As)> {
        let mut best = (0.0, None);
        if self.shares[node.0 as usize] > 0 {
            best = (self.local_weight(node), Some((node, As::Home)));
        }
        if let Some((task, homes)) = self.waiting.oldest_guest(node) {
            let weights = homes.nodes(&task).map(|home| self.local_weight(home));
            let weight = weights.fold(f64::INFINITY, f64::min);
            if weight > best.0 {
                best = (weight, Some((node, As::Guest)));
            }
        }
        let levels = match self.cluster.rack_nodes {
            Some(_) => &[Locality::Rack, Locality::Remote][..],
            None => &[Locality::Remote],
        };
        for &level in levels {
            let queues = match level {
                Locality::Rack => &mut self.for_rack,
                _ => &mut self.for_any,
            };
            let rate = self.cluster.rate(level);
            if rate * f64::from_bits(queues.ceiling()) <= best.0 {
                continue;
            }
            let weight = rate * f64::from_bits(queues.max(node, level));
            if weight <= best.0 {
                continue;
            }
            let n = queues.longest(node, level, ties);
            if self.helps(node, n, level) {
                best = (weight, Some((n, As::Home)));
            }
        }
        best.1
    }
}

impl Discipline for LateBinding {
    fn route(&mut self, task: Task, ties: &mut ChaCha8Rng) {
        self.prices.arrive(&task, ties);
        for at in 0..self.prices.changed().len() {
            self.changed(self.prices.changed()[at]);
        }
        let prices = task.local_nodes().map(|node| self.prices.of(node));
        let home_max = prices.fold(f64::INFINITY, f64::min) * HOME_PRICE_MAX + HOME_PRICE_SLACK;
        let homes = Homes::of(&task, |node| self.prices.of(node) <= home_max);
        self.waiting.push(task, homes);
        for home in homes.nodes(&task) {
            self.shares[home.0 as usize] += UNITS / homes.count();
            self.changed(home);
        }
    }

    fn choose(&mut self, node: NodeId, running: &[u32], ties: &mut ChaCha8Rng) -> Option<Task> {
        let (source, waits) = self.source(node, ties)?;
        let (task, homes) = self.waiting.take(source, waits, running)?;
        for home in homes.nodes(&task) {
            self.shares[home.0 as usize] -= UNITS / homes.count();
            self.changed(home);
        }
        self.set_idle(node, false);
        Some(task)
    }

    fn finished(&mut self, node: NodeId, _: &Task, _: &[u32]) {
        self.set_idle(node, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn on(job: u32, node: u32) -> Task {
        Task::new(job, 0, &[node])
    }

    /// Which job each of the idle nodes serves, one after the other, with these prices.
    fn serve(cluster: Cluster, prices: &[u64], tasks: &[Task], idle: &[u32]) -> Vec<Option<u32>> {
        let mut ties = ChaCha8Rng::seed_from_u64(1);
        let mut policy = LateBinding::with_prices(cluster, Prices::given(cluster, prices));
        tasks.iter().for_each(|&task| policy.route(task, &mut ties));
        let running = vec![0; tasks.len()];
        (idle.iter())
            .map(|&node| {
                let task = policy.choose(NodeId(node), &running, &mut ties);
                task.map(|task| task.job)
            })
            .collect()
    }

    const FLAT: Cluster = Cluster::flat(3, 0.8, 0.2);
    /// Racks {0, 1} and {2, 3}.
    const RACKS: Cluster = Cluster::racks(4, 2, [0.8, 0.5, 0.2]);

    fn of_node_0(tasks: u32) -> Vec<Task> {
        (0..tasks).map(|job| on(job, 0)).collect()
    }

    /// Task 0 has data on nodes 0 and 1. Whichever is asked first serves it; the other finds
    /// it gone.
    #[test]
    fn a_task_waits_at_all_of_its_local_nodes() {
        let tasks = [Task::new(0, 0, &[0, 1]), on(1, 0)];
        let prices = [100, 100, 0];
        assert_eq!(
            serve(FLAT, &prices, &tasks, &[1, 1, 0]),
            [Some(0), None, Some(1)]
        );
        assert_eq!(serve(FLAT, &prices, &tasks, &[0, 1]), [Some(0), None]);
    }

    /// Node 0 is idle, so S(0) tasks end after S / 0.8 slots, and one that node 2 takes
    /// after 1 / 0.2. Node 2 has no price: 0.7 are still to come. Of three, 3 + 0.7 < 4; of
    /// four, 4.7 >= 4. When node 0 has taken one of four, three and the busy node are 4.7
    /// too. As dear as node 0, node 2 counts none to come: 4 >= 4.
    #[test]
    fn a_node_helps_where_the_tasks_end_sooner() {
        let free = [100, 0, 0];
        assert_eq!(serve(FLAT, &free, &of_node_0(3), &[2]), [None]);
        assert_eq!(serve(FLAT, &free, &of_node_0(4), &[2]), [Some(0)]);
        let after = |prices: &[u64], tasks| serve(FLAT, prices, &of_node_0(tasks), &[0, 2])[1];
        assert_eq!(after(&free, 3), None);
        assert_eq!(after(&free, 4), Some(1));
        assert_eq!(after(&[100, 0, 200], 4), Some(1));
    }

    /// 0.8 + 0.7 to come < 1.6 in the rack for one task, and 2.7 for two; but one of two
    /// that waits at an idle node is its only one after its turn.
    #[test]
    fn an_idle_node_keeps_its_only_task() {
        let prices = [100, 0, 0, 0];
        assert_eq!(serve(RACKS, &prices, &of_node_0(1), &[1]), [None]);
        assert_eq!(serve(RACKS, &prices, &of_node_0(2), &[1]), [Some(0)]);
    }

    /// Node 1 has one task: 0.8 (1 + 1.1 x 100) = 88.8. Node 0 has 20: 0.2 (20 + p). At
    /// the boundary a slot is worth the same, p = 400, and 84 is less. At 430 it is 90.
    #[test]
    fn own_tasks_come_first_where_prices_say_that_both_are_as_good() {
        let mut tasks = of_node_0(20);
        tasks.push(on(20, 1));
        let first = |price: u64| serve(FLAT, &[price - 20, 99, 0], &tasks, &[1])[0];
        assert_eq!(first(400), Some(20));
        assert_eq!(first(430), Some(0));
    }

    /// Node 1 helps node 0 of its rack, or node 2: 0.5 (S + p (1 + 0.1 (S - 6) / 6)) against
    /// 0.2 (10 + 250) = 52, p = 100. With four tasks it is 0.5 (4 + 96.7) = 50.3 and node 0
    /// keeps them; with six 0.5 (6 + 100) = 53.
    #[test]
    fn a_stock_stays_with_a_node_while_there_is_work_as_good_elsewhere() {
        for (stock, job) in [(4, 99), (6, 0)] {
            let mut tasks = of_node_0(stock);
            tasks.extend((0..10).map(|_| on(99, 2)));
            let prices = [100 - u64::from(stock), 0, 240, 0];
            let mut ties = ChaCha8Rng::seed_from_u64(1);
            let mut policy = LateBinding::with_prices(RACKS, Prices::given(RACKS, &prices));
            tasks.iter().for_each(|&task| policy.route(task, &mut ties));
            let task = policy.choose(NodeId(1), &[0; 100], &mut ties);
            assert_eq!(task.map(|task| task.job), Some(job), "{stock}");
        }
    }

    /// Job 0 has data on nodes 0 and 1, and node 1 is cheaper: it is at home there only.
    /// So node 0 serves job 1 first, though it came later, and job 0 before it idles.
    #[test]
    fn a_node_serves_first_what_no_cheaper_node_could() {
        let tasks = [Task::new(0, 0, &[0, 1]), on(1, 0)];
        let served = serve(FLAT, &[200, 100, 0], &tasks, &[0, 0]);
        assert_eq!(served, [Some(1), Some(0)]);
    }
}
