//! The queries in the lanes of a server, for operators who look for a slow one.
//!
//! ```text
//!   a request enters a lane ──────> Queries ─┬─> system_views.queries; HTTP: a list
//!                                           └─> KILL QUERY, HTTP: a kill ─> the task of the request
//! ```
//!
//! Requests that run on the thread of their connection or in the commit lane are not listed: they
//! end or move to a lane within milliseconds, and listing them would take a good part of their
//! time.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ebb_cql::syntax::masked;
use tokio::sync::Notify;

use super::access::User;
use super::call::{Lane, Statement};

/// The length in bytes at which statement texts in the list are cut.
const STATEMENT_BYTES_MAX: usize = 1024;

/// The queries that wait for, or run on, other threads than that of their connection. Writes on the
/// thread that commits writes in groups (the commit lane) are not listed.
#[derive(Debug, Default)]
pub struct Queries {
    listed: Mutex<BTreeMap<u64, Arc<Query>>>,
    last_id: AtomicU64,
}

/// A request that waits for, or runs on, another thread than that of its connection (see [`Lane`]),
/// and the client that sent it.
pub(super) struct Query {
    pub address: SocketAddr,
    pub user: Arc<User>,
    pub keyspace: Option<Arc<str>>,
    /// The statement, or the first one of a batch; `None` for a login: logins are not listed.
    pub statement: Option<Arc<dyn Statement>>,
    pub statements: usize,
    pub lane: Lane,
    /// True if the query may end before it has a result. A write must go on, because an error would
    /// mean to the client that nothing was written.
    pub is_read: bool,
    pub received_at: Instant,
    pub progress: Arc<Progress>,
}

/// The progress of a request, shared by the thread that runs it, the task that waits for the
/// result, and operators.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// True if the request has one of the connection's slots for results, or needs none. The slots
    /// limit the number of results that wait until the client reads them.
    pub has_place: AtomicBool,
    /// True if the request has passed the queue of its lane, and has a thread.
    pub has_turn: AtomicBool,
    attempts: Mutex<Attempts>,
    /// True if the client has got an error before there was a result, or the thread of the request
    /// has ended with an error.
    pub is_answered: AtomicBool,
    /// True if the statement has to end: the server stops, or an operator has killed the query.
    pub is_stopped: Arc<AtomicBool>,
    /// Notified when an operator kills the query.
    pub killed: Notify,
}

/// The times of the attempts to run a request: a scan may [begin anew](Progress::wait_anew).
#[derive(Debug, Clone, Copy, Default)]
struct Attempts {
    /// The start of the attempt that is under way; `None` while the request waits.
    begun_at: Option<Instant>,
    /// The total duration of the attempts that have ended.
    ended: Duration,
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The statement is left out, because its constants may be secret.
        let mut query = f.debug_struct("Query");
        query.field("lane", &self.lane).finish_non_exhaustive()
    }
}

/// A query, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryRow {
    /// The id: 1 for the first query since the start of the server.
    pub id: u64,
    /// The address of the client.
    pub address: SocketAddr,
    /// The role of the client; `None` on a server without authentication.
    pub user: Option<String>,
    /// The keyspace in use.
    pub keyspace: Option<String>,
    /// The statement, or the first one of a batch, with `?` for each constant, cut at a kilobyte.
    pub statement: String,
    pub statements: usize,
    /// The lane, that is, the group of threads on which the query runs: `scan`, `range`, `moved`,
    /// `schema` or `control`.
    pub lane: &'static str,
    /// `waiting`, `running`, or `ending` if the client has its response but the thread still runs.
    pub state: &'static str,
    /// The reason for the wait; `None` if the query runs. `client`: the client has to read earlier
    /// results first. `turn`: other queries come first in the queue of the lane. `memory`: there is
    /// no memory for the result yet.
    pub waits_for: Option<&'static str>,
    /// The total time that the query has waited.
    pub queued: Duration,
    /// The total time that the query has run.
    pub running: Duration,
}

/// The entry of a query in the list. When this is dropped, the query is no longer listed.
pub(super) struct Listed {
    queries: Arc<Queries>,
    id: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let query = self.queries.lock().remove(&self.id);
        // Outside of the lock, because dropping a statement may take a while.
        drop(query);
    }
}

impl Queries {
    /// Lists a query until the returned entry is dropped.
    pub(super) fn list(self: &Arc<Self>, query: &Arc<Query>) -> Listed {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.lock().insert(id, query.clone());
        let queries = self.clone();
        Listed { queries, id }
    }

    /// Returns the queries of all users that wait or run in a lane, the oldest first.
    pub fn rows(&self) -> Vec<QueryRow> {
        self.rows_of(None)
    }

    /// Returns the queries of a role that wait or run in a lane, or those of all users for `None`.
    /// Constants are removed only from the texts of these queries, so that the work is small for a
    /// role that may see few queries.
    pub(super) fn rows_of(&self, role: Option<&str>) -> Vec<QueryRow> {
        // The lock is released before the texts are masked, because queries wait for it.
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

    /// Kills a read, and returns true: the client gets an error now, unless the result is ready at
    /// this moment, and the thread ends soon. Returns `None` if there is no query with this id, or
    /// if its client already has an error while the thread still runs. Returns false if the query
    /// is no read, and therefore goes on.
    pub fn kill(&self, id: u64) -> Option<bool> {
        let query = self.lock().get(&id).cloned()?;
        if !query.is_read {
            return Some(false);
        }
        if query.progress.is_answered.load(Ordering::Relaxed) {
            return None;
        }
        query.progress.killed.notify_one();
        Some(true)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Query>>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    /// Notes that an attempt to run the request has begun at `begun_at`.
    pub fn begin(&self, begun_at: Instant) {
        self.attempts().begun_at = Some(begun_at);
    }

    /// Notes that an attempt to run the request has ended without a result. The request now waits
    /// again: for a slot for its result, then for a thread, then for memory.
    pub fn wait_anew(&self) {
        let mut attempts = self.attempts();
        attempts.ended = attempts.duration();
        attempts.begun_at = None;
        self.has_turn.store(false, Ordering::Relaxed);
        self.has_place.store(false, Ordering::Relaxed);
    }

    /// Notes that the request has ended with an error. Returns true if an error was noted before:
    /// at the deadline the connection's task and the thread may both report an error, and only the
    /// first one is counted.
    pub fn end_with_error(&self) -> bool {
        self.is_answered.swap(true, Ordering::Relaxed)
    }

    /// Returns the total time that the request has run, in all attempts.
    pub fn running(&self) -> Duration {
        self.attempts().duration()
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reason why a waiting query does not run.
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

impl Attempts {
    /// Returns the total duration of all attempts, including one that is still under way.
    fn duration(&self) -> Duration {
        let last = self.begun_at.map(|begun_at| begun_at.elapsed());
        self.ended + last.unwrap_or_default()
    }
}

impl Query {
    /// Returns the row of the query for operators; `None` if the client got a response while the
    /// query still waited, because such a query never begins.
    fn row(&self, id: u64) -> Option<QueryRow> {
        let progress = &self.progress;
        let attempts = *progress.attempts();
        let running = attempts.duration();
        let state = match (
            attempts.begun_at,
            progress.is_answered.load(Ordering::Relaxed),
        ) {
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
            waits_for: (attempts.begun_at.is_none()).then(|| progress.waits_for()),
            queued: self.received_at.elapsed().saturating_sub(running),
            running,
        })
    }
}
