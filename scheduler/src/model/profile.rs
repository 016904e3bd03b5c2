//! A job's profile: what its tasks need and how long they take.
//!
//! The profile is the estimate given at submission; as tasks finish, the
//! observed mean length takes its place in the view the policies see.

use super::{Phase, Resources, TaskKind};
use serde::Serialize;

/// Demand and mean length of the tasks of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PhaseProfile {
    /// What one task uses while it is in this phase: the size of its slot.
    pub demand: Resources,
    /// Mean length of a task in this phase, in seconds in its slot; positive.
    pub task_s: f64,
}

/// One [`PhaseProfile`] per task type and phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Map tasks.
    pub map: PhaseProfile,
    /// Reduce tasks while maps still run. Its length is not used: the shuffle
    /// ends when the last map does.
    pub shuffle: PhaseProfile,
    /// Reduce tasks once all maps are done.
    pub reduce: PhaseProfile,
}

impl Profile {
    /// Tasks that all need `slot_hundredths` of a core and nothing else. A
    /// reduce in its shuffle phase holds no CPU.
    #[must_use]
    pub const fn cpu(slot_hundredths: u32, map_s: f64, reduce_s: f64) -> Self {
        let slot = Resources::cpu(slot_hundredths);
        Self {
            map: PhaseProfile {
                demand: slot,
                task_s: map_s,
            },
            shuffle: PhaseProfile {
                demand: Resources::cpu(0),
                task_s: 0.0,
            },
            reduce: PhaseProfile {
                demand: slot,
                task_s: reduce_s,
            },
        }
    }

    /// What one task in `phase` uses.
    #[must_use]
    pub const fn demand(&self, phase: Phase) -> Resources {
        match phase {
            Phase::Map => self.map.demand,
            Phase::Shuffle => self.shuffle.demand,
            Phase::Reduce => self.reduce.demand,
        }
    }

    /// The estimated length of a task of `kind`, in seconds in its slot.
    #[must_use]
    pub const fn task_s(&self, kind: TaskKind) -> f64 {
        match kind {
            TaskKind::Map => self.map.task_s,
            TaskKind::Reduce => self.reduce.task_s,
        }
    }
}

/// How much a running task is expected to need still, in seconds in its slot,
/// when tasks like it take `mean_s` and it has had `elapsed_s`.
///
/// A task past the mean is expected to need another tenth of it: to count it as
/// finished would let its job look done while it still runs.
#[must_use]
pub fn expected_remaining_s(mean_s: f64, elapsed_s: f64) -> f64 {
    (mean_s - elapsed_s).max(mean_s * 0.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_past_the_mean_still_counts() {
        assert_eq!(expected_remaining_s(10.0, 4.0), 6.0);
        assert_eq!(expected_remaining_s(10.0, 25.0), 1.0);
    }
}
