//! Files of positional deletes, each of which names rows of one data file.
//!
//! A manifest names, for each delete file, the location of its data file: engines that read a data file open only
//! the delete files with its location. Older versions of Iceberg's Java library take the location from the bounds
//! of the column `file_path`, so these bounds are exact.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use parquet::errors::ParquetError;
use parquet::file::metadata::PageIndexPolicy;
use parquet::schema::types::ColumnPath;

use super::{Result, RowsError};
use crate::bounds::FloatNulls;
use crate::commit::{LiveFile, delete_file_name};
use crate::iceberg::manifest::{DataFile, FILE_PATH, POSITION, POSITIONAL_DELETES};
use crate::own_file::{describe, properties};
use crate::parquet_file::open_metadata;
use crate::row_set::RowSet;
use crate::target::Target;

/// The number of rows that a writer of delete files hands to the Parquet library at once.
const BATCH_ROWS: usize = 16_384;

/// The position of a row: its file, and its number in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowPosition {
    /// The position of the data file in [`RowFiles::files`](super::RowFiles::files).
    pub file: usize,
    /// The number of the row in the file, from 0. Deleted rows are counted, too.
    pub position: u64,
}

/// The rows that a publication deletes, by data file.
#[derive(Debug, Default)]
pub struct PositionalDeletes {
    /// The numbers of the rows in each data file. The key is the position of the data file, as in
    /// [`RowPosition`].
    positions: BTreeMap<usize, RowSet>,
}

impl PositionalDeletes {
    pub fn add(&mut self, row: RowPosition) {
        self.positions
            .entry(row.file)
            .or_default()
            .add(row.position);
    }

    /// Adds the rows of `live` that earlier publications deleted, so that one new delete file can replace the
    /// earlier ones. `file` is the position of the data file, as in [`RowPosition`].
    ///
    /// # Errors
    /// If a request to the target fails, or if a delete file is damaged.
    pub fn add_deleted(&mut self, target: &Target, file: usize, live: &LiveFile) -> Result<()> {
        read_deletes(target, live, self.positions.entry(file).or_default())
    }

    /// Removes and returns the numbers of the rows to delete in one data file, in ascending order. `file` is
    /// the position of the data file, as in [`RowPosition`]. The caller does this for a data file that it
    /// writes anew without these rows, which then needs no delete file.
    pub fn take(&mut self, file: usize) -> Vec<u64> {
        self.positions
            .remove(&file)
            .unwrap_or_default()
            .into_sorted()
    }

    /// Writes a delete file for each data file of which rows are deleted, and returns the new files. `files`
    /// are the data files by their positions. `names` are the table, the version that the commit will create,
    /// and a text that is unique to these deletes.
    ///
    /// # Errors
    /// If a request to the target fails, or if the target has other deletes under the name of a new file.
    pub fn write(
        mut self,
        target: &Target,
        files: &[LiveFile],
        names: (&str, u64, &str),
    ) -> Result<Vec<DataFile>> {
        let places: Vec<usize> = self.positions.keys().copied().collect();
        let mut written = Vec::new();
        for place in places {
            written.extend(self.write_of(place, target, files, names)?);
        }
        Ok(written)
    }

    /// Writes the deletes of the data file `files[place]` into a new delete file, and removes them from
    /// memory. Returns the new file; `None` if no row is deleted. Later deletes for this data file would need
    /// the same name, so there must be none. `unique` and `place` become part of the new file's name.
    ///
    /// # Errors
    /// If a request to the target fails, or if the target has other deletes under the name of the new file.
    pub fn write_of(
        &mut self,
        place: usize,
        target: &Target,
        files: &[LiveFile],
        (table, version, unique): (&str, u64, &str),
    ) -> Result<Option<DataFile>> {
        let positions = self.take(place);
        if positions.is_empty() {
            return Ok(None);
        }
        let of = &files[place].file.file_path;
        let name = delete_file_name(table, version, &format!("{unique}-{place}"));
        let url = target.url(&name);
        let encoded = encode(of, &positions, url.clone());
        let (bytes, file) = encoded.map_err(RowsError::file(&url))?;
        if !target.create(&name, bytes)? {
            return Err(RowsError::file(&url)(
                "it has been written with other deletes",
            ));
        }
        Ok(Some(file))
    }
}

/// Returns the bytes and the description of the delete file at `url`, which deletes the rows `positions` of
/// the data file `of`.
fn encode(
    of: &str,
    positions: &[u64],
    url: String,
) -> std::result::Result<(Bytes, DataFile), ParquetError> {
    let field = |(name, id): (&str, i32), ty: DataType| {
        let id = (PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string());
        Field::new(name, ty, false).with_metadata(HashMap::from([id]))
    };
    let fields = vec![
        field(FILE_PATH, DataType::Utf8),
        field(POSITION, DataType::Int64),
    ];
    let schema = Arc::new(Schema::new(fields));
    let properties = properties()?
        // No position is there twice.
        .set_column_dictionary_enabled(ColumnPath::from(POSITION.0), false)
        .set_statistics_truncate_length(None)
        .build();
    let options = ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::<u8>::new(), schema.clone(), options)?;
    for positions in positions.chunks(BATCH_ROWS) {
        let names = StringArray::from_iter_values(positions.iter().map(|_| of));
        let positions = Int64Array::from_iter_values(positions.iter().map(|at| *at as i64));
        let columns: Vec<ArrayRef> = vec![Arc::new(names), Arc::new(positions)];
        writer.write(&RecordBatch::try_new(schema.clone(), columns)?)?;
    }
    writer.flush()?;
    let described = describe(url, writer.flushed_row_groups(), &FloatNulls::default());
    let bytes = writer.into_inner()?;
    let file = DataFile {
        content: POSITIONAL_DELETES,
        file_size_in_bytes: bytes.len() as i64,
        referenced_data_file: Some(of.to_owned()),
        ..described
    };
    Ok((bytes.into(), file))
}

