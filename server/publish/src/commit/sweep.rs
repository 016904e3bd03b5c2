//! The removal of objects that publishers left.

use std::collections::BTreeSet;

use super::error::CommitError;
use super::manifests::{MetadataReader, ReadManifest, is_live};
use super::names::made_for;
use super::table::PublishedTable;
use crate::iceberg::metadata::TableMetadata;
use crate::row_index;
use crate::target::Target;

/// Removes the objects that publishers left of the table `name`: those that were made for a version
/// of the metadata that is there, and that no snapshot names. A publisher commits objects for version N
/// only by creating version N, which fails once it is there. Those for a later version are left alone,
/// because their publishers may be at work. Of the indexes of rows, only those of the newest publication
/// are needed. Returns the number of the removed objects.
///
/// # Errors
/// If the target refuses, or if metadata is damaged.
pub fn sweep(target: &Target, name: &str) -> Result<usize, CommitError> {
    let table = PublishedTable::open(target, name)?;
    let Some(metadata) = table.metadata() else {
        return Ok(0);
    };
    let named = named(target, name, metadata)?;
    let newest = table.manifests()?;
    let live = newest.iter().flat_map(ReadManifest::live);
    let indexes = live.filter_map(|entry| {
        let file = target.name(&entry.data_file.file_path)?;
        row_index::name(file)
    });
    let indexes: BTreeSet<String> = indexes.collect();
    let version = table.version();
    let is_past = |object: &str| made_for(object).is_some_and(|made_for| made_for <= version);
    let data = format!("{name}/data");
    let mut objects = target.list(&data)?;
    objects.extend(target.list(&format!("{name}/metadata"))?);
    objects.retain(|object| !named.contains(&target.url(object)));
    let mut left = target.list(&row_index::folder(name))?;
    left.retain(|index| !indexes.contains(index));
    objects.append(&mut left);
    objects.retain(|object| is_past(object));
    objects
        .iter()
        .try_for_each(|object| target.remove(object))?;
    Ok(objects.len() + target.remove_unfinished(&data, is_past)?)
}

/// Returns the locations of all objects that the snapshots of a table name.
fn named(
    target: &Target,
    table: &str,
    metadata: &TableMetadata,
) -> Result<BTreeSet<String>, CommitError> {
    let reader = MetadataReader { target, table };
    let mut named = BTreeSet::new();
    for snapshot in &metadata.snapshots {
        for manifest in reader.list(snapshot)? {
            let path = manifest.manifest_path;
            // Snapshots share manifests.
            if named.contains(&path) {
                continue;
            }
            let entries = reader.entries(&path)?.into_iter().filter(is_live);
            named.extend(entries.map(|entry| entry.data_file.file_path));
            named.insert(path);
        }
        named.insert(snapshot.manifest_list.clone());
    }
    Ok(named)
}
