//! The registry of the sequence numbers whose versions must be kept: the bookmarks of named
//! snapshots and the live read views.
//!
//! Both are kept behind one lock, so that there is one protocol: register under the lock, read the
//! boundaries under the lock.
//!
//! - A view is registered and its number loaded in one critical section. If the number were loaded
//!   earlier, a compaction could read the boundaries in between, and drop versions that the view is
//!   about to read.
//! - A transaction's view is registered under the order lock at the last number given, before that
//!   is visible; the transaction reads once it is.
//! - A bookmark is registered under the order lock of the commit queue, at the moment it gets its
//!   number: every later write stands behind it. A hold gets the number of a snapshot that is there
//!   until the hold is registered.
//! - Flush and compaction fix their inputs first, then read the boundaries. A view that is
//!   registered after that has a number not below any in the inputs, so it needs just the newest
//!   version of each key, which is always kept. It also reads the clock after they did, so a
//!   version that was expired for them is expired for the view.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter::repeat_n;

use super::index::{SnapshotIndex, SnapshotPoint};
use super::{
    Bookmark, Bookmarks, SnapshotChanges, SnapshotOp, SnapshotOverview, SnapshotRecord, TableSpan,
};
use crate::error::{Error, Result};
use crate::key::{Boundaries, ReadPoint, SeqNo};
use crate::mutation::{self, Mutation};
use crate::runs::KeptFor;
use crate::sync::Mutex;

#[derive(Debug)]
pub(crate) struct SnapshotRegistry {
    state: Mutex<State>,
}

/// The sequence numbers at which the readers of a table read, with its bookmarks (snapshots and
/// holds) and without them. The difference gives the space that snapshots pin.
#[derive(Debug)]
pub(crate) struct PinPoints {
    /// The sequence numbers at which bookmarks (snapshots, and holds on a snapshot's state of one
    /// table) and views (open readers) read: the boundaries with the bookmarks.
    pub(crate) with: Boundaries,
    /// The sequence numbers at which views (open readers) read: the boundaries that would be left
    /// without the bookmarks.
    pub(crate) without: Boundaries,
    /// The number of bookmarks: snapshots, and holds on a snapshot's state of one table.
    pub(crate) bookmarks: usize,
    /// The bookmarks (snapshots and holds) that are the only reader at their commit, with no view
    /// and no other bookmark there: their commits and their ids.
    pub(crate) lone: Vec<(SeqNo, u64)>,
}

/// The counts of snapshots and of holds (each keeps a snapshot's state of one table), and the
/// creation time of the oldest snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SnapshotCensus {
    /// The number of snapshots, without `holds` (each keeps a snapshot's state of one table).
    pub(crate) snapshots: usize,
    pub(crate) holds: usize,
    /// The creation time of the oldest snapshot, in milliseconds since the Unix epoch; `None` if
    /// there is none. A deleted snapshot counts as long as a hold keeps its state, because the hold
    /// pins as much as the snapshot did.
    pub(crate) oldest_ms: Option<u64>,
}

#[derive(Debug)]
struct State {
    bookmarks: Bookmarks,
    /// The entries of `bookmarks`, by keyspace.
    index: SnapshotIndex,
    /// The operations that the manifest may not have yet, each with its commit, ascending. The log
    /// has all of them, so the limit of the log's size also limits their number.
    unrecorded: VecDeque<(SeqNo, SnapshotOp)>,
    /// The number of views (open readers) at each read point: a commit and a time of reading.
    views: BTreeMap<ReadPoint, usize>,
    /// The read points of the views (open readers) because of which some run keeps versions that no
    /// later reader needs.
    costly: BTreeSet<ReadPoint>,
}

impl SnapshotRegistry {
    pub(crate) fn new(bookmarks: Bookmarks) -> Self {
        Self {
            state: Mutex::new(State {
                index: SnapshotIndex::of(&bookmarks.list),
                unrecorded: VecDeque::new(),
                bookmarks,
                views: BTreeMap::new(),
                costly: BTreeSet::new(),
            }),
        }
    }

    /// Registers a view (open reader) at the read point that `now` returns, and returns that point.
    /// `now` reads the number of the last visible commit and the clock; it is called under the
    /// lock, so that no merge drops versions of the view before the view is registered.
    pub(crate) fn register_view(&self, now: impl FnOnce() -> ReadPoint) -> ReadPoint {
        let mut state = self.state.lock().unwrap();
        let point = now();
        if mutation::is(Mutation::LoadThenRegisterView) {
            drop(state);
            mutation::linger(&[Mutation::LoadThenRegisterView]);
            state = self.state.lock().unwrap();
        }
        *state.views.entry(point).or_default() += 1;
        point
    }

