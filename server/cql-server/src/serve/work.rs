//! A request that runs on another thread than the one that received it.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use ebb_cql::protocol::{
    Coding, ErrorKind, ErrorResponse, Event, Frame, Head, Opcode, OpenFrame, Request, Response,
};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout_at;

use super::connection::LaneResult;
use super::lanes::{NORMAL_CLASS_CPU_MAX, PAGE_BYTES, ResultMemory, Share, Waiting};
use super::listener::Shared;
use super::requests::RequestMemory;
use super::scan_queue::ScanUser;
use super::scan_threads::ClassControl;
use super::session::{TOO_MANY_FAILURES, batch_parameters, error, in_protocol};
use super::slow::{Sender, Spent, Unsent};
use super::turns::Wanted;
use crate::access::{Login, User};
use crate::activity::Trace;
use crate::call::{
    Call, Interrupt, Lane, Outcome, Service, Statement, TimeOut, batch_write_type, time_out_of,
};

/// The first capacity of a page's buffer. The buffer doubles when it is full, and so ends with room
/// for a page and one more row, of 64 KiB.
const PAGE_ROOM_BYTES: usize = (PAGE_BYTES + (64 << 10)) / 16;

/// The CPU time that a statement may use on a thread on which others wait: one that serves connections,
/// or that of the commit lane. Then it begins anew in [`Lane::Moved`].
pub(super) const SHARED_THREAD_CPU_MAX: Duration = Duration::from_millis(5);

/// The whole response to a request, or the error.
pub(super) type RequestResult = Result<(BytesMut, Outcome), ErrorResponse>;

/// A request that waits for its lane.
pub(super) struct Work<S: Service> {
    pub shared: Arc<Shared<S>>,
    pub keyspace: Option<Arc<str>>,
    pub coding: Coding,
    /// One, or those of a batch.
    pub statements: Vec<Arc<S::Statement>>,
    /// What it has to wait for, where it runs on a thread that serves connections.
    pub turns: Option<Wanted>,
    pub frame: Frame,
    /// The memory that the frame takes while it waits.
    pub memory: RequestMemory,
    pub interrupt: Interrupt,
    pub received_at: Instant,
    /// Whether it may be refused where there are too many.
    pub may_refuse: bool,
    /// The address of the client.
    pub address: SocketAddr,
    pub trace: Option<Trace>,
    pub user: Arc<User>,
    pub spent: Spent,
}

/// The result of a request that ran in a lane.
pub(super) struct Ran {
    /// The response.
    pub frame: BytesMut,
    /// The keyspace that is in use now.
    pub keyspace: Option<String>,
    /// For a login: the user, or `None` if the login was refused.
    pub login: Option<Option<Arc<User>>>,
    /// When a point request was received that succeeded: its latency counts.
    pub point_received_at: Option<Instant>,
    /// The report of a slow request.
    pub slow: Option<Box<Unsent>>,
}

/// The progress of a request, for the thread that runs it and the task that waits for the result.
#[derive(Debug, Default)]
struct LaneProgress {
    begun_at: OnceLock<Instant>,
    /// The client was answered, at the deadline of the request.
    is_answered: AtomicBool,
}

