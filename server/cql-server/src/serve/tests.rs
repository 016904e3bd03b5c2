mod certificates;
mod conflicts;
mod events;
mod hostile;
mod login;
mod overload;
mod queries;
mod scans;
mod slow;
mod stages;
mod stopping;
mod tls;
mod too_large;
mod version5;
mod writes;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use ebb_cql::protocol::{
    Answer, Batch, BatchKind, BatchStatement, Coding, Columns, Compression, Consistency, Direction,
    ErrorKind, ErrorResponse, EventTypes, FrameDecoder, PAYLOAD_BYTES_MAX, QueryParameters,
    Request, Response, SchemaChange, SchemaChangeKind, SchemaTarget, Segments, Startup,
    StatementRef, Value, Values, ValuesBuf, Version, WriteType, flag, prepared_id,
};
use ebb_test_support::seed::for_seeds;
use ebb_test_support::wait::{self, HANG};
use ebb_threads::{SchedulingClass, current_class};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::requests::LARGE_BYTES;
use super::{CqlServer, ServeOptions};
use crate::access::Login;
use crate::call::{
    Administration, Call, Lane, NOT_A_WRITE, Outcome, RequestAnalysis, RowWrite, Service,
    Statement, StatementKind, WriteKind,
};
use crate::interrupt;

/// A service for tests. The first word of a statement names its effect: `scan` waits at a gate, for
/// example.
#[derive(Default)]
struct Fake {
    /// The gate at which scans, stalled writes, and statements whose analysis takes long wait while
    /// it is closed.
    gate: Gate,
    cancelled: Count,
    /// The number of statements with the verb `hold` whose parsing has begun. Their parsing waits
    /// until a test opens `gate`.
    parsed_holds: Count,
    /// The number of statements whose execution has begun, in all lanes but [`Lane::Inline`].
    executed: Count,
    /// True if writes are acknowledged after a sync.
    waits_for_sync: bool,
    /// The gate for syncs, which wait while it is closed.
    sync_gate: Gate,
    /// The number of syncs that have begun.
    syncs_begun: Count,
    /// The number of syncs that have ended.
    syncs: Count,
    sync_fails: AtomicBool,
    /// The number of coming executions of conditional writes that the service ends with a conflict.
    conflicts: AtomicUsize,
    /// True after a statement with the verb `alter`. From then on, prepared statements whose text
    /// contains `outdated` have to be prepared again.
    has_altered: AtomicBool,
    /// The server's callback for schema changes that no statement causes.
    notify: Mutex<Option<SchemaCallback>>,
    /// The authentication of clients; `None` if they do not have to log in.
    login: Option<Login>,
}

/// Returns a service that acknowledges writes after a sync.
fn synced() -> Fake {
    Fake {
        waits_for_sync: true,
        ..Fake::default()
    }
}

/// A count that several threads raise.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn add(&self, more: usize) {
        self.0.fetch_add(more, Ordering::SeqCst);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

type SchemaCallback = Box<dyn Fn(SchemaChange) + Send + Sync>;

#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    /// Waits until the gate is open or `is_over` returns true, and returns whether it is open.
    fn wait(&self, mut is_over: impl FnMut() -> bool) -> bool {
        let mut is_open = self.0.lock().unwrap();
        while !*is_open && !is_over() {
            is_open = (self.1.wait_timeout(is_open, Duration::from_millis(5)))
                .unwrap()
                .0;
        }
        *is_open
    }
}

struct FakeStatement {
    text: String,
    columns: Columns,
    /// True if the statement was analysed after a change of the schema. Such a change gives the
    /// markers of statements whose text contains `marked` other types.
    is_of_altered: bool,
}

impl Statement for FakeStatement {
    fn kind(&self) -> StatementKind {
        let lane = match self.text.split(' ').next() {
            Some("scan" | "panic") => Lane::Scan,
            Some("range" | "starve" | "occupy") => Lane::Range,
            Some("alter") => Lane::Schema,
            Some("put" | "stall" | "explode" | "swap" | "compute-put" | "linger") => Lane::Write,
            _ => Lane::Inline,
        };
        let write_type = if self.text.starts_with("swap") {
            WriteType::Cas
        } else {
            WriteType::Simple
        };
        StatementKind { lane, write_type }
    }

    fn administration(&self) -> Option<Administration<'_>> {
        (self.kind().lane == Lane::Schema).then(Administration::default)
    }

    fn may_be_in_batch(&self) -> bool {
        self.kind().lane == Lane::Write
    }

    fn writes(&self) -> Vec<RowWrite<'_>> {
        let write = RowWrite {
            kind: WriteKind::Update,
            keyspace: "fake",
            table: &self.text,
        };
        (self.kind().lane == Lane::Write)
            .then_some(write)
            .into_iter()
            .collect()
    }

    fn needs_keyspace(&self) -> bool {
        self.text.contains("unqualified")
    }

    fn markers(&self) -> (&Columns, &[u16]) {
        (&self.columns, &[])
    }

    fn columns(&self) -> Option<&Columns> {
        None
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn size_bytes(&self) -> usize {
        self.text.len()
    }
}

