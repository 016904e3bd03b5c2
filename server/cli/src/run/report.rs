//! What is said of a job at its end.

use anyhow::Result;
use ebb_scheduler::runtime::{JobReport, Outcome};
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};

use super::launch::{Common, Launch};
use super::target::Target;
use crate::error::CliError;
use crate::print::Printer;

/// Whose report it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// Of the job that the command is for.
    Asked,
    /// Of one that had to be done before.
    Aside,
}

/// Prints the report of a job: to stderr when its rows went to stdout, or when
/// another's report will.
///
/// # Errors
/// When the job failed or was late, so that the exit code tells it.
pub(super) fn tell(launch: &Launch<'_>, job: &JobReport) -> Result<()> {
    let (args, target) = (launch.common, &launch.target);
    let text = match (args.json, &job.outcome) {
        (true, _) => vec![object(args, launch, job).to_string()],
        (false, Outcome::Succeeded) => lines(args, launch, job),
        (false, _) => Vec::new(),
    };
    print(launch, &text)?;
    verdict(target, job)
}

/// The same for a job of which nothing is known but that it succeeded: application `name`
/// by its note `id`.
pub(super) fn tell_done(launch: &Launch<'_>, name: &str, id: &str) -> Result<()> {
    let output = launch.target.to_string();
    let text = match launch.common.json {
        true => vec![
            json!({
                "name": name,
                "job": id,
                "outcome": {"kind": "succeeded"},
                "output": output,
            })
            .to_string(),
        ],
        false => vec![
            format!("{name} succeeded; what it took is not known"),
            format!("  output  {output}"),
        ],
    };
    print(launch, &text)
}

fn print(launch: &Launch<'_>, text: &[String]) -> Result<()> {
    if launch.target.is_terminal() || launch.report == Report::Aside {
        text.iter().for_each(|line| eprintln!("{line}"));
        return Ok(());
    }
    let mut printer = Printer::new();
    for line in text {
        printer.line(line)?;
    }
    printer.finish()
}

fn object(args: &Common, launch: &Launch<'_>, job: &JobReport) -> Value {
    let mut object = json!(job);
    let inputs = launch.told_inputs();
    let names: Vec<_> = inputs.iter().map(|(name, _)| name).collect();
    object["input"] = json!(names.first());
    object["snapshot"] = json!(inputs.first().and_then(|(_, snapshot)| *snapshot));
    if let [_, others @ ..] = &inputs[..]
        && !others.is_empty()
    {
        object["inputs"] = json!(names);
    }
    object["output"] = json!(launch.target.to_string());
    object["policy"] = json!(args.policy);
    object["advice"] = json!(launch.told);
    object
}

fn lines(args: &Common, launch: &Launch<'_>, job: &JobReport) -> Vec<String> {
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
    let inputs = launch.told_inputs().into_iter().map(|input| match input {
        (name, Some(snapshot)) => format!("{name} at {snapshot}"),
        (name, None) => name.to_string(),
    });
    let inputs: Vec<String> = inputs.collect();
    let mut lines = vec![format!("{} succeeded in {took_s:.2} s{goal}", job.name)];
    if !inputs.is_empty() {
        lines.push(format!(
            "  input   {}: {} rows, {}",
            inputs.join(" and "),
            HumanCount(counters.map_input_records),
            HumanBytes(job.bytes_in),
        ));
    }
    lines.push(format!(
        "  work    {} tasks, {:.2} s of CPU, {} attempts failed{shuffle}",
        job.tasks, job.cpu_s, counters.attempts_failed
    ));
    lines.push(format!(
        "  output  {}: {} rows, {}",
        launch.target,
        HumanCount(counters.output_records),
        HumanBytes(counters.output_bytes),
    ));
    lines
}

fn verdict(target: &Target, job: &JobReport) -> Result<()> {
    let failed = |what: String| CliError::JobFailed {
        name: job.name.clone(),
        what,
        output: target.to_string(),
    };
    match &job.outcome {
        Outcome::Failed { cause } if job.invalid_input => Err(CliError::InvalidRecord {
            name: job.name.clone(),
            cause: cause.clone(),
            output: target.to_string(),
        }
        .into()),
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