impl<S: Service> Work<S> {
    /// Executes the request on a thread of a lane.
    fn run(mut self, lane: Lane, progress: &LaneProgress, memory: &mut ResultMemory) -> Ran {
        progress.begun_at.get_or_init(Instant::now);
        let is_write = |one: &Arc<S::Statement>| one.lane() == Lane::Write;
        let is_read = is_cut_off(lane) && !self.statements.iter().any(is_write);
        // A write commits under locks that others wait for: it must not wait for a core meanwhile. Nor must
        // it wait for a thread that a read has moved to before it.
        let may_lower = is_read && !matches!(lane, Lane::Moved);
        if may_lower && self.shared.options.idle_class {
            let lower = ClassControl::KERNEL.lower;
            self.interrupt = self.interrupt.lowering(NORMAL_CLASS_CPU_MAX, lower);
        }
        let mut ended = self.try_run();
        // A statement that took too long for a connection's thread or the commit lane runs here
        // instead. So this thread repeats a write after a conflict, and syncs, as they would have done.
        while matches!(&ended, Ok((_, outcome)) if outcome.is_in_conflict) {
            ended = self.try_run();
        }
        let has_moved = |one: &Arc<S::Statement>| matches!(one.lane(), Lane::Inline | Lane::Write);
        if self.shared.service.commits_wait_for_sync() && self.statements.iter().any(has_moved) {
            ended = ended.and_then(|ended| self.shared.service.sync().map(|()| ended));
        }
        // A write is never answered as refused once it is done, and its response is small.
        if is_read {
            ended = ended.and_then(|(frame, outcome)| {
                if memory.try_hold(frame.len()) {
                    Ok((frame, outcome))
                } else {
                    Err(no_memory(frame.len()))
                }
            });
        }
        // The answer at the deadline was reported if it was slow.
        let slow = if progress.is_answered.load(Ordering::Relaxed) {
            None
        } else {
            self.slow()
        };
        let ran = self.finish(ended, slow);
        Ran {
            // A statement that takes long by itself is no sign of a slow server.
            point_received_at: None,
            ..ran
        }
    }

    /// The stream to answer in.
    pub(super) fn stream(&self) -> i16 {
        self.frame.stream
    }

    /// Executes the request; gives its whole response.
    fn try_run(&mut self) -> RequestResult {
        let begun = Instant::now();
        let ran = self.execute();
        self.spent.executed += begun.elapsed();
        ran
    }

    /// Executes the request on a thread on which others wait. Returns `None` if it takes too long for
    /// that: nothing has been written.
    pub(super) fn try_run_briefly(&mut self) -> Option<RequestResult> {
        let whole = self.interrupt.clone();
        self.interrupt = whole.capped(Instant::now(), SHARED_THREAD_CPU_MAX);
        let ended = self.try_run();
        self.interrupt = whole;
        let may_go_on = self.interrupt.may_go_on(&ended);
        (!may_go_on).then_some(ended)
    }

    /// Returns the user that the request counts for if it is a scan.
    fn scan_user(&self) -> ScanUser {
        match self.user.name() {
            Some(name) => ScanUser::Role(name.into()),
            None => ScanUser::Address(self.address.ip()),
        }
    }

