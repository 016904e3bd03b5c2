//! The removal of objects that publishers left.

use std::collections::{BTreeMap, BTreeSet};

use super::error::CommitError;
use super::manifests::{MetadataReader, is_live};
use super::names::{made_for, version_of};
use super::old_metadata::old_versions;
use super::settled::{Settled, newest_version};
use super::table::PublishedTable;
use crate::iceberg::AvroError;
use crate::iceberg::manifest::{self, ManifestEntry};
use crate::iceberg::manifest_list;
use crate::iceberg::metadata::{Snapshot, TableMetadata};
use crate::row_index;
use crate::target::{ListedObject, Target};

#[cfg(test)]
mod tests;

/// The number of objects that are read between two checks of whether the sweep goes on.
const READS: usize = 64;

/// The check of whether a sweep goes on, or has been stopped: its job is cancelled, for example.
type GoesOn<'c> = &'c dyn Fn() -> bool;

/// Removes the objects that publishers left of the table `name`: those that no snapshot names, and
/// that were made for a version of the metadata that exists by now. A publisher commits objects for
/// version N only by creating version N, which fails once this version exists. Objects for a later
/// version are left alone, because their publishers may be at work. Snapshots do not name row
/// indexes: an index is kept as long as its data file belongs to the newest publication. It is also kept for
/// the publication that was committed last, because `main` may be about to move there.
///
/// In a folder, a publisher writes each object to a temporary file beside it first. A killed
/// publisher leaves this file. `sweep` removes temporary files by the same rule. It also removes
/// those of the metadata file `vN` if version N exists, because a publisher that still writes one
/// can no longer commit version N. The temporary files of a version hint and of a catalog's mark
/// belong to no version, so they stay.
///
/// `sweep` also removes old metadata files `vN` of a table without a catalog, oldest first. By default these are all
/// files before the newest 101 that were replaced at least a day before the newest one was written.
///
/// Returns the number of removed objects and files.
///
/// # Errors
/// If a request to the target or its catalog fails, if metadata is damaged, or if the table is
/// committed in another place.
pub fn sweep(target: &Target, name: &str) -> Result<usize, CommitError> {
    let Some(mut sweep) = Sweep::of(target, name)? else {
        return Ok(0);
    };
    sweep.settled = Settled::default();
    Ok(sweep.run(&|| true)?.unwrap_or(0))
}

/// Does what [`sweep`] does, but looks only at objects that were made since an earlier sweep, or that snapshots
/// removed since then may have named. So the time does not grow with the number of publications. `goes_on` is
/// called between requests, many of which are made at once; if it returns false, the sweep ends. Returns the version
/// of the table that was swept, which is 0 if the table does not exist; `None` if the sweep ended early.
///
/// # Errors
/// The errors of [`sweep`].
pub fn sweep_unsettled(
    target: &Target,
    name: &str,
    goes_on: GoesOn<'_>,
) -> Result<Option<u64>, CommitError> {
    let Some(sweep) = Sweep::of(target, name)? else {
        return Ok(Some(0));
    };
    let removed = sweep.run(goes_on)?;
    Ok(removed.map(|_| sweep.table.version()))
}

/// Does what [`sweep_unsettled`] does, but spares the objects that the snapshots `expired` name. The caller has just
/// removed these snapshots from the table, and readers that opened the table before may still read them.
///
/// # Errors
/// The errors of [`sweep`].
pub fn sweep_sparing(
    target: &Target,
    name: &str,
    expired: &[Snapshot],
) -> Result<usize, CommitError> {
    let Some(mut sweep) = Sweep::of(target, name)? else {
        return Ok(0);
    };
    // Their objects were made for the versions up to theirs.
    sweep.spared = newest_version(expired.iter().map(|of| &of.manifest_list[..]));
    Ok(sweep.run(&|| true)?.unwrap_or(0))
}

/// A sweep of a table.
struct Sweep<'t> {
    target: &'t Target,
    /// The name of the table.
    name: &'t str,
    table: PublishedTable<'t>,
    settled: Settled,
    /// The version up to which all objects are spared.
    spared: u64,
}

