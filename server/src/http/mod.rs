//! The jobs of a server, for other processes: HTTP/1.1 and JSON over a Unix socket in the
//! directory of the database.
//!
//! ```text
//!   ebb run, ebb jobs ─> client ─> jobs.sock ─> server ─> routes ─> Node
//!                          └────── wire: what both say ─────┘
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
//!
//! What always holds: whoever can open the socket may do everything. It has mode 0600 from
//! its first moment on, so that is the user of the server. Errors are RFC 9457 problems,
//! with a [`Failure`](ebb_jobs::Failure) as `failure`. A body that is larger than it may
//! be is not read.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `wire` | what is said, as JSON |
//! | `problem` | errors as they are answered |
//! | `routes` | requests to a node, and its answers |
//! | `server` | connections: how many, how long, and their end |
//! | `client` | asks a server, for programs that wait |
//! | `socket` | the file that both meet at |

mod client;
mod problem;
mod routes;
mod server;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

pub use client::{ClientError, JobsClient};
pub use problem::Problem;
pub use server::JobsServer;
pub use socket::SOCKET;
pub use wire::{Cancelled, Ended, Estimate, JobList, JobView, Keyspaces, RestartView, Run};
