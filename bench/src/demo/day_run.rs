//! The day itself: the load, and the jobs beside it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use ebb_colocate::{
    ColocatedOptions, GuardSample, Latencies, LoadHistory, LoadMonitor, LoadSample, Objective,
};
use ebb_scheduler::availability::Availability;
use ebb_scheduler::policy;
use ebb_scheduler::runtime::{
    CycleSample, JobHandle, JobReport, JobSpec, Management, Outcome, RuntimeOptions,
};
use ebb_server::node::{Node, NodeOptions, Stop};

use super::Policy;
use super::day::{Day, LoadCost};
use super::measure::load_options;
use super::plan::EXTRA_HOUR;
use super::setup::Setup;
use super::show::Show;
use crate::ycsb::{Driver, Pace, ReadFrom, Report, RunOptions};

/// Control cycles in a day: each is a tenth of an hour.
pub(super) const CYCLES_PER_DAY: f64 = 240.0;
/// Slots in which the load of a day alone is measured: half an hour each, long
/// enough that a flush does not fill one.
const SLOTS_PER_DAY: f64 = 48.0;
/// Between two looks at how things stand.
const REFRESH_EVERY: Duration = Duration::from_millis(100);
/// Snapshots created over the day, to see what that does to the load.
const SNAPSHOTS: u32 = 20;
/// Jobs that are late go on for half a day, or for a minute where that is
/// longer: then they are cancelled.
const GRACE_OF_DAY: f64 = 0.5;
const GRACE_S_MIN: f64 = 60.0;

/// What the day is made of.
pub(super) struct DayRun<'a> {
    pub(super) setup: &'a Setup,
    pub(super) day: Day,
    pub(super) cores: u32,
    /// Cores that are never given to analytics.
    pub(super) reserve_cores: f64,
    pub(super) load: LoadCost,
    pub(super) forecast: Arc<Availability>,
    pub(super) policy: Policy,
    pub(super) objective: Option<Objective>,
    /// Submitted at midnight.
    pub(super) jobs: Vec<JobSpec>,
    /// Submitted at [`EXTRA_HOUR`].
    pub(super) extra: JobSpec,
}

/// What the day gave.
pub(super) struct DayRecord {
    pub(super) load: Report,
    pub(super) jobs: Vec<JobReport>,
    pub(super) snapshot_create_us: Vec<u64>,
    pub(super) cycles: Vec<CycleSample>,
    pub(super) load_history: Vec<LoadSample>,
    pub(super) guarded: Vec<GuardSample>,
    pub(super) scheduling_class: String,
}

/// What the load does alone.
pub(super) struct Alone {
    pub(super) load: Report,
    /// Cores that it used on average, the store's threads included.
    pub(super) mean_cores: f64,
    /// Cores that other processes, or the host, used meanwhile.
    pub(super) others_cores: f64,
    /// The cores that it used over time.
    pub(super) history: LoadHistory,
}

/// Runs the load of so many days without jobs, and measures it in slots of which
/// a day has [`SLOTS_PER_DAY`].
pub(super) fn load_alone(
    setup: &Setup,
    day: Day,
    days: u32,
    load: &LoadCost,
    cores: u32,
) -> Result<Alone> {
    let length_s = day.seconds * f64::from(days);
    let driver = start_load(setup, day, length_s, load, (cores, None))?;
    let (mut whole, mut slots) = (LoadMonitor::start()?, LoadMonitor::start()?);
    let slot_s = day.seconds / SLOTS_PER_DAY;
    let mut history = LoadHistory::new(slot_s);
    let (started, mut from_s) = (Instant::now(), 0.0);
    // The last slot is left out, so that it is measured while it runs: a thread
    // that has ended is not counted.
    for slot in 1..(SLOTS_PER_DAY * f64::from(days)) as u32 {
        let until = Duration::from_secs_f64(f64::from(slot) * slot_s);
        driver.wait_for_end(until.saturating_sub(started.elapsed()));
        let to_s = started.elapsed().as_secs_f64();
        history.record(from_s, to_s, slots.sample()?.transactional_cores);
        from_s = to_s;
    }
    let used = whole.sample()?;
    // The last slot is as the one before it, so that the days are whole.
    if let Some(Some(last)) = history.cores().last() {
        history.record(length_s - slot_s, length_s, *last);
    }
    Ok(Alone {
        load: driver.join()?,
        mean_cores: used.transactional_cores,
        others_cores: used.others_cores.max(0.0),
        history,
    })
}

fn start_load(
    setup: &Setup,
    day: Day,
    length_s: f64,
    load: &LoadCost,
    (cores, latencies): (u32, Option<Latencies>),
) -> Result<Driver> {
    let peak = load.peak_ops_per_s;
    let rate = Arc::new(move |t_s: f64| peak * day.load_of_peak(t_s));
    let length = Some(Duration::from_secs_f64(length_s));
    let options = RunOptions {
        latencies,
        ..load_options(cores, Pace::Open(rate), length)
    };
    Ok(Driver::start(
        &setup.db,
        &setup.users,
        &ReadFrom::Live,
        options,
    )?)
}

