//! Jobs whose processes ended before them, started again.

use anyhow::{Context, Result};

use super::applications::Job;
use super::launch::{Interrupt, Launch};
use super::report::Report;
use super::{note, run_job};
use crate::cli::database::Location;
use crate::cli::error::CliError;
use crate::jobs::history::{History, NotedJob, STARTS_MAX};

/// Starts unfinished jobs again, for a command that does nothing else.
///
/// # Errors
/// As [`start_again`].
pub(in crate::cli) fn start_all_again(
    location: &Location,
    unfinished: Vec<NotedJob>,
) -> Result<()> {
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
        let run = match cause_against(&noted) {
            Some(cause) => give_up(&location, &noted, cause),
            None => one_again(&location, interrupt, noted, report),
        };
        if let Err(error) = run
            && let Err(earlier) = std::mem::replace(&mut result, Err(error))
        {
            eprintln!("ebb: {earlier:#}");
        }
    }
    result
}

/// Why a job is not to be started again.
fn cause_against(noted: &NotedJob) -> Option<String> {
    let NotedJob { id, starts, .. } = noted;
    if *starts >= STARTS_MAX {
        let application = &noted.application;
        return Some(format!(
            "{application} {id} was started {starts} times, and each time its process ended \
             before it: not started again"
        ));
    }
    match serde_json::from_value::<Job>(noted.arguments.clone()) {
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
fn give_up(location: &Location, noted: &NotedJob, cause: String) -> Result<()> {
    let db = location.open_with_maintenance()?;
    note::fail(&History::open(&db)?, noted, &cause)?;
    Err(CliError::Usage(cause).into())
}

fn one_again(
    location: &Location,
    interrupt: &Interrupt,
    noted: NotedJob,
    report: Report,
) -> Result<()> {
    let NotedJob {
        application,
        id,
        directory,
        ..
    } = &noted;
    eprintln!("ebb: starting {application} {id} again, which a process left unfinished");
    std::env::set_current_dir(directory)
        .with_context(|| format!("cannot go to {}", directory.display()))?;
    let job: Job = serde_json::from_value(noted.arguments.clone())?;
    let common = job.common().clone();
    let mut launch = Launch::new(&common, location, job.reads_table())?;
    launch.report = report;
    run_job(job, launch, interrupt, Some(noted))
}
