//! The options and limits of a server.

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

/// The address, the limits and the callbacks of a server.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The address to listen on; port 0 is any free one.
    pub address: SocketAddr,
    /// The number of threads that serve connections. The server starts at least two.
    pub threads: usize,
    /// The most scans of one user that run at once while no other user scans. Reads of ranges have
    /// a limit of their own with the same value. So have statements that were moved to separate
    /// threads because they took long on a thread on which other requests wait. A user is a role
    /// or, on a server without authentication, the address of a client.
    pub scans_max: usize,
    /// The most scans of all users that run at once. Once [`scans_max`](Self::scans_max) scans run,
    /// a further one begins only for a user without a running scan. Reads of ranges have a limit of
    /// their own with the same value, and so have statements that took long.
    pub scan_threads_max: usize,
    /// Whether reads of ranges, and scans that have used much CPU time, run in the kernel's idle
    /// class, beneath requests. Tests turn it off: on busy cores a thread of that class makes
    /// hardly any progress.
    pub idle_class: bool,
    /// The floor, a small share of the CPU time for reads of ranges and long scans. It replaces the
    /// idle class while other processes keep the CPU busy. `None` for no floor. Without
    /// [`idle_class`](Self::idle_class) it has no effect.
    pub floor: Option<Arc<FloorShare>>,
    /// The most open connections; further ones are closed at once.
    pub connections_max: usize,
    /// The most open connections from one address; `None` for no limit.
    pub connections_per_address_max: Option<usize>,
    /// The longest request body in bytes, before and after decompression.
    pub body_bytes_max: usize,
    /// The most requests of one connection that wait for, or run on, other threads than that of the
    /// connection (lanes). At the limit, the connection's next frame is read when one of them is
    /// done.
    pub lane_requests_max: usize,
    /// The bytes of each of two pools of memory that all connections share, but at least twice the
    /// largest body of a request.
    ///
    /// The first pool holds received bytes of requests that are not served yet, for connections
    /// with more than 64 KiB of them. If it is full, a connection waits. After
    /// [`request_timeout`](Self::request_timeout) the connection gets OVERLOADED and is closed.
    ///
    /// The second pool holds requests that wait for another thread (in a lane): those with bodies
    /// of 4 KiB or more, and parsed statements of 64 KiB or more. If it is full, the request is
    /// rejected at once.
    pub request_bytes_max: usize,
    /// The most bytes of results, over all connections, that are written or wait for their clients.
    /// It is rounded up to whole MiB. Results of less than 64 KiB do not count, except for those of
    /// scans.
    ///
    /// If the memory is used up, a scan waits for its first page (1 MiB) before it runs. Any other
    /// result that does not fit is rejected as OVERLOADED, and so is the result of a scan that
    /// grows beyond its page. Exempt are responses of about a page to requests that overload
    /// control must not reject, such as a driver's reads of the schema.
    ///
    /// A quarter of the memory is for results of at most a page, and half of that quarter is for
    /// scans alone. By default the largest possible response fits into the other three quarters.
    pub lane_result_bytes_max: usize,
    /// The most bytes of prepared statements. Beyond that the cache drops statements, mostly those
    /// that were not used lately, and drivers prepare them again.
    pub statement_bytes_max: usize,
    /// The time from accept until STARTUP, including the TLS handshake.
    pub startup_timeout: Duration,
    /// The time limit of a request.
    pub request_timeout: Duration,
    /// The most passwords that are verified at once, over all connections.
    pub logins_max: usize,
    /// The time from STARTUP until the client has logged in.
    pub login_timeout: Duration,
    /// The most wrong passwords that a client address (for IPv6, a /64 network) may send in a row.
    /// The address regains these attempts evenly, all of them within a minute. While it has none
    /// left, the server rejects all logins from the address. Zero turns the limit off. A smaller
    /// limit than [`logins_max`](Self::logins_max) + 1 is raised to `logins_max` + 1.
    pub login_failures_max: u32,
    /// The queueing time above which a request is late. While most requests are late, the server
    /// rejects requests that have waited longer than a twentieth of this time. Zero turns overload
    /// control off.
    pub overload_wait: Duration,
    /// The time after which a connection is closed if its client reads nothing of the response.
    pub write_timeout: Duration,
    /// The threshold of slow requests, and the callback for them; `None` reports none.
    pub slow: Option<SlowRequests>,
    /// Whether the latencies of requests that run on the thread of their connection are measured by
    /// [stage](super::Counters::stages): queued, executed and sent.
    pub stage_latencies: bool,
    /// The callback for events that belong in the operator's log.
    pub events: ServerEvents,
    /// The audit log of administrative statements.
    pub audit: Audit,
    /// The audit log of writes of rows.
    pub audit_writes: WriteAudit,
    /// The certificate and the accepted clients of TLS; `None` for plain connections.
    pub tls: Option<Arc<Tls>>,
    /// The list of clients, queries and traces that virtual tables show.
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
            // Half of the cores, so that logins leave CPU time to other requests.
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
