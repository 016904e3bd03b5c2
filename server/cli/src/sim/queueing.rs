//! `ebb sim queueing` and `ebb sim capacity`: tasks that run faster near their data.

use std::path::PathBuf;

use anyhow::Result;
use ebb_bench::number::{fixed, percent};
use ebb_bench::queueing::{self, QueueingResult, QueueingRow};
use ebb_scheduler::queueing::{Capacity, LOAD_MAX, Locality, QUEUEING_POLICIES, queueing_policy};
use ebb_scheduler::sim::scenario::{QUEUEING_SLOTS_MAX, QueueingScenario};
use ebb_text::read_whole;
use serde::Serialize;

use crate::error::CliError;
use crate::print::{JsonArgs, Printer};
use crate::progress::run_bar;

const EXAMPLES: &str = "\
Examples:
  ebb sim queueing                                       Wang's cluster
  ebb sim queueing racks.toml --policy pandas,weighted-workload
  ebb sim queueing --policy jsq-maxweight-common --load 600,650 --slots 20000
  ebb sim queueing racks.toml --json | jq '.rows[] | [.policy, .task_delay, .stable]'

A scenario:
  policies = [\"pandas\", \"weighted-workload\"]     # default: all
  loads = [3.0, 4.0]                             # tasks per slot; default: that of the streams
  slots = 100000                                 # measured, after a fifth as many for warm-up;
                                                 # default: 250000
  sizes = [{ share = 1.0, min = 1, max = 10 }]   # all jobs have 1 to 10 tasks; default: 1
  [cluster]
  nodes = 8
  local = 0.8                                    # chance per slot that a task ends on a node
                                                 # that has its data,
  rack = 0.5                                     # on another node of the rack,
  remote = 0.2                                   # and elsewhere
  rack_nodes = 4                                 # without racks, leave out rack and rack_nodes
  [[streams]]                                    # each task has its data on 3 of the nodes 0 to 4
  tasks_per_slot = 3.0
  from = 0
  until = 5
  replicas = 3";

/// Compare policies that run tasks near their data, in a queueing model with time slots.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Cluster, traffic and loads, a TOML file. Default: the cluster and traffic of Wang et al.'s
    /// paper, 1,000 machines with data on 800.
    #[arg(value_name = "SCENARIO.toml")]
    scenario: Option<PathBuf>,
    /// Policies, with commas between them. Default: those of the scenario.
    #[arg(long, value_name = "P,...", value_delimiter = ',')]
    policy: Vec<String>,
    /// Loads to simulate, in tasks that arrive per time slot, with commas between them. Default: those
    /// of the scenario.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = load)]
    load: Vec<f64>,
    /// Number of time slots that are measured; a fifth as many come before them for warm-up. Default:
    /// that of the scenario.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=QUEUEING_SLOTS_MAX))]
    slots: Option<u64>,
    /// Seed of all runs. Default: that of the scenario.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    #[command(flatten)]
    json: JsonArgs,
}

fn load(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if load > 0.0 && load <= LOAD_MAX => Ok(load),
        _ => Err(format!(
            "expected a number of tasks per slot, above 0 and at most {LOAD_MAX}"
        )),
    }
}

pub(super) fn run(args: Args) -> Result<()> {
    let mut scenario = read(args.scenario)?;
    if !args.policy.is_empty() {
        scenario.policies = args.policy;
    }
    if let Some(name) = (scenario.policies.iter()).find(|name| queueing_policy(name).is_none()) {
        let message = format!(
            "the queueing model has no policy {name:?}; it has: {}",
            QUEUEING_POLICIES
                .iter()
                .map(|policy| policy.name)
                .collect::<Vec<_>>()
                .join(", ")
        );
        return Err(CliError::Usage(message).into());
    }
    if !args.load.is_empty() {
        scenario.loads = args.load;
    }
    if let Some(slots) = args.slots {
        scenario.run.slots = slots;
        scenario.run.warmup_slots = slots / 5;
    }
    scenario.run.seed = args.seed.unwrap_or(scenario.run.seed);

    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let bar = run_bar((scenario.loads.len() * scenario.policies.len()) as u64);
    let result = queueing::run(&scenario, threads, &bar)?;
    bar.finish_and_clear();
    args.json.write_file(&result)?;
    args.json.print(&result, |printer| print(printer, &result))
}

