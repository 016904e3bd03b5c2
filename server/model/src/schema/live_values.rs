//! The entries that an index has for a stored row.

use super::{ColumnKind, IndexedColumn, TableSchema};
use crate::key::{DecodedKey, KeyError, Place};
use crate::row::{Header, RowError, RowRef, RowView};

/// Damage in stored bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoredError {
    /// The key is damaged.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The header of the partition or the row is damaged.
    #[error(transparent)]
    Row(#[from] RowError),
}

/// Computes the index entries of a table's stored rows, as they are live at one time.
#[derive(Debug)]
pub struct LiveValues<'s> {
    schema: &'s TableSchema,
    now_s: i64,
    /// The ids of all static columns; `None` if no static column was dropped. See
    /// [`TableSchema::ids_beside_dropped`].
    known_statics: Option<Vec<u32>>,
    /// The same for regular columns.
    known_regular: Option<Vec<u32>>,
}

impl<'s> LiveValues<'s> {
    /// Prepares the computation for a table. `now_s` is the time in seconds since 1970: values that
    /// have expired by then have no entries.
    pub fn new(schema: &'s TableSchema, now_s: i64) -> Self {
        Self {
            schema,
            now_s,
            known_statics: schema.ids_beside_dropped(ColumnKind::Static),
            known_regular: schema.ids_beside_dropped(ColumnKind::Regular),
        }
    }

    /// Calls `each` with the key of every index entry of one stored row or partition header. `key` is
    /// its key and `row` its bytes. `header` is the partition's header, which deletes rows below it;
    /// it is not read if `key` is the header's own.
    ///
    /// # Errors
    /// [`StoredError`] if the stored bytes are damaged.
    pub fn entries(
        &self,
        indexed: IndexedColumn<'_>,
        key: &[u8],
        header: Option<&[u8]>,
        row: &[u8],
        mut each: impl FnMut(Vec<u8>),
    ) -> Result<(), StoredError> {
        let decoded = DecodedKey::read(key)?;
        let with_key = |prefix: Vec<u8>| [&prefix[..], key].concat();
        let (view, known) = match decoded.place {
            Place::Header => {
                let header = Header::parse(row)?;
                (header.static_view(self.now_s), &self.known_statics)
            }
            Place::Row(clustering) => {
                let header = header.map_or(Ok(Header::EMPTY), Header::parse);
                let above = header?.deletion_at(clustering);
                let row = RowRef::parse(row)?;
                (RowView::new(row, above, self.now_s), &self.known_regular)
            }
        };
        let view = view.without(self.schema.dropped_cells());
        let is_live = || view.is_live(known.as_deref());
        match (indexed.column.kind, decoded.place) {
            (ColumnKind::Static, Place::Header) | (ColumnKind::Regular, Place::Row(_)) => {
                indexed.for_each_live(&view, |prefix| each(with_key(prefix)))?;
            }
            (ColumnKind::Clustering, Place::Row(clustering)) if is_live()? => {
                let prefix = indexed.prefix_of_clustering(self.schema, clustering);
                each(with_key(prefix?));
            }
            (ColumnKind::PartitionKey, _) if is_live()? => {
                let prefix = indexed.prefix_of_partition(self.schema, decoded.partition_key);
                each([&prefix?, decoded.prefix, &[0]].concat());
            }
            _ => {}
        }
        Ok(())
    }
}
