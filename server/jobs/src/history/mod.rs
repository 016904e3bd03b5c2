//! The history of jobs. It is kept in the database itself, in the keyspace `ebb_system`,
//! which is ebb's own.
//!
//! | table | a row |
//! | --- | --- |
//! | `format` | the version that the other tables are in, under the key `version` |
//! | `jobs` | a job, a backup, a restore or a verification: its request, its outcome, its counters |
//! | `attempts` | an attempt at one of its tasks: times, CPU, bytes, the outcome |
//! | `profiles` | measurements of the tasks of an application, for its next execution |
//!
//! A job is recorded before it starts and again when it has ended. Only one process at a time has a database open. So
//! a job whose record has no end when a database is opened is unfinished: the process that ran it has ended. The
//! record has the request, so that the job can be started again.

mod attempts;
mod backup;
mod maintenance;
mod profiles;
mod record;
mod recorded_output;
mod recorder;
mod restoration;
mod retention;
mod row;
#[cfg(test)]
mod tests;
mod verification;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ebb_scheduler::runtime::MeasuredProfile;
use ebb_storage::{Db, ErrorKind, Keyspace, Table, TableOptions, WriteBatch, WriteOptions};
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::attempts::AttemptTable;
pub use self::attempts::{ATTEMPTS_KEPT_MAX, JobAttempt};
pub use self::backup::{BackupReport, BackupRequest};
pub use self::maintenance::{BACKUP, DAMAGED_KEPT_MAX, MaintenanceOptions, RESTORE, VERIFY};
use self::profiles::ProfileTable;
pub use self::profiles::{KnownProfile, ProfileRecord};
pub use self::record::{
    JobRecord, JobTables, OutputMark, OwnSnapshot, RecordState, Submission, WrittenFile,
};
pub use self::recorded_output::{CommitRecord, RecordedOutput};
pub use self::recorder::{Recorded, Recorder};
pub use self::restoration::{RestorationReport, RestoreRequest};
pub use self::retention::{KEY_LIFETIME, KEYS_MAX};
pub use self::row::JobRow;
pub use self::verification::VerificationReport;
pub use super::error::HistoryError;
use super::request::JobRequest;
pub use ebb_tables::names::SYSTEM_KEYSPACE;

/// The version of the history's rows that this build writes, and the only one that it reads. Code that
/// upgrades an older version would belong in [`History::open`].
const HISTORY_VERSION: &str = "1";

/// The largest number of times that a job is started. If the process has ended so often while the job ran,
/// the job may be the cause. Starts after which the job was parked do not count: see [`History::park`].
pub const STARTS_MAX: u32 = 3;

/// The result of the history's operations.
pub type Result<T, E = HistoryError> = std::result::Result<T, E>;

/// The history of a database's jobs.
#[derive(Debug, Clone)]
pub struct History {
    jobs: Table,
    attempts: AttemptTable,
    profiles: ProfileTable,
    /// The lock that is held while the id of a new job is chosen.
    beginning: Arc<Mutex<()>>,
}

impl History {
    /// Opens the history of a database, and creates it when absent.
    ///
    /// # Errors
    /// When the history has another version, or the store fails.
    pub fn open(db: &Db) -> Result<Self> {
        let keyspace = db.keyspace(SYSTEM_KEYSPACE)?;
        let format = keyspace.table("format", TableOptions::default())?;
        if check_version(&format)?.is_none() {
            format.put(b"version", HISTORY_VERSION.as_bytes())?;
        }
        Self::within(
            db,
            |name| Ok(keyspace.table(name, TableOptions::default())?),
        )
    }

