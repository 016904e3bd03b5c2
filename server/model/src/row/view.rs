//! The reader's view of a row at one time.
//!
//! Columns are decoded on demand: a predicate decodes only its cell, and columns that are not
//! requested are skipped. As in Cassandra, a row exists if its marker or any of its cells is live,
//! requested or not.

use super::cell::{Deletion, Marker, is_shadowed};
use super::collection::LiveCollection;
use super::decode::{Column, Columns, RowRef};
use super::error::RowError;
use super::live::{LiveCell, live_cell};

/// A row as a reader sees it at a read time: a row operand, and the deletions of its partition that
/// hide parts of it.
#[derive(Debug, Clone, Copy)]
pub struct RowView<'a> {
    row: RowRef<'a>,
    /// The deletion with the greatest timestamp that covers the whole row, its own included.
    deletion: Option<Deletion>,
    read_time_s: i64,
    /// The hidden cells of dropped columns, by ascending id of the column.
    dropped: &'a [DroppedCells],
}

/// The cells of a dropped column that are hidden: those up to a timestamp. They stay hidden when
/// the column is added again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedCells {
    /// The id of the dropped column.
    pub column: u32,
    /// The timestamp up to which cells of the column are hidden, in microseconds since 1970.
    pub timestamp_us: i64,
}

