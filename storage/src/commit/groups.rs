//! Commits that wait for the disk, in groups: one thread does the work of all commits that came
//! while the disk was busy for the group before.
//!
//! ```text
//!   join ──► group: the first to come leads, the others sleep
//!              │
//!            turn: one group at the disk; later commits are in the next one
//!              │
//!            sync ──► the next group has its turn
//!              │
//!            finish, for all of the group ──► they wake
//! ```
//!
//! A thread sleeps once for a commit, on the condition variable of its own group, and has nothing
//! left to do when it wakes. With one condition variable for all, each step of each group woke
//! every writer, and a commit among 64 writers slept and woke many times.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::group_commit_delay::GroupCommitDelay;
use crate::error::Result;
use crate::sync::{Condvar, Mutex};

/// The groups of commits that wait for the disk.
#[derive(Debug)]
pub(crate) struct Groups<T> {
    state: Mutex<State<T>>,
    /// The leader (the first commit) of the open group waits here, and no other thread.
    turn: Condvar,
}

#[derive(Debug)]
struct State<T> {
    /// The commits in the open group, in the order in which they joined.
    members: Vec<T>,
    open: Arc<Group>,
    /// Whether a group is being written and synced. The open group, which collects members, waits
    /// until this ends.
    is_busy: bool,
    is_leader_waiting: bool,
    delay: GroupCommitDelay,
    /// The number of commits in the open group at which its leader stops waiting for more; 0 while it
    /// does not wait for them.
    wanted: usize,
}

/// The state of a group of commits. The threads of all its commits but the first, the leader, sleep until it
/// ends.
#[derive(Debug, Default)]
struct Group {
    outcome: Mutex<Outcome>,
    ended: Condvar,
}

#[derive(Debug, Default)]
enum Outcome {
    #[default]
    Open,
    /// The results of the group's commits, in the order in which they joined.
    Ended(Vec<Result<()>>),
    /// The leader panicked.
    Abandoned,
}

/// The position of a commit in its group, to be passed to [`Groups::wait`] once.
#[derive(Debug)]
#[must_use = "the first of a group does the work of all of it"]
pub(crate) struct Seat {
    group: Arc<Group>,
    index: usize,
}

impl<T> Groups<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                members: Vec::new(),
                open: Arc::default(),
                is_busy: false,
                is_leader_waiting: false,
                delay: GroupCommitDelay::default(),
                wanted: 0,
            }),
            turn: Condvar::new(),
        }
    }

    /// Adds a commit to the open group, which is the next to be synced. The call of
    /// [`Groups::wait`] for the first commit of a group does the work for the whole group.
    pub(crate) fn join(&self, member: T) -> Seat {
        let mut state = self.state.lock().unwrap();
        state.members.push(member);
        let seat = Seat {
            group: state.open.clone(),
            index: state.members.len() - 1,
        };
        if state.members.len() == state.wanted {
            self.turn.notify_all();
        }
        seat
    }

    /// Returns the member's result once its group has ended. The first member of a group does the
    /// work for all: it calls `sync` with all members while no other group syncs, then `finish`
    /// while the next group may sync. `finish` returns the results of the members, in their order.
    ///
    /// # Errors
    /// The error that `finish` returned for the member.
    ///
    /// # Panics
    /// If the leader panicked.
    pub(crate) fn wait<S>(
        &self,
        seat: Seat,
        sync: impl FnOnce(Vec<T>) -> S,
        finish: impl FnOnce(S) -> Vec<Result<()>>,
    ) -> Result<()> {
        let Seat { group, index } = seat;
        if index > 0 {
            return group.wait(index);
        }
        let (turn, members) = self.take_turn();
        let count = members.len();
        let end = End {
            group: &group,
            is_alone: count == 1,
        };
        let synced = sync(members);
        drop(turn);
        let mut results = finish(synced);
        debug_assert_eq!(results.len(), count);
        let own = std::mem::replace(&mut results[0], Ok(()));
        end.with(results);
        own
    }

    /// Waits until no other group syncs, and perhaps for more commits. Then closes the open group,
    /// and returns its commits with the right to sync them.
    fn take_turn(&self) -> (Turn<'_, T>, Vec<T>) {
        let mut state = self.state.lock().unwrap();
        while state.is_busy {
            state.is_leader_waiting = true;
            state = self.turn.wait(state).unwrap();
        }
        state.is_leader_waiting = false;
        let before = state.members.len();
        if let Some(hold) = state.delay.hold(before) {
            state.wanted = hold.wanted;
            let is_short = |state: &mut State<T>| state.members.len() < hold.wanted;
            let waited = self.turn.wait_timeout_while(state, hold.time_max, is_short);
            (state, _) = waited.unwrap();
            state.wanted = 0;
            let after = state.members.len();
            state.delay.held(hold, before, after);
        }
        state.is_busy = true;
        state.open = Arc::default();
        let members = std::mem::take(&mut state.members);
        let turn = Turn {
            groups: self,
            members: members.len(),
            began: Instant::now(),
        };
        (turn, members)
    }
}

/// The right to write and sync the log, which one group has at a time. Dropping it passes the right
/// to the next group.
struct Turn<'a, T> {
    groups: &'a Groups<T>,
    members: usize,
    began: Instant,
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let took = if cfg!(any(loom, shuttle)) {
            // No time passes in models, and no wait for members would end.
            Duration::ZERO
        } else {
            self.began.elapsed()
        };
        let state = &self.groups.state;
        let mut state = state.lock().unwrap_or_else(|e| e.into_inner());
        let behind = state.members.len();
        state.delay.synced(self.members, behind, took);
        state.is_busy = false;
        let is_leader_waiting = state.is_leader_waiting;
        drop(state);
        if is_leader_waiting {
            self.groups.turn.notify_all();
        }
    }
}

/// A guard of the leader that ends the group: [`End::with`] gives each member its result. If the leader
/// panics before, the drop of the guard wakes the members, which then panic, too.
struct End<'a> {
    group: &'a Group,
    /// Whether the group has one commit only. Then no thread sleeps, and the wake-up, a system
    /// call, is left out.
    is_alone: bool,
}

impl End<'_> {
    fn with(self, results: Vec<Result<()>>) {
        self.group.end(Outcome::Ended(results), self.is_alone);
        std::mem::forget(self);
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.group.end(Outcome::Abandoned, self.is_alone);
    }
}

impl Group {
    fn wait(&self, index: usize) -> Result<()> {
        let mut outcome = self.outcome.lock().unwrap();
        loop {
            match &mut *outcome {
                Outcome::Open => outcome = self.ended.wait(outcome).unwrap(),
                Outcome::Ended(results) => return std::mem::replace(&mut results[index], Ok(())),
                Outcome::Abandoned => panic!("the leader of a group of commits panicked"),
            }
        }
    }

    fn end(&self, outcome: Outcome, is_alone: bool) {
        if is_alone {
            return;
        }
        *self.outcome.lock().unwrap_or_else(|e| e.into_inner()) = outcome;
        self.ended.notify_all();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
