//! The requested columns of a row, from a partition's key and header and from the keys and operands of
//! its rows.
//!
//! ```text
//!   key of the partition ─┐
//!   header, static row ───┴─► cells that all rows share ─┐
//!   key of a row ────────────────────────────────────────┼─► cells of a row, at their slots
//!   operand of a row ────────────────────────────────────┘
//! ```
//!
//! Other columns are not decoded. A cell is `None` if its column is null.

use ebb_model::key::DecodedKey;
use ebb_model::key::ordered::DecodeError;
use ebb_model::row::{LiveCell, LiveColumn, RowError, RowView};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_model::types::Charge;

use super::entries::Ended;
use super::error::Result;
use super::partition::Partition;

/// The columns of a table that a reader requests. The slot of a column is its index among them.
#[derive(Debug)]
pub struct Projection {
    slots: usize,
    /// The requested columns of the partition key: the slot of each (its index among the requested
    /// columns), and its position in the partition key.
    partition: Vec<(usize, usize)>,
    /// The requested clustering columns: the slot of each (its index among the requested columns), and
    /// its position among the clustering columns of the table.
    clustering: Vec<(usize, usize)>,
    statics: ColumnsById,
    regular: ColumnsById,
    /// True if the reader needs clustering values as the client wrote them, and keys do not always
    /// determine these (1.0 and 1.00 have the same key).
    needs_original: bool,
}

/// Static or regular columns, by ascending id, and their slots.
#[derive(Debug)]
struct ColumnsById {
    ids: Vec<u32>,
    slots: Vec<usize>,
}

impl ColumnsById {
    /// Calls `each` with the slots and the cells of the columns that are not null.
    fn for_each<'a, E: From<RowError>>(
        &self,
        view: &RowView<'a>,
        mut each: impl FnMut(usize, LiveColumn<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let mut next = 0;
        for live in view.columns(&self.ids) {
            let (id, column) = live?;
            while self.ids[next] != id {
                next += 1;
            }
            each(self.slots[next], column)?;
        }
        Ok(())
    }
}

impl Projection {
    /// Returns the projection to the columns with the indexes `places` in the schema. A decoded row
    /// has their cells in the order of `places`.
    pub fn new(schema: &TableSchema, places: &[usize]) -> Self {
        let of = |kind| {
            let columns = places.iter().enumerate();
            let columns = columns.map(|(slot, &place)| (slot, &schema.columns()[place]));
            columns.filter(move |(_, column)| column.kind == kind)
        };
        let by_position = |kind| {
            of(kind)
                .map(|(slot, column)| (slot, column.position))
                .collect()
        };
        let by_id = |kind| {
            let mut columns: Vec<(u32, usize)> =
                of(kind).map(|(slot, column)| (column.id.0, slot)).collect();
            columns.sort_unstable();
            let (ids, slots) = columns.into_iter().unzip();
            ColumnsById { ids, slots }
        };
        Self {
            slots: places.len(),
            partition: by_position(ColumnKind::PartitionKey),
            clustering: by_position(ColumnKind::Clustering),
            statics: by_id(ColumnKind::Static),
            regular: by_id(ColumnKind::Regular),
            needs_original: of(ColumnKind::Clustering)
                .any(|_| !schema.layout().is_always_reconstructible()),
        }
    }

    /// Returns whether the requested columns of a row and of its partition's static row are final,
    /// so that the writes that are not read yet cannot change them. `greatest_left` is the greatest
    /// timestamp of these writes. `operand` is the row as read so far; `None` if no write of it was
    /// found.
    ///
    /// # Errors
    /// If the header or the operand is damaged.
    pub(super) fn is_decided(
        &self,
        partition: &Partition<'_>,
        clustering: &[u8],
        operand: Option<&[u8]>,
        greatest_left: i64,
    ) -> Result<bool> {
        let row = partition.view(clustering, operand)?;
        let row = row.is_decided(&self.regular.ids, self.needs_original, greatest_left);
        if !row.map_err(|error| partition.damaged_row(clustering, error))? {
            return Ok(false);
        }
        let statics = partition.static_view();
        let statics = statics.are_columns_decided(&self.statics.ids, greatest_left);
        statics.map_err(|error| partition.damaged_header(error))
    }
}

/// A partition, and the cells that all its rows share.
#[derive(Debug)]
pub struct ProjectedPartition<'p> {
    projection: &'p Projection,
    partition: Partition<'p>,
    /// The cells of the partition key and of static columns, each at its column's index among the
    /// requested columns.
    cells: Vec<Option<LiveColumn<'p>>>,
}

