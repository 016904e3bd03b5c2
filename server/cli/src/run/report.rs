//! The report of a job that has ended, on stdout or stderr.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use ebb_jobs::history::JobRecord;
use ebb_jobs::request::{JobRequest, OutputPlace};
use ebb_scheduler::runtime::{JobReport, Outcome};
use ebb_server::jobs::{JobEnd, JobView, ReadInput};
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::escape::escaped_line;
use crate::print::{Printer, counted, unless_closed, write_stderr};

/// The report of a job that has ended.
pub(crate) struct Report<'a> {
    /// The job, with its end.
    pub(crate) job: &'a JobView,
    /// The request that the job was submitted with; `None` if the server does not show it, or this build does
    /// not know its version.
    pub(crate) request: Option<&'a JobRequest>,
    pub(crate) json: bool,
}

impl Report<'_> {
    /// Prints the report on stdout, or on stderr if the rows of the job are on stdout.
    ///
    /// # Errors
    /// When the job failed, was cancelled or ended after its goal: the error becomes the exit code.
    pub(crate) fn print(&self) -> Result<()> {
        let report = &self.end()?.report;
        let output = self.output();
        let text = match (self.json, &report.outcome) {
            (true, _) => vec![self.object(report).to_string()],
            (false, Outcome::Succeeded) => self.lines(report),
            (false, _) => Vec::new(),
        };
        print(&text, output == Some(&OutputPlace::Terminal))?;
        Ok(verdict(output, report)?)
    }

    /// Checks that the history of jobs has a record of the end of the job.
    ///
    /// # Errors
    /// When the end could not be recorded.
    pub(crate) fn check_recorded(&self) -> Result<()> {
        let Some(error) = &self.end()?.unrecorded else {
            return Ok(());
        };
        let name = &self.job.record.application;
        match self.output() {
            Some(output) => {
                bail!("{name}: the output is in {output}, but its end is not recorded: {error}")
            }
            None => bail!("{name}: its end is not recorded: {error}"),
        }
    }

    fn end(&self) -> Result<&JobEnd> {
        (self.job.end.as_ref()).context("the job has not ended")
    }

    fn output(&self) -> Option<&OutputPlace> {
        self.request.map(|request| &request.output.to)
    }

    fn inputs(&self) -> &[ReadInput] {
        self.job.run.as_ref().map_or(&[], |run| &run.inputs)
    }

    /// Returns the problems of the files that were left out.
    fn skipped(&self) -> Vec<&String> {
        let inputs = self.inputs().iter();
        inputs.flat_map(|input| &input.skipped).collect()
    }

    /// Returns the lines of a publication about its output, such as how much of each table it wrote; empty
    /// for other jobs.
    fn notes(&self) -> &[String] {
        self.job.end.as_ref().map_or(&[], |end| &end.notes)
    }

    fn object(&self, report: &JobReport) -> Value {
        let mut object = json!(report);
        let run = self.job.run.as_ref();
        let inputs = self.inputs();
        let names: Vec<_> = inputs.iter().map(|input| &input.name).collect();
        object["job"] = json!(self.job.record.id);
        object["input"] = json!(names.first());
        object["snapshot"] = json!(inputs.first().and_then(|input| input.snapshot.as_ref()));
        object["skipped"] = json!(self.skipped());
        if names.len() > 1 {
            object["inputs"] = json!(names);
        }
        object["output"] = json!(self.output().map(ToString::to_string));
        object["policy"] = json!(run.map(|run| &run.policy));
        object["waited"] = json!(self.job.waited());
        let estimate = run.and_then(|run| run.estimate.as_ref());
        object["advice"] = json!(estimate.and_then(|estimate| estimate.advice.as_ref()));
        if !self.notes().is_empty() {
            object["notes"] = json!(self.notes());
        }
        object
    }

    /// Returns the report on a job that succeeded, as lines of text.
    fn lines(&self, job: &JobReport) -> Vec<String> {
        let counters = &job.counters;
        let took_s = job.finished_s - job.submitted_s;
        let goal = goal_of(&self.job.record);
        let goal = match (goal, job.met) {
            (Some(goal), Some(true)) => format!("; goal of {goal} met"),
            (Some(goal), _) => format!("; goal of {goal} missed"),
            (None, _) => String::new(),
        };
        let shuffle = match counters.reduce_groups {
            // The job has no reduces, or nothing came to them.
            0 => String::new(),
            _ => format!(
                "; {} to disk ({}) of {} mapped",
                counted(counters.spilled_records, "record"),
                HumanBytes(counters.spilled_bytes),
                HumanCount(counters.map_output_records),
            ),
        };
        let inputs = self.inputs().iter().map(|input| match &input.snapshot {
            Some(snapshot) => format!("{} at {snapshot}", input.name),
            None => input.name.clone(),
        });
        let inputs: Vec<String> = inputs.collect();
        let mut lines = vec![format!("{} succeeded in {took_s:.2} s{goal}", job.name)];
        if !inputs.is_empty() {
            lines.push(format!(
                "  input   {}: {}, {}",
                inputs.join(" and "),
                counted(counters.map_input_records, "row"),
                HumanBytes(job.bytes_in),
            ));
        }
        let skipped = self.skipped();
        if !skipped.is_empty() {
            let files = counted(skipped.len() as u64, "file");
            lines.push(format!("  skipped {files}:"));
            lines.extend(skipped.iter().map(|problem| format!("    {problem}")));
        }
        lines.push(format!(
            "  work    {}, {:.2} s of CPU, {} failed{shuffle}",
            counted(u64::from(job.tasks), "task"),
            job.cpu_s,
            counted(counters.attempts_failed, "attempt"),
        ));
        let waited = self.job.waited();
        lines.extend(waited.map(|waited| format!("  waited  {waited:#}")));
        // Without the request the place of the output is not known.
        let Some(JobRequest { output, .. }) = self.request else {
            return lines;
        };
        let rows = counters.output_records;
        // The counters are those of all rows, so the bytes of the first `limit` rows are not known.
        let written = match output.limit.filter(|&limit| limit < rows) {
            Some(limit) => format!(
                "{}, the first of {}",
                counted(limit, "row"),
                HumanCount(rows)
            ),
            None => format!(
                "{}, {}",
                counted(rows, "row"),
                HumanBytes(counters.output_bytes)
            ),
        };
        // The notes of a publication have the rows of each table, so the sums are left out.
        match self.notes() {
            [] => lines.push(format!("  output  {}: {written}", output.to)),
            notes => {
                lines.push(format!("  output  {}", output.to));
                lines.extend(notes.iter().map(|note| format!("          {note}")));
            }
        }
        lines
    }
}

