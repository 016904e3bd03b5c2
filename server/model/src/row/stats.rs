//! What an operand says of itself to the run or memtable that holds it.

use super::cell::{Cell, Deletion, Expiry, Lifetime};
use super::decode::{Column, RowRef};
use super::error::RowError;
use super::header::Header;

/// Bounds over operands. Those of a run are the union of its operands'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// The least client timestamp; [`i64::MAX`] without any. A deletion below it hides
    /// nothing here.
    pub least_timestamp: i64,
    /// The greatest client timestamp; [`i64::MIN`] without any. Nothing here is seen under
    /// a deletion that is not below it.
    pub greatest_timestamp: i64,
    /// When the last of it was deleted or expires, in seconds since the Unix epoch;
    /// [`i64::MAX`] when something never does, [`i64::MIN`] without any.
    pub greatest_local_time_s: i64,
    /// When the first of it expires, in seconds since the Unix epoch; [`i64::MAX`] when
    /// nothing does.
    pub least_expiry_s: i64,
    /// When the last of what expires does, in seconds since the Unix epoch; [`i64::MIN`] when
    /// nothing does.
    pub greatest_expiry_s: i64,
}

impl Stats {
    /// Of no operand.
    pub const NONE: Self = Self {
        least_timestamp: i64::MAX,
        greatest_timestamp: i64::MIN,
        greatest_local_time_s: i64::MIN,
        least_expiry_s: i64::MAX,
        greatest_expiry_s: i64::MIN,
    };

    /// Of both.
    pub fn union(self, other: Self) -> Self {
        Self {
            least_timestamp: self.least_timestamp.min(other.least_timestamp),
            greatest_timestamp: self.greatest_timestamp.max(other.greatest_timestamp),
            greatest_local_time_s: self.greatest_local_time_s.max(other.greatest_local_time_s),
            least_expiry_s: self.least_expiry_s.min(other.least_expiry_s),
            greatest_expiry_s: self.greatest_expiry_s.max(other.greatest_expiry_s),
        }
    }

    fn add(&mut self, timestamp: i64, ends_s: i64) {
        *self = self.union(Self {
            least_timestamp: timestamp,
            greatest_timestamp: timestamp,
            greatest_local_time_s: ends_s,
            ..Self::NONE
        });
    }

    fn add_expiring(&mut self, timestamp: i64, Expiry { expiry_s, .. }: Expiry) {
        self.add(timestamp, expiry_s);
        self.least_expiry_s = self.least_expiry_s.min(expiry_s);
        self.greatest_expiry_s = self.greatest_expiry_s.max(expiry_s);
    }

    fn add_deletion(&mut self, deletion: Option<Deletion>) {
        if let Some(deletion) = deletion {
            self.add(deletion.timestamp, deletion.local_time_s);
        }
    }

    fn add_cell(&mut self, cell: &Cell<'_>) {
        match cell.lifetime {
            Lifetime::Permanent => self.add(cell.timestamp, i64::MAX),
            Lifetime::Expiring(expiry) => self.add_expiring(cell.timestamp, expiry),
            Lifetime::Tombstone { local_time_s } => self.add(cell.timestamp, local_time_s),
        }
    }

    fn add_row(&mut self, row: RowRef<'_>) -> Result<(), RowError> {
        self.add_deletion(row.deletion());
        if let Some(marker) = row.marker() {
            match marker.expiry {
                Some(expiry) => self.add_expiring(marker.timestamp, expiry),
                None => self.add(marker.timestamp, i64::MAX),
            }
        }
        if let Some(original) = row.original() {
            // It ends with the row, whenever that is.
            self.add(original.timestamp, i64::MIN);
        }
        for column in row.columns() {
            match column?.1 {
                Column::Cell(cell) => self.add_cell(&cell),
                Column::Collection(collection) => {
                    self.add_deletion(collection.deletion());
                    for element in collection.elements() {
                        self.add_cell(&element?.cell);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The bounds of a row operand. The greatest timestamp alone is known without reading the
/// columns: [`RowRef::greatest_timestamp`].
///
/// # Errors
/// The bytes are no row operand.
pub fn row_stats(row: &[u8]) -> Result<Stats, RowError> {
    let mut stats = Stats::NONE;
    stats.add_row(RowRef::parse(row)?)?;
    Ok(stats)
}

/// The bounds of a header operand.
///
/// # Errors
/// The bytes are no header operand.
pub fn header_stats(header: &[u8]) -> Result<Stats, RowError> {
    let header = Header::parse(header)?;
    let mut stats = Stats::NONE;
    stats.add_deletion(header.deletion());
    for range in header.ranges() {
        stats.add_deletion(Some(range.deletion));
    }
    if let Some(row) = header.static_row() {
        stats.add_row(row)?;
    }
    Ok(stats)
}
