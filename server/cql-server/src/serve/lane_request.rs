//! A request that runs in a lane, on another thread than the one that received it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use ebb_cql::protocol::{ErrorResponse, Frame, Head, Request, Response};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{sleep_until, timeout_at};

use super::commit::QueuedWrite;
use super::lane_result::{LaneResult, Reply, RequestResult, is_in_conflict};
use super::lanes::{NORMAL_CLASS_CPU_MAX, Share};
use super::login::{self, EndedLogin};
use super::replies::{in_protocol, killed, no_memory, stopping};
use super::requests::WaitingMemory;
use super::response_memory::{PAGE_BYTES, ResultMemory, Waiting};
use super::scan_threads::ClassControl;
use super::traces::without_password;
use super::work::{RequestStatements, SHARED_THREAD_CPU_MAX, Work};
use crate::call::{Interrupt, Lane, ResponseMemory, Service, Statement, StatementKind};
use crate::outcome::Outcome;
use crate::queries::Query;

/// The initial capacity, in bytes, of the buffer for a page of a scan's result. It is a sixteenth
/// of the size of a full page with one more row of 64 KiB, so the buffer doubles at most four times
/// before such a page fits.
const PAGE_ROOM_BYTES: usize = (PAGE_BYTES + (64 << 10)) / 16;

/// A request that waits for a thread of its lane (a queue with threads for one kind of request), or
/// runs on one.
pub(super) struct LaneRequest<S: Service> {
    pub work: Work<S>,
    pub frame: Frame,
    /// The memory charged for the request: for its frame and its statements.
    pub memory: WaitingMemory,
    /// The memory of the finished response to a read, which is not sent before a sync has ended.
    /// `None` before the read has run, and for small responses.
    pub of_response: Option<ResultMemory>,
}

/// A scan that ended without a reply, because the kernel keeps its thread in the idle class
/// although new scans already run with the [CPU share of scans](crate::floor). The scan has to
/// begin anew on another thread.
struct LeftBehind<S: Service>(Box<LaneRequest<S>>);

impl<S: Service> LaneRequest<S> {
    pub(super) fn stream(&self) -> i16 {
        self.frame.stream
    }

    /// Executes the request on a thread of its lane, and returns the reply.
    ///
    /// If `may_begin_anew` is true, a scan ends early when the CPU share of scans, the
    /// [floor](crate::floor), is turned on and the kernel keeps the scan's thread in the idle
    /// class. The error then contains the request, which has to begin anew on another thread.
    fn run(
        mut self: Box<Self>,
        query: &Query,
        memory: &mut ResultMemory,
        may_begin_anew: bool,
    ) -> Result<Reply, LeftBehind<S>> {
        let progress = &query.progress;
        progress.begin(Instant::now());
        let (shared, kind) = (self.work.shared.clone(), self.work.kind);
        let (lane, is_read) = (query.lane, query.is_read);
        let mut interrupt = self.work.interrupt.clone();
        // A write commits under locks that others wait for, so it must not wait for a core
        // meanwhile, nor for a thread that a read has lowered. For the same reason the threads of
        // moved statements are not lowered.
        let is_lowered = is_read && lane != Lane::Moved && shared.options.idle_class;
        if is_lowered {
            interrupt = interrupt.lowering(NORMAL_CLASS_CPU_MAX, ClassControl::KERNEL.lower);
        }
        let may_begin_anew = may_begin_anew && is_lowered;
        if may_begin_anew {
            interrupt = interrupt.ending_if_left_behind();
        }
        // A finished write must not be reported as rejected, and its response is small.
        let of_read = is_read.then_some(&*memory as &dyn ResponseMemory);
        let mut ended = self.try_run(&interrupt, of_read);
        if may_begin_anew && interrupt.may_go_on(&ended) {
            progress.wait_anew();
            return Err(LeftBehind(self));
        }
        // A statement that took too long on a connection's thread or in the commit lane runs here
        // instead. So this thread repeats a write after a conflict, as those would have. Each run first
        // checks the deadline, so the loop ends then at the latest.
        while is_in_conflict(&ended) {
            ended = self.try_run(&interrupt, of_read);
        }
        // The lane of the statement, and not the one in which it runs: a moved write runs in
        // `Lane::Moved`, and needs its sync there.
        let syncs = match kind.lane {
            Lane::Write => shared.service.commits_wait_for_sync(),
            // Each step of a change of the schema waits for its own sync. The other two write nothing.
            Lane::Schema | Lane::Control | Lane::Login => false,
            // A serial read must not return a write that a crash may undo.
            Lane::Inline | Lane::Scan | Lane::Range | Lane::Moved => {
                shared.is_synced(self.work.consistency)
            }
        };
        if syncs && ended.is_ok() {
            let begun = Instant::now();
            ended = ended.and_then(|ended| shared.service.sync().map(|()| ended));
            self.work.spent.synced += begun.elapsed();
        }
        if is_read {
            let bytes = ended.as_ref().map_or(0, |(frame, _)| frame.len());
            if !memory.try_hold(bytes) {
                ended = Err(no_memory(bytes));
            }
        }
        let is_answered = if ended.is_err() {
            progress.end_with_error()
        } else {
            progress.is_answered.load(Ordering::Relaxed)
        };
        Ok(Reply {
            // A statement that takes long by itself is no sign of a slow server.
            point_received_at: None,
            ..self.reply(ended, is_answered)
        })
    }