    /// Registers one more view at a point at which a view is registered already.
    pub(crate) fn share_view(&self, point: ReadPoint) {
        let mut state = self.state.lock().unwrap();
        *state
            .views
            .get_mut(&point)
            .expect("a view stands at this point") += 1;
    }

    /// Records the views (open readers) because of which a new run keeps versions that no later
    /// reader needs: once the last view at such a read point ends, merges may drop the versions.
    pub(crate) fn note_kept(&self, kept: &[KeptFor]) {
        if kept.is_empty() {
            return;
        }
        let mut state = self.state.lock().unwrap();
        let State { views, costly, .. } = &mut *state;
        for kept in kept {
            let first = ReadPoint {
                seq: kept.from,
                read_time_ms: 0,
            };
            let points = views.range(first..).map(|(point, _)| *point);
            costly.extend(points.take_while(|point| point.seq <= kept.to));
        }
    }

    /// Ends a view. Returns true if no other view is left at its point and runs keep versions for
    /// views at that point, which merges may be able to drop now.
    pub(crate) fn release_view(&self, point: ReadPoint) -> bool {
        let mut state = self.state.lock().unwrap();
        let count = state
            .views
            .get_mut(&point)
            .expect("a view stands at this point");
        *count -= 1;
        if *count > 0 {
            return false;
        }
        state.views.remove(&point);
        state.costly.remove(&point)
    }

    /// Registers a view at a named snapshot, and returns the snapshot. The versions that the
    /// snapshot shows stay until the view ends ([`Self::release_view`]), even if the snapshot is
    /// deleted before.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none of this name, or it has expired.
    pub(crate) fn open_snapshot(
        &self,
        keyspace: &str,
        name: &str,
        now_ms: u64,
    ) -> Result<Bookmark> {
        let mut state = self.state.lock().unwrap();
        let mut bookmark = state.find_live(keyspace, name, now_ms)?;
        if mutation::is(Mutation::JudgeSnapshotsNow) {
            bookmark.record.created_ms = now_ms;
        }
        *state.views.entry(bookmark.point()).or_default() += 1;
        Ok(bookmark)
    }

    /// Applies the operation on a snapshot or a hold that the commit `seq` contains; called in
    /// commit order.
    pub(crate) fn apply(&self, seq: SeqNo, op: SnapshotOp) {
        self.state.lock().unwrap().apply(seq, op);
    }

    /// Removes the bookmark (a snapshot or a hold) with this id, because the commit that creates it
    /// has failed.
    pub(crate) fn retract_bookmark(&self, id: u64) {
        let mut state = self.state.lock().unwrap();
        let state = &mut *state;
        if let Some(bookmark) = state.bookmarks.take(id) {
            state.index.remove(&bookmark);
        }
        let is_creation =
            |op: &SnapshotOp| matches!(op, SnapshotOp::Create(record) if record.id == id);
        state.unrecorded.retain(|(_, op)| !is_creation(op));
    }

    /// Returns the operations on snapshots up to the commit `as_of` that the manifest does not
    /// have, and forgets the operations up to the commit `recorded`, which the manifest has
    /// durably.
    pub(crate) fn changes(&self, recorded: SeqNo, as_of: SeqNo) -> SnapshotChanges {
        let mut state = self.state.lock().unwrap();
        let unrecorded = &mut state.unrecorded;
        let known = unrecorded.partition_point(|(seq, _)| *seq <= recorded);
        unrecorded.drain(..known);
        let decided = unrecorded.partition_point(|(seq, _)| *seq <= as_of);
        SnapshotChanges {
            as_of,
            ops: unrecorded.iter().take(decided).cloned().collect(),
        }
    }

    /// Returns the earliest time at which a snapshot or hold expires, in milliseconds since the
    /// Unix epoch; `None` if none expires.
    pub(crate) fn next_expiry_ms(&self) -> Option<u64> {
        let state = self.state.lock().unwrap();
        let list = state.bookmarks.list.iter();
        list.filter_map(|bookmark| bookmark.record.expires_ms).min()
    }

    /// Returns the commit up to which the bookmarks (snapshots and holds) are complete.
    pub(crate) fn as_of(&self) -> SeqNo {
        self.state.lock().unwrap().bookmarks.as_of
    }

    /// Returns the largest id that a snapshot or hold ever had.
    pub(crate) fn last_id(&self) -> u64 {
        self.state.lock().unwrap().bookmarks.last_id
    }

