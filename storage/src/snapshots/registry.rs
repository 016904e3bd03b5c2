//! What must be kept: the bookmarks of named snapshots and the live read views.
//!
//! Both are sequence numbers, and both are kept behind one lock, so that there
//! is one protocol (*register under the lock, ask under the lock*):
//!
//! - A view is registered and its number loaded in one critical section. A
//!   number loaded before it is registered could be overtaken by a compaction
//!   that asks in between and drops what the view is about to read.
//! - A transaction's view is registered under the order lock at the last number
//!   given, before that is visible; it reads once it is.
//! - A bookmark is registered under the order lock of the commit queue, at the
//!   moment it gets its number: every later write stands behind it.
//! - Flush and compaction fix their inputs first, then ask for the boundaries.
//!   A view registered after that has a number not below any in the inputs, so
//!   it needs of each key just the newest version, which is always kept. It also
//!   reads the clock after they did, so what was expired for them is for it.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::repeat_n;

use super::{Bookmark, Bookmarks, SnapshotExpiry, SnapshotRecord, SnapshotTables};
use crate::error::{Error, Result};
use crate::key::{Boundaries, ReadPoint, SeqNo, TableId};
use crate::mutation::{self, Mutation};
use crate::runs::KeptFor;
use crate::sync::Mutex;

#[derive(Debug)]
pub(crate) struct SnapshotRegistry {
    state: Mutex<State>,
}

/// The boundaries of a table, to count what snapshots pin.
#[derive(Debug)]
pub(crate) struct PinPoints {
    /// The boundaries at bookmarks and views.
    pub(crate) with: Boundaries,
    /// The boundaries at views alone.
    pub(crate) without: Boundaries,
    /// The number of bookmarks.
    pub(crate) bookmarks: usize,
    /// The bookmarks without a view at the same commit: their commits and the ids of snapshots.
    pub(crate) lone: Vec<(SeqNo, u64)>,
}

#[derive(Debug)]
struct State {
    bookmarks: Bookmarks,
    /// How many views stand at each point.
    views: BTreeMap<ReadPoint, usize>,
    /// The views for which a run was made to keep something.
    costly: BTreeSet<ReadPoint>,
}

impl SnapshotRegistry {
    pub(crate) fn new(bookmarks: Bookmarks) -> Self {
        Self {
            state: Mutex::new(State {
                bookmarks,
                views: BTreeMap::new(),
                costly: BTreeSet::new(),
            }),
        }
    }

    /// Registers a view at the point that `now` gives, and returns it. `now`
    /// reads the visible number and the clock.
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

    /// Registers one more view at a point that is registered already.
    pub(crate) fn share_view(&self, point: ReadPoint) {
        let mut state = self.state.lock().unwrap();
        *state
            .views
            .get_mut(&point)
            .expect("a view stands at this point") += 1;
    }

    /// Remembers the views for which a new run keeps something.
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

    /// Ends a view; true when it was the last one at a point for which
    /// something was kept.
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

    /// Registers a view at a named snapshot: what an open snapshot reads stays,
    /// even when the snapshot is deleted meanwhile.
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

    /// Adds the bookmark of commit `seq`; called in commit order.
    pub(crate) fn add_bookmark(&self, seq: SeqNo, record: SnapshotRecord) {
        self.state.lock().unwrap().bookmarks.add(seq, record);
    }

    /// Takes back a bookmark whose commit failed.
    pub(crate) fn retract_bookmark(&self, id: u64) {
        let mut state = self.state.lock().unwrap();
        state
            .bookmarks
            .list
            .retain(|bookmark| bookmark.record.id != id);
    }

    /// Removes a bookmark by the commit `seq`; called in commit order.
    pub(crate) fn remove_bookmark(&self, seq: SeqNo, id: u64) {
        self.state.lock().unwrap().bookmarks.remove(seq, id);
    }

    /// Sets the time at which a snapshot expires by the commit `seq`; called in
    /// commit order.
    pub(crate) fn set_expiry(&self, seq: SeqNo, expiry: SnapshotExpiry) {
        self.state.lock().unwrap().bookmarks.set_expiry(seq, expiry);
    }

    pub(crate) fn expired(&self, now_ms: u64) -> Vec<SnapshotRecord> {
        let state = self.state.lock().unwrap();
        let expired = |bookmark: &&Bookmark| bookmark.record.has_expired(now_ms);
        let list = state.bookmarks.list.iter().filter(expired);
        list.map(|bookmark| bookmark.record.clone()).collect()
    }

    /// When the next snapshot expires, if one ever does.
    pub(crate) fn next_expiry_ms(&self) -> Option<u64> {
        let state = self.state.lock().unwrap();
        let list = state.bookmarks.list.iter();
        list.filter_map(|bookmark| bookmark.record.expires_ms).min()
    }

    /// The commit as of which the bookmarks are exact.
    pub(crate) fn as_of(&self) -> SeqNo {
        self.state.lock().unwrap().bookmarks.as_of
    }

    /// All bookmarks and the commit as of which they are exact.
    pub(crate) fn bookmarks(&self) -> Bookmarks {
        self.state.lock().unwrap().bookmarks.clone()
    }

