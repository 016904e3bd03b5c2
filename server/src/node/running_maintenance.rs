//! A backup, a restore or a verification of a node, as the clients of jobs see it.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebb_jobs::history::JobRecord;
use ebb_scheduler::model::JobId;
use ebb_scheduler::runtime::{Lease, Outcome};
use ebb_storage::MaintenanceProgress;
use tokio::sync::Notify;

use super::byte_rate::ByteRate;
use super::ended::word;
use crate::jobs::{ByteProgress, JobProgress, JobView, Run};

/// A handle of a backup, a restore or a verification that runs on this node. Clones stand for the same one.
#[derive(Clone)]
pub(crate) struct RunningMaintenance {
    shared: Arc<Shared>,
}

struct Shared {
    record: JobRecord,
    policy: &'static str,
    lease: Lease,
    state: Mutex<State>,
    ended: Condvar,
    /// Wakes async tasks that wait for the end of the work. `ended` wakes blocked threads.
    notify: Notify,
}

struct State {
    phase: Phase,
    done: MaintenanceProgress,
    rate: ByteRate,
    /// The outcome: `succeeded`, `failed` or `cancelled`. It is `failed` until
    /// [`note_outcome`](RunningMaintenance::note_outcome), which a thread that panics does not call.
    outcome: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Working,
    Cancelled,
    /// The work is ending: it can no longer be cancelled.
    Completing,
    Ended,
}

impl RunningMaintenance {
    /// Returns a handle of work that begins now, under `lease`.
    pub(super) fn new(record: JobRecord, policy: &'static str, lease: Lease) -> Self {
        Self {
            shared: Arc::new(Shared {
                record,
                policy,
                lease,
                state: Mutex::new(State {
                    phase: Phase::Working,
                    done: MaintenanceProgress {
                        bytes_done: 0,
                        bytes_total: 0,
                    },
                    rate: ByteRate::begin(),
                    outcome: "failed",
                }),
                ended: Condvar::new(),
                notify: Notify::new(),
            }),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.shared.record.id
    }

    /// Returns the runtime's id of the lease, under which its control cycles list the CPU time of the work.
    pub(crate) fn lease_id(&self) -> JobId {
        self.shared.lease.id()
    }

    pub(crate) fn record(&self) -> &JobRecord {
        &self.shared.record
    }

    /// Returns the work as clients see it now.
    pub(super) fn view(&self) -> JobView {
        let bytes = self.lock().progress();
        let run = self.shared.lease.status().map(|status| Run {
            inputs: Vec::new(),
            policy: self.shared.policy.to_string(),
            estimate: None,
            progress: JobProgress {
                step: 1,
                steps: 1,
                status,
                waits: None,
                bytes: Some(bytes),
            },
        });
        JobView {
            record: self.record().clone(),
            run,
            prediction: None,
            beyond_horizon: None,
            end: None,
        }
    }

    /// Requests that the work stops. Returns false if it is completing or has ended,
    /// which is too late; true also after an earlier request.
    pub(super) fn cancel(&self) -> bool {
        let mut state = self.lock();
        match state.phase {
            Phase::Working => {}
            Phase::Cancelled => return true,
            Phase::Completing | Phase::Ended => return false,
        }
        state.phase = Phase::Cancelled;
        drop(state);
        // A thread that waits for its share goes on.
        self.shared.lease.cancel();
        true
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.lock().phase == Phase::Cancelled
    }

    /// Notes how far the work is. Returns `Break` if the work is cancelled.
    pub(super) fn advance(&self, now: MaintenanceProgress) -> ControlFlow<()> {
        let mut state = self.lock();
        state.done = now;
        state.rate.note(now.bytes_done);
        if state.phase == Phase::Cancelled {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Notes that the work cannot be cancelled from now on. Returns `Break` if the work is
    /// cancelled already.
    pub(super) fn complete(&self) -> ControlFlow<()> {
        let mut state = self.lock();
        if state.phase == Phase::Cancelled {
            return ControlFlow::Break(());
        }
        state.phase = Phase::Completing;
        ControlFlow::Continue(())
    }

    /// Notes how the work ended.
    pub(super) fn note_outcome(&self, outcome: &Outcome) {
        self.lock().outcome = word(outcome);
    }

    /// Returns how the work ended: `succeeded`, `failed` or `cancelled`.
    pub(super) fn outcome(&self) -> &'static str {
        self.lock().outcome
    }

    /// Notes that the work has ended, and wakes the threads and tasks that wait for the end. Is called after
    /// the end was recorded.
    pub(super) fn end(&self) {
        self.lock().phase = Phase::Ended;
        self.shared.ended.notify_all();
        self.shared.notify.notify_waiters();
    }

    /// Waits until the work has ended, for at most `timeout`.
    pub(super) fn wait_timeout(&self, timeout: Duration) {
        let is_under_way = |state: &mut State| state.phase != Phase::Ended;
        let waited = (self.shared.ended).wait_timeout_while(self.lock(), timeout, is_under_way);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until the work has ended, without blocking a thread.
    pub(crate) async fn ended(&self) {
        loop {
            // This comes before the look: an end between the two is not missed.
            let mut notified = std::pin::pin!(self.shared.notify.notified());
            notified.as_mut().enable();
            if self.lock().phase == Phase::Ended {
                return;
            }
            notified.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn progress(&self) -> ByteProgress {
        ByteProgress {
            bytes_done: self.done.bytes_done,
            bytes_total: self.done.bytes_total,
            bytes_per_s: self.rate.bytes_per_s(),
        }
    }
}