impl Service for Fake {
    type Statement = FakeStatement;

    fn prepare(
        &self,
        _: Option<&str>,
        text: &str,
        _: &mut RequestAnalysis,
    ) -> Result<FakeStatement, ErrorResponse> {
        if text.starts_with("nonsense") {
            return Err(ErrorResponse::syntax("line 1:0 no viable alternative"));
        }
        if text.starts_with("analyse") {
            interrupt::charge(u64::MAX)?;
        }
        // The analysis of this statement never ends on a thread that serves connections.
        if text.ends_with("study") {
            while std::thread::current().name() != Some("cql-large") {
                interrupt::charge(1)?;
            }
            self.gate.wait(|| false);
        }
        // On a thread that serves connections, the analysis of this statement takes all the time that
        // it may.
        if text.starts_with("linger") {
            let thread = std::thread::current();
            let is_shared = !matches!(thread.name(), Some("cql-large" | "cql-moved"));
            while is_shared && interrupt::charge(1).is_ok() {}
        }
        if text.starts_with("hold") {
            self.parsed_holds.add(1);
            self.gate.wait(|| false);
        }
        if text.starts_with("stumble") {
            panic!("asked to");
        }
        Ok(FakeStatement {
            text: text.to_owned(),
            columns: Columns::default(),
            is_of_altered: self.has_altered.load(Ordering::SeqCst),
        })
    }

    fn is_current(&self, statement: &FakeStatement) -> bool {
        // The analysis of this statement never ends by itself.
        if statement.text.contains("endless") {
            while interrupt::charge(1).is_ok() {}
            return false;
        }
        !(statement.text.contains("outdated") && self.has_altered.load(Ordering::SeqCst))
    }

