//! The tables that Parquet files belong to. The log or the metadata of such a table decides which of its files
//! and rows count. The others were deleted or replaced, and the folder shows no difference.
//!
//! Files on this machine and in buckets are checked alike: for each folder from that of the file up to the root,
//! [`Owner::candidates`] names the tables that the file would belong to, and the folder in which each of them has
//! its log or its metadata. If the user lacks permission for that folder, it proves nothing, and the file is
//! loaded: the user may have permission for the file alone.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use object_store::path::Path as Key;

use super::folder::METADATA;
use super::{Result, SourceError};
use crate::iceberg::metadata::is_metadata_file;
use crate::target::{IsSought, Target};

/// The formats of tables other than Iceberg.
const LOGS: [Format; 2] = [
    Format::Log {
        folder: "_delta_log",
        name: "Delta",
    },
    Format::Log {
        folder: ".hoodie",
        name: "Hudi",
    },
];

/// The folder of an Iceberg table that contains its data files.
const DATA: &str = "data";

/// The format of a table.
#[derive(Debug, Clone, Copy)]
enum Format {
    /// A format whose tables have a log, which lies in the folder `folder` of the table.
    Log {
        folder: &'static str,
        name: &'static str,
    },
    Iceberg,
}

/// A table that files would belong to, if it exists.
#[derive(Debug)]
struct Owner<'p> {
    format: Format,
    /// The folder of the table: a path of this machine, or a key of a bucket, which is empty for the whole bucket.
    table: &'p Path,
}

impl<'p> Owner<'p> {
    /// Returns the tables to which files below `folder` may belong: for each format with a log, a
    /// table whose folder is `folder` itself. If `folder` is called `data`, also an Iceberg table
    /// whose folder is the parent of `folder`.
    fn candidates(folder: &'p Path) -> impl Iterator<Item = Self> {
        let iceberg = folder.parent().filter(|_| folder.ends_with(DATA));
        let iceberg = iceberg.map(|table| Self {
            format: Format::Iceberg,
            table,
        });
        let logs = LOGS.map(|format| Self {
            format,
            table: folder,
        });
        logs.into_iter().chain(iceberg)
    }

    /// Returns the folder of the log or the metadata.
    fn proof(&self) -> PathBuf {
        self.table.join(match self.format {
            Format::Log { folder, .. } => folder,
            Format::Iceberg => METADATA,
        })
    }

    /// Returns whether the table exists on this machine.
    fn is_local(&self) -> bool {
        let proof = self.proof();
        match self.format {
            Format::Log { .. } => proof.is_dir(),
            Format::Iceberg => {
                let entries = fs::read_dir(proof).into_iter().flatten();
                let mut names = entries.flatten().map(|entry| entry.file_name());
                names.any(|name| is_metadata_file(&name.to_string_lossy()))
            }
        }
    }

    /// Returns the function by which [`Target::have_objects`] decides whether an object proves that
    /// the table exists. The function gets the key of an object that lies directly in the folder of
    /// the metadata: a folder called `metadata` proves nothing, because programs other than Iceberg
    /// have such folders, too. Returns `None` for a table with a log, because any object below the
    /// folder of the log proves that the table exists.
    fn is_proof(&self) -> Option<IsSought> {
        match self.format {
            Format::Log { .. } => None,
            Format::Iceberg => Some(is_metadata_file),
        }
    }

    /// Returns the reason why a file of the table cannot be loaded by itself: a sentence whose
    /// subject is the file. `table` is the folder of the table, as the user would name it.
    fn problem(&self, table: impl Display) -> String {
        match self.format {
            Format::Log { folder, name } => format!(
                "it belongs to the {name} table {table}, whose log in {folder} decides which files and rows \
                 count; those that were deleted or replaced would come back: let an engine that reads {name} \
                 write the rows as Parquet files into another folder"
            ),
            Format::Iceberg => format!(
                "it belongs to the Iceberg table {table}, whose metadata decides which files and rows count; \
                 those that were deleted or replaced would come back: load the table itself"
            ),
        }
    }
}

/// Checks that none of the local files `paths` lies in the folder of an Iceberg, Delta or Hudi table.
///
/// # Errors
/// If a file does (the error names the table), or if a file does not exist.
pub(super) fn check_files(paths: &[PathBuf]) -> Result<()> {
    let mut checked = BTreeSet::new();
    for path in paths {
        // A relative path, a link, or one with `..` names other folders than those in which the file lies.
        let whole = path.canonicalize().map_err(SourceError::io(path))?;
        for folder in whole.ancestors().skip(1) {
            if !checked.insert(folder.to_path_buf()) {
                break;
            }
            if let Some(owner) = Owner::candidates(folder).find(Owner::is_local) {
                let problem = owner.problem(owner.table.display());
                return Err(SourceError::file(path)(problem));
            }
        }
    }
    Ok(())
}

/// Checks that the Parquet files at `key` of a bucket, a file in the folder `folder` or this folder
/// itself, do not lie in the folder of an Iceberg, Delta or Hudi table.
///
/// Sends two list requests for each folder up to the root of the bucket, and one more for a folder
/// called `data`. The requests are sent together, so a file five folders deep costs twelve requests
/// and about the time of one. Only the list of a folder `metadata` may take more than one request.
///
/// # Errors
/// If the files belong to a table, which the error names, or if a request to the bucket fails for
/// another reason than a lack of permission.
pub(super) fn check_key(target: &Target, key: &str, folder: &str) -> Result<()> {
    let folders = Path::new(folder).ancestors();
    let owners: Vec<Owner<'_>> = folders.flat_map(Owner::candidates).collect();
    let proof = |owner: &Owner<'_>| -> Result<(Key, Option<IsSought>)> {
        let folder = target.key(&owner.proof().to_string_lossy())?;
        Ok((folder, owner.is_proof()))
    };
    let proofs = owners.iter().map(proof).collect::<Result<Vec<_>>>()?;
    let found = target.have_objects(&proofs)?;
    let mut owners = owners.iter().zip(found);
    match owners.find(|(_, is_found)| *is_found) {
        None => Ok(()),
        Some((owner, _)) => {
            let table = target.url(&owner.table.to_string_lossy());
            let problem = owner.problem(table);
            Err(SourceError::file(Path::new(&target.url(key)))(problem))
        }
    }
}
