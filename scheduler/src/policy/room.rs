//! Free resources of the nodes while a placement is made.
//!
//! A binary tree over the nodes: each inner vertex holds, per resource, the most that any node
//! below it has left. A search descends only where a demand may fit, so one placement decision does
//! not cost jobs times nodes.
//!
//! The bounds are tight only where the nodes below a vertex are alike. Neighbouring nodes become
//! different as they fill up with tasks of different demands. So when searches have visited about
//! as many useless vertices as sorting would visit, the nodes are sorted by their free resources (a
//! k-d tree).

use crate::model::Resources;
use std::cmp::Reverse;

/// Free capacity of a set of nodes.
#[derive(Clone, Debug)]
pub(super) struct Room {
    /// Free resources of each node; `None` where nothing can be placed.
    left: Vec<Option<Resources>>,
    /// The lower bound of all demands. On a node with less, no task fits.
    least: Resources,
    /// Number of leaves of the tree: the number of nodes, rounded up to a power of two.
    leaves: usize,
    /// The tree, two siblings in each element. Vertex 1 is the root, in `pairs[0]`. The children of
    /// vertex v are 2v and 2v + 1; both are in `pairs[v]`.
    pairs: Vec<Pair>,
    /// The node of each leaf of the tree; the last leaves may have no node.
    nodes: Vec<usize>,
    /// The index in the tree of each node's leaf.
    leaf_of: Vec<usize>,
    /// The number of tree vertices that searches visited outside of the direct way to a leaf, since
    /// the nodes were last sorted.
    astray: usize,
}

/// The data of two siblings in the tree: for each resource, the largest amount that any cluster
/// node below has free. The siblings share a cache line because a search that visits one of them
/// visits both.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Pair {
    cpu: [u32; 2],
    io: [u32; 2],
    memory: [u32; 2],
}

impl Pair {
    const fn of(&self, side: usize) -> Most {
        Most {
            cpu: self.cpu[side],
            io: self.io[side],
            memory: self.memory[side],
        }
    }

    const fn set(&mut self, side: usize, most: Most) {
        self.cpu[side] = most.cpu;
        self.io[side] = most.io;
        self.memory[side] = most.memory;
    }

    /// Returns the larger amount of both siblings, for each resource: the most that any cluster
    /// node below their parent has free.
    fn most(&self) -> Most {
        Most {
            cpu: self.cpu[0].max(self.cpu[1]),
            io: self.io[0].max(self.io[1]),
            memory: self.memory[0].max(self.memory[1]),
        }
    }
}

/// A demand; or, for a vertex of the tree, the largest free amount of each resource on any cluster
/// node below it. It takes half the space of [`Resources`], because a search spends most of its
/// time on cache misses. Amounts are rounded, so a demand that seems to fit may not fit; a demand
/// that fits always seems to fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Most {
    /// The demanded CPU, or the largest free CPU of a cluster node below the vertex, in hundredths
    /// of a core, plus one; 0 if nothing can be placed on any of these nodes, whatever the demand.
    cpu: u32,
    /// I/O in bytes per second, as the bits that [`rounded`] returns.
    io: u32,
    memory: u32,
}

/// Rounds `amount` to a 32-bit float and returns its bits, which compare as the amounts do: a
/// larger amount never has smaller bits.
const fn rounded(amount: u64) -> u32 {
    (amount as f32).to_bits()
}

impl Most {
    fn of(left: Option<Resources>) -> Self {
        left.map_or_else(Self::default, |left| Self {
            cpu: left.cpu_hundredths.saturating_add(1),
            io: rounded(left.io_bytes_per_s),
            memory: rounded(left.memory_bytes),
        })
    }

    /// Returns whether `demand` may fit on a cluster node below the vertex that `self` describes.
    const fn fits(&self, demand: &Self) -> bool {
        (demand.cpu <= self.cpu) & (demand.io <= self.io) & (demand.memory <= self.memory)
    }

    /// Returns `self.cpu`, the most free CPU below the vertex, if `demand` may fit on a node there;
    /// otherwise 0. The function has no branches, because a processor could not predict which
    /// resource runs short.
    const fn cpu_for(&self, demand: &Self) -> u32 {
        self.cpu * self.fits(demand) as u32
    }
}

