//! WHERE, as data.

use std::cmp::Ordering;

use super::schema::{ClusteringColumn, Schema};
use super::text::Text;

/// A bound of a slice, and whether it is inclusive; `None` without a bound.
pub type Bound<T> = Option<(T, bool)>;

/// The restrictions of a WHERE clause.
#[derive(Debug, Clone)]
pub struct Where {
    pub partitions: Partitions,
    /// The restrictions on clustering columns, all of which must hold.
    pub clustering: Vec<Restriction>,
}

/// The restriction on partitions.
#[derive(Debug, Clone)]
pub enum Partitions {
    All,
    /// For each column of the partition key, its permitted values, in any order and maybe repeated.
    Keys(Vec<Vec<i32>>),
    Tokens {
        lower: Bound<i64>,
        upper: Bound<i64>,
    },
    /// One column of a partition key with several columns has this value. The first number is the
    /// index of the column.
    Component(usize, i32),
}

/// A restriction on one or more clustering columns, beginning with the column number `at`.
#[derive(Debug, Clone)]
pub struct Restriction {
    pub at: usize,
    pub test: Test,
}

#[derive(Debug, Clone)]
pub enum Test {
    /// One column has one of these values: `c = 1`, `c IN (1, 2)`.
    Values(Vec<i32>),
    /// One column is between two bounds: `c > 1 AND c <= 2`.
    Slice(Bound<i32>, Bound<i32>),
    /// Several columns have one of these tuples of values: `(c, d) = (1, 2)`,
    /// `(c, d) IN ((1, 2), (3, 4))`.
    Tuples(Vec<Vec<i32>>),
    /// Several columns are between two tuples: `(c, d) > (1, 2) AND (c) <= (3)`. The bounds may
    /// differ in length.
    TupleSlice(Bound<Vec<i32>>, Bound<Vec<i32>>),
}

impl Restriction {
    /// Returns whether a row with this clustering passes the restriction. Slices compare values,
    /// even if the column is in descending order.
    pub fn holds(&self, clustering: &[i32]) -> bool {
        let rest = &clustering[self.at..];
        match &self.test {
            Test::Values(values) => values.contains(&rest[0]),
            Test::Tuples(tuples) => tuples.iter().any(|tuple| rest.starts_with(tuple)),
            Test::Slice(lower, upper) => is_between(lower, upper, |bound: &i32| rest[0].cmp(bound)),
            Test::TupleSlice(lower, upper) => is_between(lower, upper, |bound: &Vec<i32>| {
                rest[..bound.len()].cmp(&bound[..])
            }),
        }
    }
}

/// Returns whether a value is between the bounds. `compare` compares the value with a bound.
pub fn is_between<T>(lower: &Bound<T>, upper: &Bound<T>, compare: impl Fn(&T) -> Ordering) -> bool {
    let above = |(bound, inclusive): &(T, bool)| match compare(bound) {
        Ordering::Equal => *inclusive,
        order => order.is_gt(),
    };
    let below = |(bound, inclusive): &(T, bool)| match compare(bound) {
        Ordering::Equal => *inclusive,
        order => order.is_lt(),
    };
    lower.as_ref().is_none_or(above) && upper.as_ref().is_none_or(below)
}

fn sign(is_lower: bool, inclusive: bool) -> &'static str {
    match (is_lower, inclusive) {
        (true, true) => ">=",
        (true, false) => ">",
        (false, true) => "<=",
        (false, false) => "<",
    }
}

impl Where {
    /// Returns a WHERE that selects all rows of the partition with this key.
    pub fn partition(key: &[i32]) -> Self {
        Self {
            partitions: Partitions::Keys(key.iter().map(|value| vec![*value]).collect()),
            clustering: Vec::new(),
        }
    }