fn read(path: Option<PathBuf>) -> Result<QueueingScenario> {
    match path {
        None => Ok(QueueingScenario::wang()),
        Some(path) => {
            let text = read_whole(&path)?;
            Ok(QueueingScenario::parse(&path.display().to_string(), &text)?)
        }
    }
}

fn print(printer: &mut Printer, result: &QueueingResult) -> Result<()> {
    let capacity = (result.capacity).map_or("unknown".into(), |at| format!("{at:.3} tasks a slot"));
    printer.line(format_args!(
        "{} (capacity {capacity}, {} slots after {})",
        result.title, result.slots, result.warmup_slots
    ))?;
    let head = [
        "policy",
        "load",
        "of capacity",
        "task delay",
        "job delay",
        "tasks",
        "jobs",
        "local",
        "rack",
        "growth",
        "stable",
        "CPU s",
    ];
    let row = |row: &QueueingRow| {
        let m = &row.measured;
        let of_finished = |tasks: u64| percent(tasks as f64 / m.finished as f64, 1);
        let of_capacity = result.capacity.map(|at| row.tasks_per_slot / at);
        vec![
            row.policy.clone(),
            row.tasks_per_slot.to_string(),
            percent(of_capacity, 1),
            fixed(m.task_delay, 2),
            fixed(m.job_delay, 2),
            fixed(m.backlog, 1),
            fixed(m.jobs, 1),
            of_finished(m.local),
            of_finished(m.rack_local),
            if m.overflowed {
                "overflow".to_string()
            } else {
                percent(m.growth, 3)
            },
            if row.stable { "yes" } else { "no" }.to_string(),
            fixed(row.cpu_s, 1),
        ]
    };
    let rows: Vec<_> = result.rows.iter().map(row).collect();
    printer.table(&head, &head[1..], &rows)
}

const CAPACITY_EXAMPLES: &str = "\
Examples:
  ebb sim capacity                   Wang's cluster: 680 tasks per slot
  ebb sim capacity racks.toml
  ebb sim capacity racks.toml --json | jq .tasks_per_slot

`ebb sim queueing --help` shows a scenario.";

/// Compute the most tasks per time slot that any policy can serve, with the traffic of a scenario.
#[derive(Debug, clap::Args)]
#[command(after_help = CAPACITY_EXAMPLES)]
pub(super) struct CapacityArgs {
    /// Cluster and traffic, a TOML file. Default: those of Wang et al.'s paper, 1,000 machines
    /// with data on 800.
    #[arg(value_name = "SCENARIO.toml")]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Serialize)]
struct CapacityResult {
    title: String,
    /// The load of all streams of tasks in the scenario together, in tasks per slot.
    load: f64,
    #[serde(flatten)]
    capacity: Capacity,
}

pub(super) fn run_capacity(args: CapacityArgs) -> Result<()> {
    let scenario = read(args.scenario)?;
    let result = CapacityResult {
        load: scenario.model.load(),
        capacity: Capacity::of(&scenario.model)?,
        title: scenario.title,
    };
    args.json.write_file(&result)?;
    args.json
        .print(&result, |printer| print_capacity(printer, &result))
}

fn print_capacity(printer: &mut Printer, result: &CapacityResult) -> Result<()> {
    let capacity = &result.capacity;
    printer.line(format_args!(
        "{}: at most {} tasks per slot, {} times its load of {}",
        result.title,
        fixed(capacity.tasks_per_slot, 3),
        fixed(capacity.scale, 3),
        fixed(result.load, 3)
    ))?;
    let head = ["nodes", "rack", "local", "rack-local", "remote"];
    let row = |(at, class): (usize, &ebb_scheduler::queueing::NodeClass)| {
        let of = |locality: Locality| {
            let of = (capacity.activities.iter())
                .filter(|activity| activity.class == at && activity.locality == locality);
            fixed(of.map(|activity| activity.tasks_per_slot).sum::<f64>(), 3)
        };
        let last = class.first + class.nodes - 1;
        vec![
            format!("{} to {last}", class.first),
            class.rack.map_or("-".to_string(), |rack| rack.to_string()),
            of(Locality::Local),
            of(Locality::Rack),
            of(Locality::Remote),
        ]
    };
    printer.line("Tasks per slot that these nodes then serve, by where their data lies:")?;
    let rows: Vec<_> = capacity.classes.iter().enumerate().map(row).collect();
    printer.table(&head, &head[1..], &rows)
}
