//! The statistics of an operand, for the run or memtable that contains it.

use super::cell::{Cell, Deletion, Expiry, Lifetime};
use super::decode::{Column, RowRef};
use super::error::RowError;
use super::header::Header;

/// Bounds of the clients' timestamps, and of the times of deletions and expiries, in some operands
/// (encoded writes of rows and partition headers). The bounds of a run are the union of those of
/// its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// The least client timestamp; [`i64::MAX`] without operands. A deletion below this timestamp
    /// hides nothing in the operands.
    pub least_timestamp: i64,
    /// The greatest client timestamp; [`i64::MIN`] without operands. A deletion at or above this
    /// timestamp hides everything in the operands.
    pub greatest_timestamp: i64,
    /// The latest time at which any content was deleted or expires, in seconds since the Unix
    /// epoch; [`i64::MAX`] if some content never expires, [`i64::MIN`] without operands.
    pub greatest_local_time_s: i64,
    /// The first expiry, in seconds since the Unix epoch; [`i64::MAX`] if nothing expires.
    pub least_expiry_s: i64,
    /// The last expiry, in seconds since the Unix epoch; [`i64::MIN`] if nothing expires.
    pub greatest_expiry_s: i64,
}

impl Stats {
    /// The bounds without any operands, which change nothing in a union.
    pub const NONE: Self = Self {
        least_timestamp: i64::MAX,
        greatest_timestamp: i64::MIN,
        greatest_local_time_s: i64::MIN,
        least_expiry_s: i64::MAX,
        greatest_expiry_s: i64::MIN,
    };

    /// Returns the bounds of the operands of `self` and `other` together.
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
            // The original clustering goes with the row, whenever that is.
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

/// Returns the bounds of the timestamps and times in a row operand (an encoded write of a row).
/// [`RowRef::greatest_timestamp`] is cheaper, because it does not decode the columns.
///
/// # Errors
/// If the bytes are not a row operand.
pub fn row_stats(row: &[u8]) -> Result<Stats, RowError> {
    let mut stats = Stats::NONE;
    stats.add_row(RowRef::parse(row)?)?;
    Ok(stats)
}

/// Returns the bounds of the timestamps and times in a header operand (an encoded write to the
/// deletions and the static row of a partition).
///
/// # Errors
/// If the bytes are not a header operand.
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
