//! Rows of several tables as cells in CQL's native serialization: the input of a publication.
//!
//! ```text
//!   splits of each table ─> CQL:   RowScan ─> partitions, rows ─┬─> cells of rows
//!                       │                                       └─> cells of static columns
//!                       └─> plain: key and value ───────────────> two cells
//! ```
//!
//! If a table was added with an older snapshot, only the rows that differ between both snapshots are
//! read. The key of a record is a [`RowKey`], and the value is the cells of the row, one per column:
//!
//! ```text
//!   length, u32 LE, or 0xffffffff for null | bytes
//! ```
//!
//! | file | content |
//! | --- | --- |
//! | `changed` | the rows that differ between two snapshots |
//! | `follower` | reads of ascending keys, by a range where they are dense |
//! | `row_key` | the keys of records |

mod changed;
mod follower;
mod row_key;

use std::iter;
use std::sync::Arc;

use bytes::Bytes;
use ebb_model::key::PARTITIONS_START;
use ebb_model::key::ordered::DecodeError;
use ebb_model::row::{LiveColumn, RowError};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_model::types::CqlType;
use ebb_scheduler::runtime::{Checkpoint, Input, RecordSink, Split, TaskError};
use ebb_storage::{Cache, SnapshotTable};
use ebb_tables::read::{Ended, ProjectedPartition, Projection, RowScan, Source, read_key};

use self::changed::Compared;
pub(crate) use self::changed::{Rewritten, RewrittenRow, read_time_s};
pub(crate) use self::row_key::{Change, RowKey};
use super::snapshot::{Piece, SnapshotInput};
use super::task_pace::TaskPace;
use crate::error::of_table;

/// The length that marks a cell as null.
const NULL: u32 = u32::MAX;

/// An input of several tables for a publication. All tables are read as of the same snapshot.
#[derive(Debug, Default)]
pub(crate) struct CellsInput {
    tables: Vec<Table>,
}

#[derive(Debug)]
struct Table {
    /// The table of the database, cut into splits.
    stored: SnapshotInput,
    newer: SnapshotTable,
    /// The older snapshot with which the rows are compared; `None` if all rows are read.
    older: Option<SnapshotTable>,
    /// The number of the published table that the rows belong to.
    rows_to: u32,
    cql: Option<CqlCells>,
}

/// The columns of a CQL table that are published.
#[derive(Debug)]
struct CqlCells {
    schema: Arc<TableSchema>,
    rows: CellColumns,
    /// The partition key and the static columns, and the number of the published table that they
    /// belong to; `None` if the table has no static columns.
    statics: Option<(CellColumns, u32)>,
}

/// The columns whose cells are written, and their types, both in the order of the cells.
#[derive(Debug)]
struct CellColumns {
    projection: Projection,
    types: Vec<CqlType>,
}

impl CellsInput {
    /// Adds a plain table (one that was not created by CQL), to be read in at most `splits` splits. The
    /// published table with the number `rows_to` receives its rows. With an `older` snapshot of the table,
    /// only the rows that differ are read.
    pub(crate) fn add_plain(
        &mut self,
        table: SnapshotTable,
        older: Option<SnapshotTable>,
        splits: usize,
        rows_to: u32,
    ) {
        self.tables.push(Table {
            stored: SnapshotInput::new(table.clone(), splits),
            newer: table,
            older,
            rows_to,
            cql: None,
        });
    }

    /// Adds a CQL table, to be read in at most `splits` splits. The published table with the number `rows_to`
    /// receives its rows, and the one with the number `statics_to` its static columns, which are not read if
    /// this is `None`. With an `older` snapshot of the table, at which it had the same columns, only the rows
    /// that differ are read.
    pub(crate) fn add_cql(
        &mut self,
        table: SnapshotTable,
        older: Option<SnapshotTable>,
        schema: Arc<TableSchema>,
        splits: usize,
        (rows_to, statics_to): (u32, Option<u32>),
    ) {
        let statics = statics_to.map(|number| (CellColumns::new(&schema, true), number));
        let stored = SnapshotInput::new(table.clone(), splits);
        self.tables.push(Table {
            // The schema and the entries of indexes come before the partitions.
            stored: stored.within(PARTITIONS_START.to_vec(), None),
            newer: table,
            older,
            rows_to,
            cql: Some(CqlCells {
                rows: CellColumns::new(&schema, false),
                statics,
                schema,
            }),
        });
    }
}

impl CellsInput {
    /// Returns the index of the table that a split belongs to, in the order in which the tables were added;
    /// `None` if the split's payload is too short to contain it.
    pub(crate) fn table_of(split: &Split) -> Option<usize> {
        Some(take_number(split)?.0)
    }

