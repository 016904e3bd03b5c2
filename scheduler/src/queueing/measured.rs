//! Measurements of a run.

use serde::Serialize;

/// A run counts as stable if its backlog grows by less than this fraction of the arriving tasks.
pub const STABLE_GROWTH_MAX: f64 = 0.001;

/// The measurements of a run, over its slots after the warm-up; `backlog_at_end` and `overflowed` are those
/// of the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Number of measured time slots.
    pub slots: u64,
    /// Number of tasks that arrived in measured slots.
    pub arrived: u64,
    /// Number of tasks that ended in measured slots.
    pub finished: u64,
    /// Number of finished tasks that ran on a node with their data.
    pub local: u64,
    /// Number of finished tasks that ran in a rack with their data, but not on a node with it.
    pub rack_local: u64,
    /// Number of jobs whose last task ended in measured slots.
    pub finished_jobs: u64,
    /// Mean number of waiting and running tasks at the ends of slots; `None` if no slot was
    /// measured.
    pub backlog: Option<f64>,
    /// Mean number of unfinished jobs at the ends of slots; `None` if no slot was measured.
    pub jobs: Option<f64>,
    /// Mean time from a task's arrival to its end, in slots; `None` if no task ended.
    pub task_delay: Option<f64>,
    /// Mean time from a job's arrival to the end of its last task, in slots; `None` if no job
    /// ended.
    pub job_delay: Option<f64>,
    /// Growth of the backlog per arriving task: the slope of a line through the backlog (least
    /// squares), divided by the load. `None` if nothing arrived, or with less than two slots.
    pub growth: Option<f64>,
    /// Number of waiting and running tasks at the end of the run's last slot, which is one of the warm-up
    /// if the run stopped there; 0 for a run without slots.
    pub backlog_at_end: u64,
    /// True if the run stopped early, because more tasks waited than [`Run`](super::Run) allows.
    pub overflowed: bool,
}

impl Measured {
    /// Returns whether the run was complete and the backlog grew by less than [`STABLE_GROWTH_MAX`]
    /// of the arrivals. A growth of `None` counts as less.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        !self.overflowed && self.growth.is_none_or(|growth| growth < STABLE_GROWTH_MAX)
    }
}

/// Sums from which a run's means are computed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub out: Measured,
    backlog: f64,
    /// The sum over all slots of the number of the slot times the backlog at its end, for the slope
    /// of the backlog over time.
    moment: f64,
    jobs: u64,
    pub task_delay: u64,
    pub job_delay: u64,
}

impl Sums {
    /// Adds the end of a slot with `tasks` unfinished tasks and `jobs` unfinished jobs.
    pub fn end_slot(&mut self, tasks: u64, jobs: u64) {
        self.backlog += tasks as f64;
        self.moment += self.out.slots as f64 * tasks as f64;
        self.jobs += jobs;
        self.out.slots += 1;
    }

    pub fn measured(self) -> Measured {
        let n = self.out.slots as f64;
        let ratio = |sum: f64, count: f64| (count > 0.0).then_some(sum / count);
        // The slope is the sum of (t - mean t) b over the sum of (t - mean t)^2, for t = 0 to n -
        // 1.
        let slope = (self.moment - (n - 1.0) / 2.0 * self.backlog) / (n * (n * n - 1.0) / 12.0);
        Measured {
            backlog: ratio(self.backlog, n),
            jobs: ratio(self.jobs as f64, n),
            task_delay: ratio(self.task_delay as f64, self.out.finished as f64),
            job_delay: ratio(self.job_delay as f64, self.out.finished_jobs as f64),
            growth: ratio(slope * n, self.out.arrived as f64).filter(|_| self.out.slots > 1),
            ..self.out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backlog of 10, 12, 14, 16 grows by 2 a slot; with 4 arrivals a slot that is half of the
    /// arrivals.
    #[test]
    fn growth_is_the_slope_of_the_backlog_per_arrival() {
        let mut sums = Sums::default();
        for tasks in [10, 12, 14, 16] {
            sums.end_slot(tasks, 1);
        }
        sums.out.arrived = 16;
        let measured = sums.measured();
        assert!((measured.growth.unwrap() - 0.5).abs() < 1e-12);
        assert_eq!((measured.backlog, measured.jobs), (Some(13.0), Some(1.0)));
        assert!(!measured.is_stable());
    }

    /// The run ended in its first slot: the growth of the backlog is the slope of a line, which
    /// needs at least two slots.
    #[test]
    fn one_slot_has_no_growth_and_unfinished_tasks_have_no_delay() {
        let mut sums = Sums::default();
        sums.end_slot(10, 1);
        sums.out.arrived = 10;
        let measured = sums.measured();
        assert_eq!((measured.growth, measured.backlog), (None, Some(10.0)));
        assert_eq!((measured.task_delay, measured.job_delay), (None, None));
        assert_eq!(Sums::default().measured().backlog, None);
    }
}
