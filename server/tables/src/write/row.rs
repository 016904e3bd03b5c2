//! The operand of a row, or of the static columns of a partition, column by column.

use ebb_model::key::KeyLayout;
use ebb_model::row::{
    Element, HeaderBuilder, ListEnd, Original, RowBuilder, RowError, list_place, parts,
};
use ebb_model::schema::Column;
use ebb_model::types::{TypeError, elements};

use super::times::WriteTimes;

/// Returns the values of a clustering as one tuple, if they cannot be decoded from the key of the row
/// (1.0 and 1.00 have the same key). Returns `None` if they can.
pub fn original_clustering<'v>(
    layout: &KeyLayout,
    values: impl Iterator<Item = &'v [u8]> + Clone,
) -> Option<Vec<u8>> {
    let mut places = values.clone().enumerate();
    let is_in_key = places.all(|(at, value)| layout.is_reconstructible(at, value));
    (!is_in_key).then(|| elements::build_tuple(values.map(Some)))
}

/// Writes the operand of a row or of static columns. The caller writes the columns by ascending id.
#[derive(Debug)]
pub struct OperandWriter<'o> {
    pub(super) row: RowBuilder<'o>,
    times: WriteTimes,
}

impl<'o> OperandWriter<'o> {
    /// Begins the operand of a row, the stored form of one write, at the end of `out`. A row with
    /// a marker, as INSERT writes it, exists even if all its columns are null. `original` is the
    /// result of [`original_clustering`]: the client's values, if the row's key does not
    /// determine them.
    pub fn row(
        times: WriteTimes,
        has_marker: bool,
        original: Option<&[u8]>,
        out: &'o mut Vec<u8>,
    ) -> Self {
        let mut row = RowBuilder::new(out, times.timestamp_us);
        if has_marker {
            row.marker(times.marker());
        }
        if let Some(bytes) = original {
            row.original(Original {
                timestamp: times.timestamp_us,
                bytes,
            });
        }
        Self { row, times }
    }

    /// Begins the operand of the static columns of a partition, which are stored in its header.
    pub fn statics(times: WriteTimes, out: &'o mut Vec<u8>) -> Self {
        let row = HeaderBuilder::new(out).static_row(times.timestamp_us);
        Self { row, times }
    }

    /// Writes a column that is stored as one cell. Without a value, deletes the cell.
    #[inline]
    pub fn cell(&mut self, column: u32, value: Option<&[u8]>) {
        self.row.cell(column, self.times.cell(value));
    }

    /// Writes a column as an assignment does: if the column has several cells, its older cells are
    /// deleted. The sort keys of a list's elements are derived from a time: here from the write's
    /// timestamp, not from the time of a request.
    ///
    /// # Errors
    /// If the value is invalid for the column's type.
    pub fn assign(&mut self, column: &Column, value: &[u8]) -> Result<(), TypeError> {
        let (id, ty) = (column.id.0, &column.ty);
        if !ty.is_multi_cell() {
            self.cell(id, Some(value));
            return Ok(());
        }
        let came_us = self.times.timestamp_us;
        let place = |at, element: &[u8]| list_place(ListEnd::Back, came_us, 0, at, element);
        self.row.begin_collection(id, self.times.older_deletion());
        for part in parts(ty, value, place)? {
            let part = part?;
            self.row.element(Element {
                path: &part.path,
                original: part.original,
                cell: self.times.cell(Some(part.value)),
            });
        }
        self.row.end_collection();
        Ok(())
    }

    /// Deletes a column: its cell, or all its elements.
    pub fn delete(&mut self, column: &Column) {
        if column.ty.is_multi_cell() {
            let deletion = self.times.deletion();
            self.row.begin_collection(column.id.0, Some(deletion));
            self.row.end_collection();
        } else {
            self.cell(column.id.0, None);
        }
    }

    /// Ends the operand.
    ///
    /// # Errors
    /// See [`RowBuilder::finish`].
    pub fn finish(self) -> Result<(), RowError> {
        self.row.finish()
    }
}
