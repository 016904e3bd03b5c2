//! Under which entries of an index a stored row is.

use ebb_catalog::key::{DecodedKey, Place};
use ebb_catalog::row::{Header, RowRef, RowView};
use ebb_catalog::schema::{ColumnKind, IndexedColumn, TableSchema};

use crate::error::{Result, of_key, of_row};

/// What is asked of stored rows for the indexes of a table, at one time.
#[derive(Debug)]
pub(super) struct LiveValues<'s> {
    schema: &'s TableSchema,
    now_s: i64,
    /// Ids of all columns of the kind, where others were dropped.
    known_statics: Option<Vec<u32>>,
    known_regular: Option<Vec<u32>>,
}

impl<'s> LiveValues<'s> {
    /// For what readers see `now_s` seconds after 1970.
    pub(super) fn new(schema: &'s TableSchema, now_s: i64) -> Self {
        let known = |kind| {
            let dropped = schema.dropped().iter().any(|column| column.kind == kind);
            dropped.then(|| {
                let columns = schema.columns_of(kind).iter();
                let mut ids: Vec<u32> = columns.map(|column| column.id.0).collect();
                ids.sort_unstable();
                ids
            })
        };
        Self {
            schema,
            now_s,
            known_statics: known(ColumnKind::Static),
            known_regular: known(ColumnKind::Regular),
        }
    }

    /// Hands `each` the key of every entry that an index has of a header's or a row's key,
    /// with what is stored there and in the header of its partition.
    ///
    /// # Errors
    /// Where what is stored is damaged.
    pub(super) fn entries(
        &self,
        indexed: IndexedColumn<'_>,
        key: &[u8],
        header: Option<&[u8]>,
        row: &[u8],
        mut each: impl FnMut(Vec<u8>),
    ) -> Result<()> {
        let decoded = DecodedKey::read(key).map_err(of_key)?;
        let with_key = |prefix: Vec<u8>| [&prefix[..], key].concat();
        let (view, known) = match decoded.place {
            Place::Header => {
                let header = Header::parse(row).map_err(of_row)?;
                (header.static_view(self.now_s), &self.known_statics)
            }
            Place::Row(clustering) => {
                let header = header.map_or(Ok(Header::EMPTY), Header::parse);
                let above = header.map_err(of_row)?.deletion_at(clustering);
                let row = RowRef::parse(row).map_err(of_row)?;
                (RowView::new(row, above, self.now_s), &self.known_regular)
            }
        };
        let view = view.without(self.schema.dropped_cells());
        let is_live = || view.is_live(known.as_deref()).map_err(of_row);
        match (indexed.column.kind, decoded.place) {
            (ColumnKind::Static, Place::Header) | (ColumnKind::Regular, Place::Row(_)) => {
                let live = indexed.for_each_live(&view, |prefix| each(with_key(prefix)));
                live.map_err(of_row)?;
            }
            (ColumnKind::Clustering, Place::Row(clustering)) if is_live()? => {
                let prefix = indexed.prefix_of_clustering(self.schema, clustering);
                each(with_key(prefix.map_err(of_key)?));
            }
            (ColumnKind::PartitionKey, _) if is_live()? => {
                let prefix = indexed.prefix_of_partition(self.schema, decoded.partition_key);
                each([&prefix.map_err(of_key)?, decoded.prefix, &[0]].concat());
            }
            _ => {}
        }
        Ok(())
    }
}
