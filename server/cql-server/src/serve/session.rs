//! One client's session: what its requests mean.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::BytesMut;
use ebb_cql::protocol::{
    self, Batch, Coding, Columns, Compression, Consistency, ErrorKind, ErrorResponse, Event,
    EventTypes, Frame, Head, Opcode, ProtocolError, QueryParameters, Request, Response, Segments,
    Startup, StatementRef, Version,
};

use memchr::memmem;

use super::listener::Shared;
use super::requests::RequestMemory;
use super::slow::{Sender, Spent, Unsent};
use super::statements::Entry;
use super::turns::Wanted;
use super::work::{SHARED_THREAD_CPU_MAX, Work, respond, trace, without_password};
use crate::access::{AUTHENTICATOR, User};
use crate::activity::{Client, Encryption, Trace};
use crate::call::{
    Call, Interrupt, Lane, Outcome, Service, Statement, TimeOut, batch_write_type, takes_turns,
};
use crate::interrupt;

/// The error message for logins from an address that has tried too many wrong passwords.
pub(super) const TOO_MANY_FAILURES: &str =
    "Too many failed logins from this address; try again later";

/// What became of a request.
pub(super) enum Handled<S: Service> {
    /// Its response was appended.
    Answered {
        /// It was one that ran at once, whose latency says how the server is.
        is_point: bool,
        /// The report of a slow request.
        slow: Option<Box<Unsent>>,
    },
    /// It is to run elsewhere.
    Elsewhere(Lane, Box<Work<S>>),
}

/// Where a request is to run, and what it executes.
struct Elsewhere<S: Service> {
    lane: Lane,
    statements: Vec<Arc<S::Statement>>,
    /// What it has to wait for.
    turns: Option<Wanted>,
}

impl<S: Service> Elsewhere<S> {
    /// Statements that compute for too long on a thread that serves connections.
    fn moved(statements: Vec<Arc<S::Statement>>) -> Self {
        Self {
            lane: Lane::Moved,
            statements,
            turns: None,
        }
    }
}

/// The state of a connection, as its requests change it.
pub(super) struct Session<S: Service> {
    shared: Arc<Shared<S>>,
    keyspace: Option<Arc<str>>,
    has_started: bool,
    /// Who asks.
    user: Arc<User>,
    /// The identity in the client's certificate, until the client has logged in with it.
    identity: Option<String>,
    /// A password is verified elsewhere.
    is_verifying: bool,
    pub coding: Coding,
    /// The segments that carry frames behind the response to STARTUP, since version 5.
    pub segments: Option<Segments>,
    pub events: EventTypes,
    /// Set when the client is gone.
    pub is_cancelled: Arc<AtomicBool>,
    client: Arc<Client>,
    client_number: u64,
    /// The trace of the current request.
    trace: Option<Trace>,
    spent: Spent,
}

impl<S: Service> Drop for Session<S> {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.shared.options.activity.leave(self.client_number);
    }
}

impl<S: Service> Session<S> {
    /// Begins the session of a client at `peer`, with the identity in its certificate, if it showed
    /// one.
    pub(super) fn new(peer: SocketAddr, identity: Option<String>, shared: Arc<Shared<S>>) -> Self {
        let (client_number, client) = shared.options.activity.enter(peer);
        let user = match shared.service.login() {
            None => User::anyone(),
            Some(_) => User::nobody(),
        };
        Self {
            shared,
            keyspace: None,
            has_started: false,
            user: Arc::new(user),
            identity,
            is_verifying: false,
            coding: Coding::default(),
            segments: None,
            events: EventTypes::default(),
            is_cancelled: Arc::default(),
            client,
            client_number,
            trace: None,
            spent: Spent::default(),
        }
    }

    /// Whether the client has done what it must before it may ask for anything.
    pub(super) fn has_started(&self) -> bool {
        self.has_started
    }

