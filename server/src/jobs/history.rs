//! What became of jobs, kept in the database itself: in table `jobs` of the
//! keyspace `system`, which is ebb's own.
//!
//! A job is noted before it starts and again when it has ended. One process at a
//! time has a database open, so a job that is noted as running when a database is
//! opened is one of a process that ended before it: unfinished. Its arguments are
//! in the note, so that it can be started again.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use ebb_storage::{Db, ErrorKind, Result, Table, TableOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The keyspace that is ebb's own.
pub const SYSTEM_KEYSPACE: &str = "system";

/// Ended jobs that are remembered.
const ENDED_JOBS_MAX: usize = 1000;

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
    /// When it was started, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// When it ended, in milliseconds since 1970.
    pub ended_unix_ms: Option<u64>,
    /// The runtime's report.
    pub report: Option<Value>,
}

/// The history of a database's jobs.
#[derive(Debug, Clone)]
pub struct History {
    jobs: Table,
}

impl History {
    /// The history, made when absent.
    ///
    /// # Errors
    /// When the store fails.
    pub fn open(db: &Db) -> Result<Self> {
        let keyspace = db.keyspace(SYSTEM_KEYSPACE)?;
        let jobs = keyspace.table("jobs", TableOptions::default())?;
        Ok(Self { jobs })
    }

    /// The history, if any job was noted.
    ///
    /// # Errors
    /// When the store fails.
    pub fn existing(db: &Db) -> Result<Option<Self>> {
        let keyspace = db.existing_keyspace(SYSTEM_KEYSPACE);
        match keyspace.and_then(|keyspace| keyspace.existing_table("jobs")) {
            Ok(jobs) => Ok(Some(Self { jobs })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
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
            ended_unix_ms: None,
            report: None,
        };
        self.put(&job)?;
        Ok(job)
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

    /// Takes a job back that did not start after all.
    ///
    /// # Errors
    /// When the store fails.
    pub fn forget(&self, id: &str) -> Result<()> {
        self.jobs.delete(id.as_bytes())
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

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_storage::Options;
    use serde_json::json;

    #[test]
    fn a_job_that_began_is_unfinished_until_it_ends_over_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Db::open(dir.path(), Options::default()).unwrap();
        let db = open();
        assert!(History::existing(&db).unwrap().is_none());
        let history = History::open(&db).unwrap();
        let first = history
            .begin("grep", json!({"pattern": "x"}), "/d")
            .unwrap();
        let second = history.begin("sort", json!({}), "/d").unwrap();
        let third = history.begin("pi", json!({}), "/d").unwrap();
        assert!(first.id < second.id && second.id < third.id);
        history.forget(&third.id).unwrap();
        let report = Some(json!({"cpu_s": 1.5}));
        history
            .end(&second, NotedState::Succeeded, report.clone())
            .unwrap();
        drop((history, db));
        let db = open();
        let history = History::existing(&db).unwrap().unwrap();
        assert_eq!(history.unfinished().unwrap(), [first]);
        let jobs = history.jobs().unwrap();
        assert_eq!(jobs.len(), 2);
        assert_eq!(
            (jobs[1].state, &jobs[1].report),
            (NotedState::Succeeded, &report)
        );
        assert!(jobs[1].ended_unix_ms.is_some());
    }

    #[test]
    fn ended_jobs_are_forgotten_in_the_end_and_unfinished_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let history = History::open(&db).unwrap();
        let unfinished = history.begin("first", json!(null), "/d").unwrap();
        for n in 0..ENDED_JOBS_MAX + 5 {
            let job = history.begin("next", json!(n), "/d").unwrap();
            history.end(&job, NotedState::Failed, None).unwrap();
        }
        let jobs = history.jobs().unwrap();
        assert_eq!(jobs.len(), ENDED_JOBS_MAX + 1);
        assert_eq!(jobs[0], unfinished);
        assert_eq!(jobs[1].arguments, json!(5));
    }
}
