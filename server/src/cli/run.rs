//! `ebb run`: a built-in application over a snapshot, files or drawn records.

mod applications;
mod input;
mod launch;
mod note;
mod report;
mod source;
mod source_text;
mod target;
mod watch;

use anyhow::{Context, Result};
use serde_json::json;

use self::applications::Job;
use self::launch::{Interrupt, Launch};
use self::note::Note;
use super::database::Location;
use super::error::CliError;
use super::print::counted;
use crate::jobs::history::{History, NotedJob};

const EXAMPLES: &str = "\
Examples:
  ebb run wordcount --table app.lines --snapshot monday --output counts.tsv
  ebb run wordcount --table app.lines --output app.counts --goal 30s
  ebb run grep --table app.lines --snapshot monday --output found.tsv --pattern TODO
  ebb run sort --text lines.txt --output sorted.txt
  ebb run aggregate --csv trips.csv --by city --of fare --output -

`ebb apps` lists the applications; `ebb run APPLICATION --help` tells all of one.";

/// Run a job over a snapshot of a table, or over files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    job: Job,
}

pub(super) fn run(args: Args) -> Result<()> {
    let location = args.job.common().location.clone();
    run_job(args.job, &location, &Interrupt::listen()?, None)
}

/// Starts jobs again whose processes ended before them, one after the other; those
/// after an interrupt stay as they are.
///
/// # Errors
/// That of the last job that did not succeed.
pub(super) fn restart(location: &Location, unfinished: Vec<NotedJob>) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    // The jobs' own arguments are relative to where they were started.
    let location = Location {
        data: std::path::absolute(&location.data)?,
    };
    let mut result = Ok(());
    for noted in unfinished {
        if interrupt.is_interrupted() {
            break;
        }
        eprintln!("ebb: starting {} {} again", noted.application, noted.id);
        let job = serde_json::from_value::<Job>(noted.arguments.clone());
        let run = match job {
            Ok(job) => std::env::set_current_dir(&noted.directory)
                .with_context(|| format!("cannot go to {}", noted.directory.display()))
                .and_then(|()| run_job(job, &location, &interrupt, Some(noted))),
            Err(error) => give_up(&location, noted, &error),
        };
        if let Err(error) = run
            && let Err(earlier) = std::mem::replace(&mut result, Err(error))
        {
            eprintln!("ebb: {earlier:#}");
        }
    }
    result
}

/// Notes that a job cannot be started again, and says so.
fn give_up(location: &Location, noted: NotedJob, why: &serde_json::Error) -> Result<()> {
    let cause = format!(
        "job {} has arguments of another version of ebb: {why}",
        noted.id
    );
    let db = location.open_with_maintenance()?;
    note::fail(&History::open(&db)?, &noted, &cause)?;
    Err(CliError::Usage(cause).into())
}

/// Runs a job and notes what becomes of it; under its old note when it is `noted`
/// already.
fn run_job(
    mut job: Job,
    location: &Location,
    interrupt: &Interrupt,
    noted: Option<NotedJob>,
) -> Result<()> {
    let common = job.common().clone();
    let mut launch = Launch::new(&common, location, job.reads_table())?;
    let history = launch.history()?;
    let is_restart = noted.is_some();
    let noted = match (&history, noted) {
        (Some(history), Some(noted)) => Some(history.begin_again(&noted)?),
        _ => None,
    };
    let work = job.work(&mut launch);
    if let Some(name) = launch.own_snapshot() {
        job.set_own_snapshot(name);
    }
    let note = match (&history, noted) {
        (Some(history), Some(noted)) => Some(Note::new(history, noted)?),
        (Some(history), None) if work.is_ok() => {
            let unfinished = history.unfinished()?.len();
            if unfinished > 0 {
                let jobs = counted(unfinished as u64, "job");
                eprintln!("ebb: {jobs} unfinished since a process ended; see ebb jobs --restart");
            }
            let directory = std::env::current_dir().context("cannot tell where this is")?;
            let noted = history.begin(job.name(), json!(job), directory)?;
            Some(Note::new(history, noted)?)
        }
        _ => None,
    };
    let journal = note.as_ref().map(Note::journal);
    let kind_of_work = job.work_arguments();
    let known = history.as_ref();
    let known = known.map(|history| history.known_profile(job.name(), &kind_of_work));
    let known = known.transpose()?.flatten();
    let report = work.and_then(|work| launch.run(work, interrupt, journal, known.as_ref()));
    if let Some(note) = note {
        match &report {
            Ok(report) => note.end(report, &kind_of_work, &launch.input_label())?,
            Err(error) if is_restart => note.fail(&format!("{error:#}"))?,
            // It never started.
            Err(_) => note.forget()?,
        }
    }
    report::tell(&common, &launch, &report?)
}
