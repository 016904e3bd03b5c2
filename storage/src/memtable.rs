//! The memtable: the newest writes of one table, sorted, in memory.
//!
//! A concurrent skip list keyed by (key, sequence number), never by key: an
//! insert must not replace an entry that a reader may be looking for.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::OnceLock;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use crossbeam_skiplist::SkipMap;
use crossbeam_skiplist::map::Entry;

use crate::error::Result;
use crate::files::FileNumber;
use crate::key::{Kind, SeqNo, compare_versions};
use crate::read::cursor::Cursor;
use crate::sstable::Version;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering as Memory};
use crate::version::key_range::KeyRange;
use crate::version::range_tombstones::RangeTombstones;
use crate::version::run::Run;

/// What an entry costs beside its bytes: the tower of the skip list, two
/// `Bytes` and the number, rounded up.
const ENTRY_OVERHEAD_BYTES: usize = 144;

/// The newest writes of one table.
#[derive(Debug, Default)]
pub(crate) struct Memtable {
    entries: SkipMap<VersionKey, (Kind, Bytes)>,
    /// Replaced as a whole, so that no reader waits; `None` while there are none.
    range_tombstones: ArcSwapOption<RangeTombstones>,
    /// Set with the first one: what a read pays where there are none.
    has_range_tombstones: AtomicBool,
    /// Held to replace them.
    replacing: Mutex<()>,
    bytes: AtomicUsize,
    count: AtomicU64,
    /// The oldest WAL segment that may hold an entry of this memtable.
    first_segment: OnceLock<FileNumber>,
    /// Set when it is frozen: no entry has a higher number, none that comes
    /// after it a lower or equal one.
    end_seq: OnceLock<SeqNo>,
    /// An ingested run that has its place here among the memtables, until those
    /// below it are flushed. There are no entries then.
    run: Option<Arc<Run>>,
    /// The commit of the run failed: nobody sees it any more.
    abandoned: AtomicBool,
}

impl Memtable {
    /// The place of a run that the commit `seq` ingests.
    pub(crate) fn of_run(run: Arc<Run>, seq: SeqNo) -> Self {
        let memtable = Self {
            run: Some(run),
            ..Self::default()
        };
        memtable.freeze(seq);
        memtable
    }

    /// The ingested run that has its place here.
    pub(crate) fn run(&self) -> Option<&Arc<Run>> {
        let abandoned = self.abandoned.load(Memory::Relaxed);
        self.run.as_ref().filter(|_| !abandoned)
    }

    /// Hides the run; called before the number of the commit that failed becomes
    /// visible.
    pub(crate) fn abandon_run(&self) {
        self.abandoned.store(true, Memory::Relaxed);
    }

    /// Adds a version. A (key, sequence number) is added once only.
    pub(crate) fn insert(&self, key: Bytes, seq: SeqNo, kind: Kind, value: Bytes) {
        let bytes = key.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        self.entries.insert(VersionKey { key, seq }, (kind, value));
        self.bytes.fetch_add(bytes, Memory::Relaxed);
        self.count.fetch_add(1, Memory::Relaxed);
    }

    /// Adds a range tombstone.
    pub(crate) fn delete_range(&self, range: &KeyRange, seq: SeqNo) {
        let _replacing = self.replacing.lock().unwrap();
        let mut next = match &*self.range_tombstones.load() {
            Some(tombstones) => RangeTombstones::clone(tombstones),
            None => RangeTombstones::default(),
        };
        next.insert(range, &[seq]);
        self.range_tombstones.store(Some(Arc::new(next)));
        self.has_range_tombstones.store(true, Memory::Release);
        let end_bytes = range.end.as_ref().map_or(0, Bytes::len);
        let bytes = range.start.len() + end_bytes + ENTRY_OVERHEAD_BYTES;
        self.bytes.fetch_add(bytes, Memory::Relaxed);
        self.count.fetch_add(1, Memory::Relaxed);
    }

    /// The range tombstones, if there are any.
    pub(crate) fn range_tombstones(&self) -> Option<Arc<RangeTombstones>> {
        self.range_tombstones.load_full()
    }

    /// The newest range tombstone over `key` with a number `<= seq`.
    pub(crate) fn covering(&self, key: &[u8], seq: SeqNo) -> Option<SeqNo> {
        if !self.has_range_tombstones.load(Memory::Acquire) {
            return None;
        }
        let tombstones = self.range_tombstones.load();
        tombstones.as_ref()?.covering(key, seq)
    }

    /// The newest version of `key` with a number `<= seq`.
    pub(crate) fn get(&self, key: &[u8], seq: SeqNo) -> Option<Version> {
        let entry = self
            .entries
            .lower_bound(Bound::Included(&(key, seq) as &dyn AsVersion))?;
        if entry.key().key != key {
            return None;
        }
        let (kind, value) = entry.value();
        Some(Version {
            seq: entry.key().seq,
            kind: *kind,
            value: value.clone(),
        })
    }

