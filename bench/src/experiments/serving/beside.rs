//! The tail at half of peak: alone, beside three jobs in the server, and beside a client that pages
//! the whole table in the idle class.
//!
//! Windows of all four conditions (alone comes twice) take turns in an order that is drawn for each
//! round. The statistics are those of experiment colocation.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_cql::client::Client;
use ebb_cql::protocol::Compression;
use serde::{Deserialize, Serialize};

use super::report::PartResult;
use super::server::Server;
use super::setting::Setting;
use super::steady::{LEAD, MeasuredLoad, SteadyLoad};
use super::window::{ALONE, Window, Windows};
use crate::experiments::colocation::bootstrap::Estimate;
use crate::experiments::colocation::disturbance::Observer;
use crate::experiments::statistics::mean;
use crate::number::{fixed, percent};
use crate::threads::beside;
use crate::ycsb::cql::{Plan, RawClient, enter_idle_class, pages};

/// The most rows in a page of the client that reads the table page by page. A page has fewer rows
/// if it reaches the server's limit of bytes first.
const PAGE_ROWS: u32 = 1000;

/// The index of the condition with three jobs in the server.
const JOBS: usize = 2;
/// The index of the condition with a client that reads the table page by page.
const PAGER: usize = 3;
/// The number of conditions that are compared: the load alone (twice), beside three jobs, and
/// beside a client that reads the table page by page.
const CONDITIONS: usize = 4;

#[derive(Debug, Clone, Serialize)]
pub struct BesideLoad {
    #[serde(flatten)]
    pub load: MeasuredLoad,
    /// Median latency of the load alone, in microseconds.
    pub p50_us: f64,
    pub p999_us: f64,
    /// The p99 of the load beside three jobs, divided by that of the load alone.
    pub jobs: Estimate,
    /// The ratio of the cores that the jobs used to those that the load alone left idle.
    pub idle_cpu_used: f64,
    /// The p99 of the load beside a client that reads the table page by page, divided by that of
    /// the load alone.
    pub pager: Estimate,
    /// The fraction of the time that is left out because the machine paused, for each condition;
    /// `None` if pauses could not be observed.
    pub paused: Option<Vec<f64>>,
    /// Rows per second that were read by the client that reads the table page by page.
    pub paged_rows_per_s: f64,
}

impl PartResult for BesideLoad {
    fn lines(&self) -> Vec<String> {
        let load = &self.load;
        let mut lines = vec![
            format!(
                "open loop at {:.0} ops/s (peak {:.0}): p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us",
                load.rate_ops_per_s, load.peak_ops_per_s, self.p50_us, load.p99_us, self.p999_us
            ),
            format!(
                "  p99 over alone: alone again {}, three jobs {}, a pager {}",
                load.alone_again, self.jobs, self.pager
            ),
            format!(
                "  jobs used {} of what was idle; the pager read {:.0} rows/s; windows that count \
                 {:?}",
                fixed(self.idle_cpu_used, 2),
                self.paged_rows_per_s,
                load.windows
            ),
        ];
        lines.push(match &self.paused {
            Some(paused) => {
                let paused: Vec<String> = paused.iter().map(|part| percent(*part, 1)).collect();
                let paused = paused.join(", ");
                format!("  left out because the machine paused: {paused}")
            }
            None => "  pauses of the machine count, because they could not be observed".to_owned(),
        });
        if load.unserved + load.timed_out > 0 {
            lines.push(format!("  {}", load.unanswered()));
        }
        lines
    }
}

/// The mean numbers of cores in use during a window, by requests, by jobs and by other processes,
/// as measured by the process that hosts the server.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Sample {
    transactional_cores: f64,
    analytics_cores: f64,
    others_cores: f64,
}

/// The measurements of a window that only the part `beside` of the experiment takes.
struct WindowSample {
    sample: Sample,
    paged_rows: u64,
    paused_s: Option<f64>,
}

pub fn measure(setting: &Setting<'_>) -> Result<BesideLoad> {
    let args = setting.args;
    let mut server = Server::host(&setting.folder.join("hosted"))?;
    let mut client = setting.client(&server, None)?;
    server.settle()?;
    let load = SteadyLoad::find(args, &mut client)?;
    let windows = setting.in_turns("beside", CONDITIONS, |turn| {
        play(&mut server, &mut client, &load.plan, turn)
    })?;
    let cores = thread::available_parallelism().map_or(1, usize::from) as f64;
    let measured = load.measured(&windows);
    Ok(summary(measured, &windows, cores, args.window + LEAD))
}

