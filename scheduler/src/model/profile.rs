//! A job's profile: the resources that its tasks need and the time they take.
//!
//! At submission the profile is an estimate. As tasks finish, the policies'
//! view replaces the estimated length by the mean of the observed lengths.

use super::{Phase, Resources, TaskKind};
use serde::Serialize;

/// Demand and mean length of the tasks of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PhaseProfile {
    /// Resources that one task uses in this phase: the size of its slot.
    pub demand: Resources,
    /// Mean duration of a task in this phase, in seconds: the time that the task occupies its slot.
    /// Positive, except in [`Profile::shuffle`], where it is not used.
    pub task_s: f64,
}

/// One [`PhaseProfile`] per task type and phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Profile of the map tasks.
    pub map: PhaseProfile,
    /// Profile of the reduce tasks while maps still run. `task_s` is not used
    /// here: the shuffle ends when the last map does.
    pub shuffle: PhaseProfile,
    /// Profile of the reduce tasks once all maps are done.
    pub reduce: PhaseProfile,
}

impl Profile {
    /// Returns a profile of tasks that need `slot_hundredths` of a core and no other
    /// resource. A reduce in its shuffle phase holds no CPU.
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

    /// Returns the resources that one task uses in `phase`.
    #[must_use]
    pub const fn demand(&self, phase: Phase) -> Resources {
        match phase {
            Phase::Map => self.map.demand,
            Phase::Shuffle => self.shuffle.demand,
            Phase::Reduce => self.reduce.demand,
        }
    }

    /// Returns the estimated time that a task of `kind` occupies its slot, in seconds. For a reduce
    /// it excludes the shuffle.
    #[must_use]
    pub const fn task_s(&self, kind: TaskKind) -> f64 {
        match kind {
            TaskKind::Map => self.map.task_s,
            TaskKind::Reduce => self.reduce.task_s,
        }
    }
}

/// Returns the expected time that a running task still occupies its slot, in seconds, if tasks of
/// its kind take `mean_s` on average and this one has run for `elapsed_s`.
///
/// For a task near or past the mean this is a tenth of the mean, not zero: otherwise its job would
/// look finished while the task still runs.
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
