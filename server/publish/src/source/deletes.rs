//! Positional deletes: files whose rows name rows of data files.
//!
//! A delete file that names rows of one data file is read when that data file is, so that the memory for deleted
//! rows is that of one data file. Writers limit most delete files so, and manifests show it. The others are read when
//! the table is opened: each of them would otherwise be read once for each data file.

use std::collections::HashMap;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::place::Place;
use super::{Result, SourceError, metadata};
use crate::iceberg::manifest::{DataFile, Entry, FILE_PATH, POSITION, POSITIONAL_DELETES};
use crate::row_set::{RowNumbers, RowSet};

/// The greatest number of rows that the delete files of several data files may name together. In memory they
/// take about a quarter of a gigabyte.
const SHARED_ROWS_MAX: u64 = 1 << 27;

/// Returns the location of the data file to which a delete file is limited by its entry in a manifest; `None`
/// if the file is no positional delete file, or if the entry does not limit it to one data file. Older
/// versions of Iceberg's Java library show the limit only by equal bounds of the column `file_path`.
pub(super) fn only_data_file(file: DataFile) -> Option<String> {
    if file.content != POSITIONAL_DELETES {
        return None;
    }
    let bound = |bounds: Option<Vec<Entry<Vec<u8>>>>| {
        let mut bounds = bounds.into_iter().flatten();
        bounds.find(|of| of.key == FILE_PATH.1).map(|of| of.value)
    };
    file.referenced_data_file.or_else(|| {
        let lower = bound(file.lower_bounds)?;
        let is_only = bound(file.upper_bounds)? == lower;
        String::from_utf8(lower).ok().filter(|_| is_only)
    })
}

/// The deleted rows of the data files of a snapshot.
#[derive(Debug)]
pub(super) struct Deletes {
    files: HashMap<String, FileDeletes>,
    /// The number of rows that further delete files of several data files may name.
    shared_rows_left: u64,
}

impl Default for Deletes {
    fn default() -> Self {
        Self {
            files: HashMap::new(),
            shared_rows_left: SHARED_ROWS_MAX,
        }
    }
}

/// The deleted rows of one data file.
#[derive(Debug, Default)]
pub(super) struct FileDeletes {
    /// The location of the data file in manifests.
    name: String,
    /// The sequence number of the data file. Deletes with a lower number are for an earlier file of
    /// the same name.
    sequence_number: i64,
    /// The rows that delete files of several data files name.
    shared: Positions,
    /// The delete files of this data file alone, which are not read yet.
    own: Vec<Place>,
}

/// Numbers of deleted rows of a data file.
#[derive(Debug, Clone, Default)]
struct Positions {
    /// The number of rows that the manifest gives the data file; `None` if the manifest has no
    /// number.
    rows: Option<u64>,
    deleted: RowSet,
    /// True if positions were ignored because the data file has no such rows according to `rows`.
    is_cut: bool,
}

impl Positions {
    fn add(&mut self, position: u64) {
        if self.rows.is_none_or(|rows| position < rows) {
            self.deleted.add(position);
        } else {
            self.is_cut = true;
        }
    }
}

impl FileDeletes {
    /// Reads the delete files of this data file alone. Returns the numbers of the deleted rows,
    /// ascending, each once. Also returns the number of rows that the manifest gives the file, if
    /// deletes of rows beyond this number were ignored; otherwise `None`.
    ///
    /// # Errors
    /// If a delete file is no positional delete file, cannot be read, or names a row of another data file.
    pub(super) fn read(&self) -> Result<(RowNumbers, Option<u64>)> {
        let mut positions = self.shared.clone();
        for place in &self.own {
            each_delete(place, |name, position| {
                if name != self.name {
                    return Err(format!(
                        "it has a delete of {name}, and the table's manifest limits it to {}; rewrite the data \
                         files of the table, which applies its deletes",
                        self.name
                    ));
                }
                positions.add(position);
                Ok(())
            })?;
        }
        let rows_max = positions.rows.filter(|_| positions.is_cut);
        Ok((positions.deleted.into_rows(), rows_max))
    }
}

impl Deletes {
    /// Adds a data file, so that its deleted rows are found. `name` is the file's location in
    /// manifests, and `rows` the number of its rows, if it is known.
    pub(super) fn add_file(&mut self, name: &str, sequence_number: i64, rows: Option<u64>) {
        let deletes = FileDeletes {
            name: name.to_owned(),
            sequence_number,
            shared: Positions {
                rows,
                ..Positions::default()
            },
            own: Vec::new(),
        };
        self.files.insert(name.to_owned(), deletes);
    }

