//! `ebb sim advice`: whether what a submitter would be told comes true.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use ebb_bench::sim::{PointResult, in_parallel};
use ebb_scheduler::planning::{Past, Told, observe, reliability, tell_each_half};
use ebb_scheduler::policy::{self, Policy};
use ebb_scheduler::sim::SimError;
use ebb_scheduler::sim::scenario::Point;
use ebb_server::jobs::simulate::read_scenario;
use indicatif::ProgressBar;
use serde::Serialize;

use super::policy_named;
use crate::error::CliError;
use crate::print::{Printer, counted, table};
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  ebb sim advice week.toml
  ebb sim advice week.toml --replicas 20 --json | jq '.points[].told[]'";

/// Learn from half of the replicas how probably jobs meet their goals, tell it to
/// those of the other half when they are submitted, and compare with what comes; and
/// the same the other way round.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// What to simulate, a TOML file with a [workload].
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// The policy that runs the jobs.
    #[arg(long, value_name = "NAME", default_value = policy::DEFAULT)]
    policy: String,
    /// How many times to draw it, at least 2. Default: as the scenario says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    replicas: Option<u32>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Draw a reliability diagram, as SVG.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

#[derive(Serialize)]
struct Reliability {
    title: String,
    policy: String,
    /// Each was told what the half that it is not in taught.
    replicas: u32,
    points: Vec<PointReliability>,
}

#[derive(Serialize)]
struct PointReliability {
    set: BTreeMap<String, String>,
    told: Vec<Told>,
}

pub(super) fn run(args: Args) -> Result<()> {
    let path = &args.scenario;
    let scenario = read_scenario(path)?;
    let replicas = args.replicas.unwrap_or(scenario.replicas);
    let policy = policy_named(&args.policy)?;
    if replicas < 2 {
        let message = format!(
            "{}: two replicas at least, each to learn from and tell the other: --replicas 10",
            path.display()
        );
        return Err(CliError::Usage(message).into());
    }
    let bar = progress::run_bar(scenario.points.len() as u64 * u64::from(replicas));
    let mut points = Vec::new();
    for point in &scenario.points {
        let past = all_past(point, policy.as_ref(), scenario.seed, replicas, &bar)?;
        points.push(PointReliability {
            set: point.set.iter().cloned().collect(),
            told: reliability(&tell_each_half(&past)),
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
        let told = result.points.iter();
        let lines: Vec<_> = told
            .map(|point| (PointResult::words(&point.set), point.told.clone()))
            .collect();
        let svg = ebb_bench::sim::reliability_picture("Goals met, by what was told", &lines);
        std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut printer = Printer::new();
    if args.json {
        printer.json(&result)?;
    } else {
        for line in lines(&result) {
            printer.line(line)?;
        }
    }
    printer.finish()
}

/// Per replica, on all cores.
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
        let (config, jobs) = point.draw(seed.wrapping_add(replica.into()));
        let past = observe(&config, jobs, policy)?;
        bar.inc(1);
        Ok::<_, SimError>(past.into_iter().map(|(_, past)| past).collect())
    })?;
    Ok(all)
}

fn lines(result: &Reliability) -> Vec<String> {
    let mut lines = vec![format!(
        "{} ({}, {}, each told what the other half taught)",
        result.title,
        result.policy,
        counted(result.replicas.into(), "replica"),
    )];
    for point in &result.points {
        lines.push(String::new());
        if !point.set.is_empty() {
            lines.push(PointResult::words(&point.set));
        }
        let percent = |part: f64| format!("{:.1}%", 100.0 * part);
        let rows: Vec<Vec<String>> = (point.told.iter())
            .map(|told| {
                vec![
                    format!("{:.0} to {:.0}%", 100.0 * told.from, 100.0 * told.until),
                    told.jobs.to_string(),
                    percent(told.told),
                    percent(told.met),
                    format!("{:.1}", 100.0 * told.met_half_width_95),
                ]
            })
            .collect();
        let head = ["told", "jobs", "told on average", "met", "+-"];
        lines.extend(table(&head, &head[1..], &rows));
    }
    lines
}
