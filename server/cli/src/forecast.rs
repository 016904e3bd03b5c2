//! `ebb forecast`: the forecast of a measured load, and the errors of such forecasts on its last days.

mod picture;
mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_bench::number::{fixed, percent};
use ebb_scheduler::forecast::{
    Evaluation, Forecast, Forecaster, Options, Series, days_to_evaluate, evaluate,
};
use ebb_text::read_whole;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::error::CliError;
use super::print::{JsonArgs, Printer, counted};
use super::time;

/// The number of forecasting methods that the printed table shows in addition to the naive ones: the best in
/// hindsight. The JSON output has all methods.
const METHODS_SHOWN: usize = 5;

/// The most days that are forecast for the evaluation without `--days`.
const DAYS_MAX: usize = 30;

/// The quantiles in the JSON output for the forecast after the end of the trace.
const QUANTILES: [f64; 7] = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95];

const EXAMPLES: &str = "\
Examples:
  ebb forecast ./ebb-data/load.csv        the record of a server, from eight days on
  ebb forecast load.csv --days 14 --horizon 2days --json-file forecast.json
  ebb forecast load.csv --report out      the pictures in out/index.html

Lines of the trace are TIME,VALUE; a time is a number of seconds or
YYYY-MM-DD HH:MM:SS. The times are at even steps; lines without a value and missing
lines are gaps. A straight line fills gaps of at most an hour. The JSON has the
forecast after the last line as `next`.

WAPE is the sum of a method's absolute errors divided by the sum of the values.
\"/ naive\" is the WAPE divided by that of the best naive method, which repeats past
values; it is \"-\", in JSON null, if that method made no error.";

/// Forecast a measured load, and evaluate forecasts of its last days.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The measured load, as CSV.
    #[arg(value_name = "TRACE.csv")]
    trace: PathBuf,
    /// Number of last days to forecast for the evaluation, each from the days before it, at least a week. Default:
    /// as many as the trace has behind its first week, at most 30.
    #[arg(long, value_name = "N")]
    days: Option<usize>,
    /// Length of each forecast, after the trace and in the evaluation.
    #[arg(long, value_name = "TIME", default_value = "1day", value_parser = time::parse)]
    horizon: Duration,
    /// Past days on which the methods are compared before each forecast.
    #[arg(long, value_name = "N", default_value_t = 28)]
    backtest_days: usize,
    #[command(flatten)]
    json: JsonArgs,
    /// Write a report with pictures into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

