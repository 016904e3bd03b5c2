//! The parts that join the store and the scheduler into one node: jobs over snapshots, and the
//! measurements of a store for the co-location loop.
//!
//! ```text
//!   http       jobs and metrics for other processes: sockets, routes, a client
//!     ├ tokens   the tokens that clients show over TCP
//!     ├ audit    the log of logins and changes, also for CQL
//!     ├ metrics  the node as numbers
//!     ├ live     the node over the last day, and ahead
//!     ├ memory   the budget of the process, divided
//!     v
//!   node       database, jobs and co-location, put together
//!     v
//!   jobs       the interface to jobs that the node and the client implement, and its types
//! ```
//!
//! The jobs are those of `ebb-jobs`, and tables with columns those of `ebb-tables`. A node does not
//! depend on CQL's sockets (`ebb-cql-server`): the program that starts both gives these the node's
//! tables.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests look at clocks and files themselves"
    )
)]

#[expect(
    clippy::disallowed_methods,
    reason = "the log is a file; lines about refusals have a rate"
)]
pub mod audit;
#[expect(
    clippy::disallowed_methods,
    reason = "the socket is a file; connections have deadlines"
)]
pub mod http;
pub mod jobs;
pub mod live;
pub mod memory;
pub mod metrics;
pub mod node;
mod rates;
#[expect(clippy::disallowed_methods, reason = "tokens are kept in a file")]
pub mod tokens;
