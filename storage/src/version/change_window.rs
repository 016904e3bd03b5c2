//! The changes between two readers of a table: the places where they may see different values.
//!
//! ```text
//!   seq       1  2  3 | 4  5  6 | 7  8
//!   readers        older     newer
//!   window             (4  5  6]          and what expires between the times of the two
//! ```
//!
//! A key whose value differs for the two readers has, in some source of the table,
//!
//! - a version in the window, or
//! - a range tombstone in the window over it, or
//! - a version up to the older reader of which something expires after the time of the older
//!   reader and not after that of the newer one.
//!
//! This holds after any flushes and merges, because each of the two readers is registered
//! ([`crate::snapshots`]) from its beginning on, and so is a boundary of every flush and
//! merge of the versions that it sees:
//!
//! - *No merge joins the two sides of a boundary.* The versions of a key fold within their stripe,
//!   and the result has the number of one of them. So if a key had versions in the window, each
//!   stripe of the window still has one of them, unless that is a deletion that hides nothing, or
//!   a range tombstone of the stripe hides all of them. Of range tombstones each fragment keeps the
//!   newest of each stripe.
//! - *A deletion is dropped only where it hides nothing.* The tombstones at the end of a key's
//!   versions go if no older source has the key. A tombstone in the window is not at the end as
//!   long as it hides a version that the older reader sees. A range tombstone goes by itself only
//!   in the lowest stripe, which ends at the older reader or below, or with a run that has nothing
//!   else and nothing below it. In the second case the older reader sees nothing of its keys, and
//!   what the newer reader sees of them has a number above the tombstone.
//! - *A run is dropped unread only under a tombstone of its own stripe* ([`crate::compaction`],
//!   `covered`), and a flush leaves out only what a truncation of the same stripe hides. The
//!   tombstone is in the window then, or all of it is outside.
//! - *What has expired is dropped only if it has for every reader that sees it.* In the window it
//!   becomes a tombstone, which goes as others do. Up to the older reader it stays until it has
//!   expired for that one, and then it makes no difference to the newer one.
//! - *What is purged hides nothing from a reader.* A deletion by timestamps, or an expired value,
//!   goes only if all other timestamps of its key are later, in other stripes and in all other
//!   sources. So if it goes from the window, it hid nothing that the older reader sees. A value
//!   that goes under the head of its group goes under a head of its own stripe. This head is a
//!   version in the window, too. It stays for as long as anything in its group has a timestamp
//!   that is not later, and it is purged only in a merge of one stripe, so never beside what the
//!   older reader sees.
//!
//! A deletion by a head within its group counts as a change of the head alone. A caller that finds a
//! head among the changed keys has to read the whole group, unless the head deletes the same for both
//! readers: a value that went under a head of the window is then deleted for both, or was purged together
//! with the deletion and hid nothing.
//!
//! Two things change what both readers see, and so are no changes between them: a write that comes
//! later than the merge operator allows ([`crate::read::MergeOperator::purge`]), and the loss of
//! what could not be read of a damaged file, once it is accepted.
//!
//! Files record the bounds of their numbers and of their expiries, so most of them are not read.
//! A file with versions on both sides of the older reader is read. Of these versions the ones in
//! the window count, and those below it that expire.
//!
//! A memtable is not read if it begins after the newer reader. Every other memtable is read whole,
//! however few of its versions are changes: the versions are in the order of their keys, and each may
//! expire. To read less, every write would have to maintain an order by numbers, or bounds of the
//! expiries. They do not, because publications are rare and the size of a memtable is
//! bounded.

use crate::key::{Cursor, KeyRange, RangeTombstone, RangeTombstones, ReadPoint, SeqNo};
use crate::mutation::{self, Mutation};
use crate::read::{ExpiryBounds, Merger};
use crate::version::{Source, TableVersion};

/// The sequence numbers and times that lie between two readers (snapshots or views): the newer
/// reader may see the writes with these numbers and the expiries at these times, and the older
/// reader sees none of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangeWindow {
    /// The window begins above this number, and ends with `up_to`, which it contains.
    after: SeqNo,
    up_to: SeqNo,
    /// The window begins after this time, in milliseconds, and ends with `up_to_ms`, which it
    /// contains.
    after_ms: u64,
    up_to_ms: u64,
}

/// The memtables and runs of a table that may have changes between two readers.
#[derive(Debug)]
pub(crate) struct ChangedSources {
    pub(crate) sources: Vec<Source>,
    /// Whether a value in one of the runs may have expired between the read times of the two
    /// readers.
    pub(crate) runs_expire: bool,
}

