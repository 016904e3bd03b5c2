//! Tables with their runs, snapshots and merges, the data that their damaged files have lost, and
//! rewrites of these files without that data.

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use ebb_jobs::Failure;
use ebb_storage::LossReport;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Body, JsonBytes, Named, Params, json_of};
use super::paging::{limit_of, page};
use super::{At, Served};
use crate::http::permits::check_admin;
use crate::http::problem::Problem;
use crate::http::wire::{AcceptedLoss, BookmarkView, TableList, TableSummary, TableView};
use crate::http::work_limits::WorkKind;
use crate::tokens::Principal;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(loss))
        .routes(routes!(accept_loss))
}

/// The query parameters of the list of tables.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Listed {
    /// Lists only tables of this keyspace.
    keyspace: Option<String>,
    /// The largest number of tables in the page, 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The value of `next` in the page before this one.
    after: Option<String>,
}

/// Lists the tables, ordered by name
#[utoipa::path(
    get, path = "/v1/tables", operation_id = "list_tables", tag = "tables",
    params(Listed),
    responses((status = 200, description = "A page of them", body = TableList)),
)]
async fn list(State(served): At, Params(listed): Params<Listed>) -> Result<JsonBytes, Problem> {
    let limit = limit_of(listed.limit)?;
    let list = served.json_work(WorkKind::SchemaReads, move |node| {
        let tables = node.db().map(|db| db.stats().tables).unwrap_or_default();
        let tables = tables.iter().filter(|table| !table.dropped);
        let mut all: Vec<_> = tables.map(TableSummary::of).collect();
        all.retain(|table| (listed.keyspace.as_ref()).is_none_or(|of| table.keyspace == *of));
        all.sort_by_cached_key(place);
        let is_after = |table: &TableSummary| {
            let after = listed.after.as_ref();
            after.is_none_or(|after| place(table) > *after)
        };
        let rest = all.into_iter().filter(is_after);
        let (tables, next) = page(rest, limit, place);
        Ok(TableList { tables, next })
    });
    list.await
}

/// Returns the key by which lists of tables are ordered. A name has no slash.
fn place(table: &TableSummary) -> String {
    format!("{}/{}", table.keyspace, table.table)
}

/// Shows a table with its runs, snapshots and merges
#[utoipa::path(
    get, path = "/v1/tables/{keyspace}/{table}", operation_id = "show_table", tag = "tables",
    params(
        ("keyspace" = String, Path, description = "The keyspace of the table"),
        ("table" = String, Path, description = "The name of the table"),
    ),
    responses((status = 200, description = "The table", body = TableView)),
)]
async fn show(
    State(served): At,
    Named((keyspace, table)): Named<(String, String)>,
) -> Result<JsonBytes, Problem> {
    let view = served.json_work(WorkKind::SchemaReads, move |node| {
        let unknown = || ebb_storage::Error::NotFound {
            what: "table",
            name: format!("{keyspace}.{table}"),
        };
        let db = node.db().ok_or_else(unknown)?;
        let found = db.existing_keyspace(&keyspace);
        let found = found.and_then(|of| of.existing_table(&table));
        let found = found.map_err(|_| unknown())?;
        // The console shows several tables at once, so each request is for no more than its table.
        let snapshots = found.snapshots().into_iter().rev();
        let bookmarks = snapshots.map(|(snapshot, seq)| BookmarkView {
            snapshot,
            sequence: seq.0,
        });
        Ok(TableView::of(&found.stats(), bookmarks.collect()))
    });
    view.await
}

/// Lists the data that a table has lost in damaged files
///
/// Requires an access token for scope `admin`. Every file of the table is read, and nothing is
/// changed. The field `token` of the response identifies the list in a request to the route
/// `accept-loss`.
#[utoipa::path(
    post, path = "/v1/tables/{keyspace}/{table}/loss", operation_id = "list_loss", tag = "tables",
    params(
        ("keyspace" = String, Path, description = "The keyspace of the table"),
        ("table" = String, Path, description = "The name of the table"),
    ),
    responses((status = 200, body = Object,
        description = "The files that are damaged, missing or unreadable, and what is lost of each")),
)]
async fn loss(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Named((keyspace, table)): Named<(String, String)>,
) -> Result<JsonBytes, Problem> {
    check_admin(&principal)?;
    let report = served.json_work(WorkKind::Long, move |node| {
        let report: LossReport = node.database("a report")?.list_lost(&keyspace, &table)?;
        Ok(report)
    });
    report.await
}

/// Rewrites the damaged files of a table without the data that cannot be read
///
/// Requires an access token for scope `admin`. Every file of the table is read. The body of the
/// request contains the field `token` from a response of the route `loss`, which lists what is
/// lost. If that list would be different now, nothing is changed.
#[utoipa::path(
    post, path = "/v1/tables/{keyspace}/{table}/accept-loss", operation_id = "accept_loss",
    tag = "tables",
    params(
        ("keyspace" = String, Path, description = "The keyspace of the table"),
        ("table" = String, Path, description = "The name of the table"),
    ),
    request_body = AcceptedLoss,
    responses((status = 200, body = Object,
        description = "The files that were rewritten, and what is lost of each"),
        (status = 409, description = "Another loss would be listed now", body = Problem,
            content_type = "application/problem+json")),
)]
async fn accept_loss(
    State(served): At,
    Extension(principal): Extension<Principal>,
    Named((keyspace, table)): Named<(String, String)>,
    body: Body,
) -> Result<JsonBytes, Problem> {
    let AcceptedLoss { token } = json_of(body)?;
    check_admin(&principal)?;
    let detail = format!(
        "another loss of {keyspace}.{table} would be listed now than that of token {token}: list it \
         again, and accept the new token"
    );
    let report = served.json_work(WorkKind::Long, move |node| {
        let report = node.accept_loss(&keyspace, &table, &token)?;
        report.ok_or_else(|| Problem::new(StatusCode::CONFLICT, Failure::Corrupt, detail))
    });
    report.await
}