impl<'t> Sweep<'t> {
    /// Opens a table; `None` if it does not exist.
    fn of(target: &'t Target, name: &'t str) -> Result<Option<Self>, CommitError> {
        let table = PublishedTable::open(target, name)?;
        let settled = table.metadata().map(Settled::of);
        Ok(settled.map(|settled| Self {
            target,
            name,
            table,
            settled,
            spared: 0,
        }))
    }

    /// Removes what is to be removed. Returns the number of removed objects and files; `None` if `goes_on` has
    /// ended the sweep.
    fn run(&self, goes_on: GoesOn<'_>) -> Result<Option<usize>, CommitError> {
        let Some(metadata) = self.table.metadata() else {
            return Ok(Some(0));
        };
        let data = format!("{}/data", self.name);
        let metadata_folder = format!("{}/metadata", self.name);
        let index = row_index::folder(self.name);
        let mut objects = self.target.list_objects(&data)?;
        objects.extend(self.target.list_objects(&metadata_folder)?);
        let mut left = self.unsettled(metadata, &objects);
        let reader = MetadataReader {
            target: self.target,
            table: self.name,
        };
        let mut names = Names {
            reader,
            seen: BTreeSet::new(),
            goes_on,
        };
        let newest = metadata.newest().into_iter();
        let newest: Vec<&Snapshot> = newest.chain(metadata.snapshots.last()).collect();
        let Some(live) = names.of(&newest, 0)? else {
            return Ok(None);
        };
        left.retain(|url| !live.contains(url));
        if let Some(least) = left.iter().filter_map(|url| made_for(url)).min() {
            // An object is named by no snapshot of an earlier version.
            let may_name =
                |of: &&Snapshot| made_for(&of.manifest_list).is_none_or(|of| of >= least);
            let snapshots: Vec<&Snapshot> = metadata.snapshots.iter().filter(may_name).collect();
            for snapshots in snapshots.chunks(READS) {
                let Some(named) = names.of(snapshots, least)? else {
                    return Ok(None);
                };
                left.retain(|url| !named.contains(url));
            }
        }
        let mut names: Vec<String> = left
            .iter()
            .filter_map(|url| self.target.name(url).map(str::to_owned))
            .collect();
        names.extend(self.old_indexes(&index, &live)?);
        names.extend(self.old_metadata(metadata, &objects));
        for name in &names {
            if !goes_on() {
                return Ok(None);
            }
            self.target.remove(name)?;
        }
        let version = self.table.version();
        let is_taken = |object: &str| {
            let own = version_of(object);
            self.is_past(object) || own.is_some_and(|own| own <= version)
        };
        let mut removed = names.len();
        for folder in [data, metadata_folder, index] {
            removed += self.target.remove_unfinished(&folder, is_taken)?;
        }
        Ok(Some(removed))
    }

    /// Returns whether an object was made for a version that exists by now.
    fn is_past(&self, object: &str) -> bool {
        made_for(object).is_some_and(|made_for| made_for <= self.table.version())
    }

    /// Returns the locations of those of `objects` that may have been left: of past versions that are neither
    /// settled nor spared. An object of a settled version is among them if it was written after the commit of this
    /// version, by a publisher that another one had overtaken.
    fn unsettled(&self, metadata: &TableMetadata, objects: &[ListedObject]) -> BTreeSet<String> {
        let lists = metadata.snapshots.iter().map(|of| &of.manifest_list[..]);
        let lists: BTreeSet<&str> = lists.collect();
        // The manifest list is the last object that a publisher writes before its commit, which without a catalog is
        // the metadata file. A commit that only moves `main` has no list.
        let committed = objects.iter().filter_map(|object| {
            let is_list = || lists.contains(&self.target.url(&object.name)[..]);
            let version = made_for(&object.name).filter(|_| is_list());
            let version = version.or_else(|| version_of(&object.name))?;
            Some((version, object.written_us))
        });
        let committed_us: BTreeMap<u64, i64> = committed.collect();
        let is_unsettled = |object: &&ListedObject| {
            let Some(version) = made_for(&object.name).filter(|_| self.is_past(&object.name))
            else {
                return false;
            };
            let is_late = || {
                // Of a later commit if the objects of this one are gone.
                let mut committed = committed_us.range(version..);
                committed
                    .next()
                    .is_some_and(|(_, committed_us)| object.written_us > *committed_us)
            };
            version > self.spared && (!self.settled.contains(version) || is_late())
        };
        let unsettled = objects.iter().filter(is_unsettled);
        unsettled
            .map(|object| self.target.url(&object.name))
            .collect()
    }

