//! The measurements of responses that are not sent yet.

use std::time::Instant;

use crate::call::Service;
use crate::serve::shared::Shared;
use crate::serve::slow::Unsent;
use crate::serve::stages::ExecutionSpan;

/// The measurements of the responses that a connection has not sent yet. They are recorded when the
/// responses are sent.
#[derive(Default)]
pub(super) struct UnsentMeasurements {
    /// The number of statements that arrived with the last read from the socket, and ran on the
    /// connection's thread.
    points: u32,
    /// The times at which the responses to the statements of `points` were ready; empty unless
    /// latencies are measured by stage.
    points_ready_at: Vec<Instant>,
    /// The arrival times of writes that ran outside of
    /// [`Session::handle`](crate::serve::session::Session::handle): on the thread that commits
    /// writes in groups (the commit lane), or in a task.
    writes_received_at: Vec<Instant>,
    /// Reports of slow requests.
    slow: Vec<Unsent>,
}

impl UnsentMeasurements {
    /// Adds a statement that arrived at `received_at`, and ran on the connection's thread.
    pub(super) fn add_point<S: Service>(
        &mut self,
        shared: &Shared<S>,
        received_at: Instant,
        ran: ExecutionSpan,
    ) {
        self.points += 1;
        if let Some(stages) = &shared.stages {
            stages.record_run(received_at, ran);
            self.points_ready_at.push(ran.ended_at);
        }
    }

    /// Adds the arrival time of a request that ran on another thread; `None` unless it was a write
    /// whose latency counts.
    pub(super) fn add_write(&mut self, received_at: Option<Instant>) {
        self.writes_received_at.extend(received_at);
    }

    /// Adds the report of a request, if it was slow.
    pub(super) fn add_slow(&mut self, slow: Option<Box<Unsent>>) {
        self.slow.extend(slow.map(|slow| *slow));
    }

    /// Records all measurements, since the responses are sent now. `received_at` is the time of the
    /// last read from the socket.
    pub(super) fn record<S: Service>(&mut self, shared: &Shared<S>, received_at: Instant) {
        if self.points > 0 {
            let sent_at = Instant::now();
            let took = sent_at.saturating_duration_since(received_at);
            for _ in 0..std::mem::take(&mut self.points) {
                shared.record(took);
            }
            if let Some(stages) = &shared.stages {
                stages.record_sent(self.points_ready_at.drain(..), sent_at);
            }
        }
        for received_at in self.writes_received_at.drain(..) {
            shared.record(received_at.elapsed());
        }
        self.slow.drain(..).for_each(Unsent::sent);
    }
}
