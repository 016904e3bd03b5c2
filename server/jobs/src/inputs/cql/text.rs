//! A row of a table that CQL made, as key and value of a record: the columns of its primary
//! key, and the other selected columns, each as text.

use std::ops::Range;
use std::sync::Arc;

use ebb_model::key::DecodedKey;
use ebb_model::key::ordered::DecodeError;
use ebb_model::row::{LiveColumn, RowError};
use ebb_model::schema::{self, ColumnKind, TableSchema};
use ebb_model::types::{Charge, CqlType};
use ebb_scheduler::runtime::TaskError;
use ebb_tables::read::{Ended, ProjectedPartition, Projection, read_key};

use crate::error::of_table;
use crate::inputs::task_pace::TaskPace;
use crate::records::csv::push_fields;
use crate::records::{Column, RecordFormat};

/// A writer of the rows of a table as text. It does not decode columns that are not selected.
#[derive(Debug)]
pub struct CqlText {
    schema: Arc<TableSchema>,
    /// The time at which the table is read, in seconds since 1970. Values that have expired by then are not
    /// written.
    read_time_s: i64,
    /// The columns that are written: first those of the primary key, then the other selected ones. The
    /// index of a column is its slot.
    columns: Vec<schema::Column>,
    /// The number of columns of the primary key.
    key_columns: usize,
    projection: Projection,
}

/// The texts of the current partition and of one of its rows. The memory is reused for every row.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    fields: Texts,
    native: Vec<u8>,
}

/// The texts of a row's columns, one after the other in one buffer. The texts that all rows of a
/// partition share come first, and are written once per partition.
#[derive(Debug, Default)]
struct Texts {
    bytes: Vec<u8>,
    /// For each column, by its index among the written ones, the range of its text in `bytes`; `None`
    /// if it has no text.
    places: Vec<Option<(usize, usize)>>,
    /// The length in `bytes` of the texts that all rows of the partition share.
    shared_len: usize,
    shared_places: Vec<Option<(usize, usize)>>,
}

impl Texts {
    /// Clears all texts. The texts that are set until `end_shared` is called are those that all rows
    /// of a partition share.
    fn begin_partition(&mut self, columns: usize) {
        self.bytes.clear();
        self.places.clear();
        self.places.resize(columns, None);
    }

    fn end_shared(&mut self) {
        self.shared_len = self.bytes.len();
        self.shared_places.clone_from(&self.places);
    }

    /// Clears the texts of the previous row.
    fn begin_row(&mut self) {
        self.bytes.truncate(self.shared_len);
        self.places.copy_from_slice(&self.shared_places);
    }

    fn set(
        &mut self,
        at: usize,
        ty: &CqlType,
        value: &[u8],
        charge: Charge<'_, Ended>,
    ) -> Result<(), Ended> {
        let from = self.bytes.len();
        ty.try_write_text(value, &mut self.bytes, charge)?;
        self.places[at] = Some((from, self.bytes.len()));
        Ok(())
    }

    fn write(&self, slots: Range<usize>, to: &mut Vec<u8>) {
        to.clear();
        let fields = self.places[slots].iter();
        push_fields(
            to,
            fields.map(|place| place.map(|(from, end)| &self.bytes[from..end])),
        );
    }
}

impl CqlText {
    /// Creates a writer of rows of `schema` as of `read_time_ms`, in milliseconds since 1970, with the
    /// columns of the primary key and those named in `wanted`; `None` for all columns.
    pub fn new(schema: Arc<TableSchema>, read_time_ms: u64, wanted: Option<&[String]>) -> Self {
        let is_wanted = |name: &str| wanted.is_none_or(|all| all.iter().any(|one| one == name));
        // Columns of the primary key come first in the schema.
        let (mut places, mut columns, mut key_columns) = (Vec::new(), Vec::new(), 0);
        for (place, column) in schema.columns().iter().enumerate() {
            let is_of_key = column.kind <= ColumnKind::Clustering;
            if is_of_key || is_wanted(&column.name) {
                places.push(place);
                columns.push(column.clone());
                key_columns += usize::from(is_of_key);
            }
        }
        Self {
            read_time_s: i64::try_from(read_time_ms / 1000).unwrap_or(i64::MAX),
            columns,
            key_columns,
            projection: Projection::new(&schema, &places),
            schema,
        }
    }

