//! An estimate of a job before it starts: how long it takes, and how probably it meets
//! its goal.

use std::time::Duration;

use anyhow::Result;
use ebb_jobs::advice::{Advice, JobAdvice, Lateness, PublicationOutlook};
use ebb_jobs::request::JobRequest;
use ebb_server::jobs::Estimate;
use serde_json::json;

use super::report::goal_text;
use crate::print::{Printer, counted, notice};

/// Prints to stderr how probably a job meets its goal, or why that is not known. Prints nothing if the
/// estimate is known and the job has no goal.
pub(super) fn warn(request: &JobRequest, estimate: &Estimate) {
    let text = match (&estimate.advice, request.goal_s) {
        (Some(told), Some(goal_s)) => {
            let goal = met(told, goal_s);
            format!("{goal}; {} ({})", safe(told), basis(told))
        }
        (Some(_), None) => return,
        (None, _) => why_unknown(estimate),
    };
    notice(text);
}

fn why_unknown(estimate: &Estimate) -> String {
    estimate.unknown_because.clone().unwrap_or_default()
}

/// Prints the estimate of a job instead of running it.
pub(super) fn print(request: &JobRequest, estimate: &Estimate, as_json: bool) -> Result<()> {
    let name = request.application.name();
    let mut printer = Printer::new();
    // All fields are there also if the estimate is unknown: `advice` is null then.
    if as_json {
        let inputs: Vec<_> = (estimate.inputs.iter())
            .map(|input| &input.name[..])
            .collect();
        printer.json(&json!({
            "name": name,
            "input": inputs.join(" and "),
            "output": request.output.to.to_string(),
            "goal_s": request.goal_s,
            "advice": estimate.advice,
            "unknown_because": estimate.unknown_because,
        }))?;
        return printer.finish();
    }
    let Some(told) = &estimate.advice else {
        printer.line(why_unknown(estimate))?;
        return printer.finish();
    };
    let Advice {
        median_s,
        map_task_cpu_s,
        reduce_task_cpu_s,
        learned_factor,
        log_sd,
        ..
    } = told.advice;
    let (maps, reduces) = (told.maps.into(), told.reduces.into());
    let jobs = match told.jobs {
        1 => String::new(),
        jobs => format!("{}, ", counted(jobs.into(), "job")),
    };
    printer.line(format!(
        "{name} of {jobs}{}, {}: {} as probably as not; {}",
        counted(maps, "map"),
        counted(reduces, "reduce"),
        seconds(median_s),
        safe(told),
    ))?;
    if let Some(goal_s) = request.goal_s {
        printer.line(format!("  {}", met(told, goal_s)))?;
    }
    if let Some(lateness) = &told.lateness {
        let text = late(lateness, told.cores, request.could_read_publication());
        printer.line(format!("  {text}"))?;
    }
    printer.line(format!("  as {}, as at this moment", basis(told)))?;
    printer.line(format!(
        "  assumed: {} of CPU a map and {} a reduce, {learned_factor:.2} times that as earlier executions \
         took, times or over {:.2}; nothing else is run here",
        seconds(map_task_cpu_s),
        seconds(reduce_task_cpu_s),
        // One standard deviation of the logarithm, as a factor.
        log_sd.exp(),
    ))?;
    printer.finish()
}

fn met(job: &JobAdvice, goal_s: f64) -> String {
    let probability = match job.advice.met_probability.unwrap_or_default() {
        // The number of simulated futures is too small for a finer statement.
        p if p > 0.99 => "over 0.99".to_string(),
        p if p < 0.01 => "under 0.01".to_string(),
        p => format!("{p:.2}"),
    };
    let goal = goal_text(goal_s);
    format!("the goal of {goal} is met with probability {probability}")
}

/// Describes by how much the job is late, and whether more machines with Spark, each with `cores` free cores, would
/// change that. `could_read_publication` is true if all inputs of the job are tables that `ebb publish` can
/// write for other machines to read.
fn late(lateness: &Lateness, cores: u32, could_read_publication: bool) -> String {
    let late = format!(
        "this machine ends it {} after the goal, as probably as not",
        seconds(lateness.late_by_s)
    );
    let Some(publication) = &lateness.publication else {
        return if could_read_publication {
            format!(
                "{late}; more machines could run it over what ebb publish writes, but how long publishing \
                 takes is not known: no publication of about this size has left a profile"
            )
        } else {
            late
        };
    };
    format!("{late}; {}", with_spark(publication, cores))
}

