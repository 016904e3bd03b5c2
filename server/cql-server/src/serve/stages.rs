//! Latencies of point requests by stage, for metrics.
//!
//! ```text
//!   last byte read ─── queued ───> begun ─── executed ───> response ready ─── sent ───> sent
//! ```
//!
//! Only requests count that run on the thread of their connection and succeed. `queued` is the time
//! behind other requests of the same connection, including decoding. `executed` includes parsing
//! and planning. `sent` includes the time until the other requests of a burst are executed, because
//! one system call sends all responses of a burst.
//!
//! The time before the read is in no stage, since the kernel does not report when bytes arrive. A
//! client can measure it as the difference of its own latencies to the sum of the stages.
//!
//! The cost is one addition for each stage of a request. The times are taken anyway, for the log of
//! slow requests and for the latencies of whole requests.

use std::time::{Duration, Instant};

use ebb_colocate::{Latencies, LatencyCounts};

/// The begin and the end of a request's execution on the thread of its connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExecutionSpan {
    pub begun_at: Instant,
    /// The time at which the response was ready.
    pub ended_at: Instant,
}

impl ExecutionSpan {
    pub(super) fn took(self) -> Duration {
        self.ended_at.saturating_duration_since(self.begun_at)
    }
}

#[derive(Debug, Default)]
pub(super) struct Stages {
    queued: Latencies,
    executed: Latencies,
    sent: Latencies,
}

impl Stages {
    /// Records the time in the queue and the execution time of a request whose response is ready.
    pub(super) fn record_run(&self, received_at: Instant, ran: ExecutionSpan) {
        let queued = ran.begun_at.saturating_duration_since(received_at);
        self.queued.record(queued);
        self.executed.record(ran.took());
    }

    /// Records how long responses took to be sent: they were ready at the times `ready_at`, and
    /// sent at `sent_at`.
    pub(super) fn record_sent(&self, ready_at: impl Iterator<Item = Instant>, sent_at: Instant) {
        for ready_at in ready_at {
            self.sent
                .record(sent_at.saturating_duration_since(ready_at));
        }
    }

    /// Returns the latencies recorded so far, with the names of the stages.
    pub(super) fn counts(&self) -> [(&'static str, LatencyCounts); 3] {
        let Self {
            queued,
            executed,
            sent,
        } = self;
        [("queued", queued), ("executed", executed), ("sent", sent)]
            .map(|(stage, latencies)| (stage, latencies.counts()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn each_stage_has_its_own_part_of_the_time() {
        let received_at = Instant::now(); // clock: the base of a test's times
        let stages = Stages::default();
        let begun_at = received_at + MS;
        let ended_at = begun_at + 10 * MS;
        stages.record_run(received_at, ExecutionSpan { begun_at, ended_at });
        stages.record_sent([ended_at].into_iter(), ended_at + 100 * MS);
        for ((stage, counts), expected) in stages.counts().into_iter().zip([MS, 10 * MS, 100 * MS])
        {
            assert_eq!(counts.total(), 1, "{stage}");
            let expected_us = expected.as_secs_f64() * 1e6;
            let ratio = counts.sum_us() / expected_us;
            assert!((0.95..1.05).contains(&ratio), "{stage}: {ratio}");
        }
    }
}