impl Room {
    /// Builds the search tree over the nodes. `left` has the free resources of each node; `None`
    /// for a node on which nothing can be placed, not even a task that needs nothing. All demands
    /// that will be searched for must be at least `least` in every resource.
    pub fn new(left: Vec<Option<Resources>>, least: Resources) -> Self {
        let (count, leaves) = (left.len(), left.len().next_power_of_two());
        let mut room = Self {
            left,
            least,
            leaves,
            pairs: vec![Pair::default(); leaves],
            nodes: (0..count).collect(),
            leaf_of: (leaves..leaves + count).collect(),
            astray: 0,
        };
        room.build();
        room
    }

    fn build(&mut self) {
        for at in 0..self.nodes.len() {
            self.put(self.leaves + at, Most::of(self.usable(self.nodes[at])));
        }
        for vertex in (1..self.leaves).rev() {
            self.put(vertex, self.pairs[vertex].most());
        }
    }

    const fn most(&self, vertex: usize) -> Most {
        self.pairs.as_slice()[vertex / 2].of(vertex % 2)
    }

    const fn put(&mut self, vertex: usize, most: Most) {
        self.pairs.as_mut_slice()[vertex / 2].set(vertex % 2, most);
    }

    /// Returns the free resources of `node`, or `None` if no task fits there.
    fn usable(&self, node: usize) -> Option<Resources> {
        self.left[node].filter(|left| left.fits(&self.least))
    }

    /// Returns whether node `node` has enough free resources for `demand`.
    pub fn fits(&self, node: usize, demand: &Resources) -> bool {
        self.left[node].is_some_and(|left| left.fits(demand))
    }

    /// Returns true only if no task can be placed any more; false does not prove that one can.
    pub fn is_full(&self) -> bool {
        self.most(1).cpu == 0
    }

    /// Returns the free resources of node `node`; `None` where nothing can be placed.
    pub fn left(&self, node: usize) -> Option<Resources> {
        self.left[node]
    }

    /// Subtracts `demand` from the free resources of node `node`.
    pub fn take(&mut self, node: usize, demand: &Resources) {
        self.set(node, self.left[node].map(|left| left.less(demand)));
    }

    /// Adds `demand` to the free resources of node `node`.
    pub fn give(&mut self, node: usize, demand: &Resources) {
        self.set(node, self.left[node].map(|left| left.plus(demand)));
    }

    /// Sets the free resources of node `node`; with `None`, nothing can be placed there.
    pub fn set(&mut self, node: usize, left: Option<Resources>) {
        self.left[node] = left;
        let mut vertex = self.leaf_of[node];
        self.put(vertex, Most::of(self.usable(node)));
        while vertex > 1 {
            vertex /= 2;
            let now = self.pairs[vertex].most();
            if self.most(vertex) == now {
                break;
            }
            self.put(vertex, now);
        }
    }

    /// Returns the node with the most CPU left among those on which `demand` fits, or `None` if it
    /// fits nowhere. Ties are broken deterministically.
    pub fn roomiest(&mut self, demand: &Resources) -> Option<usize> {
        let (node, looked_at) = self.search(demand);
        let depth = self.leaves.ilog2() as usize;
        self.astray += looked_at.saturating_sub(2 * depth + 1);
        if self.astray > self.leaves * depth {
            self.sort();
        }
        node
    }

