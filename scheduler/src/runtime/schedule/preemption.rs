//! The choice of victims: attempts that are preempted when memory is short.
//!
//! A job that loses its share keeps the memory of its tasks: they pause, and go on when the share
//! comes back. So paused jobs may hold all memory while a job with a share finds none. Then
//! attempts are preempted, newest first, of the job with the latest goal:
//!
//! - For a start: as many as a job needs for the tasks that its share can run. Only attempts of
//!   jobs that have had no share for a whole control cycle.
//! - For the load: when attempts have held more than the limit for a whole cycle, until the rest
//!   fits. Attempts of jobs with a share go last, but they go too.
//!
//! So a job with a share does not wait for the memory of a job without one. And two jobs cannot
//! take memory from each other forever, unless the policy takes their shares: a start preempts no
//! job with a share, so such a job comes to its end. An attempt that finishes its output is never
//! preempted; it ends soon.

use super::task_set::ActiveAttempt;
use crate::model::{Job, TaskId, TaskKind};
use std::cmp::Ordering;

#[cfg(test)]
mod tests;

/// A job that holds memory by its running attempts, or needs memory for more of them: the facts
/// that decide which attempts are preempted.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::runtime) struct Holder {
    /// The job's id, submission time and goal.
    pub job: Job,
    pub has_share: bool,
    /// True if the job has had no share for at least a whole control cycle.
    pub is_paused: bool,
    /// The number of further tasks for which the job's share suffices, and that do not start
    /// because there is no memory for them.
    pub starts: u32,
    /// The job's running attempts that were not stopped, each with the kind of its task.
    pub attempts: Vec<(TaskKind, ActiveAttempt)>,
}

/// The memory limit, and the memory of hanging attempts, which cannot be freed; both in numbers of
/// attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct Space {
    /// The most attempts that may run at once within the memory limit.
    pub attempts_max: u32,
    /// The number of attempts that hang on threads that the runtime has given up: their memory
    /// cannot be taken back.
    pub left_behind: u32,
    /// True if the running attempts have held more memory than the limit for a whole control
    /// cycle.
    pub is_exceeded: bool,
}

/// An attempt that could be preempted.
#[derive(Clone, Copy)]
struct Victim<'a> {
    holder: &'a Holder,
    kind: TaskKind,
    attempt: ActiveAttempt,
}

impl Victim<'_> {
    /// Compares two victims; the lesser one is preempted first: attempts of paused jobs, then of
    /// other jobs without a share, then of jobs with one. Within each group the latest goal comes
    /// first, then the newest job, then its newest attempt.
    fn order(&self, other: &Self) -> Ordering {
        let goal_s = |victim: &Self| victim.holder.job.goal_s.unwrap_or(f64::INFINITY);
        let (a, b) = (&self.holder, &other.holder);
        (b.is_paused.cmp(&a.is_paused))
            .then(a.has_share.cmp(&b.has_share))
            .then(goal_s(other).total_cmp(&goal_s(self)))
            .then(b.job.submitted_s.total_cmp(&a.job.submitted_s))
            .then(b.job.id.cmp(&a.job.id))
            .then((other.attempt.started_s).total_cmp(&self.attempt.started_s))
            .then_with(|| other.id().cmp(&self.id()))
    }

    fn id(&self) -> (TaskId, u32) {
        let ActiveAttempt { index, attempt, .. } = self.attempt;
        let (job, kind) = (self.holder.job.id, self.kind);
        (TaskId { job, kind, index }, attempt)
    }
}

/// Returns the attempts to preempt, as task and attempt number, in the order of preemption. The
/// memory of attempts that were stopped before counts as free, because it soon is.
pub(in crate::runtime) fn preempt(space: Space, holders: &[Holder]) -> Vec<(TaskId, u32)> {
    let victims = holders.iter().flat_map(|holder| {
        let may_go = |(_, attempt): &&(TaskKind, ActiveAttempt)| !attempt.is_finishing;
        (holder.attempts.iter().filter(may_go)).map(move |&(kind, attempt)| Victim {
            holder,
            kind,
            attempt,
        })
    });
    let mut victims: Vec<Victim<'_>> = victims.collect();
    victims.sort_by(Victim::order);

    let holding = holders.iter().map(|holder| holder.attempts.len() as i64);
    let held = holding.sum::<i64>() + i64::from(space.left_behind);
    let room = i64::from(space.attempts_max) - held;
    let with_share = holders.iter().filter(|holder| holder.has_share);
    let starts: i64 = with_share.map(|holder| i64::from(holder.starts)).sum();
    let paused = victims.partition_point(|victim| victim.holder.is_paused) as i64;
    // No more than necessary, and none if not even one task could start.
    let for_starts = match starts.min(room + paused) {
        started @ 1.. => started - room,
        _ => 0,
    };
    let for_load = if space.is_exceeded { -room } else { 0 };
    victims.truncate(for_starts.max(for_load).max(0) as usize);
    victims.iter().map(Victim::id).collect()
}
