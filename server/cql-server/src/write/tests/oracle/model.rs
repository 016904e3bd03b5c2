//! Cassandra's rules, simple and slow: the model keeps everything that was ever written, and each
//! read of a partition goes through everything that was written to that partition.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The clustering of a row; `None` stands for the static columns.
pub(super) type Row = Option<(i32, i32)>;

/// A value's column and, for a collection, the key of its element.
pub(super) type Place = (&'static str, Option<i32>);

/// The rows of a partition between bounds on their clustering.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    /// The lower bound: a value of `c`, maybe a value of `d`, and whether the bound is inclusive.
    /// `None` without a bound.
    pub(super) lower: Option<(i32, Option<i32>, bool)>,
    pub(super) upper: Option<(i32, Option<i32>, bool)>,
}

impl Range {
    fn contains(&self, (c, d): (i32, i32)) -> bool {
        // A bound of one value compares only the first column.
        let side = |(bound_c, bound_d, _): (i32, Option<i32>, bool)| match bound_d {
            Some(bound_d) => (c, d).cmp(&(bound_c, bound_d)),
            None => c.cmp(&bound_c),
        };
        let above = |b: (i32, Option<i32>, bool)| side(b).is_gt() || b.2 && side(b).is_eq();
        let below = |b: (i32, Option<i32>, bool)| side(b).is_lt() || b.2 && side(b).is_eq();
        self.lower.is_none_or(above) && self.upper.is_none_or(below)
    }
}

/// An effect of a write, without its timestamp.
#[derive(Debug, Clone)]
pub(super) enum Fact {
    Partition,
    Range(Range),
    Row((i32, i32)),
    /// Deletes the elements of a collection up to the timestamp of the effect.
    Collection(Row, &'static str),
    Marker((i32, i32), Life),
    /// The value of a column or an element of a row, with its expiry; the value `None` is a
    /// tombstone.
    Cell(Row, Place, Option<i32>, Life),
}

/// The second at which a value expires, and its TTL in seconds; `None` for a value that does not
/// expire.
pub(super) type Life = Option<(i64, i64)>;

/// Everything that was written, as effects with their timestamps, by partition.
#[derive(Debug, Default)]
pub(super) struct Model {
    facts: BTreeMap<i32, Vec<(i64, Fact)>>,
}

/// A live value: the value, its timestamp, and its remaining seconds.
type LiveValue = (i32, i64, Option<i64>);

impl Model {
    pub(super) fn add(&mut self, k: i32, timestamp: i64, fact: Fact) {
        self.facts.entry(k).or_default().push((timestamp, fact));
    }

