//! One client: its frames in, its responses out.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ebb_cql::protocol::{
    Direction, ErrorResponse, FrameDecoder, HEADER_BYTES, PAYLOAD_BYTES_MAX, Response, SchemaChange,
};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{Sleep, sleep_until, timeout};

use super::arrivals::Arrivals;
use super::lane_request::{LaneRequest, run_in_lane, run_in_turn};
use super::lane_result::LaneResult;
use super::lanes::{Share, Waiting};
use super::outbox::Outbox;
use super::received::{Limits, Received, ReceivedError};
use super::replies::{overloaded, stopping};
use super::requests::{LARGE_BYTES, RequestMemory};
use super::session::{Handled, Session};
use super::shared::Shared;
use super::skip::{Progress, SKIPPED_BYTES_MAX};
use super::slow::Unsent;
use super::stages::Execution;
use super::stream::Stream;
use crate::call::{Lane, Service};

/// Frames of a connection that are served before other connections get their turn on this thread.
const BURST_FRAMES: usize = 64;
/// The time after which a burst ends even with fewer frames: parsing and preparing statements takes
/// longer than executing prepared ones.
const BURST_TIME: Duration = Duration::from_micros(500);
/// What is read at once.
const READ_BYTES: usize = 64 << 10;
/// The longest body before the client has logged in.
const LOGIN_BODY_BYTES_MAX: usize = 16 << 10;

