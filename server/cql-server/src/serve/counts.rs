//! Counts of connections, rejected requests and logins, for metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebb_colocate::LatencyCounts;
use tokio::sync::Semaphore;

use super::failed_logins::FailedLogins;
use super::overload::Overload;
use super::stages::Stages;
use super::traffic::Traffic;

/// The numbers of events since the start of the server, and the number of its open connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Open connections.
    pub connections: u64,
    /// Connections that were closed at once, because too many connections were open, in all or from
    /// the address of the client.
    pub connections_refused: u64,
    /// Requests that were rejected as OVERLOADED because they had waited too long. The other errors with
    /// this code, for example for lack of memory, are only in [`Counters::errors`]: the settings that
    /// help against them are not those that help against long waits.
    pub requests_refused: u64,
    /// The number of passwords that were verified, which takes tens of milliseconds of CPU time
    /// each.
    pub passwords_verified: u64,
    /// The number of wrong passwords.
    pub logins_failed: u64,
    /// The number of logins that were rejected without verifying the password, after too many wrong
    /// passwords from their address.
    pub logins_refused: u64,
}

/// The counters of a server: its connections, logins, requests and rejections. They may outlive the
/// server, and do not keep it alive.
#[derive(Debug, Clone)]
pub struct Counters {
    /// The permits for connections. Each open connection holds one, so the permits in use are the
    /// number of open connections.
    pub(super) connections: Arc<Semaphore>,
    pub(super) connections_max: usize,
    pub(super) connections_refused: Arc<AtomicU64>,
    pub(super) overload: Arc<Overload>,
    pub(super) failed_logins: Arc<FailedLogins>,
    pub(super) traffic: Arc<Traffic>,
    pub(super) stages: Option<Arc<Stages>>,
}

impl Counters {
    /// Returns the present values of the counters in [`Counts`].
    pub fn counts(&self) -> Counts {
        let [passwords_verified, logins_failed, logins_refused] = self.failed_logins.counts();
        let open = self.connections_max - self.connections.available_permits();
        Counts {
            connections: open as u64,
            connections_refused: self.connections_refused.load(Ordering::Relaxed),
            requests_refused: self.overload.rejected_in_all(),
            passwords_verified,
            logins_failed,
            logins_refused,
        }
    }

    /// Returns the number of requests for each opcode, by the opcode's name. Rejected requests are
    /// included.
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        self.traffic.requests()
    }

    /// Returns the number of errors that were sent to clients, by error code.
    pub fn errors(&self) -> Vec<(i32, u64)> {
        self.traffic.errors()
    }

    /// Returns the latencies of scans and of reads of ranges, by the names of their lanes: from the
    /// receipt of the request's last byte until the response, a page or an error, was ready.
    pub fn scans(&self) -> [(&'static str, LatencyCounts); 2] {
        let Traffic { scans, ranges, .. } = &*self.traffic;
        [("scan", scans.counts()), ("range", ranges.counts())]
    }

    /// Returns the latencies of the requests that run on the thread of their connection, by stage,
    /// in order: `queued`, `executed`, `sent`. `None` unless
    /// [`stage_latencies`](super::ServeOptions::stage_latencies) is on.
    pub fn stages(&self) -> Option<[(&'static str, LatencyCounts); 3]> {
        self.stages.as_ref().map(|stages| stages.counts())
    }
}
