//! The errors of commands, beside those of the store and the scheduler.

use std::fmt::Arguments;

/// A failure of a command that has an exit code of its own. Each variant has the message of the
/// error.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The arguments make no sense together, or a record of a job's input is malformed.
    #[error("{0}")]
    Usage(String),
    /// Files of a database are damaged. The command has printed each of them on stdout.
    #[error("{0}")]
    Damaged(String),
    /// A key, token, role or input does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The job did not succeed.
    #[error("{0}")]
    JobFailed(String),
    /// The job succeeded, but after its goal.
    #[error("{0}")]
    GoalMissed(String),
}

/// Checks that the user has confirmed with `--yes` what the command does.
///
/// # Errors
/// When `is_confirmed` is false. `what` begins with a verb: "drops ...".
pub(super) fn require_yes(is_confirmed: bool, what: Arguments<'_>) -> Result<(), CliError> {
    if is_confirmed {
        Ok(())
    } else {
        Err(CliError::Usage(format!(
            "this {what}; add --yes if you mean it"
        )))
    }
}
