//! The errors of job requests.

/// The error of a request that is malformed or cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The request has a format that this build does not support.
    #[error(
        "the job request has version {found}, and this build of ebb knows version {known} only: \
         use the build that wrote it"
    )]
    Version {
        /// The version of the request's format.
        found: u32,
        /// The version of the format that this build reads.
        known: u32,
    },
    /// The JSON is malformed, or is not a job request.
    #[error("the job request cannot be read: {0}")]
    Malformed(serde_json::Error),
    /// The request makes no sense; the text is the reason.
    #[error("{0}")]
    Senseless(String),
}
