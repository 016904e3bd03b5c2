//! What is said of a job at its end.

use anyhow::Result;
use ebb_scheduler::runtime::{JobReport, Outcome};
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;

use super::Common;
use super::target::Target;
use crate::cli::error::CliError;
use crate::cli::print::Printer;

/// Prints the report of a job.
///
/// # Errors
/// When the job failed or was late, so that the exit code tells it.
pub(super) fn tell(args: &Common, snapshot: &str, target: &Target, job: &JobReport) -> Result<()> {
    let mut printer = Printer::new();
    if args.json {
        let mut object = json!(job);
        object["input"] = json!(args.table.to_string());
        object["snapshot"] = json!(snapshot);
        object["output"] = json!(target.to_string());
        object["policy"] = json!(args.policy);
        printer.json(&object)?;
    } else if job.outcome == Outcome::Succeeded {
        for line in lines(args, snapshot, target, job) {
            printer.line(line)?;
        }
    }
    printer.finish()?;
    verdict(target, job)
}

fn lines(args: &Common, snapshot: &str, target: &Target, job: &JobReport) -> [String; 4] {
    let counters = &job.counters;
    let took_s = job.finished_s - job.submitted_s;
    let goal = args.goal.map(humantime::format_duration);
    let goal = match (goal, job.met) {
        (Some(goal), Some(true)) => format!("; goal of {goal} met"),
        (Some(goal), _) => format!("; goal of {goal} missed"),
        (None, _) => String::new(),
    };
    let shuffle = match counters.reduce_groups {
        0 => String::new(),
        _ => format!(
            "; {} records to disk ({}) of {} mapped",
            HumanCount(counters.spilled_records),
            HumanBytes(counters.spilled_bytes),
            HumanCount(counters.map_output_records),
        ),
    };
    [
        format!("{} succeeded in {took_s:.2} s{goal}", job.name),
        format!(
            "  input   {} at {}: {} rows, {}",
            args.table,
            snapshot,
            HumanCount(counters.map_input_records),
            HumanBytes(job.bytes_in),
        ),
        format!(
            "  work    {} tasks, {:.2} s of CPU, {} attempts failed{shuffle}",
            job.tasks, job.cpu_s, counters.attempts_failed
        ),
        format!(
            "  output  {target}: {} rows, {}",
            HumanCount(counters.output_records),
            HumanBytes(counters.output_bytes),
        ),
    ]
}

fn verdict(target: &Target, job: &JobReport) -> Result<()> {
    let failed = |what: String| CliError::JobFailed {
        name: job.name.clone(),
        what,
        output: target.to_string(),
    };
    match &job.outcome {
        Outcome::Failed { cause } => Err(failed(format!("failed: {cause}")).into()),
        Outcome::Cancelled => Err(failed("was cancelled".to_string()).into()),
        Outcome::Succeeded if job.met == Some(false) => Err(CliError::GoalMissed {
            name: job.name.clone(),
            late_s: job.finished_s - job.goal_s.unwrap_or(job.finished_s),
            output: target.to_string(),
        }
        .into()),
        Outcome::Succeeded => Ok(()),
    }
}