    /// Adds a positional delete file of the sequence number `sequence_number`. `only` is the location of the
    /// data file to which the table's manifest limits it, if it does. If this data file was added before, the
    /// delete file is not read yet.
    ///
    /// Otherwise reads it, and collects the deleted rows of the data files that were added before. Ignores
    /// rows of other files, rows of data files that have a greater sequence number, and rows whose numbers are
    /// not below the number of rows that the manifest gives the data file.
    ///
    /// # Errors
    /// If the file is no positional delete file, or cannot be read, or if the files that were read name too
    /// many rows together.
    pub(super) fn add_deletes(
        &mut self,
        place: &Place,
        sequence_number: i64,
        only: Option<&str>,
    ) -> Result<()> {
        if let Some(file) = only.and_then(|name| self.files.get_mut(name)) {
            if file.sequence_number <= sequence_number {
                file.own.push(place.clone());
            }
            return Ok(());
        }
        each_delete(place, |name, position| {
            if let Some(file) = self.files.get_mut(name)
                && file.sequence_number <= sequence_number
            {
                let left = self.shared_rows_left.checked_sub(1).ok_or(
                    "with this one, the delete files that name rows of several data files name more rows than \
                     ebb holds in memory; rewrite the data files of the table, which applies its deletes",
                )?;
                self.shared_rows_left = left;
                file.shared.add(position);
            }
            Ok(())
        })
    }

    /// Removes and returns the deletes of the data file `name`; none if the file was not added.
    pub(super) fn take(&mut self, name: &str) -> FileDeletes {
        self.files.remove(name).unwrap_or_default()
    }
}

