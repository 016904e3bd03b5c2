//! Columns of a data file in batches of rows, from any row on.

use arrow_array::ArrayRef;
use ebb_model::types::CqlType;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::{PARQUET_FIELD_ID_META_KEY, ProjectionMask};
use parquet::file::metadata::PageIndexPolicy;

use super::{Result, RowsError};
use crate::batch_rows::batch_rows;
use crate::data_file::Column;
use crate::iceberg::manifest::DataFile;
use crate::object::{ObjectReader, Window};
use crate::parquet_file::open_metadata;
use crate::target::Target;
use crate::types::read_published_value;

/// The size of a batch in memory, in bytes, as estimated from the mean size of rows.
const BATCH_BYTES: u64 = 1 << 20;

/// A reader of columns of a data file, in batches of rows.
pub(super) struct Batches {
    url: String,
    object: ObjectReader,
    metadata: ArrowReaderMetadata,
    columns: Vec<ReadColumn>,
    mask: ProjectionMask,
    batch_rows: usize,
    reader: Option<ParquetRecordBatchReader>,
    /// The row that the next batch begins with.
    next: u64,
}

struct ReadColumn {
    name: String,
    ty: CqlType,
    /// The position of the column among those that are read from the file; `None` if all values are null,
    /// because the file is older than the column.
    place: Option<usize>,
}

/// Consecutive rows of a file, with the columns that the reader selected.
pub(super) struct Batch {
    /// The number of the batch's first row in the file, from 0.
    pub(super) first: u64,
    pub(super) rows: usize,
    arrays: Vec<ArrayRef>,
}

impl Batch {
    /// Returns the number, in the file, of the row that follows the batch.
    pub(super) fn end(&self) -> u64 {
        self.first + self.rows as u64
    }
}

impl Batches {
    /// Opens a data file at its first row, to read `columns`. They are found by their field ids. A column
    /// that the file lacks is null in all its rows.
    ///
    /// # Errors
    /// If the file cannot be read, has none of the columns, or does not have `file.record_count` rows.
    pub(super) fn open(target: &Target, file: &DataFile, columns: &[Column]) -> Result<Self> {
        let url = &file.file_path;
        let failed = |problem: &str| RowsError::file(url)(problem);
        let name = target.name(url);
        let name = name.ok_or_else(|| failed("it lies outside of the target"))?;
        let bytes = u64::try_from(file.file_size_in_bytes).unwrap_or(0);
        let object = ObjectReader::new(target.clone(), name.into(), bytes, Window::SEARCH);
        let metadata = open_metadata(&object, PageIndexPolicy::Optional);
        let metadata = metadata.map_err(|problem| of_read(&object, url, problem))?;
        if metadata.metadata().file_metadata().num_rows() != file.record_count {
            return Err(failed("it has another number of rows than its manifest"));
        }

        let root_of = |column: &Column| {
            let id = column.field.id.to_string();
            let mut fields = metadata.schema().fields().iter();
            fields.position(|of| of.metadata().get(PARQUET_FIELD_ID_META_KEY) == Some(&id))
        };
        let mut roots: Vec<usize> = columns.iter().filter_map(root_of).collect();
        roots.sort_unstable();
        roots.dedup();
        if roots.is_empty() {
            return Err(failed("it has none of the columns that are to be read"));
        }
        let columns = columns.iter().map(|column| ReadColumn {
            name: column.field.name.clone(),
            ty: column.ty.clone(),
            place: root_of(column).and_then(|root| roots.binary_search(&root).ok()),
        });
        let columns = columns.collect();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), roots);
        let mut batches = Self {
            url: url.clone(),
            object,
            batch_rows: batch_rows(&metadata, &mask, BATCH_BYTES),
            columns,
            mask,
            metadata,
            reader: None,
            next: 0,
        };
        batches.seek(0)?;
        Ok(batches)
    }

    /// Goes to the row with the number `row` in the file: the next batch begins with it.
    pub(super) fn seek(&mut self, row: u64) -> Result<()> {
        let groups = self.metadata.metadata().row_groups();
        let (mut first, mut group) = (0, 0);
        for of in groups {
            let end = u64::saturating_add(first, u64::try_from(of.num_rows()).unwrap_or(0));
            if row < end {
                break;
            }
            (first, group) = (end, group + 1);
        }
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            self.object.clone(),
            self.metadata.clone(),
        );
        let builder = builder
            .with_projection(self.mask.clone())
            .with_batch_size(self.batch_rows)
            .with_row_groups((group..groups.len()).collect())
            .with_offset(usize::try_from(row - first).unwrap_or(usize::MAX));
        let reader = builder.build().map_err(|error| self.of_read(error))?;
        self.reader = Some(reader);
        self.next = row;
        Ok(())
    }

    /// Returns the number of the row that the next batch begins with.
    pub(super) fn next_row(&self) -> u64 {
        self.next
    }

    /// Reads the next batch, which is not empty; `None` after the last row.
    pub(super) fn next_batch(&mut self) -> Result<Option<Batch>> {
        let Some(batch) = self.reader.as_mut().and_then(Iterator::next) else {
            return Ok(None);
        };
        let batch = batch.map_err(|error| self.of_read(error))?;
        let batch = Batch {
            first: self.next,
            rows: batch.num_rows(),
            arrays: batch.columns().to_vec(),
        };
        self.next = batch.end();
        Ok(Some(batch))
    }

    /// Returns the values of the row at the position `row` of a batch, in the order of the columns; `None` is
    /// null.
    ///
    /// # Errors
    /// If a value cannot be converted to the type of its column.
    ///
    /// # Panics
    /// If the batch has no such row.
    pub(super) fn values(&self, batch: &Batch, row: usize) -> Result<Vec<Option<Vec<u8>>>> {
        let value = |column: &ReadColumn| {
            let array = column.place.map(|place| &batch.arrays[place]);
            let read = array.map_or(Ok(None), |array| {
                read_published_value(array, row, &column.ty)
            });
            read.map_err(|error| self.error(format!("column {}: {error}", column.name)))
        };
        self.columns.iter().map(value).collect()
    }

    /// Returns an error that names this file and `problem`.
    pub(super) fn error(&self, problem: String) -> RowsError {
        RowsError::file(&self.url)(problem)
    }

    fn of_read(&self, problem: impl ToString) -> RowsError {
        of_read(&self.object, &self.url, problem)
    }
}