    /// Returns whether overload control may reject this request. Handshake requests and all
    /// requests on a driver's control connection (the one registered for events) are exempt:
    /// rejecting them makes the driver drop the node.
    pub(super) fn may_refuse(&self, frame: &Frame) -> bool {
        let events = &self.events;
        let controls = events.schema || events.status || events.topology;
        if controls || !self.has_started {
            return false;
        }
        match Opcode::from_code(frame.opcode) {
            Ok(Opcode::Execute | Opcode::Batch) => true,
            // Reads of system tables are exempt: they show drivers and operators how the server is.
            Ok(Opcode::Query) => memmem::find(&frame.body, b"system").is_none(),
            _ => false,
        }
    }

    pub(super) fn note_encryption(&self, encryption: Encryption) {
        self.client.note_encryption(encryption);
    }

    /// The keyspace that is in use from now on.
    pub(super) fn use_keyspace(&mut self, keyspace: String) {
        let keyspace: Arc<str> = keyspace.into();
        self.client.note_keyspace(keyspace.clone());
        self.keyspace = Some(keyspace);
    }

    /// Returns whether the client has logged in, or need not: then it may send any request.
    pub(super) fn is_logged_in(&self) -> bool {
        !self.user.is_nobody()
    }

    /// Ends the verification of a password: that of `user`, or a wrong one.
    pub(super) fn end_login(&mut self, user: Option<Arc<User>>) {
        self.is_verifying = false;
        if let Some(user) = user {
            self.take_user(user);
        }
    }

    fn take_user(&mut self, user: Arc<User>) {
        if let Some(name) = user.name() {
            self.client.note_user(name);
        }
        self.user = user;
    }

    /// Does what a request asks, or says where it is to be done.
    pub(super) fn handle(&mut self, frame: Frame, now: Instant, out: &mut BytesMut) -> Handled<S> {
        self.client.note_request();
        self.spent = Spent::default();
        let begun_at = Instant::now();
        if !self.has_started {
            self.coding.version = frame.version;
        }
        let begun = self.begin_trace(now, &frame);
        let handled = match begun.and_then(|()| self.try_handle(&frame, now, out)) {
            Ok(Some(Elsewhere {
                lane,
                statements,
                turns,
            })) => {
                let interrupt = self.interrupt(now);
                let may_refuse = self.may_refuse(&frame);
                let work = Work {
                    shared: self.shared.clone(),
                    keyspace: self.keyspace.clone(),
                    coding: self.coding,
                    statements,
                    turns,
                    frame,
                    memory: RequestMemory::default(),
                    interrupt,
                    received_at: now,
                    may_refuse,
                    address: self.client.address,
                    trace: self.trace.take(),
                    user: self.user.clone(),
                    spent: self.spent,
                };
                Handled::Elsewhere(lane, Box::new(work))
            }
            Ok(None) => Handled::Answered {
                is_point: matches!(
                    Opcode::from_code(frame.opcode),
                    Ok(Opcode::Query | Opcode::Execute | Opcode::Batch)
                ),
                slow: self.slow(&frame, now, begun_at),
            },
            Err(error) => {
                if let Some(trace) = &mut self.trace {
                    trace.note(without_password(&error.message));
                }
                self.answer(frame.stream, &Response::Error(error), out);
                Handled::Answered {
                    is_point: false,
                    slow: self.slow(&frame, now, begun_at),
                }
            }
        };
        if let Some(mut trace) = self.trace.take() {
            trace.note("Request complete");
            trace.end();
        }
        handled
    }

    /// Returns the report of the current request, whose response is ready, if it was slow.
    fn slow(&self, frame: &Frame, received_at: Instant, begun_at: Instant) -> Option<Box<Unsent>> {
        self.shared.options.slow.as_ref()?;
        let spent = Spent {
            executed: begun_at.elapsed().saturating_sub(self.spent.prepared),
            ..self.spent
        };
        let sender = Sender {
            address: self.client.address,
            user: &self.user,
            keyspace: self.keyspace.as_deref(),
        };
        Unsent::of(&self.shared, &sender, frame, received_at, spent)
    }

