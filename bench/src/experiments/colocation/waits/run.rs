//! Windows of the load whose threads are traced.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use ebb_colocate::LoadMonitor;
use ebb_scheduler::runtime::Throttles;
use procfs::process::Process;

use super::super::analytics::{Analytics, Beside, Held};
use super::super::args::Extent;
use super::super::setup::{Load, Setup};
use super::super::window::play;
use super::event::{Event, Tid, Trace};
use super::replay::{Replayed, Role, replay};
use super::report::{Condition, Waits};
use super::tracefs::{Tracer, kernel_threads};
use crate::console::progress_bar;
use crate::ycsb::SlowOperation;

/// The slowest part of all requests is looked at.
const SLOWEST: f64 = 0.01;
/// Requests are reported one by one from this quantile on of an untraced window alone: a
/// bit more of them than are looked at.
const REPORTED_FROM: f64 = 0.97;
/// Traced up to here, as a part of a window: threads that have ended have no names.
const TRACED: f64 = 0.98;
/// The names of threads that serve requests; the kernel keeps 15 characters.
const REQUEST_THREAD: &str = "ycsb-worker";

/// What one window showed.
#[derive(Debug)]
pub struct TracedWindow {
    /// 99 in 100 requests took at most this, in microseconds.
    pub p99_us: f64,
    /// Requests that were done.
    pub requests: u64,
    /// The slow ones.
    pub slow: Vec<SlowOperation>,
    /// How many of them are the slowest 1%.
    pub slowest: usize,
    /// Cores used by jobs.
    pub analytics_cores: f64,
    /// Of the request threads, by the kernel's own count.
    pub counted: Counted,
    /// None without tracefs.
    pub replayed: Option<Replayed>,
    /// Events that found no room.
    pub lost: u64,
}

/// What the kernel counts of the request threads (`schedstat`) in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    /// The time that they were ready and had no core, in nanoseconds.
    pub waited_ns: u64,
    /// How often they got a core.
    pub runs: u64,
    /// The length of the window, in seconds.
    pub length_s: f64,
}