    /// The same request, for an answer while it still runs.
    fn unrun(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            keyspace: self.keyspace.clone(),
            coding: self.coding,
            statements: self.statements.clone(),
            turns: None,
            frame: self.frame.clone(),
            memory: RequestMemory::default(),
            interrupt: self.interrupt.clone(),
            received_at: self.received_at,
            may_refuse: self.may_refuse,
            address: self.address,
            trace: None,
            user: self.user.clone(),
            spent: self.spent,
        }
    }

    /// The response to the request when its time is over.
    fn time_out(self) -> Ran {
        let time_out = match Request::decode(&self.frame) {
            Ok(Request::Query { parameters, .. } | Request::Execute { parameters, .. }) => {
                let statement = self.statements.first();
                let consistency = parameters.consistency;
                statement.map(|statement| time_out_of(&**statement, consistency))
            }
            Ok(Request::Batch(batch)) => {
                let values = batch.statements.iter().map(|part| part.values);
                let statements: Vec<_> = self.statements.iter().cloned().zip(values).collect();
                let write_type = batch_write_type(batch.kind, &statements);
                Some(TimeOut::Write(batch.consistency, write_type))
            }
            _ => None,
        };
        let error = match time_out {
            Some(time_out) => time_out.error(),
            None => error(ErrorKind::Server, "only statements have a time-out"),
        };
        self.end(Err(error))
    }

    fn execute(&mut self) -> RequestResult {
        if let Some(trace) = &mut self.trace {
            trace.note("Executing on a thread of its lane");
        }
        let (coding, service) = (self.coding, &self.shared.service);
        let (keyspace, interrupt) = (self.keyspace.as_deref(), &self.interrupt);
        let tracing_id = self.trace.as_ref().map(Trace::id);
        let user = &*self.user;
        let is_page =
            |statement: &Arc<S::Statement>| matches!(statement.lane(), Lane::Scan | Lane::Range);
        let mut out = match self.statements.iter().any(is_page) {
            true => BytesMut::with_capacity(PAGE_ROOM_BYTES),
            false => BytesMut::new(),
        };
        // Decoded once already; what it borrows from could not come along.
        let outcome = match Request::decode(&self.frame).map_err(in_protocol)? {
            Request::Query { parameters, .. } | Request::Execute { parameters, .. } => {
                let [statement] = &self.statements[..] else {
                    return Err(error(ErrorKind::Server, "a request is one statement"));
                };
                // It may have waited for its turn for longer than it may take.
                let consistency = parameters.consistency;
                interrupt.check(Instant::now(), time_out_of(&**statement, consistency))?;
                let call = Call {
                    keyspace: parameters.keyspace.or(keyspace),
                    version: coding.version,
                    parameters,
                    interrupt,
                    user,
                };
                let outcome = respond(&self.frame, coding, tracing_id, &mut out, |out| {
                    service.execute(statement, &call, out)
                })?;
                // The commit lane does that itself, for all that it runs at once.
                let is_scan = matches!(statement.lane(), Lane::Scan | Lane::Range);
                if is_scan && self.shared.is_synced(consistency) {
                    service.sync()?;
                }
                outcome
            }
            Request::Batch(batch) => {
                let values = batch.statements.iter().map(|part| part.values);
                let statements: Vec<_> = self.statements.iter().cloned().zip(values).collect();
                let write_type = batch_write_type(batch.kind, &statements);
                let time_out = TimeOut::Write(batch.consistency, write_type);
                interrupt.check(Instant::now(), time_out)?;
                let call = Call {
                    keyspace: batch.keyspace.or(keyspace),
                    version: coding.version,
                    parameters: batch_parameters(&batch),
                    interrupt,
                    user,
                };
                respond(&self.frame, coding, tracing_id, &mut out, |out| {
                    service.batch(batch.kind, &statements, &call, out)
                })?
            }
            Request::AuthResponse { token } => {
                let Some(login) = service.login() else {
                    return Err(error(ErrorKind::Server, "nobody has to log in"));
                };
                // Clients that are gone or have waited for long must not delay others.
                if interrupt.is_over(Instant::now()) {
                    let message = "too many clients log in at once; try again later";
                    return Err(ErrorResponse::overloaded(message));
                }
                self.user = self.log_in(login, token)?;
                let success = Response::AuthSuccess { token: None };
                success.encode(&mut out, self.frame.stream, &Head::default(), coding);
                Outcome::default()
            }
            _ => return Err(error(ErrorKind::Server, "only statements have lanes")),
        };
        Ok((out, outcome))
    }

    /// Verifies the credentials in a token, and returns their user.
    fn log_in(&self, login: &Login, token: Option<&[u8]>) -> Result<Arc<User>, ErrorResponse> {
        let (failed, address) = (&self.shared.failed_logins, self.address.ip());
        let refused = || Err(error(ErrorKind::BadCredentials, TOO_MANY_FAILURES));
        if !failed.may_try(address, Instant::now()) {
            return refused();
        }
        // The connections of a pool come together: only the first one is verified.
        if let Some(user) = login.recall(token)? {
            return Ok(user);
        }
        if !failed.begin(address, Instant::now()) {
            return refused();
        }
        let user = login.verify(token).inspect_err(|_| failed.was_wrong())?;
        failed.was_right(address, Instant::now());
        Ok(user)
    }

    /// The response to what came of it.
    pub(super) fn end(self, ended: RequestResult) -> Ran {
        let slow = self.slow();
        self.finish(ended, slow)
    }

    /// Returns the report of the request, whose response is ready, if it was slow.
    fn slow(&self) -> Option<Box<Unsent>> {
        let sender = Sender {
            address: self.address,
            user: &self.user,
            keyspace: self.keyspace.as_deref(),
        };
        Unsent::of(
            &self.shared,
            &sender,
            &self.frame,
            self.received_at,
            self.spent,
        )
    }

    fn finish(mut self, ended: RequestResult, slow: Option<Box<Unsent>>) -> Ran {
        let tracing_id = self.trace.as_ref().map(Trace::id);
        let opcode = Opcode::from_code(self.frame.opcode);
        let is_login = matches!(opcode, Ok(Opcode::AuthResponse));
        let is_write = match opcode {
            Ok(Opcode::Batch) => true,
            Ok(Opcode::AuthResponse) => false,
            _ => (self.statements.iter()).all(|statement| statement.lane() == Lane::Write),
        };
        let ran = match ended {
            Ok((frame, outcome)) => {
                for change in outcome.changes {
                    self.shared.publish(Event::Schema(change));
                }
                Ran {
                    frame,
                    keyspace: outcome.keyspace,
                    login: is_login.then(|| Some(self.user.clone())),
                    point_received_at: is_write.then_some(self.received_at),
                    slow,
                }
            }
            Err(error) => {
                if let Some(trace) = &mut self.trace {
                    trace.note(without_password(&error.message));
                }
                let mut frame = BytesMut::new();
                let head = Head {
                    tracing_id,
                    warnings: &[],
                };
                let response = Response::Error(error);
                response.encode(&mut frame, self.frame.stream, &head, self.coding);
                Ran {
                    frame,
                    keyspace: None,
                    login: is_login.then_some(None),
                    point_received_at: None,
                    slow,
                }
            }
        };
        if let Some(trace) = self.trace {
            trace.end();
        }
        ran
    }
}

