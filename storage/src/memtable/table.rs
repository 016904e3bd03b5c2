//! A memtable: the newest writes of a table, sorted in memory.

use std::sync::Arc;
use std::sync::OnceLock;

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use super::deleted_ranges::DeletedRanges;
use super::pool::ChunkPool;
use super::skiplist::{Entry, Position, SkipList};

use crate::error::Result;
use crate::key::{Cursor, FileNumber, KeyRange, Kind, RangeTombstone, SeqNo, Version};
use crate::read::{MergeOperator, TimestampBounds, timestamps_of};
use crate::runs::Run;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering as Memory};

/// The values of all folds (merge results that readers store at an operand, for later readers) take
/// at most 1 / `FOLDS_PART` of the memory of the entries. Folds count towards the size at which a
/// memtable is flushed, so without this limit they would leave little of that size to writes.
const FOLDS_PART: usize = 4;

/// The largest fold (merge result) that readers store, in bytes: each reader that uses a fold
/// copies it.
const FOLD_BYTES_MAX: usize = 64 << 10;

/// The newest writes of one table.
#[derive(Debug, Default)]
pub(crate) struct Memtable {
    entries: Arc<SkipList>,
    /// The range tombstones. They are replaced as a whole, so that no reader waits; `None` before
    /// the first range tombstone.
    range_tombstones: ArcSwapOption<DeletedRanges>,
    /// Set with the first range tombstone. While it is not set, reads do not look for range
    /// tombstones.
    has_range_tombstones: AtomicBool,
    /// Held while `range_tombstones` is replaced, so that two writers do not lose a tombstone.
    replacing: Mutex<()>,
    tombstone_bytes: AtomicUsize,
    count: AtomicU64,
    /// The bytes of the values of all folds: the merge results that readers stored at operands.
    fold_bytes: AtomicUsize,
    /// The table's merge operator, which reads the timestamps in values; `None` if the table has
    /// none, or if this process does not have the operator.
    operator: Option<Arc<dyn MergeOperator>>,
    /// [`i64::MAX`] minus [`Memtable::least_timestamp`]. This difference is stored because it
    /// begins at 0 and only grows.
    below_greatest: AtomicU64,
    /// The distance of [`Memtable::greatest_timestamp`] from [`i64::MIN`], so that it begins at 0
    /// and only grows.
    above_least: AtomicU64,
    /// The oldest WAL segment that may hold an entry of this memtable.
    first_segment: OnceLock<FileNumber>,
    /// A sequence number below those of all entries.
    begins_after: SeqNo,
    /// The last sequence number, set when the memtable is frozen: no entry has a higher one, and no
    /// entry of a later memtable has this or a lower one.
    end_seq: OnceLock<SeqNo>,
    /// An ingested run (SSTables that were added whole), if this memtable is only the run's
    /// placeholder among the memtables. The run is newer than the memtables before it, so it joins
    /// the other runs only when those memtables are flushed. A placeholder has no entries.
    run: Option<Arc<Run>>,
    /// Whether the commit that ingested `run` failed. If so, [`Memtable::run`] returns `None`.
    abandoned: AtomicBool,
}

impl Memtable {
    /// Creates an empty memtable, which takes free chunks of memory from `pool`. All memtables of a
    /// database share the pool.
    pub(crate) fn new(pool: Arc<ChunkPool>) -> Self {
        Self {
            entries: Arc::new(SkipList::new(pool)),
            ..Self::default()
        }
    }

    /// Returns the memtable with the merge operator of its table, if the table has one.
    pub(crate) fn with_operator(self, operator: Option<&Arc<dyn MergeOperator>>) -> Self {
        Self {
            operator: operator.cloned(),
            ..self
        }
    }

    /// Creates the empty memtable that follows this one in the same table.
    pub(crate) fn next(&self) -> Self {
        Self {
            begins_after: self.end_seq().unwrap_or_default(),
            ..Self::new(self.entries.pool().clone()).with_operator(self.operator.as_ref())
        }
    }

    /// Creates a memtable without entries: a placeholder for `run`, which the commit `seq` ingests.
    pub(crate) fn of_run(run: Arc<Run>, seq: SeqNo) -> Self {
        let memtable = Self {
            run: Some(run),
            ..Self::default()
        };
        memtable.freeze(seq);
        memtable
    }

    /// Returns the ingested run that this memtable is the placeholder of; `None` for an ordinary
    /// memtable, or if the commit that ingested the run failed.
    pub(crate) fn run(&self) -> Option<&Arc<Run>> {
        let abandoned = self.abandoned.load(Memory::Relaxed);
        self.run.as_ref().filter(|_| !abandoned)
    }

