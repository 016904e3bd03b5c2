//! The row groups of a Parquet file, which are encoded in one of two ways.
//!
//! | | up to [`BATCHED_COLUMNS_MAX`] columns | more columns |
//! | --- | --- | --- |
//! | a batch of rows | is encoded at once; a row group has many | is a row group |
//! | in memory | the encoded row group, and an encoder for each column | the values of a row group, and one encoder |
//!
//! With many columns, a null takes a bit until its column is encoded. With 500 columns, a row group of 8 MiB has 2,096
//! rows of as many numbers of 8 bytes, or 42,256 rows of five texts of 20 bytes. A file has a limited number of column
//! chunks, here those of 17 row groups at most, so it would be small if its row groups were.
//!
//! A column of a nested type counts as many times as it has columns in Parquet, and their encoders are in memory
//! together: the Parquet library makes those of a whole field at once.
//!
//! The encoder of a column takes memory before it has encoded anything, because the Parquet library gives it
//! a table of hashes and two contexts of zstd:
//!
//! | part of an encoder | bytes |
//! | --- | --- |
//! | table of hashes, of a column with a dictionary | 72 KiB for up to 7,168 distinct values; 4.5 MiB for 262,144 |
//! | decompressor, which a writer never uses | 94 KiB |
//! | compressor, once it has compressed a page | 0.3 MiB for a page of 16 KiB, 1.3 MiB for one of 1 MiB |
//! | rows of the page that is not complete | 8 bytes for each, of a column with a dictionary |
//!
//! With 500 columns at once that would be some 80 MiB before the first row. No limit of the Parquet library
//! counts the contexts of zstd.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{FieldRef, Schema, SchemaRef};
use parquet::arrow::arrow_writer::{
    ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves,
};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;

/// The greatest number of columns in Parquet that are encoded at once. Their contexts of zstd take up to 22 MiB in
/// each task, as much as an upload to a bucket. Row groups of more columns are large enough without an encoder for
/// each: with 17 columns of 8 bytes, a row group of 8 MiB has 53,000 rows.
const BATCHED_COLUMNS_MAX: usize = 16;

/// Returns true if the row groups of a file are encoded one column after the other.
pub(crate) fn is_by_column(schema: &SchemaDescriptor) -> bool {
    schema.num_columns() > BATCHED_COLUMNS_MAX
}

/// The writer of the row groups of a Parquet file.
pub(crate) enum RowGroups<W: Write + Send> {
    /// A batch of rows is encoded when it comes. A row group ends at the size in the properties of the file.
    Batched(ArrowWriter<W>),
    /// A row group is encoded when all of its rows are there.
    ByColumn(ByColumn<W>),
}

impl<W: Write + Send> RowGroups<W> {
    /// Begins a file in `sink`. `of_parquet` must be the schema in Parquet that follows from `schema`.
    ///
    /// # Errors
    /// If the Parquet library does not support a type, or if writing to the sink fails.
    pub(crate) fn begin(
        sink: W,
        schema: SchemaRef,
        of_parquet: SchemaDescriptor,
        properties: WriterProperties,
    ) -> Result<Self, ParquetError> {
        if is_by_column(&of_parquet) {
            let writer = ByColumn::begin(sink, schema, &of_parquet, properties)?;
            return Ok(Self::ByColumn(writer));
        }
        // Iceberg's readers take the types from the table's schema.
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_parquet_schema(of_parquet)
            .with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(sink, schema, options)?;
        Ok(Self::Batched(writer))
    }

    /// Returns the metadata of the row groups that are complete.
    pub(crate) fn complete(&self) -> &[RowGroupMetaData] {
        match self {
            Self::Batched(writer) => writer.flushed_row_groups(),
            Self::ByColumn(writer) => writer.file.flushed_row_groups(),
        }
    }

