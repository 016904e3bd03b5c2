//! Records the attempts of a job while it runs.
//!
//! The runtime reports an attempt on the thread of a task, which may lose its core at any time,
//! while a write takes locks that transactions wait for. So a thread of ordinary priority writes
//! the attempts, up to `BATCH_MAX` waiting ones by one commit.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use ebb_scheduler::model::JobId;
use ebb_scheduler::runtime::{
    AttemptOutcome, AttemptRecord, JobJournal, JobReport, JobStatus, MeasuredProfile, Outcome,
};

use super::attempts::{ATTEMPTS_KEPT_MAX, AttemptTable, JobAttempt};
use super::{History, HistoryError, JobRecord};

/// The largest number of attempts that one commit writes to the history.
const BATCH_MAX: usize = 256;

/// The largest length of a recorded cause of a failed attempt, in bytes, without the "..." at the end of a
/// cause that was cut: a cause may contain a whole record.
const CAUSE_BYTES_MAX: usize = 1000;

/// The recorder of the attempts of one recorded job, which may consist of several jobs of the
/// runtime.
#[derive(Debug)]
pub struct Recorder {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The channel to the thread that writes attempts, and its handle; `None` after `finish`.
    writer: Option<(Sender<JobAttempt>, JoinHandle<Lost>)>,
    sent: u32,
    /// The ids of the jobs of the runtime, in the order in which they were submitted.
    steps: Vec<JobId>,
    recorded: Recorded,
}

impl State {
    /// Returns the position of a job of the runtime in the chain, from 1. Adds the job if it is new.
    fn step(&mut self, job: JobId) -> u64 {
        let known = self.steps.iter().position(|step| *step == job);
        let step = known.unwrap_or_else(|| {
            self.steps.push(job);
            self.steps.len() - 1
        });
        step as u64 + 1
    }
}

/// The number of attempts that the store failed to write, and the reason.
#[derive(Debug, Default)]
struct Lost {
    attempts: u64,
    /// The first error of the store.
    cause: Option<HistoryError>,
}

/// A summary of the recorded attempts.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The number of attempts that are not in the database: those beyond [`ATTEMPTS_KEPT_MAX`], and those
    /// that the store failed to write.
    pub attempts_dropped: u64,
    /// The first error of the store, if it failed to write attempts.
    pub failure: Option<HistoryError>,
    /// The profile of each job of the runtime that succeeded, with its name, in the order
    /// of their ends.
    pub measured: Vec<(String, MeasuredProfile)>,
}

impl Recorder {
    /// Starts a recorder for the attempts at the tasks of `job`, which must have no recorded
    /// attempts so far. The caller must be a thread of ordinary priority, because the new thread
    /// inherits this priority.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(history: &History, job: &JobRecord) -> io::Result<Self> {
        let (sender, attempts) = channel();
        let (table, id) = (history.attempts.clone(), job.id.clone());
        let writer = thread::Builder::new()
            .name("ebb-history".to_owned())
            .spawn(move || write(&table, &id, &attempts))?;
        Ok(Self {
            state: Mutex::new(State {
                writer: Some((sender, writer)),
                sent: 0,
                steps: Vec::new(),
                recorded: Recorded::default(),
            }),
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until all attempts reported so far are written or lost, and returns a summary. Attempts
    /// that are reported later are lost, and the summary does not count them.
    pub fn finish(&self) -> Recorded {
        let (writer, mut recorded) =
            self.with(|state| (state.writer.take(), std::mem::take(&mut state.recorded)));
        if let Some((sender, writer)) = writer {
            drop(sender);
            let lost = writer.join().expect("writing attempts does not panic");
            recorded.attempts_dropped += lost.attempts;
            recorded.failure = lost.cause;
        }
        recorded
    }
}

/// Ends the thread that writes attempts, which would otherwise keep the database open.
impl Drop for Recorder {
    fn drop(&mut self) {
        // A caller that needs the summary has called `finish` before.
        drop(self.finish());
    }
}

/// Returns the attempt. A cause longer than [`CAUSE_BYTES_MAX`] is cut and ends with "...".
fn bounded(mut attempt: AttemptRecord) -> AttemptRecord {
    if let AttemptOutcome::Failed { cause } = &mut attempt.outcome
        && cause.len() > CAUSE_BYTES_MAX
    {
        cause.truncate(cause.floor_char_boundary(CAUSE_BYTES_MAX));
        cause.push_str("...");
    }
    attempt
}

/// Writes the attempts that arrive in the channel, until all its senders are dropped. A batch that the
/// store fails to write is lost, and the next one is written all the same: the disk may have space again.
fn write(table: &AttemptTable, job: &str, attempts: &Receiver<JobAttempt>) -> Lost {
    let mut lost = Lost::default();
    let mut number = 0;
    while let Ok(first) = attempts.recv() {
        let mut batch = vec![first];
        batch.extend(attempts.try_iter().take(BATCH_MAX - 1));
        if let Err(error) = table.add(job, number, &batch) {
            lost.attempts += batch.len() as u64;
            lost.cause.get_or_insert(error);
        }
        // The numbers of lost attempts stay free: after some errors the store may have the batch all the same.
        number += batch.len() as u32;
    }
    lost
}

impl JobJournal for Recorder {
    fn submitted(&self, job: &JobStatus) {
        self.with(|state| {
            state.step(job.id);
        });
    }

    fn attempt_ended(&self, job: JobId, attempt: &AttemptRecord) {
        self.with(|state| {
            if state.sent == ATTEMPTS_KEPT_MAX {
                state.recorded.attempts_dropped += 1;
                return;
            }
            state.sent += 1;
            let attempt = JobAttempt {
                job: state.step(job),
                record: bounded(attempt.clone()),
            };
            if let Some((sender, _)) = &state.writer {
                // The writer receives until the sender is dropped. If it panics, so does `finish`.
                let _ = sender.send(attempt);
            }
        });
    }

    fn ended(&self, report: &JobReport, measured: &MeasuredProfile) {
        if report.outcome == Outcome::Succeeded {
            let measured = (report.name.clone(), *measured);
            self.with(|state| state.recorded.measured.push(measured));
        }
    }
}
