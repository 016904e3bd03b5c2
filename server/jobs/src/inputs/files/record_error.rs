//! Why a part of a file has no next record.

use std::io;

use crate::inputs::lines::LineError;

/// Why there is no next record.
pub(super) enum RecordError {
    Io(io::Error),
    /// What begins at this byte cannot be read as what it is said to be.
    Invalid {
        offset: u64,
        problem: String,
    },
}

impl From<io::Error> for RecordError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<LineError> for RecordError {
    fn from(error: LineError) -> Self {
        match error {
            LineError::Io(error) => Self::Io(error),
            LineError::TooLong { offset, bytes_max } => Self::Invalid {
                offset,
                problem: format!("it is longer than {bytes_max} bytes"),
            },
        }
    }
}
