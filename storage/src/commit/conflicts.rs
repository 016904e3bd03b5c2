//! First committer wins: the index of the writes since the oldest living transaction began.
//!
//! While a transaction lives, every commit records its keys under the order lock. A transaction
//! that commits checks, under the same lock, that nothing that it writes or guards was written
//! since it began:
//!
//! ```text
//!   begin   [order lock: number = last one given; registered here]
//!   commit  [order lock: check, push to the WAL, record]
//! ```
//!
//! Invariant: of every commit numbered above a living transaction's number, the index has the
//! writes, or `forgotten` is above the transaction's number and the transaction is refused. Without
//! a living transaction a commit pays one load.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::write_set::{TableKey, TableRange, WriteSet};
use crate::key::SeqNo;
use crate::mutation::{self, Mutation};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The maximal size of the index in memory, in bytes by an estimate: enough for about four million short
/// keys.
const BYTES_MAX: usize = 512 << 20;
/// The estimated memory of a key beside its bytes: the reference counts, and its places in the
/// write set and in the map.
const POINT_OVERHEAD_BYTES: usize = 112;
/// A commit with more keys than this is not in the index's `map`, because it would take long to add
/// the keys under the order lock (which every commit takes). Conflict checks search its keys
/// separately.
const MAPPED_POINTS_MAX: usize = 1024;
/// Each commit removes about this many keys of older commits from the index, and two more for each
/// key that it adds, so that the index can shrink.
const PRUNED_POINTS_MIN: usize = 64;

/// The writes that living transactions may be in conflict with.
#[derive(Debug)]
pub(crate) struct Conflicts {
    /// The number of living transactions.
    living: AtomicU64,
    index: Mutex<Index>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Index {
    /// For each sequence number, the number of living transactions that read at it.
    living: BTreeMap<SeqNo, usize>,
    /// The recent commits whose writes the index has, oldest first.
    commits: VecDeque<Arc<Commit>>,
    /// The sequence numbers of the last writes of each key. Writes of the commits in `wide` are not
    /// in this map.
    map: BTreeMap<TableKey, Writes>,
    /// The recent commits with too many keys for `map`, or with deleted ranges. A conflict check
    /// searches each of them.
    wide: VecDeque<Arc<Commit>>,
    bytes: usize,
    /// The sequence number of the newest commit that was removed from the index. A transaction that
    /// began before it cannot be checked.
    forgotten: SeqNo,
}

/// The sequence numbers of the last commits that wrote a key.
#[derive(Debug, Default, Clone, Copy)]
struct Writes {
    /// The sequence number of the last put or delete of the key; 0 if there is none.
    put: SeqNo,
    /// The sequence number of the last merge into the key; 0 if there is none.
    merge: SeqNo,
}

#[derive(Debug)]
struct Commit {
    seq: SeqNo,
    write_set: WriteSet,
}

/// The reason why a transaction cannot commit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Clash {
    /// This key was written since the transaction began.
    Key(TableKey),
    /// The index no longer has all writes since the transaction began.
    TooOld,
}

/// Commits that were removed from the index. The caller has to free them after it has released the
/// order lock of the commit queue.
#[derive(Debug, Default)]
#[must_use = "drop it after the order lock is released: freeing takes time"]
pub(crate) struct Pruned {
    _commits: Vec<Arc<Commit>>,
}

impl Conflicts {
    pub(crate) fn new() -> Self {
        Self::with_bytes_max(BYTES_MAX)
    }

    fn with_bytes_max(bytes_max: usize) -> Self {
        Self {
            living: AtomicU64::new(0),
            index: Mutex::new(Index::default()),
            bytes_max,
        }
    }

    /// Registers a transaction that reads at `at`, the last sequence number that a commit has got.
    /// Called under the order lock of the commit queue: commits get their numbers under this lock,
    /// so every commit numbered above `at` will record its keys.
    pub(crate) fn begin(&self, at: SeqNo) {
        let mut index = self.index.lock().unwrap();
        *index.living.entry(at).or_default() += 1;
        self.living.fetch_add(1, Ordering::Relaxed);
    }

    /// Unregisters a transaction that read at `at`.
    pub(crate) fn end(&self, at: SeqNo) {
        let mut index = self.index.lock().unwrap();
        let count = index.living.get_mut(&at).expect("it began");
        *count -= 1;
        if *count == 0 {
            index.living.remove(&at);
        }
        self.living.fetch_sub(1, Ordering::Relaxed);
        if index.living.is_empty() {
            let all = std::mem::take(&mut *index);
            drop(index);
            drop(all);
        }
    }

    /// Returns whether a commit has to record its keys, because a transaction lives. If the caller
    /// holds the order lock of the commit queue, false is certain: transactions begin only under
    /// this lock. True may be out of date, because a transaction may end at any time; then
    /// [`record`](Self::record) does nothing. Without the lock, either result may be out of date.
    pub(crate) fn is_needed(&self) -> bool {
        self.living.load(Ordering::Relaxed) > 0
    }

