//! What is counted while slots pass.

use serde::Serialize;

/// The most that the backlog of a stable system grows by, of the tasks that arrive.
pub const STABLE_GROWTH_MAX: f64 = 0.001;

/// What became of a run, over its slots after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Slots that were measured.
    pub slots: u64,
    /// Tasks that arrived in them.
    pub arrived: u64,
    /// Tasks that ended in them.
    pub finished: u64,
    /// Of those, tasks that ran on a node with their data.
    pub local: u64,
    /// Tasks that ran in a rack with their data.
    pub rack_local: u64,
    /// Jobs whose last task ended.
    pub finished_jobs: u64,
    /// Mean number of tasks in the system, in service included, at the ends of slots; `None` if no
    /// slot was measured.
    pub backlog: Option<f64>,
    /// Mean number of unfinished jobs, likewise.
    pub jobs: Option<f64>,
    /// Mean time from a task's arrival to its end, in slots, of those that ended; `None` if none
    /// did.
    pub task_delay: Option<f64>,
    /// The same of jobs.
    pub job_delay: Option<f64>,
    /// How fast the backlog grows, per task that arrives: the slope of a straight line
    /// through it (least squares), over the load. `None` if nothing arrived, or in less than two
    /// slots.
    pub growth: Option<f64>,
    /// Tasks in the system at the end.
    pub backlog_at_end: u64,
    /// Whether it ended early, at the largest backlog that the run allows.
    pub overflowed: bool,
}

impl Measured {
    /// Whether the run came to its end, and the backlog grows by less than
    /// [`STABLE_GROWTH_MAX`] of the arrivals.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        !self.overflowed && self.growth.is_none_or(|growth| growth < STABLE_GROWTH_MAX)
    }
}

/// Sums of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub out: Measured,
    backlog: f64,
    /// Of slot times backlog.
    moment: f64,
    jobs: u64,
    pub task_delay: u64,
    pub job_delay: u64,
}

impl Sums {
    /// A slot ends with so many tasks and jobs.
    pub fn end_slot(&mut self, tasks: u64, jobs: u64) {
        self.backlog += tasks as f64;
        self.moment += self.out.slots as f64 * tasks as f64;
        self.jobs += jobs;
        self.out.slots += 1;
        self.out.backlog_at_end = tasks;
    }

    pub fn measured(self) -> Measured {
        let n = self.out.slots as f64;
        let ratio = |sum: f64, count: f64| (count > 0.0).then_some(sum / count);
        // Sum of (t - mean t) b over sum of (t - mean t)^2, t = 0 to n - 1.
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

    /// A backlog of 10, 12, 14, 16 grows by 2 a slot; with 4 arrivals a slot that is
    /// half of them.
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

    /// The run ended in its first slot: a line through one point has any slope.
    #[test]
    fn one_slot_and_tasks_that_did_not_end_have_no_growth_and_no_delay() {
        let mut sums = Sums::default();
        sums.end_slot(10, 1);
        sums.out.arrived = 10;
        let measured = sums.measured();
        assert_eq!((measured.growth, measured.backlog), (None, Some(10.0)));
        assert_eq!((measured.task_delay, measured.job_delay), (None, None));
        assert_eq!(Sums::default().measured().backlog, None);
    }
}
