//! Errors as they are answered: problems as of RFC 9457.

use std::fmt;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ebb_jobs::{Failure, JobError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Why a request was not followed. Its type is `about:blank`: the status says it all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The status in words.
    pub title: String,
    /// That of the response.
    pub status: u16,
    /// What is wrong, with what, and what to do.
    pub detail: String,
    /// What kind of failure it is, by which a command exits.
    pub failure: Failure,
}

impl Problem {
    pub(super) fn new(status: StatusCode, failure: Failure, detail: impl fmt::Display) -> Self {
        Self {
            title: status.canonical_reason().unwrap_or_default().to_string(),
            status: status.as_u16(),
            detail: detail.to_string(),
            failure,
        }
    }

    /// A request that is well formed, and makes no sense.
    pub(super) fn senseless(detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, Failure::Invalid, detail)
    }

    /// A request that its principal may not make.
    pub(super) fn forbidden(detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::FORBIDDEN, Failure::Invalid, detail)
    }

    /// A request that cannot be followed as it is.
    pub(super) fn invalid(detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Failure::Invalid, detail)
    }
}

/// What is no fault of whoever asks.
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
            // The request would have made sense before.
            Failure::Invalid if matches!(error, JobError::Ended { .. }) => StatusCode::CONFLICT,
            Failure::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Failure::NotFound => StatusCode::NOT_FOUND,
            Failure::Closed => StatusCode::SERVICE_UNAVAILABLE,
            Failure::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            Failure::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
            // An output that exists, for one, or a directory that another backup is filling.
            Failure::Locked | Failure::Other => StatusCode::CONFLICT,
        };
        Self::new(status, failure, error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).expect("a problem has text keys only");
        (status, [(CONTENT_TYPE, MEDIA_TYPE)], body).into_response()
    }
}
