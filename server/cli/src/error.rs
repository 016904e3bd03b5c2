//! What goes wrong in a command beyond what the store and the scheduler say.

use std::fmt::Arguments;

/// An error with an exit code of its own, and its message.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The arguments make no sense together, or a record of a job's input is malformed.
    #[error("{0}")]
    Usage(String),
    /// Files of a database are damaged; each was told on stdout.
    #[error("{0}")]
    Damaged(String),
    /// A key, token, role or input that is not there.
    #[error("{0}")]
    NotFound(String),
    /// A job that did not succeed.
    #[error("{0}")]
    JobFailed(String),
    /// A job that succeeded too late.
    #[error("{0}")]
    GoalMissed(String),
}

/// Checks that the user has confirmed with `--yes` what the command does.
///
/// # Errors
/// When `is_confirmed` is false. `what` begins with a verb: "drops ...".
pub(super) fn require_yes(is_confirmed: bool, what: Arguments<'_>) -> Result<(), CliError> {
    match is_confirmed {
        true => Ok(()),
        false => Err(CliError::Usage(format!(
            "this {what}; add --yes if you mean it"
        ))),
    }
}