    pub(super) fn answer(&self, stream: i16, response: &Response, out: &mut BytesMut) {
        let head = Head {
            tracing_id: self.trace.as_ref().map(Trace::id),
            warnings: &[],
        };
        response.encode(out, stream, &head, self.coding);
    }

    /// Appends the response, or gives what is to be executed elsewhere.
    fn try_handle(
        &mut self,
        frame: &Frame,
        now: Instant,
        out: &mut BytesMut,
    ) -> Result<Option<Elsewhere<S>>, ErrorResponse> {
        let request = Request::decode(frame).map_err(in_protocol)?;
        self.check_order(&request)?;
        if !self.has_started && !matches!(request, Request::Startup(_) | Request::Options) {
            let message = "the first message of a connection is STARTUP or OPTIONS";
            return Err(error(ErrorKind::Protocol, message));
        }
        let stream = frame.stream;
        match request {
            Request::Startup(startup) => self.start(&startup, stream, out)?,
            Request::Options => self.answer(stream, &supported(), out),
            Request::Register(events) => {
                self.events.topology |= events.topology;
                self.events.status |= events.status;
                self.events.schema |= events.schema;
                self.answer(stream, &Response::Ready, out);
            }
            Request::AuthResponse { token } => return self.log_in(token, stream, now, out),
            Request::Prepare { text, keyspace } => {
                self.prepare(text, keyspace, stream, now, out)?;
            }
            Request::Query { text, parameters } => {
                let keyspace = parameters.keyspace.or(self.keyspace.as_deref());
                let statement = match self.shared.statements.find(keyspace, text) {
                    Some((_, entry)) => entry.statement.clone(),
                    None => {
                        let time_out = TimeOut::Read(parameters.consistency);
                        let limit = (&self.interrupt(now), time_out);
                        let spent = &mut self.spent;
                        Arc::new(understood(&self.shared, keyspace, text, limit, spent)?)
                    }
                };
                return self.run(statement, parameters, frame, now, out);
            }
            Request::Execute { id, parameters } => {
                let statement = self.prepared(id)?.statement.clone();
                return self.run(statement, parameters, frame, now, out);
            }
            Request::Batch(batch) => return self.batch(&batch, frame, now, out),
        }
        Ok(None)
    }

    fn start(
        &mut self,
        startup: &Startup<'_>,
        stream: i16,
        out: &mut BytesMut,
    ) -> Result<(), ErrorResponse> {
        let compression = match startup.compression() {
            None | Some("") => Compression::None,
            Some(name) => Compression::from_name(name).ok_or_else(|| {
                let message = format!("Unknown compression algorithm: {name}; there is lz4");
                error(ErrorKind::Protocol, message)
            })?,
        };
        self.log_in_by_certificate()?;
        self.has_started = true;
        let (name, version) = ("DRIVER_NAME", "DRIVER_VERSION");
        (self.client).note_driver(startup.option(name), startup.option(version));
        self.client.note_version(self.coding.version);
        if self.is_logged_in() {
            self.answer(stream, &Response::Ready, out);
        } else {
            let authenticator = AUTHENTICATOR.to_owned();
            self.answer(stream, &Response::Authenticate { authenticator }, out);
        }
        match self.coding.version {
            Version::V4 => self.coding.compression = compression,
            Version::V5 => self.segments = Some(Segments::new(compression)),
        }
        Ok(())
    }

    /// Logs in a client whose certificate has the identity of a role. All others need a password.
    fn log_in_by_certificate(&mut self) -> Result<(), ErrorResponse> {
        let (None, Some(login), Some(identity)) = (
            self.user.name(),
            self.shared.service.login(),
            &self.identity,
        ) else {
            return Ok(());
        };
        if let Some(user) = login.recognize(identity)? {
            self.take_user(user);
            self.identity = None;
        }
        Ok(())
    }

