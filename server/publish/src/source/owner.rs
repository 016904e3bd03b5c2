//! The tables that Parquet files belong to. The log or the metadata of such a table decides which of its files
//! and rows count. The others were deleted or replaced, and the folder shows no difference.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use object_store::path::Path as Key;

use super::folder::{Folder, METADATA};
use super::place::Place;
use super::table::METADATA_SUFFIX;
use super::{Result, SourceError};
use crate::target::Target;

/// The formats of tables other than Iceberg: the name of the folder with the table's log, and the name of the
/// format.
const LOGS: [(&str, &str); 2] = [("_delta_log", "Delta"), (".hoodie", "Hudi")];

/// The folder of an Iceberg table that contains its data files.
const DATA: &str = "data";

/// Checks that none of the local files `paths` lies below the folder of a Delta or Hudi table, or below the
/// data folder of an Iceberg table.
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
            if let Some(problem) = problem_of(folder) {
                return Err(SourceError::file(path)(problem));
            }
        }
    }
    Ok(())
}

/// Returns why files in `folder` cannot be loaded one by one: a sentence about the table whose files they
/// are. `None` if they belong to none.
fn problem_of(folder: &Path) -> Option<String> {
    let log = LOGS.iter().find(|(log, _)| folder.join(log).is_dir());
    if let Some((log, format)) = log {
        return Some(of_log(format, log, folder.display()));
    }
    let table = folder.parent().filter(|_| folder.ends_with(DATA))?;
    let metadata = fs::read_dir(table.join(METADATA)).into_iter().flatten();
    let mut names = metadata.flatten().map(|entry| entry.file_name());
    let is_table = names.any(|name| is_metadata(&name.to_string_lossy()));
    is_table.then(|| of_iceberg(table.display()))
}

/// Checks that the folder `key` of a bucket is neither the folder of a Delta or Hudi table nor the data
/// folder of an Iceberg table. `folders` are the folders directly in it. Folders further up are not looked
/// at.
///
/// # Errors
/// If the folder belongs to such a table. The error names the table.
pub(super) fn check_key(target: &Target, key: &str, folders: &[Key]) -> Result<()> {
    let refused = |problem: String| SourceError::file(Path::new(&target.url(key)))(problem);
    let has = |log: &str| folders.iter().any(|folder| folder.filename() == Some(log));
    if let Some((log, format)) = LOGS.iter().find(|(log, _)| has(log)) {
        return Err(refused(of_log(format, log, target.url(key))));
    }
    let (table, name) = key.rsplit_once('/').unwrap_or(("", key));
    if name != DATA {
        return Ok(());
    }
    let folder = Folder::Bucket {
        target: target.clone(),
        key: table.to_owned(),
    };
    // The role of the user may list this folder alone, which proves nothing about the table.
    let metadata = folder.metadata_files().unwrap_or_default();
    if metadata.iter().filter_map(Place::name).any(is_metadata) {
        return Err(refused(of_iceberg(target.url(table))));
    }
    Ok(())
}

/// Returns whether a name is that of a metadata file of an Iceberg table.
pub(super) fn is_metadata(name: &str) -> bool {
    name.contains(METADATA_SUFFIX)
}

fn of_log(format: &str, log: &str, table: impl Display) -> String {
    format!(
        "it belongs to the {format} table {table}, whose log in {log} decides which files and rows count; \
         those that were deleted or replaced would come back: let an engine that reads {format} write the \
         rows as Parquet files into another folder"
    )
}

fn of_iceberg(table: impl Display) -> String {
    format!(
        "it belongs to the Iceberg table {table}, whose metadata decides which files and rows count; those \
         that were deleted or replaced would come back: load the table itself"
    )
}
