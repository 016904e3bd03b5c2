//! Errors of rows that are read from a target.

use crate::target::TargetError;

/// The error of an access to a published table's rows, or to their deletes or indexes.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// The target cannot be read or written.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A data file or a delete file is damaged or missing. Every attempt to read it would find the same.
    #[error("{url}: {problem}; publish the table in full")]
    File {
        /// The location of the file.
        url: String,
        /// The fault of the file, without its location.
        problem: String,
    },
}

impl RowsError {
    /// Returns a function for `map_err`: it turns a fault of the file at `url` into an error.
    pub(super) fn file<E: ToString>(url: &str) -> impl FnOnce(E) -> Self {
        let url = url.to_owned();
        move |problem| Self::File {
            url,
            problem: problem.to_string(),
        }
    }
}
