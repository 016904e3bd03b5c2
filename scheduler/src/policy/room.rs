//! What is left of the nodes while a placement is made.
//!
//! A binary tree over the nodes: each inner vertex holds, per resource, the most
//! that any node below it has left. A search descends only where a demand may
//! fit, so one placement decision does not cost jobs times nodes.
//!
//! The bounds are tight only where the nodes below a vertex are alike, and those
//! that are neighbours by position no longer are once nodes fill up with tasks of
//! different demands. So when searches have gone astray for about as long as sorting
//! takes, the nodes are sorted by what is left of them (a k-d tree).

use crate::model::Resources;
use std::cmp::Reverse;

/// Free capacity of a set of nodes.
#[derive(Clone, Debug)]
pub(super) struct Room {
    /// What is left of each node; `None` where nothing can be placed.
    left: Vec<Option<Resources>>,
    /// No demand is below this. A node with less has no room for anything.
    least: Resources,
    /// Number of leaves, a power of two.
    leaves: usize,
    /// `tree[1]` is the root, the children of v are 2v and 2v + 1. `None`:
    /// there is no room below, for whatever demand.
    tree: Vec<Option<Resources>>,
    /// The node of each leaf; the last leaves have none.
    nodes: Vec<usize>,
    /// The vertex that is the leaf of each node.
    leaf_of: Vec<usize>,
    /// Vertices off the way to a leaf that searches looked at since the nodes were sorted.
    astray: usize,
}

impl Room {
    /// `None` is a node on which nothing can be placed, however little it needs. In each
    /// resource, demands will be `least` or more.
    pub fn new(left: Vec<Option<Resources>>, least: Resources) -> Self {
        let (count, leaves) = (left.len(), left.len().next_power_of_two());
        let mut room = Self {
            left,
            least,
            leaves,
            tree: vec![None; 2 * leaves],
            nodes: (0..count).collect(),
            leaf_of: (leaves..leaves + count).collect(),
            astray: 0,
        };
        room.build();
        room
    }

    fn build(&mut self) {
        for (at, &node) in self.nodes.iter().enumerate() {
            self.tree[self.leaves + at] = self.usable(node);
        }
        for vertex in (1..self.leaves).rev() {
            self.tree[vertex] = most(self.tree[2 * vertex], self.tree[2 * vertex + 1]);
        }
    }

    /// What is left of `node` if there is room for anything.
    fn usable(&self, node: usize) -> Option<Resources> {
        self.left[node].filter(|left| left.fits(&self.least))
    }

    /// Whether node `node` has room for `demand`.
    pub fn fits(&self, node: usize, demand: &Resources) -> bool {
        self.left[node].is_some_and(|left| left.fits(demand))
    }

    /// Whether nothing can be placed any more; false is not certain.
    pub fn is_full(&self) -> bool {
        self.tree[1].is_none()
    }

    /// What is left of node `node`; `None` where nothing can be placed.
    pub fn left(&self, node: usize) -> Option<Resources> {
        self.left[node]
    }

    /// Takes `demand` from node `node`.
    pub fn take(&mut self, node: usize, demand: &Resources) {
        self.set(node, self.left[node].map(|left| left.less(demand)));
    }

    /// Gives `demand` back to node `node`.
    pub fn give(&mut self, node: usize, demand: &Resources) {
        self.set(node, self.left[node].map(|left| left.plus(demand)));
    }

    /// Says what is left of node `node`.
    pub fn set(&mut self, node: usize, left: Option<Resources>) {
        self.left[node] = left;
        let mut vertex = self.leaf_of[node];
        self.tree[vertex] = self.usable(node);
        while vertex > 1 {
            vertex /= 2;
            let now = most(self.tree[2 * vertex], self.tree[2 * vertex + 1]);
            if self.tree[vertex] == now {
                break;
            }
            self.tree[vertex] = now;
        }
    }

    /// The node with the most CPU left among those with room for `demand`; of
    /// equals one, always the same.
    pub fn roomiest(&mut self, demand: &Resources) -> Option<usize> {
        let mut search = Search {
            demand,
            best: None,
            looked_at: 0,
        };
        self.search(1, &mut search);
        let Search {
            best, looked_at, ..
        } = search;
        let node = best.map(|(_, leaf)| self.nodes[leaf]);
        let depth = self.leaves.ilog2() as usize;
        self.astray += looked_at.saturating_sub(2 * depth + 1);
        if self.astray > self.leaves * depth {
            self.sort();
        }
        node
    }

    fn search(&self, vertex: usize, search: &mut Search<'_>) {
        search.looked_at += 1;
        let cpu = self.cpu(vertex);
        if search.best.is_some_and(|(best, _)| best >= cpu) || !self.may_fit(vertex, search.demand)
        {
            return;
        }
        if vertex >= self.leaves {
            search.best = Some((cpu, vertex - self.leaves));
            return;
        }
        let (left, right) = (2 * vertex, 2 * vertex + 1);
        let (first, second) = if self.cpu(right) > self.cpu(left) {
            (right, left)
        } else {
            (left, right)
        };
        self.search(first, search);
        self.search(second, search);
    }

    /// Puts nodes of which alike is left on neighbouring leaves, and those without room
    /// behind them.
    fn sort(&mut self) {
        let (mut usable, full): (Vec<usize>, Vec<usize>) =
            (0..self.left.len()).partition(|&node| self.usable(node).is_some());
        let mut amounts: Vec<(Amounts, usize)> = (usable.iter())
            .filter_map(|&node| Some((amounts(&self.usable(node)?), node)))
            .collect();
        sort_alike(&mut amounts);
        usable.clear();
        usable.extend(amounts.into_iter().map(|(_, node)| node));
        usable.extend(full);
        self.nodes = usable;
        for (at, &node) in self.nodes.iter().enumerate() {
            self.leaf_of[node] = self.leaves + at;
        }
        self.build();
        self.astray = 0;
    }

