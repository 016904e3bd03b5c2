//! What became of jobs, kept in the database itself: in the keyspace `system`,
//! which is ebb's own.
//!
//! | table | a row |
//! | --- | --- |
//! | `jobs` | a job: its arguments, how it ended, what it counted |
//! | `attempts` | an attempt at one of its tasks: times, CPU, bytes, how it ended |
//! | `profiles` | what the tasks of an application took, for its next run |
//!
//! A job is noted before it starts and again when it has ended. One process at a
//! time has a database open, so a job that is noted as running when a database is
//! opened is one of a process that ended before it: unfinished. Its arguments are
//! in the note, so that it can be started again.

mod attempts;
mod noted_output;
mod profiles;
mod recorder;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use ebb_scheduler::runtime::MeasuredProfile;
use ebb_storage::{Db, ErrorKind, Keyspace, Result, Table, TableOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::attempts::AttemptTable;
pub use self::attempts::{ATTEMPTS_KEPT_MAX, NotedAttempt};
pub use self::noted_output::{CommitNote, NotedOutput};
use self::profiles::ProfileTable;
pub use self::profiles::{KnownProfile, NotedProfile};
pub use self::recorder::{Recorded, Recorder};

/// The keyspace that is ebb's own.
pub const SYSTEM_KEYSPACE: &str = "system";

/// Ended jobs that are remembered.
const ENDED_JOBS_MAX: usize = 1000;

/// How often a job is started. If each time its process ended before it, it may be
/// the job that ends the process.
pub const STARTS_MAX: u32 = 3;

/// Where a noted job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotedState {
    /// Started and not ended: it runs, or its process ended before it.
    Started,
    /// Its output is there.
    Succeeded,
    /// It failed, or could not be started again.
    Failed,
    /// It was asked to stop.
    Cancelled,
}

/// A job in the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NotedJob {
    /// Its id: digits, ascending with time.
    pub id: String,
    /// Which application.
    pub application: String,
    /// Its arguments, as whoever noted it can read them again.
    pub arguments: Value,
    /// The directory that relative names in them start from.
    pub directory: PathBuf,
    /// Where it stands.
    pub state: NotedState,
    /// When it was started first, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How often it was started, from 1.
    #[serde(default = "once")]
    pub starts: u32,
    /// Whether its last start came to put the output in place. If it did not end then
    /// and there is an output, the job has made it.
    #[serde(default)]
    pub commits: bool,
    /// When it ended, in milliseconds since 1970.
    pub ended_unix_ms: Option<u64>,
    /// The runtime's report.
    pub report: Option<Value>,
    /// Attempts at its tasks that are not in the history, being too many.
    #[serde(default)]
    pub attempts_dropped: u64,
}

fn once() -> u32 {
    1
}

/// The history of a database's jobs.
#[derive(Debug, Clone)]
pub struct History {
    jobs: Table,
    attempts: AttemptTable,
    profiles: ProfileTable,
}

impl History {
    /// The history, made when absent.
    ///
    /// # Errors
    /// When the store fails.
    pub fn open(db: &Db) -> Result<Self> {
        Self::within(db, &db.keyspace(SYSTEM_KEYSPACE)?)
    }