/// Returns whether requests of a lane are answered at their deadlines whatever they do.
fn is_cut_off(lane: Lane) -> bool {
    matches!(lane, Lane::Scan | Lane::Range | Lane::Moved)
}

/// The error of a read whose result would take more memory than there is.
fn no_memory(bytes: usize) -> ErrorResponse {
    let mib = bytes.div_ceil(1 << 20);
    ErrorResponse::overloaded(format!(
        "the result has {mib} MiB, and results that other clients have not read leave less: read in \
         pages, or try again later"
    ))
}

/// Runs a request in a lane, and sends its result. A scan is answered at its deadline with the
/// time-out, also while it waits or runs; then it does not begin, or notices and ends.
///
/// A change of the schema is answered when it is done: whether it happened is not to be guessed.
pub(super) async fn run_in_lane<S: Service>(
    lane: Lane,
    work: Box<Work<S>>,
    share: Share,
    results: UnboundedSender<LaneResult>,
) {
    let (shared, stream, user) = (work.shared.clone(), work.stream(), work.scan_user());
    let interrupt = work.interrupt.clone();
    let late = is_cut_off(lane).then(|| work.unrun());
    let progress = Arc::new(LaneProgress::default());
    let own = progress.clone();
    let run = move |memory: &mut ResultMemory| work.run(lane, &own, memory);
    let runs = shared.lanes.run(lane, &user, &share, &interrupt, run);
    let ran = match late {
        None => runs.await,
        Some(mut late) => match timeout_at(interrupt.deadline().into(), runs).await {
            Ok(ran) => ran,
            Err(_) => {
                progress.is_answered.store(true, Ordering::Relaxed);
                late.spent.executed = progress
                    .begun_at
                    .get()
                    .map_or(Duration::ZERO, Instant::elapsed);
                Some(Waiting {
                    value: late.time_out(),
                    _memory: None,
                })
            }
        },
    };
    // The receiver is gone if the connection has ended.
    drop(results.send(LaneResult { stream, ran }));
}

/// Runs a write when it is its turn: on a thread that serves connections, as it takes no
/// longer than others that run there, or by the commit lane where those do not either.
pub(super) async fn run_in_turn<S: Service>(
    mut work: Box<Work<S>>,
    results: UnboundedSender<LaneResult>,
) {
    let shared = work.shared.clone();
    // Without its turn it is over its time, which it is told when it runs.
    let held = match &work.turns {
        Some(turns) => {
            let deadline = work.interrupt.deadline().into();
            timeout_at(deadline, shared.turns.take(turns)).await.ok()
        }
        None => None,
    };
    loop {
        if shared.writes_wait(Instant::now()) {
            return shared.commits.send(*work, results);
        }
        // A panic is an error of one request.
        let run = AssertUnwindSafe(|| shared.commits.pace.run(|| work.try_run_briefly()));
        let ran = match catch_unwind(run) {
            Ok(Some(ended)) => Some(ended),
            Ok(None) => {
                drop(held);
                return run_in_lane(Lane::Moved, work, Share::default(), results).await;
            }
            Err(_) => None,
        };
        if matches!(&ran, Some(Ok((_, outcome))) if outcome.is_in_conflict) {
            tokio::task::yield_now().await;
            continue;
        }
        let stream = work.stream();
        let ran = ran.map(|ran| Waiting {
            value: work.end(ran),
            _memory: None,
        });
        // Nobody hears it where the connection has ended.
        drop(results.send(LaneResult { stream, ran }));
        return;
    }
}

