//! The choice of the metadata files that a sweep removes from a table without a catalog.
//!
//! Each commit leaves one more file `vN.metadata.json`, and each names all snapshots, so together they would grow with
//! the square of the number of publications. The properties of the table that decide have the names of Iceberg's own
//! library, but there the removal is off by default. A catalog decides by itself.

use std::collections::BTreeMap;

use crate::iceberg::metadata::TableMetadata;

/// The property of a table that turns the removal off, with the value `false`.
const IS_ENABLED: &str = "write.metadata.delete-after-commit.enabled";
/// The property of a table that holds the number of earlier metadata files to keep.
const PREVIOUS_MAX: &str = "write.metadata.previous-versions-max";

/// The number of earlier metadata files that are kept if the table has no property about it, as in Iceberg's own
/// library.
const PREVIOUS_MAX_DEFAULT: usize = 100;

/// The time for which a replaced metadata file stays, in microseconds: a day. Readers of the file may open it by its
/// name again.
const SPARED_US: i64 = 24 * 3_600 * 1_000_000;

/// Returns the versions, ascending, of the metadata files that are to be removed. `metadata` is the newest metadata of
/// the table. The keys of `written_us` are the versions of all metadata files, with the times at which they were
/// written, in microseconds since 1970 by the clock of the store.
pub(super) fn old_versions(metadata: &TableMetadata, written_us: &BTreeMap<u64, i64>) -> Vec<u64> {
    let property = |name: &str| metadata.properties.get(name).map(String::as_str);
    let previous_max = property(PREVIOUS_MAX).and_then(|max| max.parse().ok());
    let previous_max = previous_max.unwrap_or(PREVIOUS_MAX_DEFAULT).max(1);
    let Some((_, newest_us)) = written_us.last_key_value() else {
        return Vec::new();
    };
    if property(IS_ENABLED) == Some("false") {
        return Vec::new();
    }
    let successors = written_us.values().skip(1);
    let old = written_us.keys().zip(successors);
    // The newest one has no successor.
    let old = old.take(written_us.len().saturating_sub(1 + previous_max));
    let is_spared = |replaced_us: i64| newest_us.saturating_sub(replaced_us) < SPARED_US;
    old.take_while(|&(_, replaced_us)| !is_spared(*replaced_us))
        .map(|(version, _)| *version)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_US: i64 = 3_600 * 1_000_000;

    /// Returns the versions to be removed of a table whose versions from `first` to 150 were written one each hour.
    fn old(first: u64, properties: &[(&str, &str)]) -> Vec<u64> {
        let mut metadata = TableMetadata::new("u".to_owned(), "file:///t".to_owned());
        let properties = properties.iter();
        let properties = properties.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        metadata.properties.extend(properties);
        let written = (first..=150).map(|version| (version, HOUR_US * version as i64));
        old_versions(&metadata, &written.collect())
    }

    #[test]
    fn the_newest_hundred_are_kept_or_the_number_in_a_property() {
        let versions = |range: std::ops::Range<u64>| range.collect::<Vec<_>>();
        assert_eq!(old(1, &[]), versions(1..50));
        assert_eq!(old(30, &[]), versions(30..50));
        assert!(old(50, &[]).is_empty());
        assert_eq!(old(1, &[(PREVIOUS_MAX, "120")]), versions(1..30));
        assert_eq!(old(1, &[(PREVIOUS_MAX, "many")]), versions(1..50));
        assert_eq!(old(1, &[(IS_ENABLED, "true")]), versions(1..50));
        assert!(old(1, &[(IS_ENABLED, "false")]).is_empty());
    }

    #[test]
    fn a_file_stays_for_a_day_after_its_successor_was_written() {
        // Version 126 was replaced 23 hours before the newest one was written.
        for few in ["0", "1", "5"] {
            let removed = old(100, &[(PREVIOUS_MAX, few)]);
            assert_eq!(removed, (100..126).collect::<Vec<_>>(), "{few}");
        }
    }

    #[test]
    fn a_table_without_earlier_versions_keeps_its_metadata() {
        assert!(old(150, &[]).is_empty());
        assert!(old(151, &[]).is_empty());
    }
}