/// Prints that a job succeeded in an earlier process, which left no report.
pub(crate) fn print_done(record: &JobRecord, request: &JobRequest, json: bool) -> Result<()> {
    let (name, output) = (&record.application, request.output.to.to_string());
    let text = if json {
        vec![
            json!({
                "name": name,
                "job": record.id,
                "outcome": {"kind": "succeeded"},
                "output": output,
            })
            .to_string(),
        ]
    } else {
        vec![
            format!("{name} succeeded; what it took is not known"),
            format!("  output  {output}"),
        ]
    };
    print(&text, false)
}

fn print(text: &[String], to_stderr: bool) -> Result<()> {
    if to_stderr {
        (text.iter()).for_each(|line| write_stderr(escaped_line(line) + "\n"));
        return Ok(());
    }
    let mut printer = Printer::new();
    unless_closed(printer.lines(text).and_then(|()| printer.finish()))
}

/// Formats a goal like the argument that set it.
pub(super) fn goal_text(goal_s: f64) -> String {
    humantime::format_duration(Duration::from_secs_f64(goal_s)).to_string()
}

/// Formats the goal of a job; `None` if the job has none. Reads only the goal from the request,
/// because this build may be unable to read the rest.
pub(crate) fn goal_of(job: &JobRecord) -> Option<String> {
    let goal = Duration::try_from_secs_f64(job.request["goal_s"].as_f64()?);
    Some(humantime::format_duration(goal.ok()?).to_string())
}

