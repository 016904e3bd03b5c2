//! One client's session: what its requests mean.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::BytesMut;
use ebb_cql::protocol::{
    self, Batch, Compression, ErrorKind, ErrorResponse, Event, EventTypes, Frame, Head, Opcode,
    ProtocolError, QueryParameters, Request, Response, Startup, StatementRef, Values,
};

use memchr::memmem;

use super::listener::Shared;
use super::statements::Entry;
use super::turns::Wanted;
use super::work::{Work, respond, trace, without_password};
use crate::access::{AUTHENTICATOR, User};
use crate::activity::{Client, Encryption, Trace};
use crate::call::{
    Call, Interrupt, Lane, Outcome, Service, Statement, batch_write_type, takes_turns,
};

/// What became of a request.
pub(super) enum Handled<S: Service> {
    /// Its response was appended.
    Answered {
        /// It was one that ran at once, whose latency says how the server is.
        is_point: bool,
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

/// The state of a connection, as its requests change it.
pub(super) struct Session<S: Service> {
    shared: Arc<Shared<S>>,
    keyspace: Option<Arc<str>>,
    has_started: bool,
    /// Who asks.
    user: Arc<User>,
    /// A password is verified elsewhere.
    is_verifying: bool,
    pub compression: Compression,
    pub events: EventTypes,
    /// Set when the client is gone.
    pub is_cancelled: Arc<AtomicBool>,
    client: Arc<Client>,
    client_number: u64,
    /// Of the request at hand.
    trace: Option<Trace>,
}

impl<S: Service> Drop for Session<S> {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.shared.options.activity.leave(self.client_number);
    }
}

impl<S: Service> Session<S> {
    pub(super) fn new(peer: SocketAddr, shared: Arc<Shared<S>>) -> Self {
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
            is_verifying: false,
            compression: Compression::None,
            events: EventTypes::default(),
            is_cancelled: Arc::default(),
            client,
            client_number,
            trace: None,
        }
    }

    /// Whether the client has done what it must before it may ask for anything.
    pub(super) fn has_started(&self) -> bool {
        self.has_started
    }

