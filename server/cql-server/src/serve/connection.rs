//! One connection: its frames in, its responses out.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ebb_cql::protocol::{
    Direction, ErrorResponse, Frame, FrameDecoder, HEADER_BYTES, PAYLOAD_BYTES_MAX, Response,
    SchemaChange,
};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{Sleep, sleep_until, timeout};

use super::arrivals::Arrivals;
use super::lane_request::{LaneRequest, run_in_lane, run_in_turn};
use super::lane_result::{LaneResult, Reply};
use super::lanes::{Share, Waiting};
use super::outbox::Outbox;
use super::received::{Limits, Received, ReceivedError};
use super::replies::{overloaded, panicked, stopping};
use super::requests::{LARGE_BYTES, RequestMemory, own_body};
use super::session::{HandleResult, Session};
use super::shared::Shared;
use super::skip::{Progress, SKIPPED_BYTES_MAX};
use super::slow::Unsent;
use super::stages::ExecutionSpan;
use super::stream::Stream;
use crate::call::{Lane, Service};

/// The most frames that a connection serves in one burst, before other connections get their turn
/// on its thread.
const BURST_FRAMES: usize = 64;
/// The time after which a connection ends its burst, even if it has served fewer than
/// [`BURST_FRAMES`]: 64 statements that have to be parsed take much longer than 64 prepared ones.
const BURST_TIME: Duration = Duration::from_micros(500);
/// The most bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// The longest request body in bytes before the client has logged in.
const LOGIN_BODY_BYTES_MAX: usize = 16 << 10;

thread_local! {
    /// The read buffer of a thread. All connections of the thread share it: they keep only
    /// incomplete frames, in buffers of their own.
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// A connection, from its accept to its end.
pub(super) struct Connection<S: Service> {
    stream: Stream,
    shared: Arc<Shared<S>>,
    session: Session<S>,
    decoder: FrameDecoder,
    /// Received bytes that are not decoded yet.
    received: Received,
    /// The time of the last read from the socket.
    received_at: Instant,
    /// A received request whose analysis takes too long for a thread on which other connections wait.
    /// The next turn handles it on another thread, before the requests that are not decoded yet.
    long: Option<LongRequest>,
    /// The deadline for the bytes of a request that is skipped because it is too large.
    skipping: Progress,
    /// The memory that the connection has reserved for all its received bytes; none while they are
    /// at most [`LARGE_BYTES`].
    memory: RequestMemory,
    arrivals: Arrivals,
    /// The end of the last wait in which the connection's own scans left no room for further
    /// requests. Waits before this time are no sign of an overload: scans take long even if the
    /// server has nothing else to do.
    ready_at: Instant,
    /// True if the server was overloaded at the last read, and far fewer bytes of this connection
    /// waited than of others. Then overload control rejects none of its requests.
    is_small: bool,
    out: Outbox,
    /// The number of statements that arrived with the last read from the socket, ran on the
    /// connection's thread, and whose responses are in `out`. The latencies are recorded when the
    /// responses are sent.
    points: u32,
    /// The times at which the responses in `out` to statements that ran on the connection's thread
    /// were ready (as many as `points`); empty unless latencies are measured by stage.
    points_ready_at: Vec<Instant>,
    /// The arrival times of writes whose responses are in `out`, and that ran outside of
    /// [`handle`](Session::handle): on the thread that commits writes in groups (the commit lane),
    /// or in a task. The latencies are recorded when the responses are sent.
    writes_received_at: Vec<Instant>,
    /// Reports of slow requests whose responses are in `out`.
    slow: Vec<Unsent>,
    /// The channel for the results of requests that run on other threads; `None` before the first
    /// such request, because a channel takes some KiB.
    results: Option<Results>,
    /// The number of requests that run on other threads, or wait for them.
    running: usize,
    /// The number of scans among the requests of `running`.
    scans: usize,
    /// The schema changes for the client; `None` until it registers for events.
    events: Option<broadcast::Receiver<SchemaChange>>,
    stop: watch::Receiver<bool>,
    /// True if the server stops and the last requests of the client have been read.
    has_read_last: bool,
    /// The deadline of the client, first for STARTUP, then for the login; `None` once the client
    /// has logged in.
    startup: Option<Pin<Box<Sleep>>>,
    /// True if `startup` is the deadline for the login, because the client has sent STARTUP.
    logs_in: bool,
}

/// A request that [`handle`](Session::handle) has returned because its analysis takes too long for
/// the thread of its connection. The counters of requests already include it.
struct LongRequest {
    frame: Frame,
    /// True if overload control may reject the request.
    may_refuse: bool,
}

/// The channel for the results of requests that run on other threads than that of the connection.
struct Results {
    sender: mpsc::UnboundedSender<LaneResult>,
    receiver: mpsc::UnboundedReceiver<LaneResult>,
    /// The slots of this connection for results that wait until the client reads them.
    share: Share,
}

impl Default for Results {
    fn default() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            sender,
            receiver,
            share: Share::default(),
        }
    }
}