    /// Checks that a transaction that reads at `since` can commit: no commit after `since` is in
    /// conflict with its writes or guards. Called under the order lock of the commit queue.
    pub(crate) fn check(
        &self,
        since: SeqNo,
        writes: &WriteSet,
        guards: &WriteSet,
    ) -> Result<(), Clash> {
        let none = WriteSet::default();
        let guards = mutation::replace(guards, Mutation::SkipGuards, &none);
        let index = self.index.lock().unwrap();
        if since < index.forgotten {
            return Err(Clash::TooOld);
        }
        for point in writes.points().iter().chain(guards.points()) {
            if index.clashes(&point.key, point.merges, since) {
                return Err(Clash::Key(point.key.clone()));
            }
        }
        let deleted = mutation::replace(writes.ranges(), Mutation::RangesNeverClash, &[]);
        let guarded = mutation::replace(guards.ranges(), Mutation::SkipGuardedRanges, &[]);
        for range in deleted.iter().chain(guarded) {
            if let Some(key) = index.first_written_in(range, since) {
                return Err(Clash::Key(key));
            }
        }
        Ok(())
    }

    /// Records the keys of the commit whose first operation has the sequence number `seq`. Called
    /// under the order lock of the commit queue. Returns the commits that it removes from the
    /// index. The caller frees them without the lock.
    pub(crate) fn record(&self, seq: SeqNo, write_set: WriteSet) -> Pruned {
        let mut index = self.index.lock().unwrap();
        // The last transaction may have ended a moment ago.
        if index.living.is_empty() {
            return Pruned::default();
        }
        let points = 2 * write_set.points().len() + PRUNED_POINTS_MIN;
        index.add(Arc::new(Commit { seq, write_set }));
        index.prune(points, self.bytes_max)
    }
}

impl Writes {
    fn newest(&self) -> SeqNo {
        self.put.max(self.merge)
    }
}

impl Commit {
    fn is_wide(&self) -> bool {
        self.write_set.points().len() > MAPPED_POINTS_MAX || !self.write_set.ranges().is_empty()
    }

    fn bytes(&self) -> usize {
        let points = self.write_set.points().iter().map(|point| point.key.len());
        let ranges = self.write_set.ranges().iter();
        let ranges = ranges.flat_map(|range| [range.start.len(), range.end.len()]);
        points
            .chain(ranges)
            .map(|len| len + POINT_OVERHEAD_BYTES)
            .sum()
    }
}

impl Index {
    /// Returns whether a commit after `since` is in conflict with a change of the key. If `merges`
    /// is true, the change is a merge, and no other merge is in conflict with it.
    fn clashes(&self, key: &TableKey, merges: bool, since: SeqNo) -> bool {
        self.map.get(key).is_some_and(|writes| {
            writes.put > since && !(merges && mutation::is(Mutation::MergesNeverClash))
                || writes.merge > since && !merges && !mutation::is(Mutation::OverlookMerges)
        }) || self.wide_since(since).any(|write_set| {
            write_set
                .point(key)
                .is_some_and(|point| !(merges && point.merges))
                || write_set.ranges().iter().any(|range| {
                    range.contains(key) && !mutation::is(Mutation::OverlookRangeDeletes)
                })
        })
    }

    fn first_written_in(&self, range: &TableRange, since: SeqNo) -> Option<TableKey> {
        let bounds = (
            Bound::Included(range.start.clone()),
            Bound::Excluded(range.end.clone()),
        );
        let mut mapped = self.map.range(bounds);
        if let Some((key, _)) = mapped.find(|(_, writes)| writes.newest() > since) {
            return Some(key.clone());
        }
        self.wide_since(since).find_map(|write_set| {
            let point = write_set.first_in(range).map(|point| point.key.clone());
            let mut ranges = write_set.ranges().iter();
            point.or_else(|| ranges.find_map(|other| range.overlap(other)))
        })
    }

    fn wide_since(&self, since: SeqNo) -> impl Iterator<Item = &WriteSet> {
        let newest_first = self.wide.iter().rev();
        newest_first
            .take_while(move |commit| commit.seq > since)
            .map(|commit| &commit.write_set)
    }

    fn add(&mut self, commit: Arc<Commit>) {
        self.bytes += commit.bytes();
        if commit.is_wide() {
            self.wide.push_back(commit.clone());
        } else {
            for point in commit.write_set.points() {
                let writes = self.map.entry(point.key.clone()).or_default();
                if point.merges {
                    writes.merge = commit.seq;
                } else {
                    writes.put = commit.seq;
                }
            }
        }
        self.commits.push_back(commit);
    }

    /// Removes commits that no living transaction can be in conflict with, until about `points_max`
    /// keys are removed. Also removes the oldest commits while the index is larger than
    /// `bytes_max`.
    fn prune(&mut self, points_max: usize, bytes_max: usize) -> Pruned {
        let oldest = *self.living.keys().next().expect("a transaction lives");
        let mut pruned = Pruned::default();
        let mut points = 0;
        while let Some(commit) = self.commits.front() {
            let too_much = self.bytes > bytes_max;
            if !too_much && (commit.seq > oldest || points >= points_max) {
                break;
            }
            let commit = self.commits.pop_front().expect("there is a front");
            self.bytes -= commit.bytes();
            self.forgotten = commit.seq;
            if commit.is_wide() {
                self.wide.pop_front();
            } else {
                points += commit.write_set.points().len();
                for point in commit.write_set.points() {
                    let writes = self.map.get(&point.key);
                    if writes.is_some_and(|writes| writes.newest() == commit.seq) {
                        self.map.remove(&point.key);
                    }
                }
            }
            pruned._commits.push(commit);
        }
        pruned
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
