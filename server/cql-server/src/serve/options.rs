//! The limits of a server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ebb_colocate::FloorShare;
use ebb_cql::protocol::BODY_BYTES_MAX_DEFAULT;

use super::audit::{Audit, WriteAudit};
use super::events::ServerEvents;
use super::slow::SlowRequests;
use super::tls::Tls;
use crate::activity::Activity;

/// How a server listens, and what it takes.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where it listens; port 0 is any free one.
    pub address: SocketAddr,
    /// Threads that serve connections, two at least.
    pub threads: usize,
    /// Scans of one user that run at once while no other user scans. The same number of reads of
    /// ranges runs beside them, and of statements that took long on a thread on which others wait. A
    /// user is a role, or the address of a client on a server without logins.
    pub scans_max: usize,
    /// Scans of all users that run at once: beyond [`scans_max`](Self::scans_max), each user has one.
    /// The same numbers of the others run beside them.
    pub scan_threads_max: usize,
    /// Whether reads of ranges, and scans that have used much CPU time, run in the kernel's idle class,
    /// beneath requests. Tests turn it off: on busy cores, a thread of that class makes hardly any
    /// progress.
    pub idle_class: bool,
    /// The floor for reads of ranges and long scans, in place of the idle class while other processes
    /// hold the CPU; `None` for none. Without the idle class it has no effect.
    pub floor: Option<Arc<FloorShare>>,
    /// Connections at once; more are refused.
    pub connections_max: usize,
    /// Connections at once from one address; `None` for as many as there are.
    pub connections_per_address_max: Option<usize>,
    /// The longest request body, in bytes, before and after decompression.
    pub body_bytes_max: usize,
    /// Requests of one connection that run or wait in a lane at once. Its next frame is
    /// read when one of them is done.
    pub lane_requests_max: usize,
    /// Bytes of requests that were received in part, and as many of requests that wait for their
    /// lane, over all connections. Up to 64 KiB of a partial request, and less than 4 KiB of a
    /// waiting one, do not count. Beyond that a partial request waits for up to
    /// [`request_timeout`](Self::request_timeout) before it is refused; one for a lane is refused
    /// at once.
    pub request_bytes_max: usize,
    /// Bytes of results from lanes that wait for their readers, over all connections. Beyond that scans
    /// wait, and a result that is longer than its page and finds no room is refused as OVERLOADED. Such
    /// results leave a quarter of the memory to those of one page. Rounded up to whole MiB. The default has room
    /// for the largest response beside that quarter.
    pub lane_result_bytes_max: usize,
    /// Bytes that prepared statements take; the least used go first. A driver prepares
    /// again what is gone.
    pub statement_bytes_max: usize,
    /// How long a client may take from its accept until it has started, with the handshake
    /// of TLS.
    pub startup_timeout: Duration,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// Passwords that are verified at once, over all connections.
    pub logins_max: usize,
    /// How long a client may take to log in.
    pub login_timeout: Duration,
    /// Wrong passwords that an address may try within a minute, at least one more than
    /// [`logins_max`](Self::logins_max); zero for any number.
    pub login_failures_max: u32,
    /// When most requests wait longer than this for a while, those are refused that wait longer
    /// than a twentieth of it. Zero: none ever is.
    pub overload_wait: Duration,
    /// How long a client may read nothing of what waits for it.
    pub write_timeout: Duration,
    /// Which requests are slow, and the callback for them; `None` reports none.
    pub slow: Option<SlowRequests>,
    /// Whether latencies of point requests are measured by [stage](super::Counters::stages).
    pub stage_latencies: bool,
    /// The callback for events that an operator reads in the log.
    pub events: ServerEvents,
    /// The audit log of statements of administration.
    pub audit: Audit,
    /// The audit log of writes of rows.
    pub audit_writes: WriteAudit,
    /// TLS, for whoever serves with it.
    pub tls: Option<Arc<Tls>>,
    /// Where clients and traces are entered, for whoever shows them.
    pub activity: Arc<Activity>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, 9042).into(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            scans_max: 2,
            scan_threads_max: 16,
            idle_class: true,
            floor: None,
            connections_max: 20_000,
            connections_per_address_max: None,
            body_bytes_max: BODY_BYTES_MAX_DEFAULT,
            lane_requests_max: 128,
            request_bytes_max: 128 << 20,
            lane_result_bytes_max: 352 << 20,
            statement_bytes_max: 64 << 20,
            startup_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(10),
            // Half of the cores, so that clients that log in leave something to the others.
            logins_max: std::thread::available_parallelism().map_or(1, |n| (n.get() / 2).max(1)),
            login_timeout: Duration::from_secs(30),
            login_failures_max: 60,
            overload_wait: Duration::from_millis(20),
            write_timeout: Duration::from_secs(60),
            slow: None,
            stage_latencies: false,
            events: ServerEvents::default(),
            audit: Audit::default(),
            audit_writes: WriteAudit::default(),
            tls: None,
            activity: Arc::default(),
        }
    }
}
