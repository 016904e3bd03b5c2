//! The clients of the server, their queries that wait or run in a lane, and the last requests that
//! were traced. Virtual tables show them.
//!
//! The memory is bounded: there is one client for each open connection, and only the newest traces
//! are kept.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ebb_cql::protocol::Version;

use super::functions::TimeUuids;
use super::queries::Queries;

/// The number of traces that the server keeps in memory. A new trace replaces the oldest one.
const TRACES_KEPT: usize = 256;
/// The most bytes of each text in a trace: of each parameter, such as the statement, and of each
/// event.
pub(super) const TRACED_TEXT_BYTES_MAX: usize = 4096;
/// The most events of one trace.
const EVENTS_MAX: usize = 64;
/// The most bytes of a driver's name or version.
const NAME_BYTES_MAX: usize = 128;

/// Clients, queries and traces of a server, shared by the server and the virtual tables that show
/// them.
#[derive(Debug)]
pub struct Activity {
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
    traces: Mutex<VecDeque<Arc<TraceSession>>>,
    next_client: AtomicU64,
    ids: TimeUuids,
    pub queries: Arc<Queries>,
}

#[derive(Debug)]
pub struct Client {
    pub address: SocketAddr,
    requests: AtomicU64,
    info: Mutex<ClientInfo>,
}

/// The properties of a client: its driver, protocol version, keyspace and role, and the encryption
/// of its connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientInfo {
    pub driver_name: Option<Box<str>>,
    pub driver_version: Option<Box<str>>,
    /// The protocol version that the client chose by its STARTUP request.
    pub version: Version,
    pub keyspace: Option<Arc<str>>,
    /// The role that the client has logged in as; `None` without a login.
    pub user: Option<Box<str>>,
    pub encryption: Option<Box<Encryption>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encryption {
    /// The TLS version, for example `TLSv1.3`.
    pub protocol: String,
    /// The cipher suite, for example `TLS_AES_256_GCM_SHA384`.
    pub cipher_suite: String,
}

/// A request that was traced, from its arrival to its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSession {
    /// The id that the response carries: a UUID of version 1.
    pub id: [u8; 16],
    pub client: SocketAddr,
    /// The opcode, for example `QUERY`.
    pub command: &'static str,
    /// A description of the request in words, for example `Preparing CQL3 query`.
    pub request: &'static str,
    /// The parameters of the request (the statement, the consistency and so on) as names and
    /// values, sorted by name.
    pub parameters: Vec<(&'static str, String)>,
    /// Milliseconds since 1970 at the arrival of the request.
    pub started_at_unix_ms: i64,
    /// Microseconds from the arrival until the response was ready.
    pub duration_us: u32,
    pub events: Vec<TraceEvent>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// The id of the event: a UUID of version 1, later than the id of the event before.
    pub id: [u8; 16],
    pub activity: String,
    /// The time of the event, in microseconds since the request arrived.
    pub elapsed_us: u32,
    pub thread: String,
}

/// The trace of a request whose response is not ready yet.
#[derive(Debug)]
pub(super) struct Trace {
    activity: Arc<Activity>,
    begun: Instant,
    session: TraceSession,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            clients: Mutex::default(),
            traces: Mutex::default(),
            next_client: AtomicU64::new(0),
            ids: TimeUuids::new(),
            queries: Arc::default(),
        }
    }
}

impl Activity {
    /// Returns the clients of the open connections, the oldest first.
    pub fn clients(&self) -> Vec<Arc<Client>> {
        lock(&self.clients).values().cloned().collect()
    }

    /// Returns the traces in memory, the oldest first.
    pub fn traces(&self) -> Vec<Arc<TraceSession>> {
        lock(&self.traces).iter().cloned().collect()
    }

    /// Adds a client, and returns it with its number. The client stays in the list until
    /// [`leave`](Self::leave) is called with this number.
    pub(super) fn enter(&self, address: SocketAddr) -> (u64, Arc<Client>) {
        let number = self.next_client.fetch_add(1, Ordering::Relaxed);
        let client = Arc::new(Client {
            address,
            requests: AtomicU64::new(0),
            info: Mutex::default(),
        });
        lock(&self.clients).insert(number, client.clone());
        (number, client)
    }

    pub(super) fn leave(&self, number: u64) {
        lock(&self.clients).remove(&number);
    }

