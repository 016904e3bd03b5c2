//! What is wrong with rows, and with what is said of them.

use ebb_scheduler::runtime::TaskError;

/// An input that cannot be what it is said to be: the request has to change, or the
/// input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidInput(pub String);

impl From<InvalidInput> for TaskError {
    fn from(input: InvalidInput) -> Self {
        Self::invalid(input)
    }
}

/// A row that cannot be read as what it is said to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the row {key:?}: {problem}")]
pub struct InvalidRow {
    /// Its key. Files say the line instead.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
}

impl InvalidRow {
    /// The row called `key` has a problem.
    pub fn error(key: &[u8], problem: impl ToString) -> TaskError {
        TaskError::invalid(Self {
            key: key.escape_ascii().to_string(),
            problem: problem.to_string(),
        })
    }

    /// What is wrong with the row that a task failed for.
    pub fn of(error: &TaskError) -> Option<&Self> {
        match error {
            TaskError::Invalid(cause) => cause.downcast_ref(),
            _ => None,
        }
    }
}

/// That rows have no such column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownColumn {
    /// They are plain text.
    #[error(
        "there is no column {0:?}: rows of plain text have a key and a value, and no other columns"
    )]
    Text(String),
    /// They have others.
    #[error("there is no column {name:?}; there are: {known}")]
    Named {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// They have numbers only.
    #[error(
        "there is no column {0:?}: with no header and no names given, columns have numbers only, from 1"
    )]
    Unnamed(String),
}
