//! Whether what was found of a row already says what its reader sees, whatever is found
//! of it in older places.
//!
//! Greater timestamps win, and among equal ones more than timestamps counts. So what has a
//! timestamp above all that is left stands, be it a value, one that expired or a deletion.

use super::cell::Deletion;
use super::decode::Column;
use super::error::RowError;
use super::view::RowView;

impl RowView<'_> {
    /// Whether a reader of these columns, ascending, sees the same of the row and of its
    /// existence whatever more is merged into row and header, none of it with a timestamp
    /// above `greatest_left`. `needs_original` says that it looks at the clustering as it
    /// was written, which may be other than the key says.
    ///
    /// # Errors
    /// The operand is damaged.
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
        // A marker that expired says nothing of the columns that nobody asked for.
        let mut exists = (self.marker()).is_some_and(|marker| marker.timestamp > greatest_left);
        let decided = self.each_decided(columns, greatest_left, &mut exists)?;
        Ok(decided && exists)
    }

    /// The same of the columns alone: for a static row, which nobody asks whether it exists.
    ///
    /// # Errors
    /// The operand is damaged.
    pub fn are_columns_decided(
        &self,
        columns: &[u32],
        greatest_left: i64,
    ) -> Result<bool, RowError> {
        Ok(self.is_deleted_above(greatest_left)
            || self.each_decided(columns, greatest_left, &mut false)?)
    }

    /// Whether all that is left is deleted.
    fn is_deleted_above(&self, greatest_left: i64) -> bool {
        let is_above = |deletion: Deletion| deletion.timestamp > greatest_left;
        self.deletion().is_some_and(is_above)
    }

    /// Whether each of the columns is; `exists` becomes true when one of them has a value.
    fn each_decided(
        &self,
        columns: &[u32],
        greatest_left: i64,
        exists: &mut bool,
    ) -> Result<bool, RowError> {
        let mut wanted = columns;
        let mut found = self.row().columns();
        while let Some((first, rest)) = wanted.split_first() {
            let Some((id, column)) = found.next().transpose()? else {
                return Ok(false);
            };
            if id < *first {
                continue;
            }
            let is_decided = id == *first
                && match &column {
                    Column::Cell(cell) => cell.timestamp > greatest_left,
                    // Which elements there are is known above its deletion only.
                    Column::Collection(collection) => (collection.deletion())
                        .is_some_and(|deletion| deletion.timestamp > greatest_left),
                };
            if !is_decided {
                return Ok(false);
            }
            *exists = *exists || self.live(id, column)?.is_some();
            wanted = rest;
        }
        Ok(true)
    }
}