    /// Returns the names of row indexes, in the folder `index`, of data files that are not among `live`, the
    /// locations of the objects of the newest publication and of the one that was committed last.
    fn old_indexes(
        &self,
        index: &str,
        live: &BTreeSet<String>,
    ) -> Result<Vec<String>, CommitError> {
        let kept = live.iter().filter_map(|url| {
            let file = self.target.name(url)?;
            row_index::name(file)
        });
        let kept: BTreeSet<String> = kept.collect();
        let mut old = self.target.list(index)?;
        old.retain(|index| !kept.contains(index) && self.is_past(index));
        Ok(old)
    }

    /// Returns the names of old metadata files among `objects`, oldest first; none if a catalog writes the metadata.
    fn old_metadata(&self, metadata: &TableMetadata, objects: &[ListedObject]) -> Vec<String> {
        let newest = self.table.metadata_place().and_then(version_of);
        let Some(newest) = newest.filter(|newest| *newest == self.table.version()) else {
            return Vec::new();
        };
        let files = objects.iter().filter_map(|object| {
            let version = version_of(&object.name).filter(|version| *version <= newest)?;
            Some((version, object))
        });
        let files: BTreeMap<u64, &ListedObject> = files.collect();
        let written_us = files.iter().map(|(version, of)| (*version, of.written_us));
        let old = old_versions(metadata, &written_us.collect()).into_iter();
        old.filter_map(|version| Some(files.get(&version)?.name.clone()))
            .collect()
    }
}

/// A reader of the locations of all objects that snapshots name.
struct Names<'s> {
    reader: MetadataReader<'s>,
    /// The manifest lists and manifests that were read. Snapshots share manifests.
    seen: BTreeSet<String>,
    goes_on: GoesOn<'s>,
}

impl Names<'_> {
    /// Returns the locations of the objects that `snapshots` name: manifest lists, manifests, data files and delete
    /// files. Leaves out those in lists and manifests that were read before, and those in manifests
    /// that were made for versions before `least`, because they name only objects of such versions. Returns `None`
    /// if the sweep does not go on.
    fn of(
        &mut self,
        snapshots: &[&Snapshot],
        least: u64,
    ) -> Result<Option<BTreeSet<String>>, CommitError> {
        let lists = snapshots.iter().map(|of| &of.manifest_list[..]);
        let mut named: BTreeSet<String> = lists.clone().map(str::to_owned).collect();
        let lists = lists.filter(|url| self.seen.insert((*url).to_owned()));
        let lists: Vec<&str> = lists.collect();
        let Some(listed) = self.each(&lists, manifest_list::decode)? else {
            return Ok(None);
        };
        let mut manifests = Vec::new();
        for manifest in listed.into_iter().flatten() {
            let path = manifest.manifest_path;
            let may_name = made_for(&path).is_none_or(|version| version >= least);
            if may_name && self.seen.insert(path.clone()) {
                manifests.push(path.clone());
            }
            named.insert(path);
        }
        let manifests: Vec<&str> = manifests.iter().map(String::as_str).collect();
        let live = |entry: ManifestEntry| is_live(&entry).then_some(entry.data_file.file_path);
        let files = self.each(&manifests, |bytes| manifest::decode_each(bytes, live))?;
        Ok(files.map(|files| {
            named.extend(files.into_iter().flatten().flatten());
            named
        }))
    }

    /// Reads the objects at the locations `urls`, and returns what `decode` makes of each; `None` if the sweep does
    /// not go on.
    fn each<T>(
        &self,
        urls: &[&str],
        decode: impl Fn(&[u8]) -> Result<T, AvroError>,
    ) -> Result<Option<Vec<T>>, CommitError> {
        let mut all = Vec::new();
        for urls in urls.chunks(READS) {
            if !(self.goes_on)() {
                return Ok(None);
            }
            all.extend(self.reader.each(urls, &decode)?);
        }
        Ok(Some(all))
    }
}