impl<'p> ProjectedPartition<'p> {
    /// Decodes the key and the header of a partition, like [`Partition::new`].
    ///
    /// # Errors
    /// If the header or the partition key is damaged.
    pub fn new(
        projection: &'p Projection,
        schema: &'p TableSchema,
        key: DecodedKey<'p>,
        header: Option<&'p [u8]>,
        read_time_s: i64,
    ) -> Result<Self> {
        let partition = Partition::new(schema, key, header, read_time_s)?;
        let mut cells = vec![None; projection.slots];
        if !projection.partition.is_empty() {
            let values = partition.key_values()?;
            for &(slot, position) in &projection.partition {
                cells[slot] = Some(key_cell(values[position]));
            }
        }
        let filled = (projection.statics).for_each(&partition.static_view(), |slot, column| {
            cells[slot] = Some(column);
            Ok::<_, RowError>(())
        });
        filled.map_err(|error| partition.damaged_header(error))?;
        Ok(Self {
            projection,
            partition,
            cells,
        })
    }

    /// Returns the partition, whose deletions and time of reading decide which rows and cells are
    /// visible.
    #[inline]
    pub fn partition(&self) -> &Partition<'p> {
        &self.partition
    }

    /// Returns the cells of the static row, each at the index of its column among the requested ones.
    /// Clustering and regular columns are null.
    #[inline]
    pub fn cells(&self) -> &[Option<LiveColumn<'p>>] {
        &self.cells
    }

    /// Returns the row with this encoded clustering and operand (the stored bytes); `None` if the row does
    /// not exist for the reader. Calls `charge` as [`Partition::clustering_values`] does.
    ///
    /// # Errors
    /// If the clustering or the operand is damaged;
    /// [`TableError::Ended`](super::TableError::Ended) with the error of `charge`.
    #[inline]
    pub fn row<'r>(
        &self,
        clustering: &'r [u8],
        operand: &'r [u8],
        charge: Charge<'_, Ended>,
    ) -> Result<Option<ProjectedRow<'r>>>
    where
        'p: 'r,
    {
        let Some(view) = self.partition.row(clustering, operand)? else {
            return Ok(None);
        };
        let clustering_values = if self.projection.clustering.is_empty() {
            Vec::new()
        } else {
            self.partition
                .clustering_values(clustering, &view, charge)?
        };
        Ok(Some(ProjectedRow {
            clustering,
            view,
            clustering_values,
        }))
    }

    /// Calls `each` with each non-null cell of a row and its slot, the index of its column among the
    /// requested ones. Leaves out the cells that all rows of the partition share.
    ///
    /// # Errors
    /// If the stored row is damaged; the error of `each`, as
    /// [`row_error`](Partition::row_error) returns it.
    #[inline]
    pub fn for_each_cell<'r>(
        &self,
        row: &'r ProjectedRow<'r>,
        mut each: impl FnMut(usize, LiveColumn<'r>) -> Result<(), DecodeError<RowError, Ended>>,
    ) -> Result<()> {
        let failed =
            |error: DecodeError<RowError, Ended>| self.partition.row_error(row.clustering, error);
        for &(slot, position) in &self.projection.clustering {
            each(slot, key_cell(&row.clustering_values[position])).map_err(failed)?;
        }
        let regular = &self.projection.regular;
        regular.for_each(&row.view, each).map_err(failed)
    }

    /// Replaces `cells` with all cells of a row, each at the index of its column among the requested
    /// ones.
    ///
    /// # Errors
    /// If the stored row is damaged.
    #[inline]
    pub fn fill<'r>(
        &self,
        row: &'r ProjectedRow<'r>,
        cells: &mut Vec<Option<LiveColumn<'r>>>,
    ) -> Result<()>
    where
        'p: 'r,
    {
        cells.clear();
        cells.extend_from_slice(&self.cells);
        self.for_each_cell(row, |slot, column| {
            cells[slot] = Some(column);
            Ok(())
        })
    }
}

/// A row that exists for the reader. [`ProjectedPartition`] takes the requested columns from it.
#[derive(Debug)]
pub struct ProjectedRow<'r> {
    clustering: &'r [u8],
    view: RowView<'r>,
    /// The clustering values of the row; empty if no clustering column is requested.
    clustering_values: Vec<Vec<u8>>,
}

impl<'r> ProjectedRow<'r> {
    /// Returns the visible content of the row, also of columns that are not requested.
    pub fn view(&self) -> RowView<'r> {
        self.view
    }
}

/// Returns the cell of a column of the primary key. It has no time of writing (0), and never expires.
fn key_cell(value: &[u8]) -> LiveColumn<'_> {
    LiveColumn::Cell(LiveCell {
        value,
        writetime: 0,
        ttl_s: None,
    })
}
