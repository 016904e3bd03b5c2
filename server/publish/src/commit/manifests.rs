//! The manifests of a snapshot as they are in the target.

use bytes::Bytes;
use object_store::path::Path;

use super::error::CommitError;
use crate::iceberg::AvroError;
use crate::iceberg::manifest::{self, ManifestEntry, Status};
use crate::iceberg::manifest_list::{self, ManifestFile};
use crate::iceberg::metadata::Snapshot;
use crate::target::Target;

/// A manifest of a snapshot, with its entries.
#[derive(Debug, Clone)]
pub(super) struct ReadManifest {
    /// The entry of the manifest in the snapshot's manifest list.
    pub(super) listed: ManifestFile,
    /// The entries of the manifest, including those of deleted files. They lack the statistics of columns
    /// unless the reader asked for them, see [`MetadataReader::manifests`].
    pub(super) entries: Vec<ManifestEntry>,
}

impl ReadManifest {
    /// Returns the entries of the files that the snapshot has.
    pub(super) fn live(&self) -> impl Iterator<Item = &ManifestEntry> {
        self.entries.iter().filter(|entry| is_live(entry))
    }

    /// Returns the sequence number of the file of an entry. In Iceberg it decides which deletes apply to the
    /// file. A newly added file may have no number of its own, and then inherits that of its manifest.
    pub(super) fn sequence_number(&self, entry: &ManifestEntry) -> i64 {
        entry.sequence_number.unwrap_or(self.listed.sequence_number)
    }
}

/// Returns whether the file of a manifest entry belongs to the table: the entry does not record its deletion.
pub(super) fn is_live(entry: &ManifestEntry) -> bool {
    entry.status != Status::Deleted as i32
}

/// A reader of the objects that the metadata of a table names.
pub(super) struct MetadataReader<'t> {
    pub(super) target: &'t Target,
    /// The folder of the table in the target.
    pub(super) table: &'t str,
}

impl MetadataReader<'_> {
    /// Reads all manifests of a snapshot. The entries of a manifest have the statistics of columns only if
    /// `is_changed` returns true for one of them: for a thousand files of 500 columns, statistics take 80 MB.
    pub(super) fn manifests(
        &self,
        snapshot: &Snapshot,
        is_changed: impl Fn(&ManifestEntry) -> bool,
    ) -> Result<Vec<ReadManifest>, CommitError> {
        let listed = self.list(snapshot)?.into_iter();
        let read = |listed: ManifestFile| -> Result<ReadManifest, CommitError> {
            let path = &listed.manifest_path;
            let mut entries = self.entries(path, ManifestEntry::without_statistics)?;
            if entries.iter().any(&is_changed) {
                entries = self.entries(path, |entry| entry)?;
            }
            Ok(ReadManifest { entries, listed })
        };
        listed.map(read).collect()
    }

    /// Reads the list of the manifests of a snapshot.
    pub(super) fn list(&self, snapshot: &Snapshot) -> Result<Vec<ManifestFile>, CommitError> {
        let url = &snapshot.manifest_list;
        manifest_list::decode(&self.object(url)?).map_err(damaged(url))
    }

    /// Reads the manifest at the location `url`, and returns what `take` makes of each entry.
    pub(super) fn entries<T>(
        &self,
        url: &str,
        take: impl FnMut(ManifestEntry) -> T,
    ) -> Result<Vec<T>, CommitError> {
        manifest::decode_each(&self.object(url)?, take).map_err(damaged(url))
    }

    /// Reads the manifest lists or manifests at the locations `urls`, many at once, and returns what `decode` makes
    /// of each, in the same order. `decode` must not use the target.
    ///
    /// # Errors
    /// If a location is outside the target, if a request to the target fails, or if an object is absent or damaged.
    pub(super) fn each<T>(
        &self,
        urls: &[&str],
        decode: impl Fn(&[u8]) -> Result<T, AvroError>,
    ) -> Result<Vec<T>, CommitError> {
        let keys = urls.iter().map(|url| self.name(url).map(Path::from));
        let keys = keys.collect::<Result<Vec<Path>, _>>()?;
        let decoded = self.target.get_each(&keys, |_, bytes| {
            let bytes = bytes.unwrap_or_default();
            decode(&bytes)
        })?;
        let decoded = urls.iter().zip(decoded);
        decoded
            .map(|(url, decoded)| decoded.map_err(damaged(url)))
            .collect()
    }

    /// Reads the object at the location `url`. An absent object is returned as no bytes, which the decoders
    /// report as damage.
    ///
    /// # Errors
    /// If the location is outside the target, or if a request to the target fails.
    fn object(&self, url: &str) -> Result<Bytes, CommitError> {
        Ok(self.target.read(self.name(url)?)?.unwrap_or_default())
    }

    /// Returns the name of the object at the location `url`.
    ///
    /// # Errors
    /// If the location is outside the target.
    fn name<'u>(&self, url: &'u str) -> Result<&'u str, CommitError> {
        let moved = || CommitError::Refused {
            table: self.table.to_owned(),
            reason: format!("its metadata names {url}, so it was moved; choose another target"),
        };
        self.target.name(url).ok_or_else(moved)
    }
}

fn damaged(url: &str) -> impl FnOnce(AvroError) -> CommitError {
    let url = url.to_owned();
    move |error| CommitError::Damaged { url, error }
}
