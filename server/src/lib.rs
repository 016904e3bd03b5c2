//! What joins the store and the scheduler into one node: jobs over snapshots, and
//! what a store tells the co-location loop.
//!
//! ```text
//!   cql        what drivers speak: sockets, statements
//!   http       jobs for other processes: a socket, routes, a client
//!   node       the store's requests and latencies ─► co-location
//!   catalog    tables with columns, in this store
//!   jobs       built-in applications, their input and output
//!   text       files into tables: lines, CSV and JSON as rows
//! ```
//!
//! Arrows point from here to `ebb-storage`, `ebb-colocate` and `ebb-scheduler`, and to
//! `ebb-catalog` and `ebb-cql`, which do no I/O; these five know nothing of each other, but
//! for CQL's use of the catalog's types.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests look at clocks and files themselves"
    )
)]

pub mod catalog;
#[expect(
    clippy::disallowed_methods,
    reason = "requests have deadlines, and their latencies are recorded"
)]
pub mod cql;
#[expect(
    clippy::disallowed_methods,
    reason = "the socket is a file; connections have deadlines"
)]
pub mod http;
pub mod jobs;
pub mod lookup;
pub mod names;
pub mod node;
pub mod text;
