//! The data files of a snapshot of an Iceberg table, with the rows of them that are deleted.

use std::collections::HashSet;
use std::io::{self, Read as _};
use std::mem;
use std::path::Path;

use bytes::Bytes;
use flate2::read::GzDecoder;

use super::deletes::{Deletes, only_data_file};
use super::folder::Folder;
use super::place::Place;
use super::{Result, SourceError, SourceFile};
use crate::iceberg::foreign::{SchemaField, SnapshotView, TableVersion};
use crate::iceberg::manifest::{self, ManifestEntry, POSITIONAL_DELETES, ROWS, Status};
use crate::iceberg::manifest_list::{self, ManifestFile};
use crate::parquet_file::caught;

/// The end of the name of a metadata file.
const METADATA_SUFFIX: &str = ".metadata.json";

/// The largest size of a compressed metadata file, in bytes after decompression.
const METADATA_BYTES_MAX: u64 = 1 << 28;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A snapshot of a table: its columns, and its data files with their deleted rows.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<SchemaField>,
    pub(super) files: Vec<SourceFile>,
}

/// Opens the table in a folder by the metadata file `metadata`, or else by its newest one. `name` is a tag or
/// a branch; without it, the snapshot is that of `main`.
///
/// # Errors
/// If the metadata cannot be read or is not certainly the newest, if there is no such tag or branch, or if a
/// file of the snapshot is missing or of a kind that ebb does not read.
pub(super) fn open(folder: &Folder, metadata: Option<Place>, name: Option<&str>) -> Result<Table> {
    let (metadata, oldest) = match metadata {
        Some(metadata) => (metadata, Vec::new()),
        None => newest_metadata(folder)?,
    };
    let path = metadata.path();
    let bytes = unpacked(metadata.read()?).map_err(SourceError::io(path))?;
    check_is_not_dropped(&bytes, &oldest).map_err(SourceError::file(path))?;
    let view = SnapshotView::of(&bytes, name).map_err(SourceError::file(path))?;
    let reader = TableReader {
        metadata: path,
        folder,
        view: &view,
    };
    Ok(Table {
        files: reader.files()?,
        columns: view.columns,
    })
}

/// Finds the metadata file of the greatest version in the folder of a table. Also returns the metadata files
/// of the least version; none if there is only one version.
///
/// # Errors
/// If there are several files of the greatest version, or none at all.
fn newest_metadata(folder: &Folder) -> Result<(Place, Vec<Place>)> {
    let refused = |problem: String| SourceError::file(&folder.metadata_path())(problem);
    let mut versions: Vec<(u64, Place)> = Vec::new();
    for place in folder.metadata_files()? {
        if let Some(version) = place.name().and_then(version_of) {
            versions.push((version, place));
        }
    }
    versions.sort_by(|(a, one), (b, other)| (a, one.path()).cmp(&(b, other.path())));
    match versions.as_slice() {
        [.., (before, one), (last, other)] if before == last => Err(refused(format!(
            "both {} and {} may be the newest metadata of the table; name the file in place of the \
             folder: the table's catalog knows which one it is",
            one.path().display(),
            other.path().display()
        ))),
        [(least, _), .., (_, place)] => {
            let oldest = versions.iter().take_while(|(version, _)| version == least);
            let oldest = oldest.map(|(_, place)| place.clone()).collect();
            Ok((place.clone(), oldest))
        }
        [(_, place)] => Ok((place.clone(), Vec::new())),
        [] => Err(refused(format!("it has no file *{METADATA_SUFFIX}"))),
    }
}

/// Checks that `newest`, the metadata with the greatest version in a folder, is not left over from a dropped
/// table. Catalogs leave the files of a dropped table. If a new table is created in the same folder, its
/// versions begin at 0 again, and those of the dropped table are greater for a while.
///
/// `oldest` are the metadata files with the least version. A file that is of another table than `newest`, and
/// was not written earlier, belongs to such a new table. A file that was written earlier is itself left over,
/// and proves nothing.
///
/// # Errors
/// If one of `oldest` belongs to a later table. The error is a sentence about this file.
fn check_is_not_dropped(newest: &[u8], oldest: &[Place]) -> std::result::Result<(), String> {
    let Some(newest) = TableVersion::of(newest) else {
        return Ok(());
    };
    // A file that cannot be read, or that a writer has removed meanwhile, proves nothing.
    let read = |place: &Place| TableVersion::of(&unpacked(place.read().ok()?).ok()?);
    let is_of_later_table = |other: TableVersion| {
        other.table_uuid != newest.table_uuid && other.last_updated_ms >= newest.last_updated_ms
    };
    let mut oldest = oldest.iter();
    match oldest.find(|place| read(place).is_some_and(is_of_later_table)) {
        None => Ok(()),
        Some(place) => Err(format!(
            "it describes another table than {}, which was written later, as after a table was dropped and \
             created again in the same place; name the newest metadata file of the right table in place of the \
             folder: the table's catalog has it",
            place.path().display()
        )),
    }
}

