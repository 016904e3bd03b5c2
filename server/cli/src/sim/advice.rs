//! `ebb sim advice`: the quality of predicted probabilities of meeting a goal.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use ebb_bench::number::{fixed, percent};
use ebb_bench::sim::{PointResult, in_parallel};
use ebb_jobs::simulate::read_scenario;
use ebb_scheduler::planning::{Past, ReliabilityBin, observe, predict_each_half, reliability};
use ebb_scheduler::policy::{self, Policy};
use ebb_scheduler::sim::SimError;
use ebb_scheduler::sim::scenario::Point;
use indicatif::ProgressBar;
use serde::Serialize;

use super::{check_draws, policy_named, replicas_range};
use crate::error::CliError;
use crate::print::{counted, json_or_text, table};
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  ebb sim advice week.toml
  ebb sim advice week.toml --replicas 20 --json | jq '.points[].bins[]'";

/// Check how reliable predictions are: predict from one half of the replicas how probably jobs
/// meet their goals, compare with the other half, and then the other way round.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Scenario to simulate, a TOML file with a [workload].
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// The policy that runs the jobs.
    #[arg(long, value_name = "NAME", default_value = policy::DEFAULT)]
    policy: String,
    /// Number of replicas, runs with random numbers of their own, at least 2. Default: that of the
    /// scenario.
    #[arg(long, value_name = "N", value_parser = replicas_range(2))]
    replicas: Option<u32>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Draw the share of the goals that were met against the predicted probability, as SVG.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

#[derive(Serialize)]
struct Reliability {
    title: String,
    policy: String,
    /// The number of replicas (runs with other random numbers). They are divided into two halves,
    /// and each replica is predicted from the runs of the other half.
    replicas: u32,
    points: Vec<PointReliability>,
}

#[derive(Serialize)]
struct PointReliability {
    set: BTreeMap<String, String>,
    bins: Vec<ReliabilityBin>,
}

pub(super) fn run(args: Args) -> Result<()> {
    let path = &args.scenario;
    let scenario = read_scenario(path)?;
    let replicas = args.replicas.unwrap_or(scenario.replicas);
    let policy = policy_named(&args.policy)?;
    scenario.check_policy(&args.policy)?;
    if replicas < 2 {
        let message = format!(
            "{}: one half of the replicas predicts the other, so there must be at least two: add \
             --replicas 10",
            path.display()
        );
        return Err(CliError::Usage(message).into());
    }
    let bar = progress::run_bar(scenario.points.len() as u64 * u64::from(replicas));
    let mut points = Vec::new();
    for point in &scenario.points {
        check_draws(path, "--replicas", replicas, point)?;
        let past = all_past(point, policy.as_ref(), scenario.seed, replicas, &bar);
        let past = past.with_context(|| path.display().to_string())?;
        points.push(PointReliability {
            set: point.set.iter().cloned().collect(),
            bins: reliability(&predict_each_half(&past)),
        });
    }
    bar.finish_and_clear();
    let result = Reliability {
        title: scenario.title,
        policy: args.policy,
        replicas,
        points,
    };
    if let Some(path) = &args.picture {
        let points = result.points.iter();
        let lines: Vec<_> = points
            .map(|point| (PointResult::words(&point.set), point.bins.clone()))
            .collect();
        let svg =
            ebb_bench::sim::reliability_picture("Goals met, by predicted probability", &lines);
        std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    json_or_text(args.json, &result, |printer| printer.lines(lines(&result)))
}

/// Simulates each replica, on all cores. Returns a list for each replica, with an element for each
/// job that has a goal: the capacity that was free for the job until its goal, as a multiple of the
/// job's work, and whether the job met the goal.
fn all_past(
    point: &Point,
    policy: &dyn Policy,
    seed: u64,
    replicas: u32,
    bar: &ProgressBar,
) -> Result<Vec<Vec<Past>>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let replicas: Vec<u32> = (0..replicas).collect();
    let all = in_parallel(&replicas, threads, |&replica| {
        let (config, jobs) = point.draw(seed.wrapping_add(replica.into()))?;
        let past = observe(&config, jobs, policy)?;
        bar.inc(1);
        Ok::<_, SimError>(past.into_iter().map(|(_, past)| past).collect())
    })?;
    Ok(all)
}

fn lines(result: &Reliability) -> Vec<String> {
    let mut lines = vec![format!(
        "{} ({}, {}, each predicted from the other half)",
        result.title,
        result.policy,
        counted(result.replicas.into(), "replica"),
    )];
    for point in &result.points {
        lines.push(String::new());
        if !point.set.is_empty() {
            lines.push(PointResult::words(&point.set));
        }
        let rows: Vec<Vec<String>> = (point.bins.iter())
            .map(|bin| {
                vec![
                    format!("{:.0} to {:.0}%", 100.0 * bin.from, 100.0 * bin.until),
                    bin.jobs.to_string(),
                    percent(bin.predicted, 1),
                    percent(bin.met, 1),
                    fixed(100.0 * bin.met_half_width_95, 1),
                ]
            })
            .collect();
        let head = ["predicted", "jobs", "mean", "met", "+-"];
        lines.extend(table(&head, &head[1..], &rows));
    }
    lines
}
