//! Where writes run that would wait for the disk.
//!
//! ```text
//!   connections ── Work ─> queue ─> one thread: executes what is there, syncs once,
//!        ^                                        v
//!        └───────────── responses ────────────────┘
//! ```
//!
//! A write runs on the thread that received it as long as that takes microseconds
//! (`pace`). It does not where each write is acknowledged after an fsync.
//!
//! A write that computes for long would keep all others waiting: it begins anew in [`Lane::Moved`].
//!
//! A write always waits for the group before its own. A write that has waited for several groups is
//! in a queue that does not go away: the lane refuses it, if `Session::may_refuse` allows that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ebb_cql::protocol::{ErrorKind, ErrorResponse};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::connection::{LaneResult, OVERLOADED};
use super::lanes::{Share, Waiting};
use super::pace::WritePace;
use super::session::error;
use super::work::{RequestResult, Work, run_in_lane};
use crate::call::{Lane, Service};

/// Writes that one sync serves at most: the first of them waits for all.
const GROUP_WRITES_MAX: usize = 1024;

/// The groups after which the lane refuses a write, if it has also waited longer than the limit of
/// overload control. The group that runs when the write comes does not count.
const GROUPS_WAITED_MAX: u64 = 4;

/// A write that waits.
pub(super) struct Sent<S: Service> {
    work: Work<S>,
    results: UnboundedSender<LaneResult>,
    /// The number of groups that had begun when the write came.
    groups_before: u64,
}

/// The writes that wait for the commit lane. Its thread ends when this is dropped.
pub(super) struct CommitLane<S: Service> {
    writes: UnboundedSender<Sent<S>>,
    pub pace: Arc<WritePace>,
    /// The number of groups that have begun.
    groups: AtomicU64,
}

impl<S: Service> CommitLane<S> {
    pub(super) fn new(pace: Arc<WritePace>) -> (Self, UnboundedReceiver<Sent<S>>) {
        let (writes, receiver) = unbounded_channel();
        let groups = AtomicU64::new(0);
        let lane = Self {
            writes,
            pace,
            groups,
        };
        (lane, receiver)
    }

    /// Lets a write run there; its result goes to `results`.
    pub(super) fn send(&self, work: Work<S>, results: UnboundedSender<LaneResult>) {
        // Without its thread there is no server any more that would answer.
        drop(self.writes.send(Sent {
            work,
            results,
            groups_before: self.groups.load(Ordering::Relaxed),
        }));
    }
}

/// A write that was executed, unless that panicked.
struct Executed<S: Service> {
    work: Work<S>,
    results: UnboundedSender<LaneResult>,
    ran: Option<RequestResult>,
}

/// Executes writes, group by group, until all senders are gone. Writes that compute for long move to
/// threads of their own, by a task of the runtime.
pub(super) fn commit_writes<S: Service>(mut writes: UnboundedReceiver<Sent<S>>, runtime: &Handle) {
    while let Some(first) = writes.blocking_recv() {
        let mut group = vec![first];
        while group.len() < GROUP_WRITES_MAX {
            match writes.try_recv() {
                Ok(next) => group.push(next),
                Err(_) => break,
            }
        }
        commit_group(group, runtime);
    }
}

fn commit_group<S: Service>(group: Vec<Sent<S>>, runtime: &Handle) {
    let Some(first) = group.first() else {
        return;
    };
    let shared = first.work.shared.clone();
    let groups = shared.commits.groups.fetch_add(1, Ordering::Relaxed);
    let executed: Vec<_> = (group.into_iter())
        .filter_map(|sent| {
            let (mut work, results) = (sent.work, sent.results);
            let begun = Instant::now();
            let waited = begun.saturating_duration_since(work.received_at);
            let groups_waited = groups - sent.groups_before;
            let is_late = groups_waited >= GROUPS_WAITED_MAX && shared.overload.is_too_long(waited);
            if is_late && work.may_refuse {
                shared.overload.rejected_by_commit_lane();
                let ran = Some(Err(error(ErrorKind::Overloaded, OVERLOADED)));
                return Some(Executed { work, results, ran });
            }
            // A panic is an error of one request: the lane goes on.
            let ran = catch_unwind(AssertUnwindSafe(|| work.try_run_briefly()));
            shared.commits.pace.ended(begun, Instant::now());
            let ran = match ran {
                Ok(Some(ran)) => Some(ran),
                Ok(None) => {
                    let work = Box::new(work);
                    runtime.spawn(run_in_lane(Lane::Moved, work, Share::default(), results));
                    return None;
                }
                Err(_) => None,
            };
            Some(Executed { work, results, ran })
        })
        .collect();
    let writes = executed
        .iter()
        .any(|it| matches!(&it.ran, Some(Ok((_, outcome))) if !outcome.is_in_conflict));
    let begun = Instant::now();
    let synced: Result<(), ErrorResponse> = match writes && shared.service.commits_wait_for_sync() {
        true => shared.service.sync(),
        false => Ok(()),
    };
    let sync_took = begun.elapsed();
    for executed in executed {
        let (mut work, results, ran) = (executed.work, executed.results, executed.ran);
        if matches!(&ran, Some(Ok((_, outcome))) if outcome.is_in_conflict) {
            // Behind what came meanwhile, until its time is over.
            shared.commits.send(work, results);
            continue;
        }
        work.spent.synced += sync_took;
        let stream = work.stream();
        let ran = ran.map(|ran| {
            let ran = ran.and_then(|ran| synced.clone().map(|()| ran));
            Waiting {
                value: work.end(ran),
                _memory: None,
            }
        });
        // Nobody hears it where the connection has ended.
        drop(results.send(LaneResult { stream, ran }));
    }
}