    fn execute(
        &self,
        statement: &FakeStatement,
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome, ErrorResponse> {
        let mut outcome = Outcome::default();
        let (verb, rest) = statement
            .text
            .split_once(' ')
            .unwrap_or((&statement.text, ""));
        if statement.kind().lane != Lane::Inline {
            self.executed.add(1);
        }
        match verb {
            // Several words for one effect, because the first word of a statement chooses its lane, too
            // (see `kind`).
            "panic" | "explode" | "crash" => {
                out.extend_from_slice(b"half a body");
                panic!("asked to");
            }
            "swap" => {
                let one_less = |left: usize| left.checked_sub(1);
                let left =
                    (self.conflicts).fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
                if left.is_ok() {
                    outcome.is_in_conflict = true;
                    return Ok(outcome);
                }
            }
            "stall" | "occupy" => {
                self.gate.wait(|| call.interrupt.is_cancelled());
            }
            "fail" => {
                out.extend_from_slice(b"half a body");
                return Err(ErrorResponse::invalid(rest));
            }
            "compute" | "compute-put" if std::thread::current().name() != Some("cql-moved") => {
                // The statement never ends by itself here. Once it has computed for too long, it moves
                // to a thread `cql-moved`, where it succeeds at once.
                let time_out = statement.kind().time_out(Consistency::One);
                let compute = || -> Result<Outcome, ErrorResponse> {
                    loop {
                        interrupt::charge(1)?;
                    }
                };
                return interrupt::scope(call.interrupt, time_out, compute);
            }
            "starve" => {
                // The statement makes progress only outside of the idle class.
                let time_out = statement.kind().time_out(Consistency::One);
                let starve = || -> Result<(), ErrorResponse> {
                    while current_class() != SchedulingClass::Normal {
                        interrupt::charge(u64::MAX)?;
                    }
                    Ok(())
                };
                interrupt::scope(call.interrupt, time_out, starve)?;
            }
            "spin" => {
                // About 0.2 ms of CPU time.
                for number in 0..100_000 {
                    std::hint::black_box(number);
                }
            }
            "warn" => outcome.warnings.push(rest.into()),
            "use" => outcome.keyspace = Some(rest.into()),
            "scan" => {
                let was_open = self.gate.wait(|| call.interrupt.is_cancelled());
                self.cancelled.add(usize::from(!was_open));
                if let Ok(bytes) = rest.parse::<usize>() {
                    append_long(bytes, out);
                    return Ok(outcome);
                }
            }
            "read" => {
                if let Ok(bytes) = rest.parse::<usize>() {
                    append_long(bytes, out);
                    return Ok(outcome);
                }
            }
            "alter" => {
                if rest == "slowly" {
                    self.gate.wait(|| call.interrupt.is_cancelled());
                }
                self.has_altered.store(true, Ordering::SeqCst);
                call.changes.add([SchemaChange {
                    kind: SchemaChangeKind::Updated,
                    keyspace: rest.into(),
                    target: SchemaTarget::Keyspace,
                }]);
                match rest {
                    "failing" => return Err(ErrorResponse::server("asked to")),
                    "panicking" => panic!("asked to"),
                    _ => {}
                }
            }
            _ => {}
        }
        let has_altered = self.has_altered.load(Ordering::SeqCst);
        if statement.text.contains("marked") && statement.is_of_altered != has_altered {
            let id = prepared_id(None, &statement.text);
            return Err(ErrorResponse::unprepared(&id));
        }
        // The response contains the keyspace in use, or the name of the thread.
        let thread = std::thread::current();
        match (verb, call.keyspace, thread.name()) {
            ("which", Some(name), _) | ("thread" | "linger", _, Some(name)) => {
                let keyspace = name.into();
                Response::SetKeyspace { keyspace }.encode_body(out);
            }
            _ => Response::Void.encode_body(out),
        }
        Ok(outcome)
    }

    fn batch(
        &self,
        _: BatchKind,
        statements: &[(Arc<FakeStatement>, Values<'_>)],
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome, ErrorResponse> {
        match statements.first() {
            Some((statement, _)) => self.execute(statement, call, out),
            None => {
                Response::Void.encode_body(out);
                Ok(Outcome::default())
            }
        }
    }

    fn turns(
        &self,
        statements: &[(Arc<FakeStatement>, Values<'_>)],
    ) -> Result<Vec<u64>, ErrorResponse> {
        let texts = statements.iter().map(|(statement, _)| &statement.text);
        Ok(texts.map(|text| text.len() as u64).collect())
    }

    fn on_change(&self, notify: SchemaCallback) {
        *self.notify.lock().unwrap() = Some(notify);
    }

    fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    fn commits_wait_for_sync(&self) -> bool {
        self.waits_for_sync
    }

    fn sync(&self) -> Result<(), ErrorResponse> {
        self.syncs_begun.add(1);
        self.sync_gate.wait(|| false);
        self.syncs.add(1);
        if self.sync_fails.load(Ordering::SeqCst) {
            return Err(ErrorResponse::server("the disk is gone"));
        }
        Ok(())
    }
}

/// Appends the body of a RESULT that has a little more than `bytes` bytes.
fn append_long(bytes: usize, out: &mut BytesMut) {
    let keyspace = "x".repeat(60_000);
    Response::SetKeyspace { keyspace }.encode_body(out);
    out.resize(out.len() + bytes, 0);
}

fn parameters() -> QueryParameters<'static> {
    QueryParameters::default()
}

/// Returns a QUERY with this text, whose body is compressed if `coding` has a compression.
fn encoded(stream: i16, text: &str, coding: impl Into<Coding>) -> BytesMut {
    let mut frame = BytesMut::new();
    let parameters = parameters();
    Request::Query { text, parameters }.encode(&mut frame, stream, coding);
    frame
}

struct Client<T = TcpStream> {
    stream: T,
    version: Version,
    /// The segments that carry frames; `None` for frames without segments.
    segments: Option<Segments>,
    sealed: BytesMut,
    frames: BytesMut,
}

impl Client {
    fn raw(server: &CqlServer) -> Self {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        Self::over(stream)
    }

    fn new(server: &CqlServer) -> Self {
        Self::raw(server).started()
    }
}

impl<T: Read + Write> Client<T> {
    fn over(stream: T) -> Self {
        Self {
            stream,
            version: Version::V4,
            segments: None,
            sealed: BytesMut::new(),
            frames: BytesMut::new(),
        }
    }

    fn started(mut self) -> Self {
        let options = vec![("CQL_VERSION", "3.4.6")];
        self.send(0, &Request::Startup(Startup { options }));
        assert_eq!(self.response(), Response::Ready);
        self
    }

    /// Sends STARTUP. Returns `None` if the server closes the connection instead of responding.
    fn try_started(mut self) -> Option<Self> {
        let options = vec![("CQL_VERSION", "3.4.6")];
        self.try_send(0, &Request::Startup(Startup { options }))
            .ok()?;
        let (_, answer) = self.next_answer().ok()??;
        assert_eq!(answer.response, Response::Ready);
        Some(self)
    }

    fn send(&mut self, stream: i16, request: &Request<'_>) {
        self.try_send(stream, request).unwrap();
    }

    fn try_send(&mut self, stream: i16, request: &Request<'_>) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        request.encode(&mut bytes, stream, self.version);
        if let Some(segments) = self.segments {
            let frames = std::mem::take(&mut bytes);
            segments.seal(&frames, &mut bytes);
        }
        self.stream.write_all(&bytes)
    }

    fn query(&mut self, stream: i16, text: &str) {
        let parameters = parameters();
        self.send(stream, &Request::Query { text, parameters });
    }

    /// Returns the next response; `None` if the connection has ended.
    fn try_receive(&mut self) -> Option<(i16, Answer)> {
        match self.next_answer() {
            Ok(answer) => answer,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads the next response; `None` at the end of the stream.
    fn next_answer(&mut self) -> io::Result<Option<(i16, Answer)>> {
        let mut decoder = FrameDecoder::new(Direction::Response, 16 << 20);
        decoder.set_version(self.version);
        loop {
            if let Some(frame) = decoder.decode(&mut self.frames).unwrap() {
                return Ok(Some((frame.stream, Answer::decode(&frame).unwrap())));
            }
            if let Some(segments) = self.segments
                && (segments.open(&mut self.sealed, &mut self.frames, PAYLOAD_BYTES_MAX))
                    .unwrap()
                    .is_some()
            {
                continue;
            }
            let received = match self.segments {
                None => &mut self.frames,
                Some(_) => &mut self.sealed,
            };
            let mut some = [0; 4096];
            match wait::uninterrupted(|| self.stream.read(&mut some))? {
                0 => return Ok(None),
                read => received.extend_from_slice(&some[..read]),
            }
        }
    }

    fn receive(&mut self) -> (i16, Answer) {
        self.try_receive().expect("the connection is open")
    }

    /// Returns the next response, whichever request it answers.
    fn response(&mut self) -> Response {
        self.receive().1.response
    }

    /// Returns the streams of the next `count` responses, ascending.
    fn streams(&mut self, count: usize) -> Vec<i16> {
        let mut streams: Vec<_> = (0..count).map(|_| self.receive().0).collect();
        streams.sort_unstable();
        streams
    }

    /// Returns the responses to the requests with the streams 1 and 2.
    #[track_caller]
    fn in_order(&mut self) -> [Answer; 2] {
        let mut answers = [self.receive(), self.receive()];
        answers.sort_by_key(|(stream, _)| *stream);
        assert_eq!([answers[0].0, answers[1].0], [1, 2]);
        answers.map(|(_, answer)| answer)
    }

    /// Sends a request with the flag for tracing, and returns the response.
    fn traced(&mut self, request: &Request<'_>) -> Answer {
        let mut bytes = BytesMut::new();
        request.encode(&mut bytes, 5, self.version);
        bytes[1] |= flag::TRACING;
        self.stream.write_all(&bytes).unwrap();
        self.receive().1
    }

    /// Sends a short statement, and asserts that the next response answers it.
    #[track_caller]
    fn assert_served(&mut self, stream: i16) {
        self.query(stream, "which");
        assert_eq!(self.receive().0, stream);
    }

    /// Registers the client for the events of schema changes.
    fn register(&mut self) {
        let events = EventTypes {
            schema: true,
            ..EventTypes::default()
        };
        self.send(1, &Request::Register(events));
        assert_eq!(self.response(), Response::Ready);
    }

    fn error(&mut self) -> ErrorResponse {
        match self.response() {
            Response::Error(error) => error,
            other => panic!("{other:?} is no error"),
        }
    }
}

/// Returns the options of tests that are not about overload and time limits. The server never
/// rejects a request as overloaded, closes no connection because the machine is slow, and reads
/// ranges in the normal scheduling class.
fn options() -> ServeOptions {
    ServeOptions {
        idle_class: false,
        overload_wait: Duration::ZERO,
        startup_timeout: HANG,
        login_timeout: HANG,
        request_timeout: HANG,
        write_timeout: HANG,
        ..ServeOptions::default()
    }
}

/// Waits until `server` has at most `most` connections.
#[track_caller]
fn until_connections(server: &CqlServer, most: u64) {
    let counters = server.counters();
    wait::until("connections to end", || {
        counters.counts().connections <= most
    });
}

/// A server over a [`Fake`]. When this is dropped, the gates are opened first: the drop of a
/// [`CqlServer`] waits for its threads, and a thread that waits at a gate would hang a test that
/// failed before it opened the gate.
struct Served {
    // Fields are dropped in order, so the gates are opened before the server is dropped.
    _gates: OpenedOnDrop,
    server: CqlServer,
}

impl Served {
    /// Drains the server like [`CqlServer::drain`]. Afterwards opens the gates at which statements
    /// and syncs of the [`Fake`] service wait, so that their threads end.
    fn drain(self, patience: Duration) -> bool {
        let Self { _gates, server } = self;
        server.drain(patience)
    }
}

impl Deref for Served {
    type Target = CqlServer;

    fn deref(&self) -> &CqlServer {
        &self.server
    }
}

/// Opens the gates of the service when it is dropped, so that the statements and syncs which wait
/// there end.
struct OpenedOnDrop(Arc<Fake>);

impl Drop for OpenedOnDrop {
    fn drop(&mut self) {
        self.0.gate.open();
        self.0.sync_gate.open();
    }
}

fn server(options: ServeOptions) -> (Arc<Fake>, Served) {
    serving(Fake::default(), options)
}

fn serving(fake: Fake, options: ServeOptions) -> (Arc<Fake>, Served) {
    let fake = Arc::new(fake);
    let options = ServeOptions {
        address: ([127, 0, 0, 1], 0).into(),
        threads: 2,
        ..options
    };
    let server = CqlServer::start(fake.clone(), None, options).unwrap();
    let _gates = OpenedOnDrop(fake.clone());
    (fake, Served { _gates, server })
}

#[test]
fn statements_use_the_keyspace_and_their_responses_carry_warnings() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    client.query(1, "which");
    client.query(2, "use app");
    client.query(3, "which");
    client.query(4, "warn of this");
    client.query(5, "fail for this reason");
    let answers: Vec<_> = (0..5).map(|_| client.receive()).collect();
    let streams: Vec<_> = answers.iter().map(|(stream, _)| *stream).collect();
    assert_eq!(streams, [1, 2, 3, 4, 5]);
    assert_eq!(answers[0].1.response, Response::Void);
    let keyspace = "app".to_owned();
    assert_eq!(answers[2].1.response, Response::SetKeyspace { keyspace });
    assert_eq!(answers[3].1.warnings, ["of this"]);
    let Response::Error(error) = &answers[4].1.response else {
        panic!("{:?}", answers[4]);
    };
    assert_eq!(error.message, "for this reason");
}

#[test]
fn the_first_message_is_startup_or_options() {
    let (_, server) = server(options());
    let mut client = Client::raw(&server);
    client.query(7, "which");
    assert_eq!(client.error().kind, ErrorKind::Protocol);
    client.send(1, &Request::Options);
    let Response::Supported { options } = client.response() else {
        panic!("no SUPPORTED");
    };
    assert!(options.contains(&("CQL_VERSION".into(), vec!["3.4.6".into()])));
    for (options, mistake) in [
        (vec![("COMPRESSION", "lz4")], "CQL_VERSION"),
        (
            vec![("CQL_VERSION", "3.0.0"), ("COMPRESSION", "snappy")],
            "snappy",
        ),
    ] {
        client.send(2, &Request::Startup(Startup { options }));
        let error = client.error();
        assert_eq!(error.kind, ErrorKind::Protocol);
        assert!(error.message.contains(mistake), "{}", error.message);
    }
}

#[test]
fn unsupported_protocol_versions_end_the_connection_with_an_error() {
    let (_, server) = server(options());
    for version in [0x06, 0x42, 0x41, 0x03, 0x01, 0x7f] {
        let mut client = Client::raw(&server);
        client
            .stream
            .write_all(&[version, 0, 0, 0, 5, 0, 0, 0, 0])
            .unwrap();
        let error = client.error();
        assert_eq!(error.kind, ErrorKind::Protocol, "{version:#x}");
        assert!(error.message.contains("unsupported protocol version"));
        assert!(client.try_receive().is_none(), "the connection ends");
    }
}

/// Prepares a statement, and returns the response.
fn prepare(client: &mut Client, text: &str) -> Response {
    let keyspace = None;
    client.send(1, &Request::Prepare { text, keyspace });
    client.response()
}

/// Prepares a statement, and returns its id.
#[track_caller]
fn prepared(client: &mut Client, text: &str) -> Vec<u8> {
    match prepare(client, text) {
        Response::Prepared(prepared) => prepared.id.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Executes a prepared statement, and returns whether the server still has it.
#[track_caller]
fn is_prepared(client: &mut Client, id: &[u8]) -> bool {
    let parameters = parameters();
    client.send(2, &Request::Execute { id, parameters });
    match client.response() {
        Response::Void => true,
        Response::Error(error) => {
            let id = id.to_vec();
            assert_eq!(error.kind, ErrorKind::Unprepared { id });
            false
        }
        other => panic!("{other:?}"),
    }
}

/// Regression: a statement that was prepared for a table with other types was executed on the table
/// that replaced it.
#[test]
fn statements_that_a_schema_change_made_outdated_get_unprepared() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    let ids = ["put", "put outdated"].map(|text| prepared(&mut client, text));
    assert!(ids.iter().all(|id| is_prepared(&mut client, id)));
    client.query(3, "alter a");
    client.receive();
    assert!(is_prepared(&mut client, &ids[0]));
    assert!(!is_prepared(&mut client, &ids[1]));
}

/// Regression: a QUERY used the statement with its text that another client had prepared without a
/// keyspace in use. `DROP TABLE t` then failed, and `DESCRIBE TABLES` listed those of all keyspaces.
#[test]
fn a_query_uses_no_statement_that_was_prepared_without_its_keyspace() {
    let (_, server) = login::server(options());
    let mut root = Client::logged_in(&server, "root");
    let texts = ["CREATE TYPE pair (a int)", "TRUNCATE t", "DROP TABLE t"];
    for text in texts {
        prepared(&mut root, text);
    }
    root.run("USE ks");
    for text in texts {
        root.run(text);
    }
}

/// Regression: a schema change analysed each prepared statement again without a limit, and all
/// other changes of the schema waited. PREPARE did so, too, on a thread that serves connections.
#[test]
fn a_schema_change_drops_statements_that_take_too_long_to_analyse_again() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    let ids = ["put", "put endless"].map(|text| prepared(&mut client, text));
    assert!(ids.iter().all(|id| is_prepared(&mut client, id)));
    client.query(3, "alter a");
    assert_eq!(client.response(), Response::Void);
    assert!(is_prepared(&mut client, &ids[0]));
    assert!(!is_prepared(&mut client, &ids[1]));
}

/// A schema change during PREPARE may concern another table. The statement is then still current
/// and stays prepared. If the server returned UNPREPARED for it, the client would prepare it again
/// for ever as long as other tables change.
#[test]
fn only_a_statement_that_a_schema_change_made_outdated_during_prepare_gets_unprepared() {
    for (text, is_current) in [("hold outdated", false), ("hold", true)] {
        let (fake, server) = server(options());
        let (mut client, mut other) = (Client::new(&server), Client::new(&server));
        // Large, so that it is parsed beside the threads that serve the other client.
        let (text, keyspace) = (&format!("{text}{}", " ".repeat(1 << 17)), None);
        client.send(1, &Request::Prepare { text, keyspace });
        wait::until("the analysis to begin", || fake.parsed_holds.get() > 0);
        other.query(1, "alter a");
        other.receive();
        fake.gate.open();
        let Response::Prepared(prepared) = client.response() else {
            panic!("it is prepared");
        };
        assert_eq!(is_prepared(&mut client, &prepared.id), is_current);
    }
}

/// Regression: a QUERY with bound values got UNPREPARED if the schema changed after its analysis,
/// although its client had prepared nothing.
#[test]
fn a_query_is_analysed_again_if_the_schema_changes_before_it_runs() {
    let (fake, server) = server(options());
    let (mut client, mut other) = (Client::new(&server), Client::new(&server));
    // Both texts are in the cache of statements, and are not dropped from it.
    let ids = ["put marked", "which marked"].map(|text| prepared(&mut client, text));
    let scan = prepared(&mut client, "scan marked");
    client.query(1, "scan marked");
    let parameters = parameters();
    let id = &scan[..];
    client.send(2, &Request::Execute { id, parameters });
    wait::until("both scans to begin", || fake.executed.get() >= 2);
    other.query(1, "alter a");
    other.receive();
    fake.gate.open();
    let [first, second] = client.in_order().map(|answer| answer.response);
    assert_eq!(first, Response::Void);
    let Response::Error(error) = second else {
        panic!("{second:?} is no error");
    };
    let id = scan.clone();
    assert_eq!(error.kind, ErrorKind::Unprepared { id });
    for (text, id) in ["put marked", "which marked"].iter().zip(&ids) {
        client.query(3, text);
        assert_eq!(client.response(), Response::Void, "{text}");
        assert!(!is_prepared(&mut client, id), "{text}");
    }
    // A batch is executed if only texts in it are outdated.
    let fresh = prepared(&mut client, "put");
    let text = StatementRef::Text("put marked");
    for (first, is_executed) in [(text, true), (StatementRef::Prepared(&ids[0]), false)] {
        let statements = [first, text, StatementRef::Prepared(&fresh)];
        client.send(4, &Request::Batch(batch_of(&statements)));
        let response = client.response();
        assert_eq!(response == Response::Void, is_executed, "{response:?}");
    }
}

/// Regression: all texts of a batch were analysed before one that is no write was refused.
/// Thousands of SELECTs took gigabytes, and a prepared BEGIN BATCH that a batch mentioned thousands
/// of times took minutes.
#[test]
fn a_batch_fails_at_its_first_statement_that_is_no_single_write() {
    let (fake, server) = server(options());
    let mut client = Client::new(&server);
    let id = prepared(&mut client, "which");
    let nonsense = StatementRef::Text("nonsense");
    for read in [StatementRef::Text("which"), StatementRef::Prepared(&id)] {
        let statements = [StatementRef::Text("put"), read, nonsense];
        client.send(3, &Request::Batch(batch_of(&statements)));
        let error = client.error();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error:?}");
        assert_eq!(error.message, NOT_A_WRITE);
    }
    assert_eq!(fake.executed.get(), 0);
}

/// Returns a batch of these statements, without values.
fn batch_of<'a>(statements: &[StatementRef<'a>]) -> Batch<'a> {
    let part = |statement: &StatementRef<'a>| BatchStatement {
        statement: *statement,
        values: Values::default(),
    };
    Batch {
        kind: BatchKind::Unlogged,
        statements: statements.iter().map(part).collect(),
        consistency: Consistency::One,
        serial_consistency: None,
        timestamp_us: None,
        keyspace: None,
        now_s: None,
    }
}

/// Regression: EXECUTE and BATCH with a wrong number of values had the error of QUERY.
#[test]
fn execute_and_batch_with_a_wrong_number_of_values_have_cassandras_errors() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    let id = &prepared(&mut client, "put")[..];
    let values = ValuesBuf::from_iter([Value::Null; 2]);
    let parameters = QueryParameters {
        values: values.as_values(),
        ..parameters()
    };
    client.send(1, &Request::Execute { id, parameters });
    let error = client.error();
    assert_eq!(error.kind, ErrorKind::Invalid);
    let expected = "were 0 markers(?) in CQL but 2 bound variables";
    assert_eq!(error.message, format!("there {expected}"));
    for statement in [StatementRef::Prepared(id), StatementRef::Text("put")] {
        let mut batch = batch_of(&[statement]);
        batch.statements[0].values = values.as_values();
        client.send(2, &Request::Batch(batch));
        let error = client.error();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert_eq!(error.message, format!("There {expected}"));
    }
}

