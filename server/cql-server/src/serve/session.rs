//! The session of one client: turns its frames into work, and answers those without a statement.
//!
//! ```text
//! user        the user, and the logins that change it
//! analysis    the statements of requests
//! exemptions  the requests that overload control must not reject
//! ```

mod analysis;
mod exemptions;
mod user;

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::BytesMut;
use ebb_cql::protocol::{
    Coding, Consistency, ErrorResponse, EventTypes, Frame, Head, Opcode, Request, Response,
    Segments, Startup, StatementRef, Version, WriteType,
};

use self::analysis::check_value_count;
use super::lane_request::LaneRequest;
use super::login::LoginAttempt;
use super::outbox::Outbox;
use super::replies::{in_protocol, panicked, supported};
use super::requests::WaitingMemory;
use super::scan_queue::ScanUser;
use super::shared::Shared;
use super::slow::{Sender, Spent, Unsent};
use super::stages::ExecutionSpan;
use super::startup;
use super::traces::{self, without_password};
use super::work::{Inline, RequestStatements, Work};
use crate::access::{AUTHENTICATOR, User};
use crate::activity::{Client, Encryption, Trace};
use crate::call::{
    Interrupt, Lane, NOT_A_WRITE, RequestAnalysis, Service, Statement, StatementKind,
};
use crate::error::{Result, invalid};

pub(super) enum HandleResult<S: Service> {
    /// The response was appended to the connection's buffer.
    Answered {
        /// True for a statement that ran at once, on the thread of the connection: its latency
        /// shows how fast the server is at the moment.
        is_point: bool,
        ran: ExecutionSpan,
        /// The report of the request; `None` if it was not slow.
        slow: Option<Box<Unsent>>,
    },
    /// Nothing was appended; the request has to run on the threads of this lane.
    InLane(Lane, Box<LaneRequest<S>>),
    /// Nothing was appended. The analysis of the request takes too long for a thread on which other
    /// connections wait, so the frame has to be handled anew on another thread.
    TooLong(Frame),
}

/// The state of a client's connection, which requests of the client change.
pub(super) struct Session<S: Service> {
    shared: Arc<Shared<S>>,
    sender: Sender,
    has_started: bool,
    /// The identity in the client's certificate. `None` if the certificate has none, or if the
    /// client has logged in with it.
    identity: Option<String>,
    /// The last login whose password had to be verified on another thread. Gone once that login has
    /// ended.
    verifying: Weak<LoginAttempt>,
    pub coding: Coding,
    /// The segment format of all frames after the response to STARTUP, from version 5 of the
    /// protocol on; `None` for frames without segments.
    pub segments: Option<Segments>,
    pub events: EventTypes,
    /// Set to true when the client is gone.
    pub is_cancelled: Arc<AtomicBool>,
    client: Arc<Client>,
    client_number: u64,
    /// The trace of the request that is being handled; `None` if it is not traced.
    trace: Option<Trace>,
    /// The time that each step of the request that is being handled took so far.
    spent: Spent,
    /// True if other connections wait for the thread that handles the request.
    is_thread_shared: bool,
}

impl<S: Service> Drop for Session<S> {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.shared.options.activity.leave(self.client_number);
    }
}

impl<S: Service> Session<S> {
    /// Begins the session of a client at `peer`, with the identity in its certificate, if it has
    /// one.
    pub(super) fn new(peer: SocketAddr, identity: Option<String>, shared: Arc<Shared<S>>) -> Self {
        let (client_number, client) = shared.options.activity.enter(peer);
        let user = match shared.service.login() {
            None => User::anyone(),
            Some(_) => User::nobody(),
        };
        let sender = Sender {
            address: peer,
            user: Arc::new(user),
            keyspace: None,
        };
        Self {
            shared,
            sender,
            has_started: false,
            identity,
            verifying: Weak::new(),
            coding: Coding::default(),
            segments: None,
            events: EventTypes::default(),
            is_cancelled: Arc::default(),
            client,
            client_number,
            trace: None,
            spent: Spent::default(),
            is_thread_shared: true,
        }
    }

    /// Returns whether the client has sent STARTUP.
    pub(super) fn has_started(&self) -> bool {
        self.has_started
    }

    /// Returns whether the client has registered for events, as drivers do on their control
    /// connections.
    pub(super) fn has_registered(&self) -> bool {
        self.events.schema || self.events.status || self.events.topology
    }

    pub(super) fn note_encryption(&self, encryption: Encryption) {
        self.client.note_encryption(encryption);
    }

    /// Sets the keyspace in use.
    pub(super) fn use_keyspace(&mut self, keyspace: String) {
        let keyspace: Arc<str> = keyspace.into();
        self.client.note_keyspace(keyspace.clone());
        self.sender.keyspace = Some(keyspace);
    }

    /// Counts a request of the client.
    pub(super) fn note_request(&self) {
        self.client.note_request();
    }