    /// Returns the distinct keys of the partitions, ascending. Returns `None` if the WHERE does not
    /// give a value for each column of the partition key.
    pub fn keys(&self) -> Option<Vec<Vec<i32>>> {
        let Partitions::Keys(columns) = &self.partitions else {
            return None;
        };
        let mut keys = vec![Vec::new()];
        for values in columns {
            let with = |key: Vec<i32>| {
                let one = move |value: &i32| [&key[..], &[*value]].concat();
                values.iter().map(one).collect::<Vec<_>>()
            };
            keys = keys.into_iter().flat_map(with).collect();
        }
        keys.sort();
        keys.dedup();
        Some(keys)
    }

    /// Returns whether there is an IN on the partition key with more than one value. The values may
    /// be equal.
    pub fn has_in(&self) -> bool {
        match &self.partitions {
            Partitions::Keys(columns) => columns.iter().any(|values| values.len() > 1),
            _ => false,
        }
    }

    /// Writes ` WHERE ...`; nothing without restrictions.
    pub fn write(&self, schema: &Schema, text: &mut Text) {
        let mut and = " WHERE ";
        let mut next = |text: &mut Text| {
            text.push(and);
            and = " AND ";
        };
        let names = schema.partition_names();
        match &self.partitions {
            Partitions::All => {}
            Partitions::Keys(columns) => {
                for (name, values) in names.iter().zip(columns) {
                    next(text);
                    text.push(name);
                    one_or_in(values, text, |text, value| text.int(*value));
                }
            }
            Partitions::Component(at, value) => {
                next(text);
                text.push(&format!("{} = ", names[*at]));
                text.int(*value);
            }
            Partitions::Tokens { lower, upper } => {
                for (is_lower, bound) in [(true, lower), (false, upper)] {
                    if let Some((token, inclusive)) = bound {
                        next(text);
                        let sign = sign(is_lower, *inclusive);
                        text.push(&format!("token({}) {sign} {token}", names.join(", ")));
                    }
                }
            }
        }
        let names = schema.clustering_names();
        for Restriction { at, test } in &self.clustering {
            let columns = &schema.clustering[*at..];
            match test {
                Test::Values(values) => {
                    next(text);
                    text.push(names[*at]);
                    let one = |text: &mut Text, value: &i32| columns[0].write(*value, text);
                    one_or_in(values, text, one);
                }
                Test::Slice(lower, upper) => {
                    for (is_lower, bound) in [(true, lower), (false, upper)] {
                        if let Some((value, inclusive)) = bound {
                            next(text);
                            text.push(&format!("{} {} ", names[*at], sign(is_lower, *inclusive)));
                            columns[0].write(*value, text);
                        }
                    }
                }
                Test::Tuples(tuples) => {
                    next(text);
                    let len = tuples[0].len();
                    text.push(&format!("({})", names[*at..at + len].join(", ")));
                    match &tuples[..] {
                        [one] => {
                            text.push(" = ");
                            tuple(one, columns, text);
                        }
                        several => {
                            text.push(" IN (");
                            text.list(several, |text, one| tuple(one, columns, text));
                            text.push(")");
                        }
                    }
                }
                Test::TupleSlice(lower, upper) => {
                    for (is_lower, bound) in [(true, lower), (false, upper)] {
                        if let Some((values, inclusive)) = bound {
                            next(text);
                            let names = names[*at..at + values.len()].join(", ");
                            text.push(&format!("({names}) {} ", sign(is_lower, *inclusive)));
                            tuple(values, columns, text);
                        }
                    }
                }
            }
        }
    }
}

/// Appends ` = value`, or ` IN (...)` for several values. `one` appends a value.
fn one_or_in(values: &[i32], text: &mut Text, mut one: impl FnMut(&mut Text, &i32)) {
    match values {
        [value] => {
            text.push(" = ");
            one(text, value);
        }
        several => {
            text.push(" IN (");
            text.list(several, one);
            text.push(")");
        }
    }
}

/// Appends a tuple. Its values belong to the first of `columns`, and there may be fewer values than
/// columns.
fn tuple(values: &[i32], columns: &[ClusteringColumn], text: &mut Text) {
    let values: Vec<(&ClusteringColumn, &i32)> = columns.iter().zip(values).collect();
    text.push("(");
    text.list(&values, |text, (column, value)| {
        column.write(**value, text);
    });
    text.push(")");
}
