//! A job in the history.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use ebb_scheduler::runtime::Outcome;
use ebb_tables::lookup::{LookupError, Unknown};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::{JobRequest, RequestError};

/// The state of a recorded job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum RecordState {
    /// Started and not ended: the job runs, is parked for a later start, or its process ended before the job
    /// did.
    Started,
    /// The job succeeded, and its output is in place.
    Succeeded,
    /// The job failed, or could not be started again.
    Failed,
    /// The job was cancelled or discarded.
    Cancelled,
}

impl RecordState {
    /// Returns the state of a job with this outcome.
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed { .. } => Self::Failed,
            Outcome::Cancelled => Self::Cancelled,
        }
    }
}

/// The record of a snapshot that was made for a job, so that a restart of the job reads the same snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OwnSnapshot {
    /// The position of the input that reads the snapshot, from 0, in the list of the job's inputs.
    pub input: u32,
    /// The keyspace of the input's table.
    pub keyspace: String,
    /// The name of the snapshot in its keyspace.
    pub name: String,
    /// The number of the commit that created the snapshot. A later snapshot of the same name has another
    /// number. `None` if an earlier build wrote the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// The numbers of the tables that a job reads and writes. The names in its request do not identify
/// them: another table may have the name of a dropped one, and a permission on the later table must
/// not count for the job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobTables {
    /// The number of the table of each input that is a table, in the order of the inputs. Empty if
    /// the numbers are unknown: an earlier build wrote the record, or a later start read other
    /// tables than the first one.
    pub inputs: Vec<u32>,
    /// The number of the table that the latest start writes; `None` if that table was missing at
    /// the start and the commit has not created it, for any other output, and if an earlier build
    /// wrote the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u32>,
}

impl JobTables {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The identity of a file that a job has written and is about to rename to its output. The rename does not change
/// the identity. A file that is written later has another identity: even if it gets the number of a file that was
/// deleted, it was modified later. A file system that does not keep the numbers of files over a mount changes the
/// identity; a restart then fails the job and keeps the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WrittenFile {
    /// The number of the file in its file system.
    pub inode: u64,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The time of the last modification, in nanoseconds since 1970.
    pub modified_ns: i64,
}

impl WrittenFile {
    /// Returns the identity of the file with this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        let seconds_ns = metadata.mtime().saturating_mul(1_000_000_000);
        Self {
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: seconds_ns.saturating_add(metadata.mtime_nsec()),
        }
    }
}

/// The mark by which a restart of a job recognizes the output of the last start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMark {
    /// The timestamp of the rows in a table of CQL, in microseconds since 1970.
    Timestamp(i64),
    /// The identity of the file or, if the output is a folder, of the file in it that marks it as complete.
    File(WrittenFile),
}

/// The identity of the request that submitted a job: two SHA-256 hashes in hexadecimal digits. A retry
/// of the request has the same hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The hash of the principal, the method, the path and the Idempotency-Key.
    pub key: String,
    /// The hash of the method, the path with its query, and the body. A retry has the same hash; a
    /// different request with the same Idempotency-Key has another hash.
    pub request: String,
}

