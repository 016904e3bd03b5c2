//! A table as a picker sees it: plain numbers and ranges of keys, no I/O.

use std::sync::Arc;

use crate::key::{KeyRange, RunId, SeqNo, is_before};
use crate::runs::FileShape;
use crate::sstable::KeySketch;

/// A table, as far as a picker needs it.
#[derive(Debug, Clone, Copy)]
pub struct TableShape<'a> {
    /// Its keyspace.
    pub keyspace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Newest first.
    pub runs: &'a [RunShape],
    /// The commits at which snapshots of the table stand, ascending, each once.
    pub bookmarks: &'a [SeqNo],
    /// Whether nobody has written to the database for a while, and hardly anybody
    /// read, so that a merge is in nobody's way and what it makes lasts.
    pub is_idle: bool,
}

/// A run, as far as a picker needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunShape {
    /// Unlike that of any other run that the database ever had.
    pub id: RunId,
    /// Bytes of its files.
    pub bytes: u64,
    /// Versions and range tombstones in them.
    pub entries: u64,
    /// Different keys in them.
    pub keys: u64,
    /// Of the versions, those that are tombstones.
    pub tombstones: u64,
    /// The keys whose older versions, in older runs, it hides. `None` when it may
    /// hide more than those, or its own versions may go by themselves: it has range
    /// tombstones, or values that expire.
    pub overwrites: Option<Arc<KeySketch>>,
    /// About how many of the bytes were kept for snapshots and views that are gone:
    /// rewriting the run gives them back.
    pub garbage_bytes: u64,
    /// The smallest commit that it may hold.
    pub smallest_seq: SeqNo,
    /// The largest.
    pub largest_seq: SeqNo,
    /// Whether it must be left alone: it is being merged, or a file of it is damaged.
    pub is_busy: bool,
    /// Its files that hold versions, ascending by key; no key is in two of them.
    pub files: Arc<[FileShape]>,
    /// The keys over which range tombstones lie in it, from the first to the last.
    pub range_tombstones: Option<KeyRange>,
}

impl RunShape {
    /// Whether a version or a range tombstone may be in it for one of these keys.
    pub fn overlaps(&self, keys: &KeyRange) -> bool {
        let first = self
            .files
            .partition_point(|file| !is_before(&keys.start, file.keys.end.as_ref()));
        let file = self.files.get(first).map(|file| &file.keys);
        let mut pieces = file.into_iter().chain(&self.range_tombstones);
        !keys.is_empty() && pieces.any(|piece| piece.overlaps(keys))
    }

    /// Bytes of the files that may hold one of these keys.
    pub fn bytes_in(&self, keys: &KeyRange) -> u64 {
        let files = self.files.iter().filter(|file| file.keys.overlaps(keys));
        files.map(|file| file.bytes).sum()
    }

    /// The keys of its versions and range tombstones, from the first to the last.
    pub fn bounds(&self) -> Option<KeyRange> {
        let files = self.files.first().zip(self.files.last());
        let files = files.map(|(first, last)| first.keys.hull(&last.keys));
        match (files, self.range_tombstones.clone()) {
            (Some(a), Some(b)) => Some(a.hull(&b)),
            (a, b) => a.or(b),
        }
    }

    /// The ranges within `keys` that it has something in, in no order.
    pub(super) fn pieces(&self, keys: &KeyRange) -> impl Iterator<Item = KeyRange> {
        let files = self.files.iter().map(|file| &file.keys);
        let all = files.chain(&self.range_tombstones);
        all.map(|piece| piece.intersection(keys))
            .filter(|piece| !piece.is_empty())
    }
}