    /// All versions in order. Nothing may be inserted meanwhile that the caller
    /// would miss: for memtables that are being flushed.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Bytes, Version)> + '_ {
        self.entries.iter().map(|entry| {
            let (kind, value) = entry.value();
            (
                entry.key().key.clone(),
                Version {
                    seq: entry.key().seq,
                    kind: *kind,
                    value: value.clone(),
                },
            )
        })
    }

    /// Memory held by the entries, estimated.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Memory::Relaxed)
    }

    /// Number of versions and range tombstones.
    pub(crate) fn len(&self) -> u64 {
        self.count.load(Memory::Relaxed)
    }

    /// Says that a record about to be pushed to the WAL has entries for this
    /// memtable; called under the order lock.
    pub(crate) fn note_segment(&self, segment: FileNumber) {
        self.first_segment.get_or_init(|| segment);
    }

    /// The oldest segment that this memtable still needs; `None` when it never
    /// got a write.
    pub(crate) fn first_segment(&self) -> Option<FileNumber> {
        self.first_segment.get().copied()
    }

    /// Freezes it at this number.
    pub(crate) fn freeze(&self, end: SeqNo) {
        self.end_seq.get_or_init(|| end);
    }

    /// The number at which it was frozen.
    pub(crate) fn end_seq(&self) -> Option<SeqNo> {
        self.end_seq.get().copied()
    }

    /// A cursor that keeps the memtable alive.
    pub(crate) fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor {
            memtable: self.clone(),
            current: None,
        }
    }
}

/// A key of the skip list; order: see [`crate::key`].
#[derive(Debug, Clone)]
struct VersionKey {
    key: Bytes,
    seq: SeqNo,
}

/// What a key of the skip list can be compared with, so that a look-up needs no
/// allocation.
trait AsVersion {
    fn as_version(&self) -> (&[u8], SeqNo);
}

impl AsVersion for VersionKey {
    fn as_version(&self) -> (&[u8], SeqNo) {
        (&self.key, self.seq)
    }
}

impl AsVersion for (&[u8], SeqNo) {
    fn as_version(&self) -> (&[u8], SeqNo) {
        *self
    }
}

impl<'a> std::borrow::Borrow<dyn AsVersion + 'a> for VersionKey {
    fn borrow(&self) -> &(dyn AsVersion + 'a) {
        self
    }
}

impl Ord for dyn AsVersion + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_versions(self.as_version(), other.as_version())
    }
}

impl PartialOrd for dyn AsVersion + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn AsVersion + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn AsVersion + '_ {}

impl Ord for VersionKey {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_versions(self.as_version(), other.as_version())
    }
}

impl PartialOrd for VersionKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for VersionKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for VersionKey {}

/// A position in a memtable. Each step searches from the top: the list's own
/// entries borrow from the list, which a cursor that owns its source cannot.
#[derive(Debug)]
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    current: Option<(VersionKey, Kind, Bytes)>,
}

impl MemtableCursor {
    fn settle(
        &mut self,
        find: impl for<'a> FnOnce(&'a Entries) -> Option<Entry<'a, VersionKey, (Kind, Bytes)>>,
    ) {
        self.current = find(&self.memtable.entries).map(|entry| {
            let (kind, value) = entry.value();
            (entry.key().clone(), *kind, value.clone())
        });
    }

    fn here(&self) -> &(VersionKey, Kind, Bytes) {
        self.current.as_ref().expect("the cursor is valid")
    }
}

type Entries = SkipMap<VersionKey, (Kind, Bytes)>;

impl Cursor for MemtableCursor {
    fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.settle(|entries| entries.lower_bound(Bound::Included(&(key, seq) as &dyn AsVersion)));
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.settle(|entries| entries.upper_bound(Bound::Excluded(&(key, seq) as &dyn AsVersion)));
        Ok(())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.settle(|entries| entries.front());
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.settle(|entries| entries.back());
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let at = self.here().0.clone();
        self.settle(|entries| entries.lower_bound(Bound::Excluded(&at)));
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        let at = self.here().0.clone();
        self.settle(|entries| entries.upper_bound(Bound::Excluded(&at)));
        Ok(())
    }

    fn key(&self) -> &[u8] {
        &self.here().0.key
    }

    fn seq(&self) -> SeqNo {
        self.here().0.seq
    }

    fn kind(&self) -> Kind {
        self.here().1
    }

    fn value(&self) -> Bytes {
        self.here().2.clone()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_the_newest_version_at_or_below_its_number() {
        let memtable = Arc::new(Memtable::default());
        for (key, seq, kind, value) in [
            ("a", 3, Kind::Put, "a3"),
            ("b", 5, Kind::Put, "b5"),
            ("a", 7, Kind::Delete, ""),
            ("a", 9, Kind::Put, "a9"),
        ] {
            memtable.insert(key.into(), SeqNo(seq), kind, value.into());
        }
        let at = |key: &str, seq| {
            memtable
                .get(key.as_bytes(), SeqNo(seq))
                .map(|v| (v.seq.0, v.kind))
        };
        assert_eq!(at("a", 2), None);
        assert_eq!(at("a", 6), Some((3, Kind::Put)));
        assert_eq!(at("a", 8), Some((7, Kind::Delete)));
        assert_eq!(at("a", u64::MAX), Some((9, Kind::Put)));
        assert_eq!(at("aa", u64::MAX), None);

        let mut cursor = memtable.cursor();
        cursor.seek(b"a", SeqNo(8)).unwrap();
        assert_eq!((cursor.key(), cursor.seq()), (&b"a"[..], SeqNo(7)));
        cursor.next().unwrap();
        cursor.next().unwrap();
        assert_eq!((cursor.key(), cursor.seq()), (&b"b"[..], SeqNo(5)));
        cursor.seek_before(b"b", SeqNo::MAX).unwrap();
        assert_eq!((cursor.key(), cursor.seq()), (&b"a"[..], SeqNo(3)));
        cursor.seek_to_first().unwrap();
        assert_eq!(cursor.seq(), SeqNo(9));
        cursor.prev().unwrap();
        assert!(!cursor.valid());
    }
}
