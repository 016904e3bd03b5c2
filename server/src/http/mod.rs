//! The interface of a server to other processes, for jobs, data and metrics: HTTP/1.1 and JSON, over a
//! Unix socket in the directory of the database and over a port.
//!
//! ```text
//!   ebb run, ebb jobs ─> client ─> jobs.sock ────┬─> server ─> routes ─> Node, Metrics
//!                          │                     │               │
//!   Prometheus, scripts ───┼──> port ─> access ──┘               │
//!                          └──────── wire: JSON bodies ──────────┘
//! ```
//!
//! | route | |
//! | --- | --- |
//! | `POST /v1/jobs` | starts the job of a [`JobRequest`](ebb_jobs::request::JobRequest) |
//! | `POST /v1/jobs/estimate` | estimates the time of a job |
//! | `GET /v1/jobs` | the jobs in the history, by pages, the newest first |
//! | `GET /v1/jobs/{id}` | a job, also `last`; `?wait_ms=` waits up to that time for its end |
//! | `POST /v1/jobs/{id}/cancel` | cancels a job; refused if it has ended |
//! | `GET /v1/jobs/{id}/attempts` | the attempts at the tasks of a job |
//! | `POST /v1/jobs/{id}/restart`, `/discard` | restarts or discards an unfinished job |
//! | `POST /v1/jobs/{id}/retry` | submits a failed or cancelled job again |
//! | `GET /v1/profiles` | the measured times of the tasks of applications |
//! | `GET /v1/keyspaces` | the names of the keyspaces |
//! | `GET /v1/load`, `/v1/forecast` | the load of the last hour or day; the forecast for policies |
//! | `POST /v1/what-if` | the effect of a hypothetical job on the others |
//! | `GET /v1/events` | changes of jobs and load, as server-sent events |
//! | `GET /v1/tables`, `/v1/tables/{keyspace}/{table}` | tables; one with its runs |
//! | `POST /v1/tables/{keyspace}/{table}/get`, `/scan` | a value; a page of rows |
//! | `POST /v1/tables/{keyspace}/{table}/loss`, `/accept-loss` | lists what is lost of damaged files; rewrites them without it |
//! | `GET`, `POST /v1/snapshots` | snapshots; creates one |
//! | `GET`, `DELETE /v1/snapshots/{keyspace}/{name}` | a snapshot; deletes it |
//! | `POST /v1/snapshots/{keyspace}/{name}/renew` | changes the expiry of a snapshot |
//! | `GET /v1/policies` | the scheduling policies |
//! | `GET`, `POST /v1/backups` | backups; makes one |
//! | `GET /v1/stats` | the statistics of the database |
//! | `POST /v1/verify`, `/v1/restore` | reads every file; replaces damaged ones by those of a backup |
//! | `GET`, `POST`, `DELETE /v1/session` | the client's principal; logs in; logs out |
//! | `GET /v1/roles` | the roles of CQL |
//! | `GET /v1/queries`, `DELETE /v1/queries/{id}` | the queries of CQL that run; kills one |
//! | `GET /v1/config` | the settings in force |
//! | `GET /`, `/assets/{name}` | the console: a page over the other routes |
//! | `GET /metrics` | the metrics of the node, for Prometheus |
//! | `GET /health/live`, `/health/ready` | whether the server responds; whether it accepts writes and jobs |
//! | `GET /openapi.json` | the description of these routes for programs |
//!
//! Invariants: any client of the socket may do everything. The socket has mode 0600 from the moment
//! it exists, so its clients are the server's own user. Clients of the port authenticate with a
//! [token](crate::tokens); only a token for `admin` may name files of the server's machine. Errors
//! are RFC 9457 problems, with a [`Failure`](ebb_jobs::Failure) as `failure`. A body above the limit
//! is not read.
//!
//! | file | contents |
//! | --- | --- |
//! | `wire` | the JSON bodies of requests and responses |
//! | `problem` | the bodies of error responses |
//! | `routes` | the handlers of the routes: a file per noun |
//! | `access` | authentication and scopes of requests over TCP |
//! | `permits` | permissions of the role of a token |
//! | `readiness` | whether a server accepts writes and jobs, and the reasons if not |
//! | `deadline` | the time limits on clients that do not read, or do not send |
//! | `response_memory` | the memory of long responses that wait for their clients |
//! | `session` | logins of browsers, by a cookie |
//! | `bodies` | the greatest length of a body, and bodies that are refused by the headers |
//! | `idempotency` | the responses to repeated requests |
//! | `roots` | the folders in which files may be written |
//! | `audit` | entries in the audit log for changes |
//! | `work_limits` | limits on requests that wait for the disk, and the threads for them |
//! | `queries` | the running CQL queries |
//! | `headers` | the security headers of each response, for browsers |
//! | `server` | connections: their limits, timeouts, and the shutdown |
//! | `listener` | the sources of connections |
//! | `addresses` | the limits on connections without a credential, and from one address |
//! | `health_server` | health checks alone, at an address of their own |
//! | `slow` | reports of slow requests to an observer |
//! | `tls` | encrypted connections |
//! | `client` | a blocking client, for commands |
//! | `paths` | paths with names in them, for the client and for `Location` headers |
//! | `port` | the address of a server over TCP, for the client |
//! | `client_tls` | the authorities and the certificate of the client |
//! | `job_views` | the JSON of jobs in lists |
//! | `outline` | the part of a job that roles see which may not read its inputs |
//! | `frozen` | the console with the responses of one moment, as one file |
//! | `socket` | the Unix socket of server and client |

mod access;
mod addresses;
mod audit;
mod bodies;
mod client;
mod client_tls;
mod deadline;
mod frozen;
mod headers;
mod health_server;
mod idempotency;
mod job_views;
mod listener;
mod outline;
mod paths;
mod permits;
mod port;
mod problem;
mod queries;
mod readiness;
mod response_memory;
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
mod work_limits;

pub use client::{ClientError, JobsClient};
pub use client_tls::{ClientCertificate, ClientTls};
pub use frozen::freeze;
pub use health_server::HealthServer;
pub use idempotency::{KEY_BYTES_MAX, is_idempotency_key};
pub use outline::request_shown_to;
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
