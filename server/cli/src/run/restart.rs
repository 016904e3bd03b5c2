//! Jobs whose processes ended before them, started again.

use anyhow::{Context, Result};
use ebb_server::jobs::history::{History, NotedJob, STARTS_MAX};

use super::applications::Job;
use super::launch::{Common, Interrupt, Launch};
use super::report::Report;
use super::{note, report, run_job};
use crate::database::Location;
use crate::error::CliError;

/// Starts unfinished jobs again, for a command that does nothing else.
///
/// # Errors
/// As [`start_again`].
pub(crate) fn start_all_again(location: &Location, unfinished: Vec<NotedJob>) -> Result<()> {
    start_again(location, &Interrupt::listen()?, unfinished, Report::Asked)
}

/// Starts jobs again, one after the other; those after an interrupt stay as they
/// are. The working directory is then that of the last.
///
/// # Errors
/// That of the last job that did not succeed; the others are told on stderr.
pub(super) fn start_again(
    location: &Location,
    interrupt: &Interrupt,
    unfinished: Vec<NotedJob>,
    report: Report,
) -> Result<()> {
    // The jobs' own arguments are relative to where they were started.
    let location = Location {
        data: std::path::absolute(&location.data)?,
    };
    let mut result = Ok(());
    for noted in unfinished {
        if interrupt.is_interrupted() {
            break;
        }
        let run = one_again(&location, interrupt, noted, report);
        if let Err(error) = run
            && let Err(earlier) = std::mem::replace(&mut result, Err(error))
        {
            eprintln!("ebb: {earlier:#}");
        }
    }
    result
}

/// Starts a job again, unless it is done already or must not be.
fn one_again(
    location: &Location,
    interrupt: &Interrupt,
    noted: NotedJob,
    report: Report,
) -> Result<()> {
    let told: Result<Job, _> = serde_json::from_value(noted.arguments.clone());
    if let (true, Ok(job)) = (noted.commits, &told) {
        let mut launch = launch(location, &noted, job.common(), job.reads_table())?;
        launch.report = report;
        if launch.has_output()? {
            return note_done(&launch, &noted, job);
        }
    }
    match (cause_against(&noted, &told), told) {
        (None, Ok(job)) => run_again(location, interrupt, noted, job, report),
        (cause, job) => give_up(location, &noted, job.ok(), cause.unwrap_or_default()),
    }
}

/// The noted job about to run, in the directory where it was started.
fn launch<'a>(
    location: &Location,
    noted: &NotedJob,
    common: &'a Common,
    reads_table: bool,
) -> Result<Launch<'a>> {
    let directory = &noted.directory;
    std::env::set_current_dir(directory)
        .with_context(|| format!("cannot go to {}", directory.display()))?;
    Launch::new(common, location, reads_table)
}

/// Notes that a job has succeeded which came to put its output in place, where one is, and
/// whose process ended before it could say so.
fn note_done(launch: &Launch<'_>, noted: &NotedJob, job: &Job) -> Result<()> {
    if let (Some(history), Some(db)) = (launch.existing_history()?, launch.database()) {
        note::succeed(&history, noted)?;
        job.delete_own_snapshot(db);
    }
    let NotedJob {
        application, id, ..
    } = noted;
    let target = &launch.target;
    eprintln!(
        "ebb: {application} {id}, whose process ended before it could say so, had succeeded: \
         {target} is there, which it was about to put in place (if it is somebody else's, move \
         it away and ask again)"
    );
    report::tell_done(launch, application, id)
}

/// Why a job is not to be started again.
fn cause_against(noted: &NotedJob, told: &Result<Job, serde_json::Error>) -> Option<String> {
    let NotedJob { id, starts, .. } = noted;
    if *starts >= STARTS_MAX {
        let application = &noted.application;
        return Some(format!(
            "{application} {id} was started {starts} times, and each time its process ended \
             before it: not started again"
        ));
    }
    match told {
        Ok(job) if job.common().output == "-" => Some(format!(
            "the rows of job {id} were for the terminal of a process that is gone: not started \
             again"
        )),
        Ok(_) => None,
        Err(why) => Some(format!(
            "job {id} has arguments of another version of ebb: {why}"
        )),
    }
}

/// Notes that a job is not started again, and says so.
fn give_up(location: &Location, noted: &NotedJob, job: Option<Job>, cause: String) -> Result<()> {
    let db = location.open_with_maintenance()?;
    note::fail(&History::open(&db)?, noted, &cause)?;
    if let Some(job) = job {
        job.delete_own_snapshot(&db);
    }
    Err(CliError::Usage(cause).into())
}

fn run_again(
    location: &Location,
    interrupt: &Interrupt,
    noted: NotedJob,
    job: Job,
    report: Report,
) -> Result<()> {
    let NotedJob {
        application, id, ..
    } = &noted;
    eprintln!("ebb: starting {application} {id} again, which a process left unfinished");
    let common = job.common().clone();
    let mut launch = launch(location, &noted, &common, job.reads_table())?;
    launch.report = report;
    run_job(job, launch, interrupt, Some(noted))
}
