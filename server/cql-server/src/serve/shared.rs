//! The state that all connections of a server share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use ebb_colocate::Latencies;
use ebb_cql::protocol::{Consistency, ErrorKind, ErrorResponse, Frame, SchemaChange};
use tokio::sync::{Semaphore, broadcast, watch};

use super::audit::AuditedStatement;
use super::commit::CommitLane;
use super::events::{MaskedText, ServerEvent};
use super::failed_logins::FailedLogins;
use super::lanes::Lanes;
use super::options::ServeOptions;
use super::overload::Overload;
use super::requests::Requests;
use super::slow::{Sender, Spent, Unsent};
use super::stages::Stages;
use super::statements::Statements;
use super::traffic::Traffic;
use super::turns::Turns;
use crate::access::claimed_name;
use crate::call::{Service, Statement};
use crate::error::Result;
use crate::outcome::Outcome;

pub(super) struct Shared<S: Service> {
    pub service: Arc<S>,
    pub options: ServeOptions,
    pub statements: Statements<S::Statement>,
    pub lanes: Lanes,
    pub requests: Requests,
    pub commits: CommitLane,
    pub turns: Turns,
    pub overload: Arc<Overload>,
    pub failed_logins: Arc<FailedLogins>,
    pub connections_refused: Arc<AtomicU64>,
    pub traffic: Arc<Traffic>,
    /// The permits for TLS handshakes to compute keys: half as many as threads, so that the others
    /// go on serving.
    pub handshakes: Semaphore,
    pub events: broadcast::Sender<SchemaChange>,
    pub stop: watch::Sender<bool>,
    pub latencies: Option<Latencies>,
    /// The latencies of requests by stage; `None` if they are not measured.
    pub stages: Option<Arc<Stages>>,
}

impl<S: Service> Shared<S> {
    /// Drops the prepared statements that schema changes made outdated, whose clients have to
    /// prepare them again, and sends the changes to all clients that registered for them.
    pub(super) fn publish(&self, changes: Vec<SchemaChange>) {
        if !changes.is_empty() {
            self.statements
                .drop_outdated(|statement| self.service.is_current(statement));
        }
        for change in changes {
            // Sending fails if no client is registered.
            drop(self.events.send(change));
        }
    }

    /// Reports that a login was rejected. `token` has the client's credentials; `None` if the
    /// client sent none, or a certificate instead.
    pub(super) fn report_login(
        &self,
        sender: &Sender,
        token: Option<&[u8]>,
        error: &ErrorResponse,
    ) {
        self.options.events.report(ServerEvent::LoginRefused {
            address: sender.address,
            user: token.and_then(claimed_name),
            cause: &error.message,
        });
    }

    /// Counts an error that is sent to a client, and reports the error if it is a failure of the
    /// server.
    pub(super) fn note_error(&self, sender: &Sender, error: &ErrorResponse) {
        self.traffic.error(&error.kind);
        if error.kind == ErrorKind::Server {
            self.options.events.report(ServerEvent::Failed {
                address: sender.address,
                user: sender.user.name(),
                cause: &error.message,
            });
        }
    }

    /// Calls `execute` for a statement. For an administrative statement, writes an entry to the
    /// audit log before and after the call, and reports the statement as an event if it succeeds.
    pub(super) fn audited(
        &self,
        sender: &Sender,
        statement: &S::Statement,
        execute: impl FnOnce() -> Result<Outcome>,
    ) -> Result<Outcome> {
        let Some(administration) = statement.administration() else {
            return execute();
        };
        let (address, user) = (sender.address, sender.user.name());
        let (keyspace, query) = (administration.keyspace, administration.query);
        let statement = MaskedText(statement.text());
        let audited = AuditedStatement {
            address,
            user,
            statement,
            administration,
        };
        let ended = self.options.audit.execute(audited, execute);
        if ended.is_ok() {
            self.options.events.report(ServerEvent::Administered {
                address,
                user,
                keyspace,
                statement,
                query,
            });
        }
        ended
    }

    /// Returns whether a write that begins at `now` would wait for the disk, or is probably slow as
    /// others are at the moment. Such a write must not run on a thread that serves connections,
    /// where other requests would wait for it.
    pub(super) fn writes_wait(&self, now: Instant) -> bool {
        self.service.commits_wait_for_sync() || self.commits.pace.is_slow(now)
    }

    /// Returns whether a read at this consistency level gets its response only after a sync.
    pub(super) fn is_synced(&self, consistency: Consistency) -> bool {
        consistency.is_serial() && self.service.commits_wait_for_sync()
    }

    /// Records the latency of a request that ran inline, or of a write.
    pub(super) fn record(&self, took: Duration) {
        if let Some(latencies) = &self.latencies {
            latencies.record(took);
        }
    }

    /// Returns a report of a request whose response is ready; `None` if the request was not slow.
    pub(super) fn slow(
        &self,
        sender: &Sender,
        received_at: Instant,
        frame: &Frame,
        spent: Spent,
    ) -> Option<Box<Unsent>> {
        let limit = self.options.slow.as_ref()?;
        Unsent::of(limit, &self.statements, sender, received_at, frame, spent)
    }
}
