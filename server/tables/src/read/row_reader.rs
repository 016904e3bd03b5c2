//! Reads of single rows, only as deep as the requested columns need.

use bytes::Bytes;
use ebb_model::key::DecodedKey;
use ebb_model::schema::TableSchema;
use ebb_storage::FoundSoFar;

use super::columns::Projection;
use super::error::Result;
use super::partition::Partition;
use super::source::Source;

/// A reader of some columns of a table's rows. All rows are read as of the same time.
#[derive(Debug, Clone, Copy)]
pub struct RowReader<'r> {
    /// The stored rows of the table, and the headers (deletions and static columns) of its partitions.
    pub source: Source<'r>,
    pub schema: &'r TableSchema,
    /// The requested columns.
    pub projection: &'r Projection,
    /// The time that expiries are compared with, in seconds since 1970.
    pub read_time_s: i64,
    /// True if the reader returns the static columns of a partition without rows as a row.
    pub static_rows: bool,
}

impl RowReader<'_> {
    /// Reads the header of a partition and one of its rows at once, from the newest part of the store
    /// (memtables and runs) to the oldest. May stop before parts that cannot change the requested columns.
    /// `keys` are the keys of the header and of the row; `partition` is either of them, decoded. Returns the
    /// operands of both, `None` for a key that the table does not have.
    ///
    /// # Errors
    /// If the store cannot read a key. Damage shows when the operands are decoded.
    #[inline]
    pub fn read_row(
        &self,
        partition: DecodedKey<'_>,
        keys: [&[u8]; 2],
    ) -> Result<[Option<Bytes>; 2]> {
        // Both keys have the same prefix, followed by one byte.
        let clustering = &keys[1][keys[0].len()..];
        // In a partition without rows, the static columns may be a row.
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
            // Damaged operands decide nothing, so the read continues and reports the damage later.
            decided.unwrap_or(false)
        };
        self.source.get_both(keys, &enough)
    }
}
