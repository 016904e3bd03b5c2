//! The error of predicted job ends, over the demo's day and over a day with tight goals.
//!
//! The day's load and its jobs are real. The node predicts the ends of running jobs 120 times a
//! day. Of each job the last prediction before half of its time had passed counts: the error is the
//! distance from the predicted end to the real one, divided by the time that remained. With it, the share
//! of the jobs that ended within the interval around the prediction, which should be nine of ten, is reported.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use ebb_scheduler::policy;
use serde::Serialize;

use super::table::Table;
use crate::console::{temporary_directory, write_json};
use crate::demo::{self, DemoDay, DemoOptions, ForecastFrom, Goals, HalfWay, Outcome, Policy};
use crate::number::{fixed, percent};

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments predictions
  ebb-bench experiments predictions --policy fair --seconds 120 --json-file predictions.json";

/// The length of a day of the load alone, as a fraction of the length of a day with jobs.
const ALONE_OF_DAY: f64 = 1.0 / 3.0;
/// The time in seconds that loading data and measuring costs usually take, for each of the two days
/// that the experiment runs.
const AROUND_S: f64 = 25.0;
/// The longest time in seconds that loading data and measuring costs may take, for each of the two
/// days that the experiment runs.
const AROUND_LIMIT_S: f64 = 180.0;

/// The options of the simulated days that the experiment runs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PredictionsArgs {
    /// Real time in which a simulated day passes, in seconds
    #[arg(long, value_name = "N", default_value_t = 60.0)]
    pub seconds: f64,

    /// The policy that schedules the jobs
    #[arg(long, value_name = "NAME", default_value = policy::DEFAULT)]
    pub policy: Policy,

    /// Load and count the text in DIR, instead of text of this machine
    #[arg(long, value_name = "DIR")]
    pub text: Option<PathBuf>,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct PredictedDay {
    goals: Goals,
    seconds: f64,
    policy: String,
    jobs: Vec<PredictedJob>,
    /// The mean over the jobs of the error of the predicted end, divided by the time from the
    /// prediction to the real end. `None` if no end was predicted.
    mean_error_ratio: Option<f64>,
    /// The share of the jobs that ended within the interval around the predicted end, 0 to 1; nine of ten are
    /// expected to. `None` if no end was predicted.
    within_ratio: Option<f64>,
}

#[derive(Debug, Serialize)]
struct PredictedJob {
    name: String,
    submitted_s: f64,
    goal_s: Option<f64>,
    finished_s: Option<f64>,
    half_way: Option<HalfWay>,
}

impl PredictedDay {
    fn of(outcome: &Outcome) -> Self {
        let jobs = outcome.jobs.iter().map(|job| PredictedJob {
            name: job.name.clone(),
            submitted_s: job.submitted_s,
            goal_s: job.goal_s,
            finished_s: job.finished_s,
            half_way: job.half_way,
        });
        Self {
            goals: outcome.goals_are,
            seconds: outcome.seconds,
            policy: outcome.policy.clone(),
            jobs: jobs.collect(),
            mean_error_ratio: outcome.half_way_error(),
            within_ratio: outcome.half_way_within(),
        }
    }

    fn table(&self) -> Table {
        let head = [
            "job",
            "finished s",
            "predicted at s",
            "predicted s",
            "error",
            "from s",
            "to s",
            "within",
        ];
        let row = |job: &PredictedJob| {
            vec![
                job.name.clone(),
                fixed(job.finished_s, 1),
                fixed(job.half_way.map(|half_way| half_way.at_s), 1),
                fixed(job.half_way.map(|half_way| half_way.finish_s), 1),
                percent(job.half_way.map(|half_way| half_way.error_ratio), 1),
                fixed(job.half_way.map(|half_way| half_way.low_s), 1),
                fixed(job.half_way.map(|half_way| half_way.high_s), 1),
                within(job.half_way),
            ]
        };
        let goals = match self.goals {
            Goals::Example => "the demo's day",
            Goals::Tight => "a tight day",
        };
        Table {
            title: format!(
                "{goals}, {} s, {}: mean error {}, {} within the interval",
                self.seconds,
                self.policy,
                percent(self.mean_error_ratio, 1),
                percent(self.within_ratio, 0)
            ),
            head: head.map(str::to_string).to_vec(),
            rows: self.jobs.iter().map(row).collect(),
        }
    }
}

/// Returns the cell of whether a job ended within the interval.
fn within(half_way: Option<HalfWay>) -> String {
    let word = match half_way {
        Some(half_way) if half_way.is_within => "yes",
        Some(_) => "no",
        None => "-",
    };
    word.to_string()
}

pub fn run(args: &PredictionsArgs) -> Result<()> {
    let mut days = Vec::new();
    let minutes = |day_s: f64| 2.0 * (args.seconds * (1.0 + ALONE_OF_DAY) + day_s) / 60.0;
    eprintln!(
        "two days: about {:.1} minutes where nothing else runs, {:.0} at most",
        minutes(AROUND_S),
        minutes(AROUND_LIMIT_S + args.seconds.max(60.0)).ceil()
    );
    for goals in [Goals::Example, Goals::Tight] {
        let dir = temporary_directory("predictions")?;
        let options = DemoOptions {
            data: dir.path().join("demo"),
            text: args.text.clone(),
            seconds: args.seconds,
            days: vec![DemoDay {
                policy: args.policy.clone(),
                forecast: ForecastFrom::Known,
            }],
            goals,
            objective: None,
            in_processes: false,
        };
        for outcome in demo::run(&options, &|text| eprintln!("{text}"))? {
            let day = PredictedDay::of(&outcome);
            day.table().print();
            days.push(day);
        }
    }
    write_json(args.json.as_deref(), &days)
}