/// The live content of one column.
#[derive(Debug, Clone, Copy)]
pub enum LiveColumn<'a> {
    /// The value of a column with a single value.
    Cell(LiveCell<'a>),
    /// A collection that is not frozen, with at least one element.
    Collection(LiveCollection<'a>),
}

impl<'a> RowView<'a> {
    /// The view of a row that is not stored.
    pub const EMPTY: RowView<'static> = RowView {
        row: RowRef::EMPTY,
        deletion: None,
        read_time_s: 0,
        dropped: &[],
    };

    /// Creates the view of a row as of `read_time_s`, in seconds since the Unix epoch. `above` is
    /// the deletion in the partition's header that covers the row ([`super::Header::deletion_at`]).
    pub fn new(row: RowRef<'a>, above: Option<Deletion>, read_time_s: i64) -> Self {
        Self {
            row,
            deletion: row.deletion().max(above),
            read_time_s,
            dropped: &[],
        }
    }

    /// Hides the cells of dropped columns, which `dropped` lists by ascending column id: see
    /// [`TableSchema::dropped_cells`](crate::schema::TableSchema::dropped_cells).
    pub fn without(self, dropped: &'a [DroppedCells]) -> Self {
        Self { dropped, ..self }
    }

    /// Returns whether the row exists: whether it has a live marker or a live cell. If columns were
    /// dropped, `known` contains the ids of the table's columns, ascending: only cells of these
    /// columns let the row exist. If `known` is `None`, cells of all columns do. See
    /// [`TableSchema::ids_beside_dropped`](crate::schema::TableSchema::ids_beside_dropped).
    ///
    /// # Errors
    /// If the operand is damaged.
    pub fn is_live(&self, known: Option<&[u32]>) -> Result<bool, RowError> {
        if self.marker().is_some() {
            return Ok(true);
        }
        match known {
            Some(known) => self
                .columns(known)
                .next()
                .transpose()
                .map(|one| one.is_some()),
            None => {
                for column in self.row.columns() {
                    let (id, column) = column?;
                    if self.live(id, column)?.is_some() {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Returns the row's marker if it is neither deleted nor expired at the reader's time. INSERT
    /// writes a marker, so that the row exists even without values.
    pub fn marker(&self) -> Option<Marker> {
        self.row.marker().filter(|marker| {
            !is_shadowed(marker.timestamp, self.deletion) && marker.is_live(self.read_time_s)
        })
    }

    /// Returns the original clustering (the clustering values as the client wrote them), if it
    /// cannot be decoded from the key.
    pub fn original_clustering(&self) -> Option<&'a [u8]> {
        let original = self.row.original()?;
        (!is_shadowed(original.timestamp, self.deletion)).then_some(original.bytes)
    }

    /// Returns the value of a column with a single value; `None` if it is null.
    ///
    /// # Errors
    /// If the operand is damaged, or the column is a collection.
    pub fn cell(&self, column: u32) -> Result<Option<LiveCell<'a>>, RowError> {
        match self.column(column)? {
            Some(LiveColumn::Cell(cell)) => Ok(Some(cell)),
            Some(LiveColumn::Collection(_)) => Err(RowError::Mixed { column }),
            None => Ok(None),
        }
    }

    /// Returns the collection of a column that is not frozen; `None` if it is null, that is, has no
    /// live elements.
    ///
    /// # Errors
    /// If the operand is damaged, or the column has a single value.
    pub fn collection(&self, column: u32) -> Result<Option<LiveCollection<'a>>, RowError> {
        match self.column(column)? {
            Some(LiveColumn::Collection(collection)) => Ok(Some(collection)),
            Some(LiveColumn::Cell(_)) => Err(RowError::Mixed { column }),
            None => Ok(None),
        }
    }

    /// Returns the live content of one column; `None` if the column is null.
    ///
    /// # Errors
    /// If the operand is damaged.
    pub fn column(&self, column: u32) -> Result<Option<LiveColumn<'a>>, RowError> {
        let live = self.columns(&[column]).next().transpose()?;
        Ok(live.map(|(_, column)| column))
    }

    /// Returns the live content of the columns `requested` (ascending), by ascending id, decoded in
    /// one pass. Null columns are left out.
    pub fn columns<'w>(&self, requested: &'w [u32]) -> LiveColumns<'a, 'w> {
        LiveColumns {
            view: *self,
            columns: self.row.columns(),
            requested,
        }
    }

    pub(super) fn row(&self) -> RowRef<'a> {
        self.row
    }

    /// Returns the deletion with the greatest timestamp among those that cover the whole row: of
    /// the row, of its range of rows, and of its partition.
    pub(super) fn deletion(&self) -> Option<Deletion> {
        self.deletion
    }

    #[inline]
    pub(super) fn live(
        &self,
        id: u32,
        column: Column<'a>,
    ) -> Result<Option<LiveColumn<'a>>, RowError> {
        let deletion = self.deletion_of(id);
        match column {
            Column::Cell(cell) => {
                Ok(live_cell(cell, deletion, self.read_time_s).map(LiveColumn::Cell))
            }
            Column::Collection(collection) => {
                let live = LiveCollection::new(collection, deletion, self.read_time_s);
                let any = live.elements().next().transpose()?.is_some();
                Ok(any.then_some(LiveColumn::Collection(live)))
            }
        }
    }

    /// Returns the deletion with the greatest timestamp that covers the cells of a column. The drop
    /// of the column counts as a deletion.
    #[inline]
    fn deletion_of(&self, id: u32) -> Option<Deletion> {
        if self.dropped.is_empty() {
            return self.deletion;
        }
        let found = self.dropped.binary_search_by_key(&id, |cells| cells.column);
        let dropped = found.ok().map(|at| Deletion {
            timestamp: self.dropped[at].timestamp_us,
            local_time_s: 0,
        });
        self.deletion.max(dropped)
    }
}

/// An iterator over the live columns among the requested ones: see [`RowView::columns`].
#[derive(Debug, Clone)]
pub struct LiveColumns<'a, 'w> {
    view: RowView<'a>,
    columns: Columns<'a>,
    requested: &'w [u32],
}

impl<'a> Iterator for LiveColumns<'a, '_> {
    type Item = Result<(u32, LiveColumn<'a>), RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.requested.is_empty() {
            let (id, column) = match self.columns.next()? {
                Ok(column) => column,
                Err(error) => return Some(Err(error)),
            };
            while let [first, rest @ ..] = self.requested
                && *first < id
            {
                self.requested = rest;
            }
            if self.requested.first() == Some(&id) {
                self.requested = &self.requested[1..];
                if let Some(live) = self.view.live(id, column).transpose() {
                    return Some(live.map(|live| (id, live)));
                }
            }
        }
        None
    }
}
