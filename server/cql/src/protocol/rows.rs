//! Rows: written cell by cell into the connection's buffer, and read in place.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::columns::{Columns, HAS_MORE_PAGES, METADATA_CHANGED, NO_METADATA};
use super::fault::{ProtocolError, Result};
use super::reader::Reader;
use super::request::QueryParameters;
use super::response::result_kind;
use super::version::Version;
use super::writer;

/// Determines whether a result contains the names and types of its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metadata {
    Full,
    /// Only the number of columns, because the client has their names and types.
    Skipped,
    /// All columns, with the id of this metadata, because the client has metadata with another id.
    /// Since version 5 of the protocol.
    Changed,
}

impl Metadata {
    /// Returns the metadata for a result with `columns`. It is `Changed` if the client sent the id
    /// of other columns. It is `Skipped` if the request allows that and the client has the columns:
    /// it sent their id or, without an id, they equal `prepared`, the columns at the time of
    /// PREPARE. Otherwise it is `Full`.
    pub fn of(
        parameters: &QueryParameters<'_>,
        prepared: Option<&Columns>,
        columns: &Columns,
    ) -> Self {
        let is_known = match parameters.result_metadata_id {
            Some(id) if id != columns.id() => return Self::Changed,
            Some(_) => true,
            None => prepared == Some(columns),
        };
        if parameters.skip_metadata && is_known {
            Self::Skipped
        } else {
            Self::Full
        }
    }
}

/// Writes a RESULT of kind Rows directly into a buffer, within an open frame.
///
/// ```text
/// kind  flags  columns  [paging state]  [new id]  [columns' names and types]  rows  cells ...
/// ```
///
/// Flags and the number of rows are set at the end. So is the paging state, which is unknown until the
/// page ends: the rows then move to make room for it. A result without a paging state is never moved,
/// and nothing is allocated except for the growth of the buffer.
#[derive(Debug)]
pub struct RowsWriter<'a> {
    out: &'a mut BytesMut,
    flags_at: usize,
    specs_at: usize,
    rows_at: usize,
    columns: usize,
    cells_in_row: usize,
    rows: u32,
}

impl<'a> RowsWriter<'a> {
    /// Appends the start of the body, up to the first row, as `version` encodes it. `metadata`
    /// determines whether the body contains the names and types of the columns.
    pub fn new(
        out: &'a mut BytesMut,
        columns: &Columns,
        metadata: Metadata,
        version: Version,
    ) -> Self {
        out.put_i32(result_kind::ROWS);
        let flags_at = out.len();
        out.put_i32(match metadata {
            Metadata::Full => columns.flags(),
            Metadata::Skipped => NO_METADATA,
            Metadata::Changed => columns.flags() | METADATA_CHANGED,
        });
        out.put_i32(columns.len() as i32);
        let specs_at = out.len();
        if metadata == Metadata::Changed {
            writer::short_bytes(out, &columns.id());
        }
        if metadata != Metadata::Skipped {
            columns.write_specs(out, version);
        }
        let rows_at = out.len();
        out.put_i32(0);
        Self {
            out,
            flags_at,
            specs_at,
            rows_at,
            columns: columns.len(),
            cells_in_row: 0,
            rows: 0,
        }
    }

    /// Writes the next cell of the row; `None` is a null.
    ///
    /// # Panics
    /// If the row already has all its cells, or the value has 2 GiB or more.
    pub fn cell(&mut self, value: Option<&[u8]>) {
        assert!(
            self.cells_in_row < self.columns,
            "a row has a cell a column"
        );
        self.cells_in_row += 1;
        writer::bytes(self.out, value);
    }

    /// Ends the row.
    ///
    /// # Panics
    /// If cells are missing, or there are more than 2^31 - 1 rows.
    pub fn end_row(&mut self) {
        assert_eq!(self.cells_in_row, self.columns, "a row has a cell a column");
        self.cells_in_row = 0;
        self.rows += 1;
        assert!(self.rows <= i32::MAX as u32, "a page has less rows");
    }

    /// Returns the number of completed rows.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the number of bytes of all cells so far, without the bytes before the first row.
    pub fn bytes(&self) -> usize {
        self.out.len() - self.rows_at - 4
    }