pub(super) fn run(args: Args) -> Result<()> {
    let path = args.trace.display();
    let text = read_whole(&args.trace)?;
    let wrong = |error: &dyn std::fmt::Display| CliError::Usage(format!("{path}: {error}"));
    let mut series = Series::parse_csv(&text).map_err(|error| wrong(&error))?;
    let missing = series.missing();
    series.fill_short_gaps();
    let options = Options {
        horizon_s: args.horizon.as_secs_f64(),
        backtest_days: args.backtest_days,
        ..Options::default()
    };
    let days = match args.days {
        Some(days) => days,
        None => {
            let possible = days_to_evaluate(&series, options).map_err(|error| wrong(&error))?;
            // If not even one day is possible, the evaluation reports how many values that takes.
            possible.clamp(1, DAYS_MAX)
        }
    };
    let bar = bar(days);
    let evaluation = evaluate(&series, options, days, |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let evaluation = evaluation.map_err(|error| wrong(&error))?;
    let next = Forecaster::new(&series, options).and_then(|mut forecaster| forecaster.from_end());
    let next = next.map_err(|error| wrong(&error))?;

    let outcome = Outcome::new(&args.trace, (&series, missing), &next, &evaluation)?;
    args.json.write_file(&outcome)?;
    if let Some(folder) = &args.report {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let picture = picture::load(&evaluation);
        if let Some(picture) = &picture {
            let svg = picture.to_svg_with(picture::STYLE);
            write(&folder.join("forecast.svg"), &svg)?;
        }
        let svg = picture.map(|picture| picture.to_html()).unwrap_or_default();
        let html = report::html(&args.trace.to_string_lossy(), &evaluation, &svg);
        write(&folder.join("index.html"), &html)?;
    }
    args.json.print(&outcome, |printer| {
        print(
            printer,
            (&series, missing),
            &evaluation,
            args.report.as_deref(),
        )
    })
}

/// Prints the tables. `missing` slots of the series were not measured; some of them may have been filled.
fn print(
    printer: &mut Printer,
    (series, missing): (&Series, usize),
    evaluation: &Evaluation,
    report: Option<&Path>,
) -> Result<()> {
    printer.line(format_args!(
        "{}, {} without a value; forecast the last {} from what was before each",
        counted(series.len() as u64, "slot"),
        missing,
        counted(evaluation.origins as u64, "day"),
    ))?;
    printer.line("")?;
    let head = ["method", "WAPE", "/ naive", "combined on"];
    printer.table(&head, &head[1..], &rows(evaluation))?;
    printer.line("")?;
    let rows = coverage_rows(evaluation);
    printer.table(&COVERAGE_HEAD, &COVERAGE_HEAD, &rows)?;
    if let Some(folder) = report {
        printer.line("")?;
        printer.line(format_args!(
            "report: {}",
            folder.join("index.html").display()
        ))?;
    }
    Ok(())
}

const COVERAGE_HEAD: [&str; 4] = ["interval", "load inside", "above", "mean width"];

/// Returns the rows of the table of methods: first the forecasts by the method that was chosen on each day,
/// then the naive methods, and then the best others in hindsight.
fn rows(evaluation: &Evaluation) -> Vec<Vec<String>> {
    let row = |name: &str, wape: f64, over_naive: Option<f64>, days: String| {
        vec![name.into(), fixed(wape, 4), fixed(over_naive, 3), days]
    };
    let naive = |name: &str| name.starts_with("naive");
    let scores = evaluation.methods.iter();
    let (naives, others): (Vec<_>, Vec<_>) = scores.partition(|score| naive(&score.name));
    let days = |chosen: usize| counted(chosen as u64, "day");
    let chosen = row("chosen", evaluation.wape, evaluation.ratio, String::new());
    let mut rows = vec![chosen];
    let shown = naives
        .into_iter()
        .chain(others.into_iter().take(METHODS_SHOWN));
    rows.extend(shown.map(|score| {
        row(
            &score.name,
            score.wape,
            score.over_naive,
            days(score.chosen),
        )
    }));
    rows
}

fn coverage_rows(evaluation: &Evaluation) -> Vec<Vec<String>> {
    let rows = evaluation.coverage.iter().map(|coverage| {
        vec![
            percent(coverage.nominal, 0),
            percent(coverage.measured, 1),
            percent(coverage.above, 1),
            percent(coverage.width, 1),
        ]
    });
    rows.collect()
}

/// The result of the command as JSON.
#[derive(Serialize)]
struct Outcome<'a> {
    trace: String,
    slots: usize,
    missing: usize,
    step_s: f64,
    next: Next,
    evaluation: &'a Evaluation,
}

/// The forecast after the end of the trace.
#[derive(Serialize)]
struct Next {
    start_s: f64,
    step_s: f64,
    methods: Vec<String>,
    point: Vec<f64>,
    quantiles: Vec<Quantile>,
}

#[derive(Serialize)]
struct Quantile {
    q: f64,
    load: Vec<f64>,
}

impl<'a> Outcome<'a> {
    fn new(
        trace: &Path,
        (series, missing): (&Series, usize),
        next: &Forecast,
        evaluation: &'a Evaluation,
    ) -> Result<Self> {
        let quantile = |q| -> Result<Quantile> {
            let load = next.quantile(q)?;
            Ok(Quantile { q, load })
        };
        Ok(Self {
            trace: trace.display().to_string(),
            slots: series.len(),
            missing,
            step_s: series.step_s(),
            next: Next {
                start_s: next.start_s(),
                step_s: next.step_s(),
                methods: next.methods().iter().map(ToString::to_string).collect(),
                point: next.point().to_vec(),
                quantiles: QUANTILES.into_iter().map(quantile).collect::<Result<_>>()?,
            },
            evaluation,
        })
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn bar(days: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:32} {pos:>5} of {len} days  {eta} left");
    ProgressBar::new(days as u64).with_style(style.expect("the template is a constant"))
}
