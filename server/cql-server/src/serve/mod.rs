//! Sockets, frames, lanes: the order of requests.
//!
//! ```text
//!   listener ── a task per connection:
//!     bytes ─> FrameDecoder ─> request ─┬─ Inline: executed here, in order
//!                                       ├─ Write:  here, or in the commit lane
//!                                       ├─ Scan:   a few at a time, and one for each user
//!                                       ├─ Range:  the same, in the idle class
//!                                       ├─ Schema: one at a time
//!                                       └─ Control: the same, never behind other requests
//!     responses, in any order ─> one buffer ─> one write
//! ```
//!
//! Invariants:
//!
//! - A scan never delays a point read, because it runs on other threads. Nor does a point read that
//!   computes for long, as it moves there. A user's scans do not delay those of another user.
//! - The analysis of a statement never delays other connections for long: it moves to the threads
//!   for large requests.
//! - A scan is answered at its deadline, whatever its thread does.
//! - Results that are written or wait for their client are bounded in all, and those of scans per
//!   connection. The server does not read from a client that does not read, and closes its
//!   connection after a while.
//! - Partially received and waiting requests are bounded over all connections. Large ones are
//!   parsed a few at a time, beside the threads that serve connections, and do not delay small
//!   ones.
//! - A write never delays a point read: once writes are slow, or each waits for an fsync, they run
//!   on one thread that commits the waiting ones together.
//! - A request that waits for its turn at a partition holds no thread, and waits at most until its
//!   deadline.
//! - In an overload, requests that have waited for long are rejected.
//! - A too large request ends with an error, and its connection goes on.
//! - When the server stops, reads that run in lanes end at once, and requests that have not begun
//!   are rejected. A write that has begun gets its own result or none.
//! - An idle connection holds no buffer.
//!
//! | file | content |
//! | --- | --- |
//! | `options` | the limits |
//! | `listener` | accepts connections, and drains them when the server stops |
//! | `addresses` | the limit on connections from one address |
//! | `counts` | numbers of connections, rejected requests and logins, for metrics |
//! | `events` | events for the log of the operator |
//! | `traffic` | numbers of requests and errors by kind, and latencies of scans, for metrics |
//! | `audit` | entries of administrative statements, and of writes, in audit logs |
//! | `audited_tables` | the tables whose writes have entries |
//! | `failed_logins` | the limit on wrong passwords of an address |
//! | `overload` | overload control: which requests are rejected in an overload |
//! | `arrivals` | how long requests have waited |
//! | `stream` | the bytes of a connection, plain or through TLS |
//! | `identity` | the identity in a client's certificate |
//! | `tls` | the certificate, and the clients that are accepted |
//! | `connection` | one connection: its frames in, its responses out |
//! | `received` | bytes of a connection that are not served yet |
//! | `skip` | skips a request that is too large |
//! | `requests` | the memory of requests |
//! | `outbox` | responses that are not sent yet |
//! | `shared` | the state that all connections share |
//! | `session` | the state of one client: turns its frames into work |
//! | `login` | logins by name and password |
//! | `work` | a request with its statements, and the one way to execute it |
//! | `lane_request` | work on another thread, with its frame |
//! | `lane_result` | the result of such work, on its way back |
//! | `replies` | RESULT around the body of a statement, and common errors |
//! | `traces` | traces of requests, if their clients request them |
//! | `lanes` | the threads that run scans, schema changes, logins and large requests |
//! | `lane_threads` | a queue with a fixed number of threads |
//! | `result_memory` | the memory for results that are written or wait for their clients, in all |
//! | `response_memory` | the part of it that one response takes |
//! | `scan_queue` | the order of scans of different users |
//! | `scan_threads` | the threads for scans, moved statements and large requests, as many as their users need |
//! | `commit` | the lane of writes that would wait for the disk |
//! | `pace` | decides whether writes would wait |
//! | `slow` | reports of slow requests |
//! | `stages` | latencies of point requests by stage, for metrics |
//! | `turns` | the turns of writes that read what they write to |
//! | `statements` | prepared statements |

mod addresses;
mod arrivals;
mod audit;
mod audited_tables;
mod commit;
mod connection;
mod counts;
mod events;
mod expiry;
mod failed_logins;
mod identity;
mod lane_request;
mod lane_result;
mod lane_threads;
mod lanes;
mod listener;
mod login;
mod options;
mod outbox;
mod overload;
mod pace;
mod received;
mod replies;
mod requests;
mod response_memory;
mod result_memory;
mod scan_queue;
mod scan_threads;
mod session;
mod shared;
mod skip;
mod slow;
mod stages;
mod startup;
mod statements;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod traces;
mod traffic;
mod turns;
mod work;

pub use audit::{Audit, AuditEnd, AuditedStatement, AuditedWrite, WriteAudit};
pub use audited_tables::AuditedTables;
pub use counts::{Counters, Counts};
pub use events::{MaskedText, ServerEvent, ServerEvents};
pub use listener::CqlServer;
pub use options::ServeOptions;
pub use slow::{SlowRequest, SlowRequests};
pub use tls::{Tls, TlsError, TlsOptions};
