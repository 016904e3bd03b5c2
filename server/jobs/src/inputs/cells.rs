//! Rows of several tables as cells in CQL's native serialization: the input of a publication.
//!
//! ```text
//!   splits of each table ─> CQL:   RowScan ─> partitions, rows ─┬─> cells of rows
//!                       │                                       └─> cells of static columns
//!                       └─> plain: key and value ───────────────> two cells
//! ```
//!
//! The key of a record is the number of the table that the row goes to, big-endian, and the value is
//! the cells of the row, one per column:
//!
//! ```text
//!   length, u32 LE, or 0xffffffff for null | bytes
//! ```

use std::sync::Arc;

use ebb_model::key::PARTITIONS_START;
use ebb_model::row::{LiveColumn, RowError};
use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_model::types::CqlType;
use ebb_scheduler::runtime::{Input, RecordSink, Split, TaskError};
use ebb_storage::{Cache, SnapshotTable};
use ebb_tables::read::{PartitionStart, ProjectedPartition, Projection, RowScan, Source, read_key};

use super::snapshot::{Piece, SnapshotInput};
use crate::error::of_table;

/// The length of a cell that is null.
const NULL: u32 = u32::MAX;

/// Tables of one snapshot.
#[derive(Debug, Default)]
pub(crate) struct CellsInput {
    tables: Vec<Table>,
}

#[derive(Debug)]
struct Table {
    stored: SnapshotInput,
    /// The number of the table that the rows go to.
    rows_to: u32,
    cql: Option<CqlCells>,
}

/// The columns of a table that CQL made.
#[derive(Debug)]
struct CqlCells {
    schema: Arc<TableSchema>,
    read_time_s: i64,
    rows: CellColumns,
    /// The partition key and the static columns, if there are any, and the number of the table that
    /// they go to.
    statics: Option<(CellColumns, u32)>,
}

/// Columns whose cells are written, each at its slot.
#[derive(Debug)]
struct CellColumns {
    projection: Projection,
    types: Vec<CqlType>,
}

impl CellsInput {
    /// Adds a table that CQL did not make.
    pub(crate) fn add_plain(&mut self, table: SnapshotTable, splits: usize, rows_to: u32) {
        self.tables.push(Table {
            stored: SnapshotInput::new(table, splits),
            rows_to,
            cql: None,
        });
    }

    /// Adds a table that CQL made. Its rows go to the table `rows_to`, its static columns to
    /// `statics_to`.
    pub(crate) fn add_cql(
        &mut self,
        table: SnapshotTable,
        schema: Arc<TableSchema>,
        splits: usize,
        rows_to: u32,
        statics_to: Option<u32>,
    ) {
        let read_time_s = table.read_time_ms() / 1000;
        let statics = statics_to.map(|number| (CellColumns::new(&schema, true), number));
        self.tables.push(Table {
            // After the schema and the entries of indexes.
            stored: SnapshotInput::new(table, splits).within(PARTITIONS_START.to_vec(), None),
            rows_to,
            cql: Some(CqlCells {
                read_time_s: i64::try_from(read_time_s).unwrap_or(i64::MAX),
                rows: CellColumns::new(&schema, false),
                statics,
                schema,
            }),
        });
    }
}

impl CellsInput {
    /// Returns the number of the table, in the order of their adding, that a split is of.
    pub(crate) fn table_of(split: &Split) -> Option<usize> {
        Some(take_number(split)?.0)
    }
}

/// Returns the number of the table that a split is of, and the payload of the table's split.
fn take_number(split: &Split) -> Option<(usize, &[u8])> {
    let (number, payload) = split.payload.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number) as usize, payload))
}

/// Returns the places, in the schema, of the columns whose cells a row has, in the order of the cells:
/// the key, then the other columns by ascending id, as stored rows have them. `are_static` selects the
/// static columns with the partition key; otherwise it is all columns but the static ones.
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

/// A split of one of the tables, as it stands in a split of all:
///
/// ```text
///   table, u32 LE | payload of the table's split
/// ```
impl Input for CellsInput {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let mut splits = Vec::new();
        for (number, table) in (0_u32..).zip(&self.tables) {
            for split in table.stored.splits()? {
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
        let unknown = || TaskError::failed("a split of a table that the job does not have");
        let (number, payload) = take_number(split).ok_or_else(unknown)?;
        let table = self.tables.get(number).ok_or_else(unknown)?;
        let inner = Split {
            payload: payload.to_vec(),
            ..split.clone()
        };
        match &table.cql {
            Some(cql) => table.read_cql(cql, &inner, record),
            None => table.read_plain(&inner, record),
        }
    }
}

impl Table {
    fn read_plain(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        let number = self.rows_to.to_be_bytes();
        let mut row = Vec::new();
        self.stored.read(split, &mut |key, value| {
            row.clear();
            push_cell(&mut row, key);
            push_cell(&mut row, value);
            record(&number, &row)
        })
    }