    /// Counts the snapshots, and the holds (each keeps a snapshot's state of one table).
    pub(crate) fn census(&self) -> SnapshotCensus {
        let state = self.state.lock().unwrap();
        let records = state.bookmarks.list.iter().map(|bookmark| &bookmark.record);
        let holds = records.clone().filter(|it| it.held_for.is_some()).count();
        SnapshotCensus {
            snapshots: state.bookmarks.list.len() - holds,
            holds,
            oldest_ms: records.map(|record| record.created_ms).min(),
        }
    }

    /// Returns the bookmarks (snapshots and holds) for whose records `fits` returns true, oldest
    /// first.
    pub(crate) fn bookmarks_where(&self, fits: impl Fn(&SnapshotRecord) -> bool) -> Vec<Bookmark> {
        let state = self.state.lock().unwrap();
        let list = state.bookmarks.list.iter();
        list.filter(|bookmark| fits(&bookmark.record))
            .cloned()
            .collect()
    }

    /// Returns the record of a snapshot that has not expired, with the commit at which it reads.
    ///
    /// # Errors
    /// As [`SnapshotRegistry::open_snapshot`].
    pub(crate) fn find_live(&self, keyspace: &str, name: &str, now_ms: u64) -> Result<Bookmark> {
        self.state.lock().unwrap().find_live(keyspace, name, now_ms)
    }

    /// Returns the record of a snapshot, with the commit at which it reads; `None` if there is none
    /// of this name. The snapshot may have expired.
    pub(crate) fn find(&self, keyspace: &str, name: &str) -> Option<Bookmark> {
        self.state.lock().unwrap().find(keyspace, name).cloned()
    }

    pub(crate) fn covers(&self, table: TableSpan<'_>) -> bool {
        let state = self.state.lock().unwrap();
        state.index.covering(table).next().is_some()
    }

    /// Returns the boundaries of a table: the points at which its snapshots, its holds and all
    /// views read. `now_ms` is the time of the flush or merge. It must be read from the clock
    /// before this call, so that no view that is registered later has an earlier time.
    pub(crate) fn boundaries(&self, table: TableSpan<'_>, now_ms: u64) -> Boundaries {
        let state = self.state.lock().unwrap();
        let bookmarks = state.index.covering(table);
        let bookmarks = bookmarks.filter(|_| !mutation::is(Mutation::ForgetBookmarks));
        let bookmarks = bookmarks.map(|bookmark| bookmark.at);
        let views = state.views.keys().copied();
        let views = views.filter(|_| !mutation::is(Mutation::ForgetViews));
        Boundaries::new(bookmarks.chain(views).collect(), now_ms)
    }

    /// Returns the boundaries of a table with its bookmarks (snapshots and holds) and without them,
    /// both at one instant. `now_ms` is as in [`Self::boundaries`].
    pub(crate) fn pin_points(&self, table: TableSpan<'_>, now_ms: u64) -> PinPoints {
        let state = self.state.lock().unwrap();
        let bookmarks: Vec<_> = state.index.covering(table).copied().collect();
        let views = || state.views.keys().copied();
        let is_unseen = |lone: &&SnapshotPoint| views().all(|view| view.seq != lone.at.seq);
        let of_one_commit = bookmarks.chunk_by(|a, b| a.at.seq == b.at.seq);
        let lone = of_one_commit.filter_map(|those| match those {
            [only] => Some(only),
            _ => None,
        });
        let lone = lone.filter(is_unseen);
        let points = bookmarks.iter().map(|bookmark| bookmark.at);
        PinPoints {
            lone: lone.map(|lone| (lone.at.seq, lone.id)).collect(),
            bookmarks: bookmarks.len(),
            without: Boundaries::new(views().collect(), now_ms),
            with: Boundaries::new(points.chain(views()).collect(), now_ms),
        }
    }

    /// Returns the commits at which all bookmarks (snapshots, and holds on a snapshot's state of
    /// one table) and all views (open readers) read, all at one instant. Statistics of many tables
    /// are computed from this copy.
    pub(crate) fn overview(&self) -> SnapshotOverview {
        let state = self.state.lock().unwrap();
        let views = state.views.keys().map(|point| point.seq);
        SnapshotOverview::new(&state.index, views.collect())
    }

    /// Returns, in ascending order, the sequence numbers of all readers of a table: its bookmarks
    /// (snapshots, and holds on a snapshot's state of the table) and all views (open readers). If
    /// several of them read at one number, it occurs once for each.
    pub(crate) fn boundary_seqs(&self, table: TableSpan<'_>) -> Vec<SeqNo> {
        let state = self.state.lock().unwrap();
        let bookmarks = state.index.covering(table).map(|bookmark| bookmark.at.seq);
        let views = (state.views.iter()).flat_map(|(point, count)| repeat_n(point.seq, *count));
        let mut seqs: Vec<_> = bookmarks.chain(views).collect();
        seqs.sort_unstable();
        seqs
    }

