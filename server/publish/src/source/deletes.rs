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

/// The column of a positional delete file with the location of the data file, by Iceberg's
/// specification.
const FILE_PATH: &str = "file_path";
/// The column of a positional delete file with the number of the deleted row in the data file.
const POSITION: &str = "pos";

/// The deleted rows of data files. Each row takes eight bytes.
#[derive(Debug, Default)]
pub(super) struct Deletes {
    files: HashMap<String, FileDeletes>,
}

#[derive(Debug)]
struct FileDeletes {
    /// The sequence number of the data file. Deletes with a lower number are for an earlier file of
    /// the same name.
    sequence_number: i64,
    /// The deleted positions, in any order; the same position may occur twice.
    positions: Vec<u64>,
}

impl Deletes {
    /// Adds a data file, so that [`read`](Self::read) collects its deleted rows. `name` is the
    /// file's location in manifests.
    pub(super) fn add_file(&mut self, name: &str, sequence_number: i64) {
        let deletes = FileDeletes {
            sequence_number,
            positions: Vec::new(),
        };
        self.files.insert(name.to_owned(), deletes);
    }

    /// Reads a positional delete file, and collects its positions for the data files that were
    /// added before. Ignores positions in other files, and in data files with a greater
    /// `sequence_number`.
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
                    file.positions.push(position);
                }
            }
        }
        Ok(())
    }

    /// Removes and returns the positions of the deleted rows of a data file, ascending, each once.
    pub(super) fn take(&mut self, name: &str) -> Vec<u64> {
        let deletes = self.files.remove(name);
        let mut positions = deletes.map_or_else(Vec::new, |deletes| deletes.positions);
        positions.sort_unstable();
        positions.dedup();
        positions
    }
}
