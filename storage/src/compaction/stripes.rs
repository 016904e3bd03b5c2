//! The truth of a snapshot: of each key, one version for each stripe.
//!
//! Boundaries (bookmarks and live views) cut the sequence numbers into stripes;
//! every reader stands at a boundary, or above all of them:
//!
//! ```text
//!   seq        1  2  3 | 4  5 | 6  7  8
//!   boundary         3      5
//!   versions   1     3        6     8      of one key
//!   kept             3              8      the newest of each stripe
//! ```

use crate::key::{Kind, SeqNo};
use crate::sstable::Version;

/// The stripe of a number: how many boundaries lie below it.
pub(crate) fn stripe(boundaries: &[SeqNo], seq: SeqNo) -> usize {
    boundaries.partition_point(|&boundary| boundary < seq)
}

/// Keeps of one key's versions (newest first) those that a reader at some
/// boundary, or above all, can see. `boundaries` ascend. `bottom` says that no
/// older version of the key is anywhere else: then tombstones at the end hide
/// nothing and go too.
pub(crate) fn retain_versions(versions: &mut Vec<Version>, boundaries: &[SeqNo], bottom: bool) {
    let mut newer = None;
    versions.retain(|version| {
        let stripe = stripe(boundaries, version.seq);
        newer.replace(stripe) != Some(stripe)
    });
    while bottom
        && versions
            .last()
            .is_some_and(|version| version.kind == Kind::Delete)
    {
        versions.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "8 6d 3" are versions 8, 6 (a tombstone) and 3.
    fn versions(text: &str) -> Vec<Version> {
        text.split_whitespace()
            .map(|word| {
                let digits = word.trim_end_matches('d');
                let kind = if digits.len() < word.len() {
                    Kind::Delete
                } else {
                    Kind::Put
                };
                Version {
                    seq: SeqNo(digits.parse().unwrap()),
                    kind,
                    value: Default::default(),
                }
            })
            .collect()
    }

    #[test]
    fn the_newest_version_of_each_stripe_stays() {
        for (before, boundaries, bottom, after) in [
            ("8 6 3 1", &[][..], false, "8"),
            ("8 6 3 1", &[3, 5], false, "8 3"),
            ("8 6 3 1", &[6], false, "8 6"),
            ("8 6 3 1", &[1, 3, 6, 8], false, "8 6 3 1"),
            ("8 6 3 1", &[2, 4], false, "8 3 1"),
            ("8d 3", &[], false, "8d"),
            ("8d 3", &[], true, ""),
            ("8d 3", &[5], true, "8d 3"),
            ("8 3d", &[5], true, "8"),
            ("8 3d", &[5], false, "8 3d"),
            ("8d 5d 3d", &[3, 5], true, ""),
            ("", &[3], true, ""),
        ] {
            let boundaries: Vec<_> = boundaries.iter().map(|&b| SeqNo(b)).collect();
            let mut kept = versions(before);
            retain_versions(&mut kept, &boundaries, bottom);
            let expected: Vec<_> = versions(after).iter().map(|v| (v.seq, v.kind)).collect();
            let kept: Vec<_> = kept.iter().map(|v| (v.seq, v.kind)).collect();
            assert_eq!(
                kept, expected,
                "{before} cut at {boundaries:?}, bottom {bottom}"
            );
        }
    }
}
