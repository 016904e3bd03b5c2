//! An estimate of a job before it starts: how long it takes, and how probably it meets
//! its goal.

use std::time::Duration;

use anyhow::Result;
use ebb_jobs::advice::{Advice, JobAdvice};
use ebb_jobs::request::JobRequest;
use ebb_server::jobs::Estimate;
use serde_json::json;

use super::report::goal_text;
use crate::print::{Printer, counted};

/// Prints to stderr how probably a job meets its goal.
pub(super) fn warn(request: &JobRequest, estimate: &Estimate) {
    let text = match (&estimate.advice, request.goal_s) {
        (Some(told), Some(goal_s)) => {
            let goal = met(told, goal_s);
            format!("{goal}; {} ({})", safe(told), basis(told))
        }
        (Some(_), None) => return,
        (None, _) => why_unknown(estimate),
    };
    eprintln!("ebb: {text}");
}

fn why_unknown(estimate: &Estimate) -> String {
    estimate.unknown_because.clone().unwrap_or_default()
}

/// Prints the estimate of a job instead of running it.
pub(super) fn print(request: &JobRequest, estimate: &Estimate, as_json: bool) -> Result<()> {
    let name = request.application.name();
    let mut printer = Printer::new();
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
    printer.line(format!(
        "{name} of {}, {}: {} as probably as not; {}",
        counted(maps, "map"),
        counted(reduces, "reduce"),
        seconds(median_s),
        safe(told),
    ))?;
    if let Some(goal_s) = request.goal_s {
        printer.line(format!("  {}", met(told, goal_s)))?;
    }
    printer.line(format!("  as {}, as at this moment", basis(told)))?;
    printer.line(format!(
        "  assumed: {} of CPU a map and {} a reduce, {learned_factor:.2} times that as earlier executions \
         took, times or over {:.2}; nothing else is run here",
        seconds(map_task_cpu_s),
        seconds(reduce_task_cpu_s),
        log_sd.exp(),
    ))?;
    printer.finish()
}

fn met(told: &JobAdvice, goal_s: f64) -> String {
    let probability = match told.advice.met_probability.unwrap_or_default() {
        // Of so few futures nothing more can be said.
        p if p > 0.99 => "over 0.99".to_string(),
        p if p < 0.01 => "under 0.01".to_string(),
        p => format!("{p:.2}"),
    };
    let goal = goal_text(goal_s);
    format!("the goal of {goal} is met with probability {probability}")
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
    let what = match told.is_same_work {
        true => "the same in job",
        false => "other work of the application in job",
    };
    let (free, cores) = (told.advice.free_cores, counted(told.cores.into(), "core"));
    format!("{what} {}, {free:.1} of {cores} free", told.profile_of)
}

/// Three digits, and the unit.
fn seconds(s: f64) -> String {
    match s {
        s if s < 1.0 => format!("{:.0}ms", (s * 1e3).ceil()),
        s if s < 100.0 => format!("{s:.1}s"),
        s => humantime::format_duration(Duration::from_secs(s.ceil() as u64)).to_string(),
    }
}
