//! Problems of rows, and of the formats that were declared for them.

use ebb_scheduler::runtime::TaskError;

/// The error that an input does not have its declared format. Either the request or the input has
/// to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidInput(pub String);

impl From<InvalidInput> for TaskError {
    fn from(input: InvalidInput) -> Self {
        Self::invalid(input)
    }
}

/// The error that a row does not have its declared format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the row {key:?}: {problem}")]
pub struct InvalidRow {
    /// The key of the row. For rows of a file, which users know by their lines, the input replaces
    /// this error by one that names the line.
    pub key: String,
    /// The problem, as the part of the message that follows the key.
    pub problem: String,
}

impl InvalidRow {
    /// Returns the error of a task for `problem`, a problem of the row with the key `key`.
    pub fn error(key: &[u8], problem: impl ToString) -> TaskError {
        TaskError::invalid(Self {
            key: key.escape_ascii().to_string(),
            problem: problem.to_string(),
        })
    }

    /// Returns the row error that is the cause of a task's error; `None` if the cause is another
    /// one.
    pub fn of(error: &TaskError) -> Option<&Self> {
        match error {
            TaskError::Invalid(cause) => cause.downcast_ref(),
            _ => None,
        }
    }
}

/// The error that rows lack a column that a request names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownColumn {
    /// The rows are plain text.
    #[error(
        "there is no column {0:?}: rows of plain text have a key and a value, and no other columns"
    )]
    Text(String),
    /// The rows have named columns, but none with the requested name.
    #[error("there is no column {name:?}; there are: {known}")]
    Named {
        /// The name of the missing column.
        name: String,
        /// The names of the existing columns.
        known: String,
    },
    /// The columns have no names: the rows have no header, and the request gives none.
    #[error(
        "there is no column {0:?}: with no header and no names given, columns have numbers only, from 1"
    )]
    Unnamed(String),
}
