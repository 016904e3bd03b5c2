//! The policy's view of the live runtime.
//!
//! The machine is one node. A slot is a share of a core far smaller than the CPU that one task can
//! use, so a task counts as several slot-sized pieces that can run side by side: with slots of a
//! tenth, as ten, each a tenth of its work. A placement of twenty slots may then mean two tasks at
//! full speed or ten at a fifth, and a job with one task left can still get a whole core. Pacing
//! can slow a running task at any time, hence [`Preemption::EveryCycle`]; reduces start after the
//! maps. There are no replicas and no accelerators: all input is equally near.
//!
//! Memory is not in the view. A piece is a share of CPU that may be gone in the next cycle. The
//! memory of a task is indivisible, and the task holds it until its end, with or without a share.
//! If each piece had a part of it, a policy would count on memory that a paused task still holds,
//! and would treat two tasks at full speed like ten at a fifth, which hold five times as much. So
//! the runtime limits memory itself, when tasks start.

use super::shares::TASK_HUNDREDTHS_MAX;
use crate::availability::Availability;
use crate::model::{Job, Node, NodeId, Phase, Profile, Resources, TaskKind};
use crate::policy::{ClusterView, JobView, Preemption, ReduceStart, RunningTask};
use std::sync::Arc;

/// The state of a job in the tracker, as far as shares depend on it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::runtime) struct LiveJob {
    pub job: Job,
    pub pending_maps: u32,
    pub pending_reduces: u32,
    pub done_maps: u32,
    /// The kind of each running task, and the CPU time that it has used so far, in seconds.
    pub running: Vec<(TaskKind, f64)>,
    /// The number of second attempts at slow tasks that should start if other tasks leave capacity
    /// unused. The policy does not plan them.
    pub speculative: u32,
    /// Estimated CPU time of a map, in seconds.
    pub map_cpu_s: f64,
    /// Estimated CPU time of a reduce, in seconds.
    pub reduce_cpu_s: f64,
}

impl LiveJob {
    /// Returns the number of tasks that could run at once in the present phase.
    pub fn runnable_tasks(&self) -> u32 {
        self.running.len() as u32 + self.waiting_tasks()
    }

    /// Returns the number of tasks that could run at once in the present phase but do not run.
    pub fn waiting_tasks(&self) -> u32 {
        let maps_left =
            self.pending_maps > 0 || self.running.iter().any(|(kind, _)| *kind == TaskKind::Map);
        if maps_left {
            self.pending_maps
        } else {
            self.pending_reduces
        }
    }

    /// Returns the CPU that the job needs from `now_s` on to meet its goal, in cores; 0 if it has
    /// no goal, or if its goal has passed.
    pub fn needed_cores(&self, now_s: f64) -> f64 {
        let left_s = self.job.goal_s.map_or(0.0, |goal_s| goal_s - now_s);
        if left_s <= 0.0 {
            return 0.0;
        }
        let pending_cpu_s = f64::from(self.pending_maps) * self.map_cpu_s
            + f64::from(self.pending_reduces) * self.reduce_cpu_s;
        let running_cpu_s = self.running.iter().map(|&(kind, used_s)| {
            let task_cpu_s = match kind {
                TaskKind::Map => self.map_cpu_s,
                TaskKind::Reduce => self.reduce_cpu_s,
            };
            (task_cpu_s - used_s).max(0.0)
        });
        (pending_cpu_s + running_cpu_s.sum::<f64>()) / left_s
    }
}

/// The size of a slot, and the number of slots of a task at full speed. Policies distribute slots,
/// each a fixed share of a core. They see a task as this number of equal pieces, each in a slot of
/// its own.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct Slot {
    share_hundredths: u32,
    pieces_per_task: u32,
}

impl Slot {
    /// Creates slots of `share_hundredths` hundredths of a core each, 1 to 100.
    pub fn new(share_hundredths: u32) -> Self {
        Self {
            share_hundredths,
            pieces_per_task: (TASK_HUNDREDTHS_MAX / share_hundredths).max(1),
        }
    }

    /// Returns the length, in seconds, of one of the equal pieces into which a task is divided for
    /// the policy: the time that the piece takes in its slot. The whole task takes `cpu_s` seconds
    /// of CPU, and its pieces together have the same work.
    fn piece_s(self, cpu_s: f64) -> f64 {
        let pieces_hundredths = f64::from(self.pieces_per_task * self.share_hundredths);
        cpu_s * f64::from(TASK_HUNDREDTHS_MAX) / pieces_hundredths
    }

    fn job_view(self, job: &LiveJob, goal_margin: f64, now_s: f64) -> JobView {
        let profile = Profile::cpu(
            self.share_hundredths,
            self.piece_s(job.map_cpu_s),
            self.piece_s(job.reduce_cpu_s),
        );
        let pieces = job.running.iter().flat_map(|&(kind, used_s)| {
            let phase = match kind {
                TaskKind::Map => Phase::Map,
                TaskKind::Reduce => Phase::Reduce,
            };
            std::iter::repeat_n(
                (phase, now_s - self.piece_s(used_s)),
                self.pieces_per_task as usize,
            )
        });
        let running = (0..)
            .zip(pieces)
            .map(|(index, (phase, since_s))| RunningTask {
                index,
                node: NodeId(0),
                phase,
                since_s,
            });
        let whole = |tasks: u32| tasks.saturating_mul(self.pieces_per_task);
        let mut view = JobView::new(
            with_earlier_goal(job.job, goal_margin),
            whole(job.pending_maps),
            whole(job.pending_reduces),
            profile,
        );
        view.done_maps = whole(job.done_maps);
        view.running = running.collect();
        view
    }
}

