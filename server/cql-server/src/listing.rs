//! Rows that a statement makes by itself, of no table: lists and descriptions.

use bytes::{Bytes, BytesMut};
use ebb_cql::protocol::{ColumnSpec, Columns, Metadata, RowsWriter, Version};
use ebb_model::types::CqlType;

/// Rows under named columns. They come on one page.
#[derive(Debug, Clone)]
pub struct Listing {
    columns: Columns,
    rows: Vec<Vec<Option<Bytes>>>,
}

impl Listing {
    /// Rows with a cell for each of `columns`; drivers are told that these are of
    /// `keyspace.table`.
    pub(super) fn new(
        (keyspace, table): (&str, &str),
        columns: &[(&str, CqlType)],
        rows: Vec<Vec<Option<Bytes>>>,
    ) -> Self {
        let spec = |(name, ty)| ColumnSpec {
            keyspace,
            table,
            name,
            ty,
        };
        let specs: Vec<_> = columns.iter().map(|(name, ty)| spec((*name, ty))).collect();
        Self {
            columns: Columns::new(&specs),
            rows,
        }
    }

    #[cfg(test)]
    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    #[cfg(test)]
    pub(super) fn rows(&self) -> &[Vec<Option<Bytes>>] {
        &self.rows
    }

    /// Appends the body of a RESULT with these rows as [`write_in`](Self::write_in) version 4,
    /// which is that in all versions where there are no durations.
    pub fn write(&self, out: &mut BytesMut) {
        self.write_in(out, Version::V4);
    }

    /// Appends the body of a RESULT with these rows.
    pub fn write_in(&self, out: &mut BytesMut, version: Version) {
        let mut writer = RowsWriter::new(out, &self.columns, Metadata::Full, version);
        for row in &self.rows {
            row.iter().for_each(|cell| writer.cell(cell.as_deref()));
            writer.end_row();
        }
        writer.finish(None);
    }
}
