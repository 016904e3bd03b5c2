//! A partition's visible content at one time: the only place that combines a row with everything that may
//! hide parts of it.
//!
//! ```text
//!   header   deletion of the partition ─┬─► static columns
//!            deletions of ranges ───────┼─► rows
//!   schema   columns that were dropped ─┘
//! ```
//!
//! A row exists if its marker is live, or any cell of a column that the table has, whether the statement
//! selects it or not. A cell is live if it has not expired and if every deletion that covers it is older:
//! the one of its row, of a range of rows, of its partition, and, for a column that was dropped and added
//! again, the drop. Static columns with a value form a row of their own in a partition without other rows.
//!
//! The header and the rows of a call must come from one instant: see [the purge
//! race](super#the-purge-race).

use ebb_model::key::ordered::DecodeError;
use ebb_model::key::{DecodedKey, ROW, header_key};
use ebb_model::row::{Header, RowRef, RowView};
use ebb_model::schema::TableSchema;
use ebb_model::types::{Charge, TypeError, elements};

use super::entries::Ended;
use super::error::{DamageReason, Result, TableError};
use crate::mutation::{self, Mutation};

/// Splits a stored key into its parts: the prefix and the key of the partition, and, for a row, the
/// clustering. The key belongs to a partition's header or to a row.
///
/// # Errors
/// If the key is damaged.
#[inline]
pub fn read_key<'k>(schema: &TableSchema, key: &'k [u8]) -> Result<DecodedKey<'k>> {
    DecodedKey::read(key).map_err(|error| TableError::damaged(schema, key, error))
}

/// A partition: its header (the partition's deletions and static columns), and the time that expiries are
/// compared with.
#[derive(Debug)]
pub struct Partition<'p> {
    schema: &'p TableSchema,
    key: DecodedKey<'p>,
    header: Header<'p>,
    read_time_s: i64,
}

impl<'p> Partition<'p> {
    /// Reads the header of a partition. `key` is any key of the partition. `header` is the operand
    /// of the header; `None` if the partition has no header. `read_time_s` is the time of the
    /// reader in seconds since 1970.
    ///
    /// # Errors
    /// If the header is damaged.
    #[inline]
    pub fn new(
        schema: &'p TableSchema,
        key: DecodedKey<'p>,
        header: Option<&'p [u8]>,
        read_time_s: i64,
    ) -> Result<Self> {
        let header = match header {
            Some(header) => {
                let header = Header::parse(header);
                header.map_err(|error| damaged_header(schema, key.prefix, error))?
            }
            None => Header::EMPTY,
        };
        let read_time_s = if mutation::is(Mutation::NothingExpires) {
            i64::MIN
        } else {
            read_time_s
        };
        Ok(Self {
            schema,
            key,
            header,
            read_time_s,
        })
    }