    /// Executes the request, and adds the duration to its execution time. `interrupt` may end the
    /// execution. The response of a read takes its memory from `memory` while it grows.
    fn try_run(
        &mut self,
        interrupt: &Interrupt,
        memory: Option<&dyn ResponseMemory>,
    ) -> RequestResult {
        let begun = Instant::now();
        if let Some(trace) = &mut self.work.trace {
            trace.note("Executing on a thread of its lane");
        }
        let ended = self.execute(interrupt, memory);
        self.work.spent.executed += begun.elapsed();
        ended
    }

    fn execute(
        &mut self,
        interrupt: &Interrupt,
        memory: Option<&dyn ResponseMemory>,
    ) -> RequestResult {
        let Self { work, frame, .. } = self;
        // The session has decoded the frame already, but the request borrows from it and could not
        // come along.
        let request = Request::decode(frame).map_err(in_protocol)?;
        let mut out = BytesMut::new();
        if work.kind.is_scan() {
            out.reserve(PAGE_ROOM_BYTES);
        }
        if let Request::AuthResponse { token } = request {
            // Clients that are gone, or have waited for long, must not delay others.
            if interrupt.is_over(Instant::now()) {
                let message = "too many clients log in at once; try again later";
                return Err(ErrorResponse::overloaded(message));
            }
            let Some(login) = work.shared.service.login() else {
                return Err(ErrorResponse::server("nobody has to log in"));
            };
            let (failed, address) = (&work.shared.failed_logins, work.sender.address.ip());
            work.sender.user = login::verify(login, failed, address, token)
                .inspect_err(|error| work.shared.report_login(&work.sender, token, error))?;
            let success = Response::AuthSuccess { token: None };
            success.encode(&mut out, frame.stream, &Head::default(), work.coding);
            return Ok((out, Outcome::default()));
        }
        // The request may have waited for its turn past its deadline.
        interrupt.check(Instant::now(), work.time_out())?;
        let (shared, sender, statements) = (&work.shared, &work.sender, &work.statements);
        let execute = || work.run(request, frame.stream, interrupt, memory, &mut out);
        let outcome = match statements {
            RequestStatements::One(one) => shared.audited(sender, &one.statement, execute),
            RequestStatements::Login(_) | RequestStatements::Batch(_) => execute(),
        }?;
        Ok((out, outcome))
    }

    /// Returns the entry of the request for the list of queries.
    fn query(&self, lane: Lane) -> Query {
        let Work {
            sender, statements, ..
        } = &self.work;
        let statements = statements.as_slice();
        let first = statements.first().map(|entry| entry.statement.clone());
        Query {
            address: sender.address,
            user: sender.user.clone(),
            keyspace: sender.keyspace.clone(),
            statement: first.map(|first| -> Arc<dyn Statement> { first }),
            statements: statements.len(),
            lane,
            is_read: is_read(lane, self.work.kind),
            received_at: self.work.received_at,
            progress: Arc::default(),
        }
    }

    /// Returns a function that makes the reply if the client gets an error while the thread still
    /// works on the request: at the deadline, at the stop of the server, or by KILL QUERY. The
    /// function takes the execution time so far, the error, and a bool. The bool is true if the
    /// thread has already counted an error of the request, and reports the request if it was slow.
    fn late_reply(&self) -> impl FnOnce(Duration, ErrorResponse, bool) -> Reply + Send + use<S> {
        let (work, frame) = (&self.work, self.frame.clone());
        let (shared, sender, received_at) =
            (work.shared.clone(), work.sender.clone(), work.received_at);
        let (mut spent, coding) = (work.spent, work.coding);
        move |executed, error, is_counted| {
            spent.executed = executed;
            let mut reply = Reply::default();
            if !is_counted {
                reply.slow = shared.slow(&sender, received_at, &frame, spent);
                shared.note_error(&sender, &error);
            }
            let response = Response::Error(error);
            response.encode(&mut reply.frame, frame.stream, &Head::default(), coding);
            reply
        }
    }

