//! The session of one client: turns its frames into work, and answers those without a statement.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::BytesMut;
use ebb_cql::protocol::{
    self, Coding, Columns, Consistency, ErrorResponse, EventTypes, Frame, Head, Opcode, Request,
    Response, Segments, Startup, StatementRef, Values, Version, WriteType,
};
use ebb_cql::syntax::first_word;

use memchr::memmem;

use super::events::ServerEvent;
use super::lane_request::LaneRequest;
use super::login::{EndedLogin, LoginAttempt, recall};
use super::outbox::Outbox;
use super::replies::{in_protocol, panicked, supported};
use super::requests::WaitingMemory;
use super::scan_queue::ScanUser;
use super::shared::Shared;
use super::slow::{Sender, Spent, Unsent};
use super::stages::ExecutionSpan;
use super::startup;
use super::statements::Entry;
use super::traces::{self, without_password};
use super::work::{Inline, RequestStatements, SHARED_THREAD_CPU_MAX, Work};
use crate::access::{AUTHENTICATOR, User};
use crate::activity::{Client, Encryption, Trace};
use crate::call::{
    Interrupt, Lane, NOT_A_WRITE, RequestAnalysis, Service, Statement, StatementKind, TimeOut,
};
use crate::error::{Result, invalid};
use crate::interrupt;

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

    /// Returns whether overload control may reject this request: only an EXECUTE, BATCH or QUERY.
    /// Exempt are a QUERY that contains the word `system` (a read of system tables, say), KILL
    /// QUERY, and all requests on a driver's control connection (the one registered for events):
    /// rejecting those makes the driver drop the node.
    pub(super) fn may_refuse(&self, frame: &Frame) -> bool {
        let events = &self.events;
        let controls = events.schema || events.status || events.topology;
        if controls || !self.has_started {
            return false;
        }
        match Opcode::from_code(frame.opcode) {
            Ok(Opcode::Execute | Opcode::Batch) => true,
            // Reads of system tables are exempt, because they show the state of the server to
            // drivers and operators. So is KILL QUERY, since the query that it ends may be the
            // cause of the overload.
            Ok(Opcode::Query) => {
                memmem::find(&frame.body, b"system").is_none() && !kills_query(frame)
            }
            _ => false,
        }
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

    /// Returns whether the client has logged in, or does not have to, and may send any request.
    pub(super) fn is_logged_in(&self) -> bool {
        !self.sender.user.is_nobody()
    }

    /// Completes a login after another thread has verified the password.
    pub(super) fn end_login(&mut self, ended: EndedLogin) {
        let EndedLogin { attempt, user } = ended;
        if let Some(user) = user {
            self.take_user(user);
        }
        // From now on the session accepts another attempt, if this one failed.
        drop(attempt);
    }

    fn take_user(&mut self, user: Arc<User>) {
        if let Some(name) = user.name() {
            self.client.note_user(name);
            let address = self.sender.address;
            let event = ServerEvent::LoggedIn {
                address,
                user: name,
            };
            self.shared.options.events.report(event);
        }
        self.sender.user = user;
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
        let slow = self.slow(&frame, now, ran);
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

    /// Returns a report of the request in `frame`, whose response is ready; `None` if the request
    /// was not slow.
    fn slow(&self, frame: &Frame, received_at: Instant, ran: ExecutionSpan) -> Option<Box<Unsent>> {
        self.shared.options.slow.as_ref()?;
        let spent = Spent {
            executed: ran.took().saturating_sub(self.spent.prepared),
            ..self.spent
        };
        self.shared.slow(&self.sender, received_at, frame, spent)
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

    /// Logs the client in if its certificate has the identity of a role. All other clients need a
    /// password.
    fn log_in_by_certificate(&mut self) -> Result<()> {
        let (None, Some(login), Some(identity)) = (
            self.sender.user.name(),
            self.shared.service.login(),
            &self.identity,
        ) else {
            return Ok(());
        };
        let user = (login.recognize(identity))
            .inspect_err(|error| self.shared.report_login(&self.sender, None, error))?;
        if let Some(user) = user {
            self.take_user(user);
            self.identity = None;
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

    /// Logs the client in with recently verified credentials. If they have to be verified, returns
    /// the attempt instead, and accepts no other login while the attempt exists.
    fn log_in(&mut self, token: Option<&[u8]>, now: Instant) -> Result<Option<Arc<LoginAttempt>>> {
        let is_verifying = self.verifying.strong_count() > 0;
        let login = match self.shared.service.login() {
            Some(login) if !self.is_logged_in() && !is_verifying => login,
            _ => {
                let message = "Unexpected message AUTH_RESPONSE, no login is expected";
                return Err(ErrorResponse::protocol(message));
            }
        };
        let address = self.sender.address.ip();
        let user = recall(login, &self.shared.failed_logins, address, token, now)
            .inspect_err(|error| self.shared.report_login(&self.sender, token, error))?;
        if let Some(user) = user {
            self.take_user(user);
            return Ok(None);
        }
        let attempt = Arc::new(LoginAttempt);
        self.verifying = Arc::downgrade(&attempt);
        Ok(Some(attempt))
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

    fn prepare(
        &mut self,
        text: &str,
        keyspace: Option<&str>,
        stream: i16,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<()> {
        if let Some(trace) = &mut self.trace {
            trace.note("Preparing the statement");
        }
        // Always prepared anew, because the schema may have changed since the text was last
        // prepared.
        let schema_changes = self.shared.statements.schema_changes();
        let analysis = &mut RequestAnalysis::default();
        let statement = self.understand(keyspace, text, Consistency::One, now, analysis)?;
        let keyspace = keyspace.or(self.sender.keyspace.as_deref());
        let (statements, service) = (&self.shared.statements, &self.shared.service);
        let is_current = |statement: &S::Statement| service.is_current(statement);
        let (id, entry) =
            statements.insert(keyspace, text, statement, schema_changes, is_current)?;
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
        let start = out.frames().len();
        self.answer(stream, &Response::Prepared(prepared), out.frames());
        // The names and types of markers and columns may take much memory.
        let memory = self.shared.lanes.inline_memory(false);
        let held = out.hold(start, memory);
        held.inspect_err(|_| out.truncate(start))
    }

    fn prepared(&self, id: &[u8]) -> Result<Arc<Entry<S::Statement>>> {
        let entry = self.shared.statements.get(id);
        entry.ok_or_else(|| ErrorResponse::unprepared(id))
    }

    /// Returns the statement for a text: the prepared one from the cache if there is one, or else a
    /// newly parsed one. `keyspace` is the keyspace that the request contains; without it, the
    /// keyspace in use applies. `analysis` is the state that all texts of the request share.
    fn statement(
        &mut self,
        keyspace: Option<&str>,
        text: &str,
        consistency: Consistency,
        now: Instant,
        analysis: &mut RequestAnalysis,
    ) -> Result<Arc<Entry<S::Statement>>> {
        let in_use = keyspace.or(self.sender.keyspace.as_deref());
        if let Some((_, entry)) = self.shared.statements.find(in_use, text) {
            return Ok(entry);
        }
        let statement = self.understand(keyspace, text, consistency, now, analysis)?;
        Ok(Entry::of_request(statement))
    }

    /// Parses and plans a statement. That may take long, since constants are computed and JSON is
    /// parsed. If the deadline of the request passes, or the statements of the request take too
    /// long for a shared thread, the error is the timeout of a read, because nothing was executed.
    fn understand(
        &mut self,
        keyspace: Option<&str>,
        text: &str,
        consistency: Consistency,
        now: Instant,
        analysis: &mut RequestAnalysis,
    ) -> Result<S::Statement> {
        let keyspace = keyspace.or(self.sender.keyspace.as_deref());
        let (mut interrupt, begun) = (self.interrupt(now), Instant::now());
        if self.is_thread_shared {
            let left = SHARED_THREAD_CPU_MAX.saturating_sub(self.spent.prepared);
            interrupt = interrupt.capped(begun, left);
        }
        let time_out = TimeOut::Read(consistency);
        if !self.spent.prepared.is_zero() {
            // The analysis of a short statement ends before it reads the clock, but that of thousands
            // in a batch takes long.
            interrupt.check(begun, time_out)?;
        }
        let prepare = || self.shared.service.prepare(keyspace, text, analysis);
        let statement = interrupt::scope(&interrupt, time_out, prepare);
        self.spent.prepared += begun.elapsed();
        statement
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

/// Checks that an EXECUTE or a BATCH has one value for each marker of a statement. The error begins
/// with `there`: Cassandra writes "there" for an EXECUTE and "There" for a BATCH. A QUERY is not
/// checked here, because Cassandra has another error for it. Values with names are not checked here
/// either. Both are checked when the values are bound to the markers.
fn check_value_count(statement: &impl Statement, values: &Values<'_>, there: &str) -> Result<()> {
    let (markers, _) = statement.markers();
    if values.is_named() || values.len() == markers.len() {
        return Ok(());
    }
    invalid(format!(
        "{there} were {} markers(?) in CQL but {} bound variables",
        markers.len(),
        values.len()
    ))
}

/// Returns whether the statement of a QUERY is KILL QUERY. No other statement begins with KILL.
fn kills_query(frame: &Frame) -> bool {
    let Ok(Request::Query { text, .. }) = Request::decode(frame) else {
        return false;
    };
    first_word(text).is_some_and(|word| word.eq_ignore_ascii_case("KILL"))
}

#[cfg(test)]
mod tests {
    use ebb_cql::protocol::{QueryParameters, flag, writer};

    use super::*;

    /// Regression: a KILL QUERY behind a comment, or in a frame with a custom payload, was not
    /// recognized, and was rejected in an overload.
    #[test]
    fn kill_query_is_recognized_behind_comments_and_a_custom_payload() {
        for (text, kills) in [
            ("KILL QUERY 7", true),
            (" \n-- KILL\n// it\n/* now */ kill query 7", true),
            ("-- KILL QUERY 7", false),
            ("/* KILL QUERY 7", false),
            ("killed", false),
            ("SELECT * FROM kill", false),
            ("", false),
        ] {
            for flags in [0, flag::CUSTOM_PAYLOAD] {
                let mut body = BytesMut::new();
                if flags != 0 {
                    writer::list(&mut body, &["key"], |out, key| {
                        writer::string(out, key);
                        writer::bytes(out, Some(b"for another handler"));
                    });
                }
                let parameters = QueryParameters::default();
                Request::Query { text, parameters }.encode_body_in(&mut body, Version::V4);
                let frame = Frame {
                    version: Version::V4,
                    flags,
                    stream: 1,
                    opcode: Opcode::Query as u8,
                    body: body.freeze(),
                };
                assert_eq!(kills_query(&frame), kills, "{text:?}, flags {flags}");
            }
        }
    }
}