fn play(
    server: &mut Server,
    client: &mut RawClient,
    plan: &Plan,
    condition: usize,
) -> Result<Window<WindowSample>> {
    if condition == JOBS {
        server.request("start")?;
    }
    server.request("sample")?;
    let observer = Observer::start()?;
    let (tally, paged_rows) = match condition {
        PAGER => beside_pager(server, || client.run(plan, |_| ()))?,
        _ => (client.run(plan, |_| ())?, 0),
    };
    let disturbance = observer.end()?;
    let sample = serde_json::from_str(&server.request("sample")?);
    let sample = sample.context("the host returned no sample")?;
    if condition == JOBS {
        server.request("stop")?;
    }
    let measured = WindowSample {
        sample,
        paged_rows,
        paused_s: tally.paused.map(|paused| paused.as_secs_f64()),
    };
    Window::new(plan, &tally, &tally.all(), disturbance, measured)
}

/// Calls `run` while a thread of the idle class reads the table page by page, again and again.
/// Returns also the number of rows that the thread read.
fn beside_pager<T>(server: &Server, run: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
    beside(run, |is_over| {
        let goes_on = || !is_over.load(Ordering::Relaxed);
        enter_idle_class()?;
        let mut client = Client::connect(server.address, Compression::None)?;
        let mut rows = 0;
        while goes_on() {
            rows += pages(&mut client, PAGE_ROWS, goes_on)?;
        }
        Ok(rows)
    })
}

fn summary(
    load: MeasuredLoad,
    windows: &Windows<WindowSample>,
    cores: f64,
    length: Duration,
) -> BesideLoad {
    let [p50_us, p999_us] = windows.alone_us([0.5, 0.999]);
    let idle = mean(windows.counting(&ALONE).map(|window| {
        let sample = &window.more.sample;
        let used = sample.transactional_cores + sample.others_cores.max(0.0);
        (cores - used - sample.analytics_cores).max(0.0)
    }));
    let jobs = windows.counting(&[JOBS]);
    let used = mean(jobs.map(|window| window.more.sample.analytics_cores));
    let pager = windows.counting(&[PAGER]);
    let paged = mean(pager.map(|window| window.more.paged_rows as f64));
    let paused = |condition| {
        let counting = windows.counting(std::slice::from_ref(&condition));
        let paused_s = counting.map(|window| window.more.paused_s);
        let paused_s = mean(paused_s.collect::<Option<Vec<f64>>>()?);
        Some(paused_s / (length - LEAD).as_secs_f64())
    };
    BesideLoad {
        load,
        p50_us,
        p999_us,
        jobs: windows.p99(JOBS, &ALONE),
        idle_cpu_used: used / idle.max(1e-3),
        pager: windows.p99(PAGER, &ALONE),
        paged_rows_per_s: paged / length.as_secs_f64(),
        paused: (0..CONDITIONS).map(paused).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::tests::window;
    use super::*;

    fn measured(analytics_cores: f64) -> WindowSample {
        WindowSample {
            sample: Sample {
                transactional_cores: 0.5,
                analytics_cores,
                others_cores: 0.5,
            },
            paged_rows: 1000,
            paused_s: Some(0.2),
        }
    }

    #[test]
    fn conditions_are_compared_with_all_windows_alone_that_count() {
        let mut windows = Windows::new(CONDITIONS);
        for (condition, slowest_us, analytics_cores) in [
            (0, 1000, [0.0, 0.0]),
            (1, 1000, [0.0, 0.0]),
            (JOBS, 1100, [0.8, 1.0]),
            (PAGER, 2000, [0.0, 0.0]),
        ] {
            for cores in analytics_cores {
                windows.push(condition, window(slowest_us, false, measured(cores)));
            }
        }
        windows.push(0, window(9000, true, measured(0.0)));
        let load = MeasuredLoad::new(2.0, 1.0, &windows);
        assert_eq!(load.windows, [2; 4]);
        assert!((load.p99_us / 1000.0 - 1.0).abs() < 0.01, "{load:?}");
        assert!((load.alone_again.value - 1.0).abs() < 1e-9);
        assert_eq!((load.unserved, load.timed_out), (9, 18));
        let unanswered = "9 operations were due and never began, and 18 timed out";
        assert_eq!(load.unanswered(), unanswered);
        let summary = summary(load, &windows, 2.0, Duration::from_secs(2));
        assert!(summary.lines().contains(&format!("  {unanswered}")));
        assert!((summary.jobs.value - 1.1).abs() < 1e-2);
        assert!((summary.pager.value - 2.0).abs() < 1e-2);
        assert!((summary.idle_cpu_used - 0.9).abs() < 1e-9);
        assert!((summary.paged_rows_per_s - 500.0).abs() < 1e-9);
        assert!((summary.paused.unwrap()[3] - 0.2 / 1.5).abs() < 1e-9);
    }
}