/// Returns the error of a failure to read the file at `url`, which `object` reads: that of a request to the target, if
/// one has failed, otherwise a fault of the file, which every attempt to read the file would find again.
fn of_read(object: &ObjectReader, url: &str, problem: impl ToString) -> RowsError {
    match object.take_failure() {
        Some(failure) => failure.into(),
        None => RowsError::file(url)(problem),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use ebb_model::types::elements;

    use super::*;
    use crate::data_file::{self, DataFileWriter, ROW_GROUP_BYTES_MAX};
    use crate::rows::testing::columns;
    use crate::types::OnEmpty;

    /// Regression: a batch held a copy of a shared value for each of its rows, so with values of 500 kB it
    /// took 500 MB.
    #[test]
    fn a_batch_holds_a_text_that_its_rows_share_once() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::folder(dir.path()).unwrap();
        let columns = columns();
        let text = "x".repeat(16 << 10);
        let mut writer =
            DataFileWriter::new(Vec::new(), &columns, OnEmpty::Refuse, ROW_GROUP_BYTES_MAX)
                .unwrap();
        for k in 0..2_000_i32 {
            let k = k.to_be_bytes();
            let values = [&k[..], &b"c"[..], text.as_bytes()];
            writer.append(values.map(Some)).unwrap();
        }
        let (bytes, file) = writer.finish(target.url("shared.parquet")).unwrap();
        assert!(target.create("shared.parquet", bytes.into()).unwrap());

        let mut batches = Batches::open(&target, &file, &columns).unwrap();
        batches.seek(500).unwrap();
        let batch = batches.next_batch().unwrap().unwrap();
        assert_eq!((batch.first, batch.rows as u64), (500, 1024));
        let arrays = batch.arrays.iter();
        let held: usize = arrays.map(|array| array.get_array_memory_size()).sum();
        assert!(held < 4 << 20, "{held} bytes");
        let values = batches.values(&batch, batch.rows - 1).unwrap();
        assert_eq!(values[0], Some(1_523_i32.to_be_bytes().to_vec()));
        assert!(values[2].as_deref() == Some(text.as_bytes()));
    }

    /// Regression: batches were measured by their size in the file alone, where equal elements of lists take
    /// next to nothing.
    #[test]
    fn a_batch_of_long_lists_of_equal_elements_has_few_rows() {
        const ELEMENTS: usize = 10_000;
        let dir = tempfile::tempdir().unwrap();
        let target = Target::folder(dir.path()).unwrap();
        let columns = data_file::testing::columns([("l", CqlType::list(CqlType::Int))]);
        let list = elements::build([&[0; 4][..]; ELEMENTS]);
        let mut writer =
            DataFileWriter::new(Vec::new(), &columns, OnEmpty::Refuse, ROW_GROUP_BYTES_MAX)
                .unwrap();
        for _ in 0..200 {
            writer.append([Some(&list[..])]).unwrap();
        }
        let (bytes, file) = writer.finish(target.url("lists.parquet")).unwrap();
        assert!(bytes.len() < 64 << 10, "{} bytes", bytes.len());
        assert!(target.create("lists.parquet", bytes.into()).unwrap());

        let mut batches = Batches::open(&target, &file, &columns).unwrap();
        let batch = batches.next_batch().unwrap().unwrap();
        let held: usize = (batch.arrays.iter())
            .map(|array| array.get_array_memory_size())
            .sum();
        assert!(held < 4 << 20, "{held} bytes of {} rows", batch.rows);
        assert_eq!(batches.values(&batch, 0).unwrap(), [Some(list)]);
    }
}