    /// Checks that a request may come in this state of the connection.
    ///
    /// # Errors
    /// In Cassandra's words, if it may not.
    fn check_order(&self, request: &Request<'_>) -> Result<(), ErrorResponse> {
        let is_startup = matches!(request, Request::Startup(_));
        let before_login = matches!(request, Request::Options | Request::AuthResponse { .. });
        let message = match (self.has_started, self.is_logged_in()) {
            // A second STARTUP must not change the compression: segments depend on it.
            (true, true) if is_startup => {
                "Unexpected message STARTUP, the connection is already initialized".to_owned()
            }
            (true, false) if !before_login => {
                let name = request.opcode().name();
                format!("Unexpected message {name}, expecting SASL_RESPONSE")
            }
            _ => return Ok(()),
        };
        Err(error(ErrorKind::Protocol, message))
    }

    /// A step of the authentication: there is one.
    fn log_in(
        &mut self,
        token: Option<&[u8]>,
        stream: i16,
        now: Instant,
        out: &mut BytesMut,
    ) -> Result<Option<Elsewhere<S>>, ErrorResponse> {
        let shared = self.shared.clone();
        let login = match shared.service.login() {
            Some(login) if !self.is_logged_in() && !self.is_verifying => login,
            _ => {
                let message = "nobody asked for AUTH_RESPONSE: the server wants no credentials";
                return Err(error(ErrorKind::Protocol, message));
            }
        };
        let address = self.client.address.ip();
        if !shared.failed_logins.may_try(address, now) {
            return Err(error(ErrorKind::BadCredentials, TOO_MANY_FAILURES));
        }
        if let Some(user) = login.recall(token)? {
            self.take_user(user);
            self.answer(stream, &Response::AuthSuccess { token: None }, out);
            return Ok(None);
        }
        self.is_verifying = true;
        Ok(Some(Elsewhere {
            lane: Lane::Login,
            statements: Vec::new(),
            turns: None,
        }))
    }

    /// Begins the trace of a request that wants one.
    ///
    /// # Errors
    /// Where the user may not trace.
    fn begin_trace(&mut self, now: Instant, frame: &Frame) -> Result<(), ErrorResponse> {
        // Before the login nothing is traced, and nothing is done.
        if frame.is_traced() && self.is_logged_in() {
            self.shared.service.check_trace(&self.user)?;
            self.trace = trace(&self.shared, self.client.address, now, frame);
        }
        Ok(())
    }

    fn prepare(
        &mut self,
        text: &str,
        keyspace: Option<&str>,
        stream: i16,
        now: Instant,
        out: &mut BytesMut,
    ) -> Result<(), ErrorResponse> {
        let keyspace = keyspace.or(self.keyspace.as_deref());
        let limit = (&self.interrupt(now), TimeOut::Read(Consistency::One));
        // Always anew: the schema may be another than when the text was last prepared.
        let statement = understood(&self.shared, keyspace, text, limit, &mut self.spent)?;
        let (id, entry) = self.shared.statements.insert(keyspace, text, statement);
        let (markers, partition_key_markers) = entry.statement.markers();
        let columns = entry.statement.columns();
        let none = Columns::default();
        let prepared = protocol::Prepared {
            id: id.to_vec().into(),
            result_metadata_id: columns.unwrap_or(&none).id().to_vec().into(),
            markers: markers.clone(),
            partition_key_markers: partition_key_markers.to_vec(),
            columns: columns.cloned(),
        };
        self.answer(stream, &Response::Prepared(prepared), out);
        Ok(())
    }

    fn prepared(&self, id: &[u8]) -> Result<Arc<Entry<S::Statement>>, ErrorResponse> {
        self.shared.statements.get(id).ok_or_else(|| {
            let message = "the statement is not prepared here: prepare it, then execute it again";
            error(ErrorKind::Unprepared { id: id.to_vec() }, message)
        })
    }