    /// Opens the history of a database; `None` if there is none. Creates nothing.
    ///
    /// # Errors
    /// When the history has another version, or the store fails.
    pub fn existing(db: &Db) -> Result<Option<Self>> {
        let found = db.existing_keyspace(SYSTEM_KEYSPACE);
        let found = found
            .map_err(HistoryError::from)
            .and_then(|keyspace: Keyspace| {
                check_version(&keyspace.existing_table("format")?)?;
                Self::within(db, |name| Ok(keyspace.existing_table(name)?))
            });
        match found {
            Ok(history) => Ok(Some(history)),
            Err(HistoryError::Store(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn within(db: &Db, table: impl Fn(&str) -> Result<Table>) -> Result<Self> {
        Ok(Self {
            jobs: table("jobs")?,
            attempts: AttemptTable {
                db: db.clone(),
                table: table("attempts")?,
            },
            profiles: ProfileTable {
                table: table("profiles")?,
            },
            beginning: Arc::default(),
        })
    }

    /// Records a job that is about to start. The record contains the snapshots that were made for
    /// the job, and the request that submitted it, but no numbers of tables (see [`JobTables`]).
    /// Deletes the records of the oldest ended jobs, beyond the number that the history keeps.
    ///
    /// # Errors
    /// When the store fails, or a row is not a job.
    pub fn begin(
        &self,
        request: &JobRequest,
        own: Vec<OwnSnapshot>,
        submission: Option<Submission>,
    ) -> Result<JobRecord> {
        let tables = JobTables::default();
        let begun = self.begin_claimed(request, own, tables, submission, |_| Some(()));
        begun.map(|(record, ())| record)
    }

    /// Records a job over `tables` like [`begin`](Self::begin), and claims it before others can
    /// read the record, so that no other request starts or discards the job first. Calls `claim`
    /// with one free id after the other until it returns a claim, and returns that claim, too.
    ///
    /// # Errors
    /// When the store fails, or a row is not a job.
    pub fn begin_claimed<C>(
        &self,
        request: &JobRequest,
        own: Vec<OwnSnapshot>,
        tables: JobTables,
        submission: Option<Submission>,
        claim: impl FnMut(&str) -> Option<C>,
    ) -> Result<(JobRecord, C)> {
        self.add(claim, |id, now_ms| JobRecord {
            tables,
            submission,
            ..JobRecord::new(id, request, own, now_ms)
        })
    }

    /// Adds the record of a new job. Calls `claim` with free ids, one after the other, until it
    /// returns `Some`. The record is the one that `make` returns for this id and the current time.
    /// Returns the record, and the value that `claim` returned.
    fn add<C>(
        &self,
        mut claim: impl FnMut(&str) -> Option<C>,
        make: impl FnOnce(String, u64) -> JobRecord,
    ) -> Result<(JobRecord, C)> {
        let _beginning = self
            .beginning
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let recorded = self.jobs()?;
        let now_ms = now_unix_ms();
        for job in retention::forgettable(&recorded, now_ms) {
            self.forget(&job.id)?;
        }
        let last = recorded.last().and_then(|job| job.id.parse::<u64>().ok());
        // Above the last id, even if the clock was set back.
        let mut number = now_ms.max(last.map_or(0, |last| last + 1));
        let (id, claimed) = loop {
            let id = format!("{number:013}");
            if let Some(claimed) = claim(&id) {
                break (id, claimed);
            }
            // A job of this id was forgotten a moment ago, and its claim is still to be released.
            number += 1;
        };
        let job = make(id, now_ms);
        self.put(&job)?;
        Ok((job, claimed))
    }

    /// Records that an unfinished job is about to start again, and returns the new record. `own`
    /// are the snapshots that were made for the job, and `tables` the tables that this start reads
    /// and writes. If the numbers of the input tables differ from those in the last record, the new
    /// record has no numbers of input tables. Deletes the attempts of the last start, because their
    /// results are lost.
    ///
    /// # Errors
    /// When the store fails.
    pub fn begin_again(
        &self,
        job: &JobRecord,
        own: Vec<OwnSnapshot>,
        mut tables: JobTables,
    ) -> Result<JobRecord> {
        // Another snapshot, with another table, may have the name in the request by now. The
        // options of the job are about the first table, and its errors about the new one: a
        // permission on one of them must not be enough to see both.
        if tables.inputs != job.tables.inputs {
            tables.inputs.clear();
        }
        let again = JobRecord {
            own_snapshots: own,
            tables,
            restarted_unix_ms: Some(now_unix_ms()),
            starts: job.starts.saturating_add(1),
            commits: false,
            written_us: None,
            written_file: None,
            attempts_dropped: 0,
            ..job.clone()
        };
        let mut batch = WriteBatch::new();
        self.attempts.forget(&job.id, &mut batch);
        self.put_in(&again, &mut batch);
        self.attempts.db.write(batch)?;
        Ok(again)
    }

    /// Records that a process has parked a job, so that the job can start again. A process parks a job when
    /// it shuts down, when it accepts no jobs, and when a restart of the job fails for a reason that may
    /// pass, such as a full disk. The record can be written on a full disk, too: without it, the start would
    /// count against [`STARTS_MAX`], like one whose process ended while the job ran.
    ///
    /// # Errors
    /// When the store fails.
    pub fn park(&self, job: &JobRecord) -> Result<()> {
        self.put_freeing(&JobRecord {
            parks: job.parks.saturating_add(1),
            ..job.clone()
        })
    }

    /// Records that a job is about to put its output in place. A restart of the job recognizes this
    /// output by `mark`. Plain tables, Iceberg tables and the terminal have no mark: `None`. Syncs
    /// the record to the disk, because the output may be in place before any later record is
    /// written.
    ///
    /// # Errors
    /// When the store fails.
    pub fn begin_commit(&self, job: &JobRecord, mark: Option<OutputMark>) -> Result<()> {
        let (written_us, written_file) = match mark {
            None => (None, None),
            Some(OutputMark::Timestamp(written_us)) => (Some(written_us), None),
            Some(OutputMark::File(written_file)) => (None, Some(written_file)),
        };
        self.put(&JobRecord {
            commits: true,
            written_us,
            written_file,
            ..job.clone()
        })?;
        Ok(self.attempts.db.sync()?)
    }

    /// Records how a job ended. This works on a full disk, too, in the space that the store
    /// reserves for such writes. Without the record, the next process would start the job again,
    /// although the job has ended for its clients, and the job's snapshots would continue to pin
    /// space. Jobs cannot use up the reserved space: the start of a job uses none of it, and each
    /// start has one end. Returns the record with the end.
    ///
    /// # Errors
    /// When the store fails.
    pub fn end(
        &self,
        job: &JobRecord,
        state: RecordState,
        report: Option<Value>,
    ) -> Result<JobRecord> {
        let ended = JobRecord {
            state,
            ended_unix_ms: Some(now_unix_ms()),
            report,
            ..job.clone()
        };
        self.put_freeing(&ended)?;
        Ok(ended)
    }

    /// Deletes the record and the attempts of a job that did not start after all, or that has ended and is
    /// beyond the number of jobs that the history keeps.
    ///
    /// # Errors
    /// When the store fails.
    pub fn forget(&self, id: &str) -> Result<()> {
        let mut batch = WriteBatch::new();
        self.attempts.forget(id, &mut batch);
        batch.delete(&self.jobs, id.as_bytes());
        Ok(self.attempts.db.write(batch)?)
    }

    /// Returns the attempts at the tasks of a job since its latest start, in the order in which they ended,
    /// up to the first [`ATTEMPTS_KEPT_MAX`]. Some may be missing while the job runs, or because the store
    /// failed to write them.
    ///
    /// # Errors
    /// When the store fails, or a row is not an attempt.
    pub fn attempts(&self, id: &str) -> Result<Vec<JobAttempt>> {
        self.attempts.of(id)
    }

    /// Returns at most `count_max` attempts at the tasks of a job, each with its number in the job, in
    /// the order in which they ended; with `after`, only attempts with greater numbers.
    ///
    /// # Errors
    /// When the store fails, or a row is not an attempt.
    pub fn attempts_after(
        &self,
        id: &str,
        after: Option<&str>,
        count_max: usize,
    ) -> Result<Vec<(String, JobAttempt)>> {
        self.attempts.after(id, after, count_max)
    }

    /// Records the measurements of a job, so that the next job with the same `work` (application, options and
    /// inputs) can be estimated. `measured` has the name and the profile of each job of the runtime. `input`
    /// is a description of the input for people. `took_over_estimate` is the ratio of the job's time to its
    /// estimate, if it had an estimate.
    ///
    /// # Errors
    /// When the store fails, or a row is not a profile.
    pub fn record_profile(
        &self,
        job: &JobRecord,
        work: &Value,
        input: &str,
        measured: Vec<(String, MeasuredProfile)>,
        took_over_estimate: Option<f64>,
    ) -> Result<()> {
        let profile = ProfileRecord {
            application: job.application.clone(),
            input: input.to_string(),
            job: job.id.clone(),
            recorded_unix_ms: now_unix_ms(),
            measured,
            took_over_estimate: took_over_estimate.into_iter().collect(),
        };
        self.profiles.record(work, profile)
    }

    /// Returns a profile from which a job can be estimated: that of the same `work`, or else one of
    /// the application. `job` is the name of a job of the runtime. Profiles of the application that
    /// have measurements of `job` are preferred to those without, and among these the profiles
    /// whose input was not empty. Of several such profiles, returns the latest. `None` if the
    /// application has no profile.
    ///
    /// # Errors
    /// When the store fails, or a row is not a profile.
    pub fn known_profile(
        &self,
        application: &str,
        job: &str,
        work: &Value,
    ) -> Result<Option<KnownProfile>> {
        self.profiles.known(application, job, work)
    }

    /// Returns all profiles, ordered by application.
    ///
    /// # Errors
    /// When the store fails, or a row is not a profile.
    pub fn profiles(&self) -> Result<Vec<ProfileRecord>> {
        self.profiles.all()
    }

    /// Returns the profiles of an application, in no particular order.
    ///
    /// # Errors
    /// When the store fails, or a row is not a profile.
    pub fn profiles_of(&self, application: &str) -> Result<Vec<ProfileRecord>> {
        let profiles = self.profiles.of(application)?.into_iter();
        Ok(profiles.map(|(_, profile)| profile).collect())
    }

    /// Returns all jobs, the oldest first.
    ///
    /// # Errors
    /// When the store fails, or a row is not a job.
    pub fn jobs(&self) -> Result<Vec<JobRecord>> {
        let mut jobs = Vec::new();
        for row in self.jobs.range::<&[u8], _>(..) {
            let (key, value) = row?;
            jobs.push(read_row("jobs", &key, &value)?);
        }
        Ok(jobs)
    }

    /// Returns the jobs, the newest first; with `before`, an id, only jobs older than that one. The iterator reads
    /// each row on demand.
    pub fn newest(&self, before: Option<&str>) -> impl Iterator<Item = Result<JobRecord>> + use<> {
        self.newest_rows(before).map(|row| row?.record())
    }

    /// Returns the same jobs as [`newest`](Self::newest), without decoding their records.
    pub fn newest_rows(
        &self,
        before: Option<&str>,
    ) -> impl Iterator<Item = Result<JobRow>> + use<> {
        let rows = match before {
            Some(before) => self.jobs.range::<&[u8], _>(..before.as_bytes()),
            None => self.jobs.range::<&[u8], _>(..),
        };
        rows.rev()
            .map(|row| row.map(JobRow::stored).map_err(HistoryError::from))
    }

    /// Returns the job with this id; `None` if there is none.
    ///
    /// # Errors
    /// When the store fails, or the row is not a job.
    pub fn job(&self, id: &str) -> Result<Option<JobRecord>> {
        let found = self.jobs.get(id.as_bytes())?;
        found
            .map(|value| read_row("jobs", id.as_bytes(), &value))
            .transpose()
    }

    fn put(&self, job: &JobRecord) -> Result<()> {
        let row = JobRow::of(job);
        Ok(self.jobs.put(row.id(), row.json())?)
    }

    /// Writes a record. This works on a full disk, too, in the space that the store reserves for such writes.
    fn put_freeing(&self, job: &JobRecord) -> Result<()> {
        let mut batch = WriteBatch::new();
        self.put_in(job, &mut batch);
        let db = &self.attempts.db;
        Ok(db.write_freeing(batch, WriteOptions::default())?)
    }

    fn put_in(&self, job: &JobRecord, batch: &mut WriteBatch) {
        let row = JobRow::of(job);
        batch.put(&self.jobs, row.id(), row.json());
    }
}

/// Checks that the version in the table `format` of a history is that of this build; an error if it is
/// another one. Returns `None` if the table has no version yet.
fn check_version(format: &Table) -> Result<Option<()>> {
    match format.get(b"version")? {
        None => Ok(None),
        Some(found) if found == HISTORY_VERSION.as_bytes() => Ok(Some(())),
        Some(found) => Err(HistoryError::Version {
            found: String::from_utf8_lossy(&found).into_owned(),
            known: HISTORY_VERSION,
        }),
    }
}

/// Decodes the value of a row of `table`.
fn read_row<T: DeserializeOwned>(table: &'static str, key: &[u8], value: &[u8]) -> Result<T> {
    serde_json::from_slice(value).map_err(|source| HistoryError::Row {
        table,
        key: String::from_utf8_lossy(key).into_owned(),
        source,
    })
}

/// Returns the current time in milliseconds since 1970; 0 if the clock is before 1970.
pub fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
