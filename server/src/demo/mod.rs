//! `ebb demo`: what ebb exists for, in a minute.
//!
//! ```text
//!   corpus ─► stage ─► measure ─► plan ─► act ─► outcome ─► table, JSON, report
//!             store    costs      sizes   a day
//! ```
//!
//! A day of 24 hours is compressed into a minute. An open-loop load peaks at its
//! 18th hour; three jobs with completion time goals and one without read
//! snapshots beside it. Sizes are fitted to the machine beforehand, so that a
//! schedule that meets all goals exists with about a fifth to spare.

mod act;
mod corpus;
mod day;
mod jobs;
mod measure;
mod outcome;
mod picture;
mod plan;
mod report;
mod show;
mod stage;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use ebb_storage::SnapshotTable;

use act::{Played, Script, failure, load_alone};
use day::{Day, HOURS};
use jobs::{Application, Repeated};
pub use outcome::Outcome;
use outcome::{JobOutcome, Latency, LatencySample, Series, Transactional, WordCountCheck};
use plan::{GOAL_HOURS, Plan};
use stage::Stage;

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

/// Who decides what the jobs get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Policy {
    /// Goals and forecast (Polo 2014, 5.3.4).
    ReverseAdaptive,
    /// What the load leaves, to the oldest job first.
    Fifo,
    /// Nobody: unmanaged threads at normal priority.
    None,
}

impl Policy {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReverseAdaptive => "reverse-adaptive",
            Self::Fifo => "fifo",
            Self::None => "none",
        }
    }
}

/// How to run the demo.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// A folder that the demo makes, or made before.
    pub data: PathBuf,
    /// Text to load instead of what is on the machine.
    pub text: Option<PathBuf>,
    /// Length of the compressed day, in seconds; positive.
    pub seconds: f64,
    /// Who decides.
    pub policy: Policy,
}

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

    let word_count_check = check_word_counts(&stage, &inputs, &played)?;
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

/// The report of an outcome, as HTML.
pub fn html_report(outcome: &Outcome) -> String {
    report::html(outcome)
}

/// The picture of cores over time alone, as SVG that stands by itself.
pub fn cores_svg(outcome: &Outcome) -> String {
    picture::standalone(&picture::cores(outcome))
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

/// Compares what the word counts wrote with a count that the runner had no part
/// in.
fn check_word_counts(
    stage: &Stage,
    inputs: &[Repeated],
    played: &Played,
) -> Result<WordCountCheck> {
    let mut check = WordCountCheck {
        jobs: 0,
        words: 0,
        differences: 0,
    };
    for (((name, application), input), report) in JOBS.iter().zip(inputs).zip(&played.jobs) {
        if *application != Application::WordCount || failure(report).is_some() {
            continue;
        }
        let mut expected = input.count_words()?;
        check.jobs += 1;
        check.words = check.words.max(expected.len());
        let path = jobs::output_file(stage, name);
        let rows =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for row in rows
            .split(|&byte| byte == b'\n')
            .filter(|row| !row.is_empty())
        {
            let tab = row
                .iter()
                .rposition(|&byte| byte == b'\t')
                .unwrap_or(row.len());
            let count = std::str::from_utf8(row.get(tab + 1..).unwrap_or_default());
            let count: Option<u64> = count.ok().and_then(|digits| digits.parse().ok());
            check.differences += usize::from(expected.remove(&row[..tab]) != count);
        }
        // Words that the job did not find.
        check.differences += expected.len();
    }
    Ok(check)
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

/// Writes the report and the picture beside it.
///
/// # Errors
/// When a file cannot be written.
pub fn write_report(outcome: &Outcome, folder: &std::path::Path) -> Result<PathBuf> {
    let report = folder.join("report.html");
    let write = |path: &std::path::Path, text: String| {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&report, html_report(outcome))?;
    write(&folder.join("cores.svg"), cores_svg(outcome))?;
    Ok(report)
}
