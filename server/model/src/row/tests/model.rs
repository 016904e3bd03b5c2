//! Cassandra's rules, plain and slow: the model keeps everything ever written, and each query
//! evaluates all of it. It merges, drops and encodes nothing.

use std::collections::BTreeMap;

use super::super::{Deletion, Expiry};

/// One write of a cell or of an element of a collection: a value or a tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) timestamp: i64,
    /// The server's time of the deletion, for a tombstone.
    pub(super) deleted_s: Option<i64>,
    pub(super) expiry: Option<Expiry>,
    pub(super) bytes: Vec<u8>,
    pub(super) original: Option<Vec<u8>>,
}

/// One change of one row by one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fact {
    RowDeletion(Deletion),
    Marker(i64, Option<Expiry>),
    Original(i64, Vec<u8>),
    Cell(u32, Value),
    CollectionDeletion(u32, Deletion),
    Element(u32, Vec<u8>, Value),
}

/// One change of a partition's header by one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HeaderFact {
    Deletion(Deletion),
    Range(Vec<u8>, Option<Vec<u8>>, Deletion),
    Static(Fact),
}

/// A live value: bytes, writetime, ttl, and the key of the collection's element as the client wrote
/// it, if that differs from the stored form.
pub(super) type VisibleValue = (Vec<u8>, i64, Option<i64>, Option<Vec<u8>>);

/// The live content of a row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct VisibleRow {
    pub(super) live: bool,
    pub(super) marker: Option<i64>,
    pub(super) cells: BTreeMap<u32, VisibleValue>,
    pub(super) collections: BTreeMap<u32, BTreeMap<Vec<u8>, VisibleValue>>,
    /// The clustering as the client wrote it, if it cannot be decoded from the key. It makes no row
    /// live: it is a form of the key, and each write of content writes it, too.
    pub(super) original: Option<Vec<u8>>,
}

/// Returns the winner among all values of one cell. Each rule narrows down the candidates.
fn winner<'v>(values: &[&'v Value]) -> Option<&'v Value> {
    fn keep_greatest<K: Ord>(left: &mut Vec<&Value>, key: impl Fn(&Value) -> K) {
        let Some(greatest) = left.iter().map(|value| key(value)).max() else {
            return;
        };
        left.retain(|value| key(value) == greatest);
    }
    let mut left = values.to_vec();
    keep_greatest(&mut left, |value| value.timestamp);
    // A tombstone or an expiring value hides a permanent one.
    keep_greatest(&mut left, |value| {
        value.deleted_s.is_some() || value.expiry.is_some()
    });
    keep_greatest(&mut left, |value| value.deleted_s.is_some());
    // Cassandra's local deletion time: the time of a tombstone, or the expiry.
    keep_greatest(&mut left, |value| {
        value
            .deleted_s
            .or(value.expiry.map(|expiry| expiry.expiry_s))
    });
    keep_greatest(&mut left, |value| value.bytes.clone());
    // Cassandra takes the first argument here.
    keep_greatest(&mut left, |value| {
        value.expiry.map(|expiry| -i64::from(expiry.ttl_s))
    });
    keep_greatest(&mut left, |value| value.original.clone());
    left.first().copied()
}

fn visible_value(value: &Value, deletion: Option<i64>, now_s: i64) -> Option<VisibleValue> {
    let shadowed = deletion.is_some_and(|deletion| value.timestamp <= deletion);
    let over = value.deleted_s.is_some() || value.expiry.is_some_and(|e| e.expiry_s <= now_s);
    (!shadowed && !over).then(|| {
        (
            value.bytes.clone(),
            value.timestamp,
            value.expiry.map(|expiry| expiry.expiry_s - now_s),
            value.original.clone(),
        )
    })
}

/// Returns the greatest timestamp of the deletions that cover the row of this clustering.
pub(super) fn deleted_above(header: &[HeaderFact], clustering: &[u8]) -> Option<i64> {
    let timestamps = header.iter().filter_map(|fact| match fact {
        HeaderFact::Deletion(deletion) => Some(deletion.timestamp),
        HeaderFact::Range(start, end, deletion) => {
            let after_start = clustering >= &start[..];
            let before_end = end.as_ref().is_none_or(|end| clustering < &end[..]);
            (after_start && before_end).then_some(deletion.timestamp)
        }
        HeaderFact::Static(_) => None,
    });
    timestamps.max()
}

/// Returns the facts of the static row, and the timestamp of the partition's latest deletion, which
/// covers it.
pub(super) fn static_row(header: &[HeaderFact]) -> (Vec<Fact>, Option<i64>) {
    let facts = header.iter().filter_map(|fact| match fact {
        HeaderFact::Static(fact) => Some(fact.clone()),
        _ => None,
    });
    let deletions = header.iter().filter_map(|fact| match fact {
        HeaderFact::Deletion(deletion) => Some(deletion.timestamp),
        _ => None,
    });
    (facts.collect(), deletions.max())
}

/// Returns the live content of a row at the time `now_s`. `above` is the timestamp of the latest
/// deletion of its partition or of a range that contains it.
pub(super) fn visible_row(facts: &[Fact], above: Option<i64>, now_s: i64) -> VisibleRow {
    let mut row_deletion = above;
    for fact in facts {
        if let Fact::RowDeletion(deletion) = fact {
            row_deletion = row_deletion.max(Some(deletion.timestamp));
        }
    }
    let mut seen = VisibleRow::default();

    let markers: Vec<Value> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Marker(timestamp, expiry) => Some(Value {
                timestamp: *timestamp,
                deleted_s: None,
                expiry: *expiry,
                bytes: Vec::new(),
                original: None,
            }),
            _ => None,
        })
        .collect();
    let marker = winner(&markers.iter().collect::<Vec<_>>());
    seen.marker = marker
        .and_then(|marker| visible_value(marker, row_deletion, now_s))
        .map(|(_, timestamp, ..)| timestamp);

    let originals = facts.iter().filter_map(|fact| match fact {
        Fact::Original(timestamp, bytes) => Some((*timestamp, bytes.clone())),
        _ => None,
    });
    // Not `winner`, whose rules are for values that expire or are tombstones. Of equal timestamps
    // the greater bytes win: see `Original`.
    seen.original = originals
        .max()
        .filter(|(timestamp, _)| row_deletion.is_none_or(|deletion| *timestamp > deletion))
        .map(|(_, bytes)| bytes);

    let mut cells: BTreeMap<u32, Vec<&Value>> = BTreeMap::new();
    let mut elements: BTreeMap<(u32, &Vec<u8>), Vec<&Value>> = BTreeMap::new();
    for fact in facts {
        match fact {
            Fact::Cell(column, value) => cells.entry(*column).or_default().push(value),
            Fact::Element(column, path, value) => {
                elements.entry((*column, path)).or_default().push(value);
            }
            _ => {}
        }
    }
    for (column, values) in cells {
        let cell = winner(&values).and_then(|value| visible_value(value, row_deletion, now_s));
        seen.cells.extend(cell.map(|cell| (column, cell)));
    }
    for ((column, path), values) in elements {
        let mut deletion = row_deletion;
        for fact in facts {
            if let Fact::CollectionDeletion(of, collection) = fact
                && *of == column
            {
                deletion = deletion.max(Some(collection.timestamp));
            }
        }
        if let Some(element) =
            winner(&values).and_then(|value| visible_value(value, deletion, now_s))
        {
            let collection = seen.collections.entry(column).or_default();
            collection.insert(path.clone(), element);
        }
    }
    seen.live = seen.marker.is_some() || !seen.cells.is_empty() || !seen.collections.is_empty();
    seen
}
