//! Data files: rows of a table as Parquet.

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wide_tests;

use std::io::{self, Write};
use std::mem;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use ebb_model::types::{Charge, CqlType};
use parquet::arrow::ArrowSchemaConverter;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::{EnabledStatistics, WriterPropertiesBuilder};
use parquet::schema::types::SchemaDescriptor;

use crate::bounds::{FloatNulls, has_no_statistics};
use crate::dictionaries::FirstValues;
use crate::iceberg::manifest::DataFile;
use crate::own_file::{describe, properties};
use crate::row_groups::{RowGroups, is_by_column};
use crate::row_index::{RowIndex, RowIndexBuilder};
use crate::types::{ColumnBuilder, NestedField, OnEmpty, ValueError, arrow_field};

/// The size of a batch of rows, in bytes of values, at which the writer hands it to the Parquet library. The
/// columns of a batch fit into the caches of a core.
const BATCH_BYTES: usize = 1 << 20;

/// The greatest number of rows of a batch, for tables whose rows have few bytes.
const BATCH_ROWS: usize = 16_384;

/// The greatest number of rows of a batch that is a row group. The Parquet library has the same limit for row groups.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// The number of rows after which the arrays of a batch that is a row group are measured again. A measurement costs
/// some nanoseconds for each column.
const MEASURED_ROWS: usize = 16;

/// The greatest size of a row group, in bytes, that a caller should choose, however much memory it
/// has. Readers divide files at row groups, and larger ones gain little.
pub const ROW_GROUP_BYTES_MAX: usize = 32 << 20;

/// The number of bytes at which a file is full. Iceberg's own writers have the same default.
const FILE_BYTES_MAX: usize = 512 << 20;
/// The number of rows at which a file is full. Writers and readers hold the positions of its deleted rows in
/// memory, eight bytes each.
const FILE_ROWS_MAX: u64 = 4 << 20;
/// The number of column chunks at which a file is full, by [`chunks_of_metadata`]. Writers and readers hold the
/// metadata of all of them in memory, about a KiB each.
const FILE_CHUNKS_MAX: usize = 8 << 10;
/// The number of rows after which the metadata of a column's pages has grown by as much as a column chunk has. The
/// Parquet library ends a page at 20,000 rows, and a page takes about 128 bytes of metadata.
const ROWS_PER_CHUNK: u64 = 8 * 20_000;

