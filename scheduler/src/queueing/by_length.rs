//! Queues in the order of their lengths, which change by one at a time.

use super::traffic::below;
use rand_chacha::ChaCha8Rng;

/// Who has something, the longest first; a change moves one of them past those that are as
/// long, and no other.
///
/// A member knows where it stands: `positions` of the methods has a number for each member
/// of every order that shares it.
#[derive(Debug)]
pub(super) struct ByLength {
    order: Vec<u32>,
    /// How many are at least so long, by length up to the longest.
    at_least: Vec<u32>,
}

impl ByLength {
    pub fn new() -> Self {
        Self {
            order: Vec::new(),
            at_least: vec![0],
        }
    }

    /// The length of the longest, 0 if there is none.
    pub const fn max(&self) -> usize {
        self.at_least.len() - 1
    }

    /// One of the longest, each with the same chance.
    pub fn longest(&self, ties: &mut ChaCha8Rng) -> Option<u32> {
        match self.max() {
            0 => None,
            max => Some(self.order[below(ties, self.at_least[max]) as usize]),
        }
    }

    /// `member` was this long, and is longer by one now. One that was empty comes in.
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

    /// `member` was this long, and is shorter by one now. One that is empty leaves.
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

    /// Who stands at `to` changes places with `member`.
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
    fn the_longest_are_those_of_a_list_that_is_searched() {
        let test = "the_longest_are_those_of_a_list_that_is_searched";
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
