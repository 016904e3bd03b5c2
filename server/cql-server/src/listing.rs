//! Rows that a statement computes without a table: lists and descriptions.

use bytes::{Bytes, BytesMut};
use ebb_cql::protocol::{ColumnSpec, Columns, Metadata, RowsWriter, Version};
use ebb_model::types::CqlType;

/// The result of a statement that is never paged: its columns and its rows.
#[derive(Debug, Clone)]
pub struct Listing {
    columns: Columns,
    rows: Vec<Vec<Option<Bytes>>>,
}

impl Listing {
    /// Creates a listing of rows, each with a cell for every column in `columns`. The metadata of
    /// the result names `keyspace.table` as the table of the columns.
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

    /// Appends the body of a RESULT in version 4 of the protocol. In other versions, only results
    /// with a column of the type `duration` have another body.
    pub fn write(&self, out: &mut BytesMut) {
        self.write_in(out, Version::V4);
    }

    /// Appends the body of a RESULT with these rows, for a protocol version.
    pub fn write_in(&self, out: &mut BytesMut, version: Version) {
        let mut writer = RowsWriter::new(out, &self.columns, Metadata::Full, version);
        for row in &self.rows {
            row.iter().for_each(|cell| writer.cell(cell.as_deref()));
            writer.end_row();
        }
        writer.finish(None);
    }
}
