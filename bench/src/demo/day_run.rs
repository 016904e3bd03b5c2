//! The run of a day: the load, and the jobs beside it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use ebb_colocate::{ColocatedOptions, GuardSample, Latencies, LoadSample, Objective};
use ebb_jobs::request::JobRequest;
use ebb_scheduler::availability::{Availability, Step};
use ebb_scheduler::model::JobId;
use ebb_scheduler::queueing::policy_by_name;
use ebb_scheduler::runtime::{
    CycleSample, JobHandle, JobReport, JobSpec, Management, Outcome, RuntimeOptions, RuntimeStatus,
};
use ebb_server::live::look_ahead;
use ebb_server::node::{Node, NodeOptions, Stop};

use super::Policy;
use super::day::{Day, LoadCost};
use super::load::{LoadPace, LoadReport, LoadRun};
use super::load_slots::LoadSlots;
use super::plan::EXTRA_HOUR;
use super::setup::Setup;
use super::show::Show;

/// The number of control cycles of the runtime in a day: each is a tenth of an hour.
pub(super) const CYCLES_PER_DAY: f64 = 240.0;
/// The number of slots in which the load of a day without jobs is measured. A slot is half an hour
/// of the day, so long that a flush does not fill it.
const SLOTS_PER_DAY: f64 = 48.0;
/// The interval at which the status on the terminal is refreshed.
const REFRESH_EVERY: Duration = Duration::from_millis(100);
/// The number of times per day that the ends of the jobs are predicted. Any number of about this
/// size would do: with more, the prediction that counts lies nearer to the middle of its job (see
/// [`HalfWay`](super::HalfWay)), and the predictions take more CPU time beside the load.
const LOOKS_PER_DAY: f64 = 120.0;
/// The number of snapshots created over the day, to show their effect on the load. Arbitrary; enough
/// for the median and the longest time of a creation in the results.
const SNAPSHOTS: u32 = 20;
/// The extra time of late jobs after the end of the day, as a fraction of the day; at least
/// [`GRACE_S_MIN`] seconds. Jobs that still run then are cancelled. Both numbers are arbitrary:
/// with more time, fewer late jobs are cancelled, and a demo may take longer.
const GRACE_OF_DAY: f64 = 0.5;
const GRACE_S_MIN: f64 = 60.0;

/// A day that is about to run: the load, the jobs and how they are managed.
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
    /// The jobs that are submitted at midnight.
    pub(super) jobs: Vec<DayJob>,
    /// The job that is submitted at [`EXTRA_HOUR`].
    pub(super) extra: DayJob,
    /// The node of the demo's server, which was started with the day's policy. `None` in a demo
    /// without a server.
    pub(super) served: Option<Arc<Node>>,
}

/// A job of the day, and the request with which a client of a server would submit it.
pub(super) struct DayJob {
    pub(super) spec: JobSpec,
    pub(super) request: JobRequest,
}

impl DayJob {
    /// Submits the job: to the runtime alone or, if `is_served`, to the server's node, which lists
    /// and records it.
    fn submit(self, node: &Node, is_served: bool) -> Result<JobHandle> {
        let Self { spec, request } = self;
        Ok(if is_served {
            let goal_s = spec.goal_s;
            let request = JobRequest { goal_s, ..request };
            node.submit_changed(request, |_| spec)?.handle()
        } else {
            node.runtime().submit(spec)?
        })
    }
}

/// Returns the options of a node for days under one policy.
pub(super) fn node_options(
    day: Day,
    cores: u32,
    reserve_cores: f64,
    policy: &Policy,
    objective: Option<Objective>,
) -> Result<NodeOptions> {
    let named = |name: &str| policy_by_name(name).ok_or_else(|| anyhow!("no policy {name}"));
    let (policy, management) = match policy {
        Policy::Managed(name) => (named(name)?, Management::Managed),
        // The runtime does not use the policy of unmanaged jobs, so it may be any.
        Policy::None => (named("fifo")?, Management::Unmanaged),
    };
    Ok(NodeOptions {
        colocated: ColocatedOptions {
            objective,
            reserve_cores,
            runtime: RuntimeOptions {
                policy,
                management,
                cycle_s: day.seconds / CYCLES_PER_DAY,
                ..RuntimeOptions::new(cores)
            },
            ..ColocatedOptions::new(cores)
        },
        ..NodeOptions::new(cores)
    })
}