/// Returns the job as the policy plans it: with an earlier goal. The time from submission to goal
/// is shorter by the fraction `goal_margin`.
fn with_earlier_goal(job: Job, goal_margin: f64) -> Job {
    let earlier = |goal_s: f64| goal_s - (goal_s - job.submitted_s) * goal_margin;
    Job {
        goal_s: job.goal_s.map(earlier),
        ..job
    }
}

/// Builds the policy's view of capacity and jobs, for a control cycle of `cycle_s` seconds that
/// starts at `now_s`. In the view, each goal is earlier by the fraction `goal_margin` of the time
/// from submission to goal.
pub(in crate::runtime) fn live_view(
    (now_s, cycle_s): (f64, f64),
    goal_margin: f64,
    slot: Slot,
    capacity_hundredths: u32,
    forecast: Arc<Availability>,
    jobs: &[LiveJob],
) -> ClusterView {
    ClusterView {
        now_s,
        cycle_s,
        nodes: vec![Node::new(
            NodeId(0),
            Resources::cpu_bound(capacity_hundredths),
        )],
        availability: forecast,
        jobs: jobs
            .iter()
            .map(|job| slot.job_view(job, goal_margin, now_s))
            .collect(),
        preemption: Preemption::EveryCycle,
        reduce_start: ReduceStart::AfterMaps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobId;
    use crate::policy::{Fifo, Policy, ReverseAdaptive};

    #[test]
    fn a_goal_is_planned_earlier_by_its_margin() {
        let job = Job::new(JobId(1), 100.0, Some(200.0));
        assert_eq!(with_earlier_goal(job, 0.05).goal_s, Some(195.0));
        assert_eq!(with_earlier_goal(job, 0.0), job);
        let without = Job {
            goal_s: None,
            ..job
        };
        assert_eq!(with_earlier_goal(without, 0.05), without);
    }

    fn job(id: u64, goal_s: Option<f64>, pending_maps: u32) -> LiveJob {
        LiveJob {
            job: Job::new(JobId(id), 0.0, goal_s),
            pending_maps,
            pending_reduces: 0,
            done_maps: 0,
            running: Vec::new(),
            speculative: 0,
            map_cpu_s: 3.0,
            reduce_cpu_s: 1.0,
        }
    }

    fn view(jobs: &[LiveJob]) -> ClusterView {
        let forecast = Arc::new(Availability::constant(200.0).unwrap());
        live_view((0.0, 0.25), 0.0, Slot::new(10), 200, forecast, jobs)
    }

    #[test]
    fn all_pieces_together_have_the_work_of_the_task() {
        for share in [1, 7, 10, 33, 60, 100] {
            let slot = Slot::new(share);
            let view = slot.job_view(&job(1, None, 1), 0.0, 0.0);
            let work = f64::from(view.pending_maps) * view.profile.map.task_s * f64::from(share);
            assert!((work - 300.0).abs() < 1e-9, "slots of {share}: {work}");
        }
    }

    #[test]
    fn a_single_urgent_task_gets_a_whole_core() {
        let jobs = [job(1, Some(4.0), 1), job(2, Some(1e4), 50)];
        let placement = ReverseAdaptive.decide(&view(&jobs)).placement;
        assert_eq!(placement.slots(JobId(1)), 10);
        assert_eq!(placement.slots(JobId(2)), 10);
    }

    #[test]
    fn under_fifo_the_first_job_takes_both_cores() {
        let placement = Fifo
            .decide(&view(&[job(1, None, 5), job(2, Some(1.0), 5)]))
            .placement;
        assert_eq!(
            (placement.slots(JobId(1)), placement.slots(JobId(2))),
            (20, 0)
        );
    }

    #[test]
    fn the_cpu_that_a_job_needs_is_its_remaining_work_over_the_time_to_its_goal() {
        let mut one = job(1, Some(20.0), 4);
        one.pending_reduces = 2;
        one.running = vec![(TaskKind::Map, 1.0), (TaskKind::Map, 9.0)];
        // Four maps of 3 s, two reduces of 1 s, and 2 s of a map.
        assert_eq!(one.needed_cores(12.0), 2.0);
        assert_eq!(one.needed_cores(20.0), 0.0, "the goal has passed");
        assert_eq!(job(1, None, 4).needed_cores(0.0), 0.0);
    }

    #[test]
    fn runnable_tasks_are_those_of_the_present_phase() {
        let mut one = job(1, None, 3);
        one.pending_reduces = 4;
        assert_eq!(one.runnable_tasks(), 3);
        one.pending_maps = 0;
        one.running = vec![(TaskKind::Map, 0.1)];
        assert_eq!(one.runnable_tasks(), 1);
        one.running = vec![(TaskKind::Reduce, 0.1)];
        assert_eq!(one.runnable_tasks(), 5);
    }
}
