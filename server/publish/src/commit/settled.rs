//! The versions of a table whose objects earlier sweeps have looked at.
//!
//! ```text
//!   version of an object   1 ... 40      41 ... 97   98            99
//!                          unsettled     settled     unsettled     its publisher may be at work
//! ```
//!
//! Here the newest version is 98, and its publisher has swept at version 97: each object that was made for one of the
//! versions up to 97 was named by a snapshot then, or was removed. The commit of version 98 has removed the
//! snapshots up to that of version 40, so nothing may name their objects any more. All other objects stay named.
//! A commit that only moves `main` may remove snapshots, too. It leaves the number up to which versions are settled.
//!
//! Without this record a sweep would read the manifest lists of all snapshots, whose number grows with every
//! publication.

use super::expiry::Expired;
use super::names::made_for;
use crate::iceberg::metadata::TableMetadata;

/// The property of an Iceberg table that holds its [`Settled`] versions, as `AFTER-UNTIL`.
const PROPERTY: &str = "ebb.settled-versions";

/// The versions of a table whose objects need no further look by a sweep: those above `after`, up to `until`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Settled {
    after: u64,
    until: u64,
}

impl Settled {
    /// Reads the settled versions from the metadata of a table; none if the metadata does not have them, as that
    /// of earlier builds.
    pub(super) fn of(metadata: &TableMetadata) -> Self {
        let versions = metadata.properties.get(PROPERTY);
        let versions = versions.and_then(|versions| versions.split_once('-'));
        let versions = versions.and_then(|(after, until)| {
            Some(Self {
                after: after.parse().ok()?,
                until: until.parse().ok()?,
            })
        });
        versions.unwrap_or_default()
    }

    pub(super) fn contains(self, version: u64) -> bool {
        self.after < version && version <= self.until
    }

    /// Returns the settled versions after a commit that removes the publications `expired`. `swept` is the version
    /// of the table at which the publisher has swept it; `None` if it has not.
    pub(super) fn next(self, swept: Option<u64>, expired: &Expired) -> Self {
        let before = swept.map_or(self, |until| Self { after: 0, until });
        let expired = newest_version(expired.snapshots.iter().map(|of| &of.manifest_list[..]));
        Self {
            after: before.after.max(expired),
            ..before
        }
    }

    /// Returns the name and the value of the table's property with these versions.
    pub(super) fn property(self) -> (String, String) {
        (
            PROPERTY.to_owned(),
            format!("{}-{}", self.after, self.until),
        )
    }
}

/// Returns the greatest version for which one of the objects `names` was made; 0 if there is none.
pub(super) fn newest_version<'n>(names: impl Iterator<Item = &'n str>) -> u64 {
    names.filter_map(made_for).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iceberg::metadata::Snapshot;

    fn expired(versions: &[u64]) -> Expired {
        let snapshot = |version: &u64| Snapshot {
            snapshot_id: 1,
            parent_snapshot_id: None,
            sequence_number: 1,
            timestamp_ms: 1,
            manifest_list: format!("file:///t/metadata/ebb-{version}-7-list.avro"),
            summary: [].into(),
            schema_id: 0,
        };
        Expired {
            snapshots: versions.iter().map(snapshot).collect(),
            tags: Vec::new(),
        }
    }

    #[test]
    fn a_sweep_settles_all_versions_and_a_removed_snapshot_unsettles_those_up_to_its_own() {
        let settled = Settled {
            after: 3,
            until: 90,
        };
        let cases: [(Option<u64>, &[u64], u64, u64); 5] = [
            (None, &[], 3, 90),
            (Some(97), &[], 0, 97),
            (Some(97), &[38, 40], 40, 97),
            (None, &[2], 3, 90),
            (None, &[5], 5, 90),
        ];
        for (swept, removed, after, until) in cases {
            let next = settled.next(swept, &expired(removed));
            assert_eq!(next, Settled { after, until });
        }
        let is_settled = |version: u64| settled.contains(version);
        assert_eq!([3, 4, 90, 91].map(is_settled), [false, true, true, false]);
    }

    #[test]
    fn a_property_that_is_absent_or_damaged_settles_nothing() {
        let mut metadata = TableMetadata::new("u".to_owned(), "file:///t".to_owned());
        assert_eq!(Settled::of(&metadata), Settled::default());
        let settled = Settled {
            after: 3,
            until: 90,
        };
        metadata.properties.extend([settled.property()]);
        assert_eq!(metadata.properties["ebb.settled-versions"], "3-90");
        assert_eq!(Settled::of(&metadata), settled);
        for damaged in ["", "90", "3-", "-90", "3-x"] {
            metadata
                .properties
                .insert(PROPERTY.to_owned(), damaged.to_owned());
            assert_eq!(Settled::of(&metadata), Settled::default(), "{damaged}");
        }
    }
}
