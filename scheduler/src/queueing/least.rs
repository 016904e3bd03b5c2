//! The minimum of many changing keys, overall and within a range: a tournament tree.

use super::traffic::below;
use rand_chacha::ChaCha8Rng;

/// A tournament tree (segment tree) over numbered positions. Each position has a key, `u64::MAX` at
/// first; each inner node of the tree has the smallest key below it and the number of its
/// occurrences there.
///
/// Changes are propagated up the tree only by queries. In a slot hundreds of keys change before the
/// first query, and recomputing all inner nodes once is cheaper than one path for each change.
#[derive(Clone, Debug)]
pub(super) struct Least {
    leaves: usize,
    /// For each node of the tree, the smallest key below it and the number of its occurrences. The
    /// root is at 1, and the leaves, one for each position, follow the inner nodes.
    tree: Vec<(u64, u32)>,
    /// Leaves whose keys changed since the last query, so that the inner nodes above are out of
    /// date. The list stops growing once it is long enough for the query to recompute all inner
    /// nodes.
    stale: Vec<u32>,
    /// A lower bound of the keys of all positions, also while inner nodes are out of date.
    floor: u64,
}

/// Approximate number of tree nodes that are recomputed after one key has changed. Most
/// changes do not reach the root, because another key is the smallest of a subtree.
const PATH: usize = 4;

impl Least {
    pub fn new(positions: usize) -> Self {
        let leaves = positions.next_power_of_two();
        let mut least = Self {
            leaves,
            tree: vec![(u64::MAX, 1); 2 * leaves],
            stale: Vec::new(),
            floor: u64::MAX,
        };
        least.recompute_all();
        least
    }

    fn recompute_all(&mut self) {
        (1..self.leaves).rev().for_each(|at| self.recompute(at));
    }

    fn recompute(&mut self, at: usize) {
        let (left, right) = (self.tree[2 * at], self.tree[2 * at + 1]);
        self.tree[at] = match left.0.cmp(&right.0) {
            std::cmp::Ordering::Less => left,
            std::cmp::Ordering::Greater => right,
            std::cmp::Ordering::Equal => (left.0, left.1 + right.1),
        };
    }

    /// Returns the number of positions: a power of two.
    pub const fn positions(&self) -> usize {
        self.leaves
    }

    /// Doubles the number of positions. New ones have the key `u64::MAX`.
    pub fn grow(&mut self) {
        let mut larger = Self::new(2 * self.leaves);
        for position in 0..self.leaves {
            larger.set(position, self.get(position));
        }
        *self = larger;
    }

    pub fn get(&self, position: usize) -> u64 {
        self.tree[self.leaves + position].0
    }

    pub fn set(&mut self, position: usize, key: u64) {
        let at = self.leaves + position;
        if self.tree[at].0 == key {
            return;
        }
        self.tree[at].0 = key;
        self.floor = self.floor.min(key);
        if PATH * self.stale.len() <= self.leaves {
            self.stale.push(at as u32);
        }
    }

    /// Brings the inner nodes of the tree up to date with all keys changed since the last query.
    fn propagate(&mut self) {
        if PATH * self.stale.len() > self.leaves {
            self.recompute_all();
            self.stale.clear();
        }
        while let Some(leaf) = self.stale.pop() {
            let mut at = leaf as usize;
            while at > 1 {
                at /= 2;
                let before = self.tree[at];
                self.recompute(at);
                if self.tree[at] == before {
                    break;
                }
            }
        }
        self.floor = self.tree[1].0;
    }

    /// Returns a lower bound of the keys of all positions. It takes no work, while [`Self::min`]
    /// may have to propagate changes.
    pub const fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the smallest key of any position.
    pub fn min(&mut self) -> u64 {
        self.propagate();
        self.tree[1].0
    }

    /// Draws a position with the smallest key, each with the same chance.
    pub fn position(&mut self, rng: &mut ChaCha8Rng) -> usize {
        self.propagate();
        self.descend(1, below(rng, self.tree[1].1))
    }

    /// Returns the smallest key of positions `from..until`, and the number of its occurrences.
    pub fn min_within(&mut self, from: usize, until: usize) -> (u64, u32) {
        self.propagate();
        let mut best = (u64::MAX, 0);
        self.cover(from, until, |node| {
            if node.0 < best.0 {
                best = node;
            } else if node.0 == best.0 {
                best.1 += node.1;
            }
        });
        best
    }

    fn cover(&self, from: usize, until: usize, mut visit: impl FnMut((u64, u32))) {
        let (mut low, mut high) = (self.leaves + from, self.leaves + until);
        while low < high {
            if low % 2 == 1 {
                visit(self.tree[low]);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                visit(self.tree[high]);
            }
            low /= 2;
            high /= 2;
        }
    }

    /// Draws a position of `from..until` with the smallest key there, each with the same
    /// chance.
    pub fn position_within(&mut self, from: usize, until: usize, rng: &mut ChaCha8Rng) -> usize {
        let (key, count) = self.min_within(from, until);
        let nth = below(rng, count);
        (from..until)
            .filter(|&position| self.get(position) == key)
            .nth(nth as usize)
            .expect("as many as were counted")
    }

    fn descend(&self, mut at: usize, mut nth: u32) -> usize {
        while at < self.leaves {
            let (left, right) = (self.tree[2 * at], self.tree[2 * at + 1]);
            let in_left = if left.0 == self.tree[at].0 { left.1 } else { 0 };
            at *= 2;
            if nth >= in_left {
                debug_assert_eq!(right.0, self.tree[at / 2].0);
                nth -= in_left;
                at += 1;
            }
        }
        at - self.leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn the_minimum_agrees_with_a_linear_search() {
        for_seeds("the_minimum_agrees_with_a_linear_search", 1, |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut keys = vec![u64::MAX; 37];
            let mut least = Least::new(37);
            for _ in 0..2000 {
                let position = rng.random_range(0..37);
                keys[position] = rng.random_range(0..9);
                least.set(position, keys[position]);
                let from = rng.random_range(0..36);
                let until = rng.random_range(from + 1..=37);
                let (min, count) = least.min_within(from, until);
                assert!(least.floor() <= min);
                assert_eq!(Some(&min), keys[from..until].iter().min());
                let same = keys[from..until].iter().filter(|&&key| key == min).count();
                assert_eq!(count as usize, same);
                let within = least.position_within(from, until, &mut rng);
                assert!((from..until).contains(&within) && keys[within] == min);
                assert_eq!(keys[least.position(&mut rng)], least.min());
            }
            least.grow();
            assert_eq!(Some(&least.min()), keys.iter().min());
        });
    }

    #[test]
    fn equal_keys_are_drawn_equally_often() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut least = Least::new(6);
        for position in [0, 3, 4] {
            least.set(position, 1);
        }
        let mut drawn = [0; 6];
        for _ in 0..3000 {
            drawn[least.position(&mut rng)] += 1;
        }
        for position in [0, 3, 4] {
            assert!((900..1100).contains(&drawn[position]), "{drawn:?}");
        }
    }
}
