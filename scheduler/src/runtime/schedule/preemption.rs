//! Which attempts are preempted when memory is short.
//!
//! A job that loses its share keeps the memory of its tasks: they rest, and go on
//! when the share comes back. So all memory may be held by jobs that rest while one
//! that should run finds none. Then attempts are preempted, newest first, of the
//! job with the latest goal:
//!
//! - For a start: as many as a job needs for the tasks that its share can run. Only
//!   attempts of jobs that have had no share for a whole control cycle.
//! - For the load: when more is held than there may be, and was for a whole cycle,
//!   until it fits. Attempts of jobs that have a share go last, but they go too.
//!
//! What follows: a job with a share does not wait for one without. And no two jobs
//! take memory from each other for ever, unless the policy takes their shares: for
//! a start nothing is taken from a job with a share, so it comes to its end. An
//! attempt that finishes its output is never given up; it soon ends by itself.

use super::task_set::Wanted;
use crate::model::{Job, TaskId, TaskKind};
use std::cmp::Ordering;

#[cfg(test)]
mod tests;

/// A job, as far as memory goes.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::runtime) struct Holder {
    /// Id, submission and goal.
    pub job: Job,
    pub has_share: bool,
    /// It has had no share for at least a whole control cycle.
    pub is_paused: bool,
    /// Tasks that its share could run beside those that do, if they had memory.
    pub starts: u32,
    /// Attempts that were not asked to stop.
    pub attempts: Vec<(TaskKind, Wanted)>,
}

/// How much memory there is, counted in attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct Space {
    /// Attempts that may run at once.
    pub attempts_max: u32,
    /// Attempts that were left behind: their memory cannot be taken back.
    pub left_behind: u32,
    /// More run than may, and did for a whole control cycle.
    pub is_exceeded: bool,
}

/// An attempt that could be given up.
#[derive(Clone, Copy)]
struct Victim<'a> {
    holder: &'a Holder,
    kind: TaskKind,
    attempt: Wanted,
}

impl Victim<'_> {
    /// Which of two is given up first.
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
        let Wanted { index, attempt, .. } = self.attempt;
        let (job, kind) = (self.holder.job.id, self.kind);
        (TaskId { job, kind, index }, attempt)
    }
}

/// The attempts to give up, task and number, the first to go first. Memory of those
/// that were told to stop before counts as free: it soon is.
pub(in crate::runtime) fn preempt(space: Space, holders: &[Holder]) -> Vec<(TaskId, u32)> {
    let victims = holders.iter().flat_map(|holder| {
        let may_go = |(_, attempt): &&(TaskKind, Wanted)| !attempt.is_finishing;
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
    // No more than it takes, and none if not even one task could start.
    let for_starts = match starts.min(room + paused) {
        started @ 1.. => started - room,
        _ => 0,
    };
    let for_load = if space.is_exceeded { -room } else { 0 };
    victims.truncate(for_starts.max(for_load).max(0) as usize);
    victims.iter().map(Victim::id).collect()
}
