//! The registry of the jobs that a node runs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ebb_jobs::request::OutputPlace;
use ebb_scheduler::runtime::{Outcome, SubmitError, TaskError};
use ebb_tables::names::TableName;

use super::ended::{EndedJobs, word};
use super::running::{RunningJob, Stop};
use super::running_maintenance::RunningMaintenance;
use crate::jobs::JobEnd;

/// The most ended jobs that are kept for [`Registry::take_ended`].
const UNREPORTED_MAX: usize = 1024;

/// The running jobs, backups and verifications of a node by id; the claims to jobs; the counts of ended jobs;
/// and the latest jobs, backups and verifications that ended.
#[derive(Default)]
pub(super) struct Registry {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<String, RunningJob>,
    maintenance: BTreeMap<String, RunningMaintenance>,
    /// The claims to jobs, by the ids of the jobs.
    claims: BTreeMap<String, Claim>,
    /// The threads that drive jobs to their end.
    drivers: Vec<JoinHandle<()>>,
    /// The latest id that [`Registry::next_id`] returned, as a number; 0 before the first one.
    last_id: u64,
    closed: Option<Stop>,
    ended: EndedJobs,
    /// Ended jobs, backups and verifications that [`Registry::take_ended`] has not returned yet, the oldest
    /// first.
    unreported: VecDeque<EndedJob>,
}

/// A claim to a job.
#[derive(Default)]
struct Claim {
    /// The table that the job writes to; `None` if it writes to none, or has not claimed it yet.
    output: Option<TableName>,
    /// Whether the job is new and does not run yet. The claim to a new job is taken before the
    /// record of the job is written, so other threads never find the record without the claim.
    is_new: bool,
}

/// The end of a job, a backup, a restore or a verification; also of a job that was discarded, or whose restart found
/// that it cannot or need not start again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndedJob {
    pub(crate) id: String,
    /// The outcome: `succeeded`, `failed`, `cancelled` or `parked`.
    pub(crate) state: &'static str,
    /// The time of the end, in seconds of the runtime's time; `None` for a backup, a restore, a verification or a
    /// job that did not run, whose ends are not predicted.
    pub(crate) finished_s: Option<f64>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a new id for a job, a backup or a verification that is in no history: the present time in
    /// milliseconds since 1970, or one more than the last id if that is greater, in 13 digits.
    pub(super) fn next_id(&self, now_unix_ms: u64) -> String {
        let mut state = self.lock();
        state.last_id = now_unix_ms.max(state.last_id + 1);
        format!("{:013}", state.last_id)
    }

    /// Claims a job, to start it or to change its record, until the result is dropped. Returns `None` if
    /// it is claimed already, or runs.
    pub(super) fn claim(self: &Arc<Self>, id: &str) -> Option<JobClaim> {
        self.insert(id, Claim::default())
    }

    /// Claims a job as [`claim`](Self::claim) does, and notes that the job is new: until it runs,
    /// [`is_starting`](Self::is_starting) returns true.
    pub(super) fn claim_new(self: &Arc<Self>, id: &str) -> Option<JobClaim> {
        let claim = Claim {
            is_new: true,
            ..Claim::default()
        };
        self.insert(id, claim)
    }

    fn insert(self: &Arc<Self>, id: &str, claim: Claim) -> Option<JobClaim> {
        let mut state = self.lock();
        if state.claims.contains_key(id) || state.runs(id) {
            return None;
        }
        state.claims.insert(id.to_string(), claim);
        Some(JobClaim {
            registry: Arc::clone(self),
            id: id.to_string(),
        })
    }

    /// Adds a job. If the node is closed already, stops the job in the same way as the other jobs.
    pub(super) fn add(&self, job: RunningJob) {
        let closed = {
            let mut state = self.lock();
            if !state.jobs.is_empty() || !state.maintenance.is_empty() {
                job.note_company();
            }
            state.note_company();
            state.note_start(job.id());
            state.jobs.insert(job.id().to_string(), job.clone());
            state.closed
        };
        if let Some(how) = closed {
            job.stop(how);
        }
    }

    /// Keeps the thread that drives a job, so that [`Registry::close`] can wait for it. Drops the
    /// handles of threads that have ended.
    pub(super) fn keep(&self, driver: JoinHandle<()>) {
        let mut state = self.lock();
        state.drivers.retain(|driver| !driver.is_finished());
        state.drivers.push(driver);
    }

    /// Lists a backup or a verification as running until the result is dropped. The drop wakes the
    /// clients that wait for the end.
    pub(super) fn list<'a>(&'a self, work: &'a RunningMaintenance) -> Listed<'a> {
        let id = work.id().to_string();
        {
            let mut state = self.lock();
            state.note_company();
            state.note_start(&id);
            state.maintenance.insert(id, work.clone());
        }
        let registry = self;
        Listed { registry, work }
    }

    pub(super) fn maintenance(&self, id: &str) -> Option<RunningMaintenance> {
        self.lock().maintenance.get(id).cloned()
    }

    /// Returns the running backups, restores and verifications, ascending by id.
    pub(super) fn all_maintenance(&self) -> Vec<RunningMaintenance> {
        self.lock().maintenance.values().cloned().collect()
    }

    /// Returns whether a job, a backup or a verification with this id runs.
    pub(super) fn is_running(&self, id: &str) -> bool {
        self.lock().runs(id)
    }

    /// Returns whether a new job, backup or verification with this id is being started. It may have
    /// a record in the history, but does not run yet. If a job cannot start, its record is deleted.
    pub(super) fn is_starting(&self, id: &str) -> bool {
        let state = self.lock();
        state.claims.get(id).is_some_and(|claim| claim.is_new)
    }

    /// Counts an ended job by its outcome, and removes it from the running ones. Returns the word for the
    /// outcome: `succeeded`, `failed`, `cancelled` or `parked`.
    pub(super) fn end(&self, id: &str, end: &JobEnd) -> &'static str {
        let mut state = self.lock();
        let word = state.ended.count(end);
        state.note_end(EndedJob {
            id: id.to_string(),
            state: word,
            finished_s: Some(end.report.finished_s),
        });
        state.jobs.remove(id);
        word
    }

    /// Keeps the end of a job that does not run, for [`take_ended`](Self::take_ended).
    pub(super) fn note_end_of_unstarted(&self, id: &str, outcome: &Outcome) {
        self.lock().note_end(EndedJob {
            id: id.to_string(),
            state: word(outcome),
            finished_s: None,
        });
    }

    /// Removes and returns the jobs, backups and verifications that ended since the last call; of more than
    /// [`UNREPORTED_MAX`], the latest.
    pub(super) fn take_ended(&self) -> Vec<EndedJob> {
        self.lock().unreported.drain(..).collect()
    }

    /// Returns whether the node refuses new jobs because it shuts down.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed.is_some()
    }

    /// Returns the numbers of ended jobs by outcome.
    pub(super) fn ended(&self) -> EndedJobs {
        self.lock().ended
    }

    pub(super) fn get(&self, id: &str) -> Option<RunningJob> {
        self.lock().jobs.get(id).cloned()
    }

    pub(super) fn all(&self) -> Vec<RunningJob> {
        self.lock().jobs.values().cloned().collect()
    }

    /// Cancels or parks all jobs, as `how` states, and waits until they have ended. From the start of this
    /// call on, [`add`](Self::add) stops each new job.
    pub(super) fn close(&self, how: Stop) {
        {
            let mut state = self.lock();
            state.closed = state.closed.max(Some(how));
        }
        for job in self.all() {
            job.stop(how);
        }
        let drivers = std::mem::take(&mut self.lock().drivers);
        for driver in drivers {
            // An error is a panic of the thread, which has printed itself.
            let _ = driver.join();
        }
    }
}

