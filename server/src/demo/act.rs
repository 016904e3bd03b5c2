//! The day itself: the load, and the jobs beside it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use ebb_scheduler::availability::Availability;
use ebb_scheduler::policy;
use ebb_scheduler::runtime::{
    CycleSample, JobHandle, JobReport, JobSpec, Management, Outcome, Runtime, RuntimeOptions,
};

use super::Policy;
use super::day::{Day, LoadCost};
use super::measure::load_options;
use super::plan::EXTRA_HOUR;
use super::show::Show;
use super::stage::Stage;
use crate::colocate::{Governor, LoadMonitor, LoadSample};
use crate::ycsb::{Driver, Pace, ReadFrom, Report};

/// Control cycles in a day: each is a tenth of an hour.
const CYCLES_PER_DAY: f64 = 240.0;
/// Between two looks at how things stand.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Snapshots created over the day, to see what that does to the load.
const SNAPSHOTS: u32 = 20;
/// Jobs that are late go on for half a day, or for a minute where that is
/// longer: then they are cancelled.
const GRACE_OF_DAY: f64 = 0.5;
const GRACE_S_MIN: f64 = 60.0;

/// What the day is made of.
pub(super) struct Script<'a> {
    pub(super) stage: &'a Stage,
    pub(super) day: Day,
    pub(super) cores: u32,
    /// Cores that are never given to analytics.
    pub(super) reserve_cores: f64,
    pub(super) load: LoadCost,
    pub(super) forecast: Arc<Availability>,
    pub(super) policy: Policy,
    /// Submitted at midnight.
    pub(super) jobs: Vec<JobSpec>,
    /// Submitted at [`EXTRA_HOUR`].
    pub(super) extra: JobSpec,
}

/// What the day gave.
pub(super) struct Played {
    pub(super) load: Report,
    pub(super) jobs: Vec<JobReport>,
    pub(super) snapshot_create_us: Vec<u64>,
    pub(super) cycles: Vec<CycleSample>,
    pub(super) load_history: Vec<LoadSample>,
    pub(super) scheduling_class: String,
}

/// Runs the load of a day without jobs; says also how many cores it used on
/// average, the store's threads included.
pub(super) fn load_alone(
    stage: &Stage,
    day: Day,
    load: &LoadCost,
    cores: u32,
) -> Result<(Report, f64)> {
    let driver = start_load(stage, day, load, cores)?;
    let mut monitor = LoadMonitor::start()?;
    // Measured while it runs: a thread that has ended is not counted.
    driver.wait_for_end(Duration::from_secs_f64(day.seconds * 0.98));
    let used = monitor.transactional_cores()?;
    Ok((driver.join()?, used))
}

fn start_load(stage: &Stage, day: Day, load: &LoadCost, cores: u32) -> Result<Driver> {
    let peak = load.peak_ops_per_s;
    let rate = Arc::new(move |t_s: f64| peak * day.load_of_peak(t_s));
    let options = load_options(
        cores,
        Pace::Open(rate),
        Some(Duration::from_secs_f64(day.seconds)),
    );
    Ok(Driver::start(
        &stage.db,
        &stage.users,
        &ReadFrom::Live,
        options,
    )?)
}

impl Script<'_> {
    /// Plays the day.
    pub(super) fn play(self) -> Result<Played> {
        let governor = Arc::new(Governor::new(
            self.cores,
            self.reserve_cores,
            self.forecast.clone(),
            LoadMonitor::start().context("cannot read the threads' CPU times")?,
        ));
        let named = |name: &str| policy::by_name(name).ok_or_else(|| anyhow!("no policy {name}"));
        let (policy, management) = match self.policy {
            Policy::ReverseAdaptive => (named("reverse-adaptive")?, Management::Managed),
            Policy::Fifo => (named("fifo")?, Management::Managed),
            Policy::None => (named("fifo")?, Management::Unmanaged),
        };
        let runtime = Runtime::start(RuntimeOptions {
            policy,
            management,
            cycle_s: self.day.seconds / CYCLES_PER_DAY,
            capacity: governor.clone(),
            spill_dir: self.stage.spill.clone(),
            ..RuntimeOptions::new(self.cores)
        })?;
        let driver = start_load(self.stage, self.day, &self.load, self.cores)?;
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
                snapshot_create_us.push(create_snapshot(self.stage, due)?);
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
                Some(handle) => drop(handle.wait_timeout(LOOK_EVERY)),
                None => drop(driver.wait_for_end(LOOK_EVERY)),
            }
        }
        show.finish();
        let jobs = handles.iter().map(end).collect();
        let played = Played {
            jobs,
            snapshot_create_us,
            cycles: runtime.history(),
            load_history: governor.history(),
            scheduling_class: runtime.scheduling_class().to_string(),
            load: driver.join()?,
        };
        runtime.shutdown();
        Ok(played)
    }
}

fn grace_s(day: Day) -> f64 {
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

/// Creates a snapshot and takes the time; the one before it goes.
fn create_snapshot(stage: &Stage, number: usize) -> Result<u64> {
    let name = |number: usize| format!("hourly-{number}");
    let started = Instant::now();
    stage.keyspace.create_snapshot(&name(number))?;
    let elapsed = started.elapsed();
    if stage
        .keyspace
        .snapshots()
        .iter()
        .any(|snapshot| snapshot.name == name(number - 1))
    {
        stage.keyspace.delete_snapshot(&name(number - 1))?;
    }
    Ok(elapsed.as_micros() as u64)
}
