//! The number of rows in the batches in which a Parquet file is read.

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

/// The greatest number of rows of a batch, for files whose rows have few bytes. Without this limit,
/// a batch could take far more memory than such a file suggests: a dictionary has a value of fixed
/// length only once, but a batch has a copy of it for each row.
const BATCH_ROWS_MAX: u64 = 1024;

/// The memory of a value in a batch besides the bytes of texts and blobs: 16 bytes for the view of a text, and not
/// more for any other type. The file may take far less: a run of equal elements of lists takes a few bytes.
const VALUE_BYTES: u64 = 16;

/// Returns the number of rows, from 1 to [`BATCH_ROWS_MAX`], for batches of about `batch_bytes`
/// bytes, if only the columns in `mask` are read. The size of a row is estimated for each row group
/// as a mean: the uncompressed size in the file, plus [`VALUE_BYTES`] for each value. The row group
/// with the greatest mean decides. A text or blob that rows share in a dictionary counts once,
/// because a batch has it in memory once, too.
pub(crate) fn batch_rows(
    metadata: &ArrowReaderMetadata,
    mask: &ProjectionMask,
    batch_bytes: u64,
) -> usize {
    let groups = metadata.metadata().row_groups().iter();
    let row_bytes = groups.map(|group| {
        let columns = group.columns().iter().enumerate();
        let read = columns.filter(|(place, _)| mask.leaf_included(*place));
        let bytes = read.map(|(_, column)| {
            let values = u64::try_from(column.num_values()).unwrap_or(0);
            let bytes = u64::try_from(column.uncompressed_size()).unwrap_or(0);
            bytes.saturating_add(values.saturating_mul(VALUE_BYTES))
        });
        let bytes = bytes.fold(0, u64::saturating_add);
        let rows = u64::try_from(group.num_rows()).unwrap_or(0);
        bytes / rows.max(1)
    });
    let row_bytes = row_bytes.max().unwrap_or(0).max(1);
    (batch_bytes / row_bytes).clamp(1, BATCH_ROWS_MAX) as usize
}