    /// Hides the ingested run, whose commit failed. Must be called before the sequence number of
    /// that commit becomes visible.
    pub(crate) fn abandon_run(&self) {
        self.abandoned.store(true, Memory::Relaxed);
    }

    /// Adds a version. No version of this key with this sequence number may have been added before.
    pub(crate) fn insert(&self, key: &[u8], seq: SeqNo, kind: Kind, value: &[u8]) {
        self.note_timestamps(key, kind, value);
        let share = Bytes::copy_from_slice;
        self.entries.insert(key, seq, kind, value, share);
        self.count.fetch_add(1, Memory::Relaxed);
    }

    /// Adds a version whose value is a slice of `payload`. A value of more than 4 KiB
    /// (`COPIED_BYTES_MAX`) that is more than half of `payload` is not copied, and keeps all of
    /// `payload` alive.
    pub(crate) fn insert_of(
        &self,
        payload: &Bytes,
        key: &[u8],
        seq: SeqNo,
        kind: Kind,
        value: &[u8],
    ) {
        let share = |value: &[u8]| {
            if value.len() > payload.len() / 2 {
                payload.slice_ref(value)
            } else {
                Bytes::copy_from_slice(value)
            }
        };
        self.note_timestamps(key, kind, value);
        self.entries.insert(key, seq, kind, value, share);
        self.count.fetch_add(1, Memory::Relaxed);
    }

    /// Lowers the least and raises the greatest recorded timestamp, as far as the timestamps in
    /// `value` require it. This runs before the commit is visible, so that readers of the commit
    /// get bounds that include the value.
    fn note_timestamps(&self, key: &[u8], kind: Kind, value: &[u8]) {
        let Some(operator) = self.operator.as_deref() else {
            return;
        };
        if self.least_timestamp() == i64::MIN && self.greatest_timestamp() == i64::MAX {
            return;
        }
        let bounds = timestamps_of(operator, key, kind, value).unwrap_or(TimestampBounds {
            least: i64::MIN,
            greatest: i64::MAX,
            greatest_local_time_s: i64::MAX,
        });
        let raise = |bound: &AtomicU64, to: u64| {
            // A value that is not above the bound needs no write, which would contend with other
            // threads.
            if to > bound.load(Memory::Relaxed) {
                bound.fetch_max(to, Memory::Relaxed);
            }
        };
        raise(&self.below_greatest, i64::MAX.abs_diff(bounds.least));
        raise(&self.above_least, i64::MIN.abs_diff(bounds.greatest));
    }

    /// Returns a lower bound of the timestamps in all values that were visible at the call. Returns
    /// [`i64::MAX`] if they have none, and [`i64::MIN`] if their timestamps are unknown. Without a
    /// merge operator the result is [`i64::MAX`]: only merges that have the operator use this
    /// bound.
    pub(crate) fn least_timestamp(&self) -> i64 {
        i64::MAX.wrapping_sub_unsigned(self.below_greatest.load(Memory::Relaxed))
    }

    /// Returns an upper bound of the timestamps in all values that were visible at the call.
    /// Returns [`i64::MIN`] if they have none, and [`i64::MAX`] if their timestamps are unknown, as
    /// in a memtable with entries but without a merge operator.
    pub(crate) fn greatest_timestamp(&self) -> i64 {
        if self.operator.is_none() && self.len() > 0 {
            return i64::MAX;
        }
        i64::MIN.wrapping_add_unsigned(self.above_least.load(Memory::Relaxed))
    }

    /// Adds a range tombstone, whose range must not be empty.
    pub(crate) fn delete_range(&self, range: &KeyRange, seq: SeqNo) {
        let tombstone = RangeTombstone {
            range: range.clone(),
            seq,
        };
        let _replacing = self.replacing.lock().unwrap();
        let next = match &*self.range_tombstones.load() {
            Some(ranges) => ranges.with(tombstone),
            None => DeletedRanges::default().with(tombstone),
        };
        self.tombstone_bytes.store(next.bytes(), Memory::Relaxed);
        self.range_tombstones.store(Some(Arc::new(next)));
        self.has_range_tombstones.store(true, Memory::Release);
        self.count.fetch_add(1, Memory::Relaxed);
    }

    pub(crate) fn range_tombstones(&self) -> Option<Arc<DeletedRanges>> {
        if self.has_range_tombstones.load(Memory::Acquire) {
            self.range_tombstones.load_full()
        } else {
            None
        }
    }

    /// Returns the newest sequence number `<= seq` of a range tombstone over `key`; `None` if there
    /// is no such tombstone.
    pub(crate) fn covering(&self, key: &[u8], seq: SeqNo) -> Option<SeqNo> {
        if !self.has_range_tombstones.load(Memory::Acquire) {
            return None;
        }
        let tombstones = self.range_tombstones.load();
        tombstones.as_ref()?.covering(key, seq)
    }

