//! Late binding, an unpublished policy: a task waits at all of its local nodes at once.

use super::cluster::{Cluster, Locality};
use super::discipline::Discipline;
use super::longest::Longest;
use super::prices::Prices;
use super::task::Task;
use super::waiting::{Homes, Role, WaitingTasks};
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// Tasks are not routed: each waits at every node that holds its data, and the first of these nodes
/// that becomes idle serves it. So no task waits at a busy node while another node with its data is
/// idle. Under join-the-shortest-queue this happens when a queue drains faster than its length
/// suggested.
///
/// An idle node m serves the candidate with the largest weight, which is a rate times a length. The
/// rates alpha, beta and gamma are those of local tasks, tasks with data in the rack, and remote
/// tasks. The lengths depend on:
///
/// - p(n), the price of node n: the cost of one more task there, see [`Prices`];
/// - the *homes* of a task: those of the nodes with its data whose price, when the task arrives, is
///   close to the smallest among them;
/// - S(n), the *share* of node n: the sum of 1 / (number of homes) over the waiting tasks with a
///   home at n.
///
/// The candidates and their weights are:
///
/// - a task with a home at m: alpha (S(m) + (1 + [`NEARER`]) p(m));
/// - the longest waiting of the other tasks whose data m holds: the same with S and p of the
///   task's home (the home with the smallest weight);
/// - a task with a home at node n in the rack of m: beta (S(n) + (1 + [`NEARER`] x) p(n)),
///   where x goes from -1 to 1 while S(n) goes from 0 to 2 [`STOCK`];
/// - a task with a home at any node n: gamma (S(n) + p(n)).
///
/// This is MaxWeight (the largest rate times length) with S + p as the length. The prices alone
/// would only exclude choices that no optimal plan makes; S decides between equally good ones. If a
/// nearer and a farther queue have the same rate times length, the nearer one goes first, because
/// its tasks end sooner: [`NEARER`] raises its price. But a node in the rack leaves n a [`STOCK`]
/// of tasks, so that n does not run out of work soon after.
#[derive(Debug)]
pub(super) struct LateBinding {
    cluster: Cluster,
    waiting: WaitingTasks,
    prices: Prices,
    /// For each node n its share S(n), in units of 1 / [`UNITS`] tasks: the sum of 1 / (number of
    /// homes) over the waiting tasks with a home at n.
    shares: Vec<u32>,
    idle: Vec<bool>,
    /// For each node, the length (S plus price) by which an idle node of its rack weighs the node's
    /// waiting tasks; 0 if an idle node of the rack must not serve them. Stored as the bits of the
    /// floats: for numbers that are not negative, bits and floats have the same order.
    for_rack: Longest,
    /// For each node, the length by which any other idle node weighs the node's waiting tasks; 0 if
    /// another node must not serve them. Stored as in `for_rack`.
    for_any: Longest,
}

/// The number of units in a whole task. A task adds 1 / (number of homes) to the share of each of
/// its homes. So the number of units is a multiple of 1, 2 and 3, the possible numbers of homes.
const UNITS: u32 = 6;
/// The fraction of a node's price that is added to the length of nearer tasks, so that they go
/// before farther ones of the same worth.
const NEARER: f64 = 0.1;
/// The stock of a node, in tasks: if fewer tasks wait there, another node of its rack prefers
/// equally good work elsewhere, so that the node does not run out of work. This and the other
/// constants of the policy were chosen by simulation, with seeds 101 and 102; see the book's
/// results on locality.
const STOCK: f64 = 6.0;
/// A node with a task's data is a home of the task if the node's price is at most this number times
/// the smallest price among the nodes with this data, plus [`HOME_PRICE_SLACK`].
const HOME_PRICE_MAX: f64 = 1.05;
/// The slack in the rule of [`HOME_PRICE_MAX`], in tasks: prices that are equal in the long run differ by
/// a task or two.
const HOME_PRICE_SLACK: f64 = 2.0;
/// The benefit for tasks that have not arrived yet if an idle node with a price of 0 serves a task
/// of another node now: tasks that arrive later wait less at the other node. The benefit is in
/// tasks, and is added to the number of tasks that wait at the other node.
const TO_COME: f64 = 0.7;

impl LateBinding {
    pub fn new(cluster: Cluster) -> Self {
        Self::with_prices(cluster, Prices::new(cluster))
    }

