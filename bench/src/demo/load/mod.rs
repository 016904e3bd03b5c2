//! The transactional load: either threads of this process that call the store, or a client in a
//! process of its own that sends CQL to a server.
//!
//! ```text
//!   Load ── start ─> LoadRun ── latest, join ─> LoadReport
//!     ├─ embedded: the driver, over the store
//!     └─ process ─── lines of JSON ─── client: the same load through CQL
//! ```

mod client;
mod process;

use std::sync::Arc;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use anyhow::Result;
use ebb_colocate::{Latencies, LoadMonitor};
use ebb_storage::{Db, Table};
use serde::{Deserialize, Serialize};

pub use self::client::run_client;
pub(super) use self::process::LoadProcess;
use self::process::ProcessRun;
use super::day::Day;
use crate::ycsb::{Driver, Interval, Pace, ReadFrom, Report, RunOptions};

/// The bytes of a value: few, so that the cost of a request is the store's work and not copying.
pub(super) const VALUE_BYTES: usize = 256;
/// The number of operations that are due together, such as those of one page that a front end
/// builds. An operation takes microseconds. Operations that are due one by one would wake a thread
/// tens of thousands of times a second, and the measurement would be one of wake-ups.
const BURST: u32 = 50;

/// The rate of the load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LoadPace {
    /// A closed loop: each operation starts when the one before has ended.
    Closed,
    /// An open loop at a constant rate.
    Steady { ops_per_s: f64 },
    /// An open loop whose rate rises and falls over a day.
    Day {
        /// Length of the compressed day in seconds.
        seconds: f64,
        /// Operations per second at the peak.
        peak_ops_per_s: f64,
    },
}

impl LoadPace {
    fn pace(self) -> Pace {
        match self {
            Self::Closed => Pace::Closed,
            Self::Steady { ops_per_s } => Pace::steady(ops_per_s),
            Self::Day {
                seconds,
                peak_ops_per_s,
            } => {
                let day = Day { seconds };
                Pace::Open(Arc::new(move |t_s: f64| {
                    peak_ops_per_s * day.load_of_peak(t_s)
                }))
            }
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LoadReport {
    /// Operations done per second.
    pub ops_per_s: f64,
    /// The median latency from the intended start of each operation, in microseconds.
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    /// The number of operations that the server rejected for overload. Their latencies are not
    /// counted.
    pub refused: u64,
    /// The measurements of each interval of the run. A client's report leaves them out, because the
    /// client sends each interval as it ends.
    #[serde(skip)]
    pub timeline: Vec<Interval>,
}

impl From<Report> for LoadReport {
    fn from(report: Report) -> Self {
        let all = &report.latencies_all;
        Self {
            ops_per_s: report.throughput_ops_per_s,
            p50_us: all.p50_us,
            p99_us: all.p99_us,
            p999_us: all.p999_us,
            refused: 0,
            timeline: report.timeline,
        }
    }
}

/// The source of the load.
#[derive(Debug)]
pub(super) enum Load {
    /// Threads of this process.
    Embedded { db: Db, users: Table },
    /// A client of the server, in a process of its own.
    Process(LoadProcess),
}

impl Load {
    /// Starts a run that ends after `length` or when it is stopped. An embedded load records its
    /// latencies in `latencies` too, for the guard, which limits jobs so that latencies keep their
    /// objective. A server records the latencies of its requests itself.
    ///
    /// # Errors
    /// When the store or the client's process fails.
    pub fn start(
        &self,
        cores: u32,
        pace: LoadPace,
        length: Option<Duration>,
        latencies: Option<Latencies>,
    ) -> Result<LoadRun> {
        Ok(match self {
            Self::Embedded { db, users } => {
                let options = RunOptions {
                    threads: cores.max(2) as usize,
                    pace: pace.pace(),
                    duration: length,
                    value_bytes: VALUE_BYTES,
                    // Threads sleep until the next operation: spinning would use CPU time that is
                    // left for analytics.
                    spin: Duration::ZERO,
                    burst: BURST,
                    latencies,
                    ..RunOptions::new("a".parse().expect("workload a is known"))
                };
                let driver = Driver::start(db, users, &ReadFrom::Live, options)?;
                LoadRun::Embedded(driver)
            }
            Self::Process(process) => LoadRun::Process(process.start(pace, length)?),
        })
    }

    /// Starts to measure the cores that the load uses.
    ///
    /// # Errors
    /// When the CPU time of a process or thread cannot be read.
    pub fn monitor(&self) -> Result<LoadUse<'_>> {
        Ok(LoadUse {
            load: self,
            monitor: LoadMonitor::start()?,
            client_s: self.client_cpu_s()?,
        })
    }

    fn client_cpu_s(&self) -> Result<f64> {
        match self {
            Self::Embedded { .. } => Ok(0.0),
            Self::Process(process) => process.cpu_s(),
        }
    }
}

/// Measures the cores that the load uses, from sample to sample.
pub(super) struct LoadUse<'a> {
    load: &'a Load,
    monitor: LoadMonitor,
    client_s: f64,
}

/// Cores that were used between two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct UsedCores {
    /// Cores used by the load: the store's work and, if the client is another process, the client's
    /// own work, because it takes cores from jobs just the same.
    pub load: f64,
    /// Cores used by other processes, or taken by the host of a virtual machine.
    pub others: f64,
}