#[test]
fn prepared_statements_are_executed_by_id_and_unknown_ids_get_unprepared() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    let id = prepared(&mut client, "put");
    assert!(is_prepared(&mut client, &id));
    assert!(!is_prepared(&mut client, b"another"));
    // The id is the same on another connection, unless the statement depends on the keyspace.
    let mut other = Client::new(&server);
    assert!(is_prepared(&mut other, &id));
    let mut ids = Vec::new();
    for keyspace in ["use a", "use b"] {
        for text in ["put", "put unqualified"] {
            other.query(1, keyspace);
            other.receive();
            ids.push(prepared(&mut other, text));
        }
    }
    assert_eq!([&ids[0], &ids[2]], [&id, &id]);
    assert_ne!(ids[1], ids[3]);
}

#[test]
fn a_scan_delays_no_point_request_of_any_connection() {
    let (fake, server) = server(options());
    let mut client = Client::new(&server);
    for stream in 0..20 {
        client.query(stream, "scan");
    }
    client.assert_served(100);
    let mut other = Client::new(&server);
    other.assert_served(1);
    fake.gate.open();
    assert_eq!(client.streams(20), (0..20).collect::<Vec<_>>());
}

#[test]
fn closing_a_connection_cancels_its_requests() {
    let (fake, server) = server(options());
    let mut client = Client::new(&server);
    client.query(1, "scan");
    client.assert_served(2);
    drop(client);
    wait::until("the scan to be cancelled", || fake.cancelled.get() > 0);
    until_connections(&server, 0);
}