    /// Returns the node with the most free CPU among those on which `demand` fits, and the number
    /// of vertices visited. The search goes from each vertex to the child that may have more CPU,
    /// and back to the others that may have more than it has found.
    fn search(&self, demand: &Resources) -> (Option<usize>, usize) {
        let most = Most::of(Some(*demand));
        // Vertices to go back to, with the most CPU below each: at most one per depth.
        let mut others = [(0_u32, 0_u32); u32::BITS as usize];
        let mut waiting = 0;
        let (mut best, mut found) = (0, None);
        let mut looked_at = 1;
        let mut vertex = 1;
        let mut cpu = self.most(1).cpu_for(&most);
        loop {
            while cpu > best && vertex < self.leaves {
                looked_at += 2;
                let pair = &self.pairs[vertex];
                let [left, right] = [0, 1].map(|side| pair.of(side).cpu_for(&most));
                // No branches: no predictor could foresee which side is chosen.
                let side = usize::from(right > left);
                others[waiting] = ((2 * vertex + 1 - side) as u32, left.min(right));
                waiting += usize::from(left.min(right) > best);
                vertex = 2 * vertex + side;
                cpu = left.max(right);
            }
            if cpu > best {
                let node = self.nodes[vertex - self.leaves];
                if self.fits(node, demand) {
                    (best, found) = (cpu, Some(node));
                }
            }
            loop {
                if waiting == 0 {
                    return (found, looked_at);
                }
                waiting -= 1;
                let other;
                (other, cpu) = others[waiting];
                if cpu > best {
                    vertex = other as usize;
                    break;
                }
            }
        }
    }

    /// Reorders the leaves of the tree so that nodes with similar free resources are neighbours,
    /// with full nodes last. Searches can then skip more of the tree.
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

    /// Returns whether some node has enough free resources for `demand`.
    pub fn fits_anywhere(&self, demand: &Resources) -> bool {
        let mut found = false;
        self.visit_fitting(demand, &mut |_| {
            found = true;
            false
        });
        found
    }

    /// Calls `visit` for the nodes on which `demand` fits, always in the same order, until it
    /// returns false.
    pub fn visit_fitting(&self, demand: &Resources, visit: &mut impl FnMut(usize) -> bool) {
        let most = Most::of(Some(*demand));
        if self.most(1).fits(&most) {
            self.visit_below(1, &most, &mut |node| {
                !self.fits(node, demand) || visit(node)
            });
        }
    }

    /// Calls `visit` for the cluster nodes whose leaves are below `vertex` and on which `demand`
    /// may fit, until a call returns false. Returns false if a call did.
    fn visit_below(
        &self,
        vertex: usize,
        demand: &Most,
        visit: &mut impl FnMut(usize) -> bool,
    ) -> bool {
        if vertex >= self.leaves {
            return visit(self.nodes[vertex - self.leaves]);
        }
        let pair = &self.pairs[vertex];
        (!pair.of(0).fits(demand) || self.visit_below(2 * vertex, demand, visit))
            && (!pair.of(1).fits(demand) || self.visit_below(2 * vertex + 1, demand, visit))
    }
}

/// Amounts of CPU, I/O and memory, in this order.
type Amounts = [u64; 3];

fn amounts(of: &Resources) -> Amounts {
    [of.cpu_hundredths.into(), of.io_bytes_per_s, of.memory_bytes]
}

/// Lists of at most this many nodes are not sorted any further: for so few, the order does not
/// matter.
const UNSORTED_MAX: usize = 8;

/// Sorts `nodes`, which become leaves of the tree in this order, so that neighbours have similar
/// free amounts: divides the list in two by the resource in which the nodes differ most, and each
/// part again, down to a few nodes. The first part is a power of two, so that it fills a whole
/// subtree.
fn sort_alike(nodes: &mut [(Amounts, usize)]) {
    if nodes.len() <= UNSORTED_MAX {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rng::test_rng;
    use rand::RngExt;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn the_roomiest_node_has_as_much_cpu_as_a_walk_over_all_finds() {
        let mut rng = test_rng(17);
        let mut sorted = 0;
        for round in 0..200 {
            // The tree rounds large amounts.
            let memory_least = if round % 2 == 0 { 0 } else { 1 << 40 };
            let draw = |rng: &mut ChaCha8Rng, up_to: u32| Resources {
                cpu_hundredths: rng.random_range(0..up_to),
                io_bytes_per_s: rng.random_range(0..u64::from(up_to)),
                memory_bytes: memory_least + rng.random_range(0..u64::from(up_to)),
            };
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
    fn a_node_that_is_down_gets_no_task_that_needs_nothing() {
        let mut room = Room::new(vec![None], Resources::default());
        assert_eq!(room.roomiest(&Resources::default()), None);
        let mut room = Room::new(Vec::new(), Resources::default());
        assert_eq!(room.roomiest(&Resources::default()), None);
    }
}