    /// Returns the first key of a split, and the exclusive end of its keys, if it has one; `None` if the
    /// split's payload contains no range of keys.
    pub(crate) fn range_of(split: &Split) -> Option<(Bytes, Option<Bytes>)> {
        let (_, payload) = take_number(split)?;
        let Piece { lower, upper } = Piece::decode(payload)?;
        Some((lower, upper))
    }

    /// Returns whether `splits` are a cut of this input as [`splits`](Input::splits) makes it: the
    /// splits of the first table come first, then those of the second, and so on. The splits of a
    /// table ascend, and have each of its keys exactly once.
    pub(crate) fn is_cut_into(&self, splits: &[Split]) -> bool {
        let mut left = splits.iter();
        let is_next = |(number, table): (usize, &Table)| {
            let keys = table.stored.keys();
            let mut begin = keys.lower.clone();
            loop {
                let split = left.next();
                let split = split.filter(|split| Self::table_of(split) == Some(number));
                let Some((lower, upper)) = split.and_then(Self::range_of) else {
                    return false;
                };
                if lower != begin {
                    return false;
                }
                if upper == keys.upper {
                    return true;
                }
                match upper {
                    Some(end) if end >= begin => begin = end,
                    _ => return false,
                }
            }
        };
        self.tables.iter().enumerate().all(is_next) && left.next().is_none()
    }

    /// Reads a split as [`Input::read_with_checkpoints`] does. If only the rows that differ between
    /// two snapshots are read, `record` also gets the rows of `rewritten`. These have to be written
    /// again even if they have not changed, because their data files are removed.
    pub(crate) fn read_with(
        &self,
        split: &Split,
        rewritten: Rewritten<'_>,
        record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        let none = || TaskError::fatal(format!("split {} names no table", split.index));
        let (number, payload) = take_number(split).ok_or_else(none)?;
        let unknown = || {
            TaskError::fatal(format!(
                "split {} is of table {number}, which the job does not have",
                split.index
            ))
        };
        let table = self.tables.get(number).ok_or_else(unknown)?;
        let inner = Split {
            payload: payload.to_vec(),
            ..split.clone()
        };
        let Some(older) = &table.older else {
            return match &table.cql {
                Some(cql) => table.read_cql(cql, &inner, record, checkpoint),
                None => table.read_plain(&inner, record, checkpoint),
            };
        };
        let compared = Compared {
            older,
            newer: &table.newer,
            rows_to: table.rows_to,
            pace: TaskPace::new(checkpoint),
        };
        let piece = Piece::of(&inner)?;
        match &table.cql {
            Some(cql) => compared.read_cql(cql, &piece, rewritten, record),
            None => compared.read_plain(&piece, rewritten, record),
        }
    }
}

/// Returns the index of the table that a split belongs to, and the payload of the split within that table;
/// `None` if the payload is too short to contain an index.
fn take_number(split: &Split) -> Option<(usize, &[u8])> {
    let (number, payload) = split.payload.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number) as usize, payload))
}

/// Returns the columns whose cells a record contains, as indexes into the columns of the schema. The
/// order is that of stored rows: the columns of the key, then the others by ascending id. With
/// `are_static`, the columns are the partition key and the static columns; otherwise all columns that
/// are not static.
pub(crate) fn cell_columns(schema: &TableSchema, are_static: bool) -> Vec<usize> {
    let is_wanted = |kind: ColumnKind| match kind {
        ColumnKind::PartitionKey => true,
        ColumnKind::Static => are_static,
        ColumnKind::Clustering | ColumnKind::Regular => !are_static,
    };
    let columns = schema.columns();
    let mut places: Vec<usize> = (0..columns.len())
        .filter(|&place| is_wanted(columns[place].kind))
        .collect();
    // Columns of the key come first in the schema, in their order.
    places.sort_by_key(|&place| match columns[place].kind {
        ColumnKind::PartitionKey | ColumnKind::Clustering => (false, place),
        _ => (true, columns[place].id.0 as usize),
    });
    places
}

impl CellColumns {
    fn new(schema: &TableSchema, are_static: bool) -> Self {
        let places = cell_columns(schema, are_static);
        let types = places
            .iter()
            .map(|&place| schema.columns()[place].ty.clone());
        Self {
            types: types.collect(),
            projection: Projection::new(schema, &places),
        }
    }
}

