//! Queues ordered by length, for lengths that change by one at a time.

use super::traffic::below;
use rand_chacha::ChaCha8Rng;

/// A set of members, such as queues, each with a length. `order` lists the members, the longest
/// first; members of length 0 are not in the set. When a length changes by one, its member swaps
/// positions with one other member of the same length, so each change takes constant time.
///
/// `positions`, an argument of the methods, holds each member's index in `order`. The caller keeps
/// it, with one element for each member.
#[derive(Debug)]
pub(super) struct ByLength {
    order: Vec<u32>,
    /// `at_least[n]` is the number of members whose length is n or more, for n from 1 to the
    /// longest length; its last index is the length of the longest member.
    at_least: Vec<u32>,
}

impl ByLength {
    pub fn new() -> Self {
        Self {
            order: Vec::new(),
            at_least: vec![0],
        }
    }

    /// Returns the length of the longest member; 0 if there is none.
    pub const fn max(&self) -> usize {
        self.at_least.len() - 1
    }

    /// Draws one of the longest members, each with the same chance; `None` if the set is empty.
    pub fn longest(&self, ties: &mut ChaCha8Rng) -> Option<u32> {
        match self.max() {
            0 => None,
            max => Some(self.order[below(ties, self.at_least[max]) as usize]),
        }
    }

    /// Increases the length of `member`, which is `length`, by one. A member of length 0
    /// is inserted. `positions` has each member's index in `order`, and is updated.
    pub fn lengthen(&mut self, member: u32, length: usize, positions: &mut [u32]) {
        if length == 0 {
            positions[member as usize] = self.order.len() as u32;
            self.order.push(member);
        }
        if length == self.max() {
            self.at_least.push(0);
        }
        let first_as_long = self.at_least[length + 1];
        self.at_least[length + 1] += 1;
        self.swap(member, first_as_long, positions);
    }

    /// Decreases the length of `member`, which is `length`, by one. A member that
    /// reaches 0 is removed. `positions` has each member's index in `order`, and is
    /// updated.
    pub fn shorten(&mut self, member: u32, length: usize, positions: &mut [u32]) {
        self.at_least[length] -= 1;
        self.swap(member, self.at_least[length], positions);
        if length == self.max() && self.at_least[length] == 0 {
            self.at_least.pop();
        }
        if length == 1 {
            self.order.pop();
        }
    }

    /// Swaps `member` with the one at index `to` of `order`, and corrects the `positions` of both.
    fn swap(&mut self, member: u32, to: u32, positions: &mut [u32]) {
        let from = positions[member as usize];
        let other = self.order[to as usize];
        self.order.swap(from as usize, to as usize);
        positions[other as usize] = from;
        positions[member as usize] = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn the_longest_members_agree_with_a_linear_search() {
        let test = "the_longest_members_agree_with_a_linear_search";
        for_seeds(test, 1, |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut lengths = [0_usize; 7];
            let mut positions = [0; 7];
            let mut order = ByLength::new();
            for _ in 0..5000 {
                let member = rng.random_range(0..7);
                let length = lengths[member];
                if length > 0 && rng.random::<bool>() {
                    order.shorten(member as u32, length, &mut positions);
                    lengths[member] -= 1;
                } else {
                    order.lengthen(member as u32, length, &mut positions);
                    lengths[member] += 1;
                }
                let max = lengths.into_iter().max().unwrap();
                assert_eq!(order.max(), max);
                match order.longest(&mut rng) {
                    Some(longest) => assert_eq!(lengths[longest as usize], max),
                    None => assert_eq!(max, 0),
                }
                let waiting = lengths.iter().filter(|&&length| length > 0).count();
                assert_eq!(order.order.len(), waiting);
            }
        });
    }
}
