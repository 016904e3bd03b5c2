//! The errors of commands, beside those of the store and the scheduler.

use std::fmt::Arguments;

/// An error of a command, with its message. Each variant has an exit code of its own.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The arguments are wrong, or do not fit the database, the server or the job. Also for malformed
    /// input of a job or a load.
    #[error("{0}")]
    Usage(String),
    /// Files of a database are damaged, or records in it cannot be read. The command has printed each of
    /// them on stdout.
    #[error("{0}")]
    Damaged(String),
    /// A database, table, snapshot, key, token, role or input that the arguments name does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The job failed or was cancelled.
    #[error("{0}")]
    JobFailed(String),
    /// The job failed because a disk is full, or a quota is exceeded.
    #[error("{0}")]
    DiskFull(String),
    /// The job succeeded, but after its goal.
    #[error("{0}")]
    GoalMissed(String),
}

/// Checks that the user has confirmed the action of the command with `--yes`. `what` describes the action
/// in the error, and begins with a verb: "drops ...".
///
/// # Errors
/// When `is_confirmed` is false.
pub(super) fn require_yes(is_confirmed: bool, what: Arguments<'_>) -> Result<(), CliError> {
    if is_confirmed {
        Ok(())
    } else {
        Err(CliError::Usage(format!(
            "this {what}; add --yes if you mean it"
        )))
    }
}
