//! Range iteration, from both ends, at one instant.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;

use super::dead_keys::DeadKeys;
use crate::db::{DbInner, TableCore};
use crate::error::Result;
use crate::key::{Cursor, Kind, ReadPoint, SeqNo, UNFOLDED_BYTES_MAX, Version};
use crate::meter::Scan;
use crate::mutation::{self, Mutation};
use crate::read::{Fold, Merge, Merger};
use crate::runs::Sought;
use crate::version::{Source, TableVersion, Tombstones};

/// A key and its value.
pub type Entry = (Bytes, Bytes);

/// The outcome of a bounded search for the next entry of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Search {
    /// The next entry.
    Found(Entry),
    /// The search stopped at its limit on the number of keys, and has found no entry. The next
    /// search begins behind these keys.
    Passed,
}

/// The use of the block cache by a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// The range reads through the cache. After many misses in one run, it reads the rest of this
    /// run past the cache, so that a long scan does not displace the blocks that other requests need.
    Fill,
    /// The range reads no block from the cache and puts none into it: for scans that must not
    /// displace the blocks that other requests need.
    Bypass,
}

/// The live entries of a key range at one instant, ascending; `rev()` and
/// `next_back` go from the other end.
///
/// An error (a damaged block, say) is yielded once; then the iterator ends. Until it is dropped,
/// the iterator keeps the files and memtables that it reads. It also keeps the database open:
/// dropping the last reader of an obsolete file removes the file, and that must not happen after
/// the database was closed and its directory was opened again.
#[derive(Debug)]
pub struct Range {
    version: Arc<TableVersion>,
    merger: Arc<Merger>,
    point: ReadPoint,
    /// The range tombstones of all sources.
    range_tombstones: Vec<Tombstones>,
    cache: Cache,
    /// The lower bound of the keys that are still to be read: at first the range's own lower bound.
    /// Each search upwards moves it behind the keys that the search has read or passed.
    lower: Bound<Vec<u8>>,
    /// The upper bound of the keys that are still to be read: at first the range's own upper bound.
    /// Each search downwards moves it before the keys that the search has read or passed.
    upper: Bound<Vec<u8>>,
    front: Option<Merge<Source, false>>,
    back: Option<Merge<Source, true>>,
    /// Whether `front` is still at a version of the key that was read last. Only the next step moves
    /// `front` to the next key: the move may load a block, in vain if the caller takes no further
    /// entry.
    front_lingers: bool,
    /// A reused buffer for the key of a version that is skipped, because it is newer than the
    /// instant that the range shows.
    newer_key: Vec<u8>,
    done: bool,
    /// The measurement of the range as a request; `None` while no meter measures requests.
    scan: Option<Scan>,
    /// Counts the dead keys that searches pass, and requests a flush of the table's memtable after
    /// many; `None` if the range requests no flush.
    dead_keys: Option<DeadKeys>,
    // The last field: the files are released before the database. `None` for a detached table,
    // whose database another process may have open.
    db: Option<Arc<DbInner>>,
}

impl Range {
    pub(crate) fn new<K, R>(
        db: Option<Arc<DbInner>>,
        merger: Arc<Merger>,
        version: Arc<TableVersion>,
        point: ReadPoint,
        range: R,
    ) -> Self
    where
        K: AsRef<[u8]>,
        R: RangeBounds<K>,
    {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        let (lower, upper) = (owned(range.start_bound()), owned(range.end_bound()));
        Self {
            range_tombstones: version.range_tombstones(point.seq),
            version,
            merger,
            point,
            cache: Cache::Fill,
            lower,
            upper,
            front: None,
            back: None,
            front_lingers: false,
            newer_key: Vec::new(),
            done: false,
            scan: None,
            dead_keys: None,
            db,
        }
    }

    /// Sets how the range uses the block cache, which is [`Cache::Fill`] otherwise. To be called
    /// before the first entry is read.
    pub(crate) fn caching(mut self, cache: Cache) -> Self {
        self.cache = cache;
        self
    }

    /// Makes `scan` measure the range as a request; `None` for no measurement.
    pub(crate) fn metered(mut self, scan: Option<Scan>) -> Self {
        self.scan = scan;
        self
    }

    /// Makes this range request a flush of the open memtable of `table` once it has passed too many
    /// dead keys.
    pub(crate) fn flushing(mut self, table: Arc<TableCore>) -> Self {
        self.dead_keys = Some(DeadKeys::of(table));
        self
    }

