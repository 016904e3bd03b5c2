//! Reads of single rows, as far as the columns that a reader looks at depend on them.

use bytes::Bytes;
use ebb_model::key::DecodedKey;
use ebb_model::schema::TableSchema;
use ebb_storage::FoundSoFar;

use super::columns::Projection;
use super::error::Result;
use super::partition::Partition;
use super::source::Source;

/// A reader of some columns of a table at one time.
#[derive(Debug, Clone, Copy)]
pub struct RowReader<'r> {
    /// The headers and rows of the table.
    pub source: Source<'r>,
    /// The schema of the table.
    pub schema: &'r TableSchema,
    /// The columns that the reader looks at.
    pub projection: &'r Projection,
    /// The time by which the reader judges what has expired, in seconds since 1970.
    pub read_time_s: i64,
    /// True if the static columns of a partition without rows are a row for the reader.
    pub static_rows: bool,
}

impl RowReader<'_> {
    /// Reads the header of a partition and one of its rows at once, or as much of both as decides the
    /// columns that the reader looks at. `keys` are those of the header and of the row; `partition` is
    /// either of them.
    ///
    /// # Errors
    /// If the store cannot read a key. Damage shows when the operands are decoded.
    #[inline]
    pub fn read_row(
        &self,
        partition: DecodedKey<'_>,
        keys: [&[u8]; 2],
    ) -> Result<[Option<Bytes>; 2]> {
        // Both keys have the same prefix and one byte behind it.
        let clustering = &keys[1][keys[0].len()..];
        // A partition without rows may have one of its static columns.
        let needs_all = self.static_rows && self.schema.has_static_columns();
        let enough = |found: &FoundSoFar<'_>| {
            let [header, row] = found.values else {
                return false;
            };
            if needs_all {
                return false;
            }
            let (header, row) = (header.as_deref(), row.as_deref());
            let partition = Partition::new(self.schema, partition, header, self.read_time_s);
            let decided = partition.and_then(|partition| {
                (self.projection).is_decided(&partition, clustering, row, found.greatest_left)
            });
            // Damaged writes decide nothing.
            decided.unwrap_or(false)
        };
        self.source.get_both(keys, &enough)
    }
}
