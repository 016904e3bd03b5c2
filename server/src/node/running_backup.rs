//! A backup that a node makes, as the clients of jobs see it.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebb_jobs::history::JobRecord;
use ebb_scheduler::runtime::Lease;
use ebb_storage::MaintenanceProgress;
use tokio::sync::Notify;

use crate::jobs::{BackupProgress, JobProgress, JobView, Run};

/// A backup under way. Clones are the same backup.
#[derive(Clone)]
pub(crate) struct RunningBackup {
    shared: Arc<Shared>,
}

struct Shared {
    record: JobRecord,
    policy: &'static str,
    lease: Lease,
    state: Mutex<State>,
    ended: Condvar,
    /// The same for those that wait without a thread.
    notify: Notify,
}

struct State {
    phase: Phase,
    progress: BackupProgress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Copying,
    Cancelled,
    /// All bytes are copied: it is too late to cancel.
    Completing,
    Ended,
}

impl RunningBackup {
    /// A backup that works under `lease`.
    pub(super) fn new(record: JobRecord, policy: &'static str, lease: Lease) -> Self {
        Self {
            shared: Arc::new(Shared {
                record,
                policy,
                lease,
                state: Mutex::new(State {
                    phase: Phase::Copying,
                    progress: BackupProgress::default(),
                }),
                ended: Condvar::new(),
                notify: Notify::new(),
            }),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.shared.record.id
    }

    pub(crate) fn record(&self) -> &JobRecord {
        &self.shared.record
    }

    /// Returns the backup as clients see it now.
    pub(super) fn view(&self) -> JobView {
        let progress = self.lock().progress;
        let run = self.shared.lease.status().map(|status| Run {
            inputs: Vec::new(),
            policy: self.shared.policy.to_string(),
            estimate: None,
            progress: JobProgress {
                step: 1,
                steps: 1,
                status,
                waits: None,
                backup: Some(progress),
            },
        });
        JobView {
            record: self.record().clone(),
            run,
            prediction: None,
            end: None,
        }
    }

    /// Requests that the backup stops. Returns false if it is too late.
    pub(super) fn cancel(&self) -> bool {
        let mut state = self.lock();
        match state.phase {
            Phase::Copying => {}
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

    /// Notes how far the backup is. Breaks if it is cancelled.
    pub(super) fn advance(&self, now: MaintenanceProgress) -> ControlFlow<()> {
        let mut state = self.lock();
        state.progress = BackupProgress {
            bytes_done: now.bytes_done,
            bytes_total: now.bytes_total,
        };
        match state.phase {
            Phase::Cancelled => return ControlFlow::Break(()),
            Phase::Copying if now.bytes_done >= now.bytes_total => state.phase = Phase::Completing,
            Phase::Copying | Phase::Completing | Phase::Ended => {}
        }
        ControlFlow::Continue(())
    }

    /// Notes that the backup has ended, and that its end is recorded.
    pub(super) fn end(&self) {
        self.lock().phase = Phase::Ended;
        self.shared.ended.notify_all();
        self.shared.notify.notify_waiters();
    }

    /// Waits for the end for at most `timeout`.
    pub(super) fn wait_timeout(&self, timeout: Duration) {
        let is_under_way = |state: &mut State| state.phase != Phase::Ended;
        let waited = (self.shared.ended).wait_timeout_while(self.lock(), timeout, is_under_way);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for the end, without a thread of its own.
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