impl ChangeWindow {
    /// Creates the window between two readers. `newer` must not be below `older` in the order of commits,
    /// but may have the earlier time, if the clock was set back in between.
    pub(crate) fn between(older: ReadPoint, newer: ReadPoint) -> Self {
        let (one, other) = (older.read_time_ms, newer.read_time_ms);
        Self {
            after: older.seq,
            up_to: newer.seq,
            after_ms: one.min(other),
            up_to_ms: one.max(other),
        }
    }

    fn has(&self, seq: SeqNo) -> bool {
        self.after < seq && seq <= self.up_to
    }

    fn expires(&self, bounds: ExpiryBounds) -> bool {
        bounds.may_expire(self.after_ms, self.up_to_ms) && !mutation::is(Mutation::OverlookExpiries)
    }

    /// Returns true if the version at which the cursor `source` stands was written or, if
    /// `may_expire`, may have expired between the two readers of the window.
    pub(crate) fn is_change(&self, source: &Source, may_expire: bool, merger: &Merger) -> bool {
        let seq = source.seq();
        if seq > self.after || !may_expire {
            return self.has(seq);
        }
        self.expires(merger.expiries_of(source.key(), source.kind(), &source.value()))
    }

    /// Returns the keys that range tombstones in the window cover, in fragments that do not touch
    /// each other. Each fragment has the number of the newer reader.
    pub(crate) fn deleted(&self, version: &TableVersion) -> RangeTombstones {
        let of_sources = version.range_tombstones(self.up_to);
        let all = of_sources.iter().flat_map(|of_source| of_source.list());
        let in_window = all.filter(|tombstone| self.has(tombstone.seq));
        let in_window = in_window.filter(|_| !mutation::is(Mutation::OverlookDeletedRanges));
        // With one number for all of them, neighbours are joined.
        let same = in_window.map(|RangeTombstone { range, .. }| RangeTombstone {
            range,
            seq: self.up_to,
        });
        RangeTombstones::build(same, None)
    }

    /// Returns cursors, which do not stand on any version yet, over the sources that may have
    /// changes of `keys`. A memtable is left out only if it is empty or begins after the window,
    /// because its largest sequence number is not known.
    pub(crate) fn sources(
        &self,
        version: &TableVersion,
        keys: &KeyRange,
        merger: &Merger,
    ) -> ChangedSources {
        let memtables = std::iter::once(&version.memtable).chain(&version.frozen);
        let memtables =
            memtables.filter(|memtable| memtable.len() > 0 && memtable.begins_before(self.up_to));
        let mut sources: Vec<_> = memtables
            .map(|memtable| Source::Memtable(memtable.cursor()))
            .collect();
        let mut runs_expire = false;
        for run in version.all_runs() {
            let ingested_at = run.meta().ingested_at;
            let part = run.of_files(|file| {
                let (smallest, largest) = match ingested_at {
                    Some(at) => (at, at),
                    None => (file.smallest_seq, file.largest_seq),
                };
                let expires =
                    smallest <= self.after && self.expires(merger.expiries_in(file.expiries));
                let counts = expires || self.meets(smallest, largest);
                let counts = counts && file.ranges().any(|range| range.overlaps(keys));
                runs_expire |= counts && expires;
                counts
            });
            sources.extend(part.map(|part| Source::Run(part.cursor(self.up_to, false))));
        }
        ChangedSources {
            sources,
            runs_expire,
        }
    }

    /// Returns whether some number from `smallest` to `largest`, both included, is in the window.
    fn meets(&self, smallest: SeqNo, largest: SeqNo) -> bool {
        let straddles = smallest <= self.after;
        smallest <= self.up_to
            && self.after < largest
            && !(straddles && mutation::is(Mutation::OverlookStraddlingFiles))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::key::{FileNumber, Kind};
    use crate::memtable::Memtable;
    use crate::read::MergeOperators;

    #[test]
    fn a_memtable_that_begins_after_both_readers_is_not_read() {
        let first = TableVersion::new(Memtable::default(), Vec::new());
        first.memtable.note_segment(FileNumber(1));
        first.memtable.insert(b"a", SeqNo(1), Kind::Put, b"1");
        let version = first.rotated(SeqNo(1)).unwrap();
        version.memtable.insert(b"b", SeqNo(2), Kind::Put, b"2");
        let merger = Merger::new("app.users".into(), None, &MergeOperators::none());
        let point = |seq| ReadPoint {
            seq: SeqNo(seq),
            read_time_ms: 0,
        };
        let sources_up_to = |seq| {
            let window = ChangeWindow::between(point(0), point(seq));
            let changed = window.sources(&version, &KeyRange::all(), &merger);
            changed.sources.len()
        };
        assert_eq!((sources_up_to(1), sources_up_to(2)), (1, 2));
    }
}
