//! The measured windows of a part, and the comparison of its conditions.

use std::fmt;

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::experiments::colocation::bootstrap::{Estimate, p99_ratio};
use crate::experiments::colocation::counts::{Counts, Pool};
use crate::experiments::colocation::disturbance::{Disturbance, Observer};
use crate::experiments::statistics::mean;
use crate::ycsb::Operation;
use crate::ycsb::cql::{Plan, RawClient, Tally};

/// The indexes of the two conditions under which the load runs alone, one to measure it and one to
/// show the noise. They are the first in each part of the experiment.
pub const ALONE: [usize; 2] = [0, 1];

/// The measurements of one window.
#[derive(Debug)]
pub struct Window<M> {
    latencies: Counts,
    /// The number of operations that were due and never began.
    pub unserved: u64,
    /// The number of operations that the server gave up after its timeout for requests.
    pub timed_out: u64,
    /// The number of the client's operations that the server rejected for overload.
    refused: u64,
    /// True if other processes or the host took too much of the machine, or the machine paused for
    /// most of the window.
    is_spoiled: bool,
    /// Measurements that are specific to the part of the experiment.
    pub more: M,
}

/// The measured windows, by the index of their condition (such as the load alone).
#[derive(Debug)]
pub struct Windows<M>(Vec<Vec<Window<M>>>);

/// CPU and memory of the server in a window.
#[derive(Debug)]
pub struct ServerUse {
    /// CPU time, in seconds.
    pub cpu_s: f64,
    /// Resident memory, in bytes: at the end of the window, or the peak within it if the part of
    /// the experiment measures peaks.
    pub memory_bytes: u64,
}

/// A condition (jobs or other work beside the load) compared with the load alone.
#[derive(Debug, Clone, Serialize)]
pub struct Beside {
    /// The ratio of the p99 to that of the load alone.
    pub p99: Estimate,
    /// The ratio of the server's CPU time in a window to that of the load alone.
    pub cpu: f64,
    /// The number of the client's operations that the server rejected for overload.
    pub refused: u64,
    /// The number of windows of this condition that other processes, the host or pauses of the
    /// machine did not disturb (spoil). If any condition has fewer than two of these, the disturbed
    /// ones are compared too.
    pub windows: usize,
    /// The largest resident memory of the server in a window of the condition, in bytes.
    pub most_bytes: u64,
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "p99 {} of alone, the server's CPU {:.2}; {} windows count, {} refused, {} MiB at most",
            self.p99,
            self.cpu,
            self.windows,
            self.refused,
            self.most_bytes >> 20
        )
    }
}

impl<M> Window<M> {
    /// Returns the measurements of the window in which `plan` was run. Windows are compared by
    /// `latencies`, which may be those of only some operations in `tally`; `more` has measurements
    /// that are specific to the part of the experiment.
    ///
    /// # Errors
    /// When the server returned wrong values.
    pub fn new(
        plan: &Plan,
        tally: &Tally,
        latencies: &Histogram<u64>,
        disturbance: Disturbance,
        more: M,
    ) -> Result<Self> {
        tally.check_values()?;
        Ok(Self {
            latencies: Counts::from(latencies),
            unserved: tally.unserved,
            timed_out: tally.timed_out,
            refused: tally.refused,
            is_spoiled: disturbance.spoils() || tally.is_mostly_paused(plan),
            more,
        })
    }
}

impl Window<()> {
    /// Runs a window of the load. Only its reads are compared.
    ///
    /// # Errors
    /// When the server fails or returns wrong values.
    pub fn of_reads(client: &mut RawClient, plan: &Plan) -> Result<Self> {
        let observer = Observer::start()?;
        let tally = client.run(plan, |_| ())?;
        let disturbance = observer.end()?;
        let reads = &tally.nanos[Operation::Read.index()];
        Self::new(plan, &tally, reads, disturbance, ())
    }
}

