//! YCSB's workloads through CQL, against a server in another process.
//!
//! ```text
//!   statements ── keyspace, table, prepared statements
//!   plan ──────── operations, pace and duration
//!   records ───── the records of the table, and requests for them (steps)
//!   feed ──────── the next operation, and its step      check ── is the response right?
//!                  \                                     /
//!                   worker: one thread, its connections, epoll
//!                     │
//!                    raw ──► run ──► tally      counts and latencies
//!                             │       intervals  the same, interval by interval
//!   driver ───────────────────┘
//!   the same steps through a public driver (feature `scylla`)
//!
//!   socket           plain, or through TLS
//!   server_process   the server's usage              sessions   groups of the scheduler
//! ```
//!
//! The built-in client must use less CPU than the server that it measures. So frames are encoded in
//! advance, and only key, value and stream are written into a copy.

mod check;
mod connection;
#[cfg(feature = "scylla")]
mod driver;
mod feed;
mod idle_class;
mod intervals;
mod plan;
mod raw;
mod records;
mod run;
mod server_process;
mod sessions;
mod socket;
mod statements;
mod tally;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use idle_class::enter_idle_class;
pub(crate) use plan::{Operations, Plan};
pub(crate) use raw::RawClient;
pub(crate) use server_process::{ServerProcess, ServerUsage};
pub(crate) use sessions::Sessions;
pub(crate) use socket::Account;
pub(crate) use statements::{KEYSPACE, SnapshotForm, SnapshotRead, TABLE, pages, prepare, query};
pub(crate) use tally::Tally;
