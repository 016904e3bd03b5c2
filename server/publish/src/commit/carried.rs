//! The manifests of the previous publication, in a publication that keeps its files.

use std::collections::BTreeSet;

use super::manifests::{ReadManifest, is_live};
use crate::iceberg::manifest::{Content, DataFile, ManifestEntry, Status};
use crate::iceberg::manifest_list::ManifestFile;

/// A manifest in the list of a new snapshot.
#[derive(Debug)]
pub(super) enum NextManifest {
    /// A manifest of the snapshot before, unchanged.
    Carried(ManifestFile),
    /// A manifest that this commit writes. It lists the files that the new snapshot adds, or it
    /// replaces a manifest of which a file leaves the table. A snapshot without files has a
    /// manifest without entries.
    Written {
        /// The kind of files that the manifest lists: data files or delete files.
        content: Content,
        /// The files that the manifest lists, each with its status: added, kept or removed by the new
        /// snapshot.
        entries: Vec<ManifestEntry>,
    },
}

/// The locations of the files that a publication removes from the table. Delete files that name rows of a
/// removed data file leave the table, too, and need not be among them.
#[derive(Debug)]
pub(super) struct Removed<'p> {
    names: BTreeSet<&'p str>,
}

impl<'p> Removed<'p> {
    pub(super) fn new(removed: &'p [String]) -> Self {
        Self {
            names: removed.iter().map(String::as_str).collect(),
        }
    }

    /// Returns whether `file` leaves the table: it is one of the removed files, or deletes rows of one of
    /// them.
    pub(super) fn contains(&self, file: &DataFile) -> bool {
        let names = |url: &str| self.names.contains(url);
        names(&file.file_path) || file.referenced_data_file.as_deref().is_some_and(names)
    }

    /// Checks that each removed file belongs to the previous snapshot, whose manifests are `base`.
    ///
    /// # Errors
    /// If one of them does not belong to it. The error is a sentence with the location of that file.
    pub(super) fn check(&self, base: &[ReadManifest]) -> Result<(), String> {
        let live = base.iter().flat_map(ReadManifest::live);
        let known: BTreeSet<&str> = live.map(|entry| &entry.data_file.file_path[..]).collect();
        match self.names.iter().find(|name| !known.contains(*name)) {
            None => Ok(()),
            Some(name) => Err(format!(
                "the newest publication has no file {name}, which this one is to remove; publish again"
            )),
        }
    }
}

/// Returns the manifests that the new snapshot `snapshot_id` takes over from the previous snapshot, whose
/// manifests are `base`:
///
/// - Manifests that list no file of the previous snapshot (only files removed earlier, or none) are left out.
/// - A manifest of which no file leaves the table stays unchanged.
/// - Another manifest is replaced by a new one. It lists the files that leave as deleted, for engines that
///   look for changes, and the others as existing.
pub(super) fn carry(
    base: &[ReadManifest],
    leaving: &Removed<'_>,
    snapshot_id: i64,
) -> Vec<NextManifest> {
    let next = base.iter().filter_map(|manifest| {
        // Files that left earlier are no longer of interest.
        manifest.live().next()?;
        let mut live = manifest.live();
        if !live.any(|entry| leaving.contains(&entry.data_file)) {
            return Some(NextManifest::Carried(manifest.listed.clone()));
        }
        let entries = manifest.live().map(|entry| {
            let file_number = entry.file_sequence_number;
            let added_by = entry
                .snapshot_id
                .unwrap_or(manifest.listed.added_snapshot_id);
            let (status, of) = if leaving.contains(&entry.data_file) {
                (Status::Deleted, snapshot_id)
            } else {
                (Status::Existing, added_by)
            };
            ManifestEntry {
                status: status as i32,
                snapshot_id: Some(of),
                // Only files that are added take the numbers of their manifest.
                sequence_number: Some(manifest.sequence_number(entry)),
                file_sequence_number: file_number.or(Some(manifest.listed.sequence_number)),
                data_file: entry.data_file.clone(),
            }
        });
        Some(NextManifest::Written {
            content: content_of(&manifest.listed),
            entries: entries.collect(),
        })
    });
    next.collect()
}

fn content_of(listed: &ManifestFile) -> Content {
    if listed.content == Content::Data as i32 {
        Content::Data
    } else {
        Content::Deletes
    }
}

/// Returns the entry by which the manifest list of the snapshot `snapshot_id` refers to a manifest that was
/// written for this snapshot. `path` and `length` are the location and the size of the manifest.
pub(super) fn listed(
    (path, length): (String, usize),
    content: Content,
    entries: &[ManifestEntry],
    snapshot_id: i64,
    sequence_number: i64,
) -> ManifestFile {
    let of = |status: Status| {
        let entries = entries.iter().filter(|entry| entry.status == status as i32);
        let rows = entries.clone().map(|entry| entry.data_file.record_count);
        (entries.count() as i32, rows.fold(0, i64::saturating_add))
    };
    let (added_files_count, added_rows_count) = of(Status::Added);
    let (existing_files_count, existing_rows_count) = of(Status::Existing);
    let (deleted_files_count, deleted_rows_count) = of(Status::Deleted);
    let live = entries.iter().filter(|entry| is_live(entry));
    let numbers = live.map(|entry| entry.sequence_number.unwrap_or(sequence_number));
    ManifestFile {
        manifest_path: path,
        manifest_length: length as i64,
        partition_spec_id: 0,
        content: content as i32,
        sequence_number,
        min_sequence_number: numbers.min().unwrap_or(sequence_number),
        added_snapshot_id: snapshot_id,
        added_files_count,
        existing_files_count,
        deleted_files_count,
        added_rows_count,
        existing_rows_count,
        deleted_rows_count,
    }
}