    /// Returns the sequence numbers at which the bookmarks of a table (snapshots, and holds on a
    /// snapshot's state of the table) read, ascending, each once. Flushes split memtables into
    /// several runs at these numbers, and the merge policy arranges runs by them. (Views are too
    /// short-lived to arrange files by.)
    pub(crate) fn bookmark_seqs(&self, table: TableSpan<'_>) -> Vec<SeqNo> {
        let state = self.state.lock().unwrap();
        let bookmarks = state.index.covering(table);
        let mut seqs: Vec<_> = bookmarks.map(|bookmark| bookmark.at.seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        seqs
    }

    /// Returns the sequence numbers at which several bookmarks (snapshots or holds) of a table
    /// read, as a snapshot and its hold do.
    pub(crate) fn shared_seqs(&self, table: TableSpan<'_>) -> Vec<SeqNo> {
        let state = self.state.lock().unwrap();
        let bookmarks = state.index.covering(table);
        let seqs: Vec<_> = bookmarks.map(|bookmark| bookmark.at.seq).collect();
        let of_one_commit = seqs.chunk_by(|a, b| a == b);
        let shared = of_one_commit.filter(|those| those.len() > 1);
        shared.map(|those| those[0]).collect()
    }

    pub(crate) fn views(&self) -> usize {
        self.state.lock().unwrap().views.values().sum()
    }
}

impl State {
    /// Applies the operation of the commit `seq`.
    fn apply(&mut self, seq: SeqNo, op: SnapshotOp) {
        self.unrecorded.push_back((seq, op.clone()));
        match op {
            SnapshotOp::Create(record) => {
                let added = self.bookmarks.add(seq, record);
                self.index.add(added);
            }
            SnapshotOp::Delete(id) => {
                if let Some(removed) = self.bookmarks.remove(seq, id) {
                    self.index.remove(&removed);
                }
            }
            SnapshotOp::Expiry(expiry) => self.bookmarks.set_expiry(seq, expiry),
        }
    }

    fn find(&self, keyspace: &str, name: &str) -> Option<&Bookmark> {
        let place = self.index.place(keyspace, name)?;
        let list = &self.bookmarks.list;
        let found = list.binary_search_by_key(&place, Bookmark::place);
        found.ok().map(|at| &list[at])
    }