    /// Executes a request that was received at `now` and appends the response, or returns the
    /// request if it has to run on other threads, those of a lane. `may_refuse` is true if overload
    /// control may reject the request. If `is_thread_shared` is true, because other connections
    /// wait for this thread, returns the frame once its analysis has taken too long.
    pub(super) fn handle(
        &mut self,
        frame: Frame,
        may_refuse: bool,
        is_thread_shared: bool,
        now: Instant,
        out: &mut Outbox,
    ) -> HandleResult<S> {
        self.spent = Spent::default();
        self.is_thread_shared = is_thread_shared;
        let begun_at = Instant::now();
        // Until STARTUP each frame may have another version, and gets its response in that one.
        if !self.has_started {
            self.coding.version = frame.version;
        }
        let ended = self.catch_handle(&frame, may_refuse, now, out);
        // An execution that takes too long moves to a lane, so this was an analysis.
        if is_thread_shared && self.interrupt(now).may_go_on(&ended) {
            // The frame is handled again from its start, with a trace of its own.
            self.trace = None;
            return HandleResult::TooLong(frame);
        }
        let is_point = match ended {
            Ok(Some((lane, work))) => {
                let memory = WaitingMemory::default();
                let request = LaneRequest {
                    work,
                    frame,
                    memory,
                    of_response: None,
                };
                return HandleResult::InLane(lane, Box::new(request));
            }
            Ok(None) => matches!(
                Opcode::from_code(frame.opcode),
                Ok(Opcode::Query | Opcode::Execute | Opcode::Batch)
            ),
            Err(error) => {
                if let Some(trace) = &mut self.trace {
                    trace.note(without_password(&error.message));
                }
                self.answer(frame.stream, &Response::Error(error), out.frames());
                false
            }
        };
        let ended_at = Instant::now();
        let ran = ExecutionSpan { begun_at, ended_at };
        let spent = Spent {
            executed: ran.took().saturating_sub(self.spent.prepared),
            ..self.spent
        };
        let slow = self.shared.slow(&self.sender, now, &frame, spent);
        if let Some(trace) = self.trace.take() {
            trace.end();
        }
        HandleResult::Answered {
            is_point,
            ran,
            slow,
        }
    }