    /// Returns the expected rows, as text, of a SELECT from a partition at `now_s`: all columns,
    /// and the timestamp and the TTL of `v`.
    pub(super) fn show(&self, k: i32, now_s: i64) -> String {
        let none = Vec::new();
        let facts = self.facts.get(&k).unwrap_or(&none);
        let statics = cells(facts, None, now_s);
        let s = text(statics.get(&("s", None)));
        let mut rows = BTreeSet::new();
        for (_, fact) in facts {
            if let Fact::Marker((c, d), _) | Fact::Cell(Some((c, d)), ..) = fact {
                // CLUSTERING ORDER BY (c DESC, d ASC).
                rows.insert((Reverse(*c), *d));
            }
        }
        let mut shown = Vec::new();
        for (Reverse(c), d) in rows {
            let cells = cells(facts, Some((c, d)), now_s);
            if cells.is_empty() && !has_marker(facts, (c, d), now_s) {
                continue;
            }
            let v = cells.get(&("v", None));
            shown.push(format!(
                "{k} {c} {d} {s} {} {} {} {} {} {}",
                text(v),
                text(cells.get(&("w", None))),
                map(&cells),
                set(&cells),
                v.map_or("null".to_owned(), |v| v.1.to_string()),
                v.and_then(|v| v.2)
                    .map_or("null".to_owned(), |ttl| ttl.to_string()),
            ));
        }
        if shown.is_empty() && !statics.is_empty() {
            let nulls = "null null null null null null";
            shown.push(format!("{k} null null {s} {nulls}"));
        }
        shown.join(" | ")
    }
}

/// Returns the greatest timestamp of the deletions that cover a row; `None` if there is none.
fn deleted(facts: &[(i64, Fact)], row: Row) -> Option<i64> {
    let deletions = facts.iter().filter(|(_, fact)| match (fact, row) {
        (Fact::Partition, _) => true,
        (Fact::Range(range), Some(row)) => range.contains(row),
        (Fact::Row(deleted), Some(row)) => *deleted == row,
        _ => false,
    });
    deletions.map(|(timestamp, _)| *timestamp).max()
}

fn has_marker(facts: &[(i64, Fact)], row: (i32, i32), now_s: i64) -> bool {
    let markers = facts.iter().filter_map(|(timestamp, fact)| match fact {
        Fact::Marker(of, life) if *of == row => Some((*timestamp, life.is_some(), *life)),
        _ => None,
    });
    // Of equal timestamps an expiring marker wins, and of these the one that expires last.
    let Some((timestamp, _, life)) = markers.max() else {
        return false;
    };
    Some(timestamp) > deleted(facts, Some(row)) && life.is_none_or(|(end, _)| end > now_s)
}

/// Returns the live values of a row at `now_s`, by column and element.
fn cells(facts: &[(i64, Fact)], row: Row, now_s: i64) -> BTreeMap<Place, LiveValue> {
    let above = deleted(facts, row);
    let mut places: BTreeMap<Place, Vec<(i64, Option<i32>, Life)>> = BTreeMap::new();
    for (timestamp, fact) in facts {
        if let Fact::Cell(of, place, value, life) = fact
            && *of == row
        {
            let one = (*timestamp, *value, *life);
            places.entry(*place).or_default().push(one);
        }
    }
    let mut seen = BTreeMap::new();
    for (place, values) in places {
        // The greatest timestamp wins; then a tombstone, then an expiring value, the later the
        // better, then one that does not expire; then the greater value, as bytes; then the shorter
        // TTL.
        let winner = values.iter().max_by_key(|(timestamp, value, life)| {
            let rank = match (value, life) {
                (None, _) => 2,
                (_, Some(_)) => 1,
                _ => 0,
            };
            let end = value.and(*life).map(|(end, _)| end);
            let ttl = value.and(*life).map(|(_, ttl)| Reverse(ttl));
            (*timestamp, rank, end, value.map(|v| v as u32), ttl)
        });
        let collections = facts.iter().filter_map(|(timestamp, fact)| match fact {
            Fact::Collection(of, column) if *of == row && *column == place.0 => Some(*timestamp),
            _ => None,
        });
        let above = above.max(collections.max());
        if let Some((timestamp, Some(value), life)) = winner
            && Some(*timestamp) > above
            && life.is_none_or(|(end, _)| end > now_s)
        {
            seen.insert(
                place,
                (*value, *timestamp, life.map(|(end, _)| end - now_s)),
            );
        }
    }
    seen
}

fn text(value: Option<&LiveValue>) -> String {
    value.map_or("null".to_owned(), |(value, ..)| value.to_string())
}

/// Returns the map in the column `m` as the harness prints it: the bytes of its keys and values in
/// hexadecimal digits.
fn map(cells: &BTreeMap<Place, LiveValue>) -> String {
    hex(elements(cells, "m").map(|(key, value)| format!("00000004{key:08x}00000004{value:08x}")))
}

fn set(cells: &BTreeMap<Place, LiveValue>) -> String {
    hex(elements(cells, "e").map(|(key, _)| format!("00000004{key:08x}")))
}

fn elements<'c>(
    cells: &'c BTreeMap<Place, LiveValue>,
    of: &'static str,
) -> impl Iterator<Item = (i32, i32)> + 'c {
    let of_column = move |((column, key), (value, ..)): (&Place, &LiveValue)| {
        (*column == of).then_some((key.unwrap_or_default(), *value))
    };
    cells.iter().filter_map(of_column)
}

fn hex(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    match parts.len() {
        0 => "null".to_owned(),
        count => format!("{count:08x}{}", parts.concat()),
    }
}