    /// The bookmark of a snapshot that has not expired.
    ///
    /// # Errors
    /// As [`SnapshotRegistry::open_snapshot`].
    pub(crate) fn find_live(&self, keyspace: &str, name: &str, now_ms: u64) -> Result<Bookmark> {
        self.state.lock().unwrap().find_live(keyspace, name, now_ms)
    }

    /// The bookmark of a snapshot, which may have expired.
    pub(crate) fn find(&self, keyspace: &str, name: &str) -> Option<Bookmark> {
        self.state.lock().unwrap().find(keyspace, name).cloned()
    }

    pub(crate) fn covers(&self, table: TableId) -> bool {
        self.state
            .lock()
            .unwrap()
            .bookmarks_of(table)
            .next()
            .is_some()
    }

    /// The boundaries of a table: its bookmarks and all views. `now_ms` is the
    /// time by the clock that views read, taken before this call.
    pub(crate) fn boundaries(&self, table: TableId, now_ms: u64) -> Boundaries {
        let state = self.state.lock().unwrap();
        let bookmarks = state.bookmarks_of(table);
        let bookmarks = bookmarks.filter(|_| !mutation::is(Mutation::ForgetBookmarks));
        let bookmarks = bookmarks.map(Bookmark::point);
        let views = state.views.keys().copied();
        let views = views.filter(|_| !mutation::is(Mutation::ForgetViews));
        Boundaries::new(bookmarks.chain(views).collect(), now_ms)
    }

    /// The boundaries of a table with its bookmarks and without them, at one instant.
    pub(crate) fn pin_points(&self, table: TableId, now_ms: u64) -> PinPoints {
        let state = self.state.lock().unwrap();
        let points: Vec<_> = state.bookmarks_of(table).map(Bookmark::point).collect();
        let views = || state.views.keys().copied();
        let is_lone = |bookmark: &&Bookmark| views().all(|view| view.seq != bookmark.seq);
        let lone = state.bookmarks_of(table).filter(is_lone);
        PinPoints {
            lone: lone.map(|lone| (lone.seq, lone.record.id)).collect(),
            bookmarks: points.len(),
            without: Boundaries::new(views().collect(), now_ms),
            with: Boundaries::new(points.into_iter().chain(views()).collect(), now_ms),
        }
    }

    /// The numbers of a table's bookmarks and of all views, ascending; one as often as
    /// something stands at it.
    pub(crate) fn boundary_seqs(&self, table: TableId) -> Vec<SeqNo> {
        let state = self.state.lock().unwrap();
        let bookmarks = state.bookmarks_of(table).map(|bookmark| bookmark.seq);
        let views = (state.views.iter()).flat_map(|(point, count)| repeat_n(point.seq, *count));
        let mut seqs: Vec<_> = bookmarks.chain(views).collect();
        seqs.sort_unstable();
        seqs
    }

    /// The numbers of a table's bookmarks alone, ascending, each once: what the
    /// picker keeps apart. (Views are too short-lived to arrange files by.)
    pub(crate) fn bookmark_seqs(&self, table: TableId) -> Vec<SeqNo> {
        let state = self.state.lock().unwrap();
        let mut seqs: Vec<_> = state.bookmarks_of(table).map(|b| b.seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        seqs
    }

    pub(crate) fn views(&self) -> usize {
        self.state.lock().unwrap().views.values().sum()
    }
}

impl State {
    fn find(&self, keyspace: &str, name: &str) -> Option<&Bookmark> {
        self.bookmarks
            .list
            .iter()
            .find(|b| b.record.keyspace == keyspace && b.record.name == name)
    }

    fn find_live(&self, keyspace: &str, name: &str, now_ms: u64) -> Result<Bookmark> {
        let found = self.find(keyspace, name);
        let live = found.filter(|bookmark| !bookmark.record.has_expired(now_ms));
        live.cloned().ok_or_else(|| Error::NotFound {
            what: "snapshot",
            name: match found {
                Some(_) => format!("{name}, which has expired"),
                None => name.to_string(),
            },
        })
    }

    fn bookmarks_of(&self, table: TableId) -> impl Iterator<Item = &Bookmark> {
        // Of the list that the bookmark before has, which is mostly the same.
        let mut before: Option<(&SnapshotTables, bool)> = None;
        self.bookmarks.list.iter().filter(move |bookmark| {
            let tables = &bookmark.record.tables;
            let known = before.filter(|(other, _)| other.is_shared_with(tables));
            let (_, covers) = known.unwrap_or_else(|| (tables, tables.contains(table)));
            before = Some((tables, covers));
            covers
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The manifest remembered the ids of the snapshots that it listed. One that
    /// was created and deleted between two edits left no trace, and after a
    /// restart its id was given again.
    #[test]
    fn the_id_of_a_deleted_snapshot_is_remembered() {
        let snapshots = SnapshotRegistry::new(Bookmarks::default());
        let record = |id| SnapshotRecord {
            id,
            keyspace: "app".into(),
            name: "s".into(),
            tables: Vec::new().into(),
            single_table: false,
            created_ms: 0,
            expires_ms: None,
        };
        snapshots.add_bookmark(SeqNo(1), record(1));
        snapshots.add_bookmark(SeqNo(2), record(2));
        snapshots.remove_bookmark(SeqNo(3), 2);
        assert_eq!(snapshots.bookmarks().last_id, 2);
    }
}
