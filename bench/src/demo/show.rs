//! The progress of a day: lines that are updated in place on a terminal, and single lines at
//! intervals if stderr is not a terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use ebb_scheduler::runtime::{JobState, JobStatus, RuntimeStatus};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::day::{Day, HOURS};
use crate::ycsb::Interval;

/// The number of times per day that the status is printed if stderr is not a terminal. The status
/// has one line for the load, and one for each job.
const LINES_PER_DAY: f64 = 12.0;

pub(super) struct Show {
    day: Day,
    cores: u32,
    bars: Option<Bars>,
    next_line: Instant,
}

struct Bars {
    all: MultiProgress,
    load: ProgressBar,
    jobs: Vec<ProgressBar>,
}

impl Show {
    pub(super) fn new(day: Day, cores: u32) -> Self {
        let bars = std::io::stderr().is_terminal().then(|| {
            let all = MultiProgress::new();
            let load = all.add(ProgressBar::no_length().with_style(style("  {msg}")));
            Bars {
                all,
                load,
                jobs: Vec::new(),
            }
        });
        Self {
            day,
            cores,
            bars,
            next_line: Instant::now(),
        }
    }

    /// Shows the state of the jobs, and the last interval of the load; `None` while the first
    /// interval lasts.
    pub(super) fn update(&mut self, status: &RuntimeStatus, load: Option<Interval>) {
        let hour = self.day.hour_of(status.now_s);
        let load = match load {
            _ if hour > HOURS => "the load has ended; late jobs go on".to_string(),
            None => "the load begins".to_string(),
            Some(i) => {
                let ops_per_s = i.ops as f64 / i.length_s;
                format!(
                    "load {ops_per_s:>7.0} ops/s  p50 {:>5.0} us  p99 {:>6.0} us",
                    i.p50_us, i.p99_us
                )
            }
        };
        let left = f64::from(status.capacity_hundredths) / 100.0;
        let line = format!(
            "{hour:>4.1} h   {load}   left for analytics {left:.2} of {} cores",
            self.cores
        );
        if let Some(bars) = &mut self.bars {
            bars.load.set_message(line);
            for job in &status.jobs[bars.jobs.len()..] {
                let bar = ProgressBar::new(u64::from(job.maps_total + job.reduces_total));
                let bar = bars
                    .all
                    .add(bar.with_style(style("  {prefix:<6} {bar:32} {percent:>3}%  {msg}")));
                bar.set_prefix(job.name.clone());
                bars.jobs.push(bar);
            }
            for (bar, job) in bars.jobs.iter().zip(&status.jobs) {
                bar.set_position(u64::from(job.maps_done + job.reduces_done));
                bar.set_message(job_line(self.day, job));
            }
        } else if Instant::now() >= self.next_line {
            self.next_line += Duration::from_secs_f64(self.day.seconds / LINES_PER_DAY);
            eprintln!("  {line}");
            for job in &status.jobs {
                let done = f64::from(job.maps_done + job.reduces_done);
                let percent = 100.0 * done / f64::from((job.maps_total + job.reduces_total).max(1));
                eprintln!(
                    "      {:<6} {percent:>3.0}%  {}",
                    job.name,
                    job_line(self.day, job)
                );
            }
        }
    }

    /// Removes the progress bars from the terminal.
    pub(super) fn finish(self) {
        if let Some(bars) = self.bars {
            let _ = bars.all.clear();
        }
    }
}

fn job_line(day: Day, job: &JobStatus) -> String {
    let goal = job.goal_s.map_or("no goal".to_string(), |goal_s| {
        format!("goal {:.1} h", day.hour_of(goal_s))
    });
    match (job.state, job.finished_s) {
        (JobState::Failed, _) => format!(
            "failed: {}",
            job.cause.as_deref().unwrap_or("no cause given")
        ),
        (_, Some(finished_s)) => {
            let verdict = match job.goal_s {
                Some(goal_s) if finished_s <= goal_s => ", met",
                Some(_) => ", MISSED",
                None => "",
            };
            format!(
                "{goal}, finished at {:.1} h{verdict}",
                day.hour_of(finished_s)
            )
        }
        _ => format!(
            "{goal}, share {:.2} cores",
            f64::from(job.share_hundredths) / 100.0
        ),
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is a constant")
}
