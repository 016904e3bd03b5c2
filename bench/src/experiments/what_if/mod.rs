//! The accuracy of predictions about another job: whether it delays the jobs that the server names,
//! and how long a prediction takes.
//!
//! ```text
//!   drawn ──── sizes and goals of all trials, from a seed, so that the duration is known beforehand
//!   trial ──── jobs run, the request for a prediction, the other job, the ends of all jobs
//!   outcome ── the jobs of a trial that the other job made late, from runs with and without it
//!   agreement  precision and recall, with their intervals
//!   chance ─── how often two runs of the same kind differ
//!   look ───── the looks ahead with and without the other job, each compared with its run
//!   found ──── all of these for all trials, errors, times
//! ```
//!
//! In each trial some jobs with goals run. Then the client requests a prediction of the effect of
//! another job over HTTP; that job is really submitted, and all jobs run to their ends. The same
//! jobs run again, and the other job is not submitted. A victim is a job that met its goal only
//! without the other job; with several pairs of runs, the majority counts.
//! Predictions assume that other processes go on as they do, so the machine should have nothing
//! else to do. A trial of which a run takes much longer than its work is given up.

mod agreement;
mod chance;
mod drawn;
mod found;
mod look;
mod outcome;
mod trial;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use self::drawn::TrialPlan;
use self::found::Found;
use self::outcome::Trial;
use self::trial::Host;
use crate::console::{progress_bar, temporary_directory, write_json};

const EXAMPLES: &str = "\
Examples:
  ebb-bench experiments what-if
  ebb-bench experiments what-if --seed 2 --json-file what-if.json
  ebb-bench experiments what-if --pairs 3
  ebb-bench experiments what-if --trials 100 --pairs 1 --scale 1

It prints beforehand how long it takes, and how long at most. Run nothing else meanwhile: jobs
get what others leave.";

/// The number of trials given up in a row after which the experiment ends.
const GIVEN_UP_MAX: u32 = 3;
/// The number of trials after which a line of progress is printed if there is no terminal.
const LINE_EVERY: usize = 10;

/// The number of trials, and the size of their jobs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WhatIfArgs {
    /// Trials: in each the effect of one job is predicted, and the job is run
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub trials: u32,

    /// Pairs of runs of each trial, one run with the additional job and one without. The majority
    /// of the pairs decides which jobs the additional job made late; of two pairs both have to
    /// agree. A single pair cannot show how much of the outcome is chance
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub pairs: u32,

    /// Length of the jobs: 0.6 to 2 s of CPU time, times N
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub scale: u32,

    /// Seed of the sizes and goals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Writes everything measured to FILE
    #[arg(long = "json-file", value_name = "FILE")]
    pub json: Option<PathBuf>,
}

pub fn run(args: &WhatIfArgs) -> Result<()> {
    let dir = temporary_directory("what-if")?;
    let mut host = Host::start(dir.path())?;
    let all = drawn::all(args.seed, args.trials, args.scale, host.cores());
    let sum_s = |of: fn(&TrialPlan) -> f64| {
        f64::from(args.pairs) * all.iter().map(of).sum::<f64>() + trial::AROUND_S
    };
    eprintln!(
        "{} trials: about {:.1} minutes where nothing else runs, {:.0} at most",
        all.len(),
        sum_s(|trial| trial.takes_s + trial.takes_alone_s) / 60.0,
        (sum_s(|trial| 2.0 * trial.limit_s) + trial::AROUND_LIMIT_S) / 60.0
    );
    host.warm_up()?;
    let bar = progress_bar("trials", all.len() as u64);
    let mut trials: Vec<Trial> = Vec::new();
    let (mut given_up, mut in_a_row) = (0, 0);
    for (nth, drawn) in (1..).zip(&all) {
        match host.trial(drawn, args.pairs)? {
            Some(trial) => {
                trials.push(trial);
                in_a_row = 0;
            }
            None => {
                given_up += 1;
                in_a_row += 1;
                ensure!(
                    in_a_row < GIVEN_UP_MAX,
                    "jobs do not end: others use {:.2} of {} cores; run nothing else meanwhile",
                    host.others_cores(),
                    host.cores()
                );
            }
        }
        bar.inc(1);
        if bar.is_hidden() && nth % LINE_EVERY == 0 {
            eprintln!("{nth} of {} trials", all.len());
        }
    }
    bar.finish_and_clear();
    let answers = host.answers()?;
    let found = Found::of(trials, given_up, answers);
    found.print();
    host.stop();
    write_json(args.json.as_deref(), &found)
}
