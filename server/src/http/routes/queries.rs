//! The queries of CQL that wait or run.

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use ebb_jobs::Failure;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Json, Named};
use super::paging::{PageRequest, Paged};
use super::{At, Served};
use crate::http::permits::check_admin;
use crate::http::problem::Problem;
use crate::http::queries::{QueryList, QueryView};
use crate::http::work_limits::WorkKind;
use crate::tokens::Principal;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(kill))
}

/// Lists the queries of CQL that wait or run, the oldest first
///
/// It takes a token for scope `admin`. Reads of single rows and writes are listed only if they take so long
/// that they were moved to a lane of their own.
#[utoipa::path(
    get, path = "/v1/queries", operation_id = "list_queries", tag = "queries",
    params(Paged),
    responses((status = 200, description = "A page of them", body = QueryList)),
)]
async fn list(
    State(Served {
        queries, limits, ..
    }): At,
    Extension(principal): Extension<Principal>,
    // A `Result`, so that a client without the scope gets 403 also for an invalid query.
    request: Result<PageRequest, Problem>,
) -> Answer<QueryList> {
    check_admin(&principal)?;
    let request = request?;
    let all = limits.run(WorkKind::Queries, move || {
        queries.map(|queries| queries.list())
    });
    let all = all.await?.unwrap_or_default();
    let (queries, next) = request.of(all, place);
    Ok(Json(QueryList { queries, next }))
}

/// Returns the position of a query in lists: its id in a fixed number of digits, so that positions have the
/// order of ids.
fn place(query: &QueryView) -> String {
    format!("{:020}", query.id)
}

/// Kills a query of CQL that only reads
///
/// It takes a token for scope `admin`. The client of the query gets an error. Queries that may change
/// something are refused with 409, and go on.
#[utoipa::path(
    delete, path = "/v1/queries/{id}", operation_id = "kill_query", tag = "queries",
    params(("id" = u64, Path, description = "The id of the query")),
    responses((status = 204, description = "The query ends")),
)]
async fn kill(
    State(Served { queries, .. }): At,
    Extension(principal): Extension<Principal>,
    Named(id): Named<u64>,
) -> Result<StatusCode, Problem> {
    check_admin(&principal)?;
    match queries.and_then(|queries| queries.kill(id)) {
        Some(true) => Ok(StatusCode::NO_CONTENT),
        Some(false) => {
            let text = format!("query {id} may change something, so it goes on to its end");
            Err(Problem::new(StatusCode::CONFLICT, Failure::Invalid, text))
        }
        None => {
            let text = format!("no query {id} waits or runs");
            Err(Problem::new(StatusCode::NOT_FOUND, Failure::NotFound, text))
        }
    }
}