    /// Searches for the next entry upwards, in at most `keys_max` keys (at least one). Returns
    /// `None` at the end of the range. A version that is newer than the instant of the range counts
    /// as a key of its own. Callers that must not spend long on one call use this in place of
    /// `next`: two entries may have any number of deleted keys between them, until merges drop
    /// these keys, and any number of versions that are too new.
    pub fn next_within(&mut self, keys_max: u32) -> Option<Result<Search>> {
        if self.done {
            return None;
        }
        let search = (|| {
            let mut merge = match self.front.take() {
                Some(merge) => merge,
                None => self.open_front()?,
            };
            let search = self.step_front(&mut merge, keys_max);
            self.front = Some(merge);
            search
        })();
        self.end_search(search)
    }

    /// Returns the last key that searches upwards have read, or passed with all of its versions. A
    /// new range that begins behind this key continues this one. Before the first such key, returns
    /// the lower bound of the range if the range excludes it, and `None` otherwise. If the first
    /// key has very many versions that are newer than the range's instant, many searches may go by
    /// before it is passed.
    pub fn passed_key(&self) -> Option<&[u8]> {
        match &self.lower {
            Bound::Excluded(key) => Some(key),
            Bound::Included(_) | Bound::Unbounded => None,
        }
    }

    /// Searches for the next entry downwards, as [`next_within`](Self::next_within) does upwards.
    pub fn next_back_within(&mut self, keys_max: u32) -> Option<Result<Search>> {
        if self.done {
            return None;
        }
        let search = (|| {
            let mut merge = match self.back.take() {
                Some(merge) => merge,
                None => self.open_back()?,
            };
            let search = self.step_back(&mut merge, keys_max);
            self.back = Some(merge);
            search
        })();
        self.end_search(search)
    }

    /// Returns the last key that searches downwards have read or passed. A new range that ends
    /// before this key continues this one. Before the first such key, returns the upper bound of
    /// the range if the range excludes it, and `None` otherwise.
    pub fn passed_back_key(&self) -> Option<&[u8]> {
        match &self.upper {
            Bound::Excluded(key) => Some(key),
            Bound::Included(_) | Bound::Unbounded => None,
        }
    }

    /// Turns the outcome of a search for the next entry into the result of a bounded search. Ends the
    /// iterator after an error or the last entry. Adds the entry's bytes, and at the first entry
    /// the latency so far, to the metrics of scans.
    fn end_search(&mut self, search: Result<Option<Search>>) -> Option<Result<Search>> {
        let found_bytes = match &search {
            Ok(Some(Search::Passed)) => return Some(Ok(Search::Passed)),
            Ok(Some(Search::Found((key, value)))) => Some(key.len() + value.len()),
            Ok(None) | Err(_) => None,
        };
        self.done = found_bytes.is_none();
        if let Some(scan) = &mut self.scan {
            scan.note(found_bytes.unwrap_or_default());
        }
        search.transpose()
    }

    fn below_upper(&self, key: &[u8]) -> bool {
        let upper = self.upper.as_ref().map(Vec::as_slice);
        RangeBounds::<[u8]>::contains(&(Bound::Unbounded, upper), key)
    }

    fn above_lower(&self, key: &[u8]) -> bool {
        let lower = self.lower.as_ref().map(Vec::as_slice);
        RangeBounds::<[u8]>::contains(&(lower, Bound::Unbounded), key)
    }

    /// Returns cursors over the sources that may have keys between the bounds.
    fn cursors(&self) -> Vec<Source> {
        let fill_cache = self.cache == Cache::Fill;
        // A range past the cache reads no filters either.
        let prefixes = self.merger.prefixes().filter(|_| fill_cache);
        let sought = Sought::between(&self.lower, &self.upper, prefixes);
        let (cursors, skips) =
            self.version
                .cursors(self.point.seq, &sought, &self.range_tombstones, fill_cache);
        if let Some(db) = self.db.as_ref().filter(|_| skips > 0) {
            db.counters.prefix_skips.add(skips);
        }
        cursors
    }

    fn open_front(&self) -> Result<Merge<Source, false>> {
        let mut cursors = self.cursors();
        for cursor in &mut cursors {
            match &self.lower {
                Bound::Included(key) => cursor.seek(key, SeqNo::MAX)?,
                // Past every version of the key: 0 is no version's number.
                Bound::Excluded(key) => cursor.seek(key, SeqNo::ZERO)?,
                Bound::Unbounded => cursor.seek_to_first()?,
            }
        }
        Ok(Merge::new(cursors))
    }