    /// Ends the result. A paging state means that there are more pages.
    ///
    /// # Panics
    /// If the last row is incomplete.
    pub fn finish(self, paging_state: Option<&[u8]>) {
        assert_eq!(self.cells_in_row, 0, "the last row is ended");
        patch(self.out, self.rows_at, self.rows as i32);
        let Some(state) = paging_state else {
            return;
        };
        let mut flags = &self.out[self.flags_at..];
        let flags = flags.get_i32() | HAS_MORE_PAGES;
        patch(self.out, self.flags_at, flags);
        let end = self.out.len();
        writer::bytes(self.out, Some(state));
        let moved = self.out.len() - end;
        self.out[self.specs_at..].rotate_right(moved);
    }
}

fn patch(out: &mut BytesMut, at: usize, number: i32) {
    out[at..at + 4].copy_from_slice(&number.to_be_bytes());
}

/// The rows of a received RESULT. The cells stay encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// The columns; `None` if the response omits them.
    pub columns: Option<Columns>,
    /// The paging state with which to request the next page, if there is one.
    pub paging_state: Option<Bytes>,
    /// The new id of the columns, if they differ from those that the client knew. Since version 5.
    pub new_metadata_id: Option<Bytes>,
    column_count: usize,
    row_count: usize,
    cells: Bytes,
}

impl Rows {
    pub(super) fn read(reader: &mut Reader<'_>, body: &Bytes, version: Version) -> Result<Self> {
        let mut rows = Self::read_metadata(reader, body, version)?;
        rows.row_count = reader.count("the count of rows")?;
        let from = reader.rest();
        // Rows without columns have no bytes, so any number of them would fit.
        if rows.column_count == 0 && rows.row_count > 0 {
            return Err(ProtocolError::Forbidden("the rows have no columns"));
        }
        for _ in 0..rows.row_count {
            for _ in 0..rows.column_count {
                reader.bytes("a cell")?;
            }
        }
        rows.cells = body.slice_ref(&from[..from.len() - reader.rest().len()]);
        Ok(rows)
    }

    /// Reads the metadata that precedes the rows in a RESULT. PREPARED contains the metadata of the
    /// statement's result without rows.
    pub(super) fn read_metadata(
        reader: &mut Reader<'_>,
        body: &Bytes,
        version: Version,
    ) -> Result<Self> {
        let flags = reader.int("the flags of rows")?;
        let column_count = reader.count("the count of columns")?;
        let paging_state = match flags & HAS_MORE_PAGES {
            0 => None,
            _ => reader.bytes("the paging state")?,
        };
        let new_metadata_id = match flags & METADATA_CHANGED {
            METADATA_CHANGED if version >= Version::V5 => {
                Some(reader.short_bytes("the new id of a result's metadata")?)
            }
            _ => None,
        };
        let columns = match flags & NO_METADATA {
            0 => Some(Columns::read(reader, body, flags, column_count)?),
            _ => None,
        };
        Ok(Self {
            columns,
            paging_state: paging_state.map(|state| body.slice_ref(state)),
            new_metadata_id: new_metadata_id.map(|id| body.slice_ref(id)),
            column_count,
            row_count: 0,
            cells: Bytes::new(),
        })
    }

    pub fn len(&self) -> usize {
        self.row_count
    }

    pub fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    pub fn column_count(&self) -> usize {
        self.column_count
    }

    /// Returns all cells, row by row; `None` is a null.
    pub fn cells(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let mut reader = Reader::new(&self.cells);
        let count = self.row_count.saturating_mul(self.column_count);
        // All cells were decoded before, so this cannot fail.
        (0..count).map_while(move |_| reader.bytes("a cell").ok())
    }

    /// Appends the body of a RESULT with these rows.
    pub(super) fn write(&self, out: &mut BytesMut, version: Version) {
        out.put_i32(result_kind::ROWS);
        let metadata = self.columns.as_ref().map_or(NO_METADATA, Columns::flags);
        let more = self.paging_state.as_ref().map_or(0, |_| HAS_MORE_PAGES);
        let changed = (self.new_metadata_id.as_ref()).map_or(0, |_| METADATA_CHANGED);
        out.put_i32(metadata | more | changed);
        out.put_i32(self.column_count as i32);
        if let Some(state) = &self.paging_state {
            writer::bytes(out, Some(state));
        }
        if let Some(id) = &self.new_metadata_id {
            writer::short_bytes(out, id);
        }
        if let Some(columns) = &self.columns {
            columns.write_specs(out, version);
        }
        out.put_i32(self.row_count as i32);
        out.put_slice(&self.cells);
    }
}