    /// Returns the first version that is not before (key, seq): the newest version of `key` with a
    /// number `<= seq`, or else the first version of the next key. `found` may be the result of an
    /// earlier call for a smaller key: then the search starts there.
    pub(crate) fn seek<'a>(
        &'a self,
        found: Option<Entry<'a>>,
        key: &[u8],
        seq: SeqNo,
    ) -> Option<Entry<'a>> {
        match found {
            Some(found) => self.entries.seek_on(found, key, seq),
            None => self.entries.seek(key, seq),
        }
    }

    /// Stores a fold: the result of merging `operand`, a version of this memtable, with all older
    /// versions of its key. Readers that see `operand` use the fold, so no older version may be
    /// added any more. Does nothing if the value is longer than [`FOLD_BYTES_MAX`], if all folds
    /// would take more of the memory than [`FOLDS_PART`] permits, or if the newest chunk of memory
    /// has no room.
    pub(crate) fn leave_fold(&self, operand: Entry<'_>, kind: Kind, value: &[u8]) {
        let budget = self.entries.bytes() / FOLDS_PART;
        let folds = self.fold_bytes.load(Memory::Relaxed) + value.len();
        if value.len() <= FOLD_BYTES_MAX
            && folds <= budget
            && self.entries.leave_fold(operand, kind, value)
        {
            self.fold_bytes.fetch_add(value.len(), Memory::Relaxed);
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn get(&self, key: &[u8], seq: SeqNo) -> Option<Version> {
        let found = self.seek(None, key, seq)?;
        (found.key() == key).then(|| version_of(found))
    }

    /// Returns all versions in order. A flush calls this when every version that it must write is
    /// in the memtable.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.entries.iter()
    }

    /// Returns the bytes of memory that the entries take. The bytes of range tombstones are
    /// estimated.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.bytes() + self.tombstone_bytes.load(Memory::Relaxed)
    }

    /// Returns the number of versions and range tombstones.
    pub(crate) fn len(&self) -> u64 {
        self.count.load(Memory::Relaxed)
    }

    /// Records the WAL segment of a record that has entries for this memtable. Only the first call,
    /// with the oldest segment, has an effect. Call it under the lock that orders the commits,
    /// before the record is pushed to the WAL.
    pub(crate) fn note_segment(&self, segment: FileNumber) {
        self.first_segment.get_or_init(|| segment);
    }

    /// Returns the oldest WAL segment that this memtable still needs; `None` if it never got a
    /// write.
    pub(crate) fn first_segment(&self) -> Option<FileNumber> {
        self.first_segment.get().copied()
    }

    /// Freezes the memtable: `end` is its last sequence number.
    pub(crate) fn freeze(&self, end: SeqNo) {
        self.end_seq.get_or_init(|| end);
    }

    /// Returns the last sequence number of a frozen memtable; `None` until it is frozen.
    pub(crate) fn end_seq(&self) -> Option<SeqNo> {
        self.end_seq.get().copied()
    }

    /// Returns whether an entry may have a sequence number of at most `seq`.
    pub(crate) fn begins_before(&self, seq: SeqNo) -> bool {
        self.begins_after < seq
    }

    /// Returns a cursor over the versions, which keeps them in memory.
    pub(crate) fn cursor(&self) -> MemtableCursor {
        MemtableCursor {
            position: Position::new(self.entries.clone()),
        }
    }
}

/// Returns an entry as a version that neither borrows from the memtable nor keeps it in memory.
pub(crate) fn version_of(entry: Entry<'_>) -> Version {
    Version {
        seq: entry.seq(),
        kind: entry.kind(),
        value: entry.to_value(),
    }
}

/// A position among the versions of a memtable.
#[derive(Debug)]
pub(crate) struct MemtableCursor {
    position: Position,
}

impl MemtableCursor {
    fn here(&self) -> Entry<'_> {
        self.position.entry().expect("the cursor is valid")
    }
}

impl Cursor for MemtableCursor {
    fn valid(&self) -> bool {
        self.position.entry().is_some()
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.position.settle(|list| list.seek(key, seq));
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.position.settle(|list| list.seek_before(key, seq));
        Ok(())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.position.settle(SkipList::first);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.position.settle(SkipList::last);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.position.next();
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.position.prev();
        Ok(())
    }

    fn key(&self) -> &[u8] {
        self.here().key()
    }

    fn seq(&self) -> SeqNo {
        self.here().seq()
    }

    fn kind(&self) -> Kind {
        self.here().kind()
    }

    fn value(&self) -> Bytes {
        self.here().to_value()
    }
}
