//! `ebb sim msjo`: weighted completion times of jobs that are known in advance.

use std::path::PathBuf;

use anyhow::Result;
use ebb_bench::msjo::{self, MsjoResult, MsjoRow, Study};
use ebb_bench::number::fixed;
use ebb_scheduler::msjo::{ALGORITHMS, Algorithm, EPS, Objective, RandomJobs, Search};
use ebb_scheduler::sim::scenario::MsjoScenario;
use ebb_text::read_whole;

use crate::error::CliError;
use crate::print::{JsonArgs, Printer, counted};
use crate::progress::run_bar;

const EXAMPLES: &str = "\
Examples:
  ebb sim msjo                                      20 random jobs on 50 machines
  ebb sim msjo --jobs 100 --algorithm mars,lp-search --converge
  ebb sim msjo tonight.toml
  ebb sim msjo --objective tasks --seed 7 --json | jq '.rows[] | [.algorithm, .over_bound]'

A scenario:
  machines = 3
  [[jobs]]
  weight = 2.0              # default: 1
  released_s = 5.0          # default: 0
  maps_s = [10.0, 20.0]     # lengths of the map tasks, in seconds
  delays_s = [1.0, 1.0]     # until a map's output has arrived; default: 0
  reduces_s = [30.0]
  map_weights = [1.0, 2.0]  # for --objective tasks; default: 1
  reduce_weights = [1.0]";

/// Schedule jobs that are all known in advance (the problem MSJO): compare the weighted completion
/// times of algorithms with a lower bound.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Machines and jobs, a TOML file. Default: random jobs.
    #[arg(value_name = "SCENARIO.toml", conflicts_with_all = ["jobs", "machines", "seed"])]
    scenario: Option<PathBuf>,
    /// Algorithms, with commas between them, such as mars,huwf. Default: all for the objective.
    #[arg(long, value_name = "A,...", value_delimiter = ',')]
    algorithm: Vec<String>,
    /// The objective: the sum of the weighted completion times of jobs, or that of tasks. Not with
    /// --algorithm.
    #[arg(long, value_enum, default_value_t = Of::Jobs, conflicts_with = "algorithm")]
    objective: Of,
    /// Number of random jobs, of 45 tasks on average.
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    jobs: u32,
    /// Number of machines that the random jobs run on.
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    machines: u32,
    /// Seed of the random jobs.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Relative precision of the lower bound, 0 to below 1. The bound is at least 1 - EPS times the
    /// optimum of the linear relaxation; a smaller EPS takes longer.
    #[arg(long, value_name = "EPS", default_value_t = EPS, value_parser = part)]
    eps: f64,
    /// Also solve the linear relaxation itself, to 0.1%, for a second, closer bound.
    #[arg(long)]
    converge: bool,
    /// Number of orders of the jobs that the algorithm lp-search tries.
    #[arg(long, value_name = "N", default_value_t = Search::default().tries)]
    tries: u32,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Of {
    Jobs,
    Tasks,
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.0..1.0).contains(&part) => Ok(part),
        _ => Err("expected a number from 0 to below 1".to_string()),
    }
}

pub(super) fn run(args: Args) -> Result<()> {
    let algorithms = algorithms(&args)?;
    let (title, instance) = match args.scenario {
        Some(path) => {
            let text = read_whole(&path)?;
            let scenario = MsjoScenario::parse(&path.display().to_string(), &text)?;
            (scenario.title, scenario.instance)
        }
        None => {
            let jobs = RandomJobs {
                machines: args.machines,
                ..RandomJobs::most_random(args.jobs)
            };
            (
                format!("random jobs, seed {}", args.seed),
                jobs.draw(args.seed),
            )
        }
    };
    let study = Study {
        title,
        instance,
        algorithms,
        eps: args.eps,
        converged: args.converge.then_some(1e-3),
        search: Search {
            tries: args.tries,
            ..Search::default()
        },
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let bar = run_bar(study.runs() as u64);
    let result = msjo::run(&study, threads, &bar)?;
    bar.finish_and_clear();
    args.json.write_file(&result)?;
    args.json.print(&result, |printer| print(printer, &result))
}

fn algorithms(args: &Args) -> Result<Vec<Algorithm>, CliError> {
    if args.algorithm.is_empty() {
        let objective = match args.objective {
            Of::Jobs => Objective::Jobs,
            Of::Tasks => Objective::Tasks,
        };
        let all = ALGORITHMS.into_iter();
        return Ok(all.filter(|of| of.objective == objective).collect());
    }
    let named = |name: &String| {
        Algorithm::by_name(name).ok_or_else(|| {
            let names = ALGORITHMS.map(|algorithm| algorithm.name).join(", ");
            CliError::Usage(format!(
                "there is no algorithm {name:?}; there are: {names}"
            ))
        })
    };
    args.algorithm.iter().map(named).collect()
}

fn print(printer: &mut Printer, result: &MsjoResult) -> Result<()> {
    printer.line(format_args!(
        "{}: {}, {}, {}",
        result.title,
        counted(result.jobs as u64, "job"),
        counted(result.tasks as u64, "task"),
        counted(result.machines as u64, "machine")
    ))?;
    for bound in &result.bounds {
        printer.line(format_args!(
            "bound for {}, eps {}: {} (relaxation at most {}), {}, {} s CPU",
            bound.objective,
            bound.eps,
            fixed(bound.value, 0),
            fixed(bound.no_violation_value, 0),
            counted(bound.programmes.into(), "programme"),
            fixed(bound.cpu_s, 1)
        ))?;
    }
    let head = [
        "algorithm",
        "for",
        "weighted sum, s",
        "/ bound",
        "job mean, s",
        "last end, s",
        "CPU s",
    ];
    let row = |row: &MsjoRow| {
        vec![
            row.algorithm.to_string(),
            row.objective.to_string(),
            fixed(row.value, 0),
            fixed(row.over_bound, 3),
            fixed(row.job_mean_s, 1),
            fixed(row.makespan_s, 1),
            fixed(row.cpu_s, 2),
        ]
    };
    let rows: Vec<_> = result.rows.iter().map(row).collect();
    printer.table(&head, &head[2..], &rows)
}