#[test]
fn a_client_that_does_not_read_holds_bounded_memory_and_delays_no_other() {
    let (fake, server) = server(ServeOptions {
        lane_requests_max: 4,
        lane_result_bytes_max: 2 << 20,
        write_timeout: Duration::from_millis(300),
        ..options()
    });
    fake.gate.open();
    let mut slow = Client::new(&server);
    let bytes = (1 << 20) - 100_000;
    let mut frames = BytesMut::new();
    for stream in 0..60 {
        let text = format!("scan {bytes}");
        frames.extend_from_slice(&encoded(stream, &text, Compression::None));
    }
    // The server may close the connection before the client has sent everything.
    drop(slow.stream.write_all(&frames));
    let mut other = Client::new(&server);
    for stream in 0..50 {
        other.assert_served(stream);
    }
    // The connection is closed and its share of the memory is free again, so that scans of others
    // run.
    other.query(77, "scan 10");
    let (stream, _) = other.receive();
    assert_eq!(stream, 77);
    until_connections(&server, 1);
}

/// Regression: a panic on a thread that serves connections ended the connection of the statement.
#[test]
fn a_panic_is_an_error_of_its_request_only() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    // In a lane, in a write on the thread of the connection, in a read there, and in the analysis.
    for text in ["panic", "explode", "crash", "stumble"] {
        client.query(1, text);
        client.query(2, "which");
        let [failed, next] = client.in_order().map(|answer| answer.response);
        assert!(
            matches!(&failed, Response::Error(error) if error.kind == ErrorKind::Server),
            "{text}: {failed:?}"
        );
        assert_eq!(next, Response::Void, "{text}");
    }
}