impl State {
    /// Notes for each running job that another job, a backup or a verification runs at the same time.
    fn note_company(&self) {
        self.jobs.values().for_each(RunningJob::note_company);
    }

    /// Notes that the job with this id runs from now on. The claim to a job may be held until after
    /// the job has ended, and then the job is not new any more.
    fn note_start(&mut self, id: &str) {
        if let Some(claim) = self.claims.get_mut(id) {
            claim.is_new = false;
        }
    }

    /// Keeps an end for [`Registry::take_ended`].
    fn note_end(&mut self, ended: EndedJob) {
        if self.unreported.len() == UNREPORTED_MAX {
            self.unreported.pop_front();
        }
        self.unreported.push_back(ended);
    }

    fn runs(&self, id: &str) -> bool {
        self.jobs.contains_key(id) || self.maintenance.contains_key(id)
    }
}

/// The sole right to start a job or to change its record, until this is dropped.
pub(super) struct JobClaim {
    registry: Arc<Registry>,
    id: String,
}

impl JobClaim {
    /// Claims the output table of the job, too, if `place` is a table. Otherwise two jobs that find the
    /// table empty would mix their rows in it. A file or a folder needs no claim: of two jobs with the same
    /// one, the second to commit fails.
    ///
    /// # Errors
    /// When another job has claimed the table.
    pub(super) fn take_output(&self, place: &OutputPlace) -> Result<(), SubmitError> {
        let OutputPlace::Table(table) = place else {
            return Ok(());
        };
        let mut state = self.registry.lock();
        let taken = (state.claims.iter()).find(|(_, claim)| claim.output.as_ref() == Some(table));
        if let Some((other, _)) = taken {
            let cause = format!("job {other} writes to table {table}: wait until it has ended");
            return Err(SubmitError::Output(TaskError::failed(cause)));
        }
        if let Some(own) = state.claims.get_mut(&self.id) {
            own.output = Some(table.clone());
        }
        Ok(())
    }
}

impl Drop for JobClaim {
    fn drop(&mut self) {
        self.registry.lock().claims.remove(&self.id);
    }
}

/// A backup or a verification in the registry, until this is dropped.
pub(super) struct Listed<'a> {
    registry: &'a Registry,
    work: &'a RunningMaintenance,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let ended = EndedJob {
            id: self.work.id().to_string(),
            state: self.work.outcome(),
            finished_s: None,
        };
        let mut state = self.registry.lock();
        state.maintenance.remove(&ended.id);
        state.note_end(ended);
        drop(state);
        self.work.end();
    }
}
