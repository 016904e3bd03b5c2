//! The note of a job that runs.

use std::sync::Arc;

use anyhow::{Context, Result};
use ebb_scheduler::runtime::{JobJournal, JobReport, Outcome};
use ebb_server::jobs::history::{CommitNote, History, NotedJob, NotedState, Recorder};
use serde_json::{Value, json};

use super::told::Told;

/// Its note in the history, and who writes down what its tasks take.
pub(super) struct Note<'a> {
    history: &'a History,
    noted: NotedJob,
    recorder: Arc<Recorder>,
}

impl<'a> Note<'a> {
    /// Of a job that begins; none of its attempts are noted yet. Its output will be told
    /// through `commits`.
    pub(super) fn new(history: &'a History, noted: NotedJob, commits: &CommitNote) -> Result<Self> {
        let recorder = Recorder::start(history, &noted).context("cannot start a thread")?;
        commits.set(history, &noted);
        Ok(Self {
            history,
            noted,
            recorder: Arc::new(recorder),
        })
    }

    /// What the runtime is to tell of the job's attempts.
    pub(super) fn journal(&self) -> Arc<dyn JobJournal> {
        Arc::clone(&self.recorder) as Arc<dyn JobJournal>
    }

    /// Notes how it ended; if well, what it took too, for the next one that does
    /// `work`. `input` says what it read, `told` how long it was believed to take.
    ///
    /// # Errors
    /// When the store fails. That attempts could not be written is no reason not to note
    /// the end.
    pub(super) fn end(
        mut self,
        report: &JobReport,
        work: &Value,
        input: &str,
        told: Option<&Told>,
    ) -> Result<()> {
        let recorded = self.recorder.finish();
        if let Ok(recorded) = &recorded {
            self.noted.attempts_dropped = recorded.attempts_dropped;
        }
        let state = match report.outcome {
            Outcome::Succeeded => NotedState::Succeeded,
            Outcome::Failed { .. } => NotedState::Failed,
            Outcome::Cancelled => NotedState::Cancelled,
        };
        self.history.end(&self.noted, state, Some(json!(report)))?;
        let measured = recorded?.measured;
        if state == NotedState::Succeeded {
            let took_s = report.finished_s - report.submitted_s;
            let off = told.map(|told| told.advice.took_over_estimate(took_s));
            (self.history).note_profile(&self.noted, work, input, measured, off)?;
        }
        Ok(())
    }

    /// Notes that it could not be run.
    pub(super) fn fail(self, cause: &str) -> Result<()> {
        self.recorder.finish()?;
        fail(self.history, &self.noted, cause)
    }

    /// Takes it back: it never started.
    pub(super) fn forget(self) -> Result<()> {
        self.recorder.finish()?;
        Ok(self.history.forget(&self.noted.id)?)
    }
}

/// Notes that a job succeeded, without a report of a runtime: its figures are not known.
pub(super) fn succeed(history: &History, noted: &NotedJob) -> Result<()> {
    let report: Value = json!({"outcome": {"kind": "succeeded"}});
    Ok(history.end(noted, NotedState::Succeeded, Some(report))?)
}

/// Notes that a job failed for `cause`, without a report of a runtime.
pub(super) fn fail(history: &History, noted: &NotedJob, cause: &str) -> Result<()> {
    let report: Value = json!({"outcome": {"kind": "failed", "cause": cause}});
    Ok(history.end(noted, NotedState::Failed, Some(report))?)
}
