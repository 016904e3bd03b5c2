//! Decides whether older sources can still change the result of a read.
//!
//! Greater timestamps win; among equal ones other criteria decide. So a value, an expired value or
//! a deletion is final if its timestamp is above all timestamps in the sources that are not read
//! yet.

use super::cell::Deletion;
use super::decode::Column;
use super::error::RowError;
use super::view::RowView;

impl RowView<'_> {
    /// Returns whether the part of the row that is merged so far decides the result of a read. Then
    /// the sources that are not read yet cannot change the values of `columns` (ascending ids), nor
    /// whether the row exists: neither by writes of the row nor by deletions in the partition's
    /// header. `greatest_left` is the greatest timestamp in these sources. `needs_original` is true
    /// if the reader uses the original clustering values, which may differ from those in the key:
    /// then these must be final, too.
    ///
    /// # Errors
    /// If the operand is damaged.
    pub fn is_decided(
        &self,
        columns: &[u32],
        needs_original: bool,
        greatest_left: i64,
    ) -> Result<bool, RowError> {
        if self.is_deleted_above(greatest_left) {
            return Ok(true);
        }
        let original = self.row().original();
        if needs_original && original.is_none_or(|one| one.timestamp <= greatest_left) {
            return Ok(false);
        }
        // An expired marker decides nothing: columns that are not requested may still make the row
        // exist.
        let mut exists = (self.marker()).is_some_and(|marker| marker.timestamp > greatest_left);
        let decided = self.each_decided(columns, greatest_left, &mut exists)?;
        Ok(decided && exists)
    }

    /// Returns whether the part of a static row that is merged so far decides the values of
    /// `columns` (ascending ids). Then the sources that are not read yet cannot change these
    /// values, neither by writes of the row nor by deletions in the partition's header.
    /// `greatest_left` is the greatest timestamp in these sources. Unlike
    /// [`is_decided`](Self::is_decided), does not ask whether the row exists, because no reader
    /// needs that of a static row.
    ///
    /// # Errors
    /// If the operand is damaged.
    pub fn are_columns_decided(
        &self,
        columns: &[u32],
        greatest_left: i64,
    ) -> Result<bool, RowError> {
        Ok(self.is_deleted_above(greatest_left)
            || self.each_decided(columns, greatest_left, &mut false)?)
    }

    /// Returns whether the row has a deletion with a timestamp above `greatest_left`, the greatest
    /// in the sources that are not read yet. Such a deletion hides all writes in those sources.
    fn is_deleted_above(&self, greatest_left: i64) -> bool {
        let is_above = |deletion: Deletion| deletion.timestamp > greatest_left;
        self.deletion().is_some_and(is_above)
    }

    /// Returns whether each of the columns is final: operands with timestamps up to `greatest_left`
    /// cannot change it. Sets `exists` to true if one of the columns has a live value. Stops at the
    /// first column that is not final.
    fn each_decided(
        &self,
        columns: &[u32],
        greatest_left: i64,
        exists: &mut bool,
    ) -> Result<bool, RowError> {
        let mut requested = columns;
        let mut found = self.row().columns();
        while let Some((first, rest)) = requested.split_first() {
            let Some((id, column)) = found.next().transpose()? else {
                return Ok(false);
            };
            if id < *first {
                continue;
            }
            let is_decided = id == *first
                && match &column {
                    Column::Cell(cell) => cell.timestamp > greatest_left,
                    // Only above the collection's deletion is the set of its elements final.
                    Column::Collection(collection) => (collection.deletion())
                        .is_some_and(|deletion| deletion.timestamp > greatest_left),
                };
            if !is_decided {
                return Ok(false);
            }
            *exists = *exists || self.live(id, column)?.is_some();
            requested = rest;
        }
        Ok(true)
    }
}