/// The results and measurements of a day.
pub(super) struct DayRecord {
    pub(super) load: LoadReport,
    pub(super) jobs: Vec<JobReport>,
    pub(super) snapshot_create_us: Vec<u64>,
    pub(super) cycles: Vec<CycleSample>,
    pub(super) load_history: Vec<LoadSample>,
    pub(super) guarded: Vec<GuardSample>,
    pub(super) scheduling_class: String,
    /// Cores that other processes, or the host, used on average. The client of the load is none of
    /// them.
    pub(super) others_cores: f64,
    /// Predictions of the jobs' ends, in the order in which they were made.
    pub(super) predictions: Vec<Prediction>,
}

/// A prediction of the end of a running job, made during the day by `look_ahead`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prediction {
    pub(super) job: JobId,
    /// The time of the prediction, in seconds since the start of the day.
    pub(super) at_s: f64,
    /// The predicted end, in seconds since the start of the day. `None` if the job does not end
    /// within the time that the prediction covers.
    pub(super) finish_s: Option<f64>,
}

/// The measurements of the load without jobs.
pub(super) struct LoadAlone {
    pub(super) load: LoadReport,
    /// Cores that the load used on average, the store's threads included.
    pub(super) mean_cores: f64,
    /// Cores that other processes, or the host, used while the load ran without jobs.
    pub(super) others_cores: f64,
    /// The cores that the load used over time.
    pub(super) slots: LoadSlots,
}

/// Runs the load of `days` days without jobs, and measures it in [`SLOTS_PER_DAY`] slots a day.
pub(super) fn load_alone(
    setup: &Setup,
    day: Day,
    days: u32,
    load: &LoadCost,
    cores: u32,
) -> Result<LoadAlone> {
    let length_s = day.seconds * f64::from(days);
    let driver = start_load(setup, day, length_s, load, (cores, None))?;
    let (mut whole, mut monitor) = (setup.load.monitor()?, setup.load.monitor()?);
    let slot_s = day.seconds / SLOTS_PER_DAY;
    let mut slots = LoadSlots::new(slot_s);
    let (started, mut from_s) = (Instant::now(), 0.0);
    // The last slot ends after the run, when the CPU time of its threads is no longer counted. So
    // it is not measured.
    for slot in 1..(SLOTS_PER_DAY * f64::from(days)) as u32 {
        let until = Duration::from_secs_f64(f64::from(slot) * slot_s);
        driver.wait_for_end(until.saturating_sub(started.elapsed()));
        let to_s = started.elapsed().as_secs_f64();
        slots.record(from_s, to_s, monitor.sample()?.load);
        from_s = to_s;
    }
    let used = whole.sample()?;
    // Fills the last slot with the value of the slot before, so that the days have equal lengths.
    if let Some(Some(last)) = slots.cores().last() {
        slots.record(length_s - slot_s, length_s, *last);
    }
    Ok(LoadAlone {
        load: driver.join()?,
        mean_cores: used.load,
        others_cores: used.others,
        slots,
    })
}

fn start_load(
    setup: &Setup,
    day: Day,
    length_s: f64,
    load: &LoadCost,
    (cores, latencies): (u32, Option<Latencies>),
) -> Result<LoadRun> {
    let pace = LoadPace::Day {
        seconds: day.seconds,
        peak_ops_per_s: load.peak_ops_per_s,
    };
    let length = Some(Duration::from_secs_f64(length_s));
    setup.load.start(cores, pace, length, latencies)
}

