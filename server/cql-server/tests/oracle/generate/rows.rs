//! Random partitions and rows in statements.

use rand::RngExt as _;

use super::{Generator, KEYS};
use crate::restriction::{Bound, Partitions, Restriction, Test, Where};

impl Generator {
    /// Draws a WHERE by partition keys: mostly of one partition, seldom of several by IN.
    pub(super) fn partitions_named(&mut self) -> Where {
        let mut at = Where::partition(&self.key());
        if self.rng.random_bool(0.15)
            && let Partitions::Keys(columns) = &mut at.partitions
        {
            let last = columns.len() - 1;
            columns[last] = (0..self.rng.random_range(2..4))
                .map(|_| {
                    self.rng
                        .random_range(0..if last == 0 { KEYS + 1 } else { 2 })
                })
                .collect();
        }
        at
    }

    pub(super) fn row_key(&mut self) -> i32 {
        self.rng.random_range(0..KEYS)
    }

    pub(super) fn tuple(&mut self, len: usize) -> Vec<i32> {
        (0..len).map(|_| self.row_key()).collect()
    }

    /// Draws restrictions of all clustering columns by `=` or IN, which together name rows one by
    /// one.
    pub(super) fn named_rows(&mut self) -> Vec<Restriction> {
        let mut restrictions = Vec::new();
        let mut at = 0;
        while at < self.schema.clustering.len() {
            let (test, columns) = self.values_at(at);
            restrictions.push(Restriction { at, test });
            at += columns;
        }
        restrictions
    }

    /// Draws `=` or `IN` on clustering column number `at`, or on several columns from this one on.
    /// Also returns the number of columns.
    pub(super) fn values_at(&mut self, at: usize) -> (Test, usize) {
        let count = if self.rng.random_bool(0.2) { 2 } else { 1 };
        if self.rng.random_bool(0.8) {
            return (Test::Values(self.tuple(count)), 1);
        }
        let len = self
            .rng
            .random_range(1..self.schema.clustering.len() - at + 1);
        let tuples = (0..count).map(|_| self.tuple(len)).collect();
        (Test::Tuples(tuples), len)
    }

    /// Draws restrictions that select a range of rows: values of the first clustering columns, and
    /// maybe a slice of the next ones.
    pub(super) fn range_of_rows(&mut self) -> Vec<Restriction> {
        let columns = self.schema.clustering.len();
        let mut restrictions = Vec::new();
        if columns == 0 {
            return restrictions;
        }
        let until = self.rng.random_range(0..columns);
        let mut at = 0;
        while at < until {
            let (test, columns) = self.values_at(at);
            restrictions.push(Restriction { at, test });
            at += columns;
        }
        if at < columns && (at == 0 || self.rng.random_bool(0.7)) {
            let bounds = self.rng.random_range(1..4);
            let (has_lower, has_upper) = (bounds & 1 != 0, bounds & 2 != 0);
            let test = if self.rng.random_bool(0.6) {
                let lower = has_lower.then(|| (self.row_key(), self.rng.random()));
                let upper = has_upper.then(|| (self.row_key(), self.rng.random()));
                Test::Slice(lower, upper)
            } else {
                let lower = has_lower.then(|| self.tuple_bound(columns - at));
                let upper = has_upper.then(|| self.tuple_bound(columns - at));
                Test::TupleSlice(lower.flatten(), upper.flatten())
            };
            restrictions.push(Restriction { at, test });
        }
        restrictions
    }

    pub(super) fn tuple_bound(&mut self, columns: usize) -> Bound<Vec<i32>> {
        let len = self.rng.random_range(1..columns + 1);
        Some((self.tuple(len), self.rng.random()))
    }

    pub(super) fn tokens(&mut self) -> Partitions {
        if self.rng.random_bool(0.6) {
            return Partitions::All;
        }
        // Bounds between any tokens.
        let mut bound = || Some((self.rng.random::<i64>(), self.rng.random::<bool>()));
        let (lower, upper) = (bound(), bound());
        match self.rng.random_range(0..3) {
            0 => Partitions::Tokens { lower, upper: None },
            1 => Partitions::Tokens { lower: None, upper },
            _ => Partitions::Tokens { lower, upper },
        }
    }
}
