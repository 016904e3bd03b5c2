//! Waiting for a job, with a bar per phase.

use ebb_scheduler::runtime::{JobHandle, JobReport, JobState, JobStatus};
use indicatif::ProgressBar;

use crate::progress::{PhaseBars, REDRAW_EVERY};

/// Waits until the job has ended; shows meanwhile how far it is. `place` is the
/// number of the job in a chain, and the length of that.
pub(super) fn watch(handle: &JobHandle, place: Option<(u32, u32)>) -> JobReport {
    let bars = Bars::new(&handle.status(), place);
    loop {
        if let Some(report) = handle.wait_timeout(REDRAW_EVERY) {
            bars.clear();
            return report;
        }
        bars.show(&handle.status());
    }
}

struct Bars {
    maps: ProgressBar,
    reduces: Option<ProgressBar>,
    /// What stands before the message.
    place: String,
}

impl Bars {
    fn new(status: &JobStatus, place: Option<(u32, u32)>) -> Self {
        let phases = PhaseBars::new();
        Self {
            maps: phases.add("maps", status.maps_total),
            reduces: (status.reduces_total > 0)
                .then(|| phases.add("reduces", status.reduces_total)),
            place: place.map_or_else(String::new, |(job, jobs)| format!("job {job} of {jobs}: ")),
        }
    }

    fn show(&self, status: &JobStatus) {
        let message = match status.state {
            JobState::Waiting => "waiting".to_string(),
            JobState::Committing => "writing the result".to_string(),
            JobState::Stopping => "stopping".to_string(),
            _ => format!(
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
