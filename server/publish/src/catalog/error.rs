//! Errors of catalogs. None contains a secret of the publisher.

#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The URL of the catalog, or a variable of the environment, is not valid.
    #[error("{0}")]
    Setting(String),
    /// A request failed: the catalog or the server of its tokens refuses it, does not answer, or sends an
    /// answer that ebb cannot read.
    #[error("{call} {url}: {reason}")]
    Request {
        call: &'static str,
        /// The URL of the request, without its query.
        url: String,
        reason: String,
    },
}
