//! What can be done with the jobs of a node.

use std::sync::Arc;
use std::thread;

use ebb_scheduler::runtime::SubmitError;
use serde_json::json;

use super::Node;
use super::drive::{Recording, Steps, drive, failed};
use super::running::{ReadInput, RunningJob};
use crate::jobs::advice::{Expectation, Expected, FreeCores};
use crate::jobs::history::{
    History, JobAttempt, JobRecord, KnownProfile, ProfileRecord, RecordState, Recorder, now_unix_ms,
};
use crate::jobs::launch::{Launched, delete_own_snapshots, launch, output_is_there};
use crate::jobs::request::JobRequest;
use crate::jobs::restart::{Fate, fate};
use crate::jobs::{JobError, Work};

/// What came of a job that was to start again.
pub enum Restarted {
    /// It runs.
    Runs(RunningJob),
    /// It had succeeded: its output is there, which it was about to put in place.
    HadSucceeded {
        /// Its record.
        record: JobRecord,
        /// What it was.
        request: Box<JobRequest>,
    },
    /// It does not start again, and is recorded as failed.
    GivenUp {
        /// Why.
        cause: String,
    },
}

impl Node {
    /// Starts a job. Its inputs and its output are opened on the calling thread; it is
    /// recorded, where there is a database, before its first task starts.
    ///
    /// # Errors
    /// When the request makes no sense, what it names is not there, or its output refuses.
    /// Nothing is left of it then.
    pub fn submit(&self, request: JobRequest) -> Result<RunningJob, JobError> {
        let free = request.goal_s.map(|_| FreeCores::start());
        let launched = launch(&request, &[], &self.site)?;
        let history = self.history()?;
        let record = match history {
            Some(history) => history.begin(&request, launched.own_snapshots())?,
            None => self.unrecorded(&request),
        };
        let id = record.id.clone();
        let started = self.run(request, record, launched, free);
        if let (Err(_), Some(history)) = (&started, history) {
            // It never started.
            history.forget(&id)?;
        }
        started
    }

    /// What can be told of a job before it starts; nothing of it is left.
    ///
    /// # Errors
    /// As [`Node::submit`].
    pub fn expect(&self, request: &JobRequest) -> Result<(Expectation, Vec<ReadInput>), JobError> {
        let free = FreeCores::start();
        let launched = launch(request, &[], &self.site)?;
        if let Some(Work::Job(spec)) = &launched.work {
            spec.output.check().map_err(SubmitError::Output)?;
        }
        let known = self.known(request)?;
        let expected = self.expected(request, &launched, known.as_ref(), free)?;
        Ok((expected, read(&launched)))
    }

    /// Starts an unfinished job again, over the snapshots that were made for it; or says
    /// and records why not.
    ///
    /// # Errors
    /// When there is no such job, it runs or has ended, or this build cannot follow its
    /// request: then it stays as it is. When it does not start, it is recorded as failed.
    pub fn restart(&self, id: &str) -> Result<Restarted, JobError> {
        let record = self.job(id)?;
        self.check_not_running(&record)?;
        let history = self.recorded()?;
        let there = |request: &JobRequest| output_is_there(request, &self.site);
        let request = match fate(&record, there)? {
            Fate::Start(request) => request,
            Fate::Succeeded(request) => {
                let report = json!({"outcome": {"kind": "succeeded"}});
                self.end_unstarted(&record, RecordState::Succeeded, report)?;
                return Ok(Restarted::HadSucceeded { record, request });
            }
            Fate::GiveUp(cause) => {
                self.end_unstarted(&record, RecordState::Failed, failed(&cause))?;
                return Ok(Restarted::GivenUp { cause });
            }
        };
        let free = request.goal_s.map(|_| FreeCores::start());
        let started = launch(&request, &record.own_snapshots, &self.site).and_then(|launched| {
            let again = history.begin_again(&record, launched.own_snapshots())?;
            self.run(*request, again, launched, free)
        });
        if let Err(error) = &started {
            let again = history.job(&record.id)?.unwrap_or(record);
            self.end_unstarted(&again, RecordState::Failed, failed(&error.to_string()))?;
        }
        started.map(Restarted::Runs)
    }