    fn run(
        &mut self,
        statement: Arc<S::Statement>,
        parameters: QueryParameters<'_>,
        frame: &Frame,
        now: Instant,
        out: &mut BytesMut,
    ) -> Result<Option<Elsewhere<S>>, ErrorResponse> {
        let lane = match statement.lane() {
            // It must not show what a crash may take back: it is answered after a sync, too.
            Lane::Inline if self.shared.is_synced(parameters.consistency) => Lane::Write,
            lane => lane,
        };
        let is_inline = match lane {
            Lane::Inline => true,
            Lane::Write => !self.writes_wait(now),
            Lane::Scan | Lane::Range | Lane::Moved | Lane::Schema | Lane::Login => false,
        };
        let elsewhere = |statement, turns| {
            Ok(Some(Elsewhere {
                lane,
                statements: vec![statement],
                turns,
            }))
        };
        if !is_inline {
            return elsewhere(statement, None);
        }
        let shared = self.shared.clone();
        let turns = match takes_turns(statement.write_type()) {
            true => {
                let one = [(statement.clone(), parameters.values)];
                Wanted::of(&shared.service.turns(&one)?)
            }
            false => None,
        };
        let held = turns.as_ref().map(|turns| shared.turns.try_take(turns));
        if matches!(held, Some(None)) {
            return elsewhere(statement, turns);
        }
        self.note("Executing on the thread of the connection");
        let interrupt = self.interrupt(now);
        let brief = interrupt.capped(Instant::now(), SHARED_THREAD_CPU_MAX);
        let keyspace = self.keyspace.clone();
        let user = self.user.clone();
        let call = Call {
            keyspace: parameters.keyspace.or(keyspace.as_deref()),
            version: self.coding.version,
            parameters,
            interrupt: &brief,
            user: &user,
        };
        let execute = |out: &mut BytesMut| match lane {
            Lane::Write => {
                (shared.commits.pace).run(|| shared.service.execute(&statement, &call, out))
            }
            _ => shared.service.execute(&statement, &call, out),
        };
        let tracing_id = self.trace.as_ref().map(Trace::id);
        let ended = respond(frame, self.coding, tracing_id, out, execute);
        drop(held);
        if interrupt.may_go_on(&ended) {
            return Ok(Some(Elsewhere::moved(vec![statement])));
        }
        let outcome = ended?;
        if outcome.is_in_conflict {
            return elsewhere(statement, turns);
        }
        self.take(outcome);
        Ok(None)
    }

