//! From an empty folder to an outcome.

use std::sync::Arc;

use anyhow::Result;
use ebb_storage::SnapshotTable;

use super::act::{Played, Script, failure, load_alone};
use super::check;
use super::day::{Day, HOURS};
use super::jobs::{self, Application, Repeated};
use super::measure;
use super::options::DemoOptions;
use super::outcome::{JobOutcome, Latency, LatencySample, Outcome, Series, Transactional};
use super::plan::{GOAL_HOURS, Plan};
use super::stage;
use crate::ycsb::Report;

/// The load alone runs through the same day this many times as fast.
const ALONE_FASTER: f64 = 3.0;
/// What analytics never get, as a part of the machine: timers, the kernel, and
/// what the forecast does not know.
const RESERVE: f64 = 0.05;
/// The part of the forecast that is planned with. What is granted is not all
/// used: idle-class threads are displaced for the length of a burst, tasks end
/// between two control cycles, and merges of runs come when they come.
const COUNTED_ON: f64 = 0.75;
/// The snapshot that the jobs read.
const SNAPSHOT: &str = "midnight";

/// The jobs with a goal, in the order of their goals: name and application.
const JOBS: [(&str, Application); 3] = [
    ("J1", Application::WordCount),
    ("J2", Application::Grep),
    ("J3", Application::WordCount),
];
/// The job without one.
const EXTRA_JOB: (&str, Application) = ("J4", Application::Grep);

/// Runs the demo; `say` gets a line for people now and then.
///
/// # Errors
/// When the folder cannot be used, no text is found, or the store fails.
pub fn run(options: &DemoOptions, say: &dyn Fn(&str)) -> Result<Outcome> {
    let cores = measure::cores();
    let day = Day {
        seconds: options.seconds,
    };
    let stage = stage::set_up(&options.data, options.text.as_deref(), say)?;
    stage.keyspace.create_snapshot(SNAPSHOT)?;
    let text = stage
        .keyspace
        .snapshot(SNAPSHOT)?
        .table(stage.text.name())?;

    say("measuring this machine ...");
    let load = measure::load_cost(&stage, cores)?;
    let costs = measure::pass_cpu_s(
        &stage,
        &text,
        &load,
        cores,
        &[Application::WordCount, Application::Grep],
    )?;
    let cost_of = |application| {
        if application == Application::WordCount {
            costs[0]
        } else {
            costs[1]
        }
    };
    say(&format!(
        "load: {:.0} ops/s use {:.2} of {cores} cores; a pass over the text: word count {:.2} s of CPU, grep {:.2} s",
        load.peak_ops_per_s, load.peak_cores, costs[0], costs[1]
    ));
    let alone_s = options.seconds / ALONE_FASTER;
    say(&format!("the load alone, for {alone_s:.0} s ..."));
    let (alone, used) = load_alone(&stage, Day { seconds: alone_s }, &load, cores)?;
    let load = load.corrected(used);

    let reserve_cores = RESERVE * f64::from(cores);
    let forecast = Arc::new(load.forecast(day, cores, reserve_cores, COUNTED_ON)?);
    let plan = Plan::new(day, &forecast);
    say(&format!(
        "plan: a day in {:.0} s, at its peak {:.0} ops/s on {:.2} cores; three jobs of {:.1} s of CPU, one of {:.1} s",
        options.seconds, load.peak_ops_per_s, load.peak_cores, plan.job_cpu_s, plan.extra_cpu_s
    ));

    let sized = |(_, application): (&str, Application), cpu_s: f64| {
        size(&text, cost_of(application), cpu_s, plan.task_cpu_s)
    };
    let inputs = JOBS
        .iter()
        .map(|job| sized(*job, plan.job_cpu_s))
        .collect::<Result<Vec<_>>>()?;
    let extra_input = sized(EXTRA_JOB, plan.extra_cpu_s)?;
    let spec = |(name, application): (&str, Application), input: &Repeated| {
        jobs::spec(&stage, name, application, input, plan.task_cpu_s)
    };
    let mut specs = Vec::new();
    for ((job, input), hour) in JOBS.iter().zip(&inputs).zip(GOAL_HOURS) {
        specs.push(spec(*job, input)?.goal_s(day.seconds_of(hour)));
    }
    say(&format!("the day, policy {} ...", options.policy.name()));
    let played = Script {
        stage: &stage,
        day,
        cores,
        reserve_cores,
        load,
        forecast: forecast.clone(),
        policy: options.policy,
        jobs: specs,
        extra: spec(EXTRA_JOB, &extra_input)?,
    }
    .play()?;

    let counted = JOBS.iter().zip(&inputs).zip(&played.jobs);
    let counted =
        counted.map(|(((name, application), input), report)| (*name, *application, input, report));
    let word_count_check = check::word_counts(&stage, counted)?;
    let steps = (0..HOURS as u32 * 4).map(|i| day.seconds_of((f64::from(i) + 0.5) / 4.0));
    Ok(Outcome {
        policy: options.policy.name().to_string(),
        seconds: options.seconds,
        cores,
        scheduling_class: played.scheduling_class.clone(),
        corpus: stage.corpus,
        load_cost: load,
        snapshot_create_us: played.snapshot_create_us.clone(),
        jobs: job_outcomes(&played),
        transactional: Transactional {
            alone: latency(&alone),
            with_analytics: latency(&played.load),
        },
        word_count_check,
        series: Series {
            load: played.load_history,
            cycles: played.cycles,
            forecast: steps.map(|t_s| (t_s, forecast.at(t_s))).collect(),
            latency: latency_series(&played.load),
        },
    })
}

/// The text as an input that costs `cpu_s` seconds, in tasks of `task_cpu_s`.
fn size(text: &SnapshotTable, pass_cpu_s: f64, cpu_s: f64, task_cpu_s: f64) -> Result<Repeated> {
    let pieces = (pass_cpu_s / task_cpu_s).ceil().max(1.0) as usize;
    let cut = Repeated::new(text.clone(), pieces, 1)?;
    // A small text cannot be cut as finely as asked for.
    let piece_cpu_s = pass_cpu_s / cut.pieces() as f64;
    let tasks = (cpu_s / piece_cpu_s).round().max(1.0) as u32;
    Repeated::new(text.clone(), pieces, tasks)
}

fn job_outcomes(played: &Played) -> Vec<JobOutcome> {
    let applications = JOBS
        .iter()
        .chain([&EXTRA_JOB])
        .map(|(_, application)| *application);
    played
        .jobs
        .iter()
        .zip(applications)
        .map(|(report, application)| {
            let failure = failure(report);
            JobOutcome {
                id: report.id,
                name: report.name.clone(),
                application: application.name().to_string(),
                submitted_s: report.submitted_s,
                goal_s: report.goal_s,
                finished_s: failure.is_none().then_some(report.finished_s),
                met: report.met,
                tasks: report.tasks,
                bytes: report.bytes_in,
                cpu_s: report.cpu_s,
                failure,
            }
        })
        .collect()
}

fn latency(report: &Report) -> Latency {
    let all = &report.latencies_all;
    Latency {
        p50_us: all.p50_us,
        p99_us: all.p99_us,
        p999_us: all.p999_us,
        ops_per_s: report.throughput_ops_per_s,
    }
}

fn latency_series(report: &Report) -> Vec<LatencySample> {
    let samples = report.timeline.iter().filter(|interval| interval.ops > 0);
    samples
        .map(|i| LatencySample {
            t_s: i.t_s - i.length_s,
            p50_us: i.p50_us,
            p99_us: i.p99_us,
        })
        .collect()
}