impl Submission {
    /// Creates the identity of a request from two SHA-256 hashes: `key` of the principal, the method, the
    /// path and the Idempotency-Key, and `request` of the method, the path with its query, and the body.
    #[must_use]
    pub fn new(key: &[u8; 32], request: &[u8; 32]) -> Self {
        let hex = |hash: &[u8; 32]| hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            key: hex(key),
            request: hex(request),
        }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A job in the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobRecord {
    /// The id of the job: digits, ascending with time.
    pub id: String,
    /// The name of the application.
    pub application: String,
    /// The request as JSON: a [`JobRequest`], or the request of a backup or a verification. It is stored as
    /// JSON, so that a job is listed even if this build cannot read its request.
    pub request: Value,
    /// The snapshots that were made for the job.
    pub own_snapshots: Vec<OwnSnapshot>,
    /// The tables that the job reads and writes.
    #[serde(default, skip_serializing_if = "JobTables::is_empty")]
    pub tables: JobTables,
    /// The state of the job.
    pub state: RecordState,
    /// The time of the first start, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The time of the latest start, in milliseconds since 1970. `None` if the job has started only once,
    /// or if an earlier build wrote the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_unix_ms: Option<u64>,
    /// The number of starts, from 1.
    pub starts: u32,
    /// The number of times that a process parked the job for a later start: see
    /// [`History::park`](super::History::park).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parks: u32,
    /// True if the job has recorded, since its latest start, that it is about to put its output in
    /// place. If the process ends before it records the end of the job, the next process looks for
    /// the output. If the output exists and agrees with `tables.output`, `written_us` and
    /// `written_file`, the job wrote it and has succeeded.
    pub commits: bool,
    /// The timestamp of the rows that the latest start was about to put into a CQL table, in microseconds
    /// since 1970; `None` before that, and for any other output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_us: Option<i64>,
    /// The identity of the file that the latest start was about to put in place, or of the file that marks
    /// the folder as complete. `None` before that, for any other output, and if an earlier build wrote the
    /// record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_file: Option<WrittenFile>,
    /// The time of the end, in milliseconds since 1970; `None` before the end.
    pub ended_unix_ms: Option<u64>,
    /// The report of the job's end, as JSON; `None` if there is none.
    pub report: Option<Value>,
    /// The number of attempts that are not in the history, because the job had too many, or because the
    /// store failed to write them.
    pub attempts_dropped: u64,
    /// The request that submitted the job; `None` if no client may retry that request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<Submission>,
}

impl JobRecord {
    /// Creates the record of a job that starts now for the first time.
    pub fn new(
        id: String,
        request: &JobRequest,
        own_snapshots: Vec<OwnSnapshot>,
        now_unix_ms: u64,
    ) -> Self {
        let application = request.application.name();
        Self {
            own_snapshots,
            ..Self::started(id, application, request.to_json(), now_unix_ms)
        }
    }

    /// Creates the record of a job of this application that has just started.
    pub(super) fn started(
        id: String,
        application: &str,
        request: Value,
        started_unix_ms: u64,
    ) -> Self {
        Self {
            id,
            application: application.to_string(),
            request,
            own_snapshots: Vec::new(),
            tables: JobTables::default(),
            state: RecordState::Started,
            started_unix_ms,
            restarted_unix_ms: None,
            starts: 1,
            parks: 0,
            commits: false,
            written_us: None,
            written_file: None,
            ended_unix_ms: None,
            report: None,
            attempts_dropped: 0,
            submission: None,
        }
    }

    /// Returns the time of the latest start, in milliseconds since 1970. The time until the job's goal is
    /// counted from this start.
    #[must_use]
    pub fn begun_unix_ms(&self) -> u64 {
        self.restarted_unix_ms.unwrap_or(self.started_unix_ms)
    }

    /// Returns the job with the id `id`, or the latest job if `id` is `last`. `jobs` must be sorted by
    /// age, the oldest first.
    ///
    /// # Errors
    /// When there is no such job; the error lists the existing ids.
    pub fn find(mut jobs: Vec<Self>, id: &str) -> Result<Self, LookupError> {
        let found = match id {
            "last" => jobs.len().checked_sub(1),
            id => jobs.iter().position(|job| job.id == id),
        };
        match found {
            Some(found) => Ok(jobs.swap_remove(found)),
            None => Err(LookupError::Unknown(Unknown {
                what: "job",
                name: id.to_string(),
                place: "the history".to_string(),
                known: jobs.into_iter().rev().map(|job| job.id).collect(),
            })),
        }
    }

    /// Returns the request of the job.
    ///
    /// # Errors
    /// When this build does not support the version of the request or one of its fields, or when the job is a
    /// backup or a verification, which no job request starts.
    pub fn request(&self) -> Result<JobRequest, RequestError> {
        JobRequest::from_json(self.request.clone())
    }
}
