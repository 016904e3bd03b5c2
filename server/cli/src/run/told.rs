//! What is told before a job starts: how probably it meets its goal.

use std::io;
use std::thread::{available_parallelism, park_timeout};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebb_colocate::LoadMonitor;
use ebb_scheduler::runtime::SubmitError;
use ebb_server::jobs::advice::{Advice, Question, advise};
use ebb_server::jobs::history::KnownProfile;
use serde::Serialize;
use serde_json::json;

use super::launch::{Launch, Work};
use crate::print::{Printer, counted};

/// Over so long it is measured what others use of the machine: the kernel counts in
/// ticks of 10 ms.
const LOOK: Duration = Duration::from_millis(200);

/// What can be said of a job, and what from.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Told {
    #[serde(flatten)]
    pub(super) advice: Advice,
    /// Cores that the job may use.
    cores: u32,
    /// Map tasks.
    maps: u32,
    /// Reduce tasks.
    reduces: u32,
    /// The job whose profile it is.
    profile_of: String,
    /// Whether that was the same work, or other work of the application.
    is_same_work: bool,
}

/// Measures what others use of the machine.
pub(super) struct Load {
    monitor: io::Result<LoadMonitor>,
    began: Instant,
}

impl Load {
    /// From now on.
    pub(super) fn start() -> Self {
        Self {
            monitor: LoadMonitor::start(),
            began: Instant::now(),
        }
    }

    /// How many of `cores` cores others leave; all where the system does not say.
    fn free_cores(self, cores: u32) -> f64 {
        while let Some(left) = LOOK.checked_sub(self.began.elapsed()) {
            park_timeout(left);
        }
        let used = self.monitor.and_then(|mut monitor| monitor.sample());
        let others_cores = used.map_or(0.0, |used| used.others_cores.max(0.0));
        let machine_cores = available_parallelism().map_or(1, |cores| cores.get());
        (machine_cores as f64 - others_cores).clamp(0.0, f64::from(cores))
    }
}

/// What can be said of `work`; nothing of a chain, whose later inputs are not known,
/// or without a profile.
///
/// # Errors
/// When the input cannot be split.
pub(super) fn tell(
    launch: &Launch<'_>,
    work: &Work,
    known: Option<&KnownProfile>,
    load: Load,
) -> Result<Option<Told>> {
    let (Work::Job(spec), Some(known)) = (work, known) else {
        return Ok(None);
    };
    let reduces = spec.reduces;
    let Some(measured) = known.noted.measured(&spec.name) else {
        return Ok(None);
    };
    let splits = spec.input.splits().map_err(SubmitError::Input)?;
    let (maps, cores) = (splits.len() as u32, launch.cores());
    if maps == 0 {
        return Ok(None);
    }
    let advice = advise(&Question {
        maps,
        reduces,
        bytes_in: splits.iter().map(|split| split.bytes).sum(),
        measured,
        is_same_work: known.is_same_work,
        took_over_estimate: known.noted.took_over_estimate.clone(),
        cores,
        free_cores: load.free_cores(cores),
        goal_s: launch.common.goal.map(|goal| goal.as_secs_f64()),
    });
    Ok(Some(Told {
        advice: advice.context("cannot tell how long the job will take")?,
        cores,
        maps,
        reduces,
        profile_of: known.noted.job.clone(),
        is_same_work: known.is_same_work,
    }))
}

impl Told {
    fn goal(&self, goal: Duration) -> String {
        let probability = match self.advice.met_probability.unwrap_or_default() {
            // Of so few futures nothing more can be said.
            p if p > 0.99 => "over 0.99".to_string(),
            p if p < 0.01 => "under 0.01".to_string(),
            p => format!("{p:.2}"),
        };
        let goal = humantime::format_duration(goal);
        format!("the goal of {goal} is met with probability {probability}")
    }

    fn safe(&self) -> String {
        let Advice {
            safe_goal_s,
            confidence,
            ..
        } = self.advice;
        let percent = 100.0 * confidence;
        format!(
            "the earliest goal met with {percent:.0}% is {}",
            seconds(safe_goal_s)
        )
    }

    fn basis(&self) -> String {
        let what = match self.is_same_work {
            true => "the same in job",
            false => "other work of the application in job",
        };
        let (free, cores) = (self.advice.free_cores, counted(self.cores.into(), "core"));
        format!("{what} {}, {free:.1} of {cores} free", self.profile_of)
    }
}

/// Three digits, and the unit.
fn seconds(s: f64) -> String {
    match s {
        s if s < 1.0 => format!("{:.0}ms", (s * 1e3).ceil()),
        s if s < 100.0 => format!("{s:.1}s"),
        s => humantime::format_duration(Duration::from_secs(s.ceil() as u64)).to_string(),
    }
}

/// What nobody can say without a profile.
fn nothing(launch: &Launch<'_>, work: &Work, name: &str) -> String {
    match work {
        Work::Chain(_) => format!("of {name}, a chain of jobs, nothing can be said before"),
        Work::Job(_) if launch.database().is_some() => format!(
            "how long {name} takes is not known: a run that succeeds leaves a profile in the \
             database"
        ),
        Work::Job(_) => format!(
            "how long {name} takes is not known: profiles are kept in a database, and this job \
             uses none"
        ),
    }
}

/// Says before the job starts what can be said of its goal.
pub(super) fn warn(launch: &Launch<'_>, work: &Work, name: &str) {
    let text = match (&launch.told, launch.common.goal) {
        (Some(told), Some(goal)) => {
            format!("{}; {} ({})", told.goal(goal), told.safe(), told.basis())
        }
        _ => nothing(launch, work, name),
    };
    eprintln!("ebb: {text}");
}

/// Says on stdout what can be said of a job that is not started.
///
/// # Errors
/// When its output would be refused.
pub(super) fn print(launch: &Launch<'_>, work: &Work, name: &str) -> Result<()> {
    if let Work::Job(spec) = work {
        spec.output.check().map_err(SubmitError::Output)?;
    }
    let mut printer = Printer::new();
    if launch.common.json {
        printer.json(&json!({
            "name": name,
            "input": launch.input_label(),
            "output": launch.target.to_string(),
            "goal_s": launch.common.goal.map(|goal| goal.as_secs_f64()),
            "advice": launch.told,
        }))?;
        return printer.finish();
    }
    let Some(told) = &launch.told else {
        printer.line(nothing(launch, work, name))?;
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
        told.safe(),
    ))?;
    if let Some(goal) = launch.common.goal {
        printer.line(format!("  {}", told.goal(goal)))?;
    }
    printer.line(format!("  as {}, as at this moment", told.basis()))?;
    printer.line(format!(
        "  assumed: {} of CPU a map and {} a reduce, {learned_factor:.2} times that as earlier runs \
         took, times or over {:.2}; nothing else is run here",
        seconds(map_task_cpu_s),
        seconds(reduce_task_cpu_s),
        log_sd.exp(),
    ))?;
    printer.finish()
}
