//! `soak`: runs all proofs of the storage engine, seed after seed.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use ebb_tests::kills::Life;
use ebb_tests::report::{Counter, Report};
use ebb_tests::soak::{self, Extent, Part, Programs, SoakReport};
use ebb_tests::{kills, metamorphic, operation, schedules, space};
use indicatif::{ProgressBar, ProgressStyle};

/// The name of the randomized test that needs a build of its own.
const SCHEDULES: &str = "schedules";

const EXAMPLES: &str = "\
Examples:
  soak --seconds 120 --seed 1 --json-file soak.json
  soak --only crash --seeds 200
  soak --schedules target/shuttle/release/schedules
  soak --replay crash:7:133:20
  soak --operations failing.txt

Cases for --replay, as failures print them:
  crash:SEED[:CALL[:CALL]]   power lost at that I/O call, and at that one of the recovery
  faults:SEED[:call:KIND:NTH | :full:BYTES]
  scarcity:SEED
  damage:SEED[:flip:FILE:BYTE:BIT | :cut:FILE:BYTES]
  metamorphic:SEED[:CONFIGURATION | :drawn-SEED]
  isolation:SEED
  schedules:SEED
  kills:SEED
  space:SEED

Exit codes: 0 all proofs hold, 1 a proof failed, 2 the arguments are invalid.";

/// Tests the storage engine with power losses, failing I/O calls, damaged files, many
/// configurations, concurrent transactions, random schedules, killed processes and full disks. The
/// same seed repeats a failure, unless the failure depends on the timing of threads.
#[derive(Debug, Parser)]
#[command(name = "soak", after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Time for all proofs (randomized tests) together, in seconds; building the program
    /// `schedules` does not count.
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// The first seed; random if not given.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Number of seeds of each proof, instead of a time.
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    seeds: Option<u64>,
    /// Runs two seeds of each proof with a fixed number of cases, which takes some seconds. Skips
    /// schedules unless --schedules is given, because they need a build of their own.
    #[arg(long, conflicts_with_all = ["seconds", "seeds"])]
    quick: bool,
    /// Runs only these proofs, separated by commas: crash, faults, scarcity, damage, metamorphic,
    /// isolation, schedules, kills, space.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// The program that explores schedules. If not given, cargo builds it first, in target/shuttle.
    #[arg(long, value_name = "PROGRAM")]
    schedules: Option<PathBuf>,
    /// Writes the report to this file as JSON: seed, seconds, failures, skipped, parts (seeds and
    /// seconds of each proof), and the total of each counter over all proofs.
    #[arg(long = "json-file", value_name = "FILE")]
    json: Option<PathBuf>,
    /// Replays one case, in a form listed below.
    #[arg(long, value_name = "CASE", conflicts_with_all = ["seeds", "quick", "only", "json"])]
    replay: Option<String>,
    /// Runs the operations of a file, one per line as failures print them, under every
    /// configuration.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "quick", "only", "json", "replay"])]
    operations: Option<PathBuf>,
    #[command(subcommand)]
    hidden: Option<Hidden>,
}