/// Describes how long publishing takes, and how many machines, each with `cores` free cores, could meet the goal
/// by Spark.
fn with_spark(publication: &PublicationOutlook, cores: u32) -> String {
    let publishing = format!(
        "publishing the tables that it reads takes {}, as in job {}",
        seconds(publication.publish_s),
        publication.profile_of
    );
    let start = seconds(publication.spark_start_s);
    let Some(machines) = publication.machines else {
        return format!(
            "{publishing}, and Spark starts in {start}, so more machines would not meet it either"
        );
    };
    let machines = counted(machines.into(), "machine");
    let cores = counted(cores.into(), "core");
    let speed = match publication.spark_cpu_ratio {
        Some(ratio) => format!("takes {ratio:.2} times the CPU time of ebb"),
        None => "is taken to be as fast as ebb, because its speed was not measured for this \
                 application"
            .to_string(),
    };
    format!(
        "{publishing}, and then {machines} of {cores} could meet the goal by Spark, which starts in {start} and \
         {speed}"
    )
}

fn safe(told: &JobAdvice) -> String {
    let Advice {
        safe_goal_s,
        confidence,
        ..
    } = told.advice;
    let percent = 100.0 * confidence;
    format!(
        "the earliest goal met with {percent:.0}% is {}",
        seconds(safe_goal_s)
    )
}

fn basis(told: &JobAdvice) -> String {
    let what = if told.is_same_work {
        "the same in job"
    } else {
        "other work of the application in job"
    };
    let (free, cores) = (told.advice.free_cores, counted(told.cores.into(), "core"));
    format!("{what} {}, {free:.2} of {cores} free", told.profile_of)
}

/// Formats a time: in milliseconds below a second, in tenths of a second below 100 seconds, and otherwise in
/// whole seconds, as in `2m 5s`.
fn seconds(s: f64) -> String {
    match s {
        s if s < 1.0 => format!("{:.0}ms", (s * 1e3).ceil()),
        s if s < 100.0 => format!("{s:.1}s"),
        s => humantime::format_duration(Duration::from_secs(s.ceil() as u64)).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(publish_s: f64, machines: Option<u32>, spark_cpu_ratio: Option<f64>) -> String {
        let lateness = Lateness {
            late_by_s: 12.5,
            publication: Some(PublicationOutlook {
                profile_of: "17".to_string(),
                bytes_per_cpu_s: 1e6,
                publish_s,
                spark_start_s: 8.5,
                spark_cpu_ratio,
                machines,
            }),
        };
        late(&lateness, 2, true)
    }

    #[test]
    fn a_late_job_has_the_machines_that_meet_its_goal() {
        let late = "this machine ends it 12.5s after the goal, as probably as not";
        assert_eq!(
            text(3.0, Some(4), Some(1.644)),
            format!(
                "{late}; publishing the tables that it reads takes 3.0s, as in job 17, and then 4 machines of 2 \
                 cores could meet the goal by Spark, which starts in 8.5s and takes 1.64 times the CPU time of \
                 ebb"
            )
        );
        let one = text(3.0, Some(1), None);
        assert!(one.contains("1 machine of 2 cores"), "{one}");
        assert!(
            one.ends_with(
                "and is taken to be as fast as ebb, because its speed was not measured for this application"
            ),
            "{one}"
        );
        let none = text(90.0, None, Some(1.644));
        assert!(
            none.ends_with(
                "takes 90.0s, as in job 17, and Spark starts in 8.5s, so more machines would not meet it \
                 either"
            ),
            "{none}"
        );
    }

    #[test]
    fn without_a_rate_no_number_of_machines_is_given() {
        let lateness = Lateness {
            late_by_s: 0.5,
            publication: None,
        };
        let over_tables = late(&lateness, 2, true);
        assert!(over_tables.contains("ebb publish"), "{over_tables}");
        assert!(over_tables.contains("is not known"), "{over_tables}");
        assert_eq!(
            late(&lateness, 2, false),
            "this machine ends it 500ms after the goal, as probably as not",
            "files are read without a publication"
        );
    }
}
