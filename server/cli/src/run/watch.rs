//! Waiting for a job, with a bar per phase.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use ebb_scheduler::runtime::JobState;
use ebb_server::jobs::{JobProgress, JobView};
use indicatif::{MultiProgress, ProgressBar};

use crate::print::notice;
use crate::progress::{REDRAW_EVERY, phase_bar};
use crate::runner::FollowedJob;

/// Waits until the job has ended, and shows its progress. Cancels the job when `cancelled` becomes
/// true.
///
/// # Errors
/// Those of [`FollowedJob::look`] and [`FollowedJob::cancel`].
pub(crate) fn watch(job: &FollowedJob<'_>, cancelled: &AtomicBool) -> Result<JobView> {
    let mut bars: Option<Bars> = None;
    let mut is_announced = false;
    loop {
        let looked = job.look(REDRAW_EVERY);
        if !looked.as_ref().is_ok_and(JobView::is_running) {
            bars.iter().for_each(Bars::clear);
            return looked;
        }
        if cancelled.load(Ordering::Relaxed) {
            if job.is_in_server() && !is_announced {
                let id = job.id();
                notice(format_args!(
                    "cancelling {id}; a second signal leaves it to the server"
                ));
                is_announced = true;
            }
            job.cancel()?;
        }
        let Some(run) = looked?.run else {
            unreachable!("it is running");
        };
        let progress = run.progress;
        if bars.as_ref().is_some_and(|bars| bars.step != progress.step) {
            bars.take().iter().for_each(Bars::clear);
        }
        bars.get_or_insert_with(|| Bars::new(&progress))
            .show(&progress);
    }
}

struct Bars {
    step: u32,
    maps: ProgressBar,
    reduces: Option<ProgressBar>,
    /// The text before each message, such as `job 2 of 3: `; empty unless the job is one of a
    /// chain.
    place: String,
}

impl Bars {
    fn new(progress: &JobProgress) -> Self {
        let all = MultiProgress::new();
        let JobProgress {
            step,
            steps,
            status,
            ..
        } = progress;
        Self {
            step: *step,
            maps: phase_bar(&all, "maps", status.maps_total),
            reduces: (status.reduces_total > 0)
                .then(|| phase_bar(&all, "reduces", status.reduces_total)),
            place: match steps {
                1 => String::new(),
                steps => format!("job {step} of {steps}: "),
            },
        }
    }

    fn show(&self, progress: &JobProgress) {
        let status = &progress.status;
        let message = match (status.state, &progress.waits) {
            (JobState::Committing, _) => "writing the result".to_string(),
            (JobState::Stopping, _) => "stopping".to_string(),
            (_, Some(waits)) => format!("waits: {waits}"),
            (JobState::Waiting, None) => "waiting".to_string(),
            (_, None) => format!(
                "{} running on {:.1} cores",
                status.tasks_running,
                f64::from(status.share_hundredths) / 100.0,
            ),
        };
        let message = format!("{}{message}", self.place);
        self.maps.set_position(u64::from(status.maps_done));
        match &self.reduces {
            Some(reduces) if status.maps_done == status.maps_total => {
                self.maps.set_message("");
                reduces.set_position(u64::from(status.reduces_done));
                reduces.set_message(message);
            }
            _ => self.maps.set_message(message),
        }
    }

    fn clear(&self) {
        self.maps.finish_and_clear();
        if let Some(reduces) = &self.reduces {
            reduces.finish_and_clear();
        }
    }
}
