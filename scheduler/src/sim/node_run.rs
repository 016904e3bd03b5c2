//! One node in the simulator: its running tasks and their speed.
//!
//! A task that has its resources to itself runs at full speed. If nodes are
//! divided by typed slots, the tasks of a node may demand more than it has.
//! Each task is then slowed down by the scarcest of the resources it uses, in
//! proportion.

use super::config::SimNode;
use crate::model::{Node, Phase, Resources, TaskKind};

/// A running task on a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    /// Position of the task's job among all jobs.
    pub job: usize,
    pub index: u32,
    pub phase: Phase,
    pub demand: Resources,
    /// Time at which the task took its slot, in seconds.
    pub started_s: f64,
    /// Start of `phase`, in seconds: the attempt's start, or the end of its shuffle.
    pub phase_from_s: f64,
    pub local: bool,
    /// Remaining time at `as_of_s`, in seconds at full speed; infinite during
    /// the shuffle.
    pub left_s: f64,
    pub as_of_s: f64,
    /// Speed of the task, as a part of full speed from 0 to 1.
    pub speed: f64,
    /// Number of ends that were scheduled for the task so far. An end event
    /// with a smaller number is outdated.
    pub version: u32,
}

impl Attempt {
    /// Returns the end of the phase if the speed does not change, in seconds.
    pub fn end_s(&self) -> f64 {
        self.as_of_s + self.left_s / self.speed
    }
}

#[derive(Clone, Debug)]
pub(super) struct NodeRun {
    pub spec: SimNode,
    /// Number of failures of the node that last at present; they may overlap. The node is up
    /// while it is 0.
    pub losses: u32,
    /// Resources of the running tasks; above the capacity for analytics while
    /// tasks drain.
    pub used: Resources,
    pub attempts: Vec<Attempt>,
}

impl NodeRun {
    pub fn new(spec: SimNode) -> Self {
        Self {
            spec,
            losses: 0,
            used: Resources::default(),
            attempts: Vec::new(),
        }
    }

    /// Returns whether the node is up: no outage of the node has begun and not yet ended.
    pub fn is_up(&self) -> bool {
        self.losses == 0
    }

    pub fn running_of(&self, job: usize, kind: TaskKind) -> u32 {
        (self.attempts.iter())
            .filter(|attempt| attempt.job == job && attempt.phase.kind() == kind)
            .count() as u32
    }

    /// Returns whether one more task fits on this node. `node` has the node's capacity for
    /// analytics in the present cycle. If `typed` is true and the node has typed slots, the
    /// number of free slots decides; otherwise the resources decide.
    pub fn has_room(&self, node: &Node, typed: bool, kind: TaskKind, demand: &Resources) -> bool {
        match node.slots {
            Some(slots) if typed => {
                let of_kind = (self.attempts.iter())
                    .filter(|attempt| attempt.phase.kind() == kind)
                    .count() as u32;
                of_kind < slots.of(kind)
            }
            _ => self.is_up() && node.capacity.less(&self.used).fits(demand),
        }
    }

    pub fn position(&self, job: usize, kind: TaskKind, index: u32) -> Option<usize> {
        self.attempts.iter().position(|attempt| {
            attempt.job == job && attempt.index == index && attempt.phase.kind() == kind
        })
    }

    /// Removes the attempt at position `at`, and frees its resources.
    pub fn remove(&mut self, at: usize) -> Attempt {
        let attempt = self.attempts.swap_remove(at);
        self.used = self.used.less(&attempt.demand);
        attempt
    }

    /// Updates the speed of each task from `now_s` on; returns the tasks whose
    /// speed changed.
    pub fn settle(&mut self, now_s: f64) -> impl Iterator<Item = &mut Attempt> {
        let (used, capacity) = (self.used, self.spec.capacity);
        self.attempts.iter_mut().filter_map(move |attempt| {
            let speed = 1.0 / slowdown(&attempt.demand, &used, &capacity);
            if speed == attempt.speed {
                return None;
            }
            attempt.left_s -= (now_s - attempt.as_of_s) * attempt.speed;
            attempt.as_of_s = now_s;
            attempt.speed = speed;
            Some(attempt)
        })
    }
}

/// Returns the factor by which a task with the demand `demand` takes longer than alone: 1, or
/// more if the tasks of its node together demand `used`, more than the node's `capacity`.
fn slowdown(demand: &Resources, used: &Resources, capacity: &Resources) -> f64 {
    let ratio = |demand: u64, used: u64, capacity: u64| {
        if demand == 0 || used <= capacity {
            1.0
        } else {
            used as f64 / capacity.max(1) as f64
        }
    };
    ratio(
        demand.cpu_hundredths.into(),
        used.cpu_hundredths.into(),
        capacity.cpu_hundredths.into(),
    )
    .max(ratio(
        demand.io_bytes_per_s,
        used.io_bytes_per_s,
        capacity.io_bytes_per_s,
    ))
    .max(ratio(
        demand.memory_bytes,
        used.memory_bytes,
        capacity.memory_bytes,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_slowed_down_by_the_scarcest_resource_that_it_uses() {
        let of = |cpu_hundredths, io_bytes_per_s| Resources {
            cpu_hundredths,
            io_bytes_per_s,
            memory_bytes: 0,
        };
        let (capacity, used) = (of(100, 50), of(150, 100));
        assert_eq!(slowdown(&of(30, 0), &used, &capacity), 1.5);
        assert_eq!(slowdown(&of(30, 1), &used, &capacity), 2.0);
        assert_eq!(slowdown(&of(0, 0), &used, &capacity), 1.0);
        assert_eq!(slowdown(&of(30, 1), &of(90, 40), &capacity), 1.0);
    }
}
