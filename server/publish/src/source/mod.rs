//! Rows of Parquet files and Iceberg tables, as values of CQL's types.
//!
//! ```text
//!   Parquet files ─────────────────────────────┐
//!   a table's folder ─ table ─► its data files ┴─► Source ─► FileRows ─► values of a row
//!   (a tag)            deletes ─► deleted rows
//! ```
//!
//! Files and folders lie on this machine or in a bucket of S3.
//!
//! Other engines wrote what is read here. Whatever a reader would have to ignore is refused by its
//! name: equality deletes, deletion vectors, formats other than Parquet, columns whose values lie in
//! partitions instead of files, and Parquet files whose rows count only by the log of a table. Memory holds a
//! batch of rows, the positions of the rows of the file that are deleted and of those that delete files of several
//! files name, and of a file in a bucket what was fetched ahead.
//!
//! | file | content |
//! | --- | --- |
//! | `table` | the data files of a snapshot |
//! | `location` | the locations of files, as the metadata of a table names them |
//! | `folder` | the folder of a table, and which files lie in it |
//! | `place` | a file on this machine, or in a bucket |
//! | `bucket` | what a key of a bucket is: a Parquet file, a folder of such files, or a table |
//! | `owner` | the tables that Parquet files belong to |
//! | `deletes` | the rows of data files that are deleted |
//! | `file` | the rows of one file |
//! | `columns` | the columns of a file that are those of a table |
//! | `int96` | Parquet's old form of timestamps, exactly |

mod bucket;
mod columns;
mod deletes;
mod file;
mod folder;
mod int96;
mod location;
mod owner;
mod place;
mod table;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebb_model::types::CqlType;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::metadata::PageIndexPolicy;

use self::bucket::Found;
use self::columns::Matching;
use self::deletes::FileDeletes;
pub use self::file::FileRows;
use self::folder::Folder;
use self::place::{Place, PlaceReader};
use self::table::Table;
use crate::iceberg::foreign::SchemaField;
use crate::parquet_file::{caught, open_metadata};
use crate::target::{Target, TargetError};

/// The reason why rows cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The operating system cannot read a file or a folder, or a file in a bucket does not exist.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A request to the bucket fails.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A file or a table cannot be read, for example because it is damaged or has an unsupported format.
    #[error("{}: {problem}", path.display())]
    File {
        /// The path or the location of the file, or of the folder with the files or the table.
        path: PathBuf,
        /// A sentence about what is wrong with the file, and what to do.
        problem: String,
    },
    /// A row has a value that its column cannot hold.
    #[error("{}: row {row}: {problem}", path.display())]
    Row {
        path: PathBuf,
        /// The number of the row in the file, from 1. Deleted rows count, too.
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

    /// Returns a function for `map_err`: it turns a fault of the file or folder `path` into an error.
    fn file<E: ToString>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_path_buf();
        move |problem| Self::File {
            path,
            problem: problem.to_string(),
        }
    }
}

/// The rows to load: files that have the same columns.
#[derive(Debug)]
pub struct Source {
    columns: Vec<String>,
    files: Vec<SourceFile>,
    /// The columns of an Iceberg table, whose data files name them by ids; `None` for Parquet files, whose
    /// columns are found by their names.
    table: Option<Vec<SchemaField>>,
}

#[derive(Debug)]
pub struct SourceFile {
    place: Place,
    bytes: u64,
    /// The rows that are deleted; none in a file of no Iceberg table.
    deletes: FileDeletes,
    /// The ids of the columns that the file need not contain, because in each of them all rows of
    /// the file have the same value (the columns of identity partitions). Empty for a file of no
    /// Iceberg table.
    identity_columns: Arc<[i32]>,
}

