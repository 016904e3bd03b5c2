//! A checker of linearizability for the history of one row: whether each operation can have
//! happened at one instant between its start and its end, so that all responses were right.
//!
//! The search is that of Wing and Gong, with Lowe's improvement. Operations are put in order one by
//! one, each of them begun before the end of any remaining one. In a dead end the last one is taken
//! back. A state that was tried before, which is the set of ordered operations and the row after
//! them, is not tried again.

use std::collections::HashSet;

use super::history::Operation;

/// A set of operations, as a bit for the index of each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Done(Vec<u64>);

impl Done {
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn flip(&mut self, at: usize) {
        self.0[at / 64] ^= 1 << (at % 64);
    }
}

/// Checks that the history of a row is linearizable. `row` is the value of the row before the
/// history; `None` is a missing row. The error is the longest sequence of operations that was found
/// to be possible in this order.
pub fn check(history: &[Operation], row: Option<i32>) -> Result<(), Vec<Operation>> {
    let mut operations = history.to_vec();
    operations.sort_by_key(|operation| operation.began);
    let mut done = Done(vec![0; operations.len().div_ceil(64)]);
    let mut tried = HashSet::new();
    // The ordered operations, each with the row before it.
    let mut order: Vec<(usize, Option<i32>)> = Vec::new();
    let mut best: Vec<usize> = Vec::new();
    let (mut row, mut from) = (row, 0);
    loop {
        let must_be_left = |at: usize| operations[at].ended != u64::MAX;
        let is_left = |at: &usize| !done.has(*at);
        if !(0..operations.len()).any(|at| is_left(&at) && must_be_left(at)) {
            return Ok(());
        }
        // The next operation must have begun by the end of the one that ends first.
        let left = || (0..operations.len()).filter(is_left);
        let first_end = left()
            .map(|at| operations[at].ended)
            .min()
            .unwrap_or(u64::MAX);
        let next = left()
            .skip_while(|at| *at < from)
            .take_while(|at| operations[*at].began <= first_end)
            .find_map(|at| Some((at, operations[at].apply(row)?)));
        match next {
            Some((at, after)) => {
                done.flip(at);
                if tried.insert((done.clone(), after)) {
                    order.push((at, row));
                    (row, from) = (after, 0);
                    if order.len() > best.len() {
                        best = order.iter().map(|(at, _)| *at).collect();
                    }
                } else {
                    done.flip(at);
                    from = at + 1;
                }
            }
            None => match order.pop() {
                Some((at, before)) => {
                    done.flip(at);
                    (row, from) = (before, at + 1);
                }
                None => return Err(best.into_iter().map(|at| operations[at]).collect()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::{Action, Outcome};
    use super::*;

    fn operation(action: Action, outcome: Outcome, began: u64, ended: u64) -> Operation {
        Operation {
            action,
            outcome,
            began,
            ended,
        }
    }

    #[test]
    fn linearizable_histories_are_distinguished_from_others() {
        let insert =
            |value, outcome, began, ended| operation(Action::Insert(value), outcome, began, ended);
        let read =
            |value, began, ended| operation(Action::Read, Outcome::Value(value), began, ended);
        let linear = [
            insert(1, Outcome::Applied, 0, 10),
            insert(2, Outcome::Refused(Some(Some(1))), 0, 10),
            read(Some(1), 5, 6),
            operation(Action::Swap(1, 3), Outcome::Applied, 11, 14),
            read(Some(1), 11, 13),
            read(Some(3), 12, 20),
            operation(Action::Delete, Outcome::Unknown, 15, u64::MAX),
            operation(Action::Set(9), Outcome::Refused(None), 21, 25),
            read(None, 30, 31),
        ];
        assert!(check(&linear, None).is_ok());
        let two_winners = [
            insert(1, Outcome::Applied, 0, 10),
            insert(2, Outcome::Applied, 0, 10),
        ];
        assert!(check(&two_winners, None).is_err());
        let seen_too_early = [insert(1, Outcome::Applied, 10, 20), read(Some(1), 1, 9)];
        assert!(check(&seen_too_early, None).is_err());
        let gone_again = [
            insert(1, Outcome::Applied, 0, 1),
            read(Some(1), 2, 3),
            read(None, 4, 5),
        ];
        assert!(check(&gone_again, None).is_err());
        let from_nowhere = [
            insert(1, Outcome::Applied, 0, 1),
            insert(2, Outcome::Refused(Some(Some(7))), 2, 3),
        ];
        assert_eq!(check(&from_nowhere, None).unwrap_err().len(), 1);
        let lost = [
            operation(Action::Swap(1, 2), Outcome::Applied, 0, 1),
            operation(Action::Swap(1, 3), Outcome::Applied, 2, 3),
        ];
        assert!(check(&lost, Some(1)).is_err());
        assert!(check(&lost[..1], Some(1)).is_ok());
    }
}