    /// Returns the format of the rows: the key has the columns of the primary key, the
    /// value has the others.
    pub fn format(&self) -> RecordFormat {
        let (key, value) = self.columns.split_at(self.key_columns);
        RecordFormat::rows(
            key.iter().map(column_of).collect(),
            value.iter().map(column_of).collect(),
        )
    }

    pub(super) fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Decodes a key of the table.
    pub(super) fn read_key<'k>(&self, key: &'k [u8]) -> Result<DecodedKey<'k>, TaskError> {
        read_key(&self.schema, key).map_err(of_table)
    }

    /// Returns the partition that the stored key `key` belongs to. `header` is the stored header of
    /// the partition (its deletions and static columns); `None` if it has none. Writes the texts that
    /// all rows of the partition share to `to`.
    pub(super) fn partition<'p>(
        &'p self,
        key: DecodedKey<'p>,
        header: Option<&'p [u8]>,
        to: &mut Buffers,
        pace: &TaskPace<'_>,
    ) -> Result<ProjectedPartition<'p>, TaskError> {
        let (projection, schema) = (&self.projection, &self.schema);
        let partition = ProjectedPartition::new(projection, schema, key, header, self.read_time_s);
        let partition = partition.map_err(of_table)?;
        to.fields.begin_partition(self.columns.len());
        for (slot, column) in partition.cells().iter().enumerate() {
            if let Some(column) = column {
                let written = self.write_column(slot, column, to, pace);
                let failed = |error| partition.partition().header_error(error);
                written.map_err(failed).map_err(of_table)?;
            }
        }
        to.fields.end_shared();
        Ok(partition)
    }

    /// Writes the key and the value of a row of `partition` to `to`. The caller must have called
    /// [`partition`](Self::partition) before, which writes the texts of the partition key and the
    /// static columns to `to`: all rows of the partition share them. Returns false if the row is
    /// not visible at the read time, because it is deleted or has expired.
    pub(super) fn write_row(
        &self,
        partition: &ProjectedPartition<'_>,
        clustering: &[u8],
        operand: &[u8],
        to: &mut Buffers,
        pace: &TaskPace<'_>,
    ) -> Result<bool, TaskError> {
        let row = partition.row(clustering, operand, &mut |bytes| pace.charge(bytes));
        let Some(row) = row.map_err(of_table)? else {
            return Ok(false);
        };
        to.fields.begin_row();
        let written = partition.for_each_cell(&row, |slot, column| {
            self.write_column(slot, &column, to, pace)
        });
        written.map_err(of_table)?;
        self.write_fields(to);
        Ok(true)
    }

    /// Writes a key and a value to `to` for a partition that has static values and no rows. The
    /// caller must have called [`partition`](Self::partition) before, which writes the texts of the
    /// partition key and the static columns to `to`.
    pub(super) fn write_statics(&self, to: &mut Buffers) {
        to.fields.begin_row();
        self.write_fields(to);
    }

    fn write_column(
        &self,
        slot: usize,
        column: &LiveColumn<'_>,
        to: &mut Buffers,
        pace: &TaskPace<'_>,
    ) -> Result<(), DecodeError<RowError, Ended>> {
        let ty = &self.columns[slot].ty;
        let charge = &mut |bytes: usize| pace.charge(bytes);
        let value = match column {
            LiveColumn::Cell(cell) => cell.value,
            LiveColumn::Collection(collection) => {
                to.native.clear();
                collection.write_value(ty, &mut to.native, charge)?;
                &to.native[..]
            }
        };
        let written = to.fields.set(slot, ty, value, charge);
        written.map_err(DecodeError::Charge)
    }

    /// Joins the texts in `to` to the key and the value of a row. A column without a text is an empty
    /// field.
    fn write_fields(&self, to: &mut Buffers) {
        to.fields.write(0..self.key_columns, &mut to.key);
        let values = self.key_columns..self.columns.len();
        to.fields.write(values, &mut to.value);
    }
}

/// Returns the column that records have for a column of the table.
fn column_of(column: &schema::Column) -> Column {
    use CqlType as T;
    let name = &column.name[..];
    let is_number = matches!(
        column.ty,
        T::Bigint
            | T::Counter
            | T::Decimal
            | T::Double
            | T::Float
            | T::Int
            | T::Smallint
            | T::Tinyint
            | T::Varint
    );
    let described = if is_number {
        Column::number(name)
    } else {
        Column::text(name)
    };
    described.of_type(&column.ty.to_string())
}