/// The reason for the end of a connection, which decides how its socket is closed.
enum Ended {
    /// The client or the server has finished, or the connection broke: the stream is closed at
    /// once.
    Quietly,
    /// The last response is an error, and the client may still be sending. The server discards for
    /// a while what the client sends, so that the client can read the error.
    WithError,
    /// The server stops, and has not read everything that the client sent. The server discards the
    /// rest for a while, so that the client can read its responses.
    Unread,
}

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Self {
        Self::Quietly
    }
}

impl<S: Service> Connection<S> {
    /// Creates a connection whose client has to send STARTUP by `start_by`.
    pub(super) fn new(
        stream: Stream,
        peer: SocketAddr,
        start_by: Instant,
        shared: Arc<Shared<S>>,
    ) -> Self {
        let now = Instant::now();
        let begun_at = shared.overload.now();
        let session = Session::new(peer, stream.identity(), shared.clone());
        if let Some(encryption) = stream.encryption() {
            session.note_encryption(encryption);
        }
        Self {
            stream,
            session,
            out: Outbox::default(),
            decoder: FrameDecoder::new(Direction::Request, 0),
            received: Received::default(),
            received_at: now,
            long: None,
            skipping: Progress::default(),
            memory: RequestMemory::default(),
            arrivals: Arrivals::new(begun_at),
            ready_at: begun_at,
            is_small: false,
            points: 0,
            points_ready_at: Vec::new(),
            writes_received_at: Vec::new(),
            slow: Vec::new(),
            results: None,
            running: 0,
            scans: 0,
            events: None,
            stop: shared.stop.subscribe(),
            has_read_last: false,
            startup: Some(Box::pin(sleep_until(start_by.into()))),
            logs_in: false,
            shared,
        }
    }

    /// Serves the client until the connection ends. Each turn serves received frames, sends the
    /// responses, and then waits for bytes, results, events or the stop of the server, unless another
    /// frame is complete.
    pub(super) async fn run(mut self: Box<Self>) {
        let ended = loop {
            let stops = match self.begin_turn().await {
                Ok(stops) => stops,
                Err(ended) => break ended,
            };
            let Some((connection, is_fatal)) = self.serve(stops).await else {
                return;
            };
            self = connection;
            if let Err(ended) = self.end_turn(stops, is_fatal).await {
                break ended;
            }
        };
        // The socket closes no later than that of an idle client would.
        let options = &self.shared.options;
        let patience = options.write_timeout.min(options.startup_timeout);
        let (stream, mut stop) = self.into_stream();
        match ended {
            Ended::Quietly => stream.end().await,
            Ended::WithError => {
                tokio::select! {
                    () = stream.end_after_error(patience) => {}
                    _ = stop.wait_for(|stops| *stops) => {}
                }
            }
            // A client that is sending reads its responses, and ends the stream soon.
            Ended::Unread => stream.end_after_error(patience).await,
        }
    }

    /// Returns the stream and the stop signal, and frees everything else.
    fn into_stream(self: Box<Self>) -> (Stream, watch::Receiver<bool>) {
        (self.stream, self.stop)
    }

