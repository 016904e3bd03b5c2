//! The data files of a snapshot of an Iceberg table, with the rows of them that are deleted.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use super::deletes::Deletes;
use super::{Result, SourceError, SourceFile};
use crate::iceberg::foreign::{SchemaField, SnapshotView};
use crate::iceberg::manifest::{self, ManifestEntry, POSITIONAL_DELETES, ROWS, Status};
use crate::iceberg::manifest_list::{self, ManifestFile};

/// The folder of a table that has its metadata.
const METADATA: &str = "metadata";

/// The end of the name of a metadata file.
const METADATA_SUFFIX: &str = ".metadata.json";

/// The size of a metadata file at most, once it is unpacked.
const METADATA_BYTES_MAX: u64 = 1 << 28;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A snapshot of a table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<SchemaField>,
    pub(super) files: Vec<SourceFile>,
}

/// Opens the table in the folder `path`, or the one whose metadata file `path` is.
pub(super) fn open(path: &Path, name: Option<&str>) -> Result<Table> {
    let (metadata, folder) = if path.is_dir() {
        (newest_metadata(&path.join(METADATA))?, path.to_path_buf())
    } else {
        // A table has its metadata in a folder of its own.
        let parent = path.parent().unwrap_or(Path::new(""));
        (path.to_path_buf(), parent.join(".."))
    };
    let bytes = unpacked(read(&metadata)?).map_err(SourceError::io(&metadata))?;
    let view = SnapshotView::of(&bytes, name).map_err(SourceError::file(&metadata))?;
    let reader = TableReader {
        metadata: &metadata,
        folder,
        view: &view,
    };
    Ok(Table {
        files: reader.files()?,
        columns: view.columns,
    })
}

/// Finds the metadata file of the greatest version in a folder.
fn newest_metadata(folder: &Path) -> Result<PathBuf> {
    let refused = |problem: String| SourceError::file(folder)(problem);
    let failed = || SourceError::io(folder);
    let mut newest: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        if let Some(version) = path.file_name().and_then(version_of) {
            newest.push((version, path));
        }
    }
    newest.sort_unstable();
    match newest.as_slice() {
        [.., (before, one), (last, other)] if before == last => Err(refused(format!(
            "both {} and {} may be the newest metadata of the table; name the file in place of the \
             folder: the table's catalog knows which one it is",
            one.display(),
            other.display()
        ))),
        [.., (_, path)] => Ok(path.clone()),
        [] => Err(refused(format!("it has no file *{METADATA_SUFFIX}"))),
    }
}

