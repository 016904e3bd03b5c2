//! The bursts of a connection: the frames that it serves before other connections get their turn on
//! its thread.

use std::time::{Duration, Instant};

use ebb_cql::protocol::{Frame, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use tokio::runtime::Handle;

use super::Connection;
use crate::call::Service;
use crate::serve::received::Limits;
use crate::serve::replies::{overloaded, stopping};
use crate::serve::session::HandleResult;
use crate::serve::skip::SKIPPED_BYTES_MAX;

/// The most frames that a connection serves in one burst, before other connections get their turn
/// on its thread.
const BURST_FRAMES: usize = 64;
/// The time after which a connection ends its burst, even if it has served fewer than
/// [`BURST_FRAMES`]: 64 statements that have to be parsed take much longer than 64 prepared ones.
const BURST_TIME: Duration = Duration::from_micros(500);
/// The longest request body in bytes before the client has logged in.
const LOGIN_BODY_BYTES_MAX: usize = 16 << 10;

/// A request whose analysis takes too long for the thread of its connection. The counters of requests
/// already include it.
pub(super) struct LongRequest {
    frame: Frame,
    /// True if overload control may reject the request.
    may_refuse: bool,
}

impl<S: Service> Connection<S> {
    /// Serves several received frames, or a single one that is large or takes long to analyse. For
    /// such a single frame, the connection moves to another thread, so that other connections of
    /// this thread go on. If `stops` is true, because the server stops, rejects the frames instead.
    ///
    /// Returns the connection, and true if it has to end. Returns `None` if the connection was lost
    /// by a panic, or because no thread could be started.
    pub(super) async fn serve(mut self: Box<Self>, stops: bool) -> Option<(Box<Self>, bool)> {
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
                Some(LongRequest { frame, may_refuse }) => {
                    if stops {
                        self.refuse(frame.stream, stopping());
                    } else {
                        self.handle(frame, may_refuse, false);
                    }
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
        if self.session.has_registered() {
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
                    self.unsent.add_point(&self.shared, received_at, ran);
                }
                self.unsent.add_slow(slow);
            }
            HandleResult::InLane(lane, request) => self.start(lane, request),
            HandleResult::TooLong(frame) => self.long = Some(LongRequest { frame, may_refuse }),
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

    /// Returns the limits on received bytes. Before the login they are low, since a login needs
    /// only short frames, one per segment.
    pub(super) fn limits(&self) -> Limits {
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
            skipped_bytes_max: if self.session.has_started() {
                SKIPPED_BYTES_MAX
            } else {
                0
            },
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        }
    }
}
