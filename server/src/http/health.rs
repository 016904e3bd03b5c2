//! Whether all is well, for those who start servers and who spread requests over them.

use axum::http::StatusCode;
use ebb_jobs::Failure;
use serde::Serialize;

use super::problem::Problem;
use crate::node::Node;

/// That all is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Health {
    status: &'static str,
}

impl Health {
    pub(super) const GOOD: Self = Self { status: "ok" };
}

/// Whether a node takes writes and jobs.
pub(super) fn ready(node: &Node) -> Result<Health, Problem> {
    let unready =
        |detail: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, Failure::Closed, detail);
    if node.is_closed() {
        return Err(unready("the server is stopping".to_string()));
    }
    match node.db().and_then(|db| db.stats().read_only_cause) {
        Some(cause) => Err(unready(format!("the store takes no writes: {cause}"))),
        None => Ok(Health::GOOD),
    }
}