/// Reads a positional delete file, and calls `take` with the location of the data file and the number of each
/// deleted row.
///
/// # Errors
/// If the file is no positional delete file, or cannot be read. Also the first error of `take`, which is a
/// sentence about the file.
fn each_delete(
    place: &Place,
    mut take: impl FnMut(&str, u64) -> std::result::Result<(), String>,
) -> Result<()> {
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
        place(FILE_PATH.0, &DataType::Utf8View)?,
        place(POSITION.0, &DataType::Int64)?,
    ];
    let mask = ProjectionMask::roots(metadata.parquet_schema(), places);
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone());
    let batches = builder.with_projection(mask).build();
    for batch in batches.map_err(SourceError::file(path))? {
        let batch = batch.map_err(SourceError::file(path))?;
        let columns = [FILE_PATH.0, POSITION.0].map(|name| batch.column_by_name(name));
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
            take(names.value(row), position).map_err(SourceError::file(path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};

    use super::super::tests::{texts, write};
    use super::*;
    use crate::iceberg::manifest::ROWS;
    use crate::iceberg::testing::data_file;

    /// Writes a delete file that names `positions` of the data file `name`, and returns the file with its folder.
    fn delete_file(name: &str, positions: Vec<i64>) -> (tempfile::TempDir, Place) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deletes.parquet");
        let names = texts(&vec![name; positions.len()]);
        let positions: ArrayRef = Arc::new(Int64Array::from(positions));
        let columns = [(FILE_PATH.0, None, names), (POSITION.0, None, positions)];
        write(&path, &columns);
        (dir, Place::file(path))
    }

    /// Returns the deleted rows of the data file `a`, and the number of its rows if deletes were ignored.
    fn deleted(deletes: &mut Deletes) -> (Vec<u64>, Option<u64>) {
        let (rows, rows_max) = deletes.take("a").read().unwrap();
        (rows.collect(), rows_max)
    }

    /// Regression: a position took memory for each time that a delete file named it.
    #[test]
    fn a_position_that_is_named_very_often_takes_little_memory() {
        let (_dir, file) = delete_file("a", vec![0; 100_000]);
        let mut deletes = Deletes::default();
        deletes.add_file("a", 1, Some(1));
        deletes.add_deletes(&file, 1, None).unwrap();
        let bytes = deletes.files["a"].shared.deleted.capacity_bytes();
        assert!(bytes <= 1_000, "{bytes}");
        assert_eq!(deleted(&mut deletes), (vec![0], None));
    }

    /// Regression: positions of rows that the data file does not have were kept in memory.
    #[test]
    fn positions_past_the_end_of_a_data_file_are_ignored_if_its_rows_are_known() {
        let (_dir, file) = delete_file("a", vec![8, i64::MAX, 7, 9, 0]);
        for ((rows, expected), only) in [
            (Some(0), vec![]),
            (Some(8), vec![0, 7]),
            (Some(i64::MAX as u64), vec![0, 7, 8, 9]),
            (None, vec![0, 7, 8, 9, i64::MAX as u64]),
        ]
        .into_iter()
        .flat_map(|case| [(case.clone(), None), (case, Some("a"))])
        {
            let mut deletes = Deletes::default();
            deletes.add_file("a", 1, rows);
            deletes.add_deletes(&file, 1, only).unwrap();
            assert_eq!(deleted(&mut deletes), (expected, rows));
        }
        // No position is past the end, or the deletes are older than the file.
        for (sequence_number, rows, expected) in [(1, u64::MAX, 5), (2, 8, 0)] {
            let mut deletes = Deletes::default();
            deletes.add_file("a", sequence_number, Some(rows));
            deletes.add_deletes(&file, 1, None).unwrap();
            let (positions, rows_max) = deleted(&mut deletes);
            assert_eq!((positions.len(), rows_max), (expected, None));
        }
    }

    /// Regression: a load held the deleted rows of all data files before it read the first row.
    #[test]
    fn a_delete_file_of_one_data_file_is_read_with_this_file_and_only_then() {
        let (_dir, file) = delete_file("a", vec![3, 1]);
        let mut deletes = Deletes {
            shared_rows_left: 0,
            ..Deletes::default()
        };
        deletes.add_file("a", 2, Some(9));
        deletes.add_file("b", 2, Some(9));
        // Deletes that are older than the data file are for an earlier one.
        deletes.add_deletes(&file, 1, Some("a")).unwrap();
        assert!(deletes.files["a"].own.is_empty());
        deletes.add_deletes(&file, 2, Some("a")).unwrap();
        deletes.add_deletes(&file, 2, Some("b")).unwrap();
        assert_eq!(deletes.files["a"].shared.deleted.capacity_bytes(), 0);
        assert_eq!(deleted(&mut deletes), (vec![1, 3], None));
        let error = deletes.take("b").read().unwrap_err().to_string();
        assert!(
            error.contains("it has a delete of a, and the table's manifest limits it to b"),
            "{error}"
        );
    }

    #[test]
    fn delete_files_of_several_data_files_that_name_too_many_rows_are_refused() {
        let (_dir, file) = delete_file("a", vec![3, 1]);
        let mut deletes = Deletes {
            shared_rows_left: 3,
            ..Deletes::default()
        };
        deletes.add_file("a", 1, Some(9));
        deletes.add_deletes(&file, 1, None).unwrap();
        let error = deletes.add_deletes(&file, 1, None).unwrap_err().to_string();
        assert!(
            error.contains("deletes.parquet: with this one, the delete files"),
            "{error}"
        );
        assert!(error.contains("rewrite the data files"), "{error}");
    }

    #[test]
    fn a_manifest_limits_a_delete_file_to_one_data_file_by_its_name_or_by_equal_bounds() {
        let bounds = |value: &str| {
            let value = value.as_bytes().to_vec();
            let key = FILE_PATH.1;
            Some(vec![
                Entry {
                    key: 1,
                    value: value.clone(),
                },
                Entry { key, value },
            ])
        };
        let without_bounds = || DataFile {
            content: POSITIONAL_DELETES,
            ..data_file("deletes", 1)
        };
        let file = |lower: &str, upper: &str| DataFile {
            lower_bounds: bounds(lower),
            upper_bounds: bounds(upper),
            ..without_bounds()
        };
        let named = |name: &str| DataFile {
            referenced_data_file: Some(name.to_owned()),
            ..file("a", "b")
        };
        let rows = DataFile {
            content: ROWS,
            ..named("c")
        };
        let cases = [
            (file("a", "a"), Some("a")),
            (file("a", "b"), None),
            (named("c"), Some("c")),
            (rows, None),
            (without_bounds(), None),
        ];
        for (file, only) in cases {
            assert_eq!(only_data_file(file).as_deref(), only);
        }
    }
}
