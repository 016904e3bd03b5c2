//! Extractors, response types and helpers that the routes share.

use std::num::NonZeroU64;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use ebb_jobs::{Failure, JobError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::Served;
use crate::http::problem::{Problem, broken};
use crate::http::work_limits::{WorkKind, WorkLimits};
use crate::node::Node;
use crate::tokens::Principal;

pub(super) type Answer<T> = Result<Json<T>, Problem>;
/// The body of a request, or the reason why it was not read.
pub(super) type Body = Result<Bytes, BytesRejection>;

/// A response whose body is this value as JSON. The thread that serves all requests makes the JSON, so the
/// value has to be short. A long response is a [`JsonBytes`].
pub(super) struct Json<T>(pub T);

/// A response whose body is this JSON, which was made on a thread for blocking work. If the thread that serves
/// requests made the JSON of long responses, event streams and health checks would wait for it.
pub(super) struct JsonBytes(pub Vec<u8>);

/// Runs `work` as [`WorkLimits::run`] does, and makes the JSON of its result on the same thread.
///
/// # Errors
/// The errors are those of [`WorkLimits::run`], and the problem that `work` returns.
pub(super) async fn json_work<T: Serialize + 'static>(
    limits: &WorkLimits,
    kind: WorkKind,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<JsonBytes, Problem> {
    let json = limits.run(kind, move || {
        let mut json = serde_json::to_vec(&work()?).map_err(broken)?;
        // A response in memory counts by its length, and the capacity may be twice as much.
        json.shrink_to_fit();
        Ok::<_, Problem>(JsonBytes(json))
    });
    json.await?
}

impl IntoResponse for JsonBytes {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        ([(CONTENT_TYPE, json)], self.0).into_response()
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => JsonBytes(body).into_response(),
            Err(error) => broken(error).into_response(),
        }
    }
}

impl Served {
    /// Runs `work`, which may wait for the disk, on a thread for blocking work.
    ///
    /// # Errors
    /// When `work` fails, and where [`WorkLimits::run`] does.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        kind: WorkKind,
        work: impl FnOnce(&Node) -> Result<T, JobError> + Send + 'static,
    ) -> Result<T, Problem> {
        let work = move |node: &Node| work(node).map_err(Problem::from);
        self.checked_work(kind, work).await
    }

    /// Runs `work` as [`work`](Self::work) does. `work` may also refuse the request, for example
    /// because the principal lacks a permission.
    ///
    /// # Errors
    /// The errors are those of [`work`](Self::work), and the problem that `work` returns.
    pub(super) async fn checked_work<T: Send + 'static>(
        &self,
        kind: WorkKind,
        work: impl FnOnce(&Node) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let node = Arc::clone(&self.node);
        self.limits.run(kind, move || work(&node)).await?
    }

    /// Runs `work` as [`checked_work`](Self::checked_work) does, and makes the JSON of its result on
    /// the same thread. This is for responses that may be long.
    ///
    /// # Errors
    /// The errors are those of [`checked_work`](Self::checked_work).
    pub(super) async fn json_work<T: Serialize + 'static>(
        &self,
        kind: WorkKind,
        work: impl FnOnce(&Node) -> Result<T, Problem> + Send + 'static,
    ) -> Result<JsonBytes, Problem> {
        let node = Arc::clone(&self.node);
        json_work(&self.limits, kind, move || work(&node)).await
    }
}

/// The query parameters of a request that reads the whole database at a limited rate.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Paced {
    /// The largest rate, in bytes per second. Without it, only the CPU time that jobs may use limits
    /// the work.
    #[param(minimum = 1)]
    rate_bytes_per_s: Option<u64>,
}

impl Paced {
    /// Returns the limit on bytes per second that the request sets; `None` if it sets none.
    ///
    /// # Errors
    /// 400 when it is 0.
    pub(super) fn rate(&self) -> Result<Option<NonZeroU64>, Problem> {
        let parsed = self.rate_bytes_per_s.map(|rate| {
            let none = || Problem::invalid("rate_bytes_per_s: 0 is not a rate; leave it out");
            NonZeroU64::new(rate).ok_or_else(none)
        });
        parsed.transpose()
    }
}

/// Returns the name by which the history records the client that requested a backup or a verification.
pub(super) fn name_of(principal: Principal) -> String {
    match principal.role {
        Some(role) => format!("{} of role {}", principal.name, role.name),
        None => principal.name,
    }
}

/// An extractor for the parameters in the path of a request. A path that does not fit `T` gets 400.
pub(super) struct Named<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(names)) => Ok(Self(names)),
            Err(rejected) => Err(Problem::invalid(rejected.body_text())),
        }
    }
}

/// An extractor for the query parameters of a request. A query that does not fit `T` gets 400.
pub(super) struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(rejected) => Err(Problem::invalid(rejected.body_text())),
        }
    }
}

/// Parses the JSON body of a request.
///
/// # Errors
/// 400 when the body is no JSON, and 422 when it does not fit `T`; also when it was not read.
pub(super) fn json_of<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    let body = body.map_err(|rejected| {
        Problem::new(rejected.status(), Failure::Invalid, rejected.body_text())
    })?;
    // Serde accepts a list of field values in place of an object; this API does not.
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if first.is_some_and(|first| *first == b'[') {
        let text = "the body must be an object, not a list";
        return Err(Problem::senseless(text));
    }
    serde_json::from_slice(&body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            Problem::senseless(format!("the body does not fit this request: {error}"))
        }
        _ => Problem::invalid(format!("the body is no JSON: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Mutex;
    use std::thread::{ThreadId, current};

    use serde::Serializer;

    use super::*;

    /// A value that notes the thread that makes its JSON.
    struct Noting(Arc<Mutex<Option<ThreadId>>>);

    impl Serialize for Noting {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            *self.0.lock().unwrap() = Some(current().id());
            serializer.serialize_str("noted")
        }
    }

    #[tokio::test]
    async fn the_json_of_a_long_response_is_made_on_a_thread_for_blocking_work() {
        let noted = Arc::<Mutex<Option<ThreadId>>>::default();
        let value = Noting(Arc::clone(&noted));
        let work = move || Ok(value);
        let json = json_work(&WorkLimits::default(), WorkKind::Load, work).await;
        assert_eq!(json.unwrap().0, b"\"noted\"");
        let thread = noted.lock().unwrap().unwrap();
        assert_ne!(thread, current().id(), "the thread that serves requests");
    }

    /// Regression: the thread that serves all requests made the JSON of the load of a day, of ten thousand
    /// attempts, and of long lists, and all streams waited.
    #[test]
    fn no_route_makes_the_json_of_a_long_response_on_the_thread_that_serves_requests() {
        let long = [
            "Load",
            "AttemptList",
            "ProfileList",
            "TableList",
            "TableView",
            "SnapshotList",
            "RowView",
            "RowPage",
            "StatsReport",
            "LossReport",
            "VerifiedDatabase",
        ];
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/routes");
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            for name in long {
                for answer in [format!("Answer<{name}>"), format!("Json<{name}>")] {
                    assert!(!text.contains(&answer), "{answer} in {}", path.display());
                }
            }
        }
    }
}