impl DayRun<'_> {
    /// Runs the load and the jobs until the day is over and all jobs have ended. The day is followed
    /// by a grace period; jobs that still run at its end are cancelled. Returns the measurements.
    pub(super) fn run(self) -> Result<DayRecord> {
        let is_served = self.served.is_some();
        let node = match &self.served {
            Some(node) => Arc::clone(node),
            None => {
                let (day, policy) = (self.day, &self.policy);
                let options =
                    node_options(day, self.cores, self.reserve_cores, policy, self.objective)?;
                let options = NodeOptions {
                    spill_dir: Some(self.setup.spill.clone()),
                    ..options
                };
                Arc::new(Node::start(Some(self.setup.db.clone()), options)?)
            }
        };
        let runtime = node.runtime();
        let governor = node.governor().context("the node has no governor")?;
        // A server's node was started before the day, so its clock does not start at midnight.
        let midnight_s = if is_served { runtime.now_s() } else { 0.0 };
        // Before the jobs are submitted: the first cycle with jobs plans by this forecast.
        governor.plan_by(Arc::new(begun_at(&self.forecast, midnight_s, self.day)?));
        let driver = start_load(
            self.setup,
            self.day,
            self.day.seconds,
            &self.load,
            // Latencies for the guard, which exists only with an objective.
            (self.cores, self.objective.and_then(|_| node.latencies())),
        )?;
        let mut used = self.setup.load.monitor()?;
        let mut handles = Vec::new();
        for job in self.jobs {
            handles.push(job.submit(&node, is_served)?);
        }
        let mut extra = Some(self.extra);
        let mut show = Show::new(self.day, self.cores);
        let mut snapshot_create_us = Vec::new();
        let (mut predictions, look_every_s) = (Vec::new(), self.day.seconds / LOOKS_PER_DAY);
        let mut look_s = look_every_s;
        loop {
            let now_s = runtime.now_s() - midnight_s;
            if now_s >= self.day.seconds_of(EXTRA_HOUR)
                && let Some(job) = extra.take()
            {
                handles.push(job.submit(&node, is_served)?);
            }
            // The number of snapshots that should have been created by now. Each turn of the loop creates
            // at most one. After the day there are no more, although late jobs may still run.
            let due = (now_s / self.day.seconds * f64::from(SNAPSHOTS)) as usize;
            let next = snapshot_create_us.len() + 1;
            if next <= due.min(SNAPSHOTS as usize) {
                snapshot_create_us.push(create_snapshot(self.setup, next)?);
            }
            if now_s >= look_s {
                // From now on: predictions that were due during a long wait are not made up for.
                look_s = now_s + look_every_s;
                predictions.extend(look_ahead(&node).into_iter().map(|finish| Prediction {
                    job: finish.job.id,
                    at_s: now_s,
                    finish_s: finish.finish_s.map(|finish_s| finish_s - midnight_s),
                }));
            }
            let status = since_midnight(runtime.status(), midnight_s);
            show.update(&status, driver.latest());
            let day_over = now_s >= self.day.seconds;
            let jobs_over = extra.is_none()
                && handles
                    .iter()
                    .all(|handle| handle.status().finished_s.is_some());
            // Jobs that still run after the grace are cancelled below, by `end`.
            if day_over && (jobs_over || now_s >= self.day.seconds + grace_s(self.day)) {
                break;
            }
            // Sleeps for `REFRESH_EVERY`, or until the first job that still runs ends. If all jobs have
            // ended, waits for the end of the load instead.
            let waited = handles
                .iter()
                .find(|handle| handle.status().finished_s.is_none());
            match waited {
                Some(handle) => drop(handle.wait_timeout(REFRESH_EVERY)),
                // A load that ends before the day has failed: `join` below returns its error.
                None if driver.wait_for_end(REFRESH_EVERY)
                    && runtime.now_s() - midnight_s < self.day.seconds =>
                {
                    break;
                }
                None => {}
            }
        }
        show.finish();
        // The runtime's clock may have started before midnight; the outcome counts from midnight on.
        let jobs = handles.iter().map(|handle| {
            let mut report = end(handle);
            report.submitted_s -= midnight_s;
            report.finished_s -= midnight_s;
            report.goal_s = report.goal_s.map(|goal_s| goal_s - midnight_s);
            report
        });
        let jobs = jobs.collect();
        let record = DayRecord {
            jobs,
            snapshot_create_us,
            cycles: of_the_day(runtime.cycles(), midnight_s, |cycle| &mut cycle.t_s),
            load_history: of_the_day(governor.history(), midnight_s, |load| &mut load.t_s),
            guarded: of_the_day(governor.guarded(), midnight_s, |guarded| {
                &mut guarded.window.t_s
            }),
            scheduling_class: runtime.scheduling_class().to_string(),
            predictions,
            // Before the measurement: if the client has ended, this error has the reason.
            load: driver.join()?,
            others_cores: used.sample()?.others,
        };
        // The node of a server outlives the day: the server shuts it down.
        if !is_served {
            node.shutdown(Stop::Cancel);
        }
        delete_hourly_snapshots(self.setup)?;
        Ok(record)
    }
}

