//! The Parquet files that ebb writes, data files and delete files: the properties that all of them have, and their
//! descriptions for manifests.

use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, RowGroupMetaData};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

use crate::bounds::{Columns, FloatNulls};
use crate::iceberg::manifest::{DataFile, ROWS};

/// The level of the zstd compression. DuckDB compresses at the same level.
const ZSTD_LEVEL: i32 = 3;

/// The text before the version of ebb in the field `created_by` of Parquet files that ebb writes.
const CREATOR: &str = "ebb version ";

/// Returns the properties that all files have: their compression, and the name and the version of the program.
///
/// # Errors
/// If the Parquet library does not support the level of the compression.
pub(crate) fn properties() -> Result<WriterPropertiesBuilder, ParquetError> {
    Ok(WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_created_by(format!("{CREATOR}{}", env!("CARGO_PKG_VERSION"))))
}

/// Returns whether ebb wrote the Parquet file whose metadata is `file`.
pub(crate) fn is_of_ebb(file: &FileMetaData) -> bool {
    file.created_by().is_some_and(|by| by.starts_with(CREATOR))
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
