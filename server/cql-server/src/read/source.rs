//! Where rows come from: a table now, a table at a snapshot, or a computed one.

use bytes::Bytes;
use ebb_model::row::{Cell, Lifetime, Marker, RowBuilder};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_storage::{FoundSoFar, Range, SnapshotTable, Table, View};

use crate::error::{Result, of_row, of_store};
use crate::system::VirtualRow;

/// Headers and rows as operands, by keys of the engine, at one instant.
#[derive(Debug)]
pub enum Source<'s> {
    /// A table now.
    Live(&'s Table, View),
    /// A table as a snapshot has it, which was created so many milliseconds after 1970.
    Snapshot(SnapshotTable, u64),
    /// Rows that were computed, in the order of their keys.
    Computed(Vec<(Bytes, Bytes)>),
}

impl Source<'_> {
    /// The rows of a virtual table, in the order of their keys.
    ///
    /// # Errors
    /// Where a value is none of its column.
    pub fn computed(schema: &TableSchema, rows: Vec<VirtualRow>) -> Result<Self> {
        let row = |row: VirtualRow| Ok((row.key.into(), operand(schema, &row.cells)?));
        let rows = rows.into_iter().map(row).collect::<Result<_>>()?;
        Ok(Self::Computed(rows))
    }

    /// When it judges what expires, in seconds since 1970.
    pub fn read_time_s(&self, now_us: i64) -> i64 {
        let of = |ms: u64| i64::try_from(ms / 1000).unwrap_or(i64::MAX);
        match self {
            Self::Live(_, view) => of(view.read_time_ms()),
            Self::Snapshot(_, read_time_ms) => of(*read_time_ms),
            Self::Computed(_) => now_us.div_euclid(1_000_000),
        }
    }

    /// The operand of a key.
    ///
    /// # Errors
    /// As the store.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        match self {
            Self::Live(table, view) => view.get(table, key).map_err(of_store),
            Self::Snapshot(table, _) => table.get(key).map_err(of_store),
            Self::Computed(rows) => {
                let found = rows.binary_search_by(|(k, _)| k[..].cmp(key));
                Ok(found.ok().map(|at| rows[at].1.clone()))
            }
        }
    }

    /// The operands of two keys, the first of which is the smaller one, or as much of them
    /// as is `enough`.
    ///
    /// # Errors
    /// As the store.
    pub fn get_both(
        &self,
        keys: [&[u8]; 2],
        enough: &dyn Fn(&FoundSoFar<'_>) -> bool,
    ) -> Result<[Option<Bytes>; 2]> {
        let found = match self {
            Self::Live(table, view) => view.get_many_until(table, &keys, enough),
            Self::Snapshot(table, _) => table.get_many_until(&keys, enough),
            Self::Computed(_) => return Ok([self.get(keys[0])?, self.get(keys[1])?]),
        };
        let mut found = found.map_err(of_store)?.into_iter();
        Ok([(); 2].map(|()| found.next().flatten()))
    }

    /// The operands of keys from `from` to before `to`, in their order or against it.
    pub fn range(&self, from: &[u8], to: Option<&[u8]>, reversed: bool) -> Entries<'_> {
        use std::ops::Bound;
        let bounds = || -> (Bound<&[u8]>, Bound<&[u8]>) {
            let to = to.map_or(Bound::Unbounded, Bound::Excluded);
            (Bound::Included(from), to)
        };
        match self {
            Self::Live(table, view) => {
                Entries::Stored(Box::new(view.range::<&[u8], _>(table, bounds())), reversed)
            }
            Self::Snapshot(table, _) => {
                Entries::Stored(Box::new(table.scan::<&[u8], _>(bounds())), reversed)
            }
            Self::Computed(rows) => {
                let start = rows.partition_point(|(key, _)| key[..] < *from);
                let end = to.map_or(rows.len(), |to| {
                    rows.partition_point(|(key, _)| key[..] < *to)
                });
                Entries::Computed(&rows[start..end.max(start)], reversed)
            }
        }
    }
}

/// Iterates over keys and operands.
#[derive(Debug)]
pub enum Entries<'s> {
    /// Of the store.
    Stored(Box<Range>, bool),
    /// Those that are left.
    Computed(&'s [(Bytes, Bytes)], bool),
}

impl Iterator for Entries<'_> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Stored(range, false) => range.next().map(|entry| entry.map_err(of_store)),
            Self::Stored(range, true) => range.next_back().map(|entry| entry.map_err(of_store)),
            Self::Computed(rows, reversed) => {
                let (one, rest) = match reversed {
                    false => rows.split_first()?,
                    true => rows.split_last()?,
                };
                *rows = rest;
                Some(Ok(one.clone()))
            }
        }
    }
}

/// A computed row as an operand.
fn operand(schema: &TableSchema, values: &[Option<Bytes>]) -> Result<Bytes> {
    let mut cells: Vec<(u32, &Bytes)> = (schema.columns().iter().zip(values))
        .filter(|(column, _)| column.kind == ColumnKind::Regular)
        .filter_map(|(column, value)| Some((column.id.0, value.as_ref()?)))
        .collect();
    cells.sort_unstable_by_key(|(id, _)| *id);
    let mut out = Vec::new();
    let mut row = RowBuilder::new(&mut out, 0);
    row.marker(Marker {
        timestamp: 0,
        expiry: None,
    });
    for (id, value) in cells {
        row.cell(
            id,
            Cell {
                timestamp: 0,
                lifetime: Lifetime::Permanent,
                value,
            },
        );
    }
    row.finish().map_err(of_row)?;
    Ok(out.into())
}
