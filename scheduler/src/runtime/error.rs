//! Errors of a task, of a submission and of the start of a runtime.

use crate::model::JobId;
use std::error::Error as StdError;
use std::io;
use std::iter::successors;
use std::path::PathBuf;
use thiserror::Error;

/// The failure of an attempt at a task. After [`TaskError::Invalid`], [`TaskError::Fatal`] and a
/// [`TaskError::Io`] of a full disk the job fails at once. After other failures the task is tried
/// again, until [`ATTEMPTS_MAX`](crate::runtime::ATTEMPTS_MAX) attempts at it have failed. An
/// attempt that the runtime stopped ([`TaskError::Cancelled`]) does not count as failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TaskError {
    /// Reading or writing a file failed.
    #[error("{context}: {source}")]
    Io {
        /// The operation that failed.
        context: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The checksum of a spill file does not match its content.
    #[error(
        "spill file {path} is corrupt at byte {offset}: checksum {found:#018x}, expected {expected:#018x}"
    )]
    Corrupt {
        /// The spill file.
        path: PathBuf,
        /// Offset of the damaged block.
        offset: u64,
        /// Checksum of the bytes that were read.
        found: u64,
        /// Checksum in the file.
        expected: u64,
    },
    /// The job's own code, its input or its output failed.
    #[error("{0}")]
    Failed(Box<dyn StdError + Send + Sync>),
    /// A record does not have the form that the job requires. Every attempt would fail in the same
    /// way, so the job fails at the first one.
    #[error("{0}")]
    Invalid(Box<dyn StdError + Send + Sync>),
    /// A failure that every attempt would repeat and that no record caused, such as a damaged file
    /// of the input. The job fails at the first attempt.
    #[error("{0}")]
    Fatal(Box<dyn StdError + Send + Sync>),
    /// The task panicked with this message.
    #[error("the task panicked: {0}")]
    Panicked(String),
    /// The attempt neither handled a record nor reached a checkpoint for `for_s` seconds, though it
    /// could use CPU. Its process was killed; a thread cannot be killed and was left behind.
    #[error("the task made no progress (no record, no checkpoint) for {for_s} s, and was given up")]
    Stalled {
        /// The time without progress after which an attempt counts as stalled, in seconds.
        for_s: f64,
    },
    /// The job was cancelled or has already failed, or the attempt was stopped; return this error
    /// to the caller.
    #[error("the job was cancelled")]
    Cancelled,
}

impl TaskError {
    /// Creates [`TaskError::Failed`], a failure of the job's own code, from any error or message.
    pub fn failed(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Failed(cause.into())
    }

    /// Creates [`TaskError::Invalid`], a record without the required form, from any error or
    /// message.
    pub fn invalid(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Invalid(cause.into())
    }

    /// Creates [`TaskError::Fatal`], a failure that every attempt would repeat, from any error or
    /// message.
    pub fn fatal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Fatal(cause.into())
    }

    /// Returns whether every attempt at the task would fail in this way. A full disk counts as such a
    /// failure.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Invalid(_) | Self::Fatal(_) => true,
            // Other attempts would only fill the disk again.
            Self::Io { source, .. } => is_of_full_disk(source),
            _ => false,
        }
    }

    /// Returns whether the error, or one of its causes, is an I/O error of a full disk or of an exceeded
    /// quota. Errors of a store have classes of their own: see
    /// [`RuntimeOptions::is_disk_full`](crate::runtime::RuntimeOptions::is_disk_full).
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        let first: &(dyn StdError + 'static) = match self {
            Self::Io { source, .. } => return is_of_full_disk(source),
            Self::Failed(cause) | Self::Invalid(cause) | Self::Fatal(cause) => &**cause,
            _ => return false,
        };
        let mut causes = successors(Some(first), |&cause| cause.source());
        causes.any(|cause| {
            cause
                .downcast_ref::<io::Error>()
                .is_some_and(is_of_full_disk)
        })
    }

    /// Returns a function for `map_err` that adds `context`, the operation that failed, to an I/O
    /// error.
    pub fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let context = context.into();
        move |source| Self::Io { context, source }
    }
}

fn is_of_full_disk(error: &io::Error) -> bool {
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    full.contains(&error.kind())
}

/// The reason why a job was not accepted. [`SubmitError::is_transient`] returns true for a reason
/// that lies in the present state of the runtime. For any other reason, in general the request, its
/// files or the spill directory has to change before the job can be accepted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The goal is not a positive, finite number of seconds.
    #[error("a completion time goal must lie in the future: {0} s after submission does not")]
    Goal(f64),
    /// The job has a reducer but no reduce tasks.
    #[error("a job with a reducer needs at least one reduce task")]
    NoReduces,
    /// The job has reduce tasks or a combiner, but no reducer.
    #[error("a job without a reducer must have neither reduce tasks nor a combiner")]
    NoReducer,
    /// An estimated CPU time, of a task or of the work under a lease, is not a positive, finite
    /// number of seconds.
    #[error("the estimated CPU time of a task must be positive and finite, got {0} s")]
    Profile(f64),
    /// The runtime does not know a job that this one has to follow: it was never submitted here, or
    /// its record was dropped long ago.
    #[error(
        "the job is to follow {0}, which was never submitted to this runtime, or ended long ago"
    )]
    Follows(JobId),
    /// The input could not be split.
    #[error("splitting the input: {0}")]
    Input(#[source] TaskError),
    /// The check of the output failed at the submission.
    #[error("preparing the output: {0}")]
    Output(#[source] TaskError),
    /// The job's spill directory could not be created.
    #[error("creating a spill directory in {path}: {source}")]
    SpillDir {
        /// The directory in which the spill directory was to be created.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Too many threads of hanging tasks were left behind, or they hold all memory of tasks.
    #[error(
        "{threads} threads of tasks that made no progress still run and hold their memory; \
         restart the process before it takes more jobs"
    )]
    LeftBehind {
        /// Number of threads of tasks that hang.
        threads: u32,
    },
    /// The runtime is shutting down.
    #[error("the process that does this work is stopping; repeat the request later")]
    ShuttingDown,
}

impl SubmitError {
    /// Returns true if the reason is not the job itself but the present state of the runtime: it
    /// shuts down, or hanging tasks hold its threads or memory.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::LeftBehind { .. } | Self::ShuttingDown)
    }
}

/// The reason why the runtime did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// An option is out of range.
    #[error("{option} must be {range}, got {value}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// The values that the option may have.
        range: &'static str,
        /// The value of the option.
        value: f64,
    },
    /// The spill directory could not be created.
    #[error("creating the spill directory {path}: {source}")]
    SpillDir {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("starting a thread: {0}")]
    Thread(#[from] io::Error),
}
