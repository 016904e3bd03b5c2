//! The published checker of linearizability in `todc-utils`, after Lowe (2017) and Horn and
//! Kroening (2015). Its results must equal those of [`checker`](super::checker).

use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::Action::{Call, Response};
use todc_utils::linearizability::history::History;
use todc_utils::specifications::Specification;

use super::history::Operation;

/// The model of one row, which is missing at first.
struct Row;

impl Specification for Row {
    type State = Option<i32>;
    type Operation = Operation;

    fn init() -> Self::State {
        None
    }

    fn apply(operation: &Operation, row: &Self::State) -> (bool, Self::State) {
        match operation.apply(*row) {
            Some(after) => (true, after),
            None => (false, *row),
        }
    }
}

/// Returns whether the history of a row that was missing at first is linearizable.
pub fn is_linearizable(history: &[Operation]) -> bool {
    // At equal times all begins come before any end, so that such operations are concurrent. An
    // operation without a response ends after all others, where it may have happened last.
    let mut events = Vec::with_capacity(2 * history.len());
    for (process, operation) in history.iter().enumerate() {
        events.push((operation.began, false, process, Call(*operation)));
        events.push((operation.ended, true, process, Response(*operation)));
    }
    events.sort_by_key(|(time, is_end, process, _)| (*time, *is_end, *process));
    if events.is_empty() {
        return true;
    }
    let actions = events.into_iter();
    let actions = actions.map(|(_, _, process, action)| (process, action));
    WGLChecker::<Row>::is_linearizable(History::from_actions(actions.collect()))
}

#[cfg(test)]
mod tests {
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::super::checker;
    use super::super::history::{Action, Outcome};
    use super::*;

    /// Draws a history of operations, some of which overlap in time, with outcomes that may be
    /// impossible.
    fn drawn(rng: &mut ChaCha8Rng) -> Vec<Operation> {
        let count = rng.random_range(1..8);
        let value = |rng: &mut ChaCha8Rng| rng.random_range(1..3);
        let seen = |rng: &mut ChaCha8Rng| rng.random::<bool>().then(|| value(rng));
        let one = |rng: &mut ChaCha8Rng| {
            let action = match rng.random_range(0..5) {
                0 => Action::Insert(value(rng)),
                1 => Action::Swap(value(rng), value(rng)),
                2 => Action::Set(value(rng)),
                3 => Action::Delete,
                _ => Action::Read,
            };
            let outcome = match (action, rng.random_range(0..8)) {
                (_, 0) => Outcome::Unknown,
                (Action::Read, _) => Outcome::Value(seen(rng)),
                (_, 1) => Outcome::Refused(None),
                (_, 2..4) => Outcome::Refused(Some(seen(rng))),
                _ => Outcome::Applied,
            };
            let began = rng.random_range(0..12);
            let ended = match outcome {
                Outcome::Unknown => u64::MAX,
                _ => began + rng.random_range(0..6),
            };
            Operation {
                action,
                outcome,
                began,
                ended,
            }
        };
        (0..count).map(|_| one(rng)).collect()
    }

    #[test]
    fn both_checkers_agree_on_any_history() {
        for_seeds("both_checkers_agree_on_any_history", 1, |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut linearizable = 0;
            const HISTORIES: usize = 20_000;
            for _ in 0..HISTORIES {
                let history = drawn(&mut rng);
                let found = checker::check(&history, None).is_ok();
                assert_eq!(found, is_linearizable(&history), "{history:#?}");
                linearizable += usize::from(found);
            }
            // Both results have to be frequent, so that the checkers are compared on both.
            let share = linearizable as f64 / HISTORIES as f64;
            assert!((0.05..0.95).contains(&share), "{share}");
        });
    }
}