    /// Begins the trace of a request that arrived at `begun`.
    pub(super) fn begin_trace(
        self: &Arc<Self>,
        client: SocketAddr,
        begun: Instant,
        (command, request): (&'static str, &'static str),
        mut parameters: Vec<(&'static str, String)>,
    ) -> Trace {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default().saturating_sub(begun.elapsed());
        for (_, value) in &mut parameters {
            shorten(value);
        }
        Trace {
            activity: self.clone(),
            begun,
            session: TraceSession {
                id: self.ids.next(unix_us(since)),
                client,
                command,
                request,
                parameters,
                started_at_unix_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
                duration_us: 0,
                events: Vec::new(),
            },
        }
    }
}

impl Client {
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn info(&self) -> ClientInfo {
        lock(&self.info).clone()
    }

    pub(super) fn note_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_driver(&self, name: Option<&str>, version: Option<&str>) {
        let short = |text: &str| text[..text.floor_char_boundary(NAME_BYTES_MAX)].into();
        let mut info = lock(&self.info);
        info.driver_name = name.map(short);
        info.driver_version = version.map(short);
    }

    pub(super) fn note_version(&self, version: Version) {
        lock(&self.info).version = version;
    }

    pub(super) fn note_encryption(&self, encryption: Encryption) {
        lock(&self.info).encryption = Some(Box::new(encryption));
    }

    pub(super) fn note_user(&self, name: &str) {
        lock(&self.info).user = Some(name.into());
    }

    pub(super) fn note_keyspace(&self, keyspace: Arc<str>) {
        lock(&self.info).keyspace = Some(keyspace);
    }
}

impl Trace {
    /// Returns the id of the trace, for the header of the response.
    pub(super) fn id(&self) -> [u8; 16] {
        self.session.id
    }

    /// Adds an event with the present time, unless the trace has [`EVENTS_MAX`] events already.
    pub(super) fn note(&mut self, activity: impl Into<String>) {
        if self.session.events.len() == EVENTS_MAX {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut activity = activity.into();
        shorten(&mut activity);
        let event = TraceEvent {
            id: self.activity.ids.next(unix_us(since.unwrap_or_default())),
            activity,
            elapsed_us: micros(self.begun.elapsed()),
            thread: std::thread::current().name().unwrap_or("").to_owned(),
        };
        self.session.events.push(event);
    }

    /// Ends the trace, because the response is ready, and adds the trace to those in memory.
    pub(super) fn end(mut self) {
        self.session.duration_us = micros(self.begun.elapsed());
        let mut traces = lock(&self.activity.traces);
        if traces.len() == TRACES_KEPT {
            traces.pop_front();
        }
        traces.push_back(Arc::new(self.session));
    }
}

/// Cuts a text to the length that a trace keeps, and frees the memory of the rest.
fn shorten(text: &mut String) {
    text.truncate(text.floor_char_boundary(TRACED_TEXT_BYTES_MAX));
    text.shrink_to_fit();
}

fn unix_us(since_1970: Duration) -> i64 {
    i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX)
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No update under this lock can be left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> SocketAddr {
        ([127, 0, 0, 1], 1234).into()
    }

    /// Regression: a cut statement kept the memory of the whole text, and events were not cut.
    #[test]
    fn only_the_newest_traces_are_kept_and_long_texts_are_cut() {
        let activity = Arc::new(Activity::default());
        let text = "ä".repeat(TRACED_TEXT_BYTES_MAX);
        let mut ids = Vec::new();
        for _ in 0..TRACES_KEPT + 3 {
            let what = ("QUERY", "Execute CQL3 query");
            let parameters = vec![("query", text.clone())];
            let begun = Instant::now(); // clock: a trace has the instant of its start
            let mut trace = activity.begin_trace(address(), begun, what, parameters);
            trace.note(text.clone());
            for _ in 0..EVENTS_MAX + 5 {
                trace.note("again");
            }
            ids.push(trace.id());
            trace.end();
        }
        let kept = activity.traces();
        assert!(
            kept.iter()
                .map(|trace| trace.id)
                .eq(ids[3..].iter().copied())
        );
        let last = kept.last().unwrap();
        assert_eq!(last.events.len(), EVENTS_MAX);
        for cut in [&last.parameters[0].1, &last.events[0].activity] {
            assert_eq!(cut.len(), TRACED_TEXT_BYTES_MAX);
            assert!(cut.capacity() < text.len(), "{} bytes", cut.capacity());
        }
    }

    #[test]
    fn a_client_is_removed_when_it_leaves() {
        let activity = Activity::default();
        let (first, client) = activity.enter(address());
        activity.enter(address());
        client.note_request();
        client.note_driver(Some(&"x".repeat(1000)), None);
        assert_eq!(activity.clients()[0].requests(), 1);
        let info = activity.clients()[0].info();
        assert_eq!(info.driver_name.unwrap().len(), NAME_BYTES_MAX);
        activity.leave(first);
        assert_eq!(activity.clients().len(), 1);
    }
}
