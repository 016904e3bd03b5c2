//! Sockets, frames, lanes: whose turn it is.
//!
//! ```text
//!   listener ── a task per connection:
//!     bytes ─> FrameDecoder ─> request ─┬─ Inline: executed here, in order
//!                                       ├─ Write:  here, or in the commit lane
//!                                       ├─ Scan:   a few at a time, and one for each user
//!                                       ├─ Range:  the same, in the idle class
//!                                       ├─ Schema: one at a time
//!                                       └─ Control: the same, behind nothing else
//!     responses, in any order ─> one buffer ─> one write
//! ```
//!
//! What always holds:
//!
//! - A scan never holds up a point read: it runs on other threads. Nor does a point read that computes
//!   for long, as it moves there. A user's scans hold up no scan of another user.
//! - A scan is answered at its deadline, whatever its thread does.
//! - Results that wait for their reader are bounded, for a connection and for all. Who
//!   does not read is not read from either, and is cut off after a while.
//! - So are requests that are received in part or wait, over all connections. Large ones are
//!   parsed a few at a time, beside the threads that serve connections, and delay no small ones.
//! - A write never holds up a point read: once writes are slow, or each waits for an
//!   fsync, they run on one thread that commits together what waits.
//! - Who waits for a turn at a partition holds no thread, and waits no longer than its
//!   request may take.
//! - When there is more to do than can be done, what has waited for long is refused.
//! - A request that is too large ends with an error, and its connection goes on.
//! - When the server stops, reads that run in lanes end at once, and what has not begun is refused. A
//!   write that has begun gets its own result or none.
//! - A connection that does nothing holds no buffer.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `options` | the limits |
//! | `listener` | who may come in, and who leaves when the server stops |
//! | `addresses` | how many come from one address |
//! | `counts` | numbers of connections, rejected requests and logins, for metrics |
//! | `events` | events for the log of the operator |
//! | `traffic` | numbers of requests and errors by kind, and latencies of scans, for metrics |
//! | `audit` | entries of statements of administration, and of writes, in audit logs |
//! | `audited_tables` | the tables whose writes have entries |
//! | `failed_logins` | the limit on wrong passwords of an address |
//! | `overload` | which requests are refused when there are too many |
//! | `arrivals` | how long they have waited |
//! | `stream` | its bytes, plain or through TLS |
//! | `identity` | the identity in a client's certificate |
//! | `tls` | the certificate, and which clients may come |
//! | `connection` | one client: its frames in, its responses out |
//! | `received` | bytes of a connection that are not served yet |
//! | `skip` | a request that is too large |
//! | `requests` | the memory of requests, and turns for large ones |
//! | `outbox` | responses that are not sent yet |
//! | `shared` | the state that all connections share |
//! | `session` | one client: turns its frames into work |
//! | `login` | logins by name and password |
//! | `work` | a request whose statements are known, and the one way to execute it |
//! | `lane_request` | work that runs on another thread, with its frame |
//! | `lane_result` | the result of such work, on its way back |
//! | `replies` | RESULT around the body of a statement, and errors in one wording |
//! | `traces` | traces of requests whose clients ask for them |
//! | `lanes` | where scans and schema changes run |
//! | `result_memory` | the memory for results of scans that wait for their clients |
//! | `scan_queue` | whose scan runs next, and whether it may run now |
//! | `scan_threads` | the threads for scans and for what moved, as many as their users need |
//! | `commit` | where writes run that would wait for the disk |
//! | `pace` | whether they would |
//! | `slow` | reports of slow requests |
//! | `stages` | latencies of point requests by stage, for metrics |
//! | `turns` | where writes wait for each other that read what they write to |
//! | `statements` | statements that are prepared |

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
mod result_memory;
mod scan_queue;
mod scan_threads;
mod session;
mod shared;
mod skip;
mod slow;
mod stages;
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