    fn batch(
        &mut self,
        batch: &Batch<'_>,
        frame: &Frame,
        now: Instant,
        out: &mut BytesMut,
    ) -> Result<Option<Elsewhere<S>>, ErrorResponse> {
        let keyspace = self.keyspace.clone();
        let keyspace = batch.keyspace.or(keyspace.as_deref());
        let mut statements = Vec::with_capacity(batch.statements.len());
        for part in &batch.statements {
            let statement = match part.statement {
                StatementRef::Prepared(id) => self.prepared(id)?.statement.clone(),
                StatementRef::Text(text) => match self.shared.statements.find(keyspace, text) {
                    Some((_, entry)) => entry.statement.clone(),
                    None => {
                        let time_out = TimeOut::Read(batch.consistency);
                        let limit = (&self.interrupt(now), time_out);
                        let spent = &mut self.spent;
                        Arc::new(understood(&self.shared, keyspace, text, limit, spent)?)
                    }
                },
            };
            statements.push((statement, part.values));
        }
        let elsewhere = |statements: Vec<(_, _)>, turns| {
            Ok(Some(Elsewhere {
                lane: Lane::Write,
                statements: statements.into_iter().map(|(one, _)| one).collect(),
                turns,
            }))
        };
        if self.writes_wait(now) {
            return elsewhere(statements, None);
        }
        let shared = self.shared.clone();
        let turns = match takes_turns(batch_write_type(batch.kind, &statements)) {
            true => Wanted::of(&shared.service.turns(&statements)?),
            false => None,
        };
        let held = turns.as_ref().map(|turns| shared.turns.try_take(turns));
        if matches!(held, Some(None)) {
            return elsewhere(statements, turns);
        }
        self.note("Executing on the thread of the connection");
        let interrupt = self.interrupt(now);
        let brief = interrupt.capped(Instant::now(), SHARED_THREAD_CPU_MAX);
        let user = self.user.clone();
        let call = Call {
            keyspace,
            version: self.coding.version,
            parameters: batch_parameters(batch),
            interrupt: &brief,
            user: &user,
        };
        let tracing_id = self.trace.as_ref().map(Trace::id);
        let ended = respond(frame, self.coding, tracing_id, out, |out| {
            let write = || shared.service.batch(batch.kind, &statements, &call, out);
            shared.commits.pace.run(write)
        });
        drop(held);
        if interrupt.may_go_on(&ended) {
            let statements = statements.into_iter().map(|(one, _)| one).collect();
            return Ok(Some(Elsewhere::moved(statements)));
        }
        let outcome = ended?;
        if outcome.is_in_conflict {
            return elsewhere(statements, turns);
        }
        self.take(outcome);
        Ok(None)
    }

    /// Whether a write would keep this thread for longer than others may wait.
    fn writes_wait(&self, now: Instant) -> bool {
        self.shared.writes_wait(now)
    }

    fn note(&mut self, activity: &str) {
        if let Some(trace) = &mut self.trace {
            trace.note(activity);
        }
    }

    fn take(&mut self, outcome: Outcome) {
        if let Some(keyspace) = outcome.keyspace {
            self.use_keyspace(keyspace);
        }
        for change in outcome.changes {
            self.shared.publish(Event::Schema(change));
        }
    }

    fn interrupt(&self, now: Instant) -> Interrupt {
        Interrupt::new(
            now,
            self.shared.request_timeout(),
            self.is_cancelled.clone(),
        )
    }
}

/// A statement that is parsed and planned now, which takes its time: constants are computed, and JSON
/// is read. The time-out of a read is the error of a request that nothing was done for.
fn understood<S: Service>(
    shared: &Shared<S>,
    keyspace: Option<&str>,
    text: &str,
    (interrupt, time_out): (&Interrupt, TimeOut),
    spent: &mut Spent,
) -> Result<S::Statement, ErrorResponse> {
    let begun = Instant::now();
    let prepare = || shared.service.prepare(keyspace, text);
    let statement = interrupt::scope(interrupt, time_out, prepare);
    spent.prepared += begun.elapsed();
    statement
}

/// What a batch is executed with: the values are with its statements.
pub(super) fn batch_parameters(batch: &Batch<'_>) -> QueryParameters<'static> {
    QueryParameters {
        consistency: batch.consistency,
        serial_consistency: batch.serial_consistency,
        timestamp_us: batch.timestamp_us,
        now_s: batch.now_s,
        ..QueryParameters::default()
    }
}

fn supported() -> Response {
    let option = |name: &str, values: &[&str]| {
        let values = values.iter().map(|&value| value.to_owned());
        (name.to_owned(), values.collect())
    };
    Response::Supported {
        options: vec![
            option("CQL_VERSION", &["3.4.5"]),
            option("COMPRESSION", &["lz4"]),
            option("PROTOCOL_VERSIONS", &["4/v4", "5/v5"]),
        ],
    }
}

pub(super) fn in_protocol(error: ProtocolError) -> ErrorResponse {
    self::error(ErrorKind::Protocol, error.to_string())
}

pub(super) fn error(kind: ErrorKind, message: impl Into<String>) -> ErrorResponse {
    ErrorResponse {
        kind,
        message: message.into(),
    }
}
