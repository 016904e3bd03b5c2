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
    /// A keyspace, table or snapshot that is not there; tells which are.
    #[error("no {what} named {name:?} in {place}; {}", list(.what, .known))]
    Unknown {
        /// "keyspace", "table" or "snapshot".
        what: &'static str,
        /// Its name.
        name: String,
        /// Where it was looked for.
        place: String,
        /// The names that are there.
        known: Vec<String>,
    },
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

/// Names on one line beyond which a list is of no help.
const NAMES_MAX: usize = 10;

fn list(what: &str, known: &[String]) -> String {
    if known.is_empty() {
        return format!("there are no {what}s yet");
    }
    let shown = known.iter().take(NAMES_MAX).map(String::as_str);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match known.len().saturating_sub(NAMES_MAX) {
        0 => format!("there are: {shown}"),
        more => format!("there are: {shown} and {more} more"),
    }
}