    /// Returns the header: the deletions of the partition and its static row.
    #[inline]
    pub fn header(&self) -> &Header<'p> {
        &self.header
    }

    /// Returns the prefix that all keys of the partition share.
    #[inline]
    pub fn prefix(&self) -> &'p [u8] {
        self.key.prefix
    }

    /// Returns the values of the partition key, in the order of its columns.
    ///
    /// # Errors
    /// If the key is damaged.
    pub fn key_values(&self) -> Result<Vec<&'p [u8]>> {
        let values = self
            .schema
            .layout()
            .partition_values(self.key.partition_key);
        values.map_err(|error| self.damaged_header(error))
    }

    #[inline]
    pub fn static_view(&self) -> RowView<'p> {
        let view = self.header.static_view(self.read_time_s);
        view.without(self.schema.dropped_cells())
    }

    /// Returns whether a static column has a visible value.
    ///
    /// # Errors
    /// If the header is damaged.
    pub fn has_static_values(&self) -> Result<bool> {
        if self.header.static_row().is_none() {
            return Ok(false);
        }
        let is_live = self.static_view().is_live(self.schema.ids_beside_dropped());
        is_live.map_err(|error| self.damaged_header(error))
    }

    /// Returns whether a static column has a value, or would have one once columns that were dropped are
    /// added again.
    ///
    /// # Errors
    /// If the header is damaged.
    pub(super) fn may_have_static_values(&self) -> Result<bool> {
        let view = self.static_view().without(self.schema.all_dropped_cells());
        let is_live = view.is_live(None);
        is_live.map_err(|error| self.damaged_header(error))
    }

    /// Returns whether the result of a read has a row for the static columns alone: some of them have values,
    /// and the partition has no other row. `has_rows` is true if the partition has another row.
    ///
    /// # Errors
    /// If the header is damaged.
    pub fn has_static_row(&self, has_rows: bool) -> Result<bool> {
        let has_rows = has_rows && !mutation::is(Mutation::StaticRowsBesideRows);
        Ok(!has_rows && self.has_static_values()?)
    }

    /// Returns the visible content of the row with this encoded clustering and operand (the stored
    /// bytes). The content may be empty.
    ///
    /// # Errors
    /// If the operand is damaged.
    #[inline]
    pub fn view<'r>(&self, clustering: &[u8], operand: Option<&'r [u8]>) -> Result<RowView<'r>>
    where
        'p: 'r,
    {
        let row = match operand {
            Some(operand) => {
                RowRef::parse(operand).map_err(|error| self.damaged_row(clustering, error))?
            }
            None => RowRef::EMPTY,
        };
        let deletion = if mutation::is(Mutation::DeletionsHideNothing) {
            None
        } else if mutation::is(Mutation::RangesHideNothing) {
            self.header.deletion()
        } else {
            self.header.deletion_at(clustering)
        };
        let view = RowView::new(row, deletion, self.read_time_s);
        if mutation::is(Mutation::DroppedCellsShow) {
            return Ok(view);
        }
        Ok(view.without(self.schema.dropped_cells()))
    }

    /// Returns the visible content of the row with this encoded clustering and operand (the stored
    /// bytes); `None` if the row does not exist for the reader.
    ///
    /// # Errors
    /// If the operand is damaged.
    #[inline]
    pub fn row<'r>(&self, clustering: &[u8], operand: &'r [u8]) -> Result<Option<RowView<'r>>>
    where
        'p: 'r,
    {
        let view = self.view(clustering, Some(operand))?;
        let known = if mutation::is(Mutation::GoneColumnsCount) {
            None
        } else {
            self.schema.ids_beside_dropped()
        };
        let is_live = view.is_live(known);
        let mut is_live = is_live.map_err(|error| self.damaged_row(clustering, error))?;
        if mutation::is(Mutation::OnlyMarkersCount) {
            is_live = view.marker().is_some();
        }
        Ok(is_live.then_some(view))
    }

    /// Returns whether a row exists, or would exist once columns that were dropped are added again: cells
    /// that are newer than the drop of their column are visible from then on.
    ///
    /// # Errors
    /// If the operand is damaged.
    pub(super) fn may_have_row(&self, clustering: &[u8], operand: &[u8]) -> Result<bool> {
        let view = self.view(clustering, Some(operand))?;
        let is_live = view.without(self.schema.all_dropped_cells()).is_live(None);
        is_live.map_err(|error| self.damaged_row(clustering, error))
    }

    /// Returns the clustering values of a row as they were written, one for each column. Calls
    /// `charge` before it decodes a decimal, as [`ordered::decode`](ebb_model::key::ordered::decode) does.
    ///
    /// # Errors
    /// If the clustering or the operand is damaged; [`TableError::Ended`] with the error of `charge`.
    #[inline]
    pub fn clustering_values(
        &self,
        clustering: &[u8],
        row: &RowView<'_>,
        charge: Charge<'_, Ended>,
    ) -> Result<Vec<Vec<u8>>> {
        let layout = self.schema.layout();
        let Some(original) = row.original_clustering() else {
            let values = layout.try_clustering_values(clustering, charge);
            return values.map_err(|error| self.row_error(clustering, error));
        };
        // The original is a tuple of all clustering values.
        let written: Result<Vec<Vec<u8>>, TypeError> = elements::components(original)
            .map(|value| value.map(|value| value.unwrap_or_default().to_vec()))
            .collect();
        let mut values = written.map_err(|error| self.damaged_row(clustering, error))?;
        values.resize(layout.clustering().len(), Vec::new());
        Ok(values)
    }

    /// Returns the greatest timestamp of the static cells and of the deletion of the partition,
    /// which hides static cells; [`i64::MIN`] if there is neither. A write with a greater timestamp
    /// is visible, apart from values that [the drop of their column](TableSchema::dropped_up_to)
    /// hides.
    pub fn greatest_timestamp_of_statics(&self) -> i64 {
        let row = self.header.static_row();
        let greatest = row.map_or(i64::MIN, |row| row.greatest_timestamp());
        let deletion = self.header.deletion();
        greatest.max(deletion.map_or(i64::MIN, |deletion| deletion.timestamp))
    }

    /// Returns the greatest timestamp of the row's stored content and of the deletions of its
    /// partition or range, which hide rows; [`i64::MIN`] if there is none. A write with a greater
    /// timestamp is visible, apart from values that [the drop of their
    /// column](TableSchema::dropped_up_to) hides.
    ///
    /// # Errors
    /// If the operand is damaged.
    pub fn greatest_timestamp_of_row(
        &self,
        clustering: &[u8],
        operand: Option<&[u8]>,
    ) -> Result<i64> {
        let deletion = self.header.deletion_at(clustering);
        let deletion = deletion.map_or(i64::MIN, |deletion| deletion.timestamp);
        let greatest = match operand {
            Some(operand) => {
                let row = RowRef::parse(operand);
                row.map_err(|error| self.damaged_row(clustering, error))?
                    .greatest_timestamp()
            }
            None => i64::MIN,
        };
        Ok(greatest.max(deletion))
    }

    /// Converts an error that occurred while the static columns were decoded. The result is damage
    /// under the key of the partition's header, or the error with which the caller ended the
    /// decoding.
    #[cold]
    pub fn header_error<F>(&self, error: DecodeError<F, Ended>) -> TableError
    where
        F: Into<DamageReason>,
    {
        TableError::of_decoding(self.schema, &header_key(self.key.prefix), error)
    }

    /// Converts an error that occurred while the row with this clustering was decoded. The result
    /// is damage under the key of the row, or the error with which the caller ended the decoding.
    #[cold]
    pub fn row_error<F>(&self, clustering: &[u8], error: DecodeError<F, Ended>) -> TableError
    where
        F: Into<DamageReason>,
    {
        TableError::of_decoding(self.schema, &self.row_key(clustering), error)
    }

    /// Returns the error for damage that was found while the static columns or the values of the
    /// partition key were decoded. The error contains the key of the partition's header.
    #[cold]
    pub fn damaged_header(&self, reason: impl Into<DamageReason>) -> TableError {
        damaged_header(self.schema, self.key.prefix, reason)
    }

    /// Returns the error for damage that was found while the row with this clustering was decoded.
    /// The error contains the key of the row.
    #[cold]
    pub fn damaged_row(&self, clustering: &[u8], reason: impl Into<DamageReason>) -> TableError {
        TableError::damaged(self.schema, &self.row_key(clustering), reason)
    }

    fn row_key(&self, clustering: &[u8]) -> Vec<u8> {
        [self.key.prefix, &[ROW], clustering].concat()
    }
}

#[cold]
fn damaged_header(
    schema: &TableSchema,
    prefix: &[u8],
    reason: impl Into<DamageReason>,
) -> TableError {
    TableError::damaged(schema, &header_key(prefix), reason)
}