    /// Returns whether the server stops. If so, first reads the last requests of the client.
    async fn begin_turn(&mut self) -> Result<bool, Ended> {
        let stops = *self.stop.borrow();
        if stops {
            // A client that has not sent STARTUP has no requests that need a response.
            if !self.session.has_started() {
                return Err(Ended::Quietly);
            }
            self.read_last().await?;
        }
        Ok(stops)
    }

    /// Sends the responses, and waits until there is something to do in the next turn. `stops` is true
    /// if the server stops, and `is_fatal` if the connection has to end.
    ///
    /// # Errors
    /// The reason for the end of the connection: `is_fatal` is true, or the server stops and all
    /// requests have their responses, or the client is gone or too slow.
    async fn end_turn(&mut self, stops: bool, is_fatal: bool) -> Result<(), Ended> {
        self.flush().await?;
        if is_fatal {
            return Err(Ended::WithError);
        }
        let has_room = self.has_room(stops);
        let has_next = has_room && self.has_frame();
        if stops && self.running == 0 && !has_next {
            // If a socket is closed with unread bytes, TCP resets the connection, and the client may lose
            // its last responses.
            let unread_bytes = self.stream.unread_bytes();
            return Err(if unread_bytes == 0 {
                Ended::Quietly
            } else {
                Ended::Unread
            });
        }
        // After the burst, so that only bytes that had to wait are charged.
        self.count_received().await?;
        if has_next {
            // Other connections of this thread get their turn before the next burst.
            tokio::task::yield_now().await;
            return Ok(());
        }
        // A connection that waits keeps no empty buffers.
        self.received.shrink();
        if self.session.has_started() {
            if self.session.is_logged_in() {
                self.startup = None;
            } else if !self.logs_in {
                // A deadline of its own: a login may wait for a thread that verifies passwords.
                self.logs_in = true;
                let login_by = Instant::now() + self.shared.options.login_timeout;
                self.startup = Some(Box::pin(sleep_until(login_by.into())));
            }
        }
        // Without room nothing is read, so a client that makes no progress then is not too slow.
        let skipped_bytes = self.received.skipped_bytes().filter(|_| has_room);
        let patience = self.shared.options.request_timeout;
        self.skipping.note(skipped_bytes, patience);
        // A wait mostly for other requests counts: writes take long only if the server is slow.
        let waits_for_scans = !has_room && self.scans * 2 >= self.running;
        let wait_began = waits_for_scans.then(|| self.shared.overload.now());
        tokio::select! {
            () = over(&mut self.startup) => return Err(Ended::Quietly),
            Some(result) = next_result(&mut self.results) => self.take_results(result),
            event = next_event(&mut self.events) => self.push_event(event),
            // While the connection has as many requests in lanes as it may, bytes stay in the socket.
            read = read(&mut self.stream, &mut self.received, &mut self.skipping), if has_room => {
                match read? {
                    Some(read_bytes) => self.note_arrivals(read_bytes),
                    None => return self.give_up_skip().await,
                }
            }
            // The signal changes only once, so a connection that has seen it does not wait for it.
            changed = self.stop.changed(), if !stops => {
                // If the sender is gone, so are the server and its runtime.
                changed.map_err(|_| Ended::Quietly)?;
            }
        }
        if let Some(wait_began) = wait_began {
            let overload = &self.shared.overload;
            let waited = overload.now().saturating_duration_since(wait_began);
            // Before it was served, the connection was ready and waited for its thread.
            self.ready_at = wait_began + waited.saturating_sub(overload.turn());
        }
        Ok(())
    }

    /// Returns whether the connection may start another request on other threads. If `stops` is
    /// true, because the server stops, requests are rejected, which needs no room.
    fn has_room(&self, stops: bool) -> bool {
        stops || self.running < self.shared.options.lane_requests_max
    }

    fn note_arrivals(&mut self, read_bytes: usize) {
        self.received_at = Instant::now();
        // A read that did not fill the buffer has left nothing in the socket.
        let left_bytes = if read_bytes < READ_BYTES {
            0
        } else {
            self.stream.unread_bytes()
        };
        let turn = self.shared.overload.turn();
        let bytes = (self.received.bytes() - read_bytes, read_bytes);
        let now = self.shared.overload.now();
        self.arrivals.read(now, bytes, left_bytes, turn);
        let unserved_bytes = self.received.bytes() + left_bytes;
        self.is_small = self.shared.overload.is_small(unserved_bytes);
    }