    fn read_cql(
        &self,
        cql: &CqlCells,
        split: &Split,
        record: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        let piece = Piece::of(split);
        let source = Source::Stored(self.stored.reader(), Cache::Bypass);
        let scan = RowScan::open(source, &cql.schema, &piece.lower, piece.upper.as_deref());
        let mut scan = scan.map_err(of_table)?;
        let number = self.rows_to.to_be_bytes();
        let mut row = RowCells::default();
        while let Some(start) = scan.next_partition().map_err(of_table)? {
            // Of several splits that cut a partition one has the header.
            if let Some((columns, number)) = &cql.statics
                && start.header_in_range
            {
                let statics = cql.partition(columns, &start)?;
                let has_values = statics.partition().has_static_values();
                if has_values.map_err(of_table)? {
                    row.begin_partition(&statics, &columns.types)?;
                    record(&number.to_be_bytes(), row.finish(&columns.types))?;
                }
            }
            let rows = cql.partition(&cql.rows, &start)?;
            row.begin_partition(&rows, &cql.rows.types)?;
            while let Some(stored) = scan.next_row().map_err(of_table)? {
                let found = rows.row(stored.clustering(), &stored.operand);
                let Some(found) = found.map_err(of_table)? else {
                    continue;
                };
                row.begin_row();
                let written = rows.for_each_cell(&found, |slot, column| {
                    row.push(slot, &column, &cql.rows.types)
                });
                written.map_err(of_table)?;
                record(&number, row.finish(&cql.rows.types))?;
            }
        }
        Ok(())
    }
}

impl CqlCells {
    fn partition<'p>(
        &'p self,
        columns: &'p CellColumns,
        start: &'p PartitionStart,
    ) -> Result<ProjectedPartition<'p>, TaskError> {
        let (projection, schema) = (&columns.projection, &self.schema);
        let key = read_key(schema, &start.key).map_err(of_table)?;
        let header = start.header.as_deref();
        let partition = ProjectedPartition::new(projection, schema, key, header, self.read_time_s);
        partition.map_err(of_table)
    }
}

/// The cells of a row, written by ascending slot. Those that all rows of a partition share come first
/// and are written once. The memory is kept from row to row.
#[derive(Debug, Default)]
struct RowCells {
    bytes: Vec<u8>,
    /// The slot of the next cell.
    next: usize,
    /// The end of the shared cells: bytes and slots.
    shared: (usize, usize),
}

impl RowCells {
    fn begin_partition(
        &mut self,
        partition: &ProjectedPartition<'_>,
        types: &[CqlType],
    ) -> Result<(), TaskError> {
        self.bytes.clear();
        self.next = 0;
        for (slot, column) in partition.cells().iter().enumerate() {
            if let Some(column) = column {
                let written = self.push(slot, column, types);
                let damaged = |error: RowError| partition.partition().damaged_header(error);
                written.map_err(damaged).map_err(of_table)?;
            }
        }
        self.shared = (self.bytes.len(), self.next);
        Ok(())
    }

    /// Forgets the cells of the row before.
    fn begin_row(&mut self) {
        self.bytes.truncate(self.shared.0);
        self.next = self.shared.1;
    }

    /// Appends the cell of a slot, and nulls for those before it that have none.
    fn push(
        &mut self,
        slot: usize,
        column: &LiveColumn<'_>,
        types: &[CqlType],
    ) -> Result<(), RowError> {
        self.fill(slot);
        self.next = slot + 1;
        match column {
            LiveColumn::Cell(cell) => push_cell(&mut self.bytes, cell.value),
            LiveColumn::Collection(collection) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(&NULL.to_le_bytes());
                collection.write_value(&types[slot], &mut self.bytes)?;
                let length = (self.bytes.len() - start - size_of::<u32>()) as u32;
                let place = start..start + size_of::<u32>();
                self.bytes[place].copy_from_slice(&length.to_le_bytes());
            }
        }
        Ok(())
    }

    /// Appends nulls up to `slot`.
    fn fill(&mut self, slot: usize) {
        debug_assert!(self.next <= slot, "cells come by ascending slot");
        for _ in self.next..slot {
            self.bytes.extend_from_slice(&NULL.to_le_bytes());
        }
        self.next = slot;
    }

    /// Returns all cells of the row.
    fn finish(&mut self, types: &[CqlType]) -> &[u8] {
        self.fill(types.len());
        &self.bytes
    }
}

/// Appends a cell. The store has no values of 4 GiB.
fn push_cell(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(value);
}

/// The cells of a row; `None` is null.
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