impl LoadUse<'_> {
    /// Returns the cores that were used since the last sample.
    ///
    /// # Errors
    /// When the CPU time of a process or thread cannot be read.
    pub fn sample(&mut self) -> Result<UsedCores> {
        let used = self.monitor.sample()?;
        let client_s = self.load.client_cpu_s()?;
        let before_s = std::mem::replace(&mut self.client_s, client_s);
        let client = (client_s - before_s) / used.length_s.max(1e-3);
        Ok(UsedCores {
            load: used.transactional_cores + client,
            others: (used.others_cores - client).max(0.0),
        })
    }
}

/// A run of the load that is under way.
pub(super) enum LoadRun {
    Embedded(Driver),
    Process(ProcessRun),
}

impl LoadRun {
    /// Returns the last interval that has ended; `None` during the first.
    pub fn latest(&self) -> Option<Interval> {
        match self {
            Self::Embedded(driver) => driver.timeline().latest(),
            Self::Process(run) => run.latest(),
        }
    }

    /// Waits for the end of the run, at most for `timeout`. Returns whether it has ended.
    pub fn wait_for_end(&self, timeout: Duration) -> bool {
        const LOOK: Duration = Duration::from_millis(10);
        match self {
            Self::Embedded(driver) => driver.wait_for_end(timeout),
            Self::Process(run) => {
                let began = Instant::now();
                loop {
                    let left = timeout.saturating_sub(began.elapsed());
                    if run.has_ended() || left.is_zero() {
                        return run.has_ended();
                    }
                    park_timeout(left.min(LOOK));
                }
            }
        }
    }

    /// Makes the run end soon. [`Self::join`] waits for the end.
    pub fn stop(&self) {
        match self {
            Self::Embedded(driver) => driver.stop(),
            Self::Process(run) => run.stop(),
        }
    }

    /// Waits for the end of the run.
    ///
    /// # Errors
    /// When an operation failed, or the client's process ended.
    pub fn join(self) -> Result<LoadReport> {
        match self {
            Self::Embedded(driver) => Ok(driver.join()?.into()),
            Self::Process(run) => run.join(),
        }
    }
}

/// A command to the client: one line of JSON on its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    /// Loads records until the table has `records` records.
    Load { records: u64 },
    /// Runs the load. The run ends after `seconds`, if given, or earlier by [`Self::Stop`].
    Run {
        pace: LoadPace,
        seconds: Option<f64>,
    },
    /// Ends the latest command early.
    Stop,
}

/// A message of the client: one line of JSON on its standard output.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    /// The number of records loaded so far.
    Loaded(u64),
    /// One interval of the run.
    Interval(Interval),
    /// The command was carried out; if it was a run, this is the run's report.
    Ended(Option<LoadReport>),
    /// The command failed, for this reason.
    Failed(String),
}