    /// All jobs that are remembered, the oldest first; without a database, those that run.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn jobs(&self) -> Result<Vec<JobRecord>, JobError> {
        match self.existing_history()? {
            Some(history) => Ok(history.jobs()?),
            None => {
                let running = self.registry.all();
                Ok(running.iter().map(|job| job.record().clone()).collect())
            }
        }
    }

    /// The job of this id; of `last` the latest.
    ///
    /// # Errors
    /// When there is none, or the history cannot be read.
    pub fn job(&self, id: &str) -> Result<JobRecord, JobError> {
        let mut jobs = self.jobs()?;
        let found = match id {
            "last" => jobs.len().checked_sub(1),
            id => jobs.iter().position(|job| job.id == id),
        };
        match found {
            Some(found) => Ok(jobs.swap_remove(found)),
            None => {
                let known = jobs.into_iter().rev().map(|job| job.id).collect();
                Err(JobError::unknown_job(id, known))
            }
        }
    }

    /// The jobs that did not end and do not run here, the oldest first: those of processes
    /// that ended before them, and parked ones.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn unfinished(&self) -> Result<Vec<JobRecord>, JobError> {
        let mut jobs = self.jobs()?;
        jobs.retain(|job| {
            job.state == RecordState::Started && self.registry.get(&job.id).is_none()
        });
        Ok(jobs)
    }

    /// The attempts at the tasks of a job, in the order in which they ended.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn attempts(&self, id: &str) -> Result<Vec<JobAttempt>, JobError> {
        match self.existing_history()? {
            Some(history) => Ok(history.attempts(id)?),
            None => Ok(Vec::new()),
        }
    }

    /// What tasks took, by application.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn profiles(&self) -> Result<Vec<ProfileRecord>, JobError> {
        match self.existing_history()? {
            Some(history) => Ok(history.profiles()?),
            None => Ok(Vec::new()),
        }
    }

    /// The job of this id, if it runs here: to see how far it is, and to wait for it.
    pub fn running(&self, id: &str) -> Option<RunningJob> {
        self.registry.get(id)
    }

    /// Asks a job that runs here to stop. False when it has ended, or its output is being
    /// put in place.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn cancel(&self, id: &str) -> Result<bool, JobError> {
        match self.running(id) {
            Some(job) => Ok(job.cancel()),
            None => self.job(id).map(|_| false),
        }
    }

    /// Ends an unfinished job without starting it again: it is recorded as cancelled, and
    /// the snapshots that were made for it go.
    ///
    /// # Errors
    /// When there is no such job, or it runs or has ended.
    pub fn discard(&self, id: &str) -> Result<JobRecord, JobError> {
        let record = self.job(id)?;
        self.check_not_running(&record)?;
        if record.state != RecordState::Started {
            let (application, id) = (&record.application, &record.id);
            return Err(JobError::senseless(format!(
                "{application} {id} has ended: there is nothing to discard"
            )));
        }
        let report = json!({"outcome": {"kind": "cancelled"}});
        self.end_unstarted(&record, RecordState::Cancelled, report)?;
        Ok(record)
    }

    /// The history, made when absent; none without a database.
    fn history(&self) -> Result<Option<&History>, JobError> {
        let Some(db) = &self.site.db else {
            return Ok(None);
        };
        if let Some(history) = self.history.get() {
            return Ok(Some(history));
        }
        let opened = History::open(db)?;
        Ok(Some(self.history.get_or_init(|| opened)))
    }

    /// The history, if any job was recorded.
    fn existing_history(&self) -> Result<Option<History>, JobError> {
        let opened = self.history.get().cloned();
        match (opened, &self.site.db) {
            (Some(history), _) => Ok(Some(history)),
            (None, Some(db)) => Ok(History::existing(db)?),
            (None, None) => Ok(None),
        }
    }

    /// The history that a record was found in.
    fn recorded(&self) -> Result<&History, JobError> {
        let no = || JobError::NoDatabase("the history of jobs".to_string());
        self.history()?.ok_or_else(no)
    }

    fn check_not_running(&self, record: &JobRecord) -> Result<(), JobError> {
        let JobRecord {
            application, id, ..
        } = record;
        match self.running(id) {
            Some(_) => Err(JobError::senseless(format!(
                "{application} {id} is running: cancel it first"
            ))),
            None => Ok(()),
        }
    }

    /// Records the end of a job that does not start, whose snapshots go.
    fn end_unstarted(
        &self,
        record: &JobRecord,
        state: RecordState,
        report: serde_json::Value,
    ) -> Result<(), JobError> {
        self.recorded()?.end(record, state, Some(report))?;
        if let Some(db) = self.db() {
            delete_own_snapshots(db, &record.own_snapshots);
        }
        Ok(())
    }

    /// The record of a job that no history has.
    fn unrecorded(&self, request: &JobRequest) -> JobRecord {
        let now_unix_ms = now_unix_ms();
        let id = self.registry.next_id(now_unix_ms);
        JobRecord::new(id, request, Vec::new(), now_unix_ms)
    }

    /// What is known of what the tasks of such a job take.
    fn known(&self, request: &JobRequest) -> Result<Option<KnownProfile>, JobError> {
        let name = request.application.name();
        match self.existing_history()? {
            Some(history) => Ok(history.known_profile(name, &request.work())?),
            None => Ok(None),
        }
    }

    fn expected(
        &self,
        request: &JobRequest,
        launched: &Launched,
        known: Option<&KnownProfile>,
        free: FreeCores,
    ) -> Result<Expectation, JobError> {
        let Some(work) = &launched.work else {
            unreachable!("nobody has taken it yet");
        };
        let expected = Expected {
            name: request.application.name(),
            work,
            known: self.site.db.as_ref().map(|_| known),
            cores: launched.cores,
            machine_cores: super::machine_cores(),
            goal_s: request.goal_s,
        };
        expected.expect(free)
    }

    /// Submits what was launched, and has a thread see to its end.
    fn run(
        &self,
        request: JobRequest,
        record: JobRecord,
        mut launched: Launched,
        free: Option<FreeCores>,
    ) -> Result<RunningJob, JobError> {
        let known = self.known(&request)?;
        let expected = free.map(|free| self.expected(&request, &launched, known.as_ref(), free));
        let expected = expected.transpose()?;
        let recording = match self.history()? {
            Some(history) => {
                let recorder = Recorder::start(history, &record);
                launched.commits.set(history, &record);
                Some(Recording {
                    history: history.clone(),
                    record: record.clone(),
                    recorder: Arc::new(recorder.map_err(JobError::system("start a thread"))?),
                })
            }
            None => None,
        };
        let Some(work) = launched.work.take() else {
            unreachable!("nobody has taken it yet");
        };
        let (steps, handle) = Steps::begin(
            Arc::clone(self.runtime()),
            work,
            request.goal_s,
            launched.cores,
            known,
            recording.as_ref().map(|of| Arc::clone(&of.recorder)),
        )?;
        let inputs = read(&launched);
        let length = steps.length();
        let job = RunningJob::new(record, request, inputs, expected, handle.clone(), length);
        let (registry, driven) = (Arc::clone(&self.registry), job.clone());
        self.registry.add(job.clone());
        let driver = thread::Builder::new()
            .name("ebb-job".to_owned())
            .spawn(move || drive(&driven, steps, launched, recording, &registry));
        match driver {
            Ok(driver) => self.registry.keep(driver),
            Err(error) => {
                self.registry.remove(job.id());
                handle.cancel();
                let _ = handle.wait();
                return Err(JobError::system("start a thread")(error));
            }
        }
        Ok(job)
    }
}

/// What is read, in words.
fn read(launched: &Launched) -> Vec<ReadInput> {
    let inputs = launched.inputs.iter().map(|opened| ReadInput {
        name: opened.label.clone(),
        snapshot: (opened.snapshot.as_ref()).map(|snapshot| snapshot.name().to_string()),
    });
    inputs.collect()
}