/// Returns the error that sets the exit code, if the job failed, was cancelled or was late. `target` is the
/// place of its output, if that is known.
fn verdict(target: Option<&OutputPlace>, job: &JobReport) -> Result<(), CliError> {
    let name = &job.name;
    let message = |what: String, output: &str| match target {
        Some(target) => format!("job {name} {what}; {output} {target}"),
        None => format!("job {name} {what}"),
    };
    // A failed publication may have committed some of its tables.
    let written = match target {
        Some(OutputPlace::Iceberg(_)) => "it was to write",
        _ => "nothing was written to",
    };
    let failed = |what: String| message(what, written);
    match &job.outcome {
        Outcome::Failed { cause } if job.invalid_input => {
            Err(CliError::Usage(failed(format!("failed: {cause}"))))
        }
        Outcome::Failed { cause } if job.disk_full => {
            Err(CliError::DiskFull(failed(format!("failed: {cause}"))))
        }
        Outcome::Failed { cause } => Err(CliError::JobFailed(failed(format!("failed: {cause}")))),
        Outcome::Cancelled => Err(CliError::JobFailed(failed("was cancelled".to_string()))),
        Outcome::Succeeded if job.met == Some(false) => {
            let late_s = job.finished_s - job.goal_s.unwrap_or(job.finished_s);
            let what = format!("succeeded {late_s:.2} s after its goal");
            Err(CliError::GoalMissed(message(what, "its output is in")))
        }
        Outcome::Succeeded => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use ebb_scheduler::runtime::Counters;

    use super::*;

    fn grep() -> JobView {
        let report = json!({
            "id": 1, "name": "grep", "submitted_s": 1.0, "goal_s": 21.0, "finished_s": 12.81, "met": true,
            "tasks": 2, "bytes_in": 9, "cpu_s": 0.5, "counters": Counters::default(),
            "outcome": {"kind": "succeeded"}, "invalid_input": false,
        });
        let record = json!({
            "id": "1795293012345", "application": "grep", "own_snapshots": [], "state": "succeeded",
            "request": {"application": {"grep": {}}, "goal_s": 20.0},
            "started_unix_ms": 1_795_293_012_345_u64, "starts": 1, "commits": true,
            "ended_unix_ms": 1_795_293_024_155_u64, "report": report, "attempts_dropped": 0,
        });
        JobView::remembered(serde_json::from_value(record).unwrap())
    }

    #[test]
    fn a_job_whose_options_are_not_shown_is_reported_with_its_end_and_its_goal() {
        let job = grep();
        // Regression: the command ended with an error about a missing field.
        assert!(job.record.request().is_err());
        let report = Report {
            job: &job,
            request: None,
            json: false,
        };
        let end = &report.end().unwrap().report;
        assert_eq!(
            report.lines(end),
            [
                "grep succeeded in 11.81 s; goal of 20s met",
                "  work    2 tasks, 0.50 s of CPU, 0 attempts failed"
            ]
        );
        assert_eq!(report.object(end)["output"], Value::Null);
        let late = JobReport {
            finished_s: 22.0,
            met: Some(false),
            ..end.clone()
        };
        let error = verdict(None, &late).unwrap_err();
        assert_eq!(
            error.to_string(),
            "job grep succeeded 1.00 s after its goal"
        );
    }

    /// Regression: a job that a full disk had stopped ended `ebb run` with the exit code of other failures.
    #[test]
    fn a_job_that_a_full_disk_stopped_ends_as_such() {
        let failed = |disk_full| {
            let cause = "writing x".to_string();
            let report = JobReport {
                outcome: Outcome::Failed { cause },
                disk_full,
                ..grep().end.unwrap().report
            };
            verdict(None, &report).unwrap_err()
        };
        assert!(matches!(failed(true), CliError::DiskFull(_)));
        assert!(matches!(failed(false), CliError::JobFailed(_)));
    }
}
