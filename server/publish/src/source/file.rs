//! The rows of one Parquet file.

use std::iter::Peekable;
use std::path::PathBuf;

use arrow_array::{Array, ArrayRef, RecordBatch};
use ebb_model::types::CqlType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::CompressionCodec;
use parquet::schema::types::ColumnPath;

use super::columns::{self, Matching, ReadColumn};
use super::place::Place;
use super::{Result, SourceError, SourceFile, int96, metadata};
use crate::batch_rows::batch_rows;
use crate::own_file::is_of_ebb;
use crate::parquet_file::caught;
use crate::row_set::RowNumbers;
use crate::types::{ValueError, read_published_value, read_value};

/// The size of a batch in memory, in bytes, as estimated from the mean size of rows.
const BATCH_BYTES: u64 = 8 << 20;

/// A function that converts the value in a row of an array to a CQL type; `None` is null.
type ReadValue =
    fn(&dyn Array, usize, &CqlType) -> std::result::Result<Option<Vec<u8>>, ValueError>;

/// A reader of the rows of a file in their order, without the deleted rows.
pub struct FileRows {
    path: PathBuf,
    file_bytes: u64,
    rows_total: u64,
    columns: Vec<ReadColumn>,
    batches: Batches,
    read_value: ReadValue,
    /// The values of the current batch, by column; `None` for a column that the file lacks, so all its values
    /// are null.
    arrays: Vec<Option<ArrayRef>>,
    /// The position of the next row in the current batch.
    at: usize,
    /// The number of rows in the current batch.
    batch_rows: usize,
    /// The number of rows that the reader has passed, deleted ones included.
    row: u64,
    deleted: Peekable<RowNumbers>,
    values: Vec<Option<Vec<u8>>>,
}

impl FileRows {
    pub(super) fn open(
        source: &SourceFile,
        columns: &[(String, CqlType)],
        matching: Matching<'_>,
    ) -> Result<Self> {
        let path = source.place.path();
        let metadata = metadata(&source.place.open(1)?, path)?;
        let columns = columns::find(columns, &metadata, matching);
        let columns = columns.map_err(SourceError::file(path))?;
        let batches = Batches::open(&source.place, &metadata, &columns)?;
        let file = metadata.metadata().file_metadata();
        let rows_total = u64::try_from(file.num_rows()).unwrap_or(0);
        let (deleted, rows_max) = source.deletes.read()?;
        // Some deletes were ignored, because by the manifest the file has no such rows.
        if rows_max.is_some_and(|max| rows_total > max) {
            return Err(SourceError::file(path)(
                "it has more rows than the table's manifest gives it, and some of them may be deleted; \
                 rewrite the data files of the table, which applies its deletes",
            ));
        }
        let read_value: ReadValue = if is_of_ebb(file) {
            read_published_value
        } else {
            read_value
        };
        Ok(Self {
            path: path.to_path_buf(),
            file_bytes: source.bytes,
            rows_total,
            values: vec![None; columns.len()],
            arrays: vec![None; columns.len()],
            columns,
            batches,
            read_value,
            at: 0,
            batch_rows: 0,
            row: 0,
            deleted: deleted.peekable(),
        })
    }

    /// Goes to the next row that is not deleted. Returns false after the last row.
    ///
    /// # Errors
    /// If the file is damaged, or if a value has no exact counterpart in CQL. The reader cannot be used
    /// afterwards.
    pub fn next_row(&mut self) -> Result<bool> {
        match caught(|| self.advance()) {
            Ok(advanced) => advanced,
            Err(problem) => Err(SourceError::file(&self.path)(problem)),
        }
    }

    fn advance(&mut self) -> Result<bool> {
        loop {
            while self.at == self.batch_rows {
                if !self.next_batch()? {
                    return Ok(false);
                }
            }
            let (at, row) = (self.at, self.row);
            self.at += 1;
            self.row += 1;
            if self.deleted.next_if_eq(&row).is_none() {
                self.read(at)?;
                return Ok(true);
            }
        }
    }