/// Returns the forecast f(t) of the day, shifted so that the day begins at `midnight_s` instead of
/// at 0.
fn begun_at(forecast: &Availability, midnight_s: f64, day: Day) -> Result<Availability> {
    // One for each control cycle of the day.
    const STEPS: u32 = 240;
    if midnight_s == 0.0 {
        return Ok(forecast.clone());
    }
    let step_s = day.seconds / f64::from(STEPS);
    let steps = (0..STEPS).map(|nth| {
        let from_s = f64::from(nth) * step_s;
        Step {
            from_s: midnight_s + from_s,
            hundredths: forecast.mean(from_s, from_s + step_s),
        }
    });
    Ok(Availability::steps(steps.collect())?)
}

/// Returns the samples from midnight on, with their times relative to midnight.
fn of_the_day<T>(all: Vec<T>, midnight_s: f64, time_s: fn(&mut T) -> &mut f64) -> Vec<T> {
    let since = all.into_iter().filter_map(|mut one| {
        let t_s = time_s(&mut one);
        *t_s -= midnight_s;
        (*t_s >= 0.0).then_some(one)
    });
    since.collect()
}

/// Returns the status with all times relative to midnight.
fn since_midnight(mut status: RuntimeStatus, midnight_s: f64) -> RuntimeStatus {
    status.now_s -= midnight_s;
    for job in &mut status.jobs {
        job.submitted_s -= midnight_s;
        job.goal_s = job.goal_s.map(|goal_s| goal_s - midnight_s);
        job.finished_s = job.finished_s.map(|finished_s| finished_s - midnight_s);
    }
    status
}

pub(super) fn grace_s(day: Day) -> f64 {
    (day.seconds * GRACE_OF_DAY).max(GRACE_S_MIN)
}

/// Cancels a job that still runs, and returns the report of the job.
fn end(handle: &JobHandle) -> JobReport {
    if handle.status().finished_s.is_none() {
        handle.cancel();
    }
    handle.wait()
}

/// Returns why a job has no output; `None` if it has one.
pub(super) fn failure(report: &JobReport) -> Option<String> {
    match &report.outcome {
        Outcome::Succeeded => None,
        Outcome::Failed { cause } => Some(cause.clone()),
        Outcome::Cancelled => Some("not done long after the day, and cancelled".to_string()),
    }
}

/// Prefix of the names of the snapshots that are created over the day.
const HOURLY: &str = "hourly-";

/// Creates a snapshot, and deletes the one before. Returns how long the creation took, in
/// microseconds.
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

/// Deletes the snapshots of this day, so that the next day begins without snapshots.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_for_a_later_start_is_shifted() {
        let day = Day { seconds: 24.0 };
        let steps = [(0.0, 100.0), (12.0, 40.0)];
        let steps = steps.map(|(from_s, hundredths)| Step { from_s, hundredths });
        let forecast = Availability::steps(steps.to_vec()).unwrap();
        let later = begun_at(&forecast, 1000.0, day).unwrap();
        for hour in [0.5, 11.5, 12.5, 23.5] {
            let right = forecast.at(hour);
            assert!((later.at(1000.0 + hour) - right).abs() < 1e-6, "{hour}");
        }
        assert_eq!(begun_at(&forecast, 0.0, day).unwrap().at(13.0), 40.0);
        let shifted = of_the_day(vec![999.0, 1000.5], 1000.0, |t_s| t_s);
        assert_eq!(shifted, [0.5], "what was before is of no day");
    }
}