    /// Whether a request may be refused where there are too many. Those that a connection needs
    /// to live may not, nor those of who asked for events: drivers control by it what they do.
    pub(super) fn may_refuse(&self, frame: &Frame) -> bool {
        let events = &self.events;
        let controls = events.schema || events.status || events.topology;
        if controls || !self.has_started {
            return false;
        }
        match Opcode::from_code(frame.opcode) {
            Ok(Opcode::Execute | Opcode::Batch) => true,
            // Questions about the server itself say how it is.
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

    /// Whether it may send any request.
    pub(super) fn is_logged_in(&self) -> bool {
        !self.user.is_nobody()
    }

    /// A password was verified, that of `user`, or was wrong.
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
        let begun = self.begin_trace(now, &frame);
        let handled = match begun.and_then(|()| self.try_handle(&frame, now, out)) {
            Ok(Some(Elsewhere {
                lane,
                statements,
                turns,
            })) => {
                let interrupt = self.interrupt(now);
                let work = Work {
                    shared: self.shared.clone(),
                    keyspace: self.keyspace.clone(),
                    compression: self.compression,
                    statements,
                    turns,
                    frame,
                    interrupt,
                    received_at: now,
                    trace: self.trace.take(),
                    user: self.user.clone(),
                };
                Handled::Elsewhere(lane, Box::new(work))
            }
            Ok(None) => Handled::Answered {
                is_point: matches!(
                    Opcode::from_code(frame.opcode),
                    Ok(Opcode::Query | Opcode::Execute | Opcode::Batch)
                ),
            },
            Err(error) => {
                if let Some(trace) = &mut self.trace {
                    trace.note(without_password(&error.message));
                }
                self.answer(frame.stream, &Response::Error(error), out);
                Handled::Answered { is_point: false }
            }
        };
        if let Some(mut trace) = self.trace.take() {
            trace.note("Request complete");
            trace.end();
        }
        handled
    }

    pub(super) fn answer(&self, stream: i16, response: &Response, out: &mut BytesMut) {
        let head = Head {
            tracing_id: self.trace.as_ref().map(Trace::id),
            warnings: &[],
        };
        response.encode(out, stream, &head, self.compression);
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
            Request::AuthResponse { token } => return self.log_in(token, stream, out),
            Request::Prepare { text } => self.prepare(text, stream, out)?,
            Request::Query { text, parameters } => {
                let keyspace = self.keyspace.as_deref();
                let statement = match self.shared.statements.find(keyspace, text) {
                    Some((_, entry)) => entry.statement.clone(),
                    None => Arc::new(self.shared.service.prepare(keyspace, text)?),
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
        self.has_started = true;
        let (name, version) = ("DRIVER_NAME", "DRIVER_VERSION");
        (self.client).note_driver(startup.option(name), startup.option(version));
        match self.is_logged_in() {
            true => self.answer(stream, &Response::Ready, out),
            false => {
                let authenticator = AUTHENTICATOR.to_owned();
                self.answer(stream, &Response::Authenticate { authenticator }, out);
            }
        }
        self.compression = compression;
        Ok(())
    }

    /// What may come when, in Cassandra's words.
    fn check_order(&self, request: &Request<'_>) -> Result<(), ErrorResponse> {
        let before_login = matches!(
            request,
            Request::Startup(_) | Request::Options | Request::AuthResponse { .. }
        );
        if !self.has_started || self.is_logged_in() || before_login {
            return Ok(());
        }
        let name = request.opcode().name();
        let message = format!("Unexpected message {name}, expecting SASL_RESPONSE");
        Err(error(ErrorKind::Protocol, message))
    }

    /// A step of the authentication: there is one.
    fn log_in(
        &mut self,
        token: Option<&[u8]>,
        stream: i16,
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

    fn prepare(&self, text: &str, stream: i16, out: &mut BytesMut) -> Result<(), ErrorResponse> {
        let keyspace = self.keyspace.as_deref();
        // Always anew: the schema may be another than when the text was last prepared.
        let statement = self.shared.service.prepare(keyspace, text)?;
        let (id, entry) = self.shared.statements.insert(keyspace, text, statement);
        let (markers, partition_key_markers) = entry.statement.markers();
        let prepared = protocol::Prepared {
            id: id.to_vec().into(),
            markers: markers.clone(),
            partition_key_markers: partition_key_markers.to_vec(),
            columns: entry.statement.columns().cloned(),
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
            Lane::Scan | Lane::Range | Lane::Schema | Lane::Login => false,
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
        let keyspace = self.keyspace.clone();
        let user = self.user.clone();
        let call = Call {
            keyspace: keyspace.as_deref(),
            parameters,
            interrupt: &interrupt,
            user: &user,
        };
        let execute = |out: &mut BytesMut| match lane {
            Lane::Write => {
                (shared.commits.pace).run(|| shared.service.execute(&statement, &call, out))
            }
            _ => shared.service.execute(&statement, &call, out),
        };
        let tracing_id = self.trace.as_ref().map(Trace::id);
        let outcome = respond(frame, self.compression, tracing_id, out, execute)?;
        drop(held);
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
        let keyspace = keyspace.as_deref();
        let mut statements = Vec::with_capacity(batch.statements.len());
        for part in &batch.statements {
            let statement = match part.statement {
                StatementRef::Prepared(id) => self.prepared(id)?.statement.clone(),
                StatementRef::Text(text) => match self.shared.statements.find(keyspace, text) {
                    Some((_, entry)) => entry.statement.clone(),
                    None => Arc::new(self.shared.service.prepare(keyspace, text)?),
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
        let user = self.user.clone();
        let call = Call {
            keyspace,
            parameters: batch_parameters(batch),
            interrupt: &interrupt,
            user: &user,
        };
        let tracing_id = self.trace.as_ref().map(Trace::id);
        let outcome = respond(frame, self.compression, tracing_id, out, |out| {
            let write = || shared.service.batch(batch.kind, &statements, &call, out);
            shared.commits.pace.run(write)
        })?;
        drop(held);
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

/// What a batch is executed with: the values are with its statements.
pub(super) fn batch_parameters(batch: &Batch<'_>) -> QueryParameters<'static> {
    QueryParameters {
        consistency: batch.consistency,
        values: Values::default(),
        skip_metadata: false,
        page_size_rows: None,
        paging_state: None,
        serial_consistency: batch.serial_consistency,
        timestamp_us: batch.timestamp_us,
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
            option("PROTOCOL_VERSIONS", &["4/v4"]),
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