impl SourceFile {
    /// Looks up the size of the file at `place`, and returns the file with none of its rows deleted.
    ///
    /// # Errors
    /// If the file does not exist or cannot be read.
    fn find(place: Place) -> Result<Self> {
        Ok(Self {
            bytes: place.bytes()?,
            place,
            deletes: FileDeletes::default(),
            identity_columns: Arc::default(),
        })
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Source {
    /// Opens Parquet files. The columns of the first file are those of the source; [`rows`](Self::rows)
    /// refuses a file with other columns.
    ///
    /// # Errors
    /// If a file cannot be read, if it lies in the folder of an Iceberg, Delta or Hudi table (which may have
    /// deleted or replaced it), or if the first one is no Parquet file.
    pub fn parquet(paths: &[PathBuf]) -> Result<Self> {
        owner::check_files(paths)?;
        Self::of_files(paths.iter().cloned().map(Place::file).collect())
    }

    /// Opens the Iceberg table in the folder `path`, or the one that the metadata file `path` describes.
    /// `name` is a tag or a branch; without it, the rows are those of `main`.
    ///
    /// # Errors
    /// If the table cannot be read, if it has no such tag or branch, or if it has data files or delete files of
    /// a kind that ebb does not read.
    pub fn table(path: &Path, name: Option<&str>) -> Result<Self> {
        let (folder, metadata) = if path.is_dir() {
            (path.to_path_buf(), None)
        } else {
            // A table has its metadata in a folder of its own.
            let parent = path.parent().unwrap_or(Path::new(""));
            (parent.join(".."), Some(Place::file(path.to_path_buf())))
        };
        table::open(&Folder::Local(folder), metadata, name).map(Self::of_table)
    }

    /// Opens the source at a key of a bucket: a Parquet file, a folder that has only such files, or an
    /// Iceberg table by its folder or one of its metadata files. The root of `target` is the root of the
    /// bucket. `name` is a tag or a branch of a table, as for [`Source::table`].
    ///
    /// # Errors
    /// If a request to the bucket fails, if there is no such source, if `name` is given for Parquet files, if these
    /// lie in the folder of an Iceberg, Delta or Hudi table, as for [`Source::parquet`], or if the table cannot be
    /// read.
    pub fn bucket(target: &Target, key: &str, name: Option<&str>) -> Result<Self> {
        match bucket::find(target, key)? {
            Found::Files(files) if name.is_none() => Self::of_files(files),
            Found::Files(_) => Err(SourceError::file(Path::new(&target.url(key)))(
                "it is no Iceberg table, so it has no tags",
            )),
            Found::Table { key, metadata } => {
                let target = target.clone();
                let folder = Folder::Bucket { target, key };
                table::open(&folder, metadata, name).map(Self::of_table)
            }
        }
    }

    fn of_files(files: Vec<Place>) -> Result<Self> {
        let files = files.into_iter().map(SourceFile::find);
        let files: Vec<SourceFile> = files.collect::<Result<_>>()?;
        let columns = match files.first() {
            Some(SourceFile { place, .. }) => {
                columns::names(&metadata(&place.open(1)?, place.path())?)
            }
            None => Vec::new(),
        };
        Ok(Self {
            columns,
            files,
            table: None,
        })
    }

    fn of_table(table: Table) -> Self {
        Self {
            columns: table.columns.iter().map(|of| of.name.clone()).collect(),
            files: table.files,
            table: Some(table.columns),
        }
    }

    /// Returns the names of the columns: those of the first Parquet file, or those of the table.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the files, in the order in which they are loaded: if rows have the same key, the row in the
    /// later file counts as the later one.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Begins to read the rows of a file of this source. `columns` are the wanted columns: the name of each,
    /// and the CQL type to which its values are converted. A data file that is older than a column has nulls
    /// for it.
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
        let opened = caught(|| FileRows::open(file, columns, matching));
        opened.map_err(SourceError::file(file.place.path()))?
    }
}

/// Reads the metadata of a Parquet file by [`open_metadata`].
///
/// # Errors
/// The errors of [`open_metadata`].
fn metadata(file: &PlaceReader, path: &Path) -> Result<ArrowReaderMetadata> {
    let metadata = open_metadata(file, PageIndexPolicy::Skip);
    metadata.map_err(SourceError::file(path))
}
