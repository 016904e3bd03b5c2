//! One connection: its frames in, its responses out.
//!
//! ```text
//! input          reads of received bytes
//! burst          the frames that one turn serves
//! lane_requests  the requests on other threads, and the way of their results
//! measurements   latencies, recorded when the responses are sent
//! ```

mod burst;
mod input;
mod lane_requests;
mod measurements;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use ebb_cql::protocol::{
    Direction, EVENT_STREAM, ErrorResponse, FrameDecoder, Response, SchemaChange,
};
use tokio::sync::{broadcast, watch};
use tokio::time::{Sleep, sleep_until, timeout};

use self::burst::LongRequest;
use self::input::{READ_BYTES, read, read_arrived};
use self::lane_requests::RequestsInLanes;
use self::measurements::UnsentMeasurements;
use super::arrivals::Arrivals;
use super::lane_request::{LaneRequest, run_in_lane, run_in_turn};
use super::lane_result::{LaneResult, Reply};
use super::outbox::Outbox;
use super::received::{Received, ReceivedError};
use super::replies::{overloaded, panicked};
use super::requests::{LARGE_BYTES, RequestMemory, own_body};
use super::response_memory::Waiting;
use super::session::Session;
use super::shared::Shared;
use super::skip::Progress;
use super::stream::Stream;
use crate::call::{Lane, Service};

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
    unsent: UnsentMeasurements,
    in_lanes: RequestsInLanes,
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
            unsent: UnsentMeasurements::default(),
            in_lanes: RequestsInLanes::default(),
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
        if !stops {
            return Ok(false);
        }
        // A client that has not sent STARTUP has no requests that need a response.
        if !self.session.has_started() {
            return Err(Ended::Quietly);
        }
        // The requests that the client had sent when the server began to stop get a response, too.
        if !std::mem::replace(&mut self.has_read_last, true) {
            let read_bytes = read_arrived(&mut self.stream, &mut self.received).await?;
            if read_bytes > 0 {
                self.note_arrivals(read_bytes);
            }
        }
        Ok(true)
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
        let has_next = has_room && (self.long.is_some() || self.received.has_frame(&self.limits()));
        if stops && self.in_lanes.running() == 0 && !has_next {
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
        let waits_for_scans = !has_room && self.in_lanes.are_mostly_scans();
        let wait_began = waits_for_scans.then(|| self.shared.overload.now());
        tokio::select! {
            () = over(&mut self.startup) => return Err(Ended::Quietly),
            result = self.in_lanes.next() => self.take_results(result),
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
        stops || self.in_lanes.running() < self.shared.options.lane_requests_max
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
        let error = if self.session.has_started() && self.session.is_logged_in() {
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
        let unused = (self.in_lanes.running() == 0).then_some(0);
        if let Some(stream) = self.received.first_stream().or(unused) {
            self.refuse(stream, overloaded());
            self.flush().await?;
        }
        Err(Ended::WithError)
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
        let (results, share) = self.in_lanes.begin(request.work.kind.is_scan());
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
        while let Some(LaneResult { stream, reply, .. }) = next {
            match reply {
                Some(reply) => self.take_reply(reply),
                None => self.refuse(stream, panicked()),
            }
            next = if self.out.is_full() {
                None
            } else {
                self.in_lanes.try_next()
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
        self.unsent.add_write(value.point_received_at);
        self.unsent.add_slow(value.slow);
        let value = value.frame;
        self.out.push(Waiting { value, _memory });
    }

    fn push_event(&mut self, change: SchemaChange) {
        if self.session.events.schema {
            (self.session).answer(EVENT_STREAM, &Response::Event(change), self.out.frames());
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
        self.unsent.record(&self.shared, self.received_at);
        Ok(())
    }
}

/// Waits for a deadline; for ever without one.
async fn over(time: &mut Option<Pin<Box<Sleep>>>) {
    match time {
        Some(time) => time.as_mut().await,
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