#[test]
fn schema_changes_are_sent_to_registered_clients() {
    let (fake, server) = server(options());
    let (mut hears, mut deaf, mut alters) = (
        Client::new(&server),
        Client::new(&server),
        Client::new(&server),
    );
    hears.register();
    alters.query(1, "alter app");
    alters.receive();
    let (stream, answer) = hears.receive();
    assert_eq!(stream, -1);
    assert!(
        matches!(&answer.response, Response::Event(change) if change.keyspace == "app"),
        "{answer:?}"
    );
    // Changes that no statement causes are sent, too.
    let made = SchemaChange {
        kind: SchemaChangeKind::Created,
        keyspace: "app".into(),
        target: SchemaTarget::Table("t".into()),
    };
    fake.notify.lock().unwrap().as_ref().unwrap()(made.clone());
    assert_eq!(hears.response(), Response::Event(made));
    deaf.assert_served(3);
}

/// Regression: a statement that changed the schema and then failed caused no event, and drivers
/// kept the earlier schema.
#[test]
fn a_statement_that_fails_after_a_schema_change_causes_its_event() {
    let (_, server) = server(options());
    let (mut registered, mut client) = (Client::new(&server), Client::new(&server));
    registered.register();
    let outdated = prepared(&mut client, "put outdated");
    for keyspace in ["failing", "panicking"] {
        client.query(1, &format!("alter {keyspace}"));
        assert_eq!(client.error().kind, ErrorKind::Server, "{keyspace}");
        let (_, answer) = registered.receive();
        assert!(
            matches!(&answer.response, Response::Event(change) if change.keyspace == keyspace),
            "{answer:?}"
        );
    }
    assert!(!is_prepared(&mut client, &outdated));
}