    /// Returns the reply to the request. `is_answered` is true if the client got an error before
    /// the thread ended. That error was counted then, and the request was reported if it was slow,
    /// so this method does neither again.
    pub(super) fn reply(self, ended: RequestResult, is_answered: bool) -> Reply {
        let Self {
            mut work, frame, ..
        } = self;
        let mut reply = Reply::default();
        if let Some(writes) = work.writes.take() {
            writes.end(&ended);
        }
        if !is_answered {
            let (sender, received_at) = (&work.sender, work.received_at);
            reply.slow = work.shared.slow(sender, received_at, &frame, work.spent);
        }
        if let RequestStatements::Login(attempt) = &work.statements {
            reply.login = Some(EndedLogin {
                attempt: attempt.clone(),
                user: ended.is_ok().then(|| work.sender.user.clone()),
            });
        }
        match ended {
            Ok((response, outcome)) => {
                reply.frame = response;
                reply.keyspace = outcome.keyspace;
                let is_write = work.kind.lane == Lane::Write;
                reply.point_received_at = is_write.then_some(work.received_at);
            }
            Err(error) => {
                if !is_answered {
                    work.shared.note_error(&work.sender, &error);
                }
                if let Some(trace) = &mut work.trace {
                    trace.note(without_password(&error.message));
                }
                let head = Head {
                    tracing_id: work.tracing_id(),
                    warnings: &[],
                };
                let response = Response::Error(error);
                response.encode(&mut reply.frame, frame.stream, &head, work.coding);
            }
        }
        if let Some(trace) = work.trace {
            trace.end();
        }
        reply
    }
}

impl<S: Service> QueuedWrite for LaneRequest<S> {
    fn refusable_since(&self) -> Option<Instant> {
        self.work.may_refuse.then_some(self.work.received_at)
    }

    fn try_run_briefly(&mut self) -> Option<RequestResult> {
        let brief = (self.work.interrupt).capped(Instant::now(), SHARED_THREAD_CPU_MAX);
        let shared = self.work.shared.clone();
        let memory = shared.lanes.inline_memory(self.work.may_refuse);
        // A serial read waits for a sync, as a write does. A finished write must not be reported as
        // rejected, and its response is small.
        let is_read = self.work.kind.lane != Lane::Write;
        let of_read = is_read.then_some(&memory as &dyn ResponseMemory);
        let mut ended = self.try_run(&brief, of_read);
        if self.work.interrupt.may_go_on(&ended) {
            return None;
        }
        if is_read && let Ok((frame, _)) = &ended {
            match memory.finish(frame.len()) {
                Ok(of_response) => self.of_response = of_response,
                Err(no_memory) => ended = Err(no_memory),
            }
        }
        Some(ended)
    }

    fn begin_anew(self: Box<Self>, lane: Lane, results: UnboundedSender<LaneResult>) {
        if lane == Lane::Write {
            let shared = self.work.shared.clone();
            shared.commits.send(self, results);
        } else {
            tokio::spawn(run_in_lane(lane, self, Share::default(), results));
        }
    }

    fn end(mut self: Box<Self>, ended: Option<RequestResult>, synced: Duration) -> LaneResult {
        self.work.spent.synced += synced;
        let (stream, is_scan) = (self.stream(), self.work.kind.is_scan());
        let _memory = self.of_response.take();
        let reply = ended.map(|ended| Waiting {
            value: self.reply(ended, false),
            _memory,
        });
        LaneResult {
            stream,
            is_scan,
            reply,
        }
    }
}

/// Returns whether the requests of this lane are cut off at the deadline: the client gets the error
/// of a timeout even if a thread still works on the request.
fn is_cut_off(lane: Lane) -> bool {
    matches!(lane, Lane::Scan | Lane::Range | Lane::Moved)
}

/// Returns whether a request on the threads of `lane` is a read. A read ends when the server stops.
/// A write goes on, because an error would mean to the client that nothing was written.
fn is_read(lane: Lane, kind: StatementKind) -> bool {
    is_cut_off(lane) && kind.lane != Lane::Write
}