    /// The history, if any job was noted.
    ///
    /// # Errors
    /// When the store fails.
    pub fn existing(db: &Db) -> Result<Option<Self>> {
        match db.existing_keyspace(SYSTEM_KEYSPACE) {
            Ok(keyspace) => Self::within(db, &keyspace).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn within(db: &Db, keyspace: &Keyspace) -> Result<Self> {
        let table = |name| keyspace.table(name, TableOptions::default());
        Ok(Self {
            jobs: table("jobs")?,
            attempts: AttemptTable {
                db: db.clone(),
                table: table("attempts")?,
            },
            profiles: ProfileTable {
                table: table("profiles")?,
            },
        })
    }

    /// Notes a job that is about to start, with its arguments and the directory
    /// that they are relative to; of ended jobs the oldest are forgotten.
    ///
    /// # Errors
    /// When the store fails.
    pub fn begin(
        &self,
        application: &str,
        arguments: Value,
        directory: impl Into<PathBuf>,
    ) -> Result<NotedJob> {
        let noted = self.jobs()?;
        let ended: Vec<_> = (noted.iter())
            .filter(|job| job.state != NotedState::Started)
            .collect();
        for job in &ended[..(ended.len() + 1).saturating_sub(ENDED_JOBS_MAX)] {
            self.forget(&job.id)?;
        }
        let last = noted.last().and_then(|job| job.id.parse::<u64>().ok());
        let now_ms = now_unix_ms();
        let job = NotedJob {
            // Above the last one whatever the clock says.
            id: format!("{:013}", now_ms.max(last.map_or(0, |last| last + 1))),
            application: application.to_string(),
            arguments,
            directory: directory.into(),
            state: NotedState::Started,
            started_unix_ms: now_ms,
            starts: 1,
            commits: false,
            ended_unix_ms: None,
            report: None,
            attempts_dropped: 0,
        };
        self.put(&job)?;
        Ok(job)
    }

    /// Notes that an unfinished job is about to start again. The attempts of its
    /// last start are forgotten: what they did is lost.
    ///
    /// # Errors
    /// When the store fails.
    pub fn begin_again(&self, job: &NotedJob) -> Result<NotedJob> {
        let again = NotedJob {
            starts: job.starts.saturating_add(1),
            commits: false,
            ..job.clone()
        };
        self.attempts.forget(&job.id)?;
        self.put(&again)?;
        Ok(again)
    }

    /// Notes that a job is about to put its output in place: on the disk, since the output
    /// may be there sooner than anything else that is noted.
    ///
    /// # Errors
    /// When the store fails.
    pub fn begin_commit(&self, job: &NotedJob) -> Result<()> {
        self.put(&NotedJob {
            commits: true,
            ..job.clone()
        })?;
        self.attempts.db.sync()
    }

    /// Notes how a job ended.
    ///
    /// # Errors
    /// When the store fails.
    pub fn end(&self, job: &NotedJob, state: NotedState, report: Option<Value>) -> Result<()> {
        self.put(&NotedJob {
            state,
            ended_unix_ms: Some(now_unix_ms()),
            report,
            ..job.clone()
        })
    }

    /// Takes a job back that did not start after all, with its attempts.
    ///
    /// # Errors
    /// When the store fails.
    pub fn forget(&self, id: &str) -> Result<()> {
        self.attempts.forget(id)?;
        self.jobs.delete(id.as_bytes())
    }

    /// The attempts at the tasks of a job, in the order in which they ended: the
    /// first [`ATTEMPTS_KEPT_MAX`]. Of a job that runs some may be missing.
    ///
    /// # Errors
    /// When the store fails.
    pub fn attempts(&self, id: &str) -> Result<Vec<NotedAttempt>> {
        self.attempts.of(id)
    }

    /// Keeps what `job` took, by the names of the jobs it consists of, for the next
    /// one that does the same `work`: its arguments as far as they matter. `input`
    /// says for people what was read; `took_over_estimate`, how long it took over what
    /// was estimated, if something was.
    ///
    /// # Errors
    /// When the store fails.
    pub fn note_profile(
        &self,
        job: &NotedJob,
        work: &Value,
        input: &str,
        measured: Vec<(String, MeasuredProfile)>,
        took_over_estimate: Option<f64>,
    ) -> Result<()> {
        let profile = NotedProfile {
            application: job.application.clone(),
            input: input.to_string(),
            job: job.id.clone(),
            noted_unix_ms: now_unix_ms(),
            measured,
            took_over_estimate: took_over_estimate.into_iter().collect(),
        };
        self.profiles.note(work, profile)
    }

    /// What is known of `work`, or else of the application.
    ///
    /// # Errors
    /// When the store fails.
    pub fn known_profile(&self, application: &str, work: &Value) -> Result<Option<KnownProfile>> {
        self.profiles.known(application, work)
    }

    /// All that is known, by application.
    ///
    /// # Errors
    /// When the store fails.
    pub fn profiles(&self) -> Result<Vec<NotedProfile>> {
        self.profiles.all()
    }

    /// All jobs, the oldest first. What is no note is passed over.
    ///
    /// # Errors
    /// When the store fails.
    pub fn jobs(&self) -> Result<Vec<NotedJob>> {
        let mut jobs = Vec::new();
        for row in self.jobs.range::<&[u8], _>(..) {
            let (_, value) = row?;
            jobs.extend(serde_json::from_slice::<NotedJob>(&value));
        }
        Ok(jobs)
    }

    /// Those that did not end, the oldest first: with no job running, those of
    /// processes that ended before them.
    ///
    /// # Errors
    /// When the store fails.
    pub fn unfinished(&self) -> Result<Vec<NotedJob>> {
        let mut jobs = self.jobs()?;
        jobs.retain(|job| job.state == NotedState::Started);
        Ok(jobs)
    }

    fn put(&self, job: &NotedJob) -> Result<()> {
        let bytes = serde_json::to_vec(job).expect("a note has text keys only");
        self.jobs.put(job.id.as_bytes(), &bytes)
    }
}

fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
