//! The sources of rows: a table of the store at one instant, or computed rows.

use std::iter;
use std::ops::Bound;

use bytes::Bytes;
use ebb_model::row::{Cell, Lifetime, Marker, RowBuilder};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_storage::{Cache, Entries, Entry, FoundSoFar, TableReader};

use crate::error::{Result, of_row, of_store};
use crate::system::VirtualRow;

/// Headers and rows as operands, by keys of the engine, at one instant.
#[derive(Debug, Clone, Copy)]
pub enum Source<'s> {
    /// A table of the store, and the use of the block cache by its ranges.
    Stored(&'s dyn TableReader, Cache),
    /// Computed rows, in the order of their keys.
    Memory(&'s [Entry]),
}

impl<'s> Source<'s> {
    /// When it judges what expires, in seconds since 1970.
    pub fn read_time_s(&self, now_us: i64) -> i64 {
        match self {
            Self::Stored(reader, _) => {
                i64::try_from(reader.read_time_ms() / 1000).unwrap_or(i64::MAX)
            }
            Self::Memory(_) => now_us.div_euclid(1_000_000),
        }
    }

    /// The operand of a key.
    ///
    /// # Errors
    /// As the store.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        match self {
            Self::Stored(reader, _) => reader.get(key).map_err(of_store),
            Self::Memory(rows) => {
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
        match self {
            Self::Stored(reader, _) => {
                let found = reader.get_many_until(&keys, enough).map_err(of_store)?;
                let mut found = found.into_iter();
                Ok([(); 2].map(|()| found.next().flatten()))
            }
            Self::Memory(_) => Ok([self.get(keys[0])?, self.get(keys[1])?]),
        }
    }

    /// The keys and operands from `from` to before `to`, in their order or against it.
    ///
    /// # Errors
    /// If the store cannot open the range, or read an entry.
    pub fn range(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        reversed: bool,
    ) -> Result<impl Iterator<Item = Result<Entry>> + use<'s>> {
        let mut entries = match self {
            Self::Stored(reader, cache) => {
                let to = to.map_or(Bound::Unbounded, Bound::Excluded);
                let entries = reader.range(Bound::Included(from), to, *cache);
                entries.map_err(of_store)?
            }
            Self::Memory(rows) => {
                let start = rows.partition_point(|(key, _)| key[..] < *from);
                let end = to.map_or(rows.len(), |to| {
                    rows.partition_point(|(key, _)| key[..] < *to)
                });
                Entries::Memory(rows[start..end.max(start)].iter())
            }
        };
        Ok(iter::from_fn(move || {
            let entry = if reversed {
                entries.next_back()
            } else {
                entries.next()
            };
            entry.map(|entry| entry.map_err(of_store))
        }))
    }
}

/// Returns the rows of a virtual table as keys and operands, in the order of the keys.
///
/// # Errors
/// If a value does not fit its column.
pub fn computed_rows(schema: &TableSchema, rows: Vec<VirtualRow>) -> Result<Vec<Entry>> {
    let row = |row: VirtualRow| Ok((row.key.into(), operand(schema, &row.cells)?));
    rows.into_iter().map(row).collect()
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
