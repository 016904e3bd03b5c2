//! A run: SSTables with disjoint key ranges that together are one sorted
//! sequence, one entry of the run list; and the range tombstones over them.

use std::sync::{Arc, OnceLock};

use super::{FileShape, RunCursor, RunFile, RunMeta};
use crate::error::Result;
use crate::key::{KeyRange, RangeTombstones, RunId, SeqNo, Version, is_before};
use crate::mutation::{self, Mutation};
use crate::sstable::{KeySketch, Properties, ReadCounters};

/// A run with its files open.
#[derive(Debug)]
pub(crate) struct Run {
    meta: RunMeta,
    files: Vec<Arc<RunFile>>,
    /// Those of the files that hold versions.
    sorted: Vec<Arc<RunFile>>,
    range_tombstones: Option<Arc<RangeTombstones>>,
    overwrites: Option<Arc<KeySketch>>,
    greatest_timestamp: i64,
    /// Made for the first who asks.
    shape: OnceLock<Arc<[FileShape]>>,
}

impl Run {
    /// A run of these files, ascending by key, at least one.
    pub(crate) fn new(meta: RunMeta, files: Vec<Arc<RunFile>>) -> Arc<Self> {
        debug_assert_eq!(meta.files.len(), files.len());
        let holds_versions = |file: &&Arc<RunFile>| file.table().properties().entries > 0;
        let sorted = files.iter().filter(holds_versions).cloned().collect();
        // They belong to the run as a whole: one of its files has them all.
        let mut tombstones = files.iter().filter_map(|f| f.table().range_tombstones());
        Arc::new(Self {
            range_tombstones: tombstones.next().cloned(),
            overwrites: overwrites(&files).map(Arc::new),
            greatest_timestamp: greatest_timestamp(&files),
            shape: OnceLock::new(),
            meta,
            files,
            sorted,
        })
    }

    pub(crate) fn id(&self) -> RunId {
        self.meta.id
    }

    pub(crate) fn meta(&self) -> &RunMeta {
        &self.meta
    }

    pub(crate) fn files(&self) -> &[Arc<RunFile>] {
        &self.files
    }

    /// Those of the files that hold versions, ascending by key.
    #[inline]
    pub(super) fn sorted(&self) -> &[Arc<RunFile>] {
        &self.sorted
    }

