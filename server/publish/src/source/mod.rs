//! Rows of Parquet files and Iceberg tables, as values of CQL's types.
//!
//! ```text
//!   Parquet files ─────────────────────────────┐
//!   a table's folder ─ table ─► its data files ┴─► Source ─► FileRows ─► values of a row
//!   (a tag)            deletes ─► deleted rows
//! ```
//!
//! Other engines wrote what is read here. Whatever a reader would have to ignore is refused by its
//! name: equality deletes, deletion vectors, formats other than Parquet, and columns whose values lie
//! in partitions instead of files. Memory holds a batch of rows, and the positions of deleted rows.
//!
//! | file | content |
//! | --- | --- |
//! | `table` | the data files of a snapshot |
//! | `deletes` | the rows of data files that are deleted |
//! | `file` | the rows of one file |
//! | `columns` | the columns of a file that are those of a table |
//! | `int96` | Parquet's old form of timestamps, exactly |

mod columns;
mod deletes;
mod file;
mod int96;
mod table;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ebb_model::types::CqlType;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};

use self::columns::Matching;
pub use self::file::FileRows;
use crate::iceberg::foreign::SchemaField;

/// The reason why rows cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The system cannot read a file.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file or a table is not one that can be read.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file, or the folder of the table.
        path: PathBuf,
        /// A sentence about what is wrong with it, and what to do.
        problem: String,
    },
    /// A row has a value that its column does not take.
    #[error("{}: row {row}: {problem}", path.display())]
    Row {
        path: PathBuf,
        /// The number of the row in the file, from 1.
        row: u64,
        /// A sentence about what is wrong with the row.
        problem: String,
    },
}

type Result<T> = std::result::Result<T, SourceError>;

impl SourceError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        |source| Self::Io { path, source }
    }

    /// For `map_err`: a reason that has a text.
    fn file<E: ToString>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_path_buf();
        move |problem| Self::File {
            path,
            problem: problem.to_string(),
        }
    }
}

/// Files of rows that have the same columns.
#[derive(Debug)]
pub struct Source {
    columns: Vec<String>,
    files: Vec<SourceFile>,
    /// The columns of an Iceberg table, whose data files name them by ids.
    table: Option<Vec<SchemaField>>,
}

#[derive(Debug)]
pub struct SourceFile {
    path: PathBuf,
    bytes: u64,
    /// The numbers of the rows that are deleted, from 0, ascending.
    deleted: Vec<u64>,
    /// The ids of columns whose values the file need not contain.
    identity_columns: Vec<i32>,
}

impl SourceFile {
    /// Finds a file, none of whose rows are deleted.
    fn find(path: PathBuf) -> Result<Self> {
        let metadata = std::fs::metadata(&path).map_err(SourceError::io(&path))?;
        Ok(Self {
            path,
            bytes: metadata.len(),
            deleted: Vec::new(),
            identity_columns: Vec::new(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Source {
    /// Opens Parquet files that have the columns of the first one.
    ///
    /// # Errors
    /// If a file cannot be read, or if the first one is no Parquet file.
    pub fn parquet(paths: &[PathBuf]) -> Result<Self> {
        let files = paths.iter().cloned().map(SourceFile::find);
        let files: Vec<SourceFile> = files.collect::<Result<_>>()?;
        let columns = match files.first() {
            Some(first) => columns::names(&metadata(&open(&first.path)?, &first.path)?),
            None => Vec::new(),
        };
        Ok(Self {
            columns,
            files,
            table: None,
        })
    }

    /// Opens the Iceberg table in a folder, or the one that a metadata file describes. `name` is a tag
    /// or a branch; without it, the rows are those of `main`.
    ///
    /// # Errors
    /// If the table cannot be read as a whole.
    pub fn table(path: &Path, name: Option<&str>) -> Result<Self> {
        let table = table::open(path, name)?;
        Ok(Self {
            columns: table.columns.iter().map(|of| of.name.clone()).collect(),
            files: table.files,
            table: Some(table.columns),
        })
    }

    /// Returns the names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the files, in the order in which their rows count as written.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Begins to read the rows of a file of this source: the values of `columns`, each a name and the
    /// type of its values. A data file that is older than a column has nulls for it.
    ///
    /// # Errors
    /// If the file is no Parquet file, or if its columns are not those of the source.
    pub fn rows(&self, file: &SourceFile, columns: &[(String, CqlType)]) -> Result<FileRows> {
        let matching = match &self.table {
            None => Matching::Names(&self.columns),
            Some(fields) => Matching::Ids {
                fields,
                identity_columns: &file.identity_columns,
            },
        };
        FileRows::open(file, columns, matching)
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(SourceError::io(path))
}

/// Reads the metadata of a Parquet file. The types are those of Parquet: a schema of Arrow that the file
/// may carry names other forms of the same values.
fn metadata(file: &File, path: &Path) -> Result<ArrowReaderMetadata> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(file, options).map_err(SourceError::file(path))?;
    // The library leaves out a group without columns, and the places of those behind it would shift.
    let columns = metadata.parquet_schema().root_schema().get_fields();
    if columns.len() != metadata.schema().fields().len() {
        return Err(SourceError::file(path)("it has a group without columns"));
    }
    Ok(metadata)
}