/// An error while a data file is written.
#[derive(Debug, thiserror::Error)]
pub enum DataFileError {
    /// A value that Iceberg cannot represent, or a column whose field in the Iceberg table does not suit its
    /// CQL type.
    #[error("column {column}: {error}")]
    Value { column: String, error: ValueError },
    /// The file cannot be written.
    #[error("writing a Parquet file: {0}")]
    Parquet(#[from] ParquetError),
    /// The columns of a batch do not fit together, for example because a row had too few values.
    #[error("building a batch of rows: {0}")]
    Arrow(#[from] ArrowError),
    /// A row whose key is not above that of the row before it.
    #[error("the rows do not come in the order of their keys")]
    Order,
}

/// A column of a data file.
#[derive(Debug, Clone)]
pub struct Column {
    /// The CQL type of the values.
    pub ty: CqlType,
    /// The column of the Iceberg table.
    pub field: NestedField,
}

/// A writer of rows to a Parquet file.
pub struct DataFileWriter<W: Write + Send> {
    /// The plan of the file until it begins with the first batch, because the values of that batch
    /// decide which columns get a dictionary; then `None`.
    planned: Option<PlannedFile<W>>,
    /// The writer of row groups; `None` until the file begins.
    writer: Option<RowGroups<Counted<W>>>,
    schema: SchemaRef,
    columns: Vec<(NestedField, ColumnBuilder)>,
    float_nulls: FloatNulls,
    batch_limits: BatchLimits,
    batch_rows: usize,
    batch_bytes: usize,
    rows: u64,
    index: RowIndexBuilder,
}

/// The size at which the writer hands a batch of rows to the Parquet library.
#[derive(Debug, Clone, Copy)]
struct BatchLimits {
    rows: usize,
    bytes: usize,
    /// True if a batch is a row group. Then `bytes` is also a limit on the memory of the batch, which may take more
    /// than the values: a null takes a bit, a UUID becomes a text, and the column that is encoded has a place for
    /// each row.
    is_row_group: bool,
}

impl BatchLimits {
    fn new(schema: &SchemaDescriptor, row_group_bytes: usize) -> Self {
        if is_by_column(schema) {
            Self {
                rows: ROW_GROUP_ROWS,
                bytes: row_group_bytes,
                is_row_group: true,
            }
        } else {
            Self {
                rows: BATCH_ROWS,
                bytes: BATCH_BYTES,
                is_row_group: false,
            }
        }
    }
}

impl<W: Write + Send> DataFileWriter<W> {
    /// Returns a writer of a file in `sink`. It writes nothing to `sink` before the first batch of
    /// rows is complete. `on_empty` decides how empty values of types such as `int` are written.
    /// The writer holds one row group in memory, of about `row_group_bytes` bytes. These are encoded bytes if there are
    /// few columns. Many columns are encoded one after the other: then these are the bytes of the values in arrays,
    /// with those of the column that is encoded, and the arrays may take twice as much memory.
    ///
    /// # Errors
    /// If the Iceberg field of a column was not made for the column's CQL type, or has no
    /// counterpart in Parquet.
    pub fn new(
        sink: W,
        columns: &[Column],
        on_empty: OnEmpty,
        row_group_bytes: usize,
    ) -> Result<Self, DataFileError> {
        let fields = columns.iter().map(|column| arrow_field(&column.field));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let of_parquet = ArrowSchemaConverter::new().convert(&schema)?;
        let mut properties = properties()?.set_max_row_group_bytes(Some(row_group_bytes));
        for column in of_parquet.columns() {
            if has_no_statistics(column) {
                let path = column.path().clone();
                properties =
                    properties.set_column_statistics_enabled(path, EnabledStatistics::None);
            }
        }
        let builder = |column: &Column| {
            let field = column.field.clone();
            match ColumnBuilder::new(&column.ty, &field, on_empty) {
                Ok(builder) => Ok((field, builder)),
                Err(error) => Err(DataFileError::Value {
                    column: field.name,
                    error,
                }),
            }
        };
        Ok(Self {
            batch_limits: BatchLimits::new(&of_parquet, row_group_bytes),
            planned: Some(PlannedFile {
                sink,
                first_values: FirstValues::new(&of_parquet),
                schema: of_parquet,
                properties,
            }),
            writer: None,
            schema,
            columns: columns.iter().map(builder).collect::<Result<_, _>>()?,
            float_nulls: FloatNulls::default(),
            batch_rows: 0,
            batch_bytes: 0,
            rows: 0,
            index: RowIndexBuilder::new(),
        })
    }

    /// Appends a row as [`append`](Self::append) does, and reports long work on values to `charge`: see
    /// [`ColumnBuilder::append_with`]. `key` must be above the keys of all rows before it. It must be the key
    /// that [`RowKeys`](crate::rows::RowKeys) returns when the row is read.
    ///
    /// # Errors
    /// If the key is not above the one before it: then nothing is appended. Also the errors of
    /// [`append`](Self::append), and those of `charge` with the name of the column.
    ///
    /// # Panics
    /// If there are more values than columns.
    pub fn append_keyed<'v>(
        &mut self,
        key: &[u8],
        values: impl IntoIterator<Item = Option<&'v [u8]>>,
        charge: Charge<'_, ValueError>,
    ) -> Result<(), DataFileError> {
        if !self.index.append(key) {
            return Err(DataFileError::Order);
        }
        self.append_with(values, charge)
    }

    /// Appends a row: one value for each column, in the order of the columns. `None` is null.
    ///
    /// # Errors
    /// If a value has no exact counterpart (the error names its column), or if writing to the sink fails. The
    /// writer cannot be used afterwards. If there are fewer values than columns, the call that ends the batch
    /// fails.
    ///
    /// # Panics
    /// If there are more values than columns.
    pub fn append<'v>(
        &mut self,
        values: impl IntoIterator<Item = Option<&'v [u8]>>,
    ) -> Result<(), DataFileError> {
        self.append_with(values, &mut |_| Ok(()))
    }