/// Runs a request on a thread of `lane` (a queue with threads for one kind of request), and sends
/// the result to `results`.
///
/// The client of a scan, or of a statement in [`Lane::Moved`], gets a timeout at the deadline, even
/// if the statement is still queued or running. A queued statement then does not begin, and a
/// running one ends soon. The stop of the server and KILL QUERY end reads in the same way, but
/// never a write: an error would mean to the client that nothing was written.
///
/// A scan begins anew if the [floor](crate::floor), the CPU share of scans, is turned on while the
/// kernel keeps the scan's thread in the idle class. It does so only once: otherwise the scan might
/// never end while the share is turned on and off.
///
/// The client of a change of the schema gets the response when the change is done, and no timeout
/// before, so that it does not have to guess the outcome.
pub(super) async fn run_in_lane<S: Service>(
    lane: Lane,
    mut request: Box<LaneRequest<S>>,
    share: Share,
    results: UnboundedSender<LaneResult>,
) {
    let shared = request.work.shared.clone();
    let (stream, user) = (request.stream(), request.work.sender.scan_user());
    let is_scan = request.work.kind.is_scan();
    let query = Arc::new(request.query(lane));
    let mut interrupt = request.work.interrupt.clone();
    if query.is_read {
        interrupt = interrupt.stopped_by(query.progress.is_stopped.clone());
        request.work.interrupt = interrupt.clone();
    }
    let (received_at, consistency) = (request.work.received_at, request.work.consistency);
    let time_out = request.work.time_out();
    // Created before `runs` takes the request.
    let late_reply = is_cut_off(lane).then(|| request.late_reply());
    // A login has no statement, and is no query.
    let listed = (query.statement.is_some()).then(|| shared.options.activity.queries.list(&query));
    let progress = &query.progress;
    let runs = async {
        let (mut waiting, mut may_begin_anew) = ((request, listed), true);
        loop {
            let (own, (request, listed)) = (query.clone(), waiting);
            // The entry stays until the thread has ended, even if the client was answered before.
            let run = move |memory: &mut ResultMemory| {
                let ran = request.run(&own, memory, may_begin_anew);
                ran.map_err(|LeftBehind(request)| (request, listed))
            };
            let ran = (shared.lanes).run(lane, &user, &share, &interrupt, progress, run);
            let Waiting { value, _memory } = ran.await?;
            match value {
                Ok(value) => return Some(Waiting { value, _memory }),
                Err(left_behind) => waiting = left_behind,
            }
            may_begin_anew = false;
        }
    };
    let reply = match late_reply {
        None => runs.await,
        Some(late_reply) => {
            let mut stop = shared.stop.subscribe();
            let end_read = |error: ErrorResponse| {
                // Noted first, so that this error is counted, and not the timeout with which the
                // thread then ends.
                let is_counted = progress.end_with_error();
                progress.is_stopped.store(true, Ordering::Relaxed);
                Err((error, is_counted))
            };
            let ended = tokio::select! {
                // In this order, so that a result that is ready at the deadline is sent.
                biased;
                reply = runs => Ok(reply),
                _ = stop.wait_for(|stops| *stops), if query.is_read => end_read(stopping()),
                () = progress.killed.notified(), if query.is_read => end_read(killed(consistency)),
                // `is_stopped` stays false: the thread itself ends at the same deadline.
                () = sleep_until(interrupt.deadline().into()) => {
                    Err((time_out.error(), progress.end_with_error()))
                }
            };
            ended.unwrap_or_else(|(error, is_counted)| {
                let executed = progress.running();
                Some(Waiting::small(late_reply(executed, error, is_counted)))
            })
        }
    };
    // The connection records the latencies of point requests and writes. Those of the other lanes are
    // not recorded.
    match lane {
        Lane::Scan => shared.traffic.scans.record(received_at.elapsed()),
        Lane::Range => shared.traffic.ranges.record(received_at.elapsed()),
        Lane::Inline | Lane::Write | Lane::Moved | Lane::Schema | Lane::Control | Lane::Login => {}
    }
    // The receiver is gone if the connection has ended.
    drop(results.send(LaneResult {
        stream,
        is_scan,
        reply,
    }));
}

/// Runs a write on a thread that serves connections, once the write has its [turns](super::turns):
/// the locks of its partitions, which earlier writes may hold. If writes then have to wait for the
/// disk, passes the write to the [commit thread](super::commit) instead.
pub(super) async fn run_in_turn<S: Service>(
    mut request: Box<LaneRequest<S>>,
    results: UnboundedSender<LaneResult>,
) {
    let shared = request.work.shared.clone();
    // If the deadline passes before the turn comes, the write runs without it and ends with its
    // timeout.
    let turn = match &request.work.turns {
        Some(turns) => {
            let deadline = request.work.interrupt.deadline().into();
            timeout_at(deadline, shared.turns.take(turns)).await.ok()
        }
        None => None,
    };
    loop {
        if shared.writes_wait(Instant::now()) {
            return shared.commits.send(request, results);
        }
        // A panic is the error of one request.
        let run = AssertUnwindSafe(|| shared.commits.pace.run(|| request.try_run_briefly()));
        let ended = match catch_unwind(run) {
            Ok(Some(ended)) => Some(ended),
            Ok(None) => {
                drop(turn);
                return run_in_lane(Lane::Moved, request, Share::default(), results).await;
            }
            Err(_) => None,
        };
        if ended.as_ref().is_some_and(is_in_conflict) {
            tokio::task::yield_now().await;
            continue;
        }
        // The receiver is gone if the connection has ended.
        drop(results.send(request.end(ended, Duration::ZERO)));
        return;
    }
}
