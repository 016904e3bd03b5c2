//! The measured windows of one condition, and their summary.

use std::fmt;

use serde::Serialize;

use crate::experiments::colocation::bootstrap::{Estimate, ratios};
use crate::experiments::colocation::counts::{Counts, Pool};

/// The measurements of one window.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) latencies: Counts,
    /// Operations of the client that the server rejected for overload.
    pub(super) refused: u64,
    /// CPU time of the server, in seconds.
    pub(super) used_s: f64,
    /// Resident memory of the server, in bytes: at the end of the window, or the peak within it if the
    /// part measures that.
    pub(super) memory_bytes: u64,
    /// True if other processes or the host took too much of the machine.
    pub(super) is_spoiled: bool,
}

/// All windows of one condition.
#[derive(Debug, Default)]
pub(super) struct Windows(pub(super) Vec<Window>);

/// A condition compared with the load alone.
#[derive(Debug, Clone, Serialize)]
pub struct Beside {
    /// The p99 over that of the load alone.
    pub p99: Estimate,
    /// CPU of the server in a window, over that of the load alone.
    pub cpu: f64,
    /// The client's operations that the server rejected for overload.
    pub refused: u64,
    /// Windows that were not spoiled. Spoiled windows count too if any condition has fewer than two
    /// others.
    pub windows: usize,
    /// The largest resident memory of the server of a window, in bytes.
    pub most_bytes: u64,
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { value, low, high } = self.p99;
        write!(
            f,
            "p99 {value:.2} ({low:.2} to {high:.2}) of alone, the server's CPU {:.2}; {} windows \
             count, {} refused, {} MiB at most",
            self.cpu,
            self.windows,
            self.refused,
            self.most_bytes >> 20
        )
    }
}

impl Windows {
    /// Returns the number of windows that were not spoiled.
    pub(super) fn whole(&self) -> usize {
        self.0.iter().filter(|window| !window.is_spoiled).count()
    }

    /// Compares this condition with the load alone. If there are `enough` windows that were not
    /// spoiled, only these count for the p99.
    pub(super) fn beside(&self, alone: &[&Self], enough: bool) -> Beside {
        let [p99] = ratios(&pool(&[self], enough), &pool(alone, enough), [0.99]);
        let used_s = |windows: &[&Self]| {
            let windows = windows.iter().flat_map(|windows| &windows.0);
            windows.clone().map(|it| it.used_s).sum::<f64>() / windows.count() as f64
        };
        Beside {
            p99,
            cpu: used_s(&[self]) / used_s(alone),
            refused: self.0.iter().map(|it| it.refused).sum(),
            windows: self.whole(),
            most_bytes: (self.0.iter().map(|it| it.memory_bytes))
                .max()
                .unwrap_or_default(),
        }
    }
}

/// Returns the p99 of all windows together, in microseconds.
pub(super) fn p99_us(windows: &[&Windows], enough: bool) -> f64 {
    let pool = pool(windows, enough);
    let [p99_us] = pool.quantiles_us(0..pool.len(), [0.99]);
    p99_us
}

fn pool(windows: &[&Windows], enough: bool) -> Pool {
    let windows = windows.iter().flat_map(|windows| &windows.0);
    let counting = windows.filter(|it| !enough || !it.is_spoiled);
    let counting: Vec<&Counts> = counting.map(|it| &it.latencies).collect();
    Pool::new(&counting)
}
