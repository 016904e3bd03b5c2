//! The remaining work of each job, and the number of slots that it needs on average: the Workload
//! Estimator of the thesis, without the forecast.

use super::view::{ClusterView, JobView, Preemption, ReduceStart};
use crate::model::{Phase, Pool, TaskKind};

/// The remaining work of one job, in tasks of the kind that is placed next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Workload {
    /// The kind of task that is placed next: maps, or reduces if they start after the maps and all
    /// maps are done.
    pub kind: TaskKind,
    /// The number of unfinished tasks of `kind`, running ones included: s_pend of the utility
    /// functions, and the most slots that the job can use.
    pub left: u32,
    /// Mean time for which a task of `kind` occupies its slot, in seconds: mu of the utility functions.
    pub task_s: f64,
    /// CPU work of a task of `kind`, in hundredths of a core times seconds: 3,000 for a task that
    /// takes a core for 30 s.
    pub task_work: f64,
    /// The number of tasks of `kind` that still need a slot; fractions are parts of tasks. Reduces
    /// that start after the maps are included as the number of maps with the same work. If running
    /// tasks can be paused, their remaining work is included, too.
    pub unplaced_tasks: f64,
    /// Sum of the remaining times of the running tasks of `kind`, in seconds. 0 if they can be
    /// paused, because `unplaced_tasks` then includes their work.
    pub held_s: f64,
    /// Length of the phases still ahead, one task of each, in seconds: a task that starts this long
    /// before the goal just meets it.
    pub tail_s: f64,
}

impl Workload {
    /// Returns the workload of every job, in the order of the view.
    pub fn all(view: &ClusterView) -> Vec<Self> {
        let each = view.jobs.iter().map(|job| Self::of(view, job));
        each.collect()
    }

    pub fn of(view: &ClusterView, job: &JobView) -> Self {
        Self::with_lengths(view, job, job.profile.map.task_s, None)
    }

    /// Returns the workload of `job` as measured on one pool, where maps take `map_s` seconds.
    /// Running maps on other pools are left out (the thesis's equation (2)).
    pub fn on_pool(view: &ClusterView, job: &JobView, pool: Pool, map_s: f64) -> Self {
        Self::with_lengths(view, job, map_s, Some(pool))
    }

    fn with_lengths(view: &ClusterView, job: &JobView, map_s: f64, pool: Option<Pool>) -> Self {
        let kind = view.utility_kind(job);
        let (phase, task_s) = match kind {
            TaskKind::Map => (Phase::Map, map_s),
            TaskKind::Reduce => (Phase::Reduce, job.profile.reduce.task_s),
        };
        let task_work = task_s * f64::from(job.profile.demand(phase).cpu_hundredths);
        let running_s: f64 = job
            .running_of(kind)
            .filter(|task| pool.is_none_or(|pool| view.pool(task.node) == pool))
            .map(|task| job.remaining_s(task, map_s, view.now_s))
            .sum();
        let mut unplaced_tasks = f64::from(job.pending(kind));
        let mut held_s = running_s;
        let mut tail_s = task_s;
        if view.preemption == Preemption::EveryCycle {
            held_s = 0.0;
            unplaced_tasks += ratio(running_s, task_s);
        }
        let reduces_follow = kind == TaskKind::Map
            && view.reduce_start == ReduceStart::AfterMaps
            && job.pending_reduces > 0;
        if reduces_follow {
            let reduce_s = job.profile.reduce.task_s;
            let reduce_work = reduce_s * f64::from(job.profile.reduce.demand.cpu_hundredths);
            unplaced_tasks += f64::from(job.pending_reduces) * ratio(reduce_work, task_work);
            tail_s += reduce_s;
        } else if kind == TaskKind::Map && job.left(TaskKind::Reduce) > 0 {
            // The reduces wait in slots of their own for the last map (section 3.4.5).
            tail_s += job.profile.reduce.task_s;
        }
        Self {
            kind,
            left: job.left(kind),
            task_s,
            task_work,
            unplaced_tasks,
            held_s,
            tail_s,
        }
    }

    /// Returns all remaining work (W in the thesis), in seconds in a slot.
    pub fn work_s(&self) -> f64 {
        self.held_s + self.unplaced_tasks * self.task_s
    }
}

/// Returns s_req: the number of slots that finish `work_s` by the goal if the job holds them all the
/// time.
///
/// The result is W / (D - k mu - now): `work_s` divided by the time from `now_s` until `tail_s`
/// before `goal_s`, at most `cap`. It is `cap` if no time is left. The `tail_s` stands for k
/// lengths mu of a task, with k = 1 for each phase still ahead: the last tasks have to start that
/// long before the goal. With a `tail_s` of 0 this is the thesis's equation (1), except that its
/// printed form subtracts the slots that the job already holds, and this is the total.
///
/// `work_s` is in seconds in a slot and not negative.
#[must_use]
pub fn required_slots(work_s: f64, goal_s: f64, tail_s: f64, now_s: f64, cap: f64) -> f64 {
    let time_s = goal_s - tail_s - now_s;
    if time_s <= 0.0 {
        return cap;
    }
    (work_s / time_s).min(cap)
}

/// Returns the number of tasks in `work` if each has `per_task` of it; 0 if a task needs no work.
fn ratio(work: f64, per_task: f64) -> f64 {
    if per_task > 0.0 { work / per_task } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_slot_seconds_in_a_hundred_seconds_need_ten_slots() {
        assert_eq!(required_slots(1000.0, 150.0, 30.0, 20.0, 40.0), 10.0);
        assert_eq!(required_slots(1000.0, 120.0, 0.0, 20.0, 40.0), 10.0);
        assert_eq!(required_slots(1000.0, 150.0, 30.0, 20.0, 8.0), 8.0);
    }

    #[test]
    fn past_the_goal_everything_is_required() {
        assert_eq!(required_slots(10.0, 50.0, 30.0, 20.0, 7.0), 7.0);
        assert_eq!(required_slots(10.0, 5.0, 0.0, 20.0, 7.0), 7.0);
    }
}