    fn open_back(&self) -> Result<Merge<Source, true>> {
        let mut cursors = self.cursors();
        for cursor in &mut cursors {
            match &self.upper {
                Bound::Included(key) => cursor.seek_before(key, SeqNo::ZERO)?,
                Bound::Excluded(key) => cursor.seek_before(key, SeqNo::MAX)?,
                Bound::Unbounded => cursor.seek_to_last()?,
            }
        }
        Ok(Merge::new(cursors))
    }

    #[inline]
    fn begin(&self, key: &[u8]) -> Fold<'static> {
        let mut fold = Fold::new(self.point.read_time());
        if self.range_tombstones.is_empty() {
            return fold;
        }
        let covering = |t: &Tombstones| t.covering(key, self.point.seq);
        let tombstones = self.range_tombstones.iter().filter_map(covering);
        let newest = if mutation::is(Mutation::HeedOldestRangeTombstone) {
            tombstones.min()
        } else {
            tombstones.max()
        };
        if let Some(newest) = newest {
            fold.hide_below(newest);
        }
        fold
    }

    /// Returns the next live entry upwards. The visible versions of a key come newest first: they
    /// are folded down to a put or a delete, and the older ones are skipped. Stops after `keys_max`
    /// steps. A step passes a key, or one version that is too new for this reader. If all versions
    /// of a key are too new, the step that passes the last of them moves the lower bound behind the
    /// key, so that [`Self::passed_key`] returns the key.
    fn step_front(
        &mut self,
        merge: &mut Merge<Source, false>,
        keys_max: u32,
    ) -> Result<Option<Search>> {
        for _ in 0..keys_max.max(1) {
            if std::mem::take(&mut self.front_lingers) {
                self.leave_key(merge)?;
            }
            let Some(source) = merge.front() else {
                return Ok(None);
            };
            // If the back end has read this key, the upper bound excludes it.
            if !self.below_upper(source.key()) {
                return Ok(None);
            }
            if let Some(error) = source.damage() {
                return match &self.upper {
                    // The damage begins behind all versions of the last key, so the range is complete.
                    Bound::Included(upper) if is_behind(source, upper) => Ok(None),
                    _ => Err(error.clone()),
                };
            }
            if source.seq() > self.point.seq {
                self.newer_key.clear();
                self.newer_key.extend_from_slice(source.key());
                merge.advance()?;
                if merge
                    .front()
                    .is_none_or(|next| next.key() != self.newer_key)
                {
                    exclude(&mut self.lower, &self.newer_key);
                }
                continue;
            }
            let key = Bytes::copy_from_slice(source.key());
            let in_memory = matches!(source, Source::Memtable(_));
            let mut fold = self.begin(&key);
            self.front_lingers = fold.take_bounded(source.version(), &key, &self.merger);
            while !self.front_lingers {
                merge.advance()?;
                let is_same = |source: &&Source| source.key() == key && !is_behind(source, &key);
                let Some(source) = merge.front().filter(is_same) else {
                    break;
                };
                if let Some(error) = source.damage() {
                    return Err(error.clone());
                }
                self.front_lingers = fold.take_bounded(source.version(), &key, &self.merger);
            }
            exclude(&mut self.lower, &key);
            let value = fold.finish(&key, &self.merger)?;
            self.count_dead_key(value.is_none(), in_memory);
            if let Some(value) = value {
                return Ok(Some(Search::Found((key, value))));
            }
        }
        Ok(Some(Search::Passed))
    }

    /// Counts a key that a search has read, if it is dead (has no value) and its newest visible
    /// version is in a memtable. A key with a value sets the count back to 0. The end of a search
    /// does not set it back: a search may stop before it finds an entry, and the next call goes on.
    fn count_dead_key(&mut self, is_dead: bool, in_memory: bool) {
        let (Some(dead_keys), Some(db)) = (&mut self.dead_keys, &self.db) else {
            return;
        };
        if !is_dead {
            dead_keys.begin_step();
        } else if in_memory {
            dead_keys.passed(db, &self.version);
        }
    }

    /// Returns the same range (the same version of the table, the same instant), limited to one
    /// key.
    fn only(&self, key: &Bytes) -> Self {
        let (db, merger, version) = (self.db.clone(), self.merger.clone(), self.version.clone());
        let keys = key.clone()..=key.clone();
        Self::new(db, merger, version, self.point, keys).caching(self.cache)
    }

    /// Skips the other versions of the key that was read last. `merge` must be at one of the
    /// versions of this key.
    fn leave_key(&self, merge: &mut Merge<Source, false>) -> Result<()> {
        let Bound::Excluded(key) = &self.lower else {
            unreachable!("a key was read");
        };
        loop {
            merge.advance()?;
            let is_left = |source: &Source| source.key() != key || is_behind(source, key);
            if merge.front().is_none_or(is_left) {
                return Ok(());
            }
        }
    }

    /// Returns the next live entry downwards. The versions of a key come oldest first: they are
    /// gathered, and each put or delete drops the gathered older ones. If the gathered versions exceed
    /// [`UNFOLDED_BYTES_MAX`], they are dropped, and a range upwards over this key reads them again,
    /// newest first. (Versions that come newest first can be folded one by one, but versions that come
    /// oldest first cannot, because a newer one may delete them.)
    ///
    /// Stops after `keys_max` steps. A step reads all visible versions of a key, or passes one
    /// version that is too new for this reader. Downwards, the versions of a key that are too new
    /// come after its visible ones. So at the first of them, the key was read already or has no
    /// visible version, and the upper bound can exclude the key. Damage after the first of them
    /// hides no visible version of the key, so it is an error of a later step.
    fn step_back(
        &mut self,
        merge: &mut Merge<Source, true>,
        keys_max: u32,
    ) -> Result<Option<Search>> {
        for _ in 0..keys_max.max(1) {
            let Some(cursor) = merge.front() else {
                return Ok(None);
            };
            if !self.above_lower(cursor.key()) {
                return Ok(None);
            }
            if let Some(error) = cursor.damage() {
                return match &self.lower {
                    // The damage ends before all versions of the first key, so the range is complete.
                    Bound::Included(lower) if is_before(cursor, lower) => Ok(None),
                    _ => Err(error.clone()),
                };
            }
            if cursor.seq() > self.point.seq {
                exclude(&mut self.upper, cursor.key());
                merge.advance()?;
                continue;
            }
            let key = Bytes::copy_from_slice(cursor.key());
            let (mut versions, mut bytes): (Vec<Version>, usize) = (Vec::new(), 0);
            let mut in_memory = false;
            let is_same = |cursor: &&Source| cursor.key() == key && !is_before(cursor, &key);
            while let Some(cursor) = merge.front().filter(is_same) {
                if let Some(error) = cursor.damage() {
                    return Err(error.clone());
                }
                if cursor.seq() > self.point.seq {
                    break;
                }
                in_memory = matches!(cursor, Source::Memtable(_));
                if cursor.kind() != Kind::Merge {
                    versions.clear();
                    bytes = 0;
                }
                let version = cursor.version();
                bytes += version.value.len();
                versions.push(version);
                if bytes > UNFOLDED_BYTES_MAX {
                    versions.clear();
                }
                merge.advance()?;
            }
            exclude(&mut self.upper, &key);
            let value = if bytes > UNFOLDED_BYTES_MAX {
                let mut upwards = self.only(&key);
                upwards.next().transpose()?.map(|(_, value)| value)
            } else {
                let mut fold = self.begin(&key);
                let _base_reached = versions.into_iter().rev().any(|v| fold.take(v));
                fold.finish(&key, &self.merger)?
            };
            self.count_dead_key(value.is_none(), in_memory);
            if let Some(value) = value {
                return Ok(Some(Search::Found((key, value))));
            }
        }
        Ok(Some(Search::Passed))
    }
}

