//! Files that were replaced, found beside what replaced them.
//!
//! ```text
//!   file 7   put a @1                         origin 1 to 1
//!   file 8   merge b @2                       origin 2 to 2
//!   file 9   merge c @3                       origin 3 to 3
//!   file 12  put abc @3   made of the three   origin 1 to 3
//! ```
//!
//! A file has an origin: a range of keys and of sequence numbers. It holds all versions in these
//! ranges that are still needed. Versions in these ranges that an older file or the log has are in
//! the file already, or were dropped: folded in once more, they would make a wrong value. The older
//! file is used only for keys that are lost from the newer one.

use crate::key::{KeyRange, SeqNo};

/// The first and the last key of a range; `None` for no bound on this side.
type LostKeys = (Option<Vec<u8>>, Option<Vec<u8>>);

/// The known contents of one source (a file or the log) of a table's versions.
#[derive(Debug, Clone, Default)]
pub(super) struct Extent {
    /// The range of sequence numbers of which the source has all versions that are still needed, so
    /// that it replaces the versions with these numbers in older sources; `None` if the source
    /// replaces none.
    pub(super) origin: Option<(SeqNo, SeqNo)>,
    /// The smallest and the largest sequence number of the source's versions.
    pub(super) seqs: (SeqNo, SeqNo),
    /// The range of keys for which `origin` is valid; `None` if it is not known.
    pub(super) keys: Option<KeyRange>,
    /// The ranges of keys that the source may have lost.
    pub(super) lost: Vec<LostKeys>,
}

impl Extent {
    /// Returns whether versions in the source `older` may already be in this source, or have been
    /// dropped when this source was written.
    fn touches(&self, older: &Self) -> bool {
        self.origin
            .is_some_and(|origin| origin.0 <= older.seqs.1 && older.seqs.0 <= origin.1)
    }

    /// Returns whether a version of a key in an older source, with the number `seq`, must not be
    /// used, because this source contains it, or it was dropped when this source was written.
    /// `has_key` is true if this source has versions of the key.
    fn replaces(&self, key: &[u8], seq: SeqNo, has_key: bool) -> bool {
        let stands_for = |origin: (SeqNo, SeqNo)| origin.0 <= seq && seq <= origin.1;
        self.origin.is_some_and(stands_for) && (has_key || self.dropped(key))
    }

    /// Returns whether the key is in the key range of this source, and in none of its lost parts.
    /// If so, and if the source has no version of the key, a flush or a merge has dropped it: it
    /// was not lost.
    fn dropped(&self, key: &[u8]) -> bool {
        let within = |keys: &KeyRange| keys.contains(key);
        let lost = |(from, to): &LostKeys| {
            from.as_deref().is_none_or(|from| from <= key)
                && to.as_deref().is_none_or(|to| key <= to)
        };
        self.keys.as_ref().is_some_and(within) && !self.lost.iter().any(lost)
    }
}

/// The sources of a table's versions: the files, newest first, and then the log, if it has versions
/// of the table. A version must not be used if a source before its own contains it, or if it was
/// dropped when that source was written.
#[derive(Debug)]
pub(super) struct Replaced {
    extents: Vec<Extent>,
    /// For each source, the positions of the sources before it that may replace its versions.
    newer: Vec<Vec<usize>>,
}

impl Replaced {
    pub(super) fn new(extents: Vec<Extent>) -> Self {
        let newer = |at: usize| {
            let newer = (0..at).filter(|&newer| extents[newer].touches(&extents[at]));
            newer.collect()
        };
        Self {
            newer: (0..extents.len()).map(newer).collect(),
            extents,
        }
    }

    /// Returns whether the version of `key` with the number `seq` in the source at the position
    /// `source` may be used: no source before it replaces the version. `with_key` are the positions
    /// of the sources that have versions of the key.
    pub(super) fn counts(&self, key: &[u8], seq: SeqNo, source: usize, with_key: &[usize]) -> bool {
        let mut newer = self.newer[source].iter();
        !newer.any(|at| self.extents[*at].replaces(key, seq, with_key.contains(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(origin: (u64, u64), seqs: (u64, u64), keys: (&str, &str)) -> Extent {
        Extent {
            origin: Some((SeqNo(origin.0), SeqNo(origin.1))),
            seqs: (SeqNo(seqs.0), SeqNo(seqs.1)),
            keys: Some(KeyRange::spanning(keys.0.as_bytes(), keys.1.as_bytes())),
            lost: Vec::new(),
        }
    }

    #[test]
    fn versions_that_a_newer_file_replaces_do_not_count_unless_it_lost_them() {
        let mut merged = extent((3, 9), (8, 9), ("d", "p"));
        let key = |key: &str| Some(key.as_bytes().to_vec());
        merged.lost = vec![(key("k"), key("m"))];
        let older = extent((3, 7), (3, 7), ("a", "z"));
        let other = extent((10, 12), (10, 12), ("a", "z"));
        let replaced = Replaced::new(vec![other, merged, older]);
        let counts = |key: &str, seq, source, with_key: &[usize]| {
            replaced.counts(key.as_bytes(), SeqNo(seq), source, with_key)
        };
        assert!(!counts("e", 7, 2, &[1, 2]), "folded");
        assert!(!counts("e", 7, 2, &[2]), "dropped");
        assert!(counts("l", 7, 2, &[2]), "lost");
        assert!(!counts("l", 7, 2, &[1, 2]), "some of it is left");
        assert!(counts("c", 7, 2, &[2]) && counts("q", 7, 2, &[2]), "beside");
        assert!(counts("e", 2, 2, &[1, 2]), "older than all of it");
        assert!(counts("e", 8, 1, &[1, 2]), "itself");
        assert!(counts("e", 10, 0, &[0, 1, 2]));
    }

    #[test]
    fn without_an_origin_nothing_is_replaced() {
        let unknown = Extent {
            origin: None,
            ..extent((0, 9), (1, 9), ("a", "z"))
        };
        let replaced = Replaced::new(vec![unknown, extent((1, 2), (1, 2), ("a", "z"))]);
        assert!(replaced.counts(b"k", SeqNo(2), 1, &[0, 1]));
    }
}
