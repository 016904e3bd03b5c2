//! Random writes, as facts for the model and as operands. The ranges of values are so small that
//! ties are common.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::super::*;
use super::model::{Fact, HeaderFact, Value, VisibleRow, VisibleValue};

/// The ids of the columns with a single value. Each id is encoded as its distance from the previous
/// one, and the last one is so far away that its distance does not fit into the tag byte.
pub(super) const SIMPLE: [u32; 4] = [0, 1, 17, 4_000_000_000];
pub(super) const COLLECTIONS: [u32; 3] = [2, 16, 900];

/// A range of random timestamps: the first one, and their number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timestamps {
    pub(super) from: i64,
    pub(super) count: i64,
}

impl Timestamps {
    pub(super) fn some(rng: &mut Rng) -> Self {
        let from = rng
            .choice([0, -3, 1_700_000_000_000_000, i64::MIN + 1, i64::MAX - 40])
            .expect("there are some");
        Self { from, count: 8 }
    }

    pub(super) fn one(self, rng: &mut Rng) -> i64 {
        self.from + rng.i64(0..self.count)
    }
}

pub(super) fn time_s(rng: &mut Rng) -> i64 {
    rng.i64(0..20)
}

fn deletion(rng: &mut Rng, timestamps: Timestamps) -> Deletion {
    Deletion {
        timestamp: timestamps.one(rng),
        local_time_s: time_s(rng),
    }
}

fn expiry(rng: &mut Rng) -> Expiry {
    Expiry {
        ttl_s: rng.u32(1..4),
        expiry_s: time_s(rng),
    }
}

fn bytes(rng: &mut Rng) -> Vec<u8> {
    rng.choice([&b""[..], b"a", b"ab", b"\xff", &[7; 300]])
        .expect("there are some")
        .to_vec()
}

pub(super) fn path(rng: &mut Rng) -> Vec<u8> {
    rng.choice([&b""[..], b"k", b"kk", b"l", b"\x00\x01"])
        .expect("there are some")
        .to_vec()
}

pub(super) fn clustering(rng: &mut Rng) -> Vec<u8> {
    (0..rng.usize(0..3)).map(|_| rng.u8(0..4)).collect()
}

fn value(rng: &mut Rng, timestamps: Timestamps, with_original: bool) -> Value {
    let timestamp = timestamps.one(rng);
    let kind = rng.u8(0..4);
    Value {
        timestamp,
        deleted_s: (kind == 0).then(|| time_s(rng)),
        expiry: (kind == 1).then(|| expiry(rng)),
        bytes: if kind == 0 { Vec::new() } else { bytes(rng) },
        original: (with_original && rng.u8(0..4) == 0).then(|| bytes(rng)),
    }
}

/// Returns the changes that one random write makes in a row, at most one for each cell.
pub(super) fn row_facts(rng: &mut Rng, timestamps: Timestamps) -> Vec<Fact> {
    let mut facts = Vec::new();
    if rng.u8(0..5) == 0 {
        facts.push(Fact::RowDeletion(deletion(rng, timestamps)));
    }
    if rng.u8(0..3) == 0 {
        let expires = rng.bool();
        facts.push(Fact::Marker(
            timestamps.one(rng),
            expires.then(|| expiry(rng)),
        ));
    }
    if rng.u8(0..5) == 0 {
        facts.push(Fact::Original(timestamps.one(rng), bytes(rng)));
    }
    for column in SIMPLE {
        if rng.u8(0..3) == 0 {
            facts.push(Fact::Cell(column, value(rng, timestamps, false)));
        }
    }
    for column in COLLECTIONS {
        if rng.u8(0..3) == 0 {
            facts.push(Fact::CollectionDeletion(column, deletion(rng, timestamps)));
        }
        if rng.bool() {
            let mut paths: Vec<_> = (0..rng.usize(0..4)).map(|_| path(rng)).collect();
            paths.sort();
            paths.dedup();
            for path in paths {
                facts.push(Fact::Element(column, path, value(rng, timestamps, true)));
            }
        }
    }
    facts
}

/// Returns the changes that one random write makes in the header of a partition: its deletions and
/// its static row.
pub(super) fn header_facts(rng: &mut Rng, timestamps: Timestamps) -> Vec<HeaderFact> {
    let mut facts = Vec::new();
    if rng.u8(0..5) == 0 {
        facts.push(HeaderFact::Deletion(deletion(rng, timestamps)));
    }
    for _ in 0..rng.usize(0..4) {
        let start = clustering(rng);
        let end = (rng.u8(0..4) > 0).then(|| clustering(rng));
        // An empty end cannot be encoded: it would lie before all clusterings.
        let range = HeaderFact::Range(
            start,
            end.filter(|end| !end.is_empty()),
            deletion(rng, timestamps),
        );
        facts.push(range);
    }
    if rng.u8(0..3) == 0 {
        facts.extend(
            row_facts(rng, timestamps)
                .into_iter()
                .map(HeaderFact::Static),
        );
    }
    facts
}

fn timestamp(fact: &Fact) -> i64 {
    match fact {
        Fact::RowDeletion(deletion) | Fact::CollectionDeletion(_, deletion) => deletion.timestamp,
        Fact::Marker(timestamp, _) | Fact::Original(timestamp, _) => *timestamp,
        Fact::Cell(_, value) | Fact::Element(_, _, value) => value.timestamp,
    }
}

