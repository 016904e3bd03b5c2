//! What is left of the nodes while a placement is made.
//!
//! A binary tree over the nodes: each inner vertex holds, per resource, the most
//! that any node below it has left. A search descends only where a demand may
//! fit, so one placement decision does not cost jobs times nodes.

use crate::model::Resources;

/// Free capacity of a set of nodes.
#[derive(Clone, Debug)]
pub(super) struct Room {
    /// Number of leaves, a power of two; `tree[leaves + i]` is node i.
    leaves: usize,
    /// `tree[1]` is the root, the children of v are 2v and 2v + 1. `None`:
    /// nothing can be placed below, whatever it needs.
    tree: Vec<Option<Resources>>,
}

impl Room {
    /// `None` is a node on which nothing can be placed, however little it needs.
    pub fn new(free: impl ExactSizeIterator<Item = Option<Resources>>) -> Self {
        let leaves = free.len().next_power_of_two();
        let mut tree = vec![None; leaves];
        tree.extend(free);
        tree.resize(2 * leaves, None);
        for vertex in (1..leaves).rev() {
            tree[vertex] = most(tree[2 * vertex], tree[2 * vertex + 1]);
        }
        Self { leaves, tree }
    }

    /// Whether node `node` has room for `demand`.
    pub fn fits(&self, node: usize, demand: &Resources) -> bool {
        self.may_fit(self.leaves + node, demand)
    }

    /// Whether a node may have room for `demand`; false is certain.
    pub fn may_fit_anywhere(&self, demand: &Resources) -> bool {
        self.may_fit(1, demand)
    }

    /// What is left of node `node`; `None` where nothing can be placed.
    pub fn left(&self, node: usize) -> Option<Resources> {
        self.tree[self.leaves + node]
    }

    /// Takes `demand` from node `node`.
    pub fn take(&mut self, node: usize, demand: &Resources) {
        self.change(node, |free| free.less(demand));
    }

    /// Gives `demand` back to node `node`.
    pub fn give(&mut self, node: usize, demand: &Resources) {
        self.change(node, |free| free.plus(demand));
    }

    fn change(&mut self, node: usize, change: impl Fn(Resources) -> Resources) {
        self.set(node, self.left(node).map(change));
    }

    /// Says what is left of node `node`.
    pub fn set(&mut self, node: usize, free: Option<Resources>) {
        let mut vertex = self.leaves + node;
        self.tree[vertex] = free;
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
    pub fn roomiest(&self, demand: &Resources) -> Option<usize> {
        let mut best = None;
        self.search(1, demand, &mut best);
        best.map(|(_, node)| node)
    }

    fn search(&self, vertex: usize, demand: &Resources, best: &mut Option<(u32, usize)>) {
        if !self.may_fit(vertex, demand) || best.is_some_and(|(cpu, _)| cpu >= self.cpu(vertex)) {
            return;
        }
        if vertex >= self.leaves {
            *best = Some((self.cpu(vertex), vertex - self.leaves));
            return;
        }
        let (left, right) = (2 * vertex, 2 * vertex + 1);
        let (first, second) = if self.cpu(right) > self.cpu(left) {
            (right, left)
        } else {
            (left, right)
        };
        self.search(first, demand, best);
        self.search(second, demand, best);
    }

    /// Shows `visit` the nodes with room for `demand`, by position, until it returns false.
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
            return visit(vertex - self.leaves);
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
        for _ in 0..200 {
            let mut free: Vec<Option<Resources>> = (0..rng.random_range(1..40))
                .map(|_| rng.random_bool(0.9).then(|| draw(&mut rng, 100)))
                .collect();
            let mut room = Room::new(free.iter().copied());
            for _ in 0..60 {
                let demand = draw(&mut rng, 60);
                let fitting = free.iter().flatten().filter(|free| free.fits(&demand));
                let most_cpu = fitting.map(|free| free.cpu_hundredths).max();
                let found = room.roomiest(&demand);
                let found_cpu = found.map(|node| free[node].unwrap().cpu_hundredths);
                assert_eq!(found_cpu, most_cpu);
                if let Some(node) = found {
                    assert!(room.fits(node, &demand) && room.may_fit_anywhere(&demand));
                    room.take(node, &demand);
                    free[node] = free[node].map(|left| left.less(&demand));
                }
            }
        }
    }

    #[test]
    fn a_node_that_is_down_holds_not_even_a_task_that_needs_nothing() {
        let room = Room::new([None].into_iter());
        assert_eq!(room.roomiest(&Resources::default()), None);
        let room = Room::new(std::iter::empty());
        assert_eq!(room.roomiest(&Resources::default()), None);
    }
}