    /// Returns the values of the current row, in the order of the columns, in CQL's native serialization;
    /// `None` is null. The elements of sets and the entries of maps have the order of the file.
    pub fn values(&self) -> &[Option<Vec<u8>>] {
        &self.values
    }

    /// Returns an error that names the file, the current row and `problem`.
    pub fn error(&self, problem: String) -> SourceError {
        SourceError::Row {
            path: self.path.clone(),
            row: self.row,
            problem,
        }
    }

    /// Returns the number of bytes of the file that have been read. It is estimated from the share of the
    /// rows that have been read.
    pub fn bytes_read(&self) -> u64 {
        let part = self.row as f64 / self.rows_total.max(1) as f64;
        (self.file_bytes as f64 * part) as u64
    }

    fn next_batch(&mut self) -> Result<bool> {
        let Some(batch) = self.batches.next() else {
            return Ok(false);
        };
        let batch = batch.map_err(|error| match error {
            BatchError::File(problem) => SourceError::file(&self.path)(problem),
            BatchError::Row(at, problem) => SourceError::Row {
                path: self.path.clone(),
                row: self.row + at as u64 + 1,
                problem,
            },
        })?;
        for (column, array) in self.columns.iter().zip(&mut self.arrays) {
            let place = column.root.and_then(|root| self.batches.place(root));
            let conformed = place.map(|place| column.conform(&batch.arrays[place]));
            *array = (conformed.transpose()).map_err(SourceError::file(&self.path))?;
        }
        (self.at, self.batch_rows) = (0, batch.rows);
        Ok(true)
    }

    fn read(&mut self, at: usize) -> Result<()> {
        let columns = self.columns.iter().zip(&self.arrays);
        for ((column, array), value) in columns.zip(&mut self.values) {
            let read = match array {
                Some(array) => (self.read_value)(array, at, &column.ty),
                None => Ok(None),
            };
            *value = read.map_err(|error| SourceError::Row {
                path: self.path.clone(),
                row: self.row,
                problem: format!("column {}: {error}", column.name),
            })?;
        }
        Ok(())
    }
}

/// A reader of some columns of a file, in batches of rows.
struct Batches {
    /// The positions, in the file, of the columns that are read, ascending.
    roots: Vec<usize>,
    reader: ParquetRecordBatchReader,
    /// The positions in the file of the columns with timestamps of 96 bits (INT96).
    int96: Vec<usize>,
    /// A second reader of the columns `int96`, in seconds: the first one reads nanoseconds, which may not fit
    /// into 64 bits. `None` if there are no such columns.
    seconds: Option<ParquetRecordBatchReader>,
}

struct Batch {
    rows: usize,
    arrays: Vec<ArrayRef>,
}

enum BatchError {
    File(String),
    /// A problem of one row: the position of the row in the batch, and a sentence.
    Row(usize, String),
}

