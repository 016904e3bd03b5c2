//! The same workloads through CQL, against a server in another process.
//!
//! ```text
//!   statements ── keyspace, table, what is prepared
//!   plan ──────── what to do, how fast, for how long
//!   records ───── which there are, and the requests for them (steps)
//!   feed ──────── the next operation, and its step      check ── is the answer right?
//!                  \                                     /
//!                   worker: one thread, its connections, epoll
//!                     │
//!                    raw ──► run ──► tally      counts and latencies
//!                             │       intervals  the same as a run goes on
//!   driver ───────────────────┘
//!   the same steps through a public driver (feature `scylla`)
//!
//!   socket           plain, or through TLS
//!   server_process   what the server uses            sessions   who yields to whom
//! ```
//!
//! The client that is built in must cost less than what it measures: frames are encoded
//! beforehand, and only key, value and stream are written into a copy.

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