    /// Reads the bytes that the client had sent when the server began to stop, so that these
    /// requests get a response, too.
    async fn read_last(&mut self) -> Result<(), Ended> {
        if std::mem::replace(&mut self.has_read_last, true) {
            return Ok(());
        }
        let (stream, received) = (&mut self.stream, &mut self.received);
        let read_bytes = poll_fn(|context| match poll_read(stream, received, context) {
            Poll::Pending => Poll::Ready(Ok(0)),
            ready => ready,
        })
        .await?;
        if read_bytes > 0 {
            self.note_arrivals(read_bytes);
        }
        Ok(())
    }

    /// Serves several received frames, or a single one that is large or takes long to analyse. For
    /// such a single frame, the connection moves to another thread, so that other connections of
    /// this thread go on. If `stops` is true, because the server stops, rejects the frames instead.
    ///
    /// Returns the connection, and true if it has to end. Returns `None` if the connection was lost
    /// by a panic, or because no thread could be started.
    async fn serve(mut self: Box<Self>, stops: bool) -> Option<(Box<Self>, bool)> {
        if self.long.is_none() && !self.is_large_next() {
            let is_fatal = self.serve_received(BURST_FRAMES, true, stops);
            return Some((self, is_fatal));
        }
        let (shared, runtime) = (self.shared.clone(), Handle::current());
        let (user, interrupt) = self.session.user_and_interrupt(self.received_at);
        let serve = move || {
            // Both calls spawn tasks.
            let _entered = runtime.enter();
            let is_fatal = match self.long.take() {
                Some(long) => {
                    self.serve_long(long, stops);
                    false
                }
                None => self.serve_received(1, false, stops),
            };
            (self, is_fatal)
        };
        shared.lanes.run_large(&user, &interrupt, serve).await
    }

    fn is_large_next(&self) -> bool {
        self.received.has_large_frame(&self.limits())
    }

    /// Ends the connection with the error of a request that is too large. This is for a request
    /// whose bytes arrive so slowly that the server gives up skipping them.
    async fn give_up_skip(&mut self) -> Result<(), Ended> {
        if let Some(problem) = self.received.give_up_skip() {
            self.answer_problem(problem);
        }
        self.flush().await?;
        Err(Ended::WithError)
    }

    /// Appends the error for received bytes that are no valid request.
    fn answer_problem(&mut self, problem: ReceivedError) {
        let stream = problem.stream();
        let error = if self.takes_requests() {
            ErrorResponse::from(problem)
        } else {
            // A client that has not logged in gets short error messages only.
            ErrorResponse::protocol(problem.to_string())
        };
        self.refuse(stream, error);
    }

    /// Appends an error as the response to a request.
    fn refuse(&mut self, stream: i16, error: ErrorResponse) {
        (self.session).answer(stream, &Response::Error(error), self.out.frames());
    }

    /// Reserves memory for the received bytes, if they are more than [`LARGE_BYTES`]. If there is
    /// none until the request timeout, sends the client OVERLOADED, and ends the connection.
    async fn count_received(&mut self) -> Result<(), Ended> {
        let bytes = self.received.held_bytes();
        if bytes <= LARGE_BYTES && self.memory.is_empty() {
            return Ok(());
        }
        let patience = self.shared.options.request_timeout;
        let counted = self.shared.requests.hold(&mut self.memory, bytes);
        if timeout(patience, counted).await.is_ok() {
            return Ok(());
        }
        // In any other stream the error could look like the response to a request in a lane, which
        // may be executed. The stream is unknown while the header is in an incomplete segment. The
        // error is in stream 0 then, but only if no request is in a lane.
        let unused = (self.running == 0).then_some(0);
        if let Some(stream) = self.received.first_stream().or(unused) {
            self.refuse(stream, overloaded());
            self.flush().await?;
        }
        Err(Ended::WithError)
    }

