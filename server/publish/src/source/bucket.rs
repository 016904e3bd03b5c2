//! Finds out whether a key of a bucket is a Parquet file, a folder of such files, or an Iceberg table.

use std::io;
use std::path::Path;

use super::folder::Folder;
use super::owner;
use super::place::Place;
use super::{Result, SourceError};
use crate::iceberg::metadata::is_metadata_file;
use crate::target::Target;

/// The extension of the name of a Parquet file, which may also be in upper case.
const PARQUET: &str = "parquet";

/// The source at a key of a bucket.
#[derive(Debug)]
pub(super) enum Found {
    /// Parquet files, ascending by name.
    Files(Vec<Place>),
    /// An Iceberg table: the key of its folder, and the metadata file if the user named one. `None` if the
    /// user named the folder.
    Table {
        key: String,
        metadata: Option<Place>,
    },
}

/// Returns the kind of source at `key`, which has no slash at its ends and is empty for the whole bucket.
///
/// # Errors
/// If a request to the bucket fails, if there is no source at the key, or if it is Parquet files that belong to
/// an Iceberg, Delta or Hudi table.
pub(super) fn find(target: &Target, key: &str) -> Result<Found> {
    if let Some(found) = object(target, key)? {
        return Ok(found);
    }
    let folder = Folder::Bucket {
        target: target.clone(),
        key: key.to_owned(),
    };
    let metadata = folder.metadata_files()?;
    let mut names = metadata.iter().filter_map(Place::name);
    if names.any(is_metadata_file) {
        return Ok(Found::Table {
            key: key.to_owned(),
            metadata: None,
        });
    }
    parquet_files(target, key).map(Found::Files)
}

/// Returns the source that the object at `key` is: a data file, or a table with this metadata file. `None` if
/// it is neither, or does not exist. Fails if the data file belongs to an Iceberg, Delta or Hudi table.
fn object(target: &Target, key: &str) -> Result<Option<Found>> {
    let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
    if !is_parquet(name) && !is_metadata_file(name) {
        return Ok(None);
    }
    let object = target.key(key)?;
    let Some(bytes) = target.size(&object)? else {
        return Ok(None);
    };
    let place = Place::object(target.clone(), object, Some(bytes));
    if is_parquet(name) {
        owner::check_key(target, key, folder)?;
        return Ok(Some(Found::Files(vec![place])));
    }
    // A table has its metadata in a folder of its own.
    let folder = folder.rsplit_once('/').map_or("", |(folder, _)| folder);
    Ok(Some(Found::Table {
        key: folder.to_owned(),
        metadata: Some(place),
    }))
}

fn is_parquet(name: &str) -> bool {
    let end = Path::new(name).extension();
    end.is_some_and(|end| end.eq_ignore_ascii_case(PARQUET))
}

/// Lists the Parquet files of a folder, ascending by name. Files and folders whose names begin with a dot or
/// an underscore do not count: other engines write such files, too.
///
/// # Errors
/// If the folder has no Parquet files, if it has other files or folders, if it belongs to an Iceberg, Delta
/// or Hudi table, or if a request to the bucket fails.
fn parquet_files(target: &Target, key: &str) -> Result<Vec<Place>> {
    let failed = |problem: String| SourceError::file(Path::new(&target.url(key)))(problem);
    let entries = target.entries(&target.key(key)?)?;
    // A key at which nothing lies is absent, also below a table.
    if !entries.objects.is_empty() || !entries.folders.is_empty() {
        owner::check_key(target, key, key)?;
    }
    let is_shown = |name: &str| !name.starts_with(['.', '_']);
    let mut folders = entries
        .folders
        .iter()
        .filter_map(|folder| folder.filename());
    if let Some(folder) = folders.find(|&name| is_shown(name)) {
        return Err(failed(format!(
            "it is no Iceberg table and no folder of Parquet files alone: it has the folder {folder}"
        )));
    }
    let mut files = Vec::new();
    for (key, bytes) in entries.objects {
        let name = key.filename().unwrap_or_default();
        if !is_shown(name) {
            continue;
        }
        if !is_parquet(name) {
            return Err(failed(format!(
                "it is no Iceberg table and no folder of Parquet files alone: it has the file {name}"
            )));
        }
        files.push(Place::object(target.clone(), key, Some(bytes)));
    }
    if files.is_empty() {
        let absent = io::ErrorKind::NotFound.into();
        return Err(SourceError::io(Path::new(&target.url(key)))(absent));
    }
    files.sort_by(|a, b| a.path().cmp(b.path()));
    Ok(files)
}
