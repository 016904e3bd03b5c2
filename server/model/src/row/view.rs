//! A row as a reader at one time sees it.
//!
//! Nothing is decoded before it is asked for, so a predicate looks at its cell alone, and
//! columns that are not wanted are passed over. Cassandra's rule of when a row is there:
//! its marker is live, or any cell of it, asked for or not.

use super::cell::{Deletion, Marker, is_shadowed};
use super::collection::LiveCollection;
use super::decode::{Column, Columns, RowRef};
use super::error::RowError;
use super::live::{LiveCell, live_cell};

/// A row operand under the deletions of its partition, at a read time.
#[derive(Debug, Clone, Copy)]
pub struct RowView<'a> {
    row: RowRef<'a>,
    /// The greatest deletion that lies above all of it, its own included.
    deletion: Option<Deletion>,
    read_time_s: i64,
    /// By ascending column.
    dropped: &'a [DroppedCells],
}

/// Cells of a column from before it was dropped: once it is added again, they stay hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedCells {
    /// The column's id.
    pub column: u32,
    /// The greatest timestamp that is hidden, in microseconds since 1970.
    pub timestamp_us: i64,
}

/// What a reader sees of one column.
#[derive(Debug, Clone, Copy)]
pub enum LiveColumn<'a> {
    /// The value of a column of one value.
    Cell(LiveCell<'a>),
    /// A collection that is not frozen, with at least one element.
    Collection(LiveCollection<'a>),
}

impl<'a> RowView<'a> {
    /// The view of a row of which nothing is stored.
    pub const EMPTY: RowView<'static> = RowView {
        row: RowRef::EMPTY,
        deletion: None,
        read_time_s: 0,
        dropped: &[],
    };

    /// The row as of `read_time_s`, in seconds since the Unix epoch, under the deletion
    /// that the partition's header has for it ([`super::Header::deletion_at`]).
    pub fn new(row: RowRef<'a>, above: Option<Deletion>, read_time_s: i64) -> Self {
        Self {
            row,
            deletion: row.deletion().max(above),
            read_time_s,
            dropped: &[],
        }
    }

    /// The row without what its columns had before they were dropped, in the order of
    /// columns: see [`TableSchema::dropped_cells`](crate::schema::TableSchema::dropped_cells).
    pub fn without(self, dropped: &'a [DroppedCells]) -> Self {
        Self { dropped, ..self }
    }

    /// Whether the row is there. `known` are the ids of the table's columns, ascending,
    /// where columns were dropped: cells of others do not count. See
    /// [`TableSchema::ids_beside_dropped`](crate::schema::TableSchema::ids_beside_dropped).
    ///
    /// # Errors
    /// The operand is damaged.
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

    /// The marker, if it is live.
    pub fn marker(&self) -> Option<Marker> {
        self.row.marker().filter(|marker| {
            !is_shadowed(marker.timestamp, self.deletion) && marker.is_live(self.read_time_s)
        })
    }

    /// The clustering as it was written, where the key does not say.
    pub fn original_clustering(&self) -> Option<&'a [u8]> {
        let original = self.row.original()?;
        (!is_shadowed(original.timestamp, self.deletion)).then_some(original.bytes)
    }

    /// The value of a column of one value; none where it is null.
    ///
    /// # Errors
    /// The operand is damaged, or the column is a collection.
    pub fn cell(&self, column: u32) -> Result<Option<LiveCell<'a>>, RowError> {
        match self.column(column)? {
            Some(LiveColumn::Cell(cell)) => Ok(Some(cell)),
            Some(LiveColumn::Collection(_)) => Err(RowError::Mixed { column }),
            None => Ok(None),
        }
    }

    /// The collection of a column that is one and not frozen; none where it is null, which
    /// is where it has no element.
    ///
    /// # Errors
    /// The operand is damaged, or the column is of one value.
    pub fn collection(&self, column: u32) -> Result<Option<LiveCollection<'a>>, RowError> {
        match self.column(column)? {
            Some(LiveColumn::Collection(collection)) => Ok(Some(collection)),
            Some(LiveColumn::Cell(_)) => Err(RowError::Mixed { column }),
            None => Ok(None),
        }
    }

    /// What is live of one column.
    ///
    /// # Errors
    /// The operand is damaged.
    pub fn column(&self, column: u32) -> Result<Option<LiveColumn<'a>>, RowError> {
        let live = self.columns(&[column]).next().transpose()?;
        Ok(live.map(|(_, column)| column))
    }

    /// What is live of the wanted columns, by ascending id, read in one pass. `wanted` is
    /// ascending; columns that are null are left out.
    pub fn columns<'w>(&self, wanted: &'w [u32]) -> LiveColumns<'a, 'w> {
        LiveColumns {
            view: *self,
            columns: self.row.columns(),
            wanted,
        }
    }

    /// The operand.
    pub(super) fn row(&self) -> RowRef<'a> {
        self.row
    }

    /// The greatest deletion that lies above all of it.
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

    /// The greatest deletion above the cells of a column: that it was dropped is one.
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

/// Iterates over the live ones of the wanted columns: see [`RowView::columns`].
#[derive(Debug, Clone)]
pub struct LiveColumns<'a, 'w> {
    view: RowView<'a>,
    columns: Columns<'a>,
    wanted: &'w [u32],
}

impl<'a> Iterator for LiveColumns<'a, '_> {
    type Item = Result<(u32, LiveColumn<'a>), RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.wanted.is_empty() {
            let (id, column) = match self.columns.next()? {
                Ok(column) => column,
                Err(error) => return Some(Err(error)),
            };
            while let [first, rest @ ..] = self.wanted
                && *first < id
            {
                self.wanted = rest;
            }
            if self.wanted.first() == Some(&id) {
                self.wanted = &self.wanted[1..];
                if let Some(live) = self.view.live(id, column).transpose() {
                    return Some(live.map(|live| (id, live)));
                }
            }
        }
        None
    }
}