    fn append_with<'v>(
        &mut self,
        values: impl IntoIterator<Item = Option<&'v [u8]>>,
        charge: Charge<'_, ValueError>,
    ) -> Result<(), DataFileError> {
        // Of a batch that is a row group, the nulls are measured with the arrays.
        let null_bytes = usize::from(!self.batch_limits.is_row_group);
        for (at, value) in values.into_iter().enumerate() {
            let (field, builder) = &mut self.columns[at];
            builder
                .append_with(value, charge)
                .map_err(|error| DataFileError::Value {
                    column: field.name.clone(),
                    error,
                })?;
            self.batch_bytes += value.map_or(0, <[u8]>::len) + null_bytes;
            if let (Some(planned), Some(value)) = (&mut self.planned, value) {
                planned.first_values.add(at, value);
            }
        }
        self.batch_rows += 1;
        self.rows += 1;
        if self.is_batch_full() {
            self.write_batch()?;
        }
        Ok(())
    }

    fn is_batch_full(&self) -> bool {
        let limits = self.batch_limits;
        let is_measured = limits.is_row_group && self.batch_rows.is_multiple_of(MEASURED_ROWS);
        self.batch_rows >= limits.rows
            || self.batch_bytes >= limits.bytes
            || (is_measured && self.row_group_bytes() >= limits.bytes)
    }

    /// Returns the memory of the current batch as a row group, in bytes: the values of all columns, and the most
    /// that the encoding of one column takes.
    fn row_group_bytes(&self) -> usize {
        let builders = || self.columns.iter().map(|(_, builder)| builder);
        let values: usize = builders().map(ColumnBuilder::bytes).sum();
        let encoding = builders().map(ColumnBuilder::encoding_bytes).max();
        values + encoding.unwrap_or(0)
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns whether the file has reached the limit on its rows, column chunks or bytes. Further rows
    /// should go into another file.
    pub fn is_full(&self) -> bool {
        let Some(writer) = &self.writer else {
            return false;
        };
        let groups = writer.complete();
        let columns = groups.first().map_or(0, RowGroupMetaData::num_columns);
        self.rows >= FILE_ROWS_MAX
            || chunks_of_metadata(columns, groups.len(), self.rows) >= FILE_CHUNKS_MAX
            || writer.bytes_written() >= FILE_BYTES_MAX
    }

    /// Returns the number of empty values that became null so far.
    pub fn empty_values(&self) -> u64 {
        self.columns
            .iter()
            .map(|(_, column)| column.empty_values())
            .sum()
    }

    /// Ends the file. Returns the sink, and the description of the file under the name `path`.
    ///
    /// # Errors
    /// If writing to the sink fails.
    pub fn finish(mut self, path: String) -> Result<(W, DataFile), DataFileError> {
        if self.batch_rows > 0 {
            self.write_batch()?;
        }
        // A file without rows has not begun yet.
        self.begin()?;
        let mut writer = self.writer.ok_or_else(has_not_begun)?;
        writer.end_row_group()?;
        let mut file = describe(path, writer.complete(), &self.float_nulls);
        let Counted { sink, bytes } = writer.into_inner()?;
        file.file_size_in_bytes = bytes as i64;
        Ok((sink, file))
    }

    /// Ends the file as [`finish`](Self::finish) does. Returns the index of its rows, too; `None` if the file
    /// has no rows, or if a row was appended without its key. The index can be [stored](RowIndex::store) once
    /// the file is in the target.
    ///
    /// # Errors
    /// If writing to the sink fails.
    pub fn finish_keyed(
        mut self,
        path: String,
    ) -> Result<(W, DataFile, Option<RowIndex>), DataFileError> {
        let index = mem::replace(&mut self.index, RowIndexBuilder::new());
        let index = index.finish(self.rows);
        let (sink, file) = self.finish(path)?;
        Ok((sink, file, index))
    }

    /// Begins the file, unless it has begun. The values that were appended so far decide which
    /// columns get a dictionary.
    fn begin(&mut self) -> Result<(), DataFileError> {
        if let Some(planned) = self.planned.take() {
            let properties = planned.first_values.choose(planned.properties).build();
            let sink = Counted {
                sink: planned.sink,
                bytes: 0,
            };
            let schema = self.schema.clone();
            self.writer = Some(RowGroups::begin(sink, schema, planned.schema, properties)?);
        }
        Ok(())
    }

    fn write_batch(&mut self) -> Result<(), DataFileError> {
        self.begin()?;
        let float_nulls = &mut self.float_nulls;
        let columns = self.columns.iter_mut().map(|(field, builder)| {
            let values = builder.finish();
            float_nulls.add(field, &values, None);
            values
        });
        match self.writer.as_mut().ok_or_else(has_not_begun)? {
            RowGroups::Batched(writer) => {
                let batch = RecordBatch::try_new(self.schema.clone(), columns.collect())?;
                writer.write(&batch)?;
            }
            RowGroups::ByColumn(writer) => writer.write_row_group(columns)?,
        }
        self.batch_rows = 0;
        self.batch_bytes = 0;
        Ok(())
    }
}

/// Returns the number of column chunks whose metadata takes as much memory as that of a file with `columns` columns,
/// in `groups` row groups, and `rows` rows.
fn chunks_of_metadata(columns: usize, groups: usize, rows: u64) -> usize {
    columns * (groups + (rows / ROWS_PER_CHUNK) as usize)
}

/// Returns the error of a call after one that could not begin the file.
fn has_not_begun() -> ParquetError {
    ParquetError::General("an earlier call could not begin the file".to_owned())
}

/// A file to which nothing has been written.
struct PlannedFile<W> {
    sink: W,
    /// The schema in Parquet.
    schema: SchemaDescriptor,
    /// The properties of the file, with a dictionary for every column.
    properties: WriterPropertiesBuilder,
    first_values: FirstValues,
}

/// A sink that counts the bytes that are written to it.
struct Counted<W> {
    sink: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