/// The input of a publication. Each split belongs to one of the tables. Its payload begins with the index of
/// the table:
///
/// ```text
///   table, u32 LE | payload of the table's split
/// ```
impl Input for CellsInput {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let mut splits = Vec::new();
        for (number, table) in (0_u32..).zip(&self.tables) {
            let of_table = match table.stored.splits() {
                // The tables are cut by their rows if they are small. The task that reads all rows of this table meets
                // the damage again, and the tasks of the other tables are not concerned.
                Err(error) if error.is_final() && self.tables.len() > 1 => vec![Split {
                    payload: table.stored.keys().encode(),
                    ..Split::default()
                }],
                splits => splits?,
            };
            for split in of_table {
                let mut payload = number.to_le_bytes().to_vec();
                payload.extend_from_slice(&split.payload);
                splits.push(Split {
                    index: splits.len() as u32,
                    payload,
                    ..split
                });
            }
        }
        Ok(splits)
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        self.read_with_checkpoints(split, record, &|| Ok(()))
    }

    fn read_with_checkpoints(
        &self,
        split: &Split,
        record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        let mut none = iter::empty::<Result<RewrittenRow, TaskError>>();
        self.read_with(split, &mut none, record, checkpoint)
    }
}

impl Table {
    fn read_plain(
        &self,
        split: &Split,
        record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        let (mut row, mut row_key) = (Vec::new(), Vec::new());
        let mut to_cells = |key: &[u8], value: &[u8]| {
            row.clear();
            push_cell(&mut row, key);
            push_cell(&mut row, value);
            added(self.rows_to, key).encode(&mut row_key);
            record(&row_key, &row)
        };
        (self.stored).read_with_checkpoints(split, &mut to_cells, checkpoint)
    }