    fn with_prices(cluster: Cluster, prices: Prices) -> Self {
        Self {
            cluster,
            waiting: WaitingTasks::new(cluster.nodes),
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

    /// Returns whether the tasks that wait at n end sooner if another node, at distance `level`
    /// from their data, serves one of them. `to_come` is the benefit for tasks that have not
    /// arrived yet, as a number of waiting tasks.
    ///
    /// If only nodes with the data serve these S(n) tasks, one after another at the rate alpha of
    /// local tasks, the last one ends after S(n) / alpha slots, or 1 / alpha later if n is busy.
    /// The other node ends its task after 1 / rate slots. An idle node needs no help with its next
    /// task, which it takes itself in this slot.
    fn gains(&self, n: NodeId, level: Locality, to_come: f64) -> bool {
        let busy = f64::from(u8::from(!self.idle[n.0 as usize]));
        let share = self.share(n);
        let rate = self.cluster.rate(level);
        share >= 2.0 - busy && share + busy + to_come >= self.cluster.local / rate
    }

    /// Returns whether m should take a task that waits at n, at this distance from its data.
    /// Helping delays later tasks of m as it speeds up those of n, so the benefit for later tasks
    /// counts only as far as the price of m (the cost of one more task there) is below that of n.
    fn helps(&self, m: NodeId, n: NodeId, level: Locality) -> bool {
        let cheaper = 1.0 - self.prices.of(m) / self.prices.of(n).max(f64::MIN_POSITIVE);
        self.gains(n, level, TO_COME * cheaper.max(0.0))
    }

    /// Recomputes the lengths by which other nodes weigh the tasks at `node`, after a change of its
    /// share, its price, or whether it is idle.
    fn update_weights(&mut self, node: NodeId) {
        let share = self.share(node);
        let price = self.prices.of(node);
        if self.cluster.rack_nodes.is_some() {
            let stocked = ((share - STOCK) / STOCK).min(1.0);
            let weight = if self.gains(node, Locality::Rack, TO_COME) {
                share + price * (1.0 + NEARER * stocked)
            } else {
                0.0
            };
            self.for_rack.set(node, weight.to_bits());
        }
        let weight = if self.gains(node, Locality::Remote, TO_COME) {
            share + price
        } else {
            0.0
        };
        self.for_any.set(node, weight.to_bits());
    }

    fn set_idle(&mut self, node: NodeId, idle: bool) {
        self.idle[node.0 as usize] = idle;
        // Without waiting tasks, or with many of them, it does not matter to helpers whether
        // the node is idle.
        let share = self.share(node);
        if share > 0.0 && share < (self.cluster.local / self.cluster.remote).max(2.0) {
            self.update_weights(node);
        }
    }

    /// Returns the weight of the waiting tasks that have a home at n, for an idle node that holds
    /// their data.
    fn local_weight(&self, n: NodeId) -> f64 {
        self.cluster.local * (self.share(n) + (1.0 + NEARER) * self.prices.of(n))
    }

    /// Returns the node from whose waiting tasks `node` takes its next one, and the [`Role`] of the
    /// task at that node: at home, or as a guest (a task whose data is there but whose homes are
    /// other nodes). `None` if `node` stays idle.
    fn source(&mut self, node: NodeId, ties: &mut ChaCha8Rng) -> Option<(NodeId, Role)> {
        let mut best = (0.0, None);
        if self.shares[node.0 as usize] > 0 {
            best = (self.local_weight(node), Some((node, Role::Home)));
        }
        if let Some((task, homes)) = self.waiting.oldest_guest(node) {
            let weights = homes.nodes(&task).map(|home| self.local_weight(home));
            let weight = weights.fold(f64::INFINITY, f64::min);
            if weight > best.0 {
                best = (weight, Some((node, Role::Guest)));
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
                best = (weight, Some((n, Role::Home)));
            }
        }
        best.1
    }
}

impl Discipline for LateBinding {
    fn route(&mut self, task: Task, ties: &mut ChaCha8Rng) {
        self.prices.arrive(&task, ties);
        for at in 0..self.prices.changed().len() {
            self.update_weights(self.prices.changed()[at]);
        }
        let prices = task.local_nodes().map(|node| self.prices.of(node));
        let home_max = prices.fold(f64::INFINITY, f64::min) * HOME_PRICE_MAX + HOME_PRICE_SLACK;
        let homes = Homes::of(&task, |node| self.prices.of(node) <= home_max);
        self.waiting.push(task, homes);
        for home in homes.nodes(&task) {
            self.shares[home.0 as usize] += UNITS / homes.count();
            self.update_weights(home);
        }
    }

    fn choose(&mut self, node: NodeId, running: &[u32], ties: &mut ChaCha8Rng) -> Option<Task> {
        let (source, waits) = self.source(node, ties)?;
        let (task, homes) = self.waiting.take(source, waits, running)?;
        for home in homes.nodes(&task) {
            self.shares[home.0 as usize] -= UNITS / homes.count();
            self.update_weights(home);
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

    /// Lets each of the idle nodes in turn choose a task, with these prices of the nodes; returns
    /// the job that each serves, `None` if it stays idle.
    fn serve(cluster: Cluster, prices: &[u64], tasks: &[Task], idle: &[u32]) -> Vec<Option<u32>> {
        let mut ties = ChaCha8Rng::seed_from_u64(1);
        let mut policy = LateBinding::with_prices(cluster, Prices::fixed(cluster, prices));
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
    /// Racks {0, 1} and {2, 3}; the service rates of local, rack-local and remote tasks, per
    /// slot.
    const RACKS: Cluster = Cluster::racks(4, 2, [0.8, 0.5, 0.2]);

    fn of_node_0(tasks: u32) -> Vec<Task> {
        (0..tasks).map(|job| on(job, 0)).collect()
    }

    /// Task 0 has data on nodes 0 and 1. The first of them to choose serves it, and the
    /// other skips it.
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

    /// Node 2 has none of the data, so a task there ends after 1 / 0.2 slots, as long as 4 tasks
    /// take on node 0 at the rate 0.8. It helps if at least 4 tasks count at node 0: those that
    /// wait there, the one in service, and 0.7 for future tasks if node 2 has a price of 0.
    ///
    /// With three waiting tasks, 3.7 < 4, and node 2 stays idle; with four, 4.7 >= 4, and it helps.
    /// After idle node 0 has taken one of four, the other three and the one in service make 4.7
    /// too. If the price of node 2 is higher than that of node 0, future tasks do not count, and 4
    /// tasks still suffice.
    #[test]
    fn a_node_helps_if_the_tasks_end_sooner() {
        let free = [100, 0, 0];
        assert_eq!(serve(FLAT, &free, &of_node_0(3), &[2]), [None]);
        assert_eq!(serve(FLAT, &free, &of_node_0(4), &[2]), [Some(0)]);
        let after = |prices: &[u64], tasks| serve(FLAT, prices, &of_node_0(tasks), &[0, 2])[1];
        assert_eq!(after(&free, 3), None);
        assert_eq!(after(&free, 4), Some(1));
        assert_eq!(after(&[100, 0, 200], 4), Some(1));
    }

    /// A task takes as long on the other node of the rack (rate 0.5) as 0.8 / 0.5 = 1.6 tasks on
    /// node 0. Two waiting tasks and 0.7 for future ones exceed this, so the other node helps.
    /// With one task it does not: node 0 is idle and takes this task itself in this slot.
    #[test]
    fn an_idle_node_keeps_its_only_task() {
        let prices = [100, 0, 0, 0];
        assert_eq!(serve(RACKS, &prices, &of_node_0(1), &[1]), [None]);
        assert_eq!(serve(RACKS, &prices, &of_node_0(2), &[1]), [Some(0)]);
    }

    /// Node 1 prefers its own task up to about the price of node 0 at which both are worth the
    /// same. A weight is the rate times (waiting tasks + price), with 1.1 times the price for own
    /// tasks. Node 1 has one task and a price of 100: 0.8 * (1 + 1.1 * 100) = 88.8. Node 0 has 20
    /// tasks and a price of p: 0.2 * (20 + p). At p = 400, where rate times price is 80 for both,
    /// this is 84; at p = 430 it is 90.
    #[test]
    fn own_tasks_come_first_if_prices_are_at_the_boundary() {
        let mut tasks = of_node_0(20);
        tasks.push(on(20, 1));
        let first = |price: u64| serve(FLAT, &[price - 20, 99, 0], &tasks, &[1])[0];
        assert_eq!(first(400), Some(20));
        assert_eq!(first(430), Some(0));
    }

    /// Node 1 can help node 0 of its rack, or remote node 2. It leaves node 0 its stock of up to 6
    /// tasks, unless the work there is better. The weight of node 0, with S waiting tasks and a
    /// price of 100, is 0.5 * (S + 100 * (1 + 0.1 * (S - 6) / 6)); that of node 2, with 10 waiting
    /// tasks and a price of 250, is 0.2 * (10 + 250) = 52. With S = 4 the former is 0.5 * (4 +
    /// 96.7) = 50.3, and node 1 serves node 2; with S = 6 it is 0.5 * (6 + 100) = 53, and node 1
    /// serves node 0.
    #[test]
    fn a_node_keeps_its_stock_while_its_rack_has_equally_good_work() {
        for (stock, job) in [(4, 99), (6, 0)] {
            let mut tasks = of_node_0(stock);
            tasks.extend((0..10).map(|_| on(99, 2)));
            let prices = [100 - u64::from(stock), 0, 240, 0];
            let mut ties = ChaCha8Rng::seed_from_u64(1);
            let mut policy = LateBinding::with_prices(RACKS, Prices::fixed(RACKS, &prices));
            tasks.iter().for_each(|&task| policy.route(task, &mut ties));
            let task = policy.choose(NodeId(1), &[0; 100], &mut ties);
            assert_eq!(task.map(|task| task.job), Some(job), "{stock}");
        }
    }

    /// Job 0 has data on nodes 0 and 1, but waits for node 1 first (its home), which has the lower
    /// price. Node 0 serves job 1 before it, though job 1 came later. When node 0 would idle
    /// otherwise, it serves job 0.
    #[test]
    fn a_node_serves_tasks_without_a_cheaper_home_first() {
        let tasks = [Task::new(0, 0, &[0, 1]), on(1, 0)];
        let served = serve(FLAT, &[200, 100, 0], &tasks, &[0, 0]);
        assert_eq!(served, [Some(1), Some(0)]);
    }
}
