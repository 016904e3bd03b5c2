//! The commit lane: a queue and a thread for writes that would wait for the disk.
//!
//! ```text
//!   connections ── writes ─> queue ─> one thread: executes what waits, syncs once,
//!        ^                                          v
//!        └────────────── responses ─────────────────┘
//! ```
//!
//! A write runs on the thread that received it as long as that takes microseconds (see `pace`). It
//! runs in this lane if each write is acknowledged after an fsync.
//!
//! A write that computes for long would delay all others: it begins anew in `Lane::Moved`.
//!
//! The writes of one sync are a group, and every write waits for the group before its own. If a
//! write has waited for several groups, the queue does not drain: the lane rejects the write, if
//! `Session::may_refuse` permits that.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::lane_result::{LaneResult, RequestResult, is_in_conflict};
use super::overload::Overload;
use super::pace::WritePace;
use super::replies::overloaded;
use crate::call::{Lane, Service};
use crate::error::Result;

/// The most writes that share one sync. With more of them the first one would wait too long.
const GROUP_WRITES_MAX: usize = 1024;

/// The number of groups (writes of one sync) after which the queue counts as not draining. A write
/// that has waited for this many groups, besides the one that ran when the write arrived, is
/// rejected if it has also waited longer than the limit of overload control.
const GROUPS_WAITED_MAX: u64 = 4;

/// A write in the queue of the commit lane, the thread that commits writes in groups. This is a
/// trait so that modules do not import each other: a request contains the server's shared state,
/// which contains this queue.
pub(super) trait QueuedWrite: Send {
    /// Returns the arrival time of the write; `None` if overload control may not reject the write.
    fn refusable_since(&self) -> Option<Instant>;

    /// Executes the write on a thread on which other requests wait. Returns `None` if the write
    /// took too long for that; then it has written nothing.
    fn try_run_briefly(&mut self) -> Option<RequestResult>;

    /// Queues the write to run again from its start: in [`Lane::Write`] after a conflict, in
    /// [`Lane::Moved`] if it took too long. The result is sent to `results`.
    fn begin_anew(self: Box<Self>, lane: Lane, results: UnboundedSender<LaneResult>);

    /// Returns the result of a write: `ended` is its outcome, or `None` if it panicked; `synced` is
    /// the duration of its sync.
    fn end(self: Box<Self>, ended: Option<RequestResult>, synced: Duration) -> LaneResult;
}

struct Sent {
    write: Box<dyn QueuedWrite>,
    results: UnboundedSender<LaneResult>,
    /// The number of groups (writes of one sync) that had begun when the write arrived.
    groups_before: u64,
}

/// The queue of the commit lane, a thread that commits the writes of all connections. When this is
/// dropped, that thread ends.
pub(super) struct CommitLane {
    writes: UnboundedSender<Sent>,
    pub pace: Arc<WritePace>,
    /// The number of groups (writes of one sync) that have begun.
    groups: Arc<AtomicU64>,
}

impl CommitLane {
    /// Starts the thread that executes the queued writes and commits them in groups. A write that
    /// computes for too long begins anew on other threads ([`Lane::Moved`]), by a task of
    /// `runtime`.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn start<S: Service>(
        service: &Arc<S>,
        overload: &Arc<Overload>,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let (writes, waiting) = unbounded_channel();
        let pace = WritePace::watched(runtime.clone())?;
        let thread = CommitThread {
            service: Arc::downgrade(service),
            overload: overload.clone(),
            pace: pace.clone(),
            groups: Arc::default(),
        };
        let (groups, runtime) = (thread.groups.clone(), runtime.clone());
        std::thread::Builder::new()
            .name("cql-commit".into())
            .spawn(move || {
                // `begin_anew` spawns tasks.
                let _entered = runtime.enter();
                thread.run(waiting);
            })?;
        Ok(Self {
            writes,
            pace,
            groups,
        })
    }

    /// Adds a write to the queue of the commit thread. The result of the write is sent to
    /// `results`.
    pub(super) fn send(&self, write: Box<dyn QueuedWrite>, results: UnboundedSender<LaneResult>) {
        // Without the thread the server is gone, and with it the response.
        drop(self.writes.send(Sent {
            write,
            results,
            groups_before: self.groups.load(Ordering::Relaxed),
        }));
    }
}

/// An executed write of a group, with its result; `None` if the write panicked.
type Ended = (Sent, Option<RequestResult>);

struct CommitThread<S> {
    /// A weak reference: this thread must not keep the database open after the server was dropped.
    /// Every queued write keeps the service alive.
    service: Weak<S>,
    overload: Arc<Overload>,
    pace: Arc<WritePace>,
    groups: Arc<AtomicU64>,
}

impl<S: Service> CommitThread<S> {
    /// Executes writes, group by group, until all senders are dropped.
    fn run(self, mut writes: UnboundedReceiver<Sent>) {
        while let Some(first) = writes.blocking_recv() {
            let mut group = vec![first];
            group.extend(std::iter::from_fn(|| writes.try_recv().ok()).take(GROUP_WRITES_MAX - 1));
            if let Some(service) = self.service.upgrade() {
                self.commit(&service, group);
            }
        }
    }

    fn commit(&self, service: &S, group: Vec<Sent>) {
        let groups = self.groups.fetch_add(1, Ordering::Relaxed);
        let ended: Vec<_> = (group.into_iter())
            .filter_map(|sent| self.execute(sent, groups))
            .collect();
        let has_written = |result: &RequestResult| result.is_ok() && !is_in_conflict(result);
        let writes = (ended.iter()).any(|(_, result)| result.as_ref().is_some_and(has_written));
        let begun = Instant::now();
        let synced: Result<()> = if writes && service.commits_wait_for_sync() {
            service.sync()
        } else {
            Ok(())
        };
        let sync_took = begun.elapsed();
        for (sent, result) in ended {
            if result.as_ref().is_some_and(is_in_conflict) {
                // Behind the writes that arrived meanwhile, until its deadline.
                sent.write.begin_anew(Lane::Write, sent.results);
                continue;
            }
            let result = result.map(|result| result.and_then(|it| synced.clone().map(|()| it)));
            // The receiver is gone if the connection has ended.
            drop(sent.results.send(sent.write.end(result, sync_took)));
        }
    }

    /// Executes a write, or rejects it if it has waited too long, and for too many groups (writes
    /// of one sync). Returns `None` if the write took too long here, and begins anew on other
    /// threads ([`Lane::Moved`]).
    fn execute(&self, mut sent: Sent, groups: u64) -> Option<Ended> {
        let begun = Instant::now();
        let is_too_late = |received_at| {
            let waited = begun.saturating_duration_since(received_at);
            self.overload.is_too_long(waited)
        };
        let waits_long = groups - sent.groups_before >= GROUPS_WAITED_MAX;
        if waits_long && sent.write.refusable_since().is_some_and(is_too_late) {
            self.overload.rejected_by_commit_lane();
            return Some((sent, Some(Err(overloaded()))));
        }
        // A panic is the error of one request; the lane goes on.
        let result = catch_unwind(AssertUnwindSafe(|| sent.write.try_run_briefly()));
        self.pace.ended(begun, Instant::now());
        match result {
            Ok(Some(result)) => Some((sent, Some(result))),
            Ok(None) => {
                sent.write.begin_anew(Lane::Moved, sent.results);
                None
            }
            Err(_) => Some((sent, None)),
        }
    }
}