    fn read_cql(
        &self,
        cql: &CqlCells,
        split: &Split,
        record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        let piece = Piece::of(split)?;
        let pace = TaskPace::new(checkpoint);
        let source = Source::Stored(self.stored.reader(), Cache::Bypass, &pace);
        let scan = RowScan::open(source, &cql.schema, &piece.lower, piece.upper.as_deref());
        let mut scan = scan.map_err(of_table)?;
        let read_time_s = read_time_s(&self.newer);
        let (mut row, mut row_key) = (RowCells::default(), Vec::new());
        while let Some(start) = scan.next_partition().map_err(of_table)? {
            // If several splits share a partition, one of them has its header.
            let header = start.header.as_deref();
            if let Some((columns, number)) = &cql.statics
                && start.header_in_range
            {
                let statics = cql.partition(columns, &start.key, header, read_time_s)?;
                if let Some(cells) = row.of_statics(&statics, &columns.types, &pace)? {
                    added(*number, &start.key).encode(&mut row_key);
                    record(&row_key, cells)?;
                }
            }
            let rows = cql.partition(&cql.rows, &start.key, header, read_time_s)?;
            row.begin_partition(&rows, &cql.rows.types, &pace)?;
            while let Some(stored) = scan.next_row().map_err(of_table)? {
                let operand = Some(&stored.operand[..]);
                let cells = row.of_operand(cql, &rows, stored.clustering(), operand, &pace)?;
                if let Some(cells) = cells {
                    added(self.rows_to, &stored.key).encode(&mut row_key);
                    record(&row_key, cells)?;
                } else {
                    checkpoint()?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the key of a record for a row that was not compared with an older version: the change is always
/// "added".
fn added(table: u32, key: &[u8]) -> RowKey<'_> {
    RowKey {
        table,
        change: Change::Added,
        key,
    }
}

impl CqlCells {
    /// Returns the partition that the stored key `key` belongs to, with the cells of `columns`, as of
    /// `read_time_s`. `header` is the stored header of the partition (its deletions and static
    /// columns); `None` if there is none.
    fn partition<'p>(
        &'p self,
        columns: &'p CellColumns,
        key: &'p [u8],
        header: Option<&'p [u8]>,
        read_time_s: i64,
    ) -> Result<ProjectedPartition<'p>, TaskError> {
        let (projection, schema) = (&columns.projection, &self.schema);
        let key = read_key(schema, key).map_err(of_table)?;
        let partition = ProjectedPartition::new(projection, schema, key, header, read_time_s);
        partition.map_err(of_table)
    }
}

/// The encoded cells of the current row, in the order of the columns of a record. A slot is the index
/// of a column in this order. The cells that all rows of a partition share come first, and are written
/// once per partition. The memory is reused for every row.
#[derive(Debug, Default)]
struct RowCells {
    bytes: Vec<u8>,
    /// The index of the next cell's column.
    next: usize,
    /// The end of the cells that all rows of a partition share: the length of their bytes, and the
    /// index of the column after the last one.
    shared: (usize, usize),
}

impl RowCells {
    fn begin_partition(
        &mut self,
        partition: &ProjectedPartition<'_>,
        types: &[CqlType],
        pace: &TaskPace<'_>,
    ) -> Result<(), TaskError> {
        self.bytes.clear();
        self.next = 0;
        for (slot, column) in partition.cells().iter().enumerate() {
            if let Some(column) = column {
                let written = self.push(slot, column, types, pace);
                let failed = |error| partition.partition().header_error(error);
                written.map_err(failed).map_err(of_table)?;
            }
        }
        self.shared = (self.bytes.len(), self.next);
        Ok(())
    }

    /// Writes the cells of the static columns of a partition, and returns them; `None` if the
    /// partition has no static values.
    fn of_statics(
        &mut self,
        partition: &ProjectedPartition<'_>,
        types: &[CqlType],
        pace: &TaskPace<'_>,
    ) -> Result<Option<&[u8]>, TaskError> {
        let has_values = partition.partition().has_static_values();
        if !has_values.map_err(of_table)? {
            return Ok(None);
        }
        self.begin_partition(partition, types, pace)?;
        Ok(Some(self.finish(types)))
    }

    /// Writes the cells of the row with the stored form `operand`, and returns them; `None` if there
    /// is no stored form, or if the row is deleted or has expired. `begin_partition` must have been
    /// called for `partition`.
    fn of_operand(
        &mut self,
        cql: &CqlCells,
        partition: &ProjectedPartition<'_>,
        clustering: &[u8],
        operand: Option<&[u8]>,
        pace: &TaskPace<'_>,
    ) -> Result<Option<&[u8]>, TaskError> {
        let Some(operand) = operand else {
            return Ok(None);
        };
        let found = partition.row(clustering, operand, &mut |bytes| pace.charge(bytes));
        let Some(found) = found.map_err(of_table)? else {
            return Ok(None);
        };
        let types = &cql.rows.types;
        self.begin_row();
        let written =
            partition.for_each_cell(&found, |slot, column| self.push(slot, &column, types, pace));
        written.map_err(of_table)?;
        Ok(Some(self.finish(types)))
    }

    /// Returns the encoded cells of the row that was written last.
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Discards the cells of the previous row, except those that all rows of the partition share.
    fn begin_row(&mut self) {
        self.bytes.truncate(self.shared.0);
        self.next = self.shared.1;
    }

    /// Appends the cell of the column with the index `slot` to the current row, after nulls for the
    /// columns before it that have no cell yet.
    fn push(
        &mut self,
        slot: usize,
        column: &LiveColumn<'_>,
        types: &[CqlType],
        pace: &TaskPace<'_>,
    ) -> Result<(), DecodeError<RowError, Ended>> {
        self.fill(slot);
        self.next = slot + 1;
        match column {
            LiveColumn::Cell(cell) => push_cell(&mut self.bytes, cell.value),
            LiveColumn::Collection(collection) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(&NULL.to_le_bytes());
                let charge = &mut |bytes: usize| pace.charge(bytes);
                collection.write_value(&types[slot], &mut self.bytes, charge)?;
                let length = (self.bytes.len() - start - size_of::<u32>()) as u32;
                let place = start..start + size_of::<u32>();
                self.bytes[place].copy_from_slice(&length.to_le_bytes());
            }
        }
        Ok(())
    }

    /// Appends nulls for the columns before the one with the index `slot` that have no cell yet.
    fn fill(&mut self, slot: usize) {
        debug_assert!(self.next <= slot, "cells come by ascending slot");
        for _ in self.next..slot {
            self.bytes.extend_from_slice(&NULL.to_le_bytes());
        }
        self.next = slot;
    }

    /// Appends nulls for the columns after the last cell, and returns the cells of all columns of the
    /// row.
    fn finish(&mut self, types: &[CqlType]) -> &[u8] {
        self.fill(types.len());
        &self.bytes
    }
}

/// Encodes values as the cells of a row; `None` is null.
pub(crate) fn cells_of(values: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut cells = Vec::new();
    for value in values {
        match value {
            Some(value) => push_cell(&mut cells, value),
            None => cells.extend_from_slice(&NULL.to_le_bytes()),
        }
    }
    cells
}

/// Appends a cell that is not null. No value has 4 GiB, so the length fits.
fn push_cell(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(value);
}

/// An iterator over the encoded cells of a row; an item is `None` if the cell is null.
#[derive(Debug, Clone)]
pub(crate) struct Cells<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Cells<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length);
        if length == NULL {
            self.0 = rest;
            return Some(None);
        }
        let (cell, rest) = rest.split_at_checked(length as usize)?;
        self.0 = rest;
        Some(Some(cell))
    }
}