impl Batches {
    fn open(place: &Place, metadata: &ArrowReaderMetadata, columns: &[ReadColumn]) -> Result<Self> {
        let path = place.path();
        let mut roots: Vec<usize> = columns.iter().filter_map(|column| column.root).collect();
        roots.sort_unstable();
        roots.dedup();
        let int96 = int96::find(metadata, &roots).map_err(SourceError::file(path))?;
        let mask = ProjectionMask::roots(metadata.parquet_schema(), roots.iter().copied());
        // Both readers use this number, so that their batches have the same rows.
        let rows = batch_rows(metadata, &mask, BATCH_BYTES);
        let seconds = if int96.is_empty() {
            None
        } else {
            let options =
                ArrowReaderOptions::new().with_schema(int96::as_seconds(metadata, &int96));
            let metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options);
            let metadata = metadata.map_err(SourceError::file(path))?;
            Some(reader(place, &metadata, &int96, rows)?)
        };
        Ok(Self {
            reader: reader(place, metadata, &roots, rows)?,
            roots,
            int96,
            seconds,
        })
    }

    /// Returns the position, in a batch, of the column that has the position `root` in the file; `None` if
    /// the column is not read.
    fn place(&self, root: usize) -> Option<usize> {
        self.roots.binary_search(&root).ok()
    }

    fn next(&mut self) -> Option<std::result::Result<Batch, BatchError>> {
        let batch = self.reader.next()?;
        Some(self.finish(batch.map_err(|error| BatchError::File(error.to_string()))))
    }

    /// Makes a batch of the columns that were read. Replaces the timestamps of 96 bits by exact ones.
    ///
    /// # Errors
    /// If a timestamp is not a whole number of milliseconds, or if the file is damaged.
    fn finish(
        &mut self,
        batch: std::result::Result<RecordBatch, BatchError>,
    ) -> std::result::Result<Batch, BatchError> {
        let batch = batch?;
        let mut arrays = batch.columns().to_vec();
        if let Some(reader) = &mut self.seconds {
            let failed = |problem: String| BatchError::File(problem);
            let ended = || failed("it has columns of different lengths".to_owned());
            let seconds = reader.next().ok_or_else(ended)?;
            let seconds = seconds.map_err(|error| failed(error.to_string()))?;
            if seconds.num_rows() != batch.num_rows() {
                return Err(ended());
            }
            for (root, seconds) in self.int96.iter().zip(seconds.columns()) {
                let place = self.roots.binary_search(root).map_err(|_| ended())?;
                let exact = int96::milliseconds(&arrays[place], seconds);
                arrays[place] = exact.map_err(|(at, problem)| BatchError::Row(at, problem))?;
            }
        }
        Ok(Batch {
            rows: batch.num_rows(),
            arrays,
        })
    }
}

/// Opens a reader of the columns that have the positions `roots` in a file, in batches of `rows`
/// rows.
///
/// # Errors
/// If the file cannot be read, or if one of the columns is compressed in a way that ebb does not read.
fn reader(
    place: &Place,
    metadata: &ArrowReaderMetadata,
    roots: &[usize],
    rows: usize,
) -> Result<ParquetRecordBatchReader> {
    let schema = metadata.parquet_schema();
    let mask = ProjectionMask::roots(schema, roots.iter().copied());
    let leaves = (0..schema.num_columns()).filter(|leaf| mask.leaf_included(*leaf));
    let leaves: Vec<usize> = leaves.collect();
    for group in metadata.metadata().row_groups() {
        for chunk in leaves.iter().filter_map(|&leaf| group.columns().get(leaf)) {
            check_compression(chunk.column_path(), chunk.compression_codec())
                .map_err(SourceError::file(place.path()))?;
        }
    }
    let file = place.open(leaves.len())?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
        .with_projection(mask)
        .with_batch_size(rows);
    builder.build().map_err(SourceError::file(place.path()))
}

/// Checks that ebb can read the compression `codec`.
///
/// # Errors
/// If it cannot. The error is a sentence about the column.
fn check_compression(
    column: &ColumnPath,
    codec: CompressionCodec,
) -> std::result::Result<(), String> {
    if matches!(
        codec,
        CompressionCodec::UNCOMPRESSED
            | CompressionCodec::SNAPPY
            | CompressionCodec::GZIP
            | CompressionCodec::ZSTD
    ) {
        return Ok(());
    }
    Err(format!(
        "its column {} is compressed by {codec}, which ebb does not read; write the file again \
         with Snappy, zstd or gzip, or uncompressed",
        column.string()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_a_compression_that_is_not_read_is_refused_with_the_compressions_that_are() {
        // The error once was "Disabled feature at compile time: lz4".
        let column = ColumnPath::from(["l", "list", "element"].map(String::from).to_vec());
        for codec in [
            CompressionCodec::BROTLI,
            CompressionCodec::LZ4,
            CompressionCodec::LZ4_RAW,
            CompressionCodec::LZO,
        ] {
            let error = check_compression(&column, codec).unwrap_err();
            let start = format!("its column l.list.element is compressed by {codec}, ");
            assert!(error.starts_with(&start), "{error}");
            assert!(error.contains("Snappy, zstd or gzip"), "{error}");
        }
        assert_eq!(check_compression(&column, CompressionCodec::ZSTD), Ok(()));
    }
}
