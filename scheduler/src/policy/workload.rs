//! What each job still has to do, and how many slots that needs on average:
//! the thesis's Workload Estimator without the forecast.

use super::view::{ClusterView, JobView, Preemption, ReduceStart};
use crate::model::{Phase, Pool, TaskKind};

/// The remaining work of one job, in tasks of the kind that is placed next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Workload {
    /// Maps, or reduces once they follow the maps and those are done.
    pub kind: TaskKind,
    /// Tasks of that kind left, running ones included: s_pend of the utility
    /// functions, and the most slots the job can use.
    pub left: u32,
    /// Mean length mu of one such task, in seconds in its slot.
    pub task_s: f64,
    /// CPU work of one such task, in hundredths of a core times seconds.
    pub task_work: f64,
    /// Work that no slot has been given yet, in tasks. With preemption also
    /// what running tasks still need.
    pub unplaced_tasks: f64,
    /// What running tasks still need if they cannot be preempted, in seconds
    /// in their slots.
    pub held_s: f64,
    /// Length of the phases still ahead, one task each, in seconds: a task
    /// that starts this long before the goal just meets it.
    pub tail_s: f64,
}

impl Workload {
    /// Of every job, in the order of the view.
    pub fn all(view: &ClusterView) -> Vec<Self> {
        let each = view.jobs.iter().map(|job| Self::of(view, job));
        each.collect()
    }

    pub fn of(view: &ClusterView, job: &JobView) -> Self {
        Self::with_lengths(view, job, job.profile.map.task_s, None)
    }

    /// The work as it is on one pool, where maps take `map_s`; of the running
    /// maps only those that run there count (equation (2)).
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
            // They wait in slots of their own for the last map (section 3.4.5).
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

    /// W: all remaining work, in seconds in a slot.
    pub fn work_s(&self) -> f64 {
        self.held_s + self.unplaced_tasks * self.task_s
    }
}

/// s_req: the slots that, held all the time, finish `work_s` by the goal.
///
/// W / (D - k mu - now), at most `cap`, and `cap` once the time is over. The
/// `tail_s` is k mu with k = 1: the last task has to start that long before the
/// goal. Passing 0 gives equation (1) read literally. Unlike the printed form
/// this is the total, not what is missing beyond the slots already held.
///
/// `work_s` in seconds in a slot, not negative.
#[must_use]
pub fn required_slots(work_s: f64, goal_s: f64, tail_s: f64, now_s: f64, cap: f64) -> f64 {
    let time_s = goal_s - tail_s - now_s;
    if time_s <= 0.0 {
        return cap;
    }
    (work_s / time_s).min(cap)
}

/// A quotient in which nothing of nothing is nothing.
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