/// Runs the load alone and beside jobs in turn, and records what its threads wait for.
///
/// # Errors
/// What a window's; an interrupt.
pub fn run(setup: &Setup, load: &Load, extent: Extent, interrupted: &AtomicBool) -> Result<Waits> {
    let tracer = Tracer::new();
    let why_not = tracer.as_ref().err().map(ToString::to_string);
    let tracer = tracer.ok();
    let untraced = play(setup, load, extent.window, &Beside::Nobody)?;
    let load = Load {
        slow_from: Some(untraced.latencies.quantile(REPORTED_FROM)),
        ..load.clone()
    };
    let never_yielding = Held {
        throttles: Throttles {
            yield_every: None,
            ..Throttles::default()
        },
        ..Held::default()
    };
    let conditions = [
        ("alone", Beside::Nobody),
        ("beside jobs", Beside::Managed(Held::default())),
        (
            "beside jobs that never yield",
            Beside::Managed(never_yielding),
        ),
    ];
    let mut windows = conditions.each_ref().map(|_| Vec::new());
    let bar = progress_bar("waits", u64::from(extent.rounds));
    for _ in 0..extent.rounds {
        for ((_, beside), windows) in conditions.iter().zip(&mut windows) {
            ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
            windows.push(traced(
                setup,
                &load,
                extent.window,
                beside,
                tracer.as_ref(),
            )?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let named = conditions.iter().zip(&windows);
    Ok(Waits {
        not_traced: why_not,
        conditions: named
            .map(|((name, _), windows)| Condition::of(name, windows))
            .collect(),
    })
}

fn traced(
    setup: &Setup,
    load: &Load,
    length: Duration,
    beside: &Beside,
    tracer: Option<&Tracer>,
) -> Result<TracedWindow> {
    let analytics = Analytics::start(setup, beside)?;
    let driver = setup.start_load(load, length, None)?;
    driver.wait_for_end(load.lead);
    let mut monitor = LoadMonitor::start()?;
    let before = RequestThreads::now()?;
    if let Some(tracer) = tracer {
        tracer.start()?;
    }
    driver.wait_for_end(length.mul_f64(TRACED));
    if let Some(tracer) = tracer {
        tracer.stop()?;
    }
    let after = RequestThreads::now()?;
    let used = monitor.sample()?;
    let own: Vec<Tid> = (Process::myself()?.tasks()?)
        .filter_map(|task| Some(task.ok()?.tid.unsigned_abs()))
        .collect();
    let report = driver.join()?;
    if let Some(analytics) = &analytics {
        analytics.check()?;
    }
    drop(analytics);
    let trace = tracer.map(Tracer::read).transpose()?;
    let counted = report.sections.last().expect("a load has sections");
    let requests = counted.latencies.len();
    Ok(TracedWindow {
        p99_us: counted.latencies.value_at_quantile(0.99) as f64 / 1e3,
        requests,
        slow: match &trace {
            Some(trace) => within(trace, report.slow),
            None => Vec::new(),
        },
        slowest: (requests as f64 * SLOWEST).ceil() as usize,
        analytics_cores: used.analytics_cores,
        counted: Counted {
            length_s: used.length_s,
            ..after.since(&before)
        },
        lost: trace.as_ref().map_or(0, |trace| trace.lost),
        replayed: trace.map(|trace| {
            let roles = roles(&trace, &before, &own);
            replay(&trace, |tid| {
                roles.get(&tid).copied().unwrap_or(Role::Other)
            })
        }),
    })
}

/// Those whose whole time is in the trace.
fn within(trace: &Trace, mut slow: Vec<SlowOperation>) -> Vec<SlowOperation> {
    let at = |event: Option<&Event>| event.map_or(0, |event| event.at_us);
    let (first, last) = (at(trace.events.first()), at(trace.events.last()));
    slow.retain(|it| it.due_us >= first && it.ended_us <= last);
    slow
}

/// What each thread of a trace is. Threads of jobs come and go, so it is their name that
/// says so.
fn roles(trace: &Trace, requests: &RequestThreads, own: &[Tid]) -> HashMap<Tid, Role> {
    let kernel = kernel_threads();
    let role = |tid: Tid, name: &str| match name {
        _ if requests.0.contains_key(&tid) => Role::Request,
        "ebb-task" => Role::Task,
        "ebb-flush" | "ebb-compact" | "ebb-wal-sync" => Role::Store,
        "ebb-control" | "ebb-guard" => Role::Control,
        _ if own.contains(&tid) => Role::Own,
        _ if kernel.contains(&tid) => Role::Kernel,
        _ => Role::Other,
    };
    let names = trace.names.iter();
    names.map(|(tid, name)| (*tid, role(*tid, name))).collect()
}

/// The request threads, and what the kernel counts of each.
struct RequestThreads(HashMap<Tid, Counted>);

impl RequestThreads {
    fn now() -> Result<Self> {
        let mut threads = HashMap::new();
        for task in Process::myself()?.tasks()? {
            let Ok(task) = task else { continue };
            let folder = format!("/proc/self/task/{}", task.tid);
            let read = |file: &str| std::fs::read_to_string(format!("{folder}/{file}"));
            // A thread may end between the listing and the reading.
            let (Ok(name), Ok(schedstat)) = (read("comm"), read("schedstat")) else {
                continue;
            };
            let mut numbers = schedstat.split_whitespace().map(str::parse::<u64>);
            if name.trim() == REQUEST_THREAD
                && let (Some(_), Some(Ok(waited_ns)), Some(Ok(runs))) =
                    (numbers.next(), numbers.next(), numbers.next())
            {
                let counted = Counted {
                    waited_ns,
                    runs,
                    length_s: 0.0,
                };
                threads.insert(task.tid.unsigned_abs(), counted);
            }
        }
        Ok(Self(threads))
    }

    fn since(&self, before: &Self) -> Counted {
        let mut sum = Counted::default();
        for (tid, now) in &self.0 {
            let before = before.0.get(tid).copied().unwrap_or_default();
            sum.waited_ns += now.waited_ns.saturating_sub(before.waited_ns);
            sum.runs += now.runs.saturating_sub(before.runs);
        }
        sum
    }
}