/// Regression: a large request waited for a thread that the runtime starts on demand. If the system
/// refused the thread, the connection ended without a response.
#[test]
fn a_large_request_runs_on_a_thread_that_exists_from_the_start() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    for (padding_bytes, thread) in [(0, "cql"), (LARGE_BYTES, "cql-large")] {
        client.query(1, &format!("thread {}", " ".repeat(padding_bytes)));
        let keyspace = thread.to_owned();
        assert_eq!(client.response(), Response::SetKeyspace { keyspace });
    }
}

#[test]
fn draining_answers_running_requests_and_accepts_no_more() {
    let (fake, server) = serving(synced(), options());
    let mut client = Client::new(&server);
    client.query(1, "put");
    client.assert_served(2);
    let address = server.address();
    let begun = Arc::new(Barrier::new(2));
    let draining = std::thread::spawn({
        let begun = begun.clone();
        move || {
            begun.wait();
            server.drain(HANG)
        }
    });
    begun.wait();
    wait::until("the server to accept no more connections", || {
        let Ok(stream) = TcpStream::connect(address) else {
            return true;
        };
        // The kernel accepts connections that the server never serves. Those end without a byte.
        let pause = Some(Duration::from_millis(20));
        stream.set_read_timeout(pause).unwrap();
        matches!((&stream).read(&mut [0]), Ok(0))
    });
    fake.sync_gate.open();
    let (stream, answer) = client.receive();
    assert_eq!((stream, answer.response), (1, Response::Void));
    assert!(client.try_receive().is_none());
    assert!(draining.join().unwrap());
}

