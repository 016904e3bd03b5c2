//! The folder of an Iceberg table, and where its files lie.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::location::Location;
use super::place::Place;
use super::{Result, SourceError};
use crate::target::Target;

/// The name of the folder, in the folder of a table, that contains the table's metadata.
pub(super) const METADATA: &str = "metadata";

/// The folder of a table.
#[derive(Debug)]
pub(super) enum Folder {
    /// A folder of this machine.
    Local(PathBuf),
    /// A folder in a bucket. The root of `target` is the root of the bucket.
    Bucket {
        target: Target,
        /// The key, without a slash at its end. Empty for the whole bucket.
        key: String,
    },
}

impl Folder {
    /// Returns the path or the location of the folder that has the metadata.
    pub(super) fn metadata_path(&self) -> PathBuf {
        match self {
            Self::Local(folder) => folder.join(METADATA),
            Self::Bucket { target, key } => target.url(&joined(key, METADATA)).into(),
        }
    }

    /// Returns the files of the folder that has the metadata.
    ///
    /// # Errors
    /// If the folder or the bucket cannot be read.
    pub(super) fn metadata_files(&self) -> Result<Vec<Place>> {
        match self {
            Self::Local(folder) => {
                let folder = folder.join(METADATA);
                let failed = || SourceError::io(&folder);
                let entries = fs::read_dir(&folder).map_err(failed())?;
                let place = |entry: io::Result<fs::DirEntry>| -> Result<Place> {
                    Ok(Place::file(entry.map_err(failed())?.path()))
                };
                entries.map(place).collect()
            }
            Self::Bucket { target, key } => {
                let entries = target.entries(&target.key(&joined(key, METADATA))?)?;
                let objects = entries.objects.into_iter();
                let places =
                    objects.map(|(key, bytes)| Place::object(target.clone(), key, Some(bytes)));
                Ok(places.collect())
            }
        }
    }

    /// Returns the place of the file `name` of a table whose metadata has the location `location`. A file
    /// below that location is expected below this folder, so that a copy of the folder is a table, too. Any
    /// other file is expected at the location `name`, if that is on the same machine or in the same bucket;
    /// `None` if it is not.
    pub(super) fn place(&self, location: &str, name: &str) -> Option<Result<Place>> {
        let named = Location::new(name);
        let below = named.below(Location::new(location));
        match self {
            Self::Local(folder) => {
                let path = match (below, named) {
                    (Some(below), _) => folder.join(below),
                    (None, Location::Path(path)) => PathBuf::from(path),
                    (None, _) => return None,
                };
                Some(Ok(Place::file(path)))
            }
            Self::Bucket { target, key } => {
                let key = match (below, named) {
                    (Some(below), _) => joined(key, below),
                    (None, Location::Bucket(path)) => {
                        target.name(&format!("s3://{path}"))?.to_owned()
                    }
                    (None, _) => return None,
                };
                let place = |key| Place::object(target.clone(), key, None);
                Some(target.key(&key).map(place).map_err(SourceError::from))
            }
        }
    }

    /// Looks up the sizes of files in the bucket of this folder, many at once: one after the other, thousands
    /// of files would take minutes. For a local folder, returns the places unchanged.
    ///
    /// # Errors
    /// If a file does not exist, or if a request to the bucket fails.
    pub(super) fn with_sizes(&self, places: Vec<Place>) -> Result<Vec<Place>> {
        let Self::Bucket { target, .. } = self else {
            return Ok(places);
        };
        let keys: Vec<_> = places.iter().filter_map(Place::key).cloned().collect();
        let sized = places.into_iter().zip(target.sizes(&keys)?);
        sized.map(|(place, bytes)| place.with_size(bytes)).collect()
    }

    /// Returns the words of an error message for the only place, besides the table's folder, in
    /// which files of the table may lie.
    pub(super) fn surroundings(&self) -> &'static str {
        match self {
            Self::Local(_) => "on this machine",
            Self::Bucket { .. } => "in its bucket",
        }
    }
}

/// Returns the key of `below`, an object or a folder that is named relative to the folder `folder`.
fn joined(folder: &str, below: &str) -> String {
    if folder.is_empty() {
        below.to_owned()
    } else {
        format!("{folder}/{below}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::faulty::in_memory;

    #[test]
    fn files_of_a_table_are_looked_for_in_its_folder_or_where_they_are_named() {
        let copy = Folder::Local("/copy".into());
        let place = |folder: &Folder, location: &str, name: &str| {
            let place = folder.place(location, name)?;
            Some(place.unwrap().path().to_str().unwrap().to_owned())
        };
        for location in ["file:/w/t", "file:///w/t", "/w/t/", "s3://w/t"] {
            let local = |name: &str| place(&copy, location, name);
            let inside = format!("{}/data/a b=%20.parquet", location.trim_end_matches('/'));
            assert_eq!(
                local(&inside).as_deref(),
                Some("/copy/data/a b=%20.parquet")
            );
            let twice = inside.replace("/data", "//data");
            assert_eq!(local(&twice), local(&inside));
            assert_eq!(local("file:/w/t2/x").as_deref(), Some("/w/t2/x"));
            assert_eq!(local("/elsewhere/x").as_deref(), Some("/elsewhere/x"));
            assert_eq!(local("s3://other/x"), None);
        }
        let bucket = Folder::Bucket {
            target: in_memory("s3://lake").unwrap(),
            key: "copy".to_owned(),
        };
        for location in ["s3a://lake/t", "/w/t"] {
            let held = |name: &str| place(&bucket, location, name);
            let inside = format!("{location}/data/a b=%20.parquet");
            let found = "s3://lake/copy/data/a b=%20.parquet";
            assert_eq!(held(&inside).as_deref(), Some(found));
            assert_eq!(held("s3n://lake/u/x").as_deref(), Some("s3://lake/u/x"));
            assert_eq!(held("s3://other/x"), None);
            assert_eq!(held("/elsewhere/x"), None);
        }
    }
}