    /// Serves a request whose analysis took too long on the thread of the connection. If `stops` is
    /// true, because the server stops, rejects it instead.
    fn serve_long(&mut self, long: LongRequest, stops: bool) {
        let LongRequest { frame, may_refuse } = long;
        if stops {
            self.refuse(frame.stream, stopping());
        } else {
            self.handle(frame, may_refuse, false);
        }
    }

    /// Serves up to `frames_max` of the received frames. `is_thread_shared` is true if other
    /// connections wait for this thread; then the first request whose analysis takes too long is
    /// left for the next turn. If `stops` is true, because the server stops, rejects the requests
    /// instead. Returns true if the connection has to end.
    fn serve_received(&mut self, frames_max: usize, is_thread_shared: bool, stops: bool) -> bool {
        let overload = self.shared.overload.clone();
        let target = overload.target().filter(|_| !self.is_small);
        // Counts only requests that may be rejected: the waits of other requests are no sign of an
        // overload.
        let (mut served, mut refused) = (0, 0);
        let mut first_waited = None;
        let mut is_fatal = false;
        let burst_began = Instant::now();
        for number in 0..frames_max {
            // The frames that are left stay in `received` for a later turn.
            if !self.has_room(stops) || self.out.is_full() {
                break;
            }
            // The first frame is served in any case, so that each turn makes progress. A large frame
            // gets a turn of its own.
            if number > 0 && (burst_began.elapsed() > BURST_TIME || self.is_large_next()) {
                break;
            }
            // The response to STARTUP is sent before anything is put into segments.
            if self.session.segments.is_some() && !self.received.has_segments() {
                break;
            }
            // The previous frame may have changed the version, the compression and the limits.
            self.decoder
                .set_compression(self.session.coding.compression);
            let limits = self.limits();
            self.decoder.set_body_bytes_max(limits.body_bytes_max);
            // Until STARTUP no version is agreed on, and each frame may have another one.
            if self.session.has_started() {
                self.decoder.set_version(self.session.coding.version);
            }
            match self.received.decode(&self.decoder, &limits) {
                Ok(None) => break,
                Ok(Some(frame)) if stops => {
                    self.shared.traffic.request(frame.opcode);
                    self.refuse(frame.stream, stopping());
                }
                Ok(Some(frame)) => {
                    self.shared.traffic.request(frame.opcode);
                    let may_refuse = self.session.may_refuse(&frame);
                    if may_refuse {
                        if self.is_late(target, &mut first_waited) {
                            self.refuse(frame.stream, overloaded());
                            refused += 1;
                            continue;
                        }
                        served += 1;
                    }
                    self.session.note_request();
                    self.handle(frame, may_refuse, is_thread_shared);
                    if self.long.is_some() {
                        break;
                    }
                }
                Err(problem) => {
                    is_fatal = problem.is_fatal();
                    self.answer_problem(problem);
                    if is_fatal {
                        break;
                    }
                }
            }
        }
        if served > 0 {
            overload.served(served, first_waited.unwrap_or_default());
        }
        if refused > 0 {
            overload.rejected(refused);
        }
        // A client has registered in this burst, or before. The subscription begins before the response
        // to REGISTER is sent, so no event after that response is missed.
        if self.session.events.schema || self.session.events.status || self.session.events.topology
        {
            let events = &self.shared.events;
            self.events.get_or_insert_with(|| events.subscribe());
        }
        is_fatal
    }

    /// Handles a request: appends its response, passes it to other threads, or leaves it in `long`
    /// for the next turn.
    fn handle(&mut self, frame: Frame, may_refuse: bool, is_thread_shared: bool) {
        let (received_at, out) = (self.received_at, &mut self.out);
        match (self.session).handle(frame, may_refuse, is_thread_shared, received_at, out) {
            HandleResult::Answered {
                is_point,
                ran,
                slow,
            } => {
                if is_point {
                    self.note_point(received_at, ran);
                }
                self.slow.extend(slow.map(|slow| *slow));
            }
            HandleResult::InLane(lane, request) => self.start(lane, request),
            HandleResult::TooLong(frame) => self.long = Some(LongRequest { frame, may_refuse }),
        }
    }

