//! What can go wrong: in a task, at submission, at start.

use crate::model::JobId;
use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why an attempt at a task failed. The task is tried again, except after
/// [`TaskError::Cancelled`], [`TaskError::Invalid`] and [`TaskError::Fatal`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TaskError {
    /// Reading or writing a file failed.
    #[error("{context}: {source}")]
    Io {
        /// What was being done.
        context: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A spill file does not hold what was written to it.
    #[error(
        "spill file {path} is corrupt at byte {offset}: checksum {found:#018x}, expected {expected:#018x}"
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where the damaged block starts.
        offset: u64,
        /// Checksum of what was read.
        found: u64,
        /// Checksum that was written.
        expected: u64,
    },
    /// The job's own code, its input or its output failed.
    #[error("{0}")]
    Failed(Box<dyn StdError + Send + Sync>),
    /// A record cannot be what it is said to be. It would be so in every attempt: the job
    /// fails at the first.
    #[error("{0}")]
    Invalid(Box<dyn StdError + Send + Sync>),
    /// A failure that every attempt would meet again, and for which the records are not to blame,
    /// such as a damaged file of the input: the job fails at the first.
    #[error("{0}")]
    Fatal(Box<dyn StdError + Send + Sync>),
    /// The task panicked with this message.
    #[error("the task panicked: {0}")]
    Panicked(String),
    /// The attempt neither handled a record nor came to a checkpoint for this
    /// long, while it could. Its process was killed; a thread cannot be ended and was
    /// left behind.
    #[error("no record and no checkpoint for {for_s} s; it was given up")]
    Stalled {
        /// The runtime's limit, in seconds.
        for_s: f64,
    },
    /// The job is being cancelled or has failed elsewhere; pass it on.
    #[error("the job was cancelled")]
    Cancelled,
}

impl TaskError {
    /// A failure of the job's own code: any error, or a message.
    pub fn failed(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Failed(cause.into())
    }

    /// A record that cannot be what it is said to be: any error, or a message.
    pub fn invalid(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Invalid(cause.into())
    }

    /// A failure that every attempt would meet again: any error, or a message.
    pub fn fatal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Fatal(cause.into())
    }

    /// Whether every attempt at the task would fail in this way.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::Fatal(_))
    }

    /// For `map_err`: an I/O error with what was being done.
    pub fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let context = context.into();
        move |source| Self::Io { context, source }
    }
}

/// Why a job was not accepted. Fix the request, except for
/// [`SubmitError::ShuttingDown`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The goal is not a positive, finite number of seconds.
    #[error("a completion time goal must lie in the future: {0} s after submission does not")]
    Goal(f64),
    /// A reducer that would never run.
    #[error("a job with a reducer needs at least one reduce task")]
    NoReduces,
    /// Reduce tasks, or a combiner, without a reducer.
    #[error("a job without a reducer must have neither reduce tasks nor a combiner")]
    NoReducer,
    /// An estimate is not a positive, finite number of seconds.
    #[error("the estimated CPU time of a task must be positive and finite, got {0} s")]
    Profile(f64),
    /// A job that was to be followed was never submitted here, or so long ago that
    /// it is forgotten.
    #[error("{0}, which the job is to follow, is not known to this runtime")]
    Follows(JobId),
    /// The input could not be split.
    #[error("splitting the input: {0}")]
    Input(#[source] TaskError),
    /// The output refuses to be written.
    #[error("preparing the output: {0}")]
    Output(#[source] TaskError),
    /// The job's spill directory could not be made.
    #[error("creating a spill directory in {path}: {source}")]
    SpillDir {
        /// Where it was to be.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Too much of the machine, or all memory for tasks, is taken by threads that
    /// hang.
    #[error(
        "{threads} threads of tasks that made no progress still run and hold their memory; \
         restart the process before it takes more jobs"
    )]
    LeftBehind {
        /// How many.
        threads: u32,
    },
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    ShuttingDown,
}

/// Why the runtime did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// An option is out of range.
    #[error("{option} must be {range}, got {value}")]
    Option {
        /// Which option.
        option: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it was.
        value: f64,
    },
    /// The spill directory could not be made.
    #[error("creating the spill directory {path}: {source}")]
    SpillDir {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("starting a thread: {0}")]
    Thread(#[from] io::Error),
}
