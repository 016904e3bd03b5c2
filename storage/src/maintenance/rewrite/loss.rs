//! Decides which keys are lost of a damaged file: compares what a reading found with what the manifest
//! records of the file. No I/O.

use bytes::Bytes;

use crate::key::{KeyBounds, KeyRange};
use crate::mutation::{self, Mutation};
use crate::runs::FileMeta;
use crate::sstable::LostBlock;

/// The result of reading what is left of a damaged file.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    /// The parts that cannot be read.
    pub(super) lost: &'a [LostBlock],
    /// The number of versions and range tombstones that can be read.
    pub(super) entries: u64,
    pub(super) has_tombstones: bool,
}

/// Returns the parts of a file that cannot be read, each with the range of the keys that readers may
/// still need from the part, as versions or in range tombstones. Leaves out parts without such keys.
/// `counting` is the range of the keys that readers may still need from the file's run; `None` if they
/// may need all keys of the file.
///
/// The result is empty if the number of entries that can be read is that of all entries of the
/// file. Then at most a filter or an index is lost, and the entries can be read without it.
pub(super) fn lost_parts(
    file: &FileMeta,
    counting: Option<&KeyRange>,
    reading: &Reading<'_>,
) -> Vec<LostBlock> {
    if reading.entries >= file.entries {
        return Vec::new();
    }
    let within = |keys: &KeyRange| match counting {
        Some(counting) => keys.intersection(counting),
        None => keys.clone(),
    };
    let keys_of = |bounds: &Option<KeyBounds>| bounds.as_ref().map(|keys| within(keys.range()));
    let mut parts = Vec::new();
    if let Some(keys) = keys_of(&file.keys) {
        let of_versions = reading.lost.iter().filter(|part| !part.is_of_tombstones);
        parts.extend(of_versions.filter_map(|part| narrowed(part.clone(), &keys)));
    }
    if let Some(keys) = keys_of(&file.range_tombstones)
        && !reading.has_tombstones
        && !mutation::is(Mutation::OverlookLostTombstones)
    {
        parts.extend(narrowed(tombstone_part(reading.lost), &keys));
    } else if reading.lost.is_empty() {
        let all = file.ranges().map(within).reduce(|a, b| a.hull(&b));
        let part = LostBlock {
            bytes: file.bytes,
            detail: format!("it has {} of {} entries", reading.entries, file.entries),
            ..LostBlock::default()
        };
        parts.extend(all.and_then(|keys| narrowed(part, &keys)));
    }
    parts
}

/// Returns the lost part of a file that had the range tombstones, to report their loss. If it is
/// not known which part had them, returns the first lost part.
fn tombstone_part(lost: &[LostBlock]) -> LostBlock {
    if let Some(part) = lost.iter().find(|part| part.is_of_tombstones) {
        return part.clone();
    }
    let part = lost.first().cloned().unwrap_or_default();
    LostBlock {
        offset: part.offset,
        bytes: part.bytes,
        is_of_tombstones: true,
        detail: format!(
            "{}; deletions of key ranges are lost, what they hid may show",
            part.detail
        ),
        ..LostBlock::default()
    }
}

/// Narrows a lost part of a file to the keys in a range; `None` if no key of the part is in the
/// range.
fn narrowed(part: LostBlock, keys: &KeyRange) -> Option<LostBlock> {
    let keys = part.keys().intersection(keys);
    (!keys.is_empty()).then(|| LostBlock {
        from_key: (!keys.start.is_empty()).then(|| keys.start.to_vec()),
        to_key: keys.end.as_ref().map(upper_bound),
        ..part
    })
}

/// Returns a key that no key before `end` exceeds. If `end` ends with a zero byte, this is `end`
/// without this byte, the largest key before `end`. Otherwise there is no largest key, and this is
/// `end`.
fn upper_bound(end: &Bytes) -> Vec<u8> {
    end.strip_suffix(&[0]).unwrap_or(&end[..]).to_vec()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn range(start: &'static str, end: &'static str) -> KeyRange {
        KeyRange {
            start: Bytes::from_static(start.as_bytes()),
            end: Some(Bytes::from_static(end.as_bytes())),
        }
    }

    fn part(from: Option<&str>, to: Option<&str>) -> LostBlock {
        let key = |key: &str| key.as_bytes().to_vec();
        LostBlock {
            from_key: from.map(key),
            to_key: to.map(key),
            detail: "damaged".into(),
            ..LostBlock::default()
        }
    }

    /// The smallest and the largest key of a lost part (`None`: no bound), and whether the part had
    /// range tombstones.
    type Keys = (Option<String>, Option<String>, bool);

    /// Returns the lost parts of a file with ten entries, keys from "c" to "p", and range
    /// tombstones from "a" to "z". `entries` is the number of entries that can be read, and
    /// `has_tombstones` is true if the range tombstones can be. Only keys in `counting` are still
    /// needed; `None` for all keys.
    fn keys(
        lost: &[LostBlock],
        entries: u64,
        has_tombstones: bool,
        counting: Option<&KeyRange>,
    ) -> Vec<Keys> {
        let file = FileMeta {
            entries: 10,
            keys: Some(KeyBounds::of(&range("c", "p\0"))),
            range_tombstones: Some(KeyBounds::of(&range("a", "z"))),
            ..FileMeta::of_nothing(1)
        };
        let reading = Reading {
            lost,
            entries,
            has_tombstones,
        };
        let text = |key: Option<Vec<u8>>| key.map(|key| String::from_utf8(key).unwrap());
        let parts = lost_parts(&file, counting, &reading).into_iter();
        let keys = parts.map(|part| {
            let (from, to) = (text(part.from_key), text(part.to_key));
            (from, to, part.is_of_tombstones)
        });
        keys.collect()
    }

    fn lost(from: &str, to: &str, is_of_tombstones: bool) -> Keys {
        (Some(from.into()), Some(to.into()), is_of_tombstones)
    }

    #[test]
    fn a_lost_part_has_keys_of_its_file_only() {
        let (open, inner) = (part(None, None), part(Some("f"), Some("h")));
        let outer = part(Some("q"), None);
        assert_eq!(keys(&[open], 5, true, None), [lost("c", "p", false)]);
        assert_eq!(
            keys(&[inner, outer], 5, true, None),
            [lost("f", "h", false)]
        );
    }

    #[test]
    fn a_part_that_does_not_count_any_more_is_no_loss() {
        let parts = [part(None, Some("f")), part(Some("k"), Some("m"))];
        let counting = range("g", "l");
        assert_eq!(
            keys(&parts, 5, true, Some(&counting)),
            [lost("k", "l", false)]
        );
    }

    #[test]
    fn nothing_is_lost_if_every_entry_was_read() {
        assert!(keys(&[part(None, None)], 10, true, None).is_empty());
        assert!(keys(&[], 10, true, None).is_empty());
    }

    #[test]
    fn lost_range_tombstones_have_all_of_their_keys() {
        let tombstones = LostBlock {
            is_of_tombstones: true,
            ..part(None, None)
        };
        assert_eq!(keys(&[tombstones], 8, false, None), [lost("a", "z", true)]);
        // Nothing of the file can be read.
        let both = [lost("c", "p", false), lost("a", "z", true)];
        assert_eq!(keys(&[part(None, None)], 0, false, None), both);
    }

    #[test]
    fn entries_that_no_part_explains_may_have_had_any_key() {
        assert_eq!(keys(&[], 9, true, None), [lost("a", "z", false)]);
    }
}