    fn find_live(&self, keyspace: &str, name: &str, now_ms: u64) -> Result<Bookmark> {
        let found = self.find(keyspace, name);
        let live = found.filter(|bookmark| !bookmark.record.has_expired(now_ms));
        live.cloned().ok_or_else(|| Error::NotFound {
            what: match found {
                Some(_) => "unexpired snapshot",
                None => "snapshot",
            },
            name: name.to_string(),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{CoveredTable, Lifetime};
    use super::*;
    use crate::key::TableId;

    fn record(id: u64) -> SnapshotRecord {
        SnapshotRecord::example(id)
    }

    const TABLE: TableId = TableId(1);

    fn span() -> TableSpan<'static> {
        TableSpan {
            keyspace: "app",
            id: TABLE,
            lifetime: Lifetime::default(),
        }
    }

    fn hold(id: u64, at: u64) -> SnapshotRecord {
        SnapshotRecord {
            name: format!("hold/h{id}"),
            table: Some(CoveredTable {
                id: TABLE,
                name: "t".into(),
            }),
            held_for: Some("a copy".into()),
            at: Some(SeqNo(at)),
            ..record(id)
        }
    }

    /// Regression: the manifest remembered the ids of the snapshots that it listed. A snapshot that
    /// was created and deleted between two edits left no trace, and after a restart its id was
    /// given again.
    #[test]
    fn the_id_of_a_deleted_snapshot_is_remembered() {
        let snapshots = SnapshotRegistry::new(Bookmarks::default());
        snapshots.apply(SeqNo(1), SnapshotOp::Create(record(1)));
        snapshots.apply(SeqNo(2), SnapshotOp::Create(record(2)));
        snapshots.apply(SeqNo(3), SnapshotOp::Delete(2));
        assert_eq!(snapshots.last_id(), 2);
        let mut recorded = Bookmarks::default();
        recorded.catch_up(snapshots.changes(SeqNo::ZERO, SeqNo(3)));
        assert_eq!((recorded.last_id, recorded.as_of), (2, snapshots.as_of()));
        assert_eq!(recorded.list, snapshots.bookmarks_where(|_| true));
    }

    /// Regression: each flush and each merge wrote all snapshots into its manifest edit, not just
    /// the operations on snapshots since the previous edit.
    #[test]
    fn an_edit_gets_the_operations_since_the_last_one_and_none_that_failed() {
        let snapshots = SnapshotRegistry::new(Bookmarks::default());
        for id in 1..=1000 {
            snapshots.apply(SeqNo(id), SnapshotOp::Create(record(id)));
        }
        let create = |id| (SeqNo(id), SnapshotOp::Create(record(id)));
        let first = snapshots.changes(SeqNo::ZERO, SeqNo(1000));
        assert_eq!(first.ops.len(), 1000);
        // The edit was refused.
        assert_eq!(snapshots.changes(SeqNo::ZERO, SeqNo(1000)), first);
        snapshots.apply(SeqNo(1001), SnapshotOp::Create(record(1001)));
        snapshots.apply(SeqNo(1002), SnapshotOp::Create(record(1002)));
        snapshots.retract_bookmark(1002);
        snapshots.apply(SeqNo(1003), SnapshotOp::Delete(7));
        snapshots.apply(SeqNo(1004), SnapshotOp::Create(record(1004)));
        let next = snapshots.changes(SeqNo(1000), SeqNo(1003));
        assert_eq!(
            next.ops,
            [create(1001), (SeqNo(1003), SnapshotOp::Delete(7))]
        );
        assert_eq!(
            snapshots.changes(SeqNo(1003), SeqNo(1004)).ops,
            [create(1004)]
        );
        assert!(snapshots.changes(SeqNo(1004), SeqNo(1004)).ops.is_empty());
    }

    #[test]
    fn a_snapshot_is_found_by_its_name_until_it_is_deleted_or_taken_back() {
        let snapshots = SnapshotRegistry::new(Bookmarks::default());
        let commit = |name: &str| snapshots.find("app", name).map(|found| found.seq.0);
        for id in 1..=3 {
            snapshots.apply(SeqNo(10 * id), SnapshotOp::Create(record(id)));
        }
        snapshots.apply(SeqNo(40), SnapshotOp::Delete(2));
        snapshots.retract_bookmark(3);
        assert_eq!(["s1", "s2", "s3"].map(commit), [Some(10), None, None]);
        // After an opening.
        let reopened = SnapshotRegistry::new(Bookmarks {
            as_of: snapshots.as_of(),
            last_id: snapshots.last_id(),
            list: snapshots.bookmarks_where(|_| true),
        });
        assert_eq!(reopened.find("app", "s1"), snapshots.find("app", "s1"));
        assert_eq!(reopened.find("other", "s1"), None);
    }

    #[test]
    fn a_hold_and_its_snapshot_have_names_of_their_own_and_neither_pins_alone() {
        let snapshots = SnapshotRegistry::new(Bookmarks::default());
        snapshots.apply(SeqNo(10), SnapshotOp::Create(record(1)));
        snapshots.apply(SeqNo(20), SnapshotOp::Create(record(2)));
        snapshots.apply(SeqNo(30), SnapshotOp::Create(hold(3, 10)));
        let found = |name: &str| {
            let found = snapshots.find("app", name);
            found.map(|found| (found.seq.0, found.record.id))
        };
        let all = ["s1", "s2", "hold/h3"];
        let expected = [Some((10, 1)), Some((20, 2)), Some((10, 3))];
        assert_eq!(all.map(found), expected);
        let census = snapshots.census();
        assert_eq!((census.snapshots, census.holds), (2, 1));
        assert_eq!(snapshots.shared_seqs(span()), [SeqNo(10)]);
        assert_eq!(snapshots.pin_points(span(), 0).lone, [(SeqNo(20), 2)]);

        snapshots.apply(SeqNo(40), SnapshotOp::Create(hold(4, 20)));
        snapshots.retract_bookmark(4);
        snapshots.apply(SeqNo(50), SnapshotOp::Delete(1));
        assert_eq!(all.map(found), [None, expected[1], expected[2]]);
        assert_eq!(snapshots.bookmark_seqs(span()), [10, 20].map(SeqNo));
        assert!(snapshots.shared_seqs(span()).is_empty());
        let lone = snapshots.pin_points(span(), 0).lone;
        assert_eq!(lone, [(SeqNo(10), 3), (SeqNo(20), 2)]);
        let mut recorded = Bookmarks::default();
        recorded.catch_up(snapshots.changes(SeqNo::ZERO, snapshots.as_of()));
        assert_eq!(recorded.list, snapshots.bookmarks_where(|_| true));
    }
}
