//! The choice of rows for sets of tasks: which violated prefixes become rows, and which
//! rows are dropped again.

use crate::msjo::instance::Instance;

/// The rule by which violated prefixes of an order become rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cuts {
    /// The step between violated prefixes that become rows. Neighbours give nearly the same
    /// constraint, and later rounds add the rest if it is still violated.
    pub every: usize,
    /// The largest number of rows per solution, over all pools: the solver's work grows
    /// with the square of the rows, or worse.
    pub rows_max: usize,
    /// Whether rows of earlier orders are dropped if the last solution is far from
    /// violating them.
    pub drop_slack: bool,
    /// Whether rows are sought too at the point halfway between the solution and the best
    /// no-violation solution: such rows cut deeper.
    pub halfway: bool,
}

impl Cuts {
    /// COGE's choice of rows. With these numbers the most random scenario reproduces the
    /// published ratios.
    pub const COGE: Self = Self {
        every: 8,
        rows_max: 100,
        drop_slack: false,
        halfway: false,
    };
    /// The choice of rows for `Relaxation::converged`.
    pub const CONVERGED: Self = Self {
        every: 1,
        rows_max: 48,
        drop_slack: true,
        halfway: true,
    };

    /// Returns the prefixes that become rows. `violated` has the violated prefixes of one
    /// order, by length. The longest of each `every` successive ones becomes a row, because
    /// it constrains the later tasks most. With many violated prefixes the step is larger,
    /// so that this order has at most its part, 1 / `pools`, of `rows_max`.
    pub fn chosen(self, violated: &[Row], pools: usize) -> Vec<Row> {
        let rows_max = (self.rows_max / pools).max(1);
        let every = self.every.max(violated.len().div_ceil(rows_max));
        let mut chosen: Vec<Row> = violated.iter().rev().step_by(every).copied().collect();
        chosen.reverse();
        chosen
    }
}

/// The least slack, as a part of the right side, of a row that may be dropped.
const SLACK_MIN: f64 = 1e-3;

/// The row of an inequality: the sum of length times start over the tasks of a prefix is at
/// least the right side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    /// The number of tasks in the prefix.
    pub length: usize,
    pub right: f64,
}

/// Rows of one order of a pool's tasks.
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