    /// Returns the number of bytes of the file so far.
    pub(crate) fn bytes_written(&self) -> usize {
        match self {
            Self::Batched(writer) => writer.bytes_written(),
            Self::ByColumn(writer) => writer.file.bytes_written(),
        }
    }

    /// Returns the memory of the encoders between two batches, in bytes, without the contexts of zstd.
    #[cfg(test)]
    pub(crate) fn memory_size(&self) -> usize {
        match self {
            Self::Batched(writer) => writer.memory_size(),
            Self::ByColumn(_) => 0,
        }
    }

    /// Completes the row group that has been begun, if there is one.
    ///
    /// # Errors
    /// If writing to the sink fails.
    pub(crate) fn end_row_group(&mut self) -> Result<(), ParquetError> {
        match self {
            Self::Batched(writer) => writer.flush(),
            Self::ByColumn(_) => Ok(()),
        }
    }

    /// Writes the end of the file, and returns the sink.
    ///
    /// # Errors
    /// If writing to the sink fails, or if an earlier row group could not be written.
    pub(crate) fn into_inner(self) -> Result<W, ParquetError> {
        match self {
            Self::Batched(writer) => writer.into_inner(),
            Self::ByColumn(writer) => writer.file.into_inner(),
        }
    }
}

/// A writer of row groups that encodes one column after the other.
pub(crate) struct ByColumn<W: Write + Send> {
    file: SerializedFileWriter<W>,
    schema: SchemaRef,
    /// For each field of the schema, the factory of encoders for its columns in Parquet. A single factory for
    /// the whole schema could only make the encoders of all fields at once.
    factories: Vec<ArrowRowGroupWriterFactory>,
}

impl<W: Write + Send> ByColumn<W> {
    fn begin(
        sink: W,
        schema: SchemaRef,
        of_parquet: &SchemaDescriptor,
        properties: WriterProperties,
    ) -> Result<Self, ParquetError> {
        let properties = Arc::new(properties);
        let fields = schema.fields().iter();
        let factories = fields.map(|field| encoders_of(field, &properties));
        let factories = factories.collect::<Result<Vec<_>, _>>()?;
        let file = SerializedFileWriter::new(sink, of_parquet.root_schema_ptr(), properties)?;
        Ok(Self {
            file,
            schema,
            factories,
        })
    }

    /// Writes a row group. `columns` yields an array of the same length for each field of the schema. An array
    /// is dropped before the next one is taken, so `columns` can make each one when it is needed.
    ///
    /// # Errors
    /// If the arrays do not have the types of the schema or the same length, or if writing to the sink fails.
    /// The writer cannot be used afterwards.
    pub(crate) fn write_row_group(
        &mut self,
        columns: impl Iterator<Item = ArrayRef>,
    ) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        let fields = self.schema.fields().iter().zip(&self.factories);
        for ((field, factory), values) in fields.zip(columns) {
            // The number of the row group is of use only for encryption.
            let encoders = factory.create_column_writers(0)?;
            let leaves = compute_leaves(field, &values)?;
            for (mut encoder, leaf) in encoders.into_iter().zip(leaves) {
                encoder.write(&leaf)?;
                encoder.close()?.append_to_row_group(&mut group)?;
            }
        }
        group.close()?;
        Ok(())
    }
}

/// Returns a factory of encoders for the columns in Parquet of one field. These columns have the same
/// descriptions as in the schema of all fields.
fn encoders_of(
    field: &FieldRef,
    properties: &WriterPropertiesPtr,
) -> Result<ArrowRowGroupWriterFactory, ParquetError> {
    let alone = Arc::new(Schema::new(vec![field.clone()]));
    let of_parquet = ArrowSchemaConverter::new().convert(&alone)?;
    // The factory takes schema and properties from a file, but does not keep the file.
    let (root, properties) = (of_parquet.root_schema_ptr(), properties.clone());
    let file = SerializedFileWriter::new(io::sink(), root, properties)?;
    Ok(ArrowRowGroupWriterFactory::new(&file, alone))
}
