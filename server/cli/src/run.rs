//! `ebb run`: a built-in application over a snapshot, files or drawn records.

mod applications;
mod input;
mod isolate;
mod launch;
mod memory;
mod note;
mod report;
mod restart;
mod source;
mod source_text;
mod spills;
mod target;
mod told;
mod watch;

use anyhow::{Context, Result};
use serde_json::json;

use self::applications::Job;
pub(super) use self::isolate::Isolation;
pub use self::isolate::serve_tasks_if_asked;
use self::launch::{Interrupt, Launch};
use self::note::Note;
use self::report::Report;
use self::restart::start_again;
pub(super) use self::restart::start_all_again;
use self::told::Load;
use super::error::CliError;
use super::print::counted;
use ebb_server::jobs::history::{History, KnownProfile, NotedJob};

const EXAMPLES: &str = "\
Examples:
  ebb run wordcount --table app.lines --snapshot monday --output counts.tsv
  ebb run wordcount --table app.lines --output app.counts --goal 30s
  ebb run grep --table app.lines --snapshot monday --output found.tsv --pattern TODO
  ebb run sort --text lines.txt --output sorted.txt
  ebb run aggregate --csv trips.csv --by city --of fare --output -
  ebb run wordcount --table app.lines --output app.counts --goal 30s --dry-run
  ebb run index --table app.lines --output app.words --isolate process

`ebb apps` lists the applications; `ebb run APPLICATION --help` tells all of one.

Jobs over this database whose processes were killed are started again first. The same
command as that of such a job is that job, over the snapshot that it had.";

/// Run a job over a snapshot of a table, or over files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    job: Job,
}

pub(super) fn run(args: Args) -> Result<()> {
    let job = args.job;
    let common = job.common().clone();
    let location = common.location.clone();
    let interrupt = Interrupt::listen()?;
    let launch = Launch::new(&common, &location, job.reads_table())?;
    if common.dry_run {
        return tell_only(&job, launch);
    }
    let unfinished = launch.unfinished()?;
    if unfinished.is_empty() {
        return run_job(job, launch, &interrupt, None);
    }
    if common.no_restart {
        let jobs = counted(unfinished.len() as u64, "job");
        eprintln!("ebb: {jobs} unfinished since a process ended; see ebb jobs --restart");
        return run_job(job, launch, &interrupt, None);
    }
    // Each opens the database for itself, as its arguments say.
    drop(launch);
    let here = std::env::current_dir().context(NOWHERE)?;
    let (mut same, others): (Vec<_>, Vec<_>) =
        (unfinished.into_iter()).partition(|noted| job.is_noted_as(noted, &here));
    if let Err(error) = start_again(&location, &interrupt, others, Report::Aside) {
        eprintln!("ebb: {error:#}");
    }
    std::env::set_current_dir(&here).context(NOWHERE)?;
    if !same.is_empty() {
        return start_again(&location, &interrupt, vec![same.remove(0)], Report::Asked);
    }
    if interrupt.is_interrupted() {
        return Err(CliError::JobFailed {
            name: job.name().to_string(),
            what: "was cancelled before it began".to_string(),
            output: common.output,
        }
        .into());
    }
    let launch = Launch::new(&common, &location, job.reads_table())?;
    run_job(job, launch, &interrupt, None)
}

/// Says what can be said of a job without running it.
fn tell_only(job: &Job, mut launch: Launch<'_>) -> Result<()> {
    let load = Load::start();
    let history = launch.existing_history()?;
    let work = job.work(&mut launch)?;
    let known = known_profile(history.as_ref(), job)?;
    launch.told = told::tell(&launch, &work, known.as_ref(), load)?;
    told::print(&launch, &work, job.name())
}

fn known_profile(history: Option<&History>, job: &Job) -> Result<Option<KnownProfile>> {
    let known = history.map(|history| history.known_profile(job.name(), &job.work_arguments()));
    Ok(known.transpose()?.flatten())
}

const NOWHERE: &str = "cannot tell where this is";

/// Runs a job and notes what becomes of it; under its old note when it is `noted`
/// already.
fn run_job(
    mut job: Job,
    mut launch: Launch<'_>,
    interrupt: &Interrupt,
    noted: Option<NotedJob>,
) -> Result<()> {
    let load = launch.common.goal.map(|_| Load::start());
    let history = launch.history()?;
    let is_restart = noted.is_some();
    let noted = match (&history, noted) {
        (Some(history), Some(noted)) => Some(history.begin_again(&noted)?),
        _ => None,
    };
    let known = known_profile(history.as_ref(), &job)?;
    let work = job.work(&mut launch);
    let work = work.and_then(|work| isolate::isolated(work, &job, &mut launch));
    if let Some(name) = launch.own_snapshot() {
        job.set_own_snapshot(name);
    }
    let note = match (&history, noted) {
        (Some(history), Some(noted)) => Some(Note::new(history, noted, &launch.commit_note)?),
        (Some(history), None) if work.is_ok() => {
            let directory = std::env::current_dir().context(NOWHERE)?;
            let noted = history.begin(job.name(), json!(job), directory)?;
            Some(Note::new(history, noted, &launch.commit_note)?)
        }
        _ => None,
    };
    let journal = note.as_ref().map(Note::journal);
    let report = work.and_then(|work| {
        if let Some(load) = load {
            launch.told = told::tell(&launch, &work, known.as_ref(), load)?;
            told::warn(&launch, &work, job.name());
        }
        launch.run(work, interrupt, journal, known.as_ref())
    });
    let noted = match (note, &report) {
        (None, _) => Ok(()),
        (Some(note), Ok(report)) => {
            let (work, input) = (job.work_arguments(), launch.input_label());
            note.end(report, &work, &input, launch.told.as_ref())
        }
        (Some(note), Err(error)) if is_restart => note.fail(&format!("{error:#}")),
        // It never started.
        (Some(note), Err(_)) => note.forget(),
    };
    // What became of the job is told whether it could be noted or not.
    match (
        report.and_then(|report| report::tell(&launch, &report)),
        noted,
    ) {
        (Ok(()), noted) => noted.with_context(|| {
            let target = &launch.target;
            format!("the output is in {target}, but the end of the job could not be noted")
        }),
        (Err(error), noted) => {
            if let Err(unnoted) = noted {
                eprintln!("ebb: the end of the job could not be noted: {unnoted:#}");
            }
            Err(error)
        }
    }
}
