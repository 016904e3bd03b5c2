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

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use ebb_cql::protocol::ErrorResponse;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::connection::LaneResult;
use super::lanes::Waiting;
use super::pace::WritePace;
use super::work::Work;
use crate::call::Service;

/// Writes that one sync serves at most: the first of them waits for all.
const GROUP_WRITES_MAX: usize = 1024;

type Sent<S> = (Work<S>, UnboundedSender<LaneResult>);

/// The writes that wait for the commit lane. Its thread ends when this is dropped.
pub(super) struct CommitLane<S: Service> {
    writes: UnboundedSender<Sent<S>>,
    pub pace: Arc<WritePace>,
}

impl<S: Service> CommitLane<S> {
    pub(super) fn new(pace: Arc<WritePace>) -> (Self, UnboundedReceiver<Sent<S>>) {
        let (writes, receiver) = unbounded_channel();
        (Self { writes, pace }, receiver)
    }

    /// Lets a write run there; its result goes to `results`.
    pub(super) fn send(&self, work: Work<S>, results: UnboundedSender<LaneResult>) {
        // Without its thread there is no server any more that would answer.
        drop(self.writes.send((work, results)));
    }
}

/// Executes writes, group by group, until nobody can send any more.
pub(super) fn commit_writes<S: Service>(mut writes: UnboundedReceiver<Sent<S>>) {
    while let Some(first) = writes.blocking_recv() {
        let mut group = vec![first];
        while group.len() < GROUP_WRITES_MAX {
            match writes.try_recv() {
                Ok(next) => group.push(next),
                Err(_) => break,
            }
        }
        commit_group(group);
    }
}

fn commit_group<S: Service>(group: Vec<Sent<S>>) {
    let Some((first, _)) = group.first() else {
        return;
    };
    let shared = first.shared.clone();
    let executed: Vec<_> = (group.into_iter())
        .map(|(mut work, results)| {
            let begun = Instant::now();
            // A panic is an error of one request: the lane goes on.
            let ran = catch_unwind(AssertUnwindSafe(|| work.try_run())).ok();
            shared.commits.pace.ended(begun, Instant::now());
            (work, results, ran)
        })
        .collect();
    let writes = executed
        .iter()
        .any(|(_, _, ran)| matches!(ran, Some(Ok((_, outcome))) if !outcome.is_in_conflict));
    let synced: Result<(), ErrorResponse> = match writes && shared.service.commits_wait_for_sync() {
        true => shared.service.sync(),
        false => Ok(()),
    };
    for (work, results, ran) in executed {
        if matches!(&ran, Some(Ok((_, outcome))) if outcome.is_in_conflict) {
            // Behind what came meanwhile, until its time is over.
            shared.commits.send(work, results);
            continue;
        }
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
