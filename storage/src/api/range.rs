//! Range iteration, from both ends, at one instant.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;

use crate::db::DbInner;
use crate::error::Result;
use crate::key::{Cursor, Kind, RangeTombstones, ReadPoint, SeqNo, Version};
use crate::meter::Scan;
use crate::mutation::{self, Mutation};
use crate::read::{Fold, Merge, Merger};
use crate::version::{Source, TableVersion};

/// A key and its value.
pub type Entry = (Bytes, Bytes);

/// The live entries of a key range at one instant, ascending; `rev()` and
/// `next_back` go from the other end.
///
/// An error (a damaged block, say) is yielded once; then the iterator ends.
/// While it lives it keeps the files and memtables that it reads, and the
/// database open: the last reader of an obsolete file removes it, which must not
/// happen in a directory that another opening has taken over.
#[derive(Debug)]
pub struct Range {
    version: Arc<TableVersion>,
    merger: Arc<Merger>,
    point: ReadPoint,
    /// Of all sources.
    range_tombstones: Vec<Arc<RangeTombstones>>,
    fill_cache: bool,
    /// The front end's: what it read last, once it read anything.
    lower: Bound<Vec<u8>>,
    /// The back end's.
    upper: Bound<Vec<u8>>,
    front: Option<Merge<Source, false>>,
    back: Option<Merge<Source, true>>,
    /// Whether `front` stands on a version of the key that was read last. It stays
    /// there until more is asked for, which may well not happen: the next version may
    /// be in a block that is not loaded yet.
    front_lingers: bool,
    done: bool,
    /// Where somebody measures it as a request.
    scan: Option<Scan>,
    // Last, so that the files are let go of before the database is; none where
    // the files belong to a database that somebody else has open.
    _db: Option<Arc<DbInner>>,
}

