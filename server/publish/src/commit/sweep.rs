//! The removal of objects that publishers left.

use std::collections::BTreeSet;

use super::error::CommitError;
use super::manifests::{MetadataReader, ReadManifest, is_live};
use super::names::{made_for, version_of};
use super::table::PublishedTable;
use crate::iceberg::manifest::ManifestEntry;
use crate::iceberg::metadata::Snapshot;
use crate::row_index;
use crate::target::Target;

/// Removes the objects that publishers left of the table `name`: those that no snapshot names, and
/// that were made for a version of the metadata that exists by now. A publisher commits objects for
/// version N only by creating version N, which fails once this version exists. Objects for a later
/// version are left alone, because their publishers may be at work. Snapshots do not name row
/// indexes: an index is kept as long as its data file belongs to the newest publication.
///
/// In a folder, a publisher writes each object to a temporary file beside it first. A killed
/// publisher leaves this file. `sweep` removes temporary files by the same rule. It also removes
/// those of the metadata file `vN` if version N exists, because a publisher that still writes one
/// can no longer commit version N. The temporary files of a version hint and of a catalog's mark
/// belong to no version, so they stay.
///
/// Returns the number of removed objects and files.
///
/// # Errors
/// If a request to the target or its catalog fails, if metadata is damaged, or if the table is
/// committed in another place.
pub fn sweep(target: &Target, name: &str) -> Result<usize, CommitError> {
    sweep_sparing(target, name, &[])
}

/// Does what [`sweep`] does, but spares the objects that the snapshots `expired` name. The caller has just
/// removed these snapshots from the table, and readers that opened the table before may still read them.
///
/// # Errors
/// The errors of [`sweep`]. Also if an object of a snapshot in `expired` is missing, because another sweep has
/// removed it already.
pub fn sweep_sparing(
    target: &Target,
    name: &str,
    expired: &[Snapshot],
) -> Result<usize, CommitError> {
    let table = PublishedTable::open(target, name)?;
    let Some(metadata) = table.metadata() else {
        return Ok(0);
    };
    let named = named(target, name, metadata.snapshots.iter().chain(expired))?;
    let newest = table.manifests(|_| false)?;
    let live = newest.iter().flat_map(ReadManifest::live);
    let indexes = live.filter_map(|entry| {
        let file = target.name(&entry.data_file.file_path)?;
        row_index::name(file)
    });
    let indexes: BTreeSet<String> = indexes.collect();
    let version = table.version();
    let is_past = |object: &str| made_for(object).is_some_and(|made_for| made_for <= version);
    let data = format!("{name}/data");
    let metadata_folder = format!("{name}/metadata");
    let index = row_index::folder(name);
    let mut objects = target.list(&data)?;
    objects.extend(target.list(&metadata_folder)?);
    objects.retain(|object| !named.contains(&target.url(object)));
    let mut left = target.list(&index)?;
    left.retain(|index| !indexes.contains(index));
    objects.append(&mut left);
    objects.retain(|object| is_past(object));
    objects
        .iter()
        .try_for_each(|object| target.remove(object))?;
    let is_taken = |object: &str| {
        let own = version_of(object);
        is_past(object) || own.is_some_and(|own| own <= version)
    };
    let mut removed = objects.len();
    for folder in [data, metadata_folder, index] {
        removed += target.remove_unfinished(&folder, is_taken)?;
    }
    Ok(removed)
}

/// Returns the locations of all objects that these snapshots of a table name: manifest lists, manifests, data
/// files and delete files.
fn named<'s>(
    target: &Target,
    table: &str,
    snapshots: impl Iterator<Item = &'s Snapshot>,
) -> Result<BTreeSet<String>, CommitError> {
    let reader = MetadataReader { target, table };
    let mut named = BTreeSet::new();
    for snapshot in snapshots {
        for manifest in reader.list(snapshot)? {
            let path = manifest.manifest_path;
            // Snapshots share manifests.
            if named.contains(&path) {
                continue;
            }
            let live = |entry: ManifestEntry| is_live(&entry).then_some(entry.data_file.file_path);
            named.extend(reader.entries(&path, live)?.into_iter().flatten());
            named.insert(path);
        }
        named.insert(snapshot.manifest_list.clone());
    }
    Ok(named)
}