impl DayRun<'_> {
    /// Runs the day.
    pub(super) fn run(self) -> Result<DayRecord> {
        let named = |name: &str| policy::by_name(name).ok_or_else(|| anyhow!("no policy {name}"));
        let (policy, management) = match &self.policy {
            Policy::Managed(name) => (named(name)?, Management::Managed),
            // Unmanaged, nobody asks it.
            Policy::None => (named("fifo")?, Management::Unmanaged),
        };
        let node = Node::start(
            Some(self.setup.db.clone()),
            NodeOptions {
                colocated: ColocatedOptions {
                    objective: self.objective,
                    reserve_cores: self.reserve_cores,
                    forecast: Some(self.forecast.clone()),
                    runtime: RuntimeOptions {
                        policy,
                        management,
                        cycle_s: self.day.seconds / CYCLES_PER_DAY,
                        ..RuntimeOptions::new(self.cores)
                    },
                    ..ColocatedOptions::new(self.cores)
                },
                spill_dir: Some(self.setup.spill.clone()),
                ..NodeOptions::new(self.cores)
            },
        )?;
        let runtime = node.runtime();
        let governor = node.governor().context("the node has no governor")?;
        let driver = start_load(
            self.setup,
            self.day,
            self.day.seconds,
            &self.load,
            // For the guard, where there is one.
            (self.cores, self.objective.and_then(|_| node.latencies())),
        )?;
        let mut handles = Vec::new();
        for spec in self.jobs {
            handles.push(runtime.submit(spec)?);
        }
        let mut extra = Some(self.extra);
        let mut show = Show::new(self.day, self.cores);
        let mut snapshot_create_us = Vec::new();
        let timeline = driver.timeline();
        loop {
            let now_s = runtime.now_s();
            if now_s >= self.day.seconds_of(EXTRA_HOUR)
                && let Some(spec) = extra.take()
            {
                handles.push(runtime.submit(spec)?);
            }
            let due = (now_s / self.day.seconds * f64::from(SNAPSHOTS)) as usize;
            if snapshot_create_us.len() < due.min(SNAPSHOTS as usize) {
                snapshot_create_us.push(create_snapshot(self.setup, due)?);
            }
            show.update(&runtime.status(), timeline.latest());
            let day_over = now_s >= self.day.seconds;
            let jobs_over = extra.is_none()
                && handles
                    .iter()
                    .all(|handle| handle.status().finished_s.is_some());
            if day_over && (jobs_over || now_s >= self.day.seconds + grace_s(self.day)) {
                break;
            }
            let waited = handles
                .iter()
                .find(|handle| handle.status().finished_s.is_none());
            match waited {
                Some(handle) => drop(handle.wait_timeout(REFRESH_EVERY)),
                None => drop(driver.wait_for_end(REFRESH_EVERY)),
            }
        }
        show.finish();
        let jobs = handles.iter().map(end).collect();
        let record = DayRecord {
            jobs,
            snapshot_create_us,
            cycles: runtime.cycles(),
            load_history: governor.history(),
            guarded: governor.guarded(),
            scheduling_class: runtime.scheduling_class().to_string(),
            load: driver.join()?,
        };
        node.shutdown(Stop::Cancel);
        delete_hourly_snapshots(self.setup)?;
        Ok(record)
    }
}

pub(super) fn grace_s(day: Day) -> f64 {
    (day.seconds * GRACE_OF_DAY).max(GRACE_S_MIN)
}

/// The last word on a job; one that is still running by now is too late.
fn end(handle: &JobHandle) -> JobReport {
    if handle.status().finished_s.is_none() {
        handle.cancel();
    }
    handle.wait()
}

/// Why a job has no output, if it has none.
pub(super) fn failure(report: &JobReport) -> Option<String> {
    match &report.outcome {
        Outcome::Succeeded => None,
        Outcome::Failed { cause } => Some(cause.clone()),
        Outcome::Cancelled => Some("not done long after the day, and cancelled".to_string()),
    }
}

/// What the snapshots are called that are created over the day.
const HOURLY: &str = "hourly-";

/// Creates a snapshot and takes the time; the one before it goes.
fn create_snapshot(setup: &Setup, number: usize) -> Result<u64> {
    let before = hourly_snapshots(setup);
    let started = Instant::now();
    setup
        .keyspace
        .create_snapshot(&format!("{HOURLY}{number}"))?;
    let elapsed = started.elapsed();
    delete(setup, before)?;
    Ok(elapsed.as_micros() as u64)
}

/// The next day begins without those of this one.
fn delete_hourly_snapshots(setup: &Setup) -> Result<()> {
    delete(setup, hourly_snapshots(setup))
}

fn hourly_snapshots(setup: &Setup) -> Vec<String> {
    let all = setup.keyspace.snapshots().into_iter();
    all.map(|snapshot| snapshot.name)
        .filter(|name| name.starts_with(HOURLY))
        .collect()
}

fn delete(setup: &Setup, snapshots: Vec<String>) -> Result<()> {
    for name in snapshots {
        setup.keyspace.delete_snapshot(&name)?;
    }
    Ok(())
}
