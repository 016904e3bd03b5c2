//! The queries in the lanes of a server, for operators who look for one that takes too long.
//!
//! ```text
//!   a request comes into a lane ─> Queries ─┬─> system_views.queries; HTTP: a list
//!                                           └─> KILL QUERY, HTTP: a kill ─> the task of the request
//! ```
//!
//! Requests that run on the thread of their connection or in the commit lane are not listed: within
//! milliseconds they end or move to a lane, and to list them would cost a good part of their time.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ebb_cql::syntax::masked;
use tokio::sync::Notify;

use super::access::User;
use super::call::{Lane, Statement};

/// The longest statement that is shown.
const STATEMENT_BYTES_MAX: usize = 1024;

/// The queries that wait or run in a lane.
#[derive(Debug, Default)]
pub struct Queries {
    listed: Mutex<BTreeMap<u64, Arc<Query>>>,
    last_id: AtomicU64,
}

/// A request in a lane, with the client that sent it.
pub(super) struct Query {
    pub address: SocketAddr,
    pub user: Arc<User>,
    pub keyspace: Option<Arc<str>>,
    /// The first statement of a batch; `None` for a login, which is not listed.
    pub statement: Option<Arc<dyn Statement>>,
    pub statements: usize,
    pub lane: Lane,
    /// Whether it may end before its result is there. A write goes on: to its client, the error means that
    /// nothing was written.
    pub is_read: bool,
    pub received_at: Instant,
    pub progress: Arc<Progress>,
}

/// The progress of a request, for the thread that runs it, the task that waits for the result, and
/// operators.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The result has a place among those of its connection that may wait for the client.
    pub has_place: AtomicBool,
    /// The request had its turn in the lane.
    pub has_turn: AtomicBool,
    pub begun_at: OnceLock<Instant>,
    /// The client was answered before the result was there.
    pub is_answered: AtomicBool,
    /// The statement has to end, because the server stops or an operator has killed it.
    pub is_stopped: Arc<AtomicBool>,
    /// Notified when an operator kills the query.
    pub killed: Notify,
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the statement, whose constants may be secret.
        let mut query = f.debug_struct("Query");
        query.field("lane", &self.lane).finish_non_exhaustive()
    }
}

/// A query as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryRow {
    /// The id: 1 for the first query since the start of the server.
    pub id: u64,
    /// The address of the client.
    pub address: SocketAddr,
    /// The role of the client; `None` on a server without logins.
    pub user: Option<String>,
    /// The keyspace in use.
    pub keyspace: Option<String>,
    /// The statement with `?` for each constant, a kilobyte at most; the first one of a batch.
    pub statement: String,
    /// The number of statements.
    pub statements: usize,
    /// The lane: `scan`, `range`, `moved`, `schema` or `control`.
    pub lane: &'static str,
    /// `waiting`, `running`, or `ending` if the client has been answered and the thread still runs.
    pub state: &'static str,
    /// The reason why the query has not begun: `client`, which has to read earlier results; `turn`, because
    /// others in the lane come first; or `memory` for the result.
    pub waits_for: Option<&'static str>,
    /// The time from when the request was received until it began to run.
    pub queued: Duration,
    /// The time for which it has run.
    pub running: Duration,
}

/// A query that is listed until this is dropped.
pub(super) struct Listed {
    queries: Arc<Queries>,
    id: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let query = self.queries.lock().remove(&self.id);
        // The lock is free again: to drop a statement may take a while.
        drop(query);
    }
}

impl Queries {
    /// Lists a query until the result is dropped.
    pub(super) fn list(self: &Arc<Self>, query: &Arc<Query>) -> Listed {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.lock().insert(id, query.clone());
        let queries = self.clone();
        Listed { queries, id }
    }

    /// Returns the queries, the oldest first.
    pub fn rows(&self) -> Vec<QueryRow> {
        self.rows_of(None)
    }

    /// Returns the queries of a role, or those of all users for `None`. Only their texts are masked: a
    /// role that may see few queries must not cause work for all.
    pub(super) fn rows_of(&self, role: Option<&str>) -> Vec<QueryRow> {
        // The lock is released before the texts are made, because queries wait for it.
        let listed = self.lock().clone();
        let is_shown = |query: &Query| role.is_none() || query.user.name() == role;
        let shown = listed.iter().filter(|(_, query)| is_shown(query));
        let rows = shown.filter_map(|(id, query)| query.row(*id));
        rows.collect()
    }

    /// Returns the user that sent a query; `None` if there is no query with this id.
    pub(super) fn user_of(&self, id: u64) -> Option<Arc<User>> {
        Some(self.lock().get(&id)?.user.clone())
    }

    /// Kills a read: its client gets an error now, and its thread ends soon. Returns `None` if there is no
    /// query with this id, and false if the query goes on, because it may change something.
    pub fn kill(&self, id: u64) -> Option<bool> {
        let query = self.lock().get(&id).cloned()?;
        if query.is_read {
            query.progress.killed.notify_one();
        }
        Some(query.is_read)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Query>>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    /// Returns what a query waits for that has not begun.
    fn waits_for(&self) -> &'static str {
        if !self.has_place.load(Ordering::Relaxed) {
            "client"
        } else if !self.has_turn.load(Ordering::Relaxed) {
            "turn"
        } else {
            "memory"
        }
    }
}

impl Query {
    /// Returns `None` if the query was answered before it began: then it never begins.
    fn row(&self, id: u64) -> Option<QueryRow> {
        let (received_at, progress) = (self.received_at, &self.progress);
        let begun_at = progress.begun_at.get();
        let state = match (begun_at, progress.is_answered.load(Ordering::Relaxed)) {
            (None, true) => return None,
            (None, false) => "waiting",
            (Some(_), false) => "running",
            (Some(_), true) => "ending",
        };
        Some(QueryRow {
            id,
            address: self.address,
            user: self.user.name().map(str::to_owned),
            keyspace: self.keyspace.as_deref().map(str::to_owned),
            statement: masked(self.statement.as_ref()?.text(), STATEMENT_BYTES_MAX),
            statements: self.statements,
            lane: match self.lane {
                Lane::Inline => "inline",
                Lane::Write => "write",
                Lane::Scan => "scan",
                Lane::Range => "range",
                Lane::Moved => "moved",
                Lane::Schema => "schema",
                Lane::Control => "control",
                Lane::Login => "login",
            },
            state,
            waits_for: begun_at.is_none().then(|| progress.waits_for()),
            queued: begun_at.map_or_else(
                || received_at.elapsed(),
                |begun_at| begun_at.saturating_duration_since(received_at),
            ),
            running: begun_at.map_or(Duration::ZERO, Instant::elapsed),
        })
    }
}
