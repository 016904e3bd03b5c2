//! Positional deletes: files whose rows name rows of data files.

use std::collections::HashMap;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::place::Place;
use super::{Result, SourceError, metadata};
use crate::row_set::RowSet;

/// The name of the column of a positional delete file that contains the location of the data file, by
/// Iceberg's specification.
const FILE_PATH: &str = "file_path";
/// The name of the column of a positional delete file that contains the number of the deleted row in the data
/// file.
const POSITION: &str = "pos";

/// The deleted rows of data files.
#[derive(Debug, Default)]
pub(super) struct Deletes {
    files: HashMap<String, FileDeletes>,
}

#[derive(Debug)]
struct FileDeletes {
    /// The sequence number of the data file. Deletes with a lower number are for an earlier file of
    /// the same name.
    sequence_number: i64,
    /// The number of rows that the manifest gives the data file; `None` if the manifest has no
    /// number.
    rows: Option<u64>,
    /// The numbers of the deleted rows.
    positions: RowSet,
    /// True if positions were ignored because the data file has no such rows according to `rows`.
    is_cut: bool,
}

impl FileDeletes {
    fn add(&mut self, position: u64) {
        if self.rows.is_none_or(|rows| position < rows) {
            self.positions.add(position);
        } else {
            self.is_cut = true;
        }
    }
}

impl Deletes {
    /// Adds a data file, so that [`read`](Self::read) collects its deleted rows. `name` is the
    /// file's location in manifests, and `rows` the number of its rows, if it is known.
    pub(super) fn add_file(&mut self, name: &str, sequence_number: i64, rows: Option<u64>) {
        let deletes = FileDeletes {
            sequence_number,
            rows,
            positions: RowSet::default(),
            is_cut: false,
        };
        self.files.insert(name.to_owned(), deletes);
    }

    /// Reads a positional delete file of the sequence number `sequence_number`, and collects the
    /// deleted rows of the data files that were added before. Ignores rows of other files, rows of
    /// data files that have a greater sequence number, and rows whose numbers are not below the
    /// number of rows that the manifest gives the data file.
    ///
    /// # Errors
    /// If the file is no positional delete file, or cannot be read.
    pub(super) fn read(&mut self, place: &Place, sequence_number: i64) -> Result<()> {
        let path = place.path();
        let failed = |problem: &str| SourceError::file(path)(problem);
        let file = place.open(2)?;
        let metadata = metadata(&file, path)?;
        let place = |name: &str, ty: &DataType| {
            let fields = metadata.schema().fields();
            let place = fields.find(name).filter(|(_, of)| of.data_type() == ty);
            let missing = || {
                failed(&format!(
                    "it is no file of deletes: it has no column {name}"
                ))
            };
            place.map(|(place, _)| place).ok_or_else(missing)
        };
        let places = [
            place(FILE_PATH, &DataType::Utf8View)?,
            place(POSITION, &DataType::Int64)?,
        ];
        let mask = ProjectionMask::roots(metadata.parquet_schema(), places);
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone());
        let batches = builder.with_projection(mask).build();
        for batch in batches.map_err(SourceError::file(path))? {
            let batch = batch.map_err(SourceError::file(path))?;
            let columns = [FILE_PATH, POSITION].map(|name| batch.column_by_name(name));
            let [Some(names), Some(positions)] = columns else {
                return Err(failed("it is no file of deletes"));
            };
            let (names, positions) = (
                names.as_string_view(),
                positions.as_primitive::<Int64Type>(),
            );
            for row in 0..batch.num_rows() {
                if names.is_null(row) || positions.is_null(row) {
                    return Err(failed("it has a delete without a file or a position"));
                }
                let position = u64::try_from(positions.value(row));
                let position = position.map_err(|_| failed("it has a negative position"))?;
                if let Some(file) = self.files.get_mut(names.value(row))
                    && file.sequence_number <= sequence_number
                {
                    file.add(position);
                }
            }
        }
        Ok(())
    }

    /// Removes and returns the numbers of the deleted rows of the data file `name`, ascending, each
    /// once; none if the file was not added. Also returns the number of rows that the manifest
    /// gives the file, if [`read`](Self::read) ignored deletes of rows beyond this number;
    /// otherwise `None`.
    pub(super) fn take(&mut self, name: &str) -> (Vec<u64>, Option<u64>) {
        let Some(file) = self.files.remove(name) else {
            return (Vec::new(), None);
        };
        let rows_max = file.rows.filter(|_| file.is_cut);
        (file.positions.into_sorted(), rows_max)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};
    use parquet::basic::Compression;

    use super::super::tests::{texts, write};
    use super::*;

    /// Writes a delete file that names `positions` of the data file `name`, and returns the file with its folder.
    fn delete_file(name: &str, positions: Vec<i64>) -> (tempfile::TempDir, Place) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deletes.parquet");
        let names = texts(&vec![name; positions.len()]);
        let positions: ArrayRef = Arc::new(Int64Array::from(positions));
        let columns = [(FILE_PATH, None, names), (POSITION, None, positions)];
        write(&path, &columns, Compression::SNAPPY);
        (dir, Place::file(path))
    }

    /// Regression: a position took memory for each time that a delete file named it.
    #[test]
    fn a_position_that_is_named_very_often_takes_little_memory() {
        let (_dir, file) = delete_file("a", vec![0; 100_000]);
        let mut deletes = Deletes::default();
        deletes.add_file("a", 1, Some(1));
        deletes.read(&file, 1).unwrap();
        let capacity = deletes.files["a"].positions.capacity();
        assert!(capacity <= 1_000, "{capacity}");
        assert_eq!(deletes.take("a"), (vec![0], None));
    }

    /// Regression: positions of rows that the data file does not have were kept in memory.
    #[test]
    fn positions_past_the_end_of_a_data_file_are_ignored_if_its_rows_are_known() {
        let (_dir, file) = delete_file("a", vec![8, i64::MAX, 7, 9, 0]);
        for (rows, expected) in [
            (Some(0), vec![]),
            (Some(8), vec![0, 7]),
            (Some(i64::MAX as u64), vec![0, 7, 8, 9]),
            (None, vec![0, 7, 8, 9, i64::MAX as u64]),
        ] {
            let mut deletes = Deletes::default();
            deletes.add_file("a", 1, rows);
            deletes.read(&file, 1).unwrap();
            assert_eq!(deletes.take("a"), (expected, rows));
        }
        // No position is past the end, or the deletes are older than the file.
        for (sequence_number, rows, expected) in [(1, u64::MAX, 5), (2, 8, 0)] {
            let mut deletes = Deletes::default();
            deletes.add_file("a", sequence_number, Some(rows));
            deletes.read(&file, 1).unwrap();
            let (positions, rows_max) = deletes.take("a");
            assert_eq!((positions.len(), rows_max), (expected, None));
        }
    }
}