#[derive(Debug, Subcommand)]
enum Hidden {
    /// Runs as the process that the proof `kills` starts and kills.
    #[command(name = kills::WRITER_COMMAND, hide = true)]
    Write {
        /// Directory that contains the store and the files to ingest.
        root: PathBuf,
        /// Seed of the scripts of operations.
        seed: u64,
        /// Number of processes that were killed in this directory before.
        number: u32,
        /// Number of operations already done, for each script.
        done: Vec<u64>,
    },
    /// Runs as the process that the proof `space` starts to fill a small disk.
    #[command(name = space::FILLER_COMMAND, hide = true)]
    Fill {
        /// Directory on which the disk is mounted.
        dir: PathBuf,
        /// Seed of the random writes.
        seed: u64,
    },
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the work that the arguments select: the randomized tests, one replayed case, a file with
/// operations, or a hidden command. Returns false if a test, the case or an operation failed.
fn run(arguments: &Arguments) -> Result<bool> {
    // The proofs start this program again as the process that they kill, or that fills a disk.
    match &arguments.hidden {
        Some(Hidden::Write {
            root,
            seed,
            number,
            done,
        }) => {
            let life = Life {
                seed: *seed,
                number: *number,
                done: done.clone(),
            };
            kills::write_until_killed(root, &life)?;
            return Ok(true);
        }
        Some(Hidden::Fill { dir, seed }) => {
            space::fill_the_disk(dir, *seed)?;
            return Ok(true);
        }
        None => {}
    }
    let mut programs = Programs {
        soak: std::env::current_exe().context("cannot find the path of this program")?,
        schedules: arguments.schedules.clone(),
    };
    if let Some(case) = &arguments.replay {
        return Ok(print_outcome(case, soak::replay(case, &programs)?));
    }
    if let Some(file) = &arguments.operations {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let list = operation::parse_list(&text).map_err(anyhow::Error::msg)?;
        let name = file.display().to_string();
        return Ok(print_outcome(&name, metamorphic::run_list(&list)));
    }
    let mut parts = chosen(soak::parts(&programs), &arguments.only)?;
    // The build takes minutes, so it happens only if the proof runs and no program was given.
    if programs.schedules.is_none()
        && let Some(part) = parts.iter_mut().find(|part| part.name == SCHEDULES)
    {
        if arguments.quick {
            let why = "--quick builds nothing; give the program with --schedules";
            part.skipped = Some(why.into());
        } else {
            println!("building the program that explores schedules (minutes the first time)");
            programs.schedules = Some(schedules::build()?);
            // Made again, because the part holds the path of its program.
            parts = chosen(soak::parts(&programs), &arguments.only)?;
        }
    }
    let extent = match (arguments.quick, arguments.seeds) {
        (true, _) => Extent::Quick,
        (false, Some(seeds)) => Extent::Seeds(seeds),
        (false, None) => Extent::Time(Duration::from_secs(arguments.seconds)),
    };
    let seed = arguments
        .seed
        .unwrap_or_else(|| rand::random::<u32>().into());
    println!("soak from seed {seed}");
    let report = soak_with_progress(&parts, seed, extent)?;
    print(&report);
    if let Some(path) = &arguments.json {
        std::fs::write(path, format!("{:#}\n", report.json()))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(report.failures().next().is_none())
}

fn print_outcome(what: &str, outcome: Result<()>) -> bool {
    match &outcome {
        Ok(()) => println!("{what}: holds"),
        Err(e) => println!("{what}: {e:#}"),
    }
    outcome.is_ok()
}

fn chosen(parts: Vec<Part>, only: &[String]) -> Result<Vec<Part>> {
    let names: Vec<_> = parts.iter().map(|part| part.name).collect();
    for name in only {
        anyhow::ensure!(
            names.contains(&name.as_str()),
            "no proof is called {name:?}; there are {}",
            names.join(", ")
        );
    }
    let is_chosen = |part: &Part| only.is_empty() || only.iter().any(|name| name == part.name);
    Ok(parts.into_iter().filter(is_chosen).collect())
}

fn soak_with_progress(parts: &[Part], seed: u64, extent: Extent) -> Result<SoakReport> {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template(
        "{spinner} {prefix:12} {wide_msg} {elapsed}",
    )?);
    bar.enable_steady_tick(Duration::from_millis(200));
    let report = soak::run(parts, seed, extent, |part, report| {
        bar.set_prefix(part.name);
        bar.set_message(format!(
            "{}, {} failures",
            counts(report),
            report.failures.len()
        ));
    });
    bar.finish_and_clear();
    Ok(report)
}

fn counts(report: &Report) -> String {
    let counted = Counter::ALL.into_iter().filter_map(|(counter, name)| {
        let count = report.counted(counter);
        (count > 0).then(|| format!("{name} {count}"))
    });
    counted.collect::<Vec<_>>().join(", ")
}

fn print(report: &SoakReport) {
    println!(
        "\n{:<12} {:>7} {:>8} {:>9}  checked",
        "proof", "seeds", "seconds", "failures"
    );
    for part in &report.parts {
        if let Some(why) = &part.skipped {
            println!("{:<12} skipped: {why}", part.name);
            continue;
        }
        println!(
            "{:<12} {:>7} {:>8.1} {:>9}  {}",
            part.name,
            part.seeds,
            part.took.as_secs_f64(),
            part.report.failures.len(),
            counts(&part.report)
        );
    }
    for (part, failure) in report.failures() {
        println!("\n{part}: {}", failure.detail);
        println!("  again: soak --replay '{}'", failure.replay);
    }
    match report.failures().count() {
        0 => println!("\nall proofs hold"),
        failures => println!("\n{failures} failures"),
    }
}
