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
//! | `GET /v1/jobs` | all jobs that are remembered, the oldest first |
//! | `GET /v1/jobs/{id}` | one, also `last`; `?wait_ms=` waits so long for its end |
//! | `DELETE /v1/jobs/{id}` | asks it to stop |
//! | `GET /v1/jobs/{id}/attempts` | the attempts at its tasks |
//! | `POST /v1/jobs/{id}/restart`, `/discard` | of an unfinished one |
//! | `GET /v1/profiles` | what the tasks of applications took |
//! | `GET /v1/keyspaces` | the names of the keyspaces |
//! | `GET /metrics` | the node as numbers, for Prometheus |
//! | `GET /health/live`, `/health/ready` | whether it answers; whether it takes writes and jobs |
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
//! | `routes` | requests to a node, and its answers |
//! | `access` | who may ask by the port |
//! | `health` | whether all is well |
//! | `server` | connections: how many, how long, and their end |
//! | `client` | asks a server, for programs that wait |
//! | `socket` | the file that both meet at |

mod access;
mod client;
mod health;
mod problem;
mod routes;
mod server;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

pub use client::{ClientError, JobsClient};
pub use problem::Problem;
pub use server::{HttpOptions, HttpServer};
pub use socket::SOCKET;
pub use wire::{Cancelled, Ended, Estimate, JobList, JobView, Keyspaces, RestartView, Run};