/// Reads the numbers of the deleted rows of a data file, ascending, each once.
///
/// # Errors
/// If a delete file cannot be read, or deletes a row that the data file does not have.
pub(super) fn deleted_rows(target: &Target, live: &LiveFile) -> Result<Vec<u64>> {
    let mut deleted = RowSet::default();
    read_deletes(target, live, &mut deleted)?;
    Ok(deleted.into_sorted())
}

/// Adds the positions of the deleted rows of a data file to `deleted`.
fn read_deletes(target: &Target, live: &LiveFile, deleted: &mut RowSet) -> Result<()> {
    for DataFile { file_path: url, .. } in live.deletes.iter().map(|deletes| &deletes.file) {
        let name = target.name(url);
        let name = name.ok_or_else(|| RowsError::file(url)("it lies outside of the target"))?;
        let bytes = target.read(name)?.unwrap_or_default();
        let read = decode(bytes, &live.file.file_path, live.rows(), deleted);
        read.map_err(RowsError::file(url))?;
    }
    Ok(())
}

/// Decodes a delete file of the data file `of`, which has `rows` rows, and adds the numbers of the deleted
/// rows to `deleted`.
///
/// # Errors
/// If the file is damaged, or deletes a row that the data file does not have. The error is a sentence about
/// the file.
fn decode(
    bytes: Bytes,
    of: &str,
    rows: u64,
    deleted: &mut RowSet,
) -> std::result::Result<(), String> {
    for batch in batches(bytes)? {
        let batch = batch.map_err(|error| error.to_string())?;
        let column = |(name, _): (&str, i32), ty: &DataType| {
            let column = batch.column_by_name(name);
            let column = column.filter(|of| of.data_type() == ty && of.null_count() == 0);
            column.ok_or("it is no file of deletes")
        };
        let names = column(FILE_PATH, &DataType::Utf8View)?.as_string_view();
        let positions = column(POSITION, &DataType::Int64)?.as_primitive::<Int64Type>();
        for (name, position) in names.iter().zip(positions.values().iter()) {
            let position = u64::try_from(*position).ok().filter(|at| *at < rows);
            match position {
                Some(position) if name == Some(of) => deleted.add(position),
                _ => return Err("it deletes a row that its data file does not have".to_owned()),
            }
        }
    }
    Ok(())
}

/// Opens a delete file. All its rows may have the same long location. So the locations are read as
/// views, which share one copy of it.
///
/// # Errors
/// If the file is damaged. The error is a sentence about it.
fn batches(bytes: Bytes) -> std::result::Result<ParquetRecordBatchReader, String> {
    let metadata = open_metadata(&bytes, PageIndexPolicy::Skip)?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata);
    builder.build().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: each row of a batch had a copy of the location.
    #[test]
    fn a_long_location_that_all_rows_of_a_delete_file_share_is_in_memory_once() {
        let (of, url) = ("a".repeat(10_000), "file:///t/deletes.parquet");
        let positions: Vec<u64> = (0..1_000).collect();
        let (bytes, _) = encode(&of, &positions, url.to_owned()).unwrap();
        let batch = batches(bytes.clone()).unwrap().next().unwrap().unwrap();
        let batch_bytes = batch.get_array_memory_size();
        assert!(batch_bytes < 1_000_000, "{batch_bytes}");
        let mut deleted = RowSet::default();
        decode(bytes, &of, 1_000, &mut deleted).unwrap();
        assert_eq!(deleted.into_sorted(), positions);
    }

    /// Regression: a position took memory for each time that a delete file named it.
    #[test]
    fn a_position_that_a_delete_file_names_very_often_takes_little_memory() {
        let (of, url) = ("file:///t/data.parquet", "file:///t/deletes.parquet");
        let positions = vec![2; 100_000];
        let (bytes, _) = encode(of, &positions, url.to_owned()).unwrap();
        let mut deleted = RowSet::default();
        decode(bytes.clone(), of, 3, &mut deleted).unwrap();
        let held_bytes = deleted.capacity_bytes();
        assert!(held_bytes <= 1_000, "{held_bytes}");
        assert_eq!(deleted.into_sorted(), [2]);
        let error = decode(bytes, of, 2, &mut RowSet::default()).unwrap_err();
        assert!(error.contains("does not have"), "{error}");
    }
}
