//! The load of the last day, the forecast, and what-if questions.

use axum::extract::{Extension, State};
use ebb_jobs::JobError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Body, Json, JsonBytes, Params, json_of, json_work};
use super::jobs::{plan_check, requested};
use super::{At, Served};
use crate::http::access::Peer;
use crate::http::problem::Problem;
use crate::http::work_limits::WorkKind;
use crate::live::{Forecast, LikeJob, Load, Tasks, WhatIf, WhatIfAnswer};
use crate::tokens::Principal;

const SECONDS_DEFAULT: u32 = 600;
/// The longest time span of a query, a day: the load is kept for as long, and forecasts reach as
/// far.
const SECONDS_MAX: u32 = 86_400;

pub(super) fn routes() -> OpenApiRouter<Served> {
    OpenApiRouter::new()
        .routes(routes!(load))
        .routes(routes!(forecast))
        .routes(routes!(what_if))
}

/// The query parameters of the load and of the forecast.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Span {
    /// The length of the time span in seconds, 1 to 86,400; 600 by default.
    #[serde(default)]
    #[param(minimum = 1, maximum = 86_400)]
    seconds: Option<u32>,
}

impl Span {
    fn seconds(&self) -> Result<u32, Problem> {
        match self.seconds.unwrap_or(SECONDS_DEFAULT) {
            seconds if (1..=SECONDS_MAX).contains(&seconds) => Ok(seconds),
            seconds => Err(Problem::invalid(format!(
                "seconds must be 1 to {SECONDS_MAX}, got {seconds}"
            ))),
        }
    }
}

/// Shows the load, latencies and CPU use of jobs
///
/// The samples are of one second each if `seconds` is at most 3,600, otherwise of ten.
#[utoipa::path(
    get, path = "/v1/load", operation_id = "show_load", tag = "live",
    params(Span),
    responses((status = 200, description = "The load of the last `seconds`", body = Load)),
)]
async fn load(
    State(Served { live, limits, .. }): At,
    Params(span): Params<Span>,
) -> Result<JsonBytes, Problem> {
    let seconds = span.seconds()?;
    json_work(&limits, WorkKind::Load, move || Ok(live.load(seconds))).await
}

/// Shows the forecast of the cores that jobs cannot use
///
/// The load, other processes and the guard, which limits jobs to keep the latency objective, keep
/// these cores from jobs. The scheduling policy plans by this forecast.
#[utoipa::path(
    get, path = "/v1/forecast", operation_id = "show_forecast", tag = "live",
    params(Span),
    responses(
        (status = 200, description = "The forecast of the next `seconds`", body = Forecast),
        (status = 422, description = "The server has not measured its load yet", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
async fn forecast(
    State(Served { live, limits, .. }): At,
    Params(span): Params<Span>,
) -> Answer<Forecast> {
    let seconds = span.seconds()?;
    let forecast = limits.run(WorkKind::Load, move || live.forecast(seconds));
    let forecast = forecast.await?;
    let nothing =
        || JobError::senseless("the server has not measured its load yet: retry in a few seconds");
    Ok(Json(forecast.ok_or_else(nothing)?))
}

/// A hypothetical job, described by its tasks, by an existing job that it resembles, or by a job request.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what `what_if_of` parses")]
enum WhatIfRequest {
    Tasks(Tasks),
    Like(LikeJob),
    Job(ebb_jobs::request::JobRequest),
}

/// Predicts the end of a hypothetical job, and the jobs that it would make late
#[utoipa::path(
    post, path = "/v1/what-if", operation_id = "what_if", tag = "live",
    request_body = WhatIfRequest,
    responses((status = 200, description = "The predicted effect", body = WhatIfAnswer)),
)]
async fn what_if(
    State(Served {
        node, live, limits, ..
    }): At,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Answer<WhatIfAnswer> {
    let what_if = what_if_of(&principal, peer, json_of(body)?)?;
    let answer = limits.run(WorkKind::Plans, move || {
        live.what_if(&what_if, &plan_check(&node, &principal))
    });
    Ok(Json(answer.await??))
}

fn what_if_of(principal: &Principal, peer: Peer, value: Value) -> Result<WhatIf, Problem> {
    let wrong = |error| Problem::senseless(format!("the body does not fit this request: {error}"));
    Ok(if value.get("like").is_some() {
        WhatIf::Like(serde_json::from_value(value).map_err(wrong)?)
    } else if value.get("maps").is_some() {
        WhatIf::Tasks(serde_json::from_value(value).map_err(wrong)?)
    } else {
        WhatIf::Job(Box::new(requested(principal, peer, value)?))
    })
}
