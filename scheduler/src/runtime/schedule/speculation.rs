//! The choice of a task for a second attempt beside the first.
//!
//! The rule is that of LATE (Zaharia et al., *Improving MapReduce performance in heterogeneous
//! environments*, OSDI 2008): of the tasks with slow attempts, take the one that is expected to end
//! last, and only if a new attempt would overtake it. Time without a share does not count.
//!
//! Beside busy processes an attempt in the idle class hardly advances. While tasks run on the
//! floor, such a task gets a second attempt, however long tasks of its kind usually take.

use crate::ordered_f64::OrderedF64;
use std::cmp::Reverse;

/// An attempt is slow when it has run for this many times the typical length of a task.
const SLOWNESS: f64 = 1.5;

/// The time in seconds that a first attempt must have run before its task gets a second one: an
/// attempt has a cost, and progress in so short a time is no good estimate.
pub(in crate::runtime) const SPECULATE_AFTER_S: f64 = 1.0;

/// Progress (0 to 1) above which an attempt in the idle class ends before a new one on the floor
/// (in the ordinary class with nice value 10) would. Beside a busy thread the kernel gives the idle
/// class a weight of 3, and nice 10 one of 110: in the same time the first does 3/110 of the work
/// of the second. With short time slices and nice 5 the second does up to three times as much, and the
/// bound would be at most 0.02 higher.
const OVERTAKEN_PROGRESS_MAX: f64 = 1.0 - 3.0 / 110.0;

/// One in this many tasks of a kind, rounded up, may have a second attempt at a time.
const TASKS_PER_SPECULATIVE: u32 = 10;

/// The progress of an attempt, for a prediction of its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::runtime) struct Pace {
    /// The task's number.
    pub index: u32,
    /// Seconds since the start of the attempt, without those in which the job had no share.
    pub running_s: f64,
    /// The finished part of the work, 0 to 1; 0 if unknown.
    pub progress: f64,
}

impl Pace {
    /// Returns the seconds until the attempt's end if it goes on at its speed so far; infinity if
    /// its progress is 0 or unknown.
    fn left_s(&self) -> f64 {
        if self.progress > 0.0 {
            self.running_s * (1.0 - self.progress) / self.progress
        } else {
            f64::INFINITY
        }
    }
}

/// Returns the most second attempts at a time among `tasks` tasks.
pub(in crate::runtime) fn speculative_max(tasks: u32) -> u32 {
    tasks.div_ceil(TASKS_PER_SPECULATIVE)
}

/// Returns the number of the task that should get a second attempt: the one whose attempt has the
/// latest expected end, among the slow attempts that a new one would overtake. `None` if there is
/// no such attempt. `paces` are those of running first attempts at tasks of one kind, map or
/// reduce, which typically take `typical_s` seconds.
pub(in crate::runtime) fn straggler(
    paces: impl IntoIterator<Item = Pace>,
    typical_s: f64,
) -> Option<u32> {
    let slow_s = (SLOWNESS * typical_s).max(SPECULATE_AFTER_S);
    let is_slow = |pace: &Pace| pace.running_s >= slow_s && pace.left_s() > typical_s;
    (paces.into_iter().filter(is_slow))
        // Ties: the lowest index, which was the first to start.
        .max_by_key(|pace| (OrderedF64(pace.left_s()), Reverse(pace.index)))
        .map(|pace| pace.index)
}

/// Returns the number of the task that should get a second attempt on the floor (in the ordinary
/// class with a high nice value): the one with the least progress, or `None` if all are nearly
/// done. `tasks` are those that get no CPU, because all their attempts are in the idle class beside
/// busy processes. Each has its number and the finished part of its work, 0 to 1.
pub(in crate::runtime) fn starved(tasks: impl IntoIterator<Item = (u32, f64)>) -> Option<u32> {
    (tasks.into_iter())
        .filter(|(_, progress)| *progress < OVERTAKEN_PROGRESS_MAX)
        .min_by_key(|(index, progress)| (OrderedF64(*progress), *index))
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(index: u32, running_s: f64, progress: f64) -> Pace {
        Pace {
            index,
            running_s,
            progress,
        }
    }

    #[test]
    fn of_slow_tasks_the_one_that_ends_last_is_attempted_again() {
        let paces = [
            pace(0, 20.0, 0.5),  // ends in 20 s
            pace(1, 40.0, 0.5),  // in 40 s
            pace(2, 14.0, 0.01), // not slow yet
            pace(3, 90.0, 0.9),  // in 10 s
        ];
        assert_eq!(straggler(paces, 10.0), Some(1));
        assert_eq!(
            straggler(paces, 30.0),
            None,
            "a new attempt would not overtake it"
        );
        assert_eq!(straggler(paces[3..].to_vec(), 10.0), None);
    }

    #[test]
    fn a_task_of_unknown_progress_counts_as_the_last_and_short_tasks_are_left_alone() {
        let silent = [pace(4, 15.0, 0.0), pace(2, 15.0, 0.0), pace(3, 60.0, 0.1)];
        assert_eq!(straggler(silent, 10.0), Some(2));
        assert_eq!(straggler([pace(0, 0.9, 0.0)], 0.001), None);
        assert_eq!(straggler([], 1.0), None);
    }

    #[test]
    fn on_the_floor_the_task_with_the_least_progress_is_attempted_again_unless_nearly_done() {
        assert_eq!(starved([(0, 0.5), (1, 0.1), (2, 0.1), (3, 0.9)]), Some(1));
        assert_eq!(starved([(0, 0.96)]), Some(0));
        assert_eq!(starved([(0, 0.98), (1, 1.0)]), None);
        assert_eq!(starved([]), None);
    }

    #[test]
    fn a_tenth_of_the_tasks_may_have_two_attempts() {
        assert_eq!([0, 1, 10, 11].map(speculative_max), [0, 1, 1, 2]);
    }
}