    /// Whether some node has room for `demand`.
    pub fn fits_anywhere(&self, demand: &Resources) -> bool {
        let mut found = false;
        self.visit_fitting(demand, &mut |_| {
            found = true;
            false
        });
        found
    }

    /// Shows `visit` the nodes with room for `demand`, always in the same order, until it
    /// returns false.
    pub fn visit_fitting(&self, demand: &Resources, visit: &mut impl FnMut(usize) -> bool) {
        self.visit_below(1, demand, visit);
    }

    fn visit_below(
        &self,
        vertex: usize,
        demand: &Resources,
        visit: &mut impl FnMut(usize) -> bool,
    ) -> bool {
        if !self.may_fit(vertex, demand) {
            return true;
        }
        if vertex >= self.leaves {
            return visit(self.nodes[vertex - self.leaves]);
        }
        self.visit_below(2 * vertex, demand, visit)
            && self.visit_below(2 * vertex + 1, demand, visit)
    }

    fn may_fit(&self, vertex: usize, demand: &Resources) -> bool {
        self.tree[vertex].is_some_and(|free| free.fits(demand))
    }

    fn cpu(&self, vertex: usize) -> u32 {
        self.tree[vertex].map_or(0, |free| free.cpu_hundredths)
    }
}

/// A search for the roomiest node.
struct Search<'a> {
    demand: &'a Resources,
    /// CPU and leaf.
    best: Option<(u32, usize)>,
    looked_at: usize,
}

/// CPU, I/O and memory.
type Amounts = [u64; 3];

fn amounts(of: &Resources) -> Amounts {
    [of.cpu_hundredths.into(), of.io_bytes_per_s, of.memory_bytes]
}

/// So few nodes are as good in any order.
const SORTED_FROM: usize = 8;

/// Halves `nodes` by the resource in which they differ most, and each half again, down to a
/// few. The first of two parts has as many as a full tree below a vertex has leaves.
fn sort_alike(nodes: &mut [(Amounts, usize)]) {
    if nodes.len() <= SORTED_FROM {
        return;
    }
    let (mut least, mut most) = (nodes[0].0, nodes[0].0);
    for (amounts, _) in &nodes[1..] {
        for at in 0..amounts.len() {
            least[at] = least[at].min(amounts[at]);
            most[at] = most[at].max(amounts[at]);
        }
    }
    let spread = |at: usize| (most[at] - least[at]) as f64 / most[at].max(1) as f64;
    let widest = (1..most.len()).fold(0, |widest, at| {
        if spread(at) > spread(widest) {
            at
        } else {
            widest
        }
    });
    let half = nodes.len().next_power_of_two() / 2;
    nodes.select_nth_unstable_by_key(half, |(amounts, node)| (Reverse(amounts[widest]), *node));
    let (first, second) = nodes.split_at_mut(half);
    sort_alike(first);
    sort_alike(second);
}

fn most(a: Option<Resources>, b: Option<Resources>) -> Option<Resources> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(&b)),
        (free, None) | (None, free) => free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn the_roomiest_node_is_the_one_a_walk_over_all_finds() {
        let seed = 17;
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let draw = |rng: &mut ChaCha8Rng, up_to: u32| Resources {
            cpu_hundredths: rng.random_range(0..up_to),
            io_bytes_per_s: rng.random_range(0..u64::from(up_to)),
            memory_bytes: rng.random_range(0..u64::from(up_to)),
        };
        let mut sorted = 0;
        for _ in 0..200 {
            let mut free: Vec<Option<Resources>> = (0..rng.random_range(1..40))
                .map(|_| rng.random_bool(0.9).then(|| draw(&mut rng, 100)))
                .collect();
            let least = draw(&mut rng, 20);
            let mut room = Room::new(free.clone(), least);
            for _ in 0..200 {
                let demand = draw(&mut rng, 60).max(&least);
                let fitting = free.iter().flatten().filter(|free| free.fits(&demand));
                let most_cpu = fitting.map(|free| free.cpu_hundredths).max();
                let found = room.roomiest(&demand);
                let found_cpu = found.map(|node| free[node].unwrap().cpu_hundredths);
                assert_eq!(found_cpu, most_cpu);
                if let Some(node) = found {
                    assert!(room.fits(node, &demand) && !room.is_full());
                    assert!(room.fits_anywhere(&demand));
                    room.take(node, &demand);
                    free[node] = free[node].map(|left| left.less(&demand));
                } else {
                    assert!(!room.fits_anywhere(&demand));
                    let node = rng.random_range(0..free.len());
                    room.give(node, &demand);
                    free[node] = free[node].map(|left| left.plus(&demand));
                }
                assert!((0..free.len()).all(|node| room.left(node) == free[node]));
            }
            sorted += usize::from(!room.nodes.is_sorted());
        }
        assert!(sorted > 20, "nodes were hardly ever sorted: {sorted}");
    }

    #[test]
    fn a_node_that_is_down_holds_not_even_a_task_that_needs_nothing() {
        let mut room = Room::new(vec![None], Resources::default());
        assert_eq!(room.roomiest(&Resources::default()), None);
        let mut room = Room::new(Vec::new(), Resources::default());
        assert_eq!(room.roomiest(&Resources::default()), None);
    }
}