    /// Begins the trace of a request, and handles it as [`try_handle`](Self::try_handle) does. A
    /// panic, for example in the analysis of a statement or in a read, is an error of this request
    /// only, as it is in a lane: its statements and whatever it appended are dropped, and the
    /// connection goes on.
    fn catch_handle(
        &mut self,
        frame: &Frame,
        may_refuse: bool,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Option<(Lane, Work<S>)>> {
        let start = out.frames().len();
        let handle = || {
            self.begin_trace(now, frame)?;
            self.try_handle(frame, may_refuse, now, out)
        };
        catch_unwind(AssertUnwindSafe(handle)).unwrap_or_else(|_| {
            out.truncate(start);
            Err(panicked())
        })
    }

    pub(super) fn answer(&self, stream: i16, response: &Response, out: &mut BytesMut) {
        if let Response::Error(error) = response {
            self.shared.note_error(&self.sender, error);
        }
        let head = Head {
            tracing_id: self.trace.as_ref().map(Trace::id),
            warnings: &[],
        };
        response.encode(out, stream, &head, self.coding);
    }

    /// Executes a request and appends the response, then returns `None`; or returns the request if
    /// it has to run on other threads, those of a lane. `may_refuse` is true if overload control
    /// may reject the request.
    fn try_handle(
        &mut self,
        frame: &Frame,
        may_refuse: bool,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Option<(Lane, Work<S>)>> {
        let request = Request::decode(frame).map_err(in_protocol)?;
        self.check_order(&request)?;
        if !self.has_started && !matches!(request, Request::Startup(_) | Request::Options) {
            let message = "the first message of a connection is STARTUP or OPTIONS";
            return Err(ErrorResponse::protocol(message));
        }
        let stream = frame.stream;
        let (statements, kind, consistency) = match &request {
            Request::Query { text, parameters } => {
                let consistency = parameters.consistency;
                let analysis = &mut RequestAnalysis::default();
                let entry =
                    self.statement(parameters.keyspace, text, consistency, now, analysis)?;
                let kind = entry.statement.kind();
                (RequestStatements::One(entry), kind, consistency)
            }
            Request::Execute { id, parameters } => {
                let consistency = parameters.consistency;
                let entry = self.prepared(id)?;
                check_value_count(&*entry.statement, &parameters.values, "there")?;
                let kind = entry.statement.kind();
                (RequestStatements::One(entry), kind, consistency)
            }
            Request::Batch(batch) => {
                let consistency = batch.consistency;
                let mut statements = Vec::with_capacity(batch.statements.len());
                let analysis = &mut RequestAnalysis::default();
                for part in &batch.statements {
                    let entry = match part.statement {
                        StatementRef::Prepared(id) => self.prepared(id)?,
                        StatementRef::Text(text) => {
                            self.statement(batch.keyspace, text, consistency, now, analysis)?
                        }
                    };
                    // Before the next text is analysed: a batch of thousands of SELECTs would take much
                    // memory, and each mention of a prepared BEGIN BATCH repeats the work of all its
                    // writes.
                    if !entry.statement.may_be_in_batch() {
                        return invalid(NOT_A_WRITE);
                    }
                    check_value_count(&*entry.statement, &part.values, "There")?;
                    statements.push(entry);
                }
                let kinds = statements.iter().map(|entry| entry.statement.kind());
                let kind = StatementKind::of_batch(batch.kind, kinds);
                (RequestStatements::Batch(statements), kind, consistency)
            }
            Request::AuthResponse { token } => {
                // Recently verified credentials are accepted at once. Others go to a lane, because
                // verifying a password takes tens of milliseconds of CPU time.
                let Some(attempt) = self.log_in(*token, now)? else {
                    self.answer(stream, &Response::AuthSuccess { token: None }, out.frames());
                    return Ok(None);
                };
                // Write type and consistency level are for timeouts, and a login ends with another error.
                let kind = StatementKind {
                    lane: Lane::Login,
                    write_type: WriteType::Simple,
                };
                (RequestStatements::Login(attempt), kind, Consistency::One)
            }
            Request::Startup(startup) => {
                self.start(startup, stream, out.frames())?;
                return Ok(None);
            }
            Request::Options => {
                self.answer(stream, &supported(), out.frames());
                return Ok(None);
            }
            Request::Register(events) => {
                // Each REGISTER adds event types.
                self.events.topology |= events.topology;
                self.events.status |= events.status;
                self.events.schema |= events.schema;
                self.answer(stream, &Response::Ready, out.frames());
                return Ok(None);
            }
            Request::Prepare { text, keyspace } => {
                self.prepare(text, *keyspace, stream, now, out)?;
                return Ok(None);
            }
        };
        let is_batch = matches!(statements, RequestStatements::Batch(_));
        // Begun before the execution, so that a panic does not keep the writes out of the audit log.
        let audit = &self.shared.options.audit_writes;
        let writes = audit.begin(&self.sender, statements.as_slice(), is_batch);
        let mut work = Work {
            shared: self.shared.clone(),
            sender: self.sender.clone(),
            coding: self.coding,
            statements,
            kind,
            consistency,
            turns: None,
            interrupt: self.interrupt(now),
            received_at: now,
            may_refuse,
            trace: self.trace.take(),
            spent: self.spent,
            writes,
        };
        let ended = work.run_inline(request, stream, now, out);
        // The trace and the audit entry go with the work: the lane completes both.
        if let Ok(Inline::Lane(lane)) = ended {
            return Ok(Some((lane, work)));
        }
        if let Some(writes) = work.writes {
            writes.end(&ended);
        }
        self.trace = work.trace;
        if let Inline::Answered(outcome) = ended?
            && let Some(keyspace) = outcome.keyspace
        {
            self.use_keyspace(keyspace);
        }
        Ok(None)
    }

    fn start(&mut self, startup: &Startup<'_>, stream: i16, out: &mut BytesMut) -> Result<()> {
        startup::check_version(startup)?;
        let compression = startup::compression(startup)?;
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

    /// Checks that the client may send this request now, before or after STARTUP and the login.
    fn check_order(&self, request: &Request<'_>) -> Result<()> {
        let is_startup = matches!(request, Request::Startup(_));
        let before_login = matches!(request, Request::Options | Request::AuthResponse { .. });
        let message = match (self.has_started, self.is_logged_in()) {
            // A second STARTUP must not change the compression, on which the segments depend.
            (true, true) if is_startup => {
                "Unexpected message STARTUP, the connection is already initialized".to_owned()
            }
            (true, false) if !before_login => {
                let name = request.opcode().name();
                format!("Unexpected message {name}, expecting SASL_RESPONSE")
            }
            _ => return Ok(()),
        };
        Err(ErrorResponse::protocol(message))
    }

    /// Begins a trace of the request, if the client requests one.
    fn begin_trace(&mut self, now: Instant, frame: &Frame) -> Result<()> {
        // Before the login no statement is executed, so nothing is traced.
        if frame.is_traced() && self.is_logged_in() {
            self.shared.service.check_trace(&self.sender.user)?;
            let (activity, statements) = (&self.shared.options.activity, &self.shared.statements);
            self.trace = traces::begin(activity, statements, self.sender.address, now, frame);
        }
        Ok(())
    }

    /// Returns the user and the interrupt of a request that was received at `now`, for the queue of
    /// large requests.
    pub(super) fn user_and_interrupt(&self, now: Instant) -> (ScanUser, Interrupt) {
        (self.sender.scan_user(), self.interrupt(now))
    }

    fn interrupt(&self, now: Instant) -> Interrupt {
        let timeout = self.shared.options.request_timeout;
        Interrupt::new(now, timeout, self.is_cancelled.clone())
    }
}