impl Iterator for Range {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        until_found(|| self.next_within(u32::MAX))
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        until_found(|| self.next_back_within(u32::MAX))
    }
}

/// Repeats a bounded search until it finds an entry, comes to the end of the range, or fails.
#[inline]
pub(super) fn until_found(
    mut search: impl FnMut() -> Option<Result<Search>>,
) -> Option<Result<Entry>> {
    loop {
        match search()? {
            Ok(Search::Found(entry)) => return Some(Ok(entry)),
            Ok(Search::Passed) => {}
            Err(error) => return Some(Err(error)),
        }
    }
}

/// Returns whether a source's cursor is at damage that begins right behind all versions of `key`.
/// The cursor then shows `key` with the sequence number 0. Readers see no version with this number.
fn is_behind(source: &Source, key: &[u8]) -> bool {
    source.seq() == SeqNo::ZERO && source.key() == key
}

/// Returns whether a source's cursor, which goes backwards, is at damage that begins right before
/// all versions of `key`.
fn is_before(source: &Source, key: &[u8]) -> bool {
    source.seq() == SeqNo::MAX && source.key() == key
}

/// Makes a bound exclude a key, and reuses the memory of the bound.
fn exclude(bound: &mut Bound<Vec<u8>>, key: &[u8]) {
    match bound {
        Bound::Excluded(memory) => {
            memory.clear();
            memory.extend_from_slice(key);
        }
        _ => *bound = Bound::Excluded(key.to_vec()),
    }
}
