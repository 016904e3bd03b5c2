//! The jobs of a server and its numbers, for other processes: HTTP/1.1 and JSON, over a Unix
//! socket in the directory of the database and over a port.
//!
//! ```text
//!   ebb run, ebb jobs ─> client ─> jobs.sock ────┬─> server ─> routes ─> Node, Metrics
//!                          │                     │               │
//!   Prometheus, scripts ───┼──> port ─> access ──┘               │
//!                          └──────── wire: what is said ─────────┘
//! ```
//!
//! | route | |
//! | --- | --- |
//! | `POST /v1/jobs` | starts the job of a [`JobRequest`](ebb_jobs::request::JobRequest) |
//! | `POST /v1/jobs/estimate` | how long it would take |
//! | `GET /v1/jobs` | the jobs that are remembered, by pages, the newest first |
//! | `GET /v1/jobs/{id}` | one, also `last`; `?wait_ms=` waits so long for its end |
//! | `POST /v1/jobs/{id}/cancel` | asks it to stop; refused when it has ended |
//! | `GET /v1/jobs/{id}/attempts` | the attempts at its tasks |
//! | `POST /v1/jobs/{id}/restart`, `/discard` | of an unfinished one |
//! | `POST /v1/jobs/{id}/retry` | submits a failed or cancelled one again |
//! | `GET /v1/profiles` | what the tasks of applications took |
//! | `GET /v1/keyspaces` | the names of the keyspaces |
//! | `GET /v1/load`, `/v1/forecast` | the last hour or day, and what policies plan by |
//! | `POST /v1/what-if` | what another job would change |
//! | `GET /v1/events` | what happens, as server-sent events |
//! | `GET /v1/tables`, `/v1/tables/{keyspace}/{table}` | tables; one with its runs |
//! | `POST /v1/tables/{keyspace}/{table}/get`, `/scan` | a value; a page of rows |
//! | `POST /v1/tables/{keyspace}/{table}/loss`, `/accept-loss` | lists what is lost of damaged files; rewrites them without it |
//! | `GET`, `POST /v1/snapshots` | snapshots; creates one |
//! | `GET`, `DELETE /v1/snapshots/{keyspace}/{name}` | one |
//! | `POST /v1/snapshots/{keyspace}/{name}/renew` | changes when it expires |
//! | `GET /v1/policies` | the scheduling policies |
//! | `GET`, `POST /v1/backups` | backups; makes one |
//! | `GET /v1/stats` | the statistics of the database |
//! | `POST /v1/verify`, `/v1/restore` | reads every file; takes damaged ones from a backup |
//! | `GET`, `POST`, `DELETE /v1/session` | who asks; logs in, and out |
//! | `GET /v1/roles` | the roles of CQL |
//! | `GET /v1/queries`, `DELETE /v1/queries/{id}` | the queries of CQL that run; kills one |
//! | `GET /v1/config` | the settings in force |
//! | `GET /`, `/assets/{name}` | the console: a page over the other routes |
//! | `GET /metrics` | the node as numbers, for Prometheus |
//! | `GET /health/live`, `/health/ready` | whether it answers; whether it takes writes and jobs |
//! | `GET /openapi.json` | all of this, for programs |
//!
//! What always holds: whoever can open the socket may do everything. It has mode 0600 from
//! its first moment on, so that is the user of the server. Whoever comes by the port shows a
//! [token](crate::tokens), and names no files of the server's machine unless that is one
//! for `admin`. Errors are RFC 9457 problems,
//! with a [`Failure`](ebb_jobs::Failure) as `failure`. A body that is larger than it may
//! be is not read.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `wire` | what is said, as JSON |
//! | `problem` | errors as they are answered |
//! | `routes` | requests to a node, and its answers: a file per noun |
//! | `access` | who may ask by the port |
//! | `permits` | what the role of a token lets it do |
//! | `readiness` | whether a server takes writes and jobs, and what is wrong |
//! | `deadline` | connections whose client has to read |
//! | `session` | who is logged in: a browser shows a cookie |
//! | `idempotency` | requests that come again |
//! | `roots` | where files may be written |
//! | `audit` | entries in the audit log for changes |
//! | `queries` | the queries of CQL that run |
//! | `headers` | what browsers are told with each answer |
//! | `server` | connections: how many, how long, and their end |
//! | `health_server` | health checks alone, at an address of their own |
//! | `slow` | requests that took long, for whoever watches |
//! | `tls` | what hides connections from the network |
//! | `client` | asks a server, for programs that wait |
//! | `port` | a server that is asked by its address |
//! | `frozen` | the page with the answers of a moment, as one file |
//! | `socket` | the file that both meet at |

mod access;
mod audit;
mod client;
mod deadline;
mod frozen;
mod headers;
mod health_server;
mod idempotency;
mod permits;
mod port;
mod problem;
mod queries;
mod readiness;
mod roots;
mod routes;
mod server;
mod session;
mod slow;
mod socket;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

pub use client::{ClientError, JobsClient};
pub use frozen::freeze;
pub use health_server::HealthServer;
pub use idempotency::KEY_BYTES_MAX;
pub use problem::Problem;
pub use queries::{Queries, QueryView};
pub use roots::Roots;
pub use server::{HttpOptions, HttpServer};
pub use slow::{SlowRequest, SlowRequests};
pub use socket::SOCKET;
pub use tls::TlsSource;
pub use wire::{
    AttemptList, BackupPlace, BookmarkView, Cancelled, Configuration, GetRequest, JobList,
    Keyspaces, MergeView, Octets, ProfileList, RoleList, RoleView, RowPage, RowView, RunView,
    ScanRequest, SettingSource, SettingView, SnapshotList, SnapshotRequest, SnapshotView,
    StatsReport, TableList, TableSummary, TableView, VerifiedDatabase,
};