#[test]
fn one_connection_too_many_is_closed() {
    let (_, server) = server(ServeOptions {
        connections_max: 2,
        ..options()
    });
    let clients = (Client::new(&server), Client::new(&server));
    assert!(Client::raw(&server).try_receive().is_none());
    drop(clients);
    until_connections(&server, 0);
    Client::new(&server);
}

#[test]
fn invalid_bytes_cause_an_error_or_end_the_connection() {
    let test = "invalid_bytes_cause_an_error_or_end_the_connection";
    for_seeds(test, 1, |seed| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (_, server) = server(options());
        let mut whole = BytesMut::new();
        let options = vec![("CQL_VERSION", "3.4.6")];
        Request::Startup(Startup { options }).encode(&mut whole, 0, Compression::None);
        for stream in 0..4 {
            whole.extend_from_slice(&encoded(stream, "put something", Compression::None));
        }
        for _ in 0..300 {
            let mut bytes = whole.to_vec();
            for _ in 0..random.random_range(1..6) {
                let at = random.random_range(0..bytes.len());
                match random.random_range(0..3) {
                    0 => bytes[at] = random.random(),
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, random.next_u32() as u8),
                }
            }
            let client = Client::raw(&server);
            // The server may have closed the connection already.
            drop((&client.stream).write_all(&bytes));
        }
        let mut client = Client::new(&server);
        client.assert_served(1);
    });
}
