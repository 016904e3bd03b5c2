//! The index entries of a stored row.

use ebb_model::key::{Place, header_key};
use ebb_model::row::RowView;
use ebb_model::schema::{ColumnKind, IndexedColumn, TableSchema};
use ebb_model::types::Charge;

use super::entries::Ended;
use super::error::{Result, TableError};
use super::partition::{Partition, read_key};

/// Computes the index entries of a table's stored rows, from the values that are live at one time.
#[derive(Debug)]
pub struct LiveValues<'s> {
    schema: &'s TableSchema,
    now_s: i64,
}

impl<'s> LiveValues<'s> {
    /// Prepares the computation for a table. `now_s` is the time in seconds since 1970: values that
    /// have expired by then have no entries.
    pub fn new(schema: &'s TableSchema, now_s: i64) -> Self {
        Self { schema, now_s }
    }

    /// Calls `each` with the key of every index entry of one stored row or partition header. `key` is
    /// the key of this row or header, and `row` contains its bytes. `header` is the partition's header,
    /// whose deletions may hide the row; it is ignored if `key` is the key of the header. Calls `charge`
    /// as [`IndexedColumn::prefix_of`] does.
    ///
    /// # Errors
    /// If stored bytes that the entries depend on are damaged; [`TableError::Ended`] with the error of
    /// `charge`.
    pub fn entries(
        &self,
        indexed: IndexedColumn<'_>,
        key: &[u8],
        header: Option<&[u8]>,
        row: &[u8],
        charge: Charge<'_, Ended>,
        mut each: impl FnMut(Vec<u8>),
    ) -> Result<()> {
        let schema = self.schema;
        let decoded = read_key(schema, key)?;
        let header = match decoded.place {
            Place::Header => Some(row),
            Place::Row(_) => header,
        };
        let partition = Partition::new(schema, decoded, header, self.now_s)?;
        // A row without a visible value has an entry by its key if adding a column would show it: no
        // index is built again when a column is added.
        let may_appear = || match decoded.place {
            Place::Header => partition.may_have_static_values(),
            Place::Row(clustering) => partition.may_have_row(clustering, row),
        };
        let mut each_live = |view: &RowView<'_>| {
            let each = |prefix: Vec<u8>| each([&prefix[..], key].concat());
            let found = indexed.for_each_live(view, charge, each);
            found.map_err(|error| TableError::of_decoding(schema, key, error))
        };
        match (indexed.column.kind, decoded.place) {
            (ColumnKind::Static, Place::Header) => each_live(&partition.static_view())?,
            (ColumnKind::Regular, Place::Row(clustering)) => {
                each_live(&partition.view(clustering, Some(row))?)?;
            }
            (ColumnKind::Clustering, Place::Row(clustering)) if may_appear()? => {
                let prefix = indexed.prefix_of_clustering(schema, clustering);
                let prefix = prefix.map_err(|error| TableError::damaged(schema, key, error))?;
                each([&prefix[..], key].concat());
            }
            (ColumnKind::PartitionKey, _) if may_appear()? => {
                let prefix = indexed.prefix_of_partition(schema, decoded.partition_key, charge);
                let prefix = prefix.map_err(|error| TableError::of_decoding(schema, key, error))?;
                each([prefix, header_key(decoded.prefix)].concat());
            }
            _ => {}
        }
        Ok(())
    }
}
