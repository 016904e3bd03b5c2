//! A server of CQL over the native protocol of Cassandra, for drivers, cqlsh and load generators.
//!
//! ```text
//!   serve      sockets, frames, lanes: the order of requests
//!     │ Service: statement, values ──> the body of a RESULT
//!     v
//!   executor   the execution of statements
//!     │
//!     ├ analyse, read   SELECT: statement + schema ─> plan ─> rows
//!     ├ write   INSERT, UPDATE, DELETE, BATCH: one batch of the store
//!     ├ indexes   builds indexes, and removes stale entries
//!     ├ functions   functions, casts and operators
//!     ├ interrupt   timeouts, cancellation and CPU limits of statements
//!     ├ pace   charges for keys that a read passes, and for decoding
//!     ├ memory   the limit on the memory of a statement beyond its own words
//!     ├ floor   the CPU share of scans beside busy processes
//!     ├ schema_statements, snapshots, describe   statements about the schema and snapshots
//!     ├ queries   the statements that wait or run in a lane
//!     ├ access   logins and permissions; statements about roles
//!     └ targets   resolves the name of a table: live, at a snapshot, or of `system`
//! ```
//!
//! Invariants: `serve` does not depend on statements. The code that executes statements uses no
//! socket and, apart from the exceptions below, no clock but that of its call. No bytes from a
//! client make the server panic, loop or exceed its memory limits.

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
mod memory;
mod outcome;
mod pace;
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
