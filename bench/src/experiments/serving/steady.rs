//! The load of the parts that measure tail latency: an open loop at the rate of the argument
//! `--rate` or, by default, at half of the peak rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::args::ServingArgs;
use super::window::{ALONE, Windows};
use crate::experiments::colocation::bootstrap::Estimate;
use crate::experiments::statistics::median;
use crate::threads::value_of;
use crate::ycsb::cql::{Operations, Plan, RawClient};
use crate::ycsb::{Pace, Workload};

/// The workload: 95% reads.
const WORKLOAD: &str = "b";
/// The time at the beginning of a window in which latencies are not measured.
pub(super) const LEAD: Duration = Duration::from_millis(500);
/// The interval at which the client sends the operations that are due and reads the responses. If
/// the client woke up for each request, the wake-ups would double the cost of a request for both
/// client and server.
const TICK: Duration = Duration::from_micros(100);
/// The number of closed loops that are run to find the peak rate. The peak is the median of their
/// rates, because the first loop has cold caches.
const PEAK_RUNS: usize = 3;

/// A load with a constant rate.
pub(super) struct SteadyLoad {
    /// The median rate of closed loops, in operations per second.
    pub(super) peak_ops_per_s: f64,
    /// The rate of the load, in operations per second: half of the peak, unless a rate was given.
    pub(super) rate_ops_per_s: f64,
    /// The plan of one window of the load. A stall of the machine may last longer than the server's
    /// timeout for requests, so operations that time out are counted, and do not end the run.
    pub(super) plan: Plan,
}

/// The load in the measured windows of a part. Most parts measure the latencies of its reads only.
#[derive(Debug, Clone, Serialize)]
pub struct MeasuredLoad {
    /// The peak rate: operations per second of a closed loop.
    pub peak_ops_per_s: f64,
    /// Operations per second of the load: half of the peak, unless a rate was given.
    pub rate_ops_per_s: f64,
    /// The p99 of the load alone, in microseconds.
    pub p99_us: f64,
    /// The ratio of the p99 of the load alone to that in other windows of the load alone: noise.
    pub alone_again: Estimate,
    /// The number of windows of each condition, in the order of the conditions (the load alone
    /// comes first, twice), that were not spoiled (disturbed by other processes or pauses of the
    /// machine). If any condition has fewer than two of these, spoiled windows are compared too.
    pub windows: Vec<usize>,
    /// The number of operations that were due and never began, over all windows.
    pub unserved: u64,
    /// The number of operations that the server gave up after its timeout for requests, over all
    /// windows. Their latencies until then count.
    pub timed_out: u64,
}

impl MeasuredLoad {
    pub fn new<M>(peak_ops_per_s: f64, rate_ops_per_s: f64, windows: &Windows<M>) -> Self {
        let [p99_us] = windows.alone_us([0.99]);
        Self {
            peak_ops_per_s,
            rate_ops_per_s,
            p99_us,
            alone_again: windows.p99(ALONE[1], &ALONE[..1]),
            windows: windows.whole(),
            unserved: windows.all().map(|window| window.unserved).sum(),
            timed_out: windows.all().map(|window| window.timed_out).sum(),
        }
    }

    /// Returns a part of a sentence about the operations that never began or timed out.
    pub fn unanswered(&self) -> String {
        let Self {
            unserved,
            timed_out,
            ..
        } = self;
        format!("{unserved} operations were due and never began, and {timed_out} timed out")
    }
}

impl SteadyLoad {
    /// Returns the results that all parts with this load have in common.
    pub(super) fn measured<M>(&self, windows: &Windows<M>) -> MeasuredLoad {
        MeasuredLoad::new(self.peak_ops_per_s, self.rate_ops_per_s, windows)
    }

    /// Measures the peak rate of the server by closed loops, and returns the load that follows from it.
    pub(super) fn find(args: &ServingArgs, client: &mut RawClient) -> Result<Self> {
        Self::find_of(WORKLOAD.parse()?, args, client)
    }

    /// Measures the peak rate like [`find`](Self::find), with the workload `workload` in place of
    /// [`WORKLOAD`].
    pub(super) fn find_of(
        workload: Workload,
        args: &ServingArgs,
        client: &mut RawClient,
    ) -> Result<Self> {
        let closed = Plan {
            duration: Some(args.window * 2),
            value_bytes: args.value_bytes as usize,
            ..Plan::new(Operations::Run(workload, Some(args.distribution)))
        };
        let peaks: Vec<f64> = (0..PEAK_RUNS)
            .map(|_| Ok(client.run(&closed, |_| ())?.throughput_ops_per_s()))
            .collect::<Result<_>>()?;
        let peak_ops_per_s = median(peaks);
        let rate_ops_per_s = args.rate.map_or(peak_ops_per_s / 2.0, f64::from);
        Ok(Self {
            peak_ops_per_s,
            rate_ops_per_s,
            plan: Plan {
                pace: Pace::steady(rate_ops_per_s),
                tick: TICK,
                duration: Some(args.window + LEAD),
                lead: LEAD,
                leave_out_pauses: true,
                takes_timeouts: true,
                ..closed
            },
        })
    }

    /// Calls `work` while the load runs, and returns the result of `work`. The load is not measured.
    ///
    /// # Errors
    /// When the load fails, reads a wrong value or times out, or `work` fails.
    pub(super) fn beside<T>(
        &self,
        client: &mut RawClient,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let stop = Arc::new(AtomicBool::new(false));
        let plan = Plan {
            duration: None,
            stop: Arc::clone(&stop),
            leave_out_pauses: false,
            takes_timeouts: false,
            ..self.plan.clone()
        };
        thread::scope(|scope| {
            let load = scope.spawn(|| client.run(&plan, |_| ()));
            let worked = work();
            stop.store(true, Ordering::Relaxed);
            value_of(load.join())?.check_values()?;
            worked
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a measured load. The upper end of its noise is above the bars of all parts: a part
    /// that compared this end with its bar would miss the bar.
    pub fn measured_load() -> MeasuredLoad {
        MeasuredLoad {
            peak_ops_per_s: 2.0,
            rate_ops_per_s: 1.0,
            p99_us: 1.0,
            alone_again: Estimate {
                value: 1.0,
                low: 0.5,
                high: 1.5,
            },
            windows: vec![2; 4],
            unserved: 0,
            timed_out: 0,
        }
    }
}
