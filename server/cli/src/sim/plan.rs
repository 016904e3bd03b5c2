//! `ebb sim plan`: the predicted ends of jobs under a forecast, and changes that would save the goals at
//! risk.

use std::path::PathBuf;

use anyhow::{Context, Result};
use ebb_bench::number::{fixed, percent};
use ebb_jobs::simulate::read_scenario;
use ebb_scheduler::model::JobId;
use ebb_scheduler::planning::{Change, Outlook, Saving, plan};
use ebb_scheduler::policy;
use ebb_scheduler::sim::scenario::Point;
use serde::Serialize;

use super::{check_draws, policy_named};
use crate::error::CliError;
use crate::print::{counted, json_or_text, table};
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  ebb sim plan tonight.toml
  ebb sim plan tonight.toml --futures 100 --confidence 0.99
  ebb sim plan tonight.toml --json | jq '.jobs[] | select(.at_risk) | .saved_by[0]'";

/// Plan the jobs of a scenario: when each will end, which goals are at risk, and the
/// cheapest change that saves each.
///
/// The plan is for the jobs that the scenario lists as [[job]]. Jobs of its [workload], if it has one,
/// are drawn at random and may arrive beside them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Scenario with cluster, forecast and jobs, a TOML file as for `ebb sim run`.
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// The scheduling policy.
    #[arg(long, value_name = "NAME", default_value = policy::DEFAULT)]
    policy: String,
    /// Number of futures to simulate. Each has random task lengths, forecast errors and other jobs of
    /// its own.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    futures: u32,
    /// A goal is at risk if it is met in a smaller part of the futures than this, above 0, at most 1.
    #[arg(long, value_name = "PART", default_value_t = 0.95, value_parser = confidence)]
    confidence: f64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn confidence(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if part > 0.0 && part <= 1.0 => Ok(part),
        _ => Err("expected a number above 0, at most 1".to_string()),
    }
}

#[derive(Serialize)]
struct Planned {
    title: String,
    policy: String,
    futures: u32,
    confidence: f64,
    jobs: Vec<PlannedJob>,
}

#[derive(Serialize)]
struct PlannedJob {
    name: String,
    #[serde(flatten)]
    outlook: Outlook,
}

pub(super) fn run(args: Args) -> Result<()> {
    let path = &args.scenario;
    let scenario = read_scenario(path)?;
    let usage = |what: String| CliError::Usage(format!("{}: {what}", path.display()));
    let [point] = scenario.points.as_slice() else {
        let what = "a plan is for one set of values: take out the [sweep]";
        return Err(usage(what.to_string()).into());
    };
    let policy = policy_named(&args.policy)?;
    scenario.check_policy(&args.policy)?;
    check_draws(path, "--futures", args.futures, point)?;
    let futures = (0..u64::from(args.futures))
        .map(|future| point.draw(scenario.seed.wrapping_add(future)))
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| path.display().to_string())?;
    let listed: Vec<JobId> = (futures[0].1.iter())
        .map(|job| job.job.id)
        .filter(|&id| point.is_listed(id))
        .collect();
    if listed.is_empty() {
        let what = "nothing to plan: give at least one [[job]]";
        return Err(usage(what.to_string()).into());
    }
    let spinner = progress::spinner("trying changes that would save the goals at risk ...");
    let outlooks = plan(futures, &listed, policy.as_ref(), args.confidence);
    spinner.finish_and_clear();
    let outlooks = outlooks?;
    let jobs = outlooks.into_iter().map(|outlook| PlannedJob {
        name: name(point, outlook.job.id),
        outlook,
    });
    let planned = Planned {
        title: scenario.title.clone(),
        policy: args.policy,
        futures: args.futures,
        confidence: args.confidence,
        jobs: jobs.collect(),
    };
    json_or_text(args.json, &planned, |printer| {
        printer.lines(lines(&planned, point))
    })
}

fn name(point: &Point, id: JobId) -> String {
    point.job_name(id).map_or(id.to_string(), str::to_string)
}

fn lines(planned: &Planned, point: &Point) -> Vec<String> {
    let futures = counted(planned.futures.into(), "future");
    let safe = 100.0 * planned.confidence;
    let mut lines = vec![
        format!("{} ({}, {futures})", planned.title, planned.policy),
        String::new(),
    ];
    let safe_head = format!("{safe:.0}% by s");
    let head = [
        "job",
        "submitted s",
        "goal s",
        "ends s",
        &safe_head,
        "met",
        "",
    ];
    let seconds = |t_s: Option<f64>| fixed(t_s, 0);
    let rows: Vec<Vec<String>> = (planned.jobs.iter())
        .map(|PlannedJob { name, outlook }| {
            vec![
                name.clone(),
                seconds(Some(outlook.job.submitted_s)),
                seconds(outlook.job.goal_s),
                seconds(outlook.finish_s),
                seconds(outlook.safe_finish_s),
                percent(outlook.met_probability, 0),
                (if outlook.at_risk { "at risk" } else { "" }).to_string(),
            ]
        })
        .collect();
    lines.extend(table(&head, &head[1..6], &rows));
    for PlannedJob { name, outlook } in planned.jobs.iter().filter(|job| job.outlook.at_risk) {
        lines.push(String::new());
        lines.push(if outlook.saved_by.is_empty() {
            format!("{name}: no single change saves it")
        } else {
            format!("{name} is saved by, the cheapest first:")
        });
        let savings = outlook.saved_by.iter();
        lines.extend(savings.map(|saving| format!("  {}", words(saving, outlook, point))));
    }
    lines
}

fn words(saving: &Saving, outlook: &Outlook, point: &Point) -> String {
    let percent = 100.0 * saving.cost;
    match saving.change {
        Change::Weight { weight } => {
            format!("a weight of {weight} instead of {}", outlook.job.weight)
        }
        Change::LaterGoal { goal_s } => {
            // Rounded up: an earlier goal may be unsafe.
            let after_s = (goal_s - outlook.job.submitted_s).ceil();
            let goal_s = outlook.job.submitted_s + after_s;
            format!("goal_s = {after_s:.0}, {percent:.0}% more time: a goal at {goal_s:.0} s")
        }
        Change::FewerMaps { maps } => format!("maps = {maps}, {percent:.0}% less work"),
        Change::Without { job } => format!("leaving {} out", self::name(point, job)),
    }
}
