//! The tail at half of peak: alone, beside three jobs in the server, beside a client that
//! pages the whole table in the idle class.
//!
//! Windows of all four conditions (alone comes twice) take turns in an order that is drawn
//! for each round, as in experiment colocation, and its statistics are used.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_cql::client::Client;
use ebb_cql::protocol::Compression;
use serde::{Deserialize, Serialize};

use super::server::Server;
use super::setting::Setting;
use super::steady::{LEAD, SteadyLoad};
use crate::experiments::colocation::bootstrap::{Estimate, ratios};
use crate::experiments::colocation::counts::{Counts, Pool};
use crate::experiments::colocation::disturbance::Observer;
use crate::experiments::statistics::mean;
use crate::threads::value_of;
use crate::ycsb::cql::{Plan, RawClient, enter_idle_class, pages};

/// Rows of the pager's pages, unless they reach the server's limit of bytes before.
const PAGE_ROWS: u32 = 1000;

/// Who is beside the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Alone,
    AloneAgain,
    Jobs,
    Pager,
}

const CONDITIONS: [Condition; 4] = [
    Condition::Alone,
    Condition::AloneAgain,
    Condition::Jobs,
    Condition::Pager,
];

/// What the part came to.
#[derive(Debug, Clone, Serialize)]
pub struct BesideLoad {
    /// Operations per second of a closed loop.
    pub peak_ops_per_s: f64,
    /// Those of the load: half of that, unless they were given.
    pub rate_ops_per_s: f64,
    /// Of the load alone, in microseconds.
    pub p50_us: f64,
    /// 99 in 100 took at most this.
    pub p99_us: f64,
    /// 999 in 1000 took at most this.
    pub p999_us: f64,
    /// p99 of the load alone over that of the load alone: noise.
    pub alone_again: Estimate,
    /// p99 beside three jobs over alone.
    pub jobs: Estimate,
    /// Cores that the jobs used over those that the load alone left idle.
    pub idle_cpu_used: f64,
    /// p99 beside the pager over alone.
    pub pager: Estimate,
    /// The part of the time, of each condition, that is left out because the machine
    /// paused; none where nobody could look.
    pub paused: Option<[f64; 4]>,
    /// Rows that the pager read per second.
    pub paged_rows_per_s: f64,
    /// Windows of each condition that others did not spoil; all count where that leaves
    /// fewer than two of one.
    pub windows: [usize; 4],
    /// Operations that were due and never began, over all windows.
    pub unserved: u64,
}

/// What the host says of the machine.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Sample {
    transactional_cores: f64,
    analytics_cores: f64,
    others_cores: f64,
}

struct Window {
    latencies: Counts,
    sample: Sample,
    paged_rows: u64,
    paused_s: Option<f64>,
    unserved: u64,
    is_spoiled: bool,
}

/// Measures it.
///
/// # Errors
/// What the server or a job says; a wrong value; an interrupt.
pub fn measure(setting: &Setting<'_>) -> Result<BesideLoad> {
    let args = setting.args;
    let mut server = Server::host(&setting.folder.join("hosted"))?;
    let mut client = setting.client(&server, None)?;
    server.settle()?;
    let SteadyLoad {
        peak_ops_per_s,
        rate_ops_per_s,
        plan,
    } = SteadyLoad::find(args, &mut client)?;
    let mut windows: [Vec<Window>; 4] = Default::default();
    setting.in_turns("beside", CONDITIONS.len(), |turn| {
        let window = play(&mut server, &mut client, &plan, CONDITIONS[turn])?;
        windows[turn].push(window);
        Ok(())
    })?;
    let cores = thread::available_parallelism().map_or(1, usize::from) as f64;
    let outcome = summary(&windows, cores, args.window + LEAD);
    Ok(BesideLoad {
        peak_ops_per_s,
        rate_ops_per_s,
        ..outcome
    })
}

fn play(
    server: &mut Server,
    client: &mut RawClient,
    plan: &Plan,
    condition: Condition,
) -> Result<Window> {
    if condition == Condition::Jobs {
        server.ask("start")?;
    }
    server.ask("sample")?;
    let observer = Observer::start()?;
    let (tally, paged_rows) = match condition {
        Condition::Pager => beside_pager(server, || client.run(plan, |_| ()))?,
        _ => (client.run(plan, |_| ())?, 0),
    };
    let disturbance = observer.end()?;
    let sample = serde_json::from_str(&server.ask("sample")?);
    let sample = sample.context("the host says what was used")?;
    if condition == Condition::Jobs {
        server.ask("stop")?;
    }
    tally.check_values()?;
    Ok(Window {
        latencies: Counts::from(&tally.all()),
        sample,
        paged_rows,
        paused_s: tally.paused.map(|paused| paused.as_secs_f64()),
        unserved: tally.unserved,
        is_spoiled: disturbance.spoils() || tally.is_mostly_paused(plan),
    })
}

