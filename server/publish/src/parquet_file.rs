//! The opening of Parquet files: [`open_metadata`] is the only caller of the library's function for it.
//!
//! Anyone with write access to a target can replace a file in it, and other engines write the files that are
//! loaded. The library trusts the footer of a file: by some footers its recursion overflows the stack, which ends the
//! process. So each file passes the same checks, whether ebb has written it or not.
//!
//! | file | content |
//! | --- | --- |
//! | `depth` | the depth of the schema of a file, which the library reads by recursion |
//! | `panics` | panics of the library at damaged files |
//! | `testing` | files with schemas that are nested too deeply, for tests |

mod depth;
mod panics;
#[cfg(test)]
pub(crate) mod testing;

use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::reader::ChunkReader;
use parquet::schema::types::Type;

pub(crate) use self::panics::caught;
use crate::views;

/// Reads the metadata of a Parquet file. The Arrow types are derived from those of Parquet, and texts and
/// blobs become views into its pages. A schema of Arrow that the file may contain is ignored, because it can
/// name other types for the same values. `offset_index` is the policy by which the offsets of pages are read, too.
///
/// # Errors
/// If the file is no Parquet file or cannot be read, or if its schema is nested too deeply, is damaged, or has a
/// group without columns. The error is a sentence about the file.
pub(crate) fn open_metadata(
    file: &impl ChunkReader,
    offset_index: PageIndexPolicy,
) -> Result<ArrowReaderMetadata, String> {
    depth::check(file)?;
    let options = ArrowReaderOptions::new()
        .with_skip_arrow_metadata(true)
        .with_offset_index_policy(offset_index);
    let loaded = caught(|| ArrowReaderMetadata::load(file, options))?;
    let metadata = loaded.map_err(|error| error.to_string())?;
    // The library leaves out a group without columns, and the positions of those after it would shift.
    let columns = metadata.parquet_schema().root_schema().get_fields();
    if columns.iter().any(|column| has_empty_group(column)) {
        return Err("it has a group without columns".to_owned());
    }
    views::of_metadata(&metadata).map_err(|error| error.to_string())
}

/// Returns whether `column` is a group that has no columns, or contains such a group.
fn has_empty_group(column: &Type) -> bool {
    if !column.is_group() {
        return false;
    }
    let columns = column.get_fields();
    columns.is_empty() || columns.iter().any(|column| has_empty_group(column))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Returns the names of the files below `folder` that contain `text`.
    fn files_with(folder: &Path, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(files_with(&path, text));
            } else if fs::read_to_string(&path).unwrap().contains(text) {
                found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
        found
    }

    /// Regression: the readers of published tables opened files without the check of the depth.
    #[test]
    fn no_other_module_opens_parquet_files() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let found = files_with(&sources, "ArrowReaderMetadata::load(");
        assert_eq!(found, ["parquet_file.rs"]);
    }
}
