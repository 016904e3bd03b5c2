//! What goes wrong in a command beyond what the store and the scheduler say.

/// An error with an exit code of its own.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The arguments make no sense together.
    #[error("{0}")]
    Usage(String),
    /// Files of a database are damaged; each was told on stdout.
    #[error("{0}")]
    Damaged(String),
    /// A token that is not there.
    #[error("there is no token {0}; `ebb token list` shows those there are")]
    NoToken(String),
    /// A role that is not there.
    #[error("there is no role {0}; LIST ROLES shows those there are")]
    NoRole(String),
    /// An input that is neither a file nor a table.
    #[error("{0}")]
    NoSource(String),
    /// A key without a value.
    #[error("no key {key:?} in {place}")]
    NoKey {
        /// The key, as far as it can be shown.
        key: String,
        /// The table, and the snapshot if one was asked for.
        place: String,
    },
    /// A job that did not succeed.
    #[error("job {name} {what}; nothing was written to {output}")]
    JobFailed {
        /// Its name.
        name: String,
        /// "failed: why", or "was cancelled".
        what: String,
        /// Where its rows would be.
        output: String,
    },
    /// A job that met a record that cannot be what it is said to be.
    #[error("job {name} failed: {cause}; nothing was written to {output}")]
    InvalidRecord {
        /// Its name.
        name: String,
        /// What is wrong, and where.
        cause: String,
        /// Where its rows would be.
        output: String,
    },
    /// A job that succeeded too late.
    #[error("job {name} succeeded {late_s:.2} s after its goal; its output is in {output}")]
    GoalMissed {
        /// Its name.
        name: String,
        /// By how much, in seconds.
        late_s: f64,
        /// Where its rows are.
        output: String,
    },
}