/// Returns the version that the name of a metadata file begins with: N of `vN.metadata.json`, as
/// folders have it, or of `N-UUID.metadata.json`, as catalogs have it.
fn version_of(name: &OsStr) -> Option<u64> {
    let name = name.to_str()?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let name = name.strip_suffix(METADATA_SUFFIX)?;
    match name.strip_prefix('v') {
        Some(version) => version.strip_suffix(".gz").unwrap_or(version).parse().ok(),
        None => name.split_once('-')?.0.parse().ok(),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(SourceError::io(path))
}

/// Unpacks bytes that are those of a gzip file.
fn unpacked(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    let mut packed = GzDecoder::new(&bytes[..]).take(METADATA_BYTES_MAX);
    packed.read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

/// A data file or a file of deletes, as a manifest has it.
struct Listed {
    content: i32,
    /// The location.
    name: String,
    format: String,
    sequence_number: i64,
    partition_spec_id: i32,
}

struct TableReader<'a> {
    /// The metadata file, which errors name.
    metadata: &'a Path,
    folder: PathBuf,
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
        let mut deletes = Deletes::default();
        if !others.is_empty() {
            for file in &rows {
                deletes.add_file(&file.name, file.sequence_number);
            }
        }
        for file in &others {
            deletes.read(&self.local(&file.name)?, file.sequence_number)?;
        }
        let file = |file: Listed| -> Result<SourceFile> {
            let identity_columns = self.view.identity_columns(file.partition_spec_id);
            Ok(SourceFile {
                deleted: deletes.take(&file.name),
                identity_columns: identity_columns.to_vec(),
                ..SourceFile::find(self.local(&file.name)?)?
            })
        };
        rows.into_iter().map(file).collect()
    }

    /// Reads the manifests of a snapshot.
    fn listed(&self, list: &str) -> Result<Vec<Listed>> {
        let path = self.local(list)?;
        let manifests = manifest_list::decode(&read(&path)?);
        let mut listed = Vec::new();
        for manifest in manifests.map_err(SourceError::file(&path))? {
            let path = self.local(&manifest.manifest_path)?;
            let entries =
                manifest::decode_each(&read(&path)?, |entry| manifest_entry(entry, &manifest));
            let entries = entries.map_err(SourceError::file(&path))?;
            listed.extend(entries.into_iter().flatten());
        }
        Ok(listed)
    }

    /// Returns where a file of the table lies on this machine. What lies below the table's location is
    /// looked for in the table's folder, so that a copy of the folder is a table, too.
    fn local(&self, name: &str) -> Result<PathBuf> {
        let location = without_scheme(&self.view.location).trim_end_matches('/');
        let below = without_scheme(name).strip_prefix(location);
        if let Some(name) = below.and_then(|below| below.strip_prefix('/')) {
            // A location that ends with a slash gives names with two, which would be an absolute path.
            return Ok(self.folder.join(name.trim_start_matches('/')));
        }
        let path = Path::new(without_scheme(name));
        if path.is_absolute() {
            return Ok(path.to_path_buf());
        }
        Err(SourceError::file(self.metadata)(format!(
            "it names {name}, which lies outside of the table and not on this machine"
        )))
    }
}

/// Returns what is needed of an entry; `None` if the snapshot no longer has the file.
fn manifest_entry(entry: ManifestEntry, manifest: &ManifestFile) -> Option<Listed> {
    let file = entry.data_file;
    (entry.status != Status::Deleted as i32).then(|| Listed {
        content: file.content,
        name: file.file_path,
        format: file.file_format,
        // A file that was added has the number of its manifest.
        sequence_number: entry.sequence_number.unwrap_or(manifest.sequence_number),
        partition_spec_id: manifest.partition_spec_id,
    })
}

impl Listed {
    fn has_rows(&self) -> bool {
        self.content == ROWS
    }

    /// Checks that the file can be read.
    ///
    /// # Errors
    /// A sentence about the kind of file that it is.
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

/// Returns a location without `file:`. Others keep their scheme, and are no paths.
fn without_scheme(location: &str) -> &str {
    let path = location.strip_prefix("file:");
    path.map_or(location, |path| match path.strip_prefix("//") {
        // The name of a machine may stand before the path.
        Some(path) if path.starts_with('/') => path,
        _ => path,
    })
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
            assert_eq!(version_of(OsStr::new(name)), version, "{name}");
        }
    }

    #[test]
    fn files_of_a_table_are_looked_for_in_its_folder_or_where_they_are_named() {
        let view = |location: &str| {
            SnapshotView::of(
                format!(
                    r#"{{"format-version":2,"location":"{location}","current-schema-id":0,
                "schemas":[{{"schema-id":0,"fields":[]}}]}}"#
                )
                .as_bytes(),
                None,
            )
        };
        for location in ["file:/w/t", "file:///w/t", "/w/t/", "s3://w/t"] {
            let view = view(location).unwrap();
            let reader = TableReader {
                metadata: Path::new("/copy/metadata/v1.metadata.json"),
                folder: "/copy".into(),
                view: &view,
            };
            let local = |name: &str| reader.local(name).ok();
            let inside = format!("{}/data/a b=%20.parquet", location.trim_end_matches('/'));
            assert_eq!(local(&inside), Some("/copy/data/a b=%20.parquet".into()));
            let twice = inside.replace("/data", "//data");
            assert_eq!(local(&twice), local(&inside));
            assert_eq!(local("file:/w/t2/x"), Some("/w/t2/x".into()));
            assert_eq!(local("/elsewhere/x"), Some("/elsewhere/x".into()));
            assert_eq!(local("s3://other/x"), None);
        }
    }
}