    /// Counts a statement that ran inline, and whose response is ready. Its latency is recorded
    /// when the response is sent.
    fn note_point(&mut self, received_at: Instant, ran: ExecutionSpan) {
        self.points += 1;
        if let Some(stages) = &self.shared.stages {
            stages.record_run(received_at, ran);
            self.points_ready_at.push(ran.ended_at);
        }
    }

    /// Returns whether the last decoded frame has waited longer than `target`; false without a
    /// target. Called for the frames of a burst that overload control may reject. For the first of
    /// them, sets `first_waited` to its wait, even without a target: this frame has waited longest.
    fn is_late(&mut self, target: Option<Duration>, first_waited: &mut Option<Duration>) -> bool {
        if target.is_none() && first_waited.is_some() {
            return false;
        }
        // The wait begins with the frame's last byte, because without that byte the frame could not
        // be served.
        let unserved_bytes = self.received.bytes() + 1;
        let now = self.shared.overload.now();
        let waited = match target {
            Some(_) => self.arrivals.waited_at_most(now, unserved_bytes),
            None => self.arrivals.waited(now, unserved_bytes),
        };
        let waited = waited.min(now.saturating_duration_since(self.ready_at));
        first_waited.get_or_insert(waited);
        target.is_some_and(|target| waited > target)
    }

    /// Returns whether the client may send any request, as opposed to STARTUP and the login only.
    fn takes_requests(&self) -> bool {
        self.session.has_started() && self.session.is_logged_in()
    }

    /// Returns the limits on received bytes. Before the login they are low, since a login needs
    /// only short frames, one per segment.
    fn limits(&self) -> Limits {
        let body_bytes_max = self.shared.options.body_bytes_max;
        if !self.session.is_logged_in() {
            let body_bytes_max = body_bytes_max.min(LOGIN_BODY_BYTES_MAX);
            return Limits {
                body_bytes_max,
                skipped_bytes_max: 0,
                payload_bytes_max: HEADER_BYTES + body_bytes_max,
            };
        }
        Limits {
            body_bytes_max,
            skipped_bytes_max: if self.takes_requests() {
                SKIPPED_BYTES_MAX
            } else {
                0
            },
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        }
    }

    /// Returns whether a request waits for the next turn, or the received bytes may contain a whole
    /// frame.
    fn has_frame(&self) -> bool {
        self.long.is_some() || self.received.has_frame(&self.limits())
    }

    /// Passes a request to other threads, those of the lane `lane`, or rejects it if there is no
    /// memory for its frame and its statements.
    fn start(&mut self, lane: Lane, mut request: Box<LaneRequest<S>>) {
        let body_bytes = request.frame.body.len();
        let memory = (self.shared.requests).wait(body_bytes, request.work.waiting_statements());
        match memory {
            Ok(memory) => request.memory = memory,
            // Like a request that has run, it may have a trace and entries in the audit log.
            Err(error) => {
                let reply = request.reply(Err(error), false);
                return self.take_reply(Waiting::small(reply));
            }
        }
        let body = std::mem::take(&mut request.frame.body);
        request.frame.body = own_body(body, self.received.buffer_bytes());
        self.running += 1;
        self.scans += usize::from(request.work.kind.is_scan());
        let Results { sender, share, .. } = self.results.get_or_insert_default();
        let (results, share) = (sender.clone(), share.clone());
        if lane != Lane::Write {
            tokio::spawn(run_in_lane(lane, request, share, results));
        } else if request.work.turns.is_some() {
            tokio::spawn(run_in_turn(request, results));
        } else {
            self.shared.commits.send(request, results);
        }
    }

    /// Appends the response `first` to a request that has run on another thread, and the responses
    /// to further such requests that are ready.
    fn take_results(&mut self, first: LaneResult) {
        let mut next = Some(first);
        while let Some(result) = next {
            let LaneResult {
                stream,
                is_scan,
                reply,
            } = result;
            self.running -= 1;
            self.scans -= usize::from(is_scan);
            match reply {
                Some(reply) => self.take_reply(reply),
                None => self.refuse(stream, panicked()),
            }
            next = if self.out.is_full() {
                None
            } else {
                (self.results.as_mut()).and_then(|it| it.receiver.try_recv().ok())
            };
        }
    }