fn cell(value: &Value) -> Cell<'_> {
    Cell {
        timestamp: value.timestamp,
        lifetime: match (value.deleted_s, value.expiry) {
            (Some(local_time_s), _) => Lifetime::Tombstone { local_time_s },
            (None, Some(expiry)) => Lifetime::Expiring(expiry),
            (None, None) => Lifetime::Permanent,
        },
        value: &value.bytes,
    }
}

/// One collection: its deletion and its elements.
type CollectionParts<'f> = (Option<Deletion>, Vec<(&'f Vec<u8>, &'f Value)>);

fn fill(row: &mut RowBuilder<'_>, facts: &[Fact]) {
    let mut cells = BTreeMap::new();
    let mut collections: BTreeMap<u32, CollectionParts<'_>> = BTreeMap::new();
    for fact in facts {
        match fact {
            Fact::RowDeletion(deletion) => row.deletion(*deletion),
            Fact::Marker(timestamp, expiry) => row.marker(Marker {
                timestamp: *timestamp,
                expiry: *expiry,
            }),
            Fact::Original(timestamp, bytes) => row.original(Original {
                timestamp: *timestamp,
                bytes,
            }),
            Fact::Cell(column, value) => {
                cells.insert(*column, value);
            }
            Fact::CollectionDeletion(column, deletion) => {
                collections.entry(*column).or_default().0 = Some(*deletion);
            }
            Fact::Element(column, path, value) => {
                collections
                    .entry(*column)
                    .or_default()
                    .1
                    .push((path, value));
            }
        }
    }
    let mut columns: Vec<u32> = cells.keys().chain(collections.keys()).copied().collect();
    columns.sort_unstable();
    for column in columns {
        if let Some(value) = cells.get(&column) {
            row.cell(column, cell(value));
            continue;
        }
        let (deletion, elements) = &collections[&column];
        row.begin_collection(column, *deletion);
        for (path, value) in elements {
            row.element(Element {
                path,
                original: value.original.as_deref(),
                cell: cell(value),
            });
        }
        row.end_collection();
    }
}

/// Encodes one write of a row: the writes of its cells, markers and deletions in `facts`.
pub(super) fn row_operand(facts: &[Fact]) -> Vec<u8> {
    let greatest = facts.iter().map(timestamp).max().unwrap_or(i64::MIN);
    let mut out = Vec::new();
    let mut row = RowBuilder::new(&mut out, greatest);
    fill(&mut row, facts);
    row.finish().unwrap();
    out
}

/// Encodes one write to the header of a partition: the deletions and the writes of static cells in
/// `facts`.
pub(super) fn header_operand(facts: &[HeaderFact]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut header = HeaderBuilder::new(&mut out);
    let mut ranges = Vec::new();
    let mut row = Vec::new();
    for fact in facts {
        match fact {
            HeaderFact::Deletion(deletion) => header.deletion(*deletion),
            HeaderFact::Range(start, end, deletion) => ranges.push(RangeDeletion {
                start,
                end: end.as_deref(),
                deletion: *deletion,
            }),
            HeaderFact::Static(fact) => row.push(fact.clone()),
        }
    }
    header.ranges(&ranges).unwrap();
    if !row.is_empty() {
        let greatest = row.iter().map(timestamp).max().unwrap();
        let mut builder = header.static_row(greatest);
        fill(&mut builder, &row);
        builder.finish().unwrap();
    }
    out
}

/// Converts a view to the model's form. All ways to read the view must agree.
pub(super) fn row_of_view(view: &RowView<'_>) -> VisibleRow {
    let mut requested = [SIMPLE.as_slice(), &COLLECTIONS].concat();
    requested.sort_unstable();
    let mut row = VisibleRow {
        live: view.is_live(None).unwrap(),
        marker: view.marker().map(|marker| marker.timestamp),
        original: view.original_clustering().map(<[u8]>::to_vec),
        ..VisibleRow::default()
    };
    assert_eq!(view.is_live(Some(&requested)).unwrap(), row.live);
    let own = |cell: LiveCell<'_>, original: Option<&[u8]>| -> VisibleValue {
        (
            cell.value.to_vec(),
            cell.writetime,
            cell.ttl_s,
            original.map(<[u8]>::to_vec),
        )
    };
    for live in view.columns(&requested) {
        match live.unwrap() {
            (id, LiveColumn::Cell(cell)) => {
                assert_eq!(view.cell(id).unwrap(), Some(cell));
                row.cells.insert(id, own(cell, None));
            }
            (id, LiveColumn::Collection(collection)) => {
                let mut elements = BTreeMap::new();
                for element in collection.elements() {
                    let element = element.unwrap();
                    assert_eq!(collection.element(element.path).unwrap(), Some(element));
                    elements.insert(element.path.to_vec(), own(element.cell, element.original));
                }
                row.collections.insert(id, elements);
            }
        }
    }
    for id in requested {
        let shown = row.cells.contains_key(&id) || row.collections.contains_key(&id);
        assert_eq!(view.column(id).unwrap().is_some(), shown);
    }
    row
}
