//! A table of counters beside the other table, and a model of its sums.

use std::collections::BTreeMap;

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::step::Form;

/// The columns of the table of counters. The first one is static.
pub const COLUMNS: [&str; 3] = ["s", "a", "b"];

pub const CREATE: &str = "CREATE TABLE ks.n (k int, c int, s counter STATIC, a counter, b counter, \
                          PRIMARY KEY (k, c))";

/// A request on counters.
#[derive(Debug, Clone)]
pub struct Count {
    pub changes: Vec<Change>,
    pub form: Form,
}

/// One statement, on one row.
#[derive(Debug, Clone)]
pub struct Change {
    k: i32,
    c: i32,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    /// Adds to columns, each given by its index in [`COLUMNS`].
    Add(Vec<(usize, i64)>),
    DeleteColumn(usize),
    DeleteRow,
    DeletePartition,
}

/// The partition, the row (`None` for a static column) and the column of a counter.
type Place = (i32, Option<i32>, usize);

/// The values of all counters that were incremented and not deleted since.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<Place, i64>);

impl Count {
    pub fn draw(rng: &mut ChaCha8Rng) -> Self {
        let (form, count) = match rng.random_range(0..3) {
            0 => (Form::Text, rng.random_range(0..4)),
            1 => (Form::Frame, rng.random_range(1..4)),
            _ => (Form::Single, 1),
        };
        let changes = (0..count).map(|_| Change::draw(rng)).collect();
        Self { changes, form }
    }

    /// Returns the statements of the request as text.
    pub fn texts(&self) -> Vec<String> {
        self.changes.iter().map(Change::text).collect()
    }
}

impl Change {
    fn draw(rng: &mut ChaCha8Rng) -> Self {
        let what = match rng.random_range(0..12) {
            0 => What::DeleteColumn(rng.random_range(0..COLUMNS.len())),
            1 => What::DeleteRow,
            2 => What::DeletePartition,
            _ => {
                let one = |rng: &mut ChaCha8Rng| {
                    let by = rng.random_range(-5..6);
                    (rng.random_range(0..COLUMNS.len()), by)
                };
                What::Add((0..rng.random_range(1..4)).map(|_| one(rng)).collect())
            }
        };
        Self {
            k: rng.random_range(0..2),
            c: rng.random_range(0..2),
            what,
        }
    }

    fn text(&self) -> String {
        let (k, c) = (self.k, self.c);
        let row = |statics_only: bool| {
            if statics_only {
                format!("k = {k}")
            } else {
                format!("k = {k} AND c = {c}")
            }
        };
        match &self.what {
            What::Add(changes) => {
                let one = |(at, by): &(usize, i64)| {
                    let name = COLUMNS[*at];
                    if by % 2 == 0 {
                        format!("{name} = {name} + {by}")
                    } else {
                        format!("{name} -= {}", -by)
                    }
                };
                let all: Vec<String> = changes.iter().map(one).collect();
                let statics_only = changes.iter().all(|(at, _)| *at == 0);
                format!(
                    "UPDATE ks.n SET {} WHERE {}",
                    all.join(", "),
                    row(statics_only)
                )
            }
            What::DeleteColumn(at) => {
                format!("DELETE {} FROM ks.n WHERE {}", COLUMNS[*at], row(*at == 0))
            }
            What::DeleteRow => format!("DELETE FROM ks.n WHERE {}", row(false)),
            What::DeletePartition => format!("DELETE FROM ks.n WHERE k = {k}"),
        }
    }
}

impl Counters {
    /// Applies a request. Its deletions win over its increments, in any order. If `forgets` is
    /// true, makes a deliberate mistake: all increments of a batch add to the values from before
    /// the batch.
    pub fn execute(&mut self, count: &Count, forgets: bool) {
        let before = self.clone();
        let adds = |change: &&Change| matches!(change.what, What::Add(_));
        let (increments, deletions): (Vec<_>, Vec<_>) = count.changes.iter().partition(adds);
        for Change { k, c, what } in increments.into_iter().chain(deletions) {
            let place = |at: usize| (*k, (at > 0).then_some(*c), at);
            match what {
                What::Add(changes) => {
                    let there = if forgets {
                        before.clone()
                    } else {
                        self.clone()
                    };
                    let mut sums: BTreeMap<Place, i64> = BTreeMap::new();
                    for (at, by) in changes {
                        let start = there.0.get(&place(*at)).copied().unwrap_or(0);
                        *sums.entry(place(*at)).or_insert(start) += by;
                    }
                    self.0.extend(sums);
                }
                What::DeleteColumn(at) => drop(self.0.remove(&place(*at))),
                What::DeleteRow => self
                    .0
                    .retain(|(of, row, _), _| (*of, *row) != (*k, Some(*c))),
                What::DeletePartition => self.0.retain(|(of, ..), _| of != k),
            }
        }
    }

    /// Returns all rows of `SELECT k, c, s, a, b`, sorted.
    pub fn rows(&self) -> Vec<Vec<Option<i64>>> {
        let mut rows = Vec::new();
        for k in 0..2 {
            let value = |place: Place| self.0.get(&place).copied();
            let of_static = value((k, None, 0));
            let mut has_rows = false;
            for c in 0..2 {
                let (a, b) = (value((k, Some(c), 1)), value((k, Some(c), 2)));
                if a.is_some() || b.is_some() {
                    has_rows = true;
                    rows.push(vec![Some(k.into()), Some(c.into()), of_static, a, b]);
                }
            }
            if !has_rows && of_static.is_some() {
                rows.push(vec![Some(k.into()), None, of_static, None, None]);
            }
        }
        rows.sort();
        rows
    }
}