    /// Appends the response to a request that has run on another thread, or was rejected instead,
    /// and applies the effects of the request on the connection.
    fn take_reply(&mut self, Waiting { value, _memory }: Waiting<Reply>) {
        if let Some(keyspace) = value.keyspace {
            self.session.use_keyspace(keyspace);
        }
        if let Some(ended) = value.login {
            self.session.end_login(ended);
        }
        self.writes_received_at.extend(value.point_received_at);
        self.slow.extend(value.slow.map(|slow| *slow));
        let value = value.frame;
        self.out.push(Waiting { value, _memory });
    }

    fn push_event(&mut self, change: SchemaChange) {
        if self.session.events.schema {
            let stream = ebb_cql::protocol::EVENT_STREAM;
            (self.session).answer(stream, &Response::Event(change), self.out.frames());
        }
    }

    async fn flush(&mut self) -> Result<(), Ended> {
        let patience = self.shared.options.write_timeout;
        let is_short = || self.shared.lanes.is_short();
        self.out.flush(&mut self.stream, patience, is_short).await?;
        if self.session.segments.is_some() {
            self.out.set_segments(self.session.segments);
            self.received.set_segments(self.session.segments);
        }
        if self.points > 0 {
            let sent_at = Instant::now();
            let took = sent_at.saturating_duration_since(self.received_at);
            for _ in 0..std::mem::take(&mut self.points) {
                self.shared.record(took);
            }
            if let Some(stages) = &self.shared.stages {
                stages.record_sent(self.points_ready_at.drain(..), sent_at);
            }
        }
        for received_at in self.writes_received_at.drain(..) {
            self.shared.record(received_at.elapsed());
        }
        self.slow.drain(..).for_each(Unsent::sent);
        Ok(())
    }
}

/// Reads bytes from a client, and returns their number; `None` if the client is too slow with a
/// request that is being skipped. Cancel-safe: dropping the future loses no bytes.
async fn read(
    stream: &mut Stream,
    received: &mut Received,
    skipping: &mut Progress,
) -> Result<Option<usize>, Ended> {
    poll_fn(|context| match poll_read(stream, received, context) {
        Poll::Ready(read) => Poll::Ready(read.map(Some)),
        // The deadline is checked after the read: after a pause of the server the bytes may have
        // arrived.
        Poll::Pending => skipping.poll_over(context).map(|()| Ok(None)),
    })
    .await
}

fn poll_read(
    stream: &mut Stream,
    received: &mut Received,
    context: &mut Context<'_>,
) -> Poll<Result<usize, Ended>> {
    READ_BUFFER.with_borrow_mut(|buffer| {
        let mut buffer = ReadBuf::new(buffer);
        match Pin::new(stream).poll_read(context, &mut buffer) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => Poll::Ready(Err(Ended::Quietly)),
            Poll::Ready(Ok(())) => {
                received.push(buffer.filled());
                Poll::Ready(Ok(buffer.filled().len()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
        }
    })
}

/// Waits for a deadline; for ever without one.
async fn over(time: &mut Option<Pin<Box<Sleep>>>) {
    match time {
        Some(time) => time.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Waits for the next result of a request that runs on another thread; for ever if the connection
/// never had such a request.
async fn next_result(results: &mut Option<Results>) -> Option<LaneResult> {
    match results {
        Some(results) => results.receiver.recv().await,
        None => std::future::pending().await,
    }
}

/// Waits for the next event; for ever if the client has not registered for events.
async fn next_event(events: &mut Option<broadcast::Receiver<SchemaChange>>) -> SchemaChange {
    loop {
        let Some(receiver) = events else {
            return std::future::pending().await;
        };
        match receiver.recv().await {
            Ok(event) => return event,
            // The client was too slow and missed events. On the next one, drivers read the whole
            // schema.
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => *events = None,
        }
    }
}
