//! The cost of serving CQL, compared with bars for throughput, tail latency, memory and CPU.
//!
//! ```text
//!   args ─► run ─► throughput   reads and writes in turns with Redis's; CPU in process
//!            │     beside       p99 at half of peak: alone, beside jobs, beside a pager
//!            │     connections  memory of 10,000 idle connections
//!            │     startup      time from the start to the first response
//!            │     hot_row      writes of one row: plain, with IF, of a counter
//!            │     indexed      writes with an index, and reads by it
//!            │     overload     p99 at three times the peak, and at half of it
//!            │     secured      the server's CPU with TLS and roles
//!            │     watched      p99 of reads with 200 event streams, lists and scrapes
//!            │     hostile      p99 beside hostile and half-broken clients
//!            │     endless      p99 beside statements that never end, and the scans of another user
//!            │     neighbours   an aggregate and a scan beside busy programs, and p99 beside both
//!            │     logs         the server's CPU with the log
//!            │     backup       p99 beside backups, and their rate against cp
//!            │     publications   p99 beside publications of a table
//!            │     pinned       bytes reported as pinned, compared with the bytes that are freed
//!            │     descriptors  p99 with more SSTables than may be open
//!            │     snapshots    CREATE SNAPSHOT of many tables beside many snapshots
//!            │     schema       CREATE TABLE and DROP TABLE, compared with those of an older program
//!            └───► report       the table of bars, and the JSON
//!
//!   server   `ebb serve` as a child          host    a server with endless jobs
//!   redis    Redis as a child                embedded   the store in this process
//!   repeats  reads beside work that is repeated, such as backups
//!   certificate   of a server that speaks TLS     steady   the load of the parts about the tail
//!   window   windows of one condition, compared with others     setting   what all parts share
//!   bar      met or missed     command   other programs     instructions   counted by perf
//!   stages   where operations spend their time     idlers   other threads of the idle class
//!   busy_programs   that keep all cores busy     aggregates   jobs over one table
//!   timings   the latencies of statements
//! ```
//!
//! Client and server share the machine. Compared variants take turns, and medians over rounds
//! count. Each is also compared with itself, which shows the noise. Child processes are in the
//! session of this process, because the idle class yields only to threads of its own session; the
//! part `neighbours` also measures beside programs in sessions of their own.

mod aggregates;
mod args;
mod backup;
mod bar;
mod beside;
mod busy_programs;
mod certificate;
mod command;
mod connections;
mod descriptors;
mod embedded;
mod endless;
mod host;
mod hostile;
mod hot_row;
mod idlers;
mod indexed;
mod instructions;
mod logs;
mod neighbours;
mod overload;
mod pinned;
mod publications;
mod redis;
mod repeats;
mod report;
mod run;
mod schema;
mod secured;
mod server;
mod setting;
mod slow_core;
mod snapshots;
mod stages;
mod startup;
mod steady;
mod throughput;
mod timings;
mod watched;
mod window;

pub use args::{HostArgs, ServingArgs};
pub use host::run_host;
pub use idlers::{IdlersArgs, run_idlers};
pub use run::run;
