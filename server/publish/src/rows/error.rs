//! Errors of rows that are read from a target.

use crate::target::TargetError;

/// The error of an access to a published table's rows, or to their deletes or indexes.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// The target cannot be read or written.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A data file or a delete file is damaged, or cannot be read.
    #[error("{url}: {problem}; publish the table in full")]
    File {
        /// The location of the file.
        url: String,
        /// A sentence about what is wrong with the file.
        problem: String,
    },
}

impl RowsError {
    /// Returns a function for `map_err`, which makes the error of the file at `url` from a problem.
    pub(super) fn file<E: ToString>(url: &str) -> impl FnOnce(E) -> Self {
        let url = url.to_owned();
        move |problem| Self::File {
            url,
            problem: problem.to_string(),
        }
    }
}