    /// The sequence numbers that it stands for: its span, and what flushes and
    /// merges left out at the ends of it.
    pub(crate) fn origin_span(&self) -> (SeqNo, SeqNo) {
        let span = (self.meta.smallest_seq, self.meta.largest_seq);
        let origins = self.files.iter().filter_map(|file| {
            let origin = file.table().properties().origin.as_ref()?;
            Some((origin.smallest_seq, origin.largest_seq))
        });
        origins.fold(span, |a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Whether a reader at `seq` can see anything in it.
    pub(crate) fn is_seen_at(&self, seq: SeqNo) -> bool {
        let blind = mutation::is(Mutation::SkipRunAtItsFirstNumber);
        self.meta.smallest_seq < seq || self.meta.smallest_seq == seq && !blind
    }

    /// Lets the files go once the last reader is done; the manifest no longer
    /// names them.
    pub(crate) fn retire(&self) {
        self.files.iter().for_each(|file| file.retire());
    }

    /// Gives `take` the versions of `key` numbered `<= seq`, as [`SsTable::versions`] does.
    ///
    /// [`SsTable::versions`]: crate::sstable::SsTable::versions
    pub(crate) fn versions(
        &self,
        key: &[u8],
        hash: u64,
        seq: SeqNo,
        reads: &mut ReadCounters,
        mut take: impl FnMut(Version) -> bool,
    ) -> Result<bool> {
        let ingested_at = self.meta.ingested_at;
        if ingested_at.is_some_and(|at| at > seq) {
            return Ok(false);
        }
        // A key's versions may go on in the next file, so a miss goes on too.
        for file in &self.sorted[self.first_file_reaching(key)..] {
            if file.smallest_key() > key {
                break;
            }
            let is_done = (file.table()).versions(key, hash, seq, reads, |mut version| {
                version.seq = ingested_at.unwrap_or(version.seq);
                take(version)
            })?;
            if is_done {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The keys whose older versions it hides; `None` when there may be more that
    /// it hides, or its own versions go by themselves: range tombstones, values
    /// that expire.
    pub(crate) fn overwrites(&self) -> Option<&Arc<KeySketch>> {
        self.overwrites.as_ref()
    }

    /// The files that hold versions, ascending by key.
    pub(crate) fn shape(&self) -> &Arc<[FileShape]> {
        let shape = |file: &Arc<RunFile>| FileShape {
            keys: KeyRange::spanning(file.smallest_key(), file.largest_key()),
            bytes: file.table().file_bytes(),
        };
        let all = || self.sorted.iter().map(shape).collect();
        self.shape.get_or_init(all)
    }

    /// Whether it has values that expire.
    pub(crate) fn expires(&self) -> bool {
        self.sum(|properties| properties.expiring) > 0
    }

    /// Whether its values have timestamps by which they may become garbage.
    pub(crate) fn has_timestamps(&self) -> bool {
        let mut tables = self.sorted.iter().map(|file| file.table().properties());
        tables.any(|properties| properties.timestamps.is_some())
    }

    /// Number of different user keys in it, as far as its files say.
    pub(crate) fn keys(&self) -> u64 {
        self.sum(|properties| properties.keys)
    }

    /// Number of versions in it that are tombstones.
    pub(crate) fn tombstones(&self) -> u64 {
        self.sum(|properties| properties.tombstones)
    }

    fn sum(&self, of: impl Fn(&Properties) -> u64) -> u64 {
        let each = self.files.iter().map(|file| of(file.table().properties()));
        each.fold(0, u64::saturating_add)
    }

    /// No value of these keys has a timestamp below it: those from `start` on, for as
    /// long as `has` says that there may be one behind the first key of a file.
    /// [`i64::MAX`] without any, [`i64::MIN`] when nothing is known.
    pub(crate) fn least_timestamp(&self, start: &[u8], has: impl Fn(&[u8]) -> bool) -> i64 {
        let files = self.sorted[self.first_file_reaching(start)..].iter();
        let files = files.take_while(|file| has(file.smallest_key()));
        let unknown = mutation::replace(i64::MIN, Mutation::TrustUnknownTimestamps, i64::MAX);
        let least = |file: &Arc<RunFile>| {
            let bounds = file.table().properties().timestamps;
            bounds.map_or(unknown, |bounds| bounds.least)
        };
        files.map(least).min().unwrap_or(i64::MAX)
    }

    /// No value has a timestamp above it; [`i64::MIN`] without any, [`i64::MAX`] when nothing
    /// is known.
    pub(crate) fn greatest_timestamp(&self) -> i64 {
        self.greatest_timestamp
    }

    /// Its range tombstones, if it has any.
    pub(crate) fn range_tombstones(&self) -> Option<&Arc<RangeTombstones>> {
        self.range_tombstones.as_ref()
    }

    /// Whether it holds versions, not range tombstones only.
    pub(crate) fn holds_versions(&self) -> bool {
        !self.sorted.is_empty()
    }

    /// Whether a version of `key`, or a range tombstone over it, may be in it.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.sorted
            .get(self.first_file_reaching(key))
            .is_some_and(|file| file.smallest_key() <= key)
            || self
                .range_tombstones
                .as_ref()
                .is_some_and(|tombstones| !tombstones.over(key).is_empty())
    }

    /// Whether a version or a range tombstone may be in it for a key of `range`.
    pub(crate) fn overlaps(&self, range: &KeyRange) -> bool {
        self.sorted
            .get(self.first_file_reaching(&range.start))
            .is_some_and(|file| is_before(file.smallest_key(), range.end.as_ref()))
            || self
                .range_tombstones
                .as_ref()
                .is_some_and(|tombstones| tombstones.overlaps(range))
    }

    /// The keys of its versions and range tombstones, from the first to the last.
    pub(crate) fn bounds(&self) -> KeyRange {
        let versions = self.sorted.first().zip(self.sorted.last());
        let versions = versions
            .map(|(first, last)| KeyRange::spanning(first.smallest_key(), last.largest_key()));
        let tombstones = self.range_tombstones.as_ref().and_then(|t| t.bounds());
        match (versions, tombstones) {
            (Some(a), Some(b)) => mutation::replace(a.hull(&b), Mutation::NarrowBounds, a),
            (a, b) => a.or(b).expect("a run holds something"),
        }
    }

    /// The first file that does not end before `key`.
    #[inline]
    pub(super) fn first_file_reaching(&self, key: &[u8]) -> usize {
        self.sorted.partition_point(|file| file.largest_key() < key)
    }

    pub(crate) fn cursor(self: &Arc<Self>, fill_cache: bool) -> RunCursor {
        RunCursor::new(self.clone(), fill_cache)
    }
}

/// See [`Run::greatest_timestamp`].
fn greatest_timestamp(files: &[Arc<RunFile>]) -> i64 {
    let unknown = mutation::replace(i64::MAX, Mutation::StopAboveUnknownTimestamps, i64::MIN);
    let tables = files.iter().map(|file| file.table().properties());
    let greatest =
        |table: &Properties| (table.timestamps).map_or(unknown, |bounds| bounds.greatest);
    let each = tables.filter(|table| table.entries > 0).map(greatest);
    each.max().unwrap_or(i64::MIN)
}

/// See [`Run::overwrites`].
fn overwrites(files: &[Arc<RunFile>]) -> Option<KeySketch> {
    let mut all = KeySketch::default();
    for file in files {
        let properties = file.table().properties();
        if properties.expiring > 0 || file.table().range_tombstones().is_some() {
            return None;
        }
        all.union(&properties.key_sketch);
    }
    Some(all)
}
