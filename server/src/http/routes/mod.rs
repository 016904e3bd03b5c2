//! Requests to a node, and its answers: a file per noun.
//!
//! | file | routes |
//! | --- | --- |
//! | `jobs` | `/v1/jobs` and what is below |
//! | `profiles`, `policies` | `/v1/profiles`, `/v1/policies` |
//! | `snapshots` | `/v1/snapshots` and what is below |
//! | `rows` | `/v1/tables/{keyspace}/{table}/get` and `/scan` |
//! | `database` | `/v1/stats`, `/v1/verify`, `/v1/restore` |
//! | `tables`, `keyspaces` | `/v1/tables` and what is below, `/v1/keyspaces` |
//! | `backups` | `/v1/backups` |
//! | `roles` | `/v1/roles` |
//! | `queries` | `/v1/queries` and what is below |
//! | `config` | `/v1/config` |
//! | `session` | `/v1/session`: logging in and out |
//! | `console` | `/` and `/assets/...`: the page |
//! | `health`, `metrics` | `/health/...`, `/metrics` |
//! | `live` | `/v1/load`, `/v1/forecast`, `/v1/what-if` |
//! | `events` | `/v1/events` |
//! | `openapi` | `/openapi.json`, made of the others |
//! | `answer`, `paging` | helpers that the routes share; the pages of lists |

mod answer;
mod backups;
mod config;
mod console;
mod database;
mod events;
mod health;
mod jobs;
mod keyspaces;
mod live;
mod metrics;
mod openapi;
mod paging;
mod policies;
mod profiles;
mod queries;
mod roles;
mod rows;
mod session;
mod snapshots;
mod tables;

use std::sync::Arc;

pub(super) use self::console::in_one_file;
pub(super) use self::health::health_routes;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use ebb_jobs::Failure;

pub(super) use self::events::StreamPermits;
use super::job_views::JobViews;
use super::problem::Problem;
use super::queries::Queries;
use super::roots::Roots;
use super::wire::Configuration;
use super::work_limits::WorkLimits;
use crate::live::Live;
use crate::memory::MemoryLimits;
use crate::metrics::Metrics;
use crate::node::Node;

/// The state of the routes. Each handler extracts the parts that it needs.
#[derive(Clone)]
pub(super) struct Served {
    pub node: Arc<Node>,
    pub metrics: Arc<Metrics>,
    pub live: Arc<Live>,
    pub roots: Arc<Roots>,
    pub queries: Option<Arc<dyn Queries>>,
    pub configuration: Arc<Configuration>,
    pub memory: Option<MemoryLimits>,
    /// Runs work that waits for the disk, within limits on its threads.
    pub limits: WorkLimits,
    pub job_views: Arc<JobViews>,
}

/// The extractor for the state in handlers.
type At = State<Served>;

/// Returns the routes of a server. `cookie_name` is the name of its session cookie, for the description.
pub(super) fn routes(served: Served, cookie_name: &str) -> Router {
    let described = openapi::empty()
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(jobs::routes())
        .merge(profiles::routes())
        .merge(live::routes())
        .merge(events::routes())
        .merge(policies::routes())
        .merge(backups::routes())
        .merge(session::routes())
        .merge(roles::routes())
        .merge(queries::routes())
        .merge(config::routes())
        .merge(snapshots::routes())
        .merge(tables::routes())
        .merge(rows::routes())
        .merge(database::routes())
        .merge(keyspaces::routes());
    openapi::served(described, cookie_name)
        .merge(console::routes())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .with_state(served)
}

async fn no_route(uri: Uri) -> Problem {
    let detail = format!("there is no {}", uri.path());
    Problem::new(StatusCode::NOT_FOUND, Failure::NotFound, detail)
}

async fn no_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not take {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, Failure::Invalid, detail)
}
