//! Data files: rows of a table as Parquet, and the description of such a file for a manifest.

use std::io::{self, Write};
use std::mem;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use ebb_model::types::{Charge, CqlType};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::SchemaDescriptor;

use crate::bounds::{Columns, FloatNulls, has_no_statistics};
use crate::dictionaries::FirstValues;
use crate::iceberg::manifest::{DataFile, ROWS};
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
/// The number of column chunks at which a file is full. Writers and readers hold the metadata of all of them
/// in memory, about a KiB each.
const FILE_CHUNKS_MAX: usize = 8 << 10;

/// The level of the zstd compression. DuckDB compresses at the same level.
pub(crate) const ZSTD_LEVEL: i32 = 3;

/// The text before the version of ebb in the field `created_by` of Parquet files that ebb writes.
const CREATOR: &str = "ebb version ";

/// Returns the name and the version of the program for a Parquet file.
pub(crate) fn creator() -> String {
    format!("{CREATOR}{}", env!("CARGO_PKG_VERSION"))
}

/// Returns whether ebb wrote the Parquet file whose metadata is `file`.
pub(crate) fn is_of_ebb(file: &FileMetaData) -> bool {
    file.created_by().is_some_and(|by| by.starts_with(CREATOR))
}

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
    /// True if a batch is a row group. Then `bytes` is also a limit on the arrays of the batch, because these may
    /// take more memory than the values: a null takes as much as a number, and a UUID becomes a text.
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
    /// and the arrays may take twice as much memory.
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
        let level = ZstdLevel::try_new(ZSTD_LEVEL)?;
        let of_parquet = ArrowSchemaConverter::new().convert(&schema)?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_bytes(Some(row_group_bytes))
            .set_created_by(creator());
        for column in of_parquet.columns() {
            if has_no_statistics(column) {
                let path = column.path().clone();
                properties =
                    properties.set_column_statistics_enabled(path, EnabledStatistics::None);
            }
        }
        let builder = |column: &Column| {
            let field = column.field.clone();
            let made = ColumnBuilder::new(&column.ty, &field, on_empty);
            match made {
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
        for (at, value) in values.into_iter().enumerate() {
            let (field, builder) = &mut self.columns[at];
            builder
                .append_with(value, charge)
                .map_err(|error| DataFileError::Value {
                    column: field.name.clone(),
                    error,
                })?;
            self.batch_bytes += value.map_or(1, |value| value.len() + 1);
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
            || (is_measured && self.array_bytes() >= limits.bytes)
    }

    /// Returns the size of the arrays of the current batch, in bytes.
    fn array_bytes(&self) -> usize {
        let columns = self.columns.iter();
        columns.map(|(_, builder)| builder.bytes()).sum()
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
        let chunks = groups.len() * groups.first().map_or(0, RowGroupMetaData::num_columns);
        self.rows >= FILE_ROWS_MAX
            || chunks >= FILE_CHUNKS_MAX
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
            self.writer = Some(planned.begin(self.schema.clone())?);
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

impl<W: Write + Send> PlannedFile<W> {
    fn begin(self, schema: SchemaRef) -> Result<RowGroups<Counted<W>>, ParquetError> {
        let properties = self.first_values.choose(self.properties);
        let sink = Counted {
            sink: self.sink,
            bytes: 0,
        };
        RowGroups::begin(sink, schema, self.schema, properties.build())
    }
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

/// Returns the description by which a manifest lists the file `path` with the row groups `groups`. Its
/// `file_size_in_bytes` is 0; the caller sets it.
pub(crate) fn describe(
    path: String,
    groups: &[RowGroupMetaData],
    float_nulls: &FloatNulls,
) -> DataFile {
    let columns = Columns::of(groups, float_nulls);
    let offsets = groups
        .iter()
        .map(|group| group.column(0).byte_range().0 as i64);
    DataFile {
        content: ROWS,
        file_path: path,
        file_format: "PARQUET".to_owned(),
        record_count: groups.iter().map(RowGroupMetaData::num_rows).sum(),
        file_size_in_bytes: 0,
        column_sizes: Some(columns.sizes),
        value_counts: Some(columns.values),
        null_value_counts: Some(columns.nulls),
        lower_bounds: Some(columns.lower_bounds),
        upper_bounds: Some(columns.upper_bounds),
        split_offsets: Some(offsets.collect()),
        sort_order_id: None,
        referenced_data_file: None,
    }
}

#[cfg(test)]
mod wide_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iceberg::manifest::{self, Content, Entry, ManifestEntry};
    use crate::iceberg::metadata::TableMetadata;
    use crate::types::{FieldIds, IcebergType, TypeOptions, field, read_value};
    use bytes::Bytes;
    use ebb_model::types::elements::{build, build_tuple};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    fn columns() -> Vec<Column> {
        let mut ids = FieldIds::default();
        let types = [
            ("id", CqlType::Int),
            ("name", CqlType::Text),
            ("amount", CqlType::Varint),
            ("weight", CqlType::Double),
            ("tags", CqlType::set(CqlType::Text)),
        ];
        let column = |(name, ty): (&str, CqlType)| Column {
            field: field(name, &ty, false, &TypeOptions::default(), None, &mut ids),
            ty,
        };
        types.map(column).into()
    }

    fn writer() -> DataFileWriter<Vec<u8>> {
        DataFileWriter::new(Vec::new(), &columns(), OnEmpty::Refuse, 1 << 20).unwrap()
    }

    /// Writes a file of `count` rows. Each third name is null.
    fn file(count: i32) -> (Bytes, DataFile) {
        let mut writer = writer();
        for id in 0..count {
            let name = format!("name {id:06}");
            let amount = [0xff, 0x00];
            let values = [
                Some(&id.to_be_bytes()[..]),
                Some(name.as_bytes()).filter(|_| id % 3 != 0),
                Some(&amount[..]),
                Some(&[0x7f, 0xf8, 0, 0, 0, 0, 0, 0][..]),
                None,
            ];
            writer.append(values).unwrap();
        }
        assert_eq!(writer.rows(), count as u64);
        let (bytes, described) = writer.finish("/t/data/1.parquet".into()).unwrap();
        (bytes.into(), described)
    }

    fn of<T: Clone>(entries: &Option<Vec<Entry<T>>>, id: i32) -> Option<T> {
        let mut entries = entries.iter().flatten();
        let entry = entries.find(|entry| entry.key == id);
        entry.map(|entry| entry.value.clone())
    }

    #[test]
    fn rows_of_several_batches_come_back_in_their_order() {
        let (bytes, described) = file(40_000);
        assert_eq!(described.record_count, 40_000);
        assert_eq!(described.file_size_in_bytes, bytes.len() as i64);
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
        let mut next = 0_i32;
        for batch in reader.build().unwrap() {
            let batch = batch.unwrap();
            for row in 0..batch.num_rows() {
                let id = read_value(batch.column(0), row, &CqlType::Int).unwrap();
                assert_eq!(id, Some(next.to_be_bytes().to_vec()));
                next += 1;
            }
        }
        assert_eq!(next, 40_000);
    }

    /// Returns, for each row group, the columns that have a dictionary.
    pub(super) fn with_dictionary(bytes: Bytes) -> Vec<Vec<String>> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
        let groups = reader.metadata().row_groups().iter().map(|group| {
            let chunks = group.columns().iter();
            let chunks = chunks.filter(|chunk| chunk.dictionary_page_offset().is_some());
            let paths = chunks.map(|chunk| chunk.column_descr().path().string());
            paths.collect()
        });
        groups.collect()
    }

    #[test]
    fn columns_of_almost_unique_values_have_no_dictionary_and_come_back() {
        let row = |id: i32| {
            // Of 100 names 91 are distinct, and of 100 weights 97.
            let number = if id % 100 < 90 { id } else { -1 - id / 100 };
            let name = format!("name {number}");
            let weight = if id % 100 < 97 { f64::from(id) } else { -1.0 };
            let tag = format!("tag {id}");
            [
                Some(id.to_be_bytes().to_vec()),
                Some(name.into_bytes()),
                Some(vec![(id % 7) as u8]),
                Some(weight.to_be_bytes().to_vec()).filter(|_| id % 3 != 0),
                Some(build([tag.as_bytes()])),
            ]
        };
        let mut writer = writer();
        for id in 0..40_000 {
            writer.append(row(id).iter().map(Option::as_deref)).unwrap();
        }
        let (bytes, _) = writer.finish("/t/data/1.parquet".into()).unwrap();
        let bytes = Bytes::from(bytes);
        for columns in with_dictionary(bytes.clone()) {
            // Tags are unique, too, but the parts of nested columns are not judged.
            assert_eq!(columns, ["name", "amount", "tags.list.element"]);
        }
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
        let all = columns();
        let mut next = 0;
        for batch in reader.build().unwrap() {
            let batch = batch.unwrap();
            for at in 0..batch.num_rows() {
                let values = all.iter().zip(batch.columns());
                let values = values.map(|(column, array)| read_value(array, at, &column.ty));
                let values: Vec<_> = values.map(Result::unwrap).collect();
                assert_eq!(values, row(next));
                next += 1;
            }
        }
        assert_eq!(next, 40_000);
    }

    #[test]
    fn columns_of_few_values_have_a_dictionary() {
        let all = ["id", "name", "amount", "weight"];
        // Ids are unique. Two thirds of the names are not null, and these are unique, too.
        for (rows, without) in [(999, 0), (1_000, 1), (3_000, 2)] {
            let groups = with_dictionary(file(rows).0);
            assert_eq!(groups.len(), 1);
            let columns = groups[0].iter().map(String::as_str);
            let flat: Vec<_> = columns.filter(|path| !path.starts_with("tags")).collect();
            assert_eq!(flat, all[without..], "{rows} rows");
        }
    }

    #[test]
    fn a_file_without_rows_is_valid() {
        let writer = writer();
        assert!(!writer.is_full());
        let (bytes, described) = writer.finish("/t/data/1.parquet".into()).unwrap();
        assert_eq!(described.record_count, 0);
        assert_eq!(described.file_size_in_bytes, bytes.len() as i64);
        let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
        assert_eq!(reader.schema().fields().len(), 5);
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    }

    #[test]
    fn a_manifest_describes_a_file_so_that_readers_can_pass_over_it() {
        let (_, described) = file(3_000);
        assert_eq!(of(&described.value_counts, 1), Some(3_000));
        assert_eq!(of(&described.null_value_counts, 2), Some(1_000));
        let bytes = |bytes: &[u8]| Some(bytes.to_vec());
        assert_eq!(of(&described.lower_bounds, 1), bytes(&0_i32.to_le_bytes()));
        assert_eq!(
            of(&described.upper_bounds, 1),
            bytes(&2_999_i32.to_le_bytes())
        );
        assert_eq!(of(&described.lower_bounds, 2), bytes(b"name 000001"));
        // -256 in the fewest bytes, big endian.
        assert_eq!(of(&described.upper_bounds, 3), bytes(&[0xff, 0x00]));
        // Readers disagree about the place of NaN among numbers.
        assert_eq!(of(&described.lower_bounds, 4), None);
        // The element of the set.
        assert_eq!(of(&described.null_value_counts, 6), None);

        let mut metadata = TableMetadata::new("u".into(), "/t".into());
        let fields: Vec<_> = columns().into_iter().map(|column| column.field).collect();
        metadata.set_schema(&fields, 6);
        let entry = ManifestEntry::added(7, described);
        let schema = metadata.schema().unwrap();
        let encoded = manifest::encode(std::slice::from_ref(&entry), schema, Content::Data);
        assert_eq!(manifest::decode(&encoded).unwrap(), [entry]);
        let decoded = TableMetadata::decode(&metadata.encode().unwrap()).unwrap();
        assert_eq!(decoded.columns(), Some(fields));
    }

    /// Regression: the statistics of floating-point columns had a least and a greatest value, which
    /// do not include NaN. Because of them, DuckDB passed over rows with NaN.
    #[test]
    fn floating_point_columns_have_no_statistics_and_their_nulls_are_counted() {
        let pair = CqlType::Tuple([CqlType::Float, CqlType::Text].into());
        let types = [
            ("id", CqlType::Int),
            ("d", CqlType::Double),
            ("l", CqlType::list(CqlType::Float)),
            ("p", pair),
        ];
        let mut ids = FieldIds::default();
        let columns = types.map(|(name, ty)| Column {
            field: field(name, &ty, false, &TypeOptions::default(), None, &mut ids),
            ty,
        });
        let mut writer =
            DataFileWriter::new(Vec::new(), &columns, OnEmpty::Refuse, 1 << 20).unwrap();
        for (d, f) in [(1.0_f64, 1.0_f32), (f64::NAN, f32::NAN)] {
            let (id, d, f) = (1_i32.to_be_bytes(), d.to_be_bytes(), f.to_be_bytes());
            let list = build([&f[..]]);
            let pair = build_tuple([Some(&f[..]), Some(&b"x"[..])]);
            let values = [&id[..], &d[..], &list[..], &pair[..]];
            writer.append(values.map(Some)).unwrap();
        }
        let pair = build_tuple([None, Some(&b"x"[..])]);
        writer.append([None, None, None, Some(&pair[..])]).unwrap();
        writer.append([None; 4]).unwrap();
        let (bytes, described) = writer.finish("/t/data/1.parquet".into()).unwrap();

        let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
        let chunks = reader.metadata().row_group(0).columns().iter();
        let has_statistics = chunks.map(|chunk| {
            let path = chunk.column_descr().path().string();
            let has_some = chunk.statistics().is_some() || chunk.column_index_offset().is_some();
            (path, has_some)
        });
        let expected = [
            ("id", true),
            ("d", false),
            ("l.list.element", false),
            ("p._1", false),
            ("p._2", true),
        ];
        let expected = expected.map(|(path, has_some)| (path.to_owned(), has_some));
        assert_eq!(has_statistics.collect::<Vec<_>>(), expected);
        let IcebergType::Struct(parts) = &columns[3].field.ty else {
            panic!("a tuple is a struct");
        };
        let nulls = |field: &NestedField| of(&described.null_value_counts, field.id);
        assert_eq!(nulls(&columns[0].field), Some(2));
        assert_eq!(nulls(&columns[1].field), Some(2));
        assert_eq!(nulls(&parts[0]), Some(2));
        assert_eq!(nulls(&parts[1]), Some(1));
    }

    #[test]
    fn an_upper_bound_that_cannot_be_cut_is_left_out() {
        let text = |character: &str, count: usize| character.repeat(count).into_bytes();
        let ends = [
            (text("z", 64), Some(text("z", 64))),
            // The least text of 64 bytes that is greater.
            (text("y", 65), Some([text("y", 63), text("z", 1)].concat())),
            (text("\u{10ffff}", 100_000), None),
        ];
        for (greatest, upper) in ends {
            let mut writer = writer();
            for name in [&b"a"[..], &greatest[..]] {
                writer.append([None, Some(name), None, None, None]).unwrap();
            }
            let (_, described) = writer.finish("/t/data/1.parquet".into()).unwrap();
            assert_eq!(of(&described.lower_bounds, 2), Some(b"a".to_vec()));
            assert_eq!(of(&described.upper_bounds, 2), upper);
        }
    }

    #[test]
    fn a_file_of_many_columns_is_full_after_few_row_groups() {
        let mut ids = FieldIds::default();
        let columns = (0..FILE_CHUNKS_MAX / 2).map(|at| Column {
            field: field(
                &format!("c{at}"),
                &CqlType::Int,
                false,
                &TypeOptions::default(),
                None,
                &mut ids,
            ),
            ty: CqlType::Int,
        });
        let columns: Vec<Column> = columns.collect();
        // Each batch is a row group.
        let mut writer = DataFileWriter::new(Vec::new(), &columns, OnEmpty::Refuse, 1).unwrap();
        let value = 7_i32.to_be_bytes();
        while !writer.is_full() {
            assert!(writer.rows() < 1_000);
            let row = std::iter::repeat_n(Some(&value[..]), columns.len());
            writer.append(row).unwrap();
        }
        let (_, described) = writer.finish("/t/data/1.parquet".into()).unwrap();
        assert_eq!(described.split_offsets.unwrap().len(), 2);
    }

    #[test]
    fn a_value_that_does_not_fit_names_its_column() {
        let mut writer = writer();
        let values = [Some(&b""[..]), None, None, None, None];
        let error = writer.append(values).unwrap_err().to_string();
        assert!(
            error.starts_with("column id: ") && error.contains("empty"),
            "{error}"
        );
    }

    fn free(_: usize) -> Result<(), ValueError> {
        Ok(())
    }

    #[test]
    fn rows_that_do_not_come_in_the_order_of_their_keys_are_refused() {
        let row = || [None; 5];
        let mut keyed = writer();
        keyed.append_keyed(b"a", row(), &mut free).unwrap();
        keyed.append_keyed(b"b", row(), &mut free).unwrap();
        for key in [b"b", b"a"] {
            let error = keyed.append_keyed(key, row(), &mut free).unwrap_err();
            assert!(error.to_string().contains("order"), "{error}");
        }
        let (_, file, index) = keyed.finish_keyed("/t/data/1.parquet".into()).unwrap();
        assert_eq!(file.record_count, 2);
        assert_eq!(index.unwrap().last(), b"b");

        let mut mixed = writer();
        mixed.append_keyed(b"a", row(), &mut free).unwrap();
        mixed.append(row()).unwrap();
        let (_, _, index) = mixed.finish_keyed("/t/data/2.parquet".into()).unwrap();
        assert_eq!(index, None);
    }
}
