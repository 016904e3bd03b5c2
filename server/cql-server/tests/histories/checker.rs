//! Whether a history of one row is linearizable: whether each operation can have happened at
//! one instant between its begin and its end, so that all were told the truth.
//!
//! The search is that of Wing and Gong, as Lowe made it bearable: operations are put in order
//! one by one, one that begins before any that is left has ended; where that leads nowhere the
//! last one is taken back. What was tried, by the set of operations that are in order and the
//! row that they leave, is not tried again.

use std::collections::HashSet;

use super::history::Operation;

/// A set of operations.
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

/// The longest order of operations that fits, if not all of them fit: the history is not
/// linearizable then. `row` is the row before all of them.
pub fn check(history: &[Operation], row: Option<i32>) -> Result<(), Vec<Operation>> {
    let mut operations = history.to_vec();
    operations.sort_by_key(|operation| operation.began);
    let mut done = Done(vec![0; operations.len().div_ceil(64)]);
    let mut tried = HashSet::new();
    // Which are in order, each with the row before it.
    let mut order: Vec<(usize, Option<i32>)> = Vec::new();
    let mut best: Vec<usize> = Vec::new();
    let (mut row, mut from) = (row, 0);
    loop {
        let must_be_left = |at: usize| operations[at].ended != u64::MAX;
        let is_left = |at: &usize| !done.has(*at);
        if !(0..operations.len()).any(|at| is_left(&at) && must_be_left(at)) {
            return Ok(());
        }
        // No other may come before the one that ends first.
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
    use super::super::history::{Ask, Told};
    use super::*;

    fn operation(ask: Ask, told: Told, began: u64, ended: u64) -> Operation {
        Operation {
            ask,
            told,
            began,
            ended,
        }
    }

    #[test]
    fn what_happened_one_after_the_other_is_told_from_what_did_not() {
        let insert = |value, told, began, ended| operation(Ask::Insert(value), told, began, ended);
        let read = |value, began, ended| operation(Ask::Read, Told::Value(value), began, ended);
        let linear = [
            insert(1, Told::Applied, 0, 10),
            insert(2, Told::Refused(Some(Some(1))), 0, 10),
            read(Some(1), 5, 6),
            operation(Ask::Swap(1, 3), Told::Applied, 11, 14),
            read(Some(1), 11, 13),
            read(Some(3), 12, 20),
            operation(Ask::Delete, Told::Nothing, 15, u64::MAX),
            operation(Ask::Set(9), Told::Refused(None), 21, 25),
            read(None, 30, 31),
        ];
        assert!(check(&linear, None).is_ok());
        let two_winners = [
            insert(1, Told::Applied, 0, 10),
            insert(2, Told::Applied, 0, 10),
        ];
        assert!(check(&two_winners, None).is_err());
        let seen_too_early = [insert(1, Told::Applied, 10, 20), read(Some(1), 1, 9)];
        assert!(check(&seen_too_early, None).is_err());
        let gone_again = [
            insert(1, Told::Applied, 0, 1),
            read(Some(1), 2, 3),
            read(None, 4, 5),
        ];
        assert!(check(&gone_again, None).is_err());
        let from_nowhere = [
            insert(1, Told::Applied, 0, 1),
            insert(2, Told::Refused(Some(Some(7))), 2, 3),
        ];
        assert_eq!(check(&from_nowhere, None).unwrap_err().len(), 1);
        let lost = [
            operation(Ask::Swap(1, 2), Told::Applied, 0, 1),
            operation(Ask::Swap(1, 3), Told::Applied, 2, 3),
        ];
        assert!(check(&lost, Some(1)).is_err());
        assert!(check(&lost[..1], Some(1)).is_ok());
    }
}