impl Range {
    pub(crate) fn new<K, R>(
        db: Option<Arc<DbInner>>,
        merger: Arc<Merger>,
        version: Arc<TableVersion>,
        point: ReadPoint,
        range: R,
        fill_cache: bool,
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
            fill_cache,
            lower,
            upper,
            front: None,
            back: None,
            front_lingers: false,
            done: false,
            scan: None,
            _db: db,
        }
    }

    /// The same, measured as a request, if somebody measures.
    pub(crate) fn metered(mut self, scan: Option<Scan>) -> Self {
        self.scan = scan;
        self
    }

    /// Takes note of a step, and passes it on.
    fn end_step(&mut self, step: Result<Option<Entry>>) -> Option<Result<Entry>> {
        self.done = !matches!(step, Ok(Some(_)));
        if let Some(scan) = &mut self.scan {
            scan.note(match &step {
                Ok(Some((key, value))) => key.len() + value.len(),
                _ => 0,
            });
        }
        step.transpose()
    }

    fn below_upper(&self, key: &[u8]) -> bool {
        match &self.upper {
            Bound::Included(upper) => key <= &upper[..],
            Bound::Excluded(upper) => key < &upper[..],
            Bound::Unbounded => true,
        }
    }

    fn above_lower(&self, key: &[u8]) -> bool {
        match &self.lower {
            Bound::Included(lower) => key >= &lower[..],
            Bound::Excluded(lower) => key > &lower[..],
            Bound::Unbounded => true,
        }
    }

    fn open_front(&self) -> Result<Merge<Source, false>> {
        let mut cursors = self.version.cursors(self.point.seq, self.fill_cache);
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
        let mut cursors = self.version.cursors(self.point.seq, self.fill_cache);
        for cursor in &mut cursors {
            match &self.upper {
                Bound::Included(key) => cursor.seek_before(key, SeqNo::ZERO)?,
                Bound::Excluded(key) => cursor.seek_before(key, SeqNo::MAX)?,
                Bound::Unbounded => cursor.seek_to_last()?,
            }
        }
        Ok(Merge::new(cursors))
    }

    /// Begins to read a key.
    #[inline]
    fn begin(&self, key: &[u8]) -> Fold<'static> {
        let mut fold = Fold::new(self.point.read_time());
        if self.range_tombstones.is_empty() {
            return fold;
        }
        let covering = |t: &Arc<RangeTombstones>| t.covering(key, self.point.seq);
        let tombstones = self.range_tombstones.iter().filter_map(covering);
        let newest = match mutation::is(Mutation::HeedOldestRangeTombstone) {
            true => tombstones.min(),
            false => tombstones.max(),
        };
        if let Some(newest) = newest {
            fold.hide_below(newest);
        }
        fold
    }

    /// The next live entry upwards: of each key the visible versions count until
    /// a base is reached, the others are passed over.
    fn step_front(&mut self, merge: &mut Merge<Source, false>) -> Result<Option<Entry>> {
        loop {
            if std::mem::take(&mut self.front_lingers) {
                self.leave_key(merge)?;
            }
            let Some(source) = merge.peek() else {
                return Ok(None);
            };
            if !self.below_upper(source.key()) {
                return Ok(None);
            }
            // A back end that passed this key has taken it; the same bound says so.
            if source.seq() > self.point.seq {
                merge.advance()?;
                continue;
            }
            let key = Bytes::copy_from_slice(source.key());
            let mut fold = self.begin(&key);
            self.front_lingers = fold.take(version_at(source));
            while !self.front_lingers {
                merge.advance()?;
                let Some(source) = merge.peek().filter(|source| source.key() == key) else {
                    break;
                };
                self.front_lingers = fold.take(version_at(source));
            }
            exclude(&mut self.lower, &key);
            if let Some(value) = fold.finish(&key, &self.merger)? {
                return Ok(Some((key, value)));
            }
        }
    }

    /// Passes over what is left of the key that was read last, of which `merge`
    /// stands on a version.
    fn leave_key(&self, merge: &mut Merge<Source, false>) -> Result<()> {
        let Bound::Excluded(key) = &self.lower else {
            unreachable!("a key was read");
        };
        loop {
            merge.advance()?;
            if merge.peek().is_none_or(|source| source.key() != key) {
                return Ok(());
            }
        }
    }

    /// The next live entry downwards: versions of a key come oldest first, so
    /// they are gathered, and those below a newer base forgotten.
    fn step_back(&mut self, merge: &mut Merge<Source, true>) -> Result<Option<Entry>> {
        loop {
            let Some(cursor) = merge.peek() else {
                return Ok(None);
            };
            if !self.above_lower(cursor.key()) {
                return Ok(None);
            }
            let key = Bytes::copy_from_slice(cursor.key());
            let mut versions: Vec<Version> = Vec::new();
            while let Some(cursor) = merge.peek().filter(|cursor| cursor.key() == key) {
                if cursor.seq() <= self.point.seq {
                    if cursor.kind() != Kind::Merge {
                        versions.clear();
                    }
                    versions.push(version_at(cursor));
                }
                merge.advance()?;
            }
            exclude(&mut self.upper, &key);
            let mut fold = self.begin(&key);
            let _base_reached = versions.into_iter().rev().any(|v| fold.take(v));
            if let Some(value) = fold.finish(&key, &self.merger)? {
                return Ok(Some((key, value)));
            }
        }
    }
}

impl Iterator for Range {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = (|| {
            let mut merge = match self.front.take() {
                Some(merge) => merge,
                None => self.open_front()?,
            };
            let step = self.step_front(&mut merge);
            self.front = Some(merge);
            step
        })();
        self.end_step(step)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = (|| {
            let mut merge = match self.back.take() {
                Some(merge) => merge,
                None => self.open_back()?,
            };
            let step = self.step_back(&mut merge);
            self.back = Some(merge);
            step
        })();
        self.end_step(step)
    }
}

fn version_at(source: &Source) -> Version {
    Version {
        seq: source.seq(),
        kind: source.kind(),
        value: source.value(),
    }
}

/// Makes a bound exclude a key, in the memory that it has.
fn exclude(bound: &mut Bound<Vec<u8>>, key: &[u8]) {
    match bound {
        Bound::Excluded(memory) => {
            memory.clear();
            memory.extend_from_slice(key);
        }
        _ => *bound = Bound::Excluded(key.to_vec()),
    }
}