/// Runs something beside a thread of the idle class that pages the table, again and again;
/// gives the rows that it read.
fn beside_pager<T>(server: &Server, run: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
    let is_over = AtomicBool::new(false);
    let goes_on = || !is_over.load(Ordering::Relaxed);
    thread::scope(|scope| {
        let pager = scope.spawn(|| -> Result<u64> {
            enter_idle_class()?;
            let mut client = Client::connect(server.address, Compression::None)?;
            let mut rows = 0;
            while goes_on() {
                rows += pages(&mut client, PAGE_ROWS, goes_on)?;
            }
            Ok(rows)
        });
        let ran = run();
        is_over.store(true, Ordering::Relaxed);
        let rows = value_of(pager.join())?;
        Ok((ran?, rows))
    })
}

fn summary(windows: &[Vec<Window>; 4], cores: f64, length: Duration) -> BesideLoad {
    let whole = |windows: &[Window]| windows.iter().filter(|it| !it.is_spoiled).count();
    let enough = windows.iter().all(|windows| whole(windows) >= 2);
    let counting = |which: usize| {
        windows[which]
            .iter()
            .filter(move |window| !enough || !window.is_spoiled)
    };
    let alone = || counting(0).chain(counting(1));
    let pool = |counts: Vec<&Counts>| Pool::new(&counts);
    let pool_of = |which| pool(counting(which).map(|window| &window.latencies).collect());
    let all_alone = pool(alone().map(|window| &window.latencies).collect());
    let [p50_us, p99_us, p999_us] = all_alone.quantiles_us(0..all_alone.len(), [0.5, 0.99, 0.999]);
    let [alone_again] = ratios(&pool_of(1), &pool_of(0), [0.99]);
    let [jobs] = ratios(&pool_of(2), &all_alone, [0.99]);
    let [pager] = ratios(&pool_of(3), &all_alone, [0.99]);
    let idle = mean(alone().map(|window| {
        let used = window.sample.transactional_cores + window.sample.others_cores.max(0.0);
        (cores - used - window.sample.analytics_cores).max(0.0)
    }));
    let used = mean(counting(2).map(|window| window.sample.analytics_cores));
    let paged = mean(counting(3).map(|window| window.paged_rows as f64));
    BesideLoad {
        peak_ops_per_s: 0.0,
        rate_ops_per_s: 0.0,
        p50_us,
        p99_us,
        p999_us,
        alone_again,
        jobs,
        idle_cpu_used: used / idle.max(1e-3),
        pager,
        paged_rows_per_s: paged / length.as_secs_f64(),
        paused: (0..4)
            .map(|which| {
                let paused = counting(which).map(|window| window.paused_s);
                let paused: Option<Vec<f64>> = paused.collect();
                Some(mean(paused?) / (length - LEAD).as_secs_f64())
            })
            .collect::<Option<Vec<f64>>>()
            .and_then(|paused| paused.try_into().ok()),
        windows: std::array::from_fn(|which| whole(&windows[which])),
        unserved: windows.iter().flatten().map(|window| window.unserved).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(slowest_us: u64, analytics_cores: f64, is_spoiled: bool) -> Window {
        let quick = std::iter::repeat_n(100_000, 98);
        Window {
            latencies: quick.chain([slowest_us * 1000; 2]).collect(),
            sample: Sample {
                transactional_cores: 0.5,
                analytics_cores,
                others_cores: 0.5,
            },
            paged_rows: 1000,
            paused_s: Some(0.2),
            unserved: 1,
            is_spoiled,
        }
    }

    #[test]
    fn conditions_are_compared_with_all_windows_alone_that_count() {
        let windows = [
            vec![
                window(1000, 0.0, false),
                window(1000, 0.0, false),
                window(9000, 0.0, true),
            ],
            vec![window(1000, 0.0, false), window(1000, 0.0, false)],
            vec![window(1100, 0.8, false), window(1100, 1.0, false)],
            vec![window(2000, 0.0, false), window(2000, 0.0, false)],
        ];
        let summary = summary(&windows, 2.0, Duration::from_secs(2));
        assert_eq!(summary.windows, [2; 4]);
        assert!((summary.p99_us / 1000.0 - 1.0).abs() < 0.01, "{summary:?}");
        assert!((summary.alone_again.value - 1.0).abs() < 1e-9);
        assert!((summary.jobs.value - 1.1).abs() < 1e-2);
        assert!((summary.pager.value - 2.0).abs() < 1e-2);
        assert!((summary.idle_cpu_used - 0.9).abs() < 1e-9);
        assert!((summary.paged_rows_per_s - 500.0).abs() < 1e-9);
        assert_eq!(summary.unserved, 9);
        assert!((summary.paused.unwrap()[3] - 0.2 / 1.5).abs() < 1e-9);
    }
}