/// Returns N of the name of a metadata file: `vN.metadata.json`, as in tables without a catalog, or
/// `N-UUID.metadata.json`, as catalogs write it. Either may also have `.gz` before or behind
/// `.metadata.json`. `None` for other names.
fn version_of(name: &str) -> Option<u64> {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let name = name.strip_suffix(METADATA_SUFFIX)?;
    match name.strip_prefix('v') {
        Some(version) => version.strip_suffix(".gz").unwrap_or(version).parse().ok(),
        None => name.split_once('-')?.0.parse().ok(),
    }
}

/// Decompresses `bytes` if they begin like a gzip file; otherwise returns them unchanged.
///
/// # Errors
/// If `bytes` are damaged, or have more than [`METADATA_BYTES_MAX`] bytes after decompression.
fn unpacked(bytes: Bytes) -> io::Result<Bytes> {
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    let mut packed = GzDecoder::new(&bytes[..]).take(METADATA_BYTES_MAX + 1);
    packed.read_to_end(&mut unpacked)?;
    if unpacked.len() as u64 > METADATA_BYTES_MAX {
        let problem = format!("it has more than {METADATA_BYTES_MAX} bytes once it is unpacked");
        return Err(io::Error::other(problem));
    }
    Ok(unpacked.into())
}

/// The parts of a manifest entry that a reader needs: a data file or a delete file.
struct Listed {
    content: i32,
    /// The location of the file, as the manifest has it.
    name: String,
    format: String,
    sequence_number: i64,
    /// The number of rows; `None` if the manifest has a negative number.
    rows: Option<u64>,
    partition_spec_id: i32,
    /// The location of the data file to which the manifest limits a delete file, if it does.
    only: Option<String>,
}

struct TableReader<'a> {
    /// The path of the metadata file, for errors.
    metadata: &'a Path,
    folder: &'a Folder,
    view: &'a SnapshotView,
}

