//! The least of many changing numbers, overall and within a range: a tournament tree.

use super::traffic::below;
use rand_chacha::ChaCha8Rng;

/// A key per position, `u64::MAX` at first; each inner node has the least key below it
/// and how often that occurs there.
///
/// What was set is carried up the tree when somebody asks. In a slot hundreds of keys
/// change before the first question, and to meet all nodes once is cheaper than a path
/// for each.
#[derive(Clone, Debug)]
pub(super) struct Least {
    leaves: usize,
    /// The root is 1, the leaves follow the inner nodes.
    tree: Vec<(u64, u32)>,
    /// Leaves that were set since the last question.
    stale: Vec<u32>,
    /// Not above the least key.
    floor: u64,
}

/// Nodes of the tree that are met anew for one key, about: most paths end early, where
/// another key is the least.
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
        least.meet_all();
        least
    }

    fn meet_all(&mut self) {
        (1..self.leaves).rev().for_each(|at| self.meet(at));
    }

    fn meet(&mut self, at: usize) {
        let (left, right) = (self.tree[2 * at], self.tree[2 * at + 1]);
        self.tree[at] = match left.0.cmp(&right.0) {
            std::cmp::Ordering::Less => left,
            std::cmp::Ordering::Greater => right,
            std::cmp::Ordering::Equal => (left.0, left.1 + right.1),
        };
    }

    /// How many positions there are room for.
    pub const fn positions(&self) -> usize {
        self.leaves
    }

    /// Twice as many positions.
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

    /// Carries what was set up the tree.
    fn settle(&mut self) {
        if PATH * self.stale.len() > self.leaves {
            self.meet_all();
            self.stale.clear();
        }
        while let Some(leaf) = self.stale.pop() {
            let mut at = leaf as usize;
            while at > 1 {
                at /= 2;
                let before = self.tree[at];
                self.meet(at);
                if self.tree[at] == before {
                    break;
                }
            }
        }
        self.floor = self.tree[1].0;
    }

    /// A key that none is below; at no cost, where the least would be.
    pub const fn floor(&self) -> u64 {
        self.floor
    }

    /// The least key of all.
    pub fn min(&mut self) -> u64 {
        self.settle();
        self.tree[1].0
    }

    /// A position with the least key, each with the same chance.
    pub fn position(&mut self, rng: &mut ChaCha8Rng) -> usize {
        self.settle();
        self.descend(1, below(rng, self.tree[1].1))
    }

    /// The least key of positions `from..until`, and how often it occurs.
    pub fn min_within(&mut self, from: usize, until: usize) -> (u64, u32) {
        self.settle();
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

    /// A position of `from..until` with the least key there, each with the same chance.
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
    fn the_least_is_that_of_a_list_that_is_searched() {
        for_seeds("the_least_is_that_of_a_list_that_is_searched", 1, |seed| {
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
