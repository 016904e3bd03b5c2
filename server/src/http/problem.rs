//! The bodies of error responses: problems in the sense of RFC 9457.

use std::error::Error;
use std::fmt;
use std::iter::successors;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ebb_jobs::{Failure, JobError};
use ebb_storage::ErrorKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");
/// The challenge in responses with the status 401, as RFC 6750 defines it.
const BEARER: HeaderValue = HeaderValue::from_static("Bearer realm=\"ebb\"");

/// The body of an error response: the reason why a request failed. The body has no member `type`.
/// By RFC 9457, this means `about:blank`: a client learns the kind of the problem from the HTTP
/// status alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The status in words.
    pub title: String,
    /// The status of the response.
    pub status: u16,
    /// The error, the object that it concerns, and the remedy.
    pub detail: String,
    /// The class of the failure. A command derives its exit code from it.
    pub failure: Failure,
    /// The `Retry-After` header of the response, in seconds; `None` for a response without it.
    #[serde(skip)]
    pub(super) retry_after_s: Option<u64>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, failure: Failure, detail: impl fmt::Display) -> Self {
        Self {
            title: status.canonical_reason().unwrap_or_default().to_string(),
            status: status.as_u16(),
            detail: detail.to_string(),
            failure,
            retry_after_s: None,
        }
    }

    /// Adds the time in seconds after which the client may retry.
    pub(super) fn retry_after(self, wait_s: u64) -> Self {
        Self {
            retry_after_s: Some(wait_s),
            ..self
        }
    }

    /// Returns the error (422) for a request that is well formed, but makes no sense.
    pub(super) fn senseless(detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, Failure::Invalid, detail)
    }

    /// Returns the error (403) for a request that its principal has no permission for.
    pub(super) fn forbidden(detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::FORBIDDEN, Failure::Invalid, detail)
    }

    /// Returns the error (400) for a malformed request.
    pub(super) fn invalid(detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Failure::Invalid, detail)
    }
}

/// Returns the error (500) for a failure inside the server, which is no fault of the client.
pub(super) fn broken(error: impl fmt::Display) -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, Failure::Other, error)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl From<JobError> for Problem {
    fn from(error: JobError) -> Self {
        let failure = Failure::of(&error);
        let status = match failure {
            // 409 and not 422: the request makes sense in another state of the job.
            Failure::Invalid if matches!(error, JobError::Ended { .. } | JobError::State(_)) => {
                StatusCode::CONFLICT
            }
            Failure::Invalid if matches!(error, JobError::Forbidden(_)) => StatusCode::FORBIDDEN,
            Failure::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Failure::NotFound => StatusCode::NOT_FOUND,
            Failure::Closed => StatusCode::SERVICE_UNAVAILABLE,
            Failure::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            Failure::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
            Failure::Other if store_fails(&error) => StatusCode::INTERNAL_SERVER_ERROR,
            // An output that exists, for one, or a directory that another backup is filling.
            Failure::Locked | Failure::Other => StatusCode::CONFLICT,
        };
        Self::new(status, failure, error)
    }
}

impl From<ebb_storage::Error> for Problem {
    fn from(error: ebb_storage::Error) -> Self {
        JobError::from(error).into()
    }
}

/// Returns whether the cause of an error is that the store cannot read or write files, or takes no writes.
fn store_fails(error: &JobError) -> bool {
    let error: &(dyn Error + 'static) = error;
    let mut causes = successors(Some(error), |&cause| cause.source());
    let of_store = causes.find_map(|cause| cause.downcast_ref::<ebb_storage::Error>());
    of_store.is_some_and(|error| matches!(error.kind(), ErrorKind::Io | ErrorKind::ReadOnly))
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).expect("a problem has text keys only");
        let mut response = (status, [(CONTENT_TYPE, MEDIA_TYPE)], body).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, BEARER);
        }
        if let Some(wait_s) = self.retry_after_s {
            headers.insert(RETRY_AFTER, wait_s.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use ebb_tables::CatalogError;

    use super::*;

    /// Regression: a failed look-up of the role of a token got the status 409, as a request that conflicts with
    /// another one does.
    #[test]
    fn a_failure_of_the_store_is_no_conflict() {
        let failed = || ebb_storage::Error::Io {
            action: "read",
            path: "000007.sst".into(),
            source: Arc::new(io::Error::other("the disk is gone")),
        };
        for error in [
            JobError::Store(failed()),
            JobError::Catalog(CatalogError::Store(failed())),
            JobError::Catalog(CatalogError::Unfinished(Box::new(failed().into()))),
            JobError::Store(ebb_storage::Error::OpenedReadOnly),
        ] {
            let problem = Problem::from(error);
            assert_eq!(
                (problem.status, problem.failure),
                (500, Failure::Other),
                "{problem}"
            );
        }
        let conflict = JobError::Store(ebb_storage::Error::TransactionTooOld);
        assert_eq!(Problem::from(conflict).status, 409);
    }
}