thread_local! {
    /// Connections keep only what is not yet a whole frame, so one buffer for each
    /// thread is enough to read into.
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// A connection, from its accept to its end.
pub(super) struct Connection<S: Service> {
    stream: Stream,
    shared: Arc<Shared<S>>,
    session: Session<S>,
    decoder: FrameDecoder,
    /// Received and not yet decoded.
    received: Received,
    received_at: Instant,
    /// The progress of a request that is being skipped.
    skipping: Progress,
    /// The memory that received bytes take if they are more than [`LARGE_BYTES`].
    memory: RequestMemory,
    arrivals: Arrivals,
    /// Overload control rejects none of its requests: it sends far fewer than others.
    is_small: bool,
    out: Outbox,
    /// Requests in `out` whose latency counts, of those received last.
    points: u32,
    /// When the response to each of these was ready, if latencies are measured by stage.
    points_ready_at: Vec<Instant>,
    /// When each write was received that ran in a lane and whose response is in `out`.
    writes_received_at: Vec<Instant>,
    /// Slow requests whose responses are in `out`.
    slow: Vec<Unsent>,
    /// Made for the first request that runs in a lane: it takes some KiB.
    results: Option<Results>,
    running: usize,
    events: Option<broadcast::Receiver<SchemaChange>>,
    stop: watch::Receiver<bool>,
    /// The server stops, and the requests that the client had sent by then have been read.
    has_read_last: bool,
    /// The time that the client has to start, then to log in; nothing once it has.
    startup: Option<Pin<Box<Sleep>>>,
    /// It has started, and has to log in.
    logs_in: bool,
}

/// The channel for results of requests that run in a lane.
struct Results {
    sender: mpsc::UnboundedSender<LaneResult>,
    receiver: mpsc::UnboundedReceiver<LaneResult>,
    /// How many results may wait for this client.
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

/// The reason why a connection ends, which decides how its socket is closed.
enum Ended {
    /// Either side is done, or the connection broke.
    Quietly,
    /// The last response is an error, and the client may still be sending.
    WithError,
    /// The server stops, and has not read all that the client sent.
    Unread,
}

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Self {
        Self::Quietly
    }
}

impl<S: Service> Connection<S> {
    /// Of a client that has to have started at `start_by`.
    pub(super) fn new(
        stream: Stream,
        peer: SocketAddr,
        start_by: Instant,
        shared: Arc<Shared<S>>,
    ) -> Self {
        let now = Instant::now();
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
            skipping: Progress::default(),
            memory: RequestMemory::default(),
            arrivals: Arrivals::new(shared.overload.now()),
            is_small: false,
            points: 0,
            points_ready_at: Vec::new(),
            writes_received_at: Vec::new(),
            slow: Vec::new(),
            results: None,
            running: 0,
            events: None,
            stop: shared.stop.subscribe(),
            has_read_last: false,
            startup: Some(Box::pin(sleep_until(start_by.into()))),
            logs_in: false,
            shared,
        }
    }

    pub(super) async fn run(mut self) {
        let ended = loop {
            if let Err(ended) = self.turn().await {
                break ended;
            }
        };
        // No longer than a client that does nothing stays.
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
            // A client that is sending reads its responses and ends the stream soon.
            Ended::Unread => stream.end_after_error(patience).await,
        }
    }

    /// Frees all that the connection holds but its stream, and the signal to stop.
    fn into_stream(self) -> (Stream, watch::Receiver<bool>) {
        (self.stream, self.stop)
    }

    async fn turn(&mut self) -> Result<(), Ended> {
        let stops = *self.stop.borrow();
        if stops {
            if !self.session.has_started() {
                return Err(Ended::Quietly);
            }
            self.read_last().await?;
        }
        let is_fatal = self.serve(stops).await;
        self.flush().await?;
        if is_fatal {
            return Err(Ended::WithError);
        }
        // A request that is refused because the server stops takes no place in a lane.
        let has_room = stops || self.running < self.shared.options.lane_requests_max;
        let has_next = has_room && self.has_frame();
        if stops && self.running == 0 && !has_next {
            let unread_bytes = self.stream.unread_bytes();
            return Err(if unread_bytes == 0 {
                Ended::Quietly
            } else {
                Ended::Unread
            });
        }
        self.count_received().await?;
        if has_next {
            tokio::task::yield_now().await;
            return Ok(());
        }
        self.received.shrink();
        if self.session.has_started() {
            if self.session.is_logged_in() {
                self.startup = None;
            } else if !self.logs_in {
                self.logs_in = true;
                let login_by = Instant::now() + self.shared.options.login_timeout;
                self.startup = Some(Box::pin(sleep_until(login_by.into())));
            }
        }
        let skipped_bytes = self.received.skipped_bytes().filter(|_| has_room);
        let patience = self.shared.options.request_timeout;
        self.skipping.note(skipped_bytes, patience);
        tokio::select! {
            () = over(&mut self.startup) => return Err(Ended::Quietly),
            Some(result) = next_result(&mut self.results) => self.take_results(result),
            event = next_event(&mut self.events) => self.tell(event),
            read = read(&mut self.stream, &mut self.received, &mut self.skipping), if has_room => {
                match read? {
                    Some(read_bytes) => self.note_arrivals(read_bytes),
                    None => return self.give_up_skip().await,
                }
            }
            changed = self.stop.changed(), if !stops => {
                // Without a sender the server is gone, and so is the runtime.
                changed.map_err(|_| Ended::Quietly)?;
            }
        }
        Ok(())
    }

    fn note_arrivals(&mut self, read_bytes: usize) {
        self.received_at = Instant::now();
        // A read that was not full has left nothing.
        let left_bytes = match read_bytes < READ_BYTES {
            true => 0,
            false => self.stream.unread_bytes(),
        };
        let turn = self.shared.overload.turn();
        let bytes = (self.received.bytes() - read_bytes, read_bytes);
        let now = self.shared.overload.now();
        self.arrivals.read(now, bytes, left_bytes, turn);
        let unserved_bytes = self.received.bytes() + left_bytes;
        self.is_small = self.shared.overload.is_small(unserved_bytes);
    }

    /// Reads what the client has sent by now, when the server stops: those requests are answered, too.
    async fn read_last(&mut self) -> Result<(), Ended> {
        if std::mem::replace(&mut self.has_read_last, true) {
            return Ok(());
        }
        let (stream, received) = (&mut self.stream, &mut self.received);
        poll_fn(|context| match poll_read(stream, received, context) {
            Poll::Ready(read) => Poll::Ready(read.map(|_| ())),
            Poll::Pending => Poll::Ready(Ok(())),
        })
        .await
    }

    /// Serves some of the frames that were received, or one that is large, or refuses them if the server
    /// `stops`. Returns true if the connection has to end.
    async fn serve(&mut self, stops: bool) -> bool {
        if !self.is_large_next() {
            return self.serve_received(BURST_FRAMES, stops);
        }
        let shared = self.shared.clone();
        let _turn = shared.requests.turn().await;
        // Another thread serves the connections of this one meanwhile.
        tokio::task::block_in_place(|| self.serve_received(1, stops))
    }

    fn is_large_next(&self) -> bool {
        self.received.has_large_frame(&self.limits())
    }

    /// Answers a request whose client sends it too slowly to be skipped, and ends the connection.
    async fn give_up_skip(&mut self) -> Result<(), Ended> {
        if let Some(problem) = self.received.give_up_skip() {
            self.answer_problem(problem);
        }
        self.flush().await?;
        Err(Ended::WithError)
    }

    /// Appends the response to received bytes that are no request.
    fn answer_problem(&mut self, problem: ReceivedError) {
        let stream = problem.stream();
        let response = if self.takes_requests() {
            ErrorResponse::from(problem)
        } else {
            // A client that has not logged in may send short messages only.
            ErrorResponse::protocol(problem.to_string())
        };
        (self.session).answer(stream, &Response::Error(response), self.out.frames());
    }

    /// Takes memory for the received bytes if they are more than [`LARGE_BYTES`].
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
        let response = Response::Error(overloaded());
        (self.session).answer(0, &response, self.out.frames());
        self.flush().await?;
        Err(Ended::WithError)
    }

    /// Serves up to `frames_max` of the frames that were received, or refuses them if the server `stops`.
    /// Returns true if the connection has to end.
    fn serve_received(&mut self, frames_max: usize, stops: bool) -> bool {
        let overload = self.shared.overload.clone();
        let target = overload.target().filter(|_| !self.is_small);
        // Counts of the requests that may be refused: the waits of other requests show no overload.
        let (mut served, mut refused) = (0, 0);
        let mut first_waited = None;
        let mut is_fatal = false;
        let burst_began = Instant::now();
        for number in 0..frames_max {
            let has_room = stops || self.running < self.shared.options.lane_requests_max;
            if !has_room || self.out.is_full() {
                break;
            }
            // Large ones are for another turn.
            if number > 0 && (burst_began.elapsed() > BURST_TIME || self.is_large_next()) {
                break;
            }
            // The answer to STARTUP goes out before anything is in segments.
            if self.session.segments.is_some() && !self.received.has_segments() {
                break;
            }
            // All may have changed with the frame before.
            self.decoder
                .set_compression(self.session.coding.compression);
            let limits = self.limits();
            self.decoder.set_body_bytes_max(limits.body_bytes_max);
            if self.session.has_started() {
                self.decoder.set_version(self.session.coding.version);
            }
            match self.received.decode(&self.decoder, &limits) {
                Ok(None) => break,
                Ok(Some(frame)) if stops => {
                    self.shared.traffic.request(frame.opcode);
                    let response = Response::Error(stopping());
                    (self.session).answer(frame.stream, &response, self.out.frames());
                }
                Ok(Some(frame)) => {
                    self.shared.traffic.request(frame.opcode);
                    let may_refuse = self.session.may_refuse(&frame);
                    if may_refuse {
                        if self.is_late(target, &mut first_waited) {
                            let response = Response::Error(overloaded());
                            (self.session).answer(frame.stream, &response, self.out.frames());
                            refused += 1;
                            continue;
                        }
                        served += 1;
                    }
                    let out = self.out.frames();
                    let received_at = self.received_at;
                    match self.session.handle(frame, may_refuse, received_at, out) {
                        Handled::Answered {
                            is_point,
                            ran,
                            slow,
                        } => {
                            if is_point {
                                self.note_point(received_at, ran);
                            }
                            self.slow.extend(slow.map(|slow| *slow));
                        }
                        Handled::InLane(lane, request) => self.start(lane, request),
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
        if self.session.events.schema || self.session.events.status || self.session.events.topology
        {
            let events = &self.shared.events;
            self.events.get_or_insert_with(|| events.subscribe());
        }
        is_fatal
    }

    /// Notes a point request whose response is ready. It counts when that is sent.
    fn note_point(&mut self, received_at: Instant, ran: Execution) {
        self.points += 1;
        if let Some(stages) = &self.shared.stages {
            stages.record_run(received_at, ran);
            self.points_ready_at.push(ran.ended_at);
        }
    }

    /// Returns whether the frame that was read last has waited for longer than the target. Notes
    /// how long the first one of a burst has waited, also without a target.
    fn is_late(&mut self, target: Option<Duration>, first_waited: &mut Option<Duration>) -> bool {
        if target.is_none() && first_waited.is_some() {
            return false;
        }
        // Since its last byte: before, it was not there to be served.
        let unserved_bytes = self.received.bytes() + 1;
        let now = self.shared.overload.now();
        let waited = match target {
            Some(_) => self.arrivals.waited_at_most(now, unserved_bytes),
            None => self.arrivals.waited(now, unserved_bytes),
        };
        first_waited.get_or_insert(waited);
        target.is_some_and(|target| waited > target)
    }

    /// Returns whether the client may send requests, and not only what it takes to log in.
    fn takes_requests(&self) -> bool {
        self.session.has_started() && self.session.is_logged_in()
    }

    /// Returns the limits on received bytes. Short frames, one to a segment, will do to log in.
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

    /// Whether there may be a whole frame among what was received.
    fn has_frame(&self) -> bool {
        self.received.has_frame(&self.limits())
    }

    /// Starts a request in its lane, or refuses it if there is no memory for its frame.
    fn start(&mut self, lane: Lane, mut request: Box<LaneRequest<S>>) {
        match self.shared.requests.wait(request.frame.body.len()) {
            Ok(memory) => request.memory = memory,
            Err(error) => {
                let response = Response::Error(error);
                return (self.session).answer(request.stream(), &response, self.out.frames());
            }
        }
        self.running += 1;
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

    /// Appends a result, and others that came with it.
    fn take_results(&mut self, first: LaneResult) {
        let mut next = Some(first);
        while let Some(LaneResult { stream, reply }) = next {
            self.running -= 1;
            match reply {
                Some(Waiting { value, _memory }) => {
                    if let Some(keyspace) = value.keyspace {
                        self.session.use_keyspace(keyspace);
                    }
                    if let Some(user) = value.login {
                        self.session.end_login(user);
                    }
                    self.writes_received_at.extend(value.point_received_at);
                    self.slow.extend(value.slow.map(|slow| *slow));
                    let value = value.frame;
                    self.out.push(Waiting { value, _memory });
                }
                None => {
                    let message = "the request failed by a bug of the server; see its log";
                    let response = Response::Error(ErrorResponse::server(message));
                    (self.session).answer(stream, &response, self.out.frames());
                }
            }
            next = match self.out.is_full() {
                true => None,
                false => (self.results.as_mut()).and_then(|it| it.receiver.try_recv().ok()),
            };
        }
    }

    fn tell(&mut self, change: SchemaChange) {
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
            let took = self.received_at.elapsed();
            for _ in 0..std::mem::take(&mut self.points) {
                self.shared.record(took);
            }
        }
        if let Some(stages) = &self.shared.stages
            && !self.points_ready_at.is_empty()
        {
            stages.record_sent(self.points_ready_at.drain(..), Instant::now());
        }
        for received_at in self.writes_received_at.drain(..) {
            self.shared.record(received_at.elapsed());
        }
        self.slow.drain(..).for_each(Unsent::sent);
        Ok(())
    }
}

/// Appends what a client sends, and returns the number of its bytes; `None` if the client is too slow
/// to send a request that is being skipped. A caller that gives up waiting loses nothing.
async fn read(
    stream: &mut Stream,
    received: &mut Received,
    skipping: &mut Progress,
) -> Result<Option<usize>, Ended> {
    poll_fn(|context| match poll_read(stream, received, context) {
        Poll::Ready(read) => Poll::Ready(read.map(Some)),
        // Only now: after a pause of the server the client's bytes may be there.
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

/// When a time is over; never where there is none.
async fn over(time: &mut Option<Pin<Box<Sleep>>>) {
    match time {
        Some(time) => time.as_mut().await,
        None => std::future::pending().await,
    }
}

/// The next result; never one where no request has run in a lane.
async fn next_result(results: &mut Option<Results>) -> Option<LaneResult> {
    match results {
        Some(results) => results.receiver.recv().await,
        None => std::future::pending().await,
    }
}

/// The next event; never one for who does not want any.
async fn next_event(events: &mut Option<broadcast::Receiver<SchemaChange>>) -> SchemaChange {
    loop {
        let Some(receiver) = events else {
            return std::future::pending().await;
        };
        match receiver.recv().await {
            Ok(event) => return event,
            // Too slow for so many: drivers read the whole schema with the next one.
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => *events = None,
        }
    }
}