impl<M> Windows<M> {
    pub fn new(conditions: usize) -> Self {
        Self((0..conditions).map(|_| Vec::new()).collect())
    }

    pub fn push(&mut self, condition: usize, window: Window<M>) {
        self.0[condition].push(window);
    }

    pub fn all(&self) -> impl Iterator<Item = &Window<M>> {
        self.0.iter().flatten()
    }

    /// Returns the number of windows of each condition that were not disturbed (spoiled) by other
    /// processes, the host or pauses of the machine.
    pub fn whole(&self) -> Vec<usize> {
        let whole = |windows: &Vec<Window<M>>| windows.iter().filter(|it| !it.is_spoiled).count();
        self.0.iter().map(whole).collect()
    }

    /// Returns the windows of `conditions` that are compared: those that other processes, the host
    /// or pauses of the machine did not disturb, or all windows if any condition has fewer than two
    /// such windows.
    pub fn counting(&self, conditions: &[usize]) -> impl Iterator<Item = &Window<M>> {
        let are_enough = self.whole().iter().all(|whole| *whole >= 2);
        self.played(conditions)
            .filter(move |window| !are_enough || !window.is_spoiled)
    }

    fn played(&self, conditions: &[usize]) -> impl Iterator<Item = &Window<M>> {
        (conditions.iter()).flat_map(move |condition| &self.0[*condition])
    }

    fn pool(&self, conditions: &[usize]) -> Pool {
        Pool::new(self.counting(conditions).map(|window| &window.latencies))
    }

    /// Returns quantiles of the latencies of the load alone, in microseconds.
    pub fn alone_us<const N: usize>(&self, quantiles: [f64; N]) -> [f64; N] {
        self.pool(&ALONE).all_us(quantiles)
    }

    /// Returns the ratio of the p99 under the condition with the index `condition` to
    /// that under the conditions `others` together.
    pub fn p99(&self, condition: usize, others: &[usize]) -> Estimate {
        p99_ratio(&self.pool(&[condition]), &self.pool(others))
    }
}

impl Windows<ServerUse> {
    /// Compares the windows under a condition of the experiment, given by its index, with those
    /// under the conditions `others`.
    pub fn beside(&self, condition: usize, others: &[usize]) -> Beside {
        let cpu_s = |conditions: &[usize]| mean(self.played(conditions).map(|it| it.more.cpu_s));
        let played = || self.0[condition].iter();
        Beside {
            p99: self.p99(condition, others),
            cpu: cpu_s(&[condition]) / cpu_s(others),
            refused: played().map(|window| window.refused).sum(),
            windows: self.whole()[condition],
            most_bytes: (played().map(|window| window.more.memory_bytes))
                .max()
                .unwrap_or_default(),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a window with a hundred reads. The slowest two took `slowest_us`.
    pub fn window<M>(slowest_us: u64, is_spoiled: bool, more: M) -> Window<M> {
        let quick = std::iter::repeat_n(100_000, 98);
        Window {
            latencies: quick.chain([slowest_us * 1000; 2]).collect(),
            unserved: 1,
            timed_out: 2,
            refused: 0,
            is_spoiled,
            more,
        }
    }

    #[test]
    fn a_condition_is_compared_with_all_windows_alone_that_count() {
        let mut windows = Windows::new(3);
        for (condition, slowest_us) in [1000, 1000, 1100].into_iter().enumerate() {
            windows.push(condition, window(slowest_us, false, ()));
            windows.push(condition, window(slowest_us, false, ()));
        }
        windows.push(0, window(9000, true, ()));
        assert_eq!(windows.whole(), [2; 3]);
        let [p99_us] = windows.alone_us([0.99]);
        assert!((p99_us / 1000.0 - 1.0).abs() < 0.01, "{p99_us}");
        assert!((windows.p99(1, &[0]).value - 1.0).abs() < 1e-9);
        assert!((windows.p99(2, &ALONE).value - 1.1).abs() < 1e-2);
    }
}
