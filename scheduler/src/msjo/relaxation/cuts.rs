//! The choice of constraints for sets of tasks: which violated ones are added to the linear
//! programme as rows, and which rows are dropped again. The sets are prefixes of an order
//! of tasks.

use crate::msjo::instance::Instance;

/// The rule that chooses, from the violated constraints, those that are added to the linear
/// programme as rows. Each constraint is about a prefix of an order of tasks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cuts {
    /// One out of this many successive violated prefixes of an order of tasks becomes a row.
    /// Neighbouring prefixes give nearly the same constraint, and later rounds add more of them if they
    /// are still violated.
    pub every: usize,
    /// The number of rows that one check of start times may add, divided evenly among the pools
    /// (sets of tasks that share machines); a pool may always add one. A round makes one check, or
    /// two with `halfway`. The limit is there because the solver's work grows with the square of the
    /// rows, or worse.
    pub rows_max: usize,
    /// Whether rows that earlier rounds added are dropped from the programme if the last solution
    /// satisfies them with some slack ([`SLACK_MIN`]).
    pub drop_slack: bool,
    /// Whether violated constraints are also sought at the midpoint between the solution and the
    /// best start times so far that violate no constraint. A row that excludes the midpoint cuts
    /// deeper than one that excludes only the solution.
    pub halfway: bool,
}

impl Cuts {
    /// The rule of COGE, the constraint generation of Ling et al. They do not give its numbers;
    /// with these numbers, their most random scenario gives the ratios that they publish.
    pub const COGE: Self = Self {
        every: 8,
        rows_max: 100,
        drop_slack: false,
        halfway: false,
    };
    /// The rule of [`Relaxation::converged`](super::Relaxation::converged). It also adds
    /// neighbouring prefixes and seeks violations at the midpoint, so that fewer programmes are
    /// solved. It drops rows with slack, so that the programmes stay small.
    pub const CONVERGED: Self = Self {
        every: 1,
        rows_max: 48,
        drop_slack: true,
        halfway: true,
    };

    /// Returns the violated prefixes that become rows. `violated` has all violated prefixes of one
    /// order of tasks, by length. The longest of each `every` successive ones is chosen, because it
    /// constrains the later tasks most. With many violated prefixes the step is larger, so that
    /// this order gets at most `rows_max` / `pools` rows, or one if that is less than one.
    pub fn chosen(self, violated: &[Row], pools: usize) -> Vec<Row> {
        let rows_max = (self.rows_max / pools).max(1);
        let every = self.every.max(violated.len().div_ceil(rows_max));
        let mut chosen: Vec<Row> = violated.iter().rev().step_by(every).copied().collect();
        chosen.reverse();
        chosen
    }
}

/// A row may be dropped from the linear programme if the solution exceeds its right side by at
/// least this fraction of it.
const SLACK_MIN: f64 = 1e-3;

/// A constraint of the linear programme on the first tasks of some order: the sum of length times
/// start over these tasks is at least `right`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    /// The number of tasks in the sum: the first ones of [`Chain::order`].
    pub length: usize,
    pub right: f64,
}

/// The rows of one order of a pool's tasks. Each is about the first tasks of this order, so that a
/// longer one includes the tasks of a shorter one.
#[derive(Debug)]
pub(super) struct Chain {
    pub machines: usize,
    pub order: Vec<usize>,
    pub rows: Vec<Row>,
}

impl Chain {
    pub fn drop_slack(&mut self, instance: &Instance, start_s: &[f64]) {
        let (mut sum, mut at) = (0.0, 0);
        let order = &self.order;
        self.rows.retain(|row| {
            let own = order[at..row.length].iter();
            sum += own
                .map(|&task| instance.tasks[task].length_s * start_s[task])
                .sum::<f64>();
            at = row.length;
            sum - row.right < SLACK_MIN * row.right.abs()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_violated_prefixes_some_become_rows_and_the_longest_always() {
        let violated: Vec<Row> = (1..=20).map(|length| Row { length, right: 1.0 }).collect();
        let lengths = |every, rows_max, pools| -> Vec<usize> {
            let cuts = Cuts {
                every,
                rows_max,
                ..Cuts::COGE
            };
            let chosen = cuts.chosen(&violated, pools);
            chosen.iter().map(|row| row.length).collect()
        };
        assert_eq!(lengths(8, 100, 1), [4, 12, 20]);
        assert_eq!(lengths(1, 4, 1), [5, 10, 15, 20]);
        assert_eq!(lengths(1, 4, 2), [10, 20]);
        assert_eq!(lengths(1, 4, 50), [20]);
    }
}