impl TableReader<'_> {
    fn files(&self) -> Result<Vec<SourceFile>> {
        let listed = match &self.view.manifest_list {
            Some(list) => self.listed(list)?,
            None => Vec::new(),
        };
        let (rows, others): (Vec<_>, Vec<_>) = listed.into_iter().partition(Listed::has_rows);
        for file in rows.iter().chain(&others) {
            file.check().map_err(SourceError::file(self.metadata))?;
        }
        let places = rows.iter().map(|file| self.place(&file.name));
        let places: Vec<Place> = places.collect::<Result<_>>()?;
        self.check_once(&rows, &places)?;
        let mut deletes = Deletes::default();
        if !others.is_empty() {
            for file in &rows {
                deletes.add_file(&file.name, file.sequence_number, file.rows);
            }
        }
        for file in &others {
            let place = self.place(&file.name)?;
            let only = file.only.as_deref();
            let read = caught(|| deletes.add_deletes(&place, file.sequence_number, only));
            read.map_err(SourceError::file(place.path()))??;
        }
        let places = self.folder.with_sizes(places)?;
        let file = |(file, place): (Listed, Place)| -> Result<SourceFile> {
            Ok(SourceFile {
                deletes: deletes.take(&file.name),
                identity_columns: self.view.identity_columns(file.partition_spec_id),
                ..SourceFile::find(place)?
            })
        };
        rows.into_iter().zip(places).map(file).collect()
    }

    /// Checks that the snapshot has each data file once. `places` are the places of `rows`.
    ///
    /// # Errors
    /// If a data file is listed twice, also under different names. Its rows would be loaded twice.
    fn check_once(&self, rows: &[Listed], places: &[Place]) -> Result<()> {
        let mut seen = HashSet::new();
        for (file, place) in rows.iter().zip(places) {
            if !seen.insert(place.identity()?) {
                return Err(SourceError::file(self.metadata)(format!(
                    "its manifests list the data file {} twice, and the rows would be loaded twice; load an \
                     earlier snapshot by its tag, or write the rows of the table anew by another engine",
                    file.name
                )));
            }
        }
        Ok(())
    }

    /// Reads all manifests of the manifest list at the location `list`. Returns the files that the snapshot has. A
    /// list that names the same manifest twice is an error, so that the memory stays in proportion to the sizes of
    /// the manifests.
    fn listed(&self, list: &str) -> Result<Vec<Listed>> {
        let list = self.place(list)?;
        let manifests = manifest_list::decode(&list.read()?);
        let (mut listed, mut seen) = (Vec::new(), HashSet::new());
        for manifest in manifests.map_err(SourceError::file(list.path()))? {
            let place = self.place(&manifest.manifest_path)?;
            if !seen.insert(place.identity()?) {
                let problem = format!("it names {} twice", manifest.manifest_path);
                return Err(SourceError::file(list.path())(problem));
            }
            let entries =
                manifest::decode_each(&place.read()?, |entry| manifest_entry(entry, &manifest));
            let entries = entries.map_err(SourceError::file(place.path()))?;
            listed.extend(entries.into_iter().flatten());
        }
        Ok(listed)
    }

    /// Returns the place of the file or manifest at the location `name`.
    ///
    /// # Errors
    /// If the location is outside of the table, and not on the same machine or in the same bucket.
    fn place(&self, name: &str) -> Result<Place> {
        let place = self.folder.place(&self.view.location, name);
        place.unwrap_or_else(|| {
            Err(SourceError::file(self.metadata)(format!(
                "it names {name}, which lies outside of the table and not {}",
                self.folder.surroundings()
            )))
        })
    }
}

/// Returns the parts of a manifest entry that a reader needs; `None` if the snapshot no longer has the file.
fn manifest_entry(entry: ManifestEntry, manifest: &ManifestFile) -> Option<Listed> {
    let mut file = entry.data_file;
    (entry.status != Status::Deleted as i32).then(|| Listed {
        content: file.content,
        name: mem::take(&mut file.file_path),
        format: mem::take(&mut file.file_format),
        // A file that was added has the number of its manifest.
        sequence_number: entry.sequence_number.unwrap_or(manifest.sequence_number),
        rows: u64::try_from(file.record_count).ok(),
        partition_spec_id: manifest.partition_spec_id,
        only: only_data_file(file),
    })
}

impl Listed {
    fn has_rows(&self) -> bool {
        self.content == ROWS
    }

    /// Checks that ebb can read the file.
    ///
    /// # Errors
    /// If it has a format other than Parquet, or if it has equality deletes or deletion vectors. The error is
    /// a sentence about the file.
    fn check(&self) -> std::result::Result<(), String> {
        let (name, format) = (&self.name, &self.format);
        let is_parquet = format.eq_ignore_ascii_case("parquet");
        let what = match self.content {
            ROWS | POSITIONAL_DELETES if is_parquet => return Ok(()),
            ROWS => format!("data files of the format {format}"),
            POSITIONAL_DELETES if format.eq_ignore_ascii_case("puffin") => {
                "deletion vectors".to_owned()
            }
            POSITIONAL_DELETES => format!("deletes of the format {format}"),
            _ => "equality deletes".to_owned(),
        };
        Err(format!(
            "the table has {what} ({name}), which ebb does not read; rewrite the data files of the \
             table, which applies its deletes"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_metadata_files_have_versions() {
        for (name, version) in [
            ("v7.metadata.json", Some(7)),
            ("v7.gz.metadata.json", Some(7)),
            ("v7.metadata.json.gz", Some(7)),
            ("00012-0f8e2e5a-3b5e.metadata.json", Some(12)),
            ("00012-0f8e2e5a-3b5e.gz.metadata.json", Some(12)),
            ("version-hint.text", None),
            ("v.metadata.json", None),
            ("snap-7.avro", None),
        ] {
            assert_eq!(version_of(name), version, "{name}");
        }
    }
}
