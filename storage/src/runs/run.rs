//! A run: SSTables with disjoint key ranges that together are one sorted
//! sequence, one entry of the run list; and the range tombstones over them.

use std::sync::Arc;

use bytes::Bytes;

use super::{FileMeta, Gap, Quarantine, RunCursor, RunFile, RunMeta, Sought};
use crate::error::{Error, Result};
use crate::key::{
    FileNumber, KeyBounds, KeyRange, RangeTombstones, RunId, SeqNo, Version, is_before,
};
use crate::mutation::{self, Mutation};
use crate::sstable::{KeySketch, Properties, ReadCounters, SsTable};

/// A run with its files, as far as they could be opened.
#[derive(Debug)]
pub(crate) struct Run {
    meta: RunMeta,
    files: Vec<Arc<RunFile>>,
    /// The files that could be opened and have versions of the run's keys, ascending by key.
    sorted: Vec<Arc<SsTable>>,
    /// The key ranges of the files that could not be opened: keys there may be missing.
    gaps: Vec<Gap>,
    /// The range tombstones over the run's keys.
    range_tombstones: Option<Arc<RangeTombstones>>,
    is_mergeable: bool,
    overwrites: Option<Arc<KeySketch>>,
    greatest_timestamp: i64,
}

impl Run {
    /// Creates a run. `files` are the files of `meta`, in the same order: ascending by key, at
    /// least one.
    pub(crate) fn new(meta: RunMeta, files: Vec<Arc<RunFile>>) -> Arc<Self> {
        debug_assert_eq!(meta.files.len(), files.len());
        let keys = keys_that_count(&meta);
        let open = || files.iter().filter_map(|file| file.table());
        let counts = |table: &&Arc<SsTable>| {
            let has_versions = table.properties().entries > 0;
            has_versions && keys.is_none_or(|keys| keys_of(table).overlaps(keys))
        };
        let sorted: Vec<_> = open().filter(counts).cloned().collect();
        let gaps = meta
            .files
            .iter()
            .zip(&files)
            .filter_map(|(file_meta, file)| {
                let gaps = |error| Gap::of(file_meta, meta.ingested_at, error);
                file.error().map(gaps)
            });
        let gaps = gaps.flatten();
        let gaps: Vec<_> = gaps.filter_map(|gap| gap.within(keys)).collect();
        Arc::new(Self {
            is_mergeable: !meta.is_quarantined()
                && files.iter().all(|file| file.unreadable().is_none()),
            range_tombstones: range_tombstones(open(), keys),
            overwrites: overwrites(open(), &gaps).map(Arc::new),
            greatest_timestamp: greatest_timestamp(&sorted, &gaps),
            meta,
            files,
            sorted,
            gaps,
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

    /// Returns the run's key range, if its files may have keys outside of it, such as keys that a
    /// merge has moved to another run; `None` if all keys of the files are part of the run.
    #[inline]
    pub(crate) fn keys_that_count(&self) -> Option<&KeyRange> {
        keys_that_count(&self.meta)
    }

    /// Returns the open files that have versions in the run's key range, ascending by key. The
    /// first and the last may have versions outside of it too.
    #[inline]
    pub(crate) fn sorted(&self) -> &[Arc<SsTable>] {
        &self.sorted
    }

    fn open(&self) -> impl Iterator<Item = &Arc<SsTable>> {
        self.files.iter().filter_map(|file| file.table())
    }

    /// Returns the gaps: the parts of the run's key range that are in files which could not be
    /// opened.
    #[inline]
    pub(super) fn gaps(&self) -> &[Gap] {
        mutation::replace(&self.gaps, Mutation::PassOverGaps, &[])
    }

    /// Returns this run with the file `damaged` replaced by a whole one; `None` if the run does not
    /// have the file `damaged`. The damaged file is removed once no reader holds it, unless the
    /// whole file has the same number: this is the same file, which can be opened now, or the
    /// restored copy of a missing file.
    pub(crate) fn restored(
        &self,
        damaged: FileNumber,
        whole: &FileMeta,
        file: &Arc<RunFile>,
    ) -> Option<Arc<Self>> {
        let (mut meta, mut files) = (self.meta.clone(), self.files.clone());
        let at = meta.numbers().position(|number| number == damaged)?;
        meta.files[at] = whole.clone();
        let old = std::mem::replace(&mut files[at], file.clone());
        if whole.number != damaged || mutation::is(Mutation::RemoveReopenedFiles) {
            old.retire();
        }
        Some(Self::new(meta, files))
    }

    /// Returns this run with the files of `rest` in place of the file `lost`, which is removed once
    /// no reader holds it. Returns `Some(None)` if no file is left, and `None` if the run does not
    /// have the file `lost`.
    pub(crate) fn without_lost(
        &self,
        lost: FileNumber,
        rest: Option<&Self>,
    ) -> Option<Option<Arc<Self>>> {
        let (mut meta, mut files) = (self.meta.clone(), self.files.clone());
        let at = meta.numbers().position(|number| number == lost)?;
        let metas = rest.map(|rest| rest.meta.files.clone());
        meta.replace_file(lost, metas.unwrap_or_default());
        let by = rest.map(Self::files).unwrap_or_default();
        for old in files.splice(at..=at, by.iter().cloned()) {
            old.retire();
        }
        Some((!files.is_empty()).then(|| Self::new(meta, files)))
    }

    /// Returns whether a file that could not be opened may have keys in a range for which `fits`
    /// returns true.
    fn may_hold(&self, fits: impl Fn(&KeyRange) -> bool) -> bool {
        let none = mutation::is(Mutation::NothingInGaps);
        !none && self.gaps.iter().any(|gap| fits(&gap.range))
    }

    /// Returns this run without the keys before `key`, and the files that the new run does not
    /// contain, because all of their keys are before `key`. The new run is `None` if no file is
    /// left.
    pub(crate) fn beginning_at(&self, key: &Bytes) -> (Option<Arc<Self>>, Vec<Arc<RunFile>>) {
        let mut meta = self.meta.clone();
        let gone = meta.begin_at(key);
        let numbered = self.meta.numbers().zip(self.files.iter().cloned());
        let (gone, left): (Vec<_>, Vec<_>) =
            numbered.partition(|(number, _)| gone.contains(number));
        let files = |numbered: Vec<(_, Arc<RunFile>)>| -> Vec<_> {
            numbered.into_iter().map(|(_, file)| file).collect()
        };
        let run = (!left.is_empty()).then(|| Self::new(meta, files(left)));
        (run, files(gone))
    }

    /// Returns this run with only the files that `counts` accepts; `None` if it accepts none.
    pub(crate) fn of_files(&self, mut counts: impl FnMut(&FileMeta) -> bool) -> Option<Arc<Self>> {
        let all = self.meta.files.iter().zip(&self.files);
        let counting = all.filter(|(meta, _)| counts(meta));
        let (metas, files): (Vec<_>, Vec<_>) = counting
            .map(|(meta, file)| (meta.clone(), file.clone()))
            .unzip();
        let meta = RunMeta {
            files: metas,
            ..self.meta.clone()
        };
        (!files.is_empty()).then(|| Self::new(meta, files))
    }

    /// Joins the outputs of a merge that is installed in parts, one key range after the other:
    /// `onto` of the earlier parts, and `more` of the latest one. `None` stands for parts without
    /// output. `ends_before` is the key at which the next part begins; `None` after the last part.
    /// [`RunMeta::merged`] does the same for the metadata.
    pub(crate) fn merged(
        onto: Option<&Self>,
        more: Option<&Self>,
        ends_before: Option<&Bytes>,
    ) -> Option<Arc<Self>> {
        let meta = |run: Option<&Self>| run.map(|run| run.meta.clone());
        let meta = RunMeta::merged(meta(onto), meta(more), ends_before)?;
        let files = onto.into_iter().chain(more).flat_map(|run| &run.files);
        Some(Self::new(meta, files.cloned().collect()))
    }

    pub(crate) fn open_files(&self) -> impl Iterator<Item = (FileNumber, &Arc<SsTable>)> {
        let files = self.meta.numbers().zip(&self.files);
        files.filter_map(|(number, file)| Some((number, file.table()?)))
    }

    /// Returns whether every file of the run is readable: none is in quarantine, and each could be
    /// read when it was opened.
    pub(crate) fn is_mergeable(&self) -> bool {
        self.is_mergeable
    }

    /// Returns the files that are missing or could not be read when they were opened, with the
    /// errors.
    pub(crate) fn unreadable(&self) -> impl Iterator<Item = (&FileMeta, &Error)> {
        let files = self.meta.files.iter().zip(&self.files);
        files.filter_map(|(file_meta, file)| Some((file_meta, file.unreadable()?)))
    }

    /// Returns this run with the file `number` marked as damaged (in quarantine), which excludes
    /// the run from merges. Reads go on to use the file, as far as it is open. `None` if the run
    /// has no such file.
    pub(crate) fn quarantined(
        &self,
        number: FileNumber,
        quarantine: &Quarantine,
    ) -> Option<Arc<Self>> {
        let mut meta = self.meta.clone();
        let file = meta.files.iter_mut().find(|file| file.number == number)?;
        file.quarantine = Some(quarantine.clone());
        Some(Self::new(meta, self.files.clone()))
    }

    /// Returns the range of sequence numbers for which the run has all versions that are needed, as
    /// its files record it. The range is wider than `smallest_seq` to `largest_seq` of the run if
    /// flushes and merges dropped the first or the last versions.
    pub(crate) fn origin_span(&self) -> (SeqNo, SeqNo) {
        let span = (self.meta.smallest_seq, self.meta.largest_seq);
        let origins = self.open().filter_map(|table| {
            let origin = table.properties().origin.as_ref()?;
            Some((origin.smallest_seq, origin.largest_seq))
        });
        origins.fold(span, |a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Returns whether a reader at `seq` may see a version or range tombstone of the run.
    pub(crate) fn is_seen_at(&self, seq: SeqNo) -> bool {
        let blind = mutation::is(Mutation::SkipRunAtItsFirstNumber);
        self.meta.smallest_seq < seq || self.meta.smallest_seq == seq && !blind
    }

    /// Marks the files as obsolete, so that each is removed once its last reader has ended. Called
    /// when the manifest no longer names the files.
    pub(crate) fn retire(&self) {
        self.files.iter().for_each(|file| file.retire());
    }

    /// Calls `take` with the versions of `key` numbered `<= seq`, newest first, until it returns
    /// true because the reader needs no older ones. Returns whether it did. `hash` is the
    /// [`key_hash`](crate::sstable::key_hash) of `key`. Details are as in [`SsTable::versions`].
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
        let counts = |keys: &KeyRange| keys.contains(key);
        if ingested_at.is_some_and(|at| at > seq) || !self.keys_that_count().is_none_or(counts) {
            return Ok(false);
        }
        if let Some(gap) = self.gaps().iter().find(|gap| gap.hides(key, seq)) {
            return Err(gap.error.clone());
        }
        // A key's versions may go on in the next file, so a miss goes on too.
        for table in &self.sorted[self.first_file_reaching(key)..] {
            if smallest_key(table) > key {
                break;
            }
            let is_done = table.versions(key, hash, seq, reads, |mut version| {
                version.seq = ingested_at.unwrap_or(version.seq);
                take(version)
            })?;
            if is_done {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns a sketch of the keys whose older versions the run hides. `None` if the run may hide
    /// versions of other keys (by range tombstones or in files that do not open), or if its own
    /// versions expire.
    pub(crate) fn overwrites(&self) -> Option<&Arc<KeySketch>> {
        self.overwrites.as_ref()
    }

    /// Returns a sketch of the keys of the run's versions.
    pub(crate) fn key_sketch(&self) -> KeySketch {
        if let Some(keys) = &self.overwrites {
            return KeySketch::clone(keys);
        }
        let mut all = KeySketch::default();
        for table in self.open() {
            all.union(&table.properties().key_sketch);
        }
        all
    }

    /// Returns the bytes of the largest file that holds versions.
    pub(crate) fn largest_file_bytes(&self) -> u64 {
        let bytes = self.sorted.iter().map(|table| table.file_bytes());
        bytes.max().unwrap_or_default()
    }

    /// Returns the part of a key range that lies within the run's own key range.
    pub(crate) fn counting(&self, range: KeyRange) -> KeyRange {
        match self.keys_that_count() {
            Some(keys) => range.intersection(keys),
            None => range,
        }
    }

    pub(crate) fn expires(&self) -> bool {
        self.sum(|properties| properties.expiring) > 0
    }

    /// Returns whether the timestamps in the values of any file of the run are known, so that merges
    /// may find some of the values to be garbage.
    pub(crate) fn has_timestamps(&self) -> bool {
        let mut tables = self.sorted.iter();
        tables.any(|table| table.properties().timestamps.is_some())
    }

    /// Returns the number of different user keys in the open files of the run, including keys
    /// outside of the run's key range.
    pub(crate) fn keys(&self) -> u64 {
        self.sum(|properties| properties.keys)
    }

    pub(crate) fn tombstones(&self) -> u64 {
        self.sum(|properties| properties.tombstones)
    }

    /// Returns the bytes of the keys and values in the open files of the run, before compression,
    /// including those outside of the run's key range.
    pub(crate) fn plain_bytes(&self) -> u64 {
        self.sum(|of| of.raw_key_bytes.saturating_add(of.raw_value_bytes))
    }

    fn sum(&self, of: impl Fn(&Properties) -> u64) -> u64 {
        let each = self.open().map(|table| of(table.properties()));
        each.fold(0, u64::saturating_add)
    }

    /// Returns a lower bound of the timestamps in the run's values for a range of keys. The range
    /// begins at `start`, and `has` returns whether a key lies before its end. The bound covers all
    /// values of the files that may have keys of the range, also of files that could not be opened
    /// (gaps). Returns [`i64::MAX`] if there are no timestamps, and [`i64::MIN`] if some are
    /// unknown.
    pub(crate) fn least_timestamp(&self, start: &[u8], has: impl Fn(&[u8]) -> bool) -> i64 {
        let unknown = mutation::replace(i64::MIN, Mutation::TrustUnknownTimestamps, i64::MAX);
        let reaches = |gap: &&Gap| is_before(start, gap.range.end.as_ref());
        let gaps = self.gaps.iter().filter(reaches);
        let gaps = gaps.filter(|gap| has(&gap.range.start));
        let tables = self.sorted[self.first_file_reaching(start)..].iter();
        let tables = tables.take_while(|table| has(smallest_key(table)));
        let of_gaps = gaps.map(|gap| gap.timestamps);
        let all = of_gaps.chain(tables.map(|table| table.properties().timestamps));
        let least = all.map(|bounds| bounds.map_or(unknown, |bounds| bounds.least));
        least.min().unwrap_or(i64::MAX)
    }

    /// Returns an upper bound of the timestamps in values; [`i64::MIN`] if there are none,
    /// [`i64::MAX`] if they are unknown.
    pub(crate) fn greatest_timestamp(&self) -> i64 {
        self.greatest_timestamp
    }

    pub(crate) fn range_tombstones(&self) -> Option<&Arc<RangeTombstones>> {
        self.range_tombstones.as_ref()
    }

    /// Returns whether the run has, or may have, versions, and not only range tombstones.
    pub(crate) fn holds_versions(&self) -> bool {
        !self.sorted.is_empty() || !self.gaps.is_empty()
    }

    /// Returns whether a version of `key`, or a range tombstone over it, may be in the run.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        let counts = |keys: &KeyRange| keys.contains(key);
        if !self.keys_that_count().is_none_or(counts) {
            return false;
        }
        self.sorted
            .get(self.first_file_reaching(key))
            .is_some_and(|table| smallest_key(table) <= key)
            || self.may_hold(|gap| gap.contains(key))
            || self
                .range_tombstones
                .as_ref()
                .is_some_and(|tombstones| !tombstones.over(key).is_empty())
    }

    /// Returns whether a version or a range tombstone may be in the run for a key of `range`.
    pub(crate) fn overlaps(&self, range: &KeyRange) -> bool {
        let counting = (self.keys_that_count()).map(|keys| range.intersection(keys));
        let range = counting.as_ref().unwrap_or(range);
        if range.is_empty() {
            return false;
        }
        self.sorted
            .get(self.first_file_reaching(&range.start))
            .is_some_and(|table| is_before(smallest_key(table), range.end.as_ref()))
            || self.may_hold(|gap| gap.overlaps(range))
            || self
                .range_tombstones
                .as_ref()
                .is_some_and(|tombstones| tombstones.overlaps(range))
    }

    /// Returns whether the run may have a version in the range of `sought`. Calls `excluded` if
    /// only the prefixes in a filter show that it has none.
    pub(crate) fn may_have(&self, sought: &Sought<'_>, excluded: impl FnOnce()) -> bool {
        let counting = (self.keys_that_count()).map(|keys| sought.keys.intersection(keys));
        let keys = counting.as_ref().unwrap_or(&sought.keys);
        if self.may_hold(|gap| gap.overlaps(keys)) {
            return true;
        }
        let first = self.sorted.get(self.first_file_reaching(&keys.start));
        let overlaps = |table: &&Arc<SsTable>| {
            !keys.is_empty() && is_before(smallest_key(table), keys.end.as_ref())
        };
        let Some(first) = first.filter(overlaps) else {
            return false;
        };
        let Some(prefix) = &sought.prefix else {
            return true;
        };
        // A filter that cannot be read excludes nothing; the cursor reports the damage.
        let if_damaged = mutation::replace(true, Mutation::ExcludeByDamagedFilters, false);
        let is_excluded = first.properties().filter_prefixes.as_ref() == Some(prefix.of)
            && !first
                .may_hold_prefix(&sought.keys.start, prefix.hash)
                .unwrap_or(if_damaged);
        if is_excluded {
            excluded();
        }
        !is_excluded
    }

    /// Returns a range that contains all keys for which the run has, or may have, versions or range
    /// tombstones; empty if there are none.
    pub(crate) fn bounds(&self) -> KeyRange {
        let versions = self.sorted.first().zip(self.sorted.last());
        let versions = versions
            .map(|(first, last)| KeyRange::spanning(smallest_key(first), largest_key(last)));
        let versions = versions.map(|versions| self.counting(versions));
        let tombstones = self.range_tombstones.as_ref().and_then(|t| t.bounds());
        let open = match (versions, tombstones) {
            (Some(a), Some(b)) => Some(mutation::replace(a.hull(&b), Mutation::NarrowBounds, a)),
            (a, b) => a.or(b),
        };
        let gaps: &[Gap] = mutation::replace(&self.gaps, Mutation::DropBesideGaps, &[]);
        let gaps = gaps.iter().map(|gap| gap.range.clone());
        let all = open.into_iter().chain(gaps).reduce(|a, b| a.hull(&b));
        all.unwrap_or_else(|| {
            debug_assert!(self.meta.keys.is_some(), "a run holds something");
            let start = self.meta.begins_at().cloned().unwrap_or_default();
            let end = Some(start.clone());
            KeyRange { start, end }
        })
    }

    /// Returns whether the files have keys behind the end of the run's key range.
    pub(super) fn ends_early(&self) -> bool {
        let end = self.keys_that_count().and_then(|keys| keys.end.as_ref());
        let last = self.sorted.last();
        last.is_some_and(|last| !is_before(largest_key(last), end))
    }

    /// Returns the position, in [`Run::sorted`], of the first file that does not end before `key`;
    /// the number of these files if all of them do.
    #[inline]
    pub(super) fn first_file_reaching(&self, key: &[u8]) -> usize {
        self.sorted
            .partition_point(|table| largest_key(table) < key)
    }

    /// Returns a cursor for a reader at `seq`. The cursor may also stop at versions that are newer
    /// than `seq`, which the reader has to skip. With `fill_cache`, the blocks that the cursor
    /// reads go into the block cache.
    pub(crate) fn cursor(self: &Arc<Self>, seq: SeqNo, fill_cache: bool) -> RunCursor {
        RunCursor::new(self.clone(), seq, fill_cache)
    }
}

fn keys_that_count(meta: &RunMeta) -> Option<&KeyRange> {
    let keys = meta.keys.as_ref().map(KeyBounds::range);
    mutation::replace(keys, Mutation::ShowMergedAway, None)
}

fn keys_of(table: &SsTable) -> KeyRange {
    KeyRange::spanning(smallest_key(table), largest_key(table))
}

/// Returns the range tombstones over the run's key range. A run that was written at once has all of
/// them in one file. If a run was merged in parts, one file of each part has those over the keys of
/// the part.
fn range_tombstones<'a>(
    open: impl Iterator<Item = &'a Arc<SsTable>>,
    keys: Option<&KeyRange>,
) -> Option<Arc<RangeTombstones>> {
    let mut all = open.filter_map(|table| table.range_tombstones());
    let first = all.next()?;
    let more: Vec<_> = all.collect();
    if more.is_empty() && keys.is_none() {
        return Some(first.clone());
    }
    let all = std::iter::once(first).chain(more);
    let tombstones = RangeTombstones::build(all.flat_map(|of_file| of_file.iter()), None);
    let tombstones = match keys {
        Some(keys) => tombstones.within(keys),
        None => tombstones,
    };
    (!tombstones.is_empty()).then(|| Arc::new(tombstones))
}

pub(super) fn smallest_key(table: &SsTable) -> &[u8] {
    &table.properties().smallest_key
}

fn largest_key(table: &SsTable) -> &[u8] {
    &table.properties().largest_key
}

/// Computes [`Run::greatest_timestamp`] from the open files and the gaps of a run.
fn greatest_timestamp(sorted: &[Arc<SsTable>], gaps: &[Gap]) -> i64 {
    let unknown = mutation::replace(i64::MAX, Mutation::StopAboveUnknownTimestamps, i64::MIN);
    let gaps: &[Gap] = mutation::replace(gaps, Mutation::StopAboveGaps, &[]);
    let of_gaps = gaps.iter().map(|gap| gap.timestamps);
    let all = of_gaps.chain(sorted.iter().map(|table| table.properties().timestamps));
    let greatest = all.map(|bounds| bounds.map_or(unknown, |bounds| bounds.greatest));
    greatest.max().unwrap_or(i64::MIN)
}

/// Computes [`Run::overwrites`], the sketch of the keys whose older versions the run hides, from
/// the open files and the gaps (key ranges of files that could not be opened) of a run. `None` if
/// there are gaps, range tombstones or puts that expire.
fn overwrites<'a>(open: impl Iterator<Item = &'a Arc<SsTable>>, gaps: &[Gap]) -> Option<KeySketch> {
    if !gaps.is_empty() {
        return None;
    }
    let mut all = KeySketch::default();
    for table in open {
        let properties = table.properties();
        if properties.expiring > 0 || table.range_tombstones().is_some() {
            return None;
        }
        all.union(&properties.key_sketch);
    }
    Some(all)
}
