//! The metrics of the node, for Prometheus.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::IntoResponse;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{At, Served};
use crate::http::problem::{Problem, broken};
use crate::http::work_limits::WorkKind;
use crate::metrics::Format;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new().routes(routes!(scrape))
}

/// Returns the metrics of the node
///
/// The format is Prometheus' text format, or OpenMetrics if the `Accept` header names it.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "metrics",
    responses((status = 200, description = "The metrics", content(
        (String = "text/plain"),
        (String = "application/openmetrics-text"),
    )))
)]
async fn scrape(
    State(Served {
        metrics, limits, ..
    }): At,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    let text = limits.run(WorkKind::Scrapes, move || metrics.text(format));
    let text = text.await?.map_err(broken)?;
    Ok(([(CONTENT_TYPE, format.media_type())], text))
}