/// Begins the trace of a request that wants one.
pub(super) fn trace<S: Service>(
    shared: &Shared<S>,
    client: SocketAddr,
    received_at: Instant,
    frame: &Frame,
) -> Option<Trace> {
    if !frame.is_traced() {
        return None;
    }
    let request = Request::decode(frame).ok()?;
    let mut parameters = Vec::new();
    let mut note = |parts: &ebb_cql::protocol::QueryParameters<'_>| {
        parameters.push(("consistency_level", parts.consistency.name().to_owned()));
        if let Some(rows) = parts.page_size_rows {
            parameters.push(("page_size", rows.to_string()));
        }
    };
    let what = match &request {
        Request::Query {
            text,
            parameters: parts,
        } => {
            note(parts);
            parameters.push(("query", without_password(text)));
            ("QUERY", "Execute CQL3 query")
        }
        Request::Execute {
            parameters: parts, ..
        } => {
            note(parts);
            ("QUERY", "Execute CQL3 prepared query")
        }
        Request::Batch(batch) => {
            note(&batch_parameters(batch));
            ("QUERY", "Execute batch of CQL3 queries")
        }
        Request::Prepare { text, .. } => {
            parameters.push(("query", without_password(text)));
            ("QUERY", "Preparing CQL3 query")
        }
        _ => return None,
    };
    let activity = &shared.options.activity;
    Some(activity.begin_trace(client, received_at, what, parameters))
}

/// A text that may be a statement, cut behind the word before a password: traces are for more
/// eyes than passwords are. What reads and writes rows has none of a role.
pub(super) fn without_password(text: &str) -> String {
    const ROWS: [&str; 5] = ["select", "insert", "update", "delete", "begin"];
    const PASSWORD: &str = "password";
    let lower = text.to_ascii_lowercase();
    let is_of_rows = ROWS.iter().any(|word| lower.trim_start().starts_with(word));
    match lower.find(PASSWORD) {
        Some(at) if !is_of_rows => format!("{} *******", &text[..at + PASSWORD.len()]),
        _ => text.to_owned(),
    }
}

/// Appends a RESULT whose body `write` appends; nothing where that fails, or is in conflict.
pub(super) fn respond(
    request: &Frame,
    coding: Coding,
    tracing_id: Option<[u8; 16]>,
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<Outcome, ErrorResponse>,
) -> Result<Outcome, ErrorResponse> {
    let open = |out: &mut BytesMut, warnings: &[String]| {
        let head = Head {
            tracing_id,
            warnings,
        };
        OpenFrame::response(out, coding.version, request.stream, Opcode::Result, &head)
    };
    let frame = open(out, &[]);
    let body_at = out.len();
    let outcome = match write(out) {
        Ok(outcome) => outcome,
        Err(error) => {
            frame.abandon(out);
            return Err(error);
        }
    };
    if outcome.is_outdated {
        frame.abandon(out);
        return Err(unprepared(request));
    }
    if outcome.is_in_conflict {
        frame.abandon(out);
        return Ok(outcome);
    }
    if outcome.warnings.is_empty() {
        frame.finish(out, coding.compression);
        return Ok(outcome);
    }
    // They come first and are known last, which is seldom.
    let body = out.split_off(body_at);
    frame.abandon(out);
    let frame = open(out, &outcome.warnings);
    out.extend_from_slice(&body);
    frame.finish(out, coding.compression);
    Ok(outcome)
}

/// To an EXECUTE whose statement is to be prepared again.
fn unprepared(request: &Frame) -> ErrorResponse {
    match Request::decode(request) {
        Ok(Request::Execute { id, .. }) => ErrorResponse::unprepared(id),
        _ => error(ErrorKind::Server, "only EXECUTE has columns that it knows"),
    }
}
