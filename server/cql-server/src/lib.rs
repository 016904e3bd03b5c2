//! CQL over the native protocol, version 4: what drivers, cqlsh and load tools speak.
//!
//! ```text
//!   serve      sockets, frames, lanes: whose turn it is
//!     │ Service: statement, values ──> the body of a RESULT
//!     v
//!   executor   what a statement means
//!     │
//!     ├ analyse, read   SELECT: statement + schema ─> plan ─> rows
//!     ├ write   INSERT, UPDATE, DELETE, BATCH: one batch of the store
//!     ├ indexes   builds indexes, and removes what is stale in them
//!     ├ functions   what is computed of values
//!     ├ interrupt   when a statement is given up
//!     ├ floor   the CPU of scans beside busy processes
//!     ├ schema_statements, snapshots, describe   those about the schema and snapshots
//!     ├ queries   the statements that wait or run in a lane
//!     ├ access   who asks, and whether they may; statements about roles
//!     └ targets   what the name of a table means: a table, one at a snapshot, one of `system`
//! ```
//!
//! What always holds: `serve` knows no statement, and what executes statements knows no
//! socket and no clock but the one of its call. No bytes from a client make the server
//! panic, loop or keep more than it agreed to.

#![forbid(unsafe_code)]
#![cfg_attr(
    any(test, feature = "fuzzing"),
    allow(
        clippy::disallowed_methods,
        reason = "tests look at clocks and files themselves"
    )
)]

pub mod access;
#[expect(clippy::disallowed_methods, reason = "notes when requests came")]
mod activity;
mod analyse;
pub mod call;
mod context;
mod describe;
mod error;
pub mod executor;
#[expect(
    clippy::disallowed_methods,
    reason = "scans wait in real time for their share"
)]
mod floor;
mod functions;
pub mod guardrails;
#[expect(
    clippy::disallowed_methods,
    reason = "builds leave most of the time to others"
)]
mod indexes;
#[expect(
    clippy::disallowed_methods,
    reason = "statements look whether their time is over"
)]
mod interrupt;
mod listing;
mod outcome;
mod paging;
pub mod prepared;
pub mod queries;
#[expect(clippy::disallowed_methods, reason = "a page ends after its time")]
pub mod read;
pub mod schema_statements;
#[expect(
    clippy::disallowed_methods,
    reason = "requests have deadlines, and their latencies are recorded"
)]
pub mod serve;
mod snapshots;
pub mod system;
mod targets;
#[cfg(any(test, feature = "fuzzing"))]
#[cfg_attr(not(test), allow(dead_code, reason = "tests need more of it"))]
mod testing;
mod write;

#[cfg(feature = "fuzzing")]
pub use paging::fuzzing;
