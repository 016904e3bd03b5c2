//! The jobs of a node for a look ahead, which predicts when they end, and the conversion of the predicted
//! times to wall-clock times.

use ebb_jobs::history::now_unix_ms;
use ebb_scheduler::availability::Availability;
use ebb_scheduler::model::JobId;
use ebb_scheduler::runtime::{Finish, Situation};

use super::outlook::{LATELY_S, expected};
use super::prediction::Ledger;
use crate::jobs::Prediction;
use crate::node::{Node, RunningJob};

/// The input of a look ahead. (A look ahead is a simulation of the scheduler that predicts when jobs end.)
pub(super) struct Ahead {
    pub situation: Situation,
    /// The capacity that jobs are expected to have over time, in hundredths of a core.
    pub expected: Availability,
    pub jobs: Vec<AheadJob>,
    now: BothTimes,
    policy: &'static str,
}

/// The largest normal difference, in milliseconds, between the recorded time of a job's start and
/// the time of the start that follows from the runtime's clock. A larger difference is taken as a
/// sign that the machine's clock was set since the start. A small one is normal: a job is recorded
/// before its input is split, and submitted to the runtime after that. If the split takes longer
/// than this, the goal counts from the submission, as in the runtime.
const CLOCKS_DIFFER_MS: u64 = 1000;

/// A moment by both clocks. The time of the runtime goes on evenly. The clock of the machine may be set, and
/// goes on while the machine sleeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BothTimes {
    /// The moment by the runtime's clock, in seconds since the runtime started.
    pub s: f64,
    /// The moment by the machine's clock, in milliseconds since 1970.
    pub unix_ms: u64,
}

impl BothTimes {
    /// Converts seconds of the runtime's time to milliseconds since 1970, by the machine's clock as it was
    /// set at the moment `self`.
    fn unix_ms_of(self, t_s: f64) -> u64 {
        let ahead_ms = (t_s - self.s) * 1e3;
        (self.unix_ms as f64 + ahead_ms).max(0.0) as u64
    }

    /// Returns the moment of a job's goal, `goal_s` seconds after `begun`, the start of the job. `self` is the
    /// present. If the machine's clock was set since the start, the goal moves with it. Otherwise the goal is
    /// computed from `begun` alone, so that it is the same in each look ahead.
    fn goal(self, begun: Self, goal_s: f64) -> Self {
        let by_runtime = self.unix_ms_of(begun.s);
        let was_set = by_runtime.abs_diff(begun.unix_ms) > CLOCKS_DIFFER_MS;
        let begun_unix_ms = if was_set { by_runtime } else { begun.unix_ms };
        Self {
            s: begun.s + goal_s,
            unix_ms: begun_unix_ms.saturating_add((goal_s * 1e3) as u64),
        }
    }
}

/// A job of the node whose end a look ahead predicts.
pub(super) struct AheadJob {
    pub id: JobId,
    pub running: RunningJob,
    /// The time by which the job is to end; for a chain, a job of several steps, the time by which its last
    /// step is to end. `None` if the job has no goal.
    pub goal: Option<BothTimes>,
}

impl AheadJob {
    /// Returns the end of the job in the predictions `finishes`, in seconds of the runtime's time. `None` if
    /// it is more than a week ahead, if the policy panicked, or if `finishes` does not have the job.
    pub(super) fn finish_s(&self, finishes: &[Finish]) -> Option<f64> {
        let at = finishes.binary_search_by_key(&self.id, |finish| finish.job.id);
        finishes[at.ok()?].finish_s
    }
}

impl Ahead {
    /// Returns the input of a look ahead for the jobs that `node` runs now; `None` before the runtime's first
    /// control cycle, after a cycle in which the policy or the capacity source panicked, and for an unmanaged
    /// runtime, which does not limit jobs and uses no policy.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let unix_ms = now_unix_ms();
        let running = node.running_jobs();
        let mut situation = node.runtime().situation()?;
        let now_s = situation.now_s;
        let now = BothTimes { s: now_s, unix_ms };
        let jobs = running.into_iter().map(|running| {
            let progress = running.progress();
            let id = progress.status.id;
            let left = progress.steps.saturating_sub(progress.step);
            situation.repeat(id, left);
            let begun = BothTimes {
                s: running.begun_s(),
                unix_ms: running.begun_unix_ms(),
            };
            let goal_s = running.request().goal_s;
            AheadJob {
                id,
                goal: goal_s.map(|goal_s| now.goal(begun, goal_s)),
                running,
            }
        });
        let jobs = jobs.collect();
        let expected = match node.governor() {
            Some(governor) => {
                let lately = governor.history_after(now_s - LATELY_S).into_iter();
                let lately: Vec<(f64, u32)> = lately
                    .map(|sample| (sample.t_s, sample.capacity_hundredths))
                    .collect();
                let given = governor.forecast();
                expected(given.as_deref(), &situation.forecast, &lately, now_s)
            }
            None => Availability::clone(&situation.forecast),
        };
        Some(Self {
            situation,
            expected,
            jobs,
            now,
            policy: node.policy(),
        })
    }

    /// Converts seconds of the runtime's time to milliseconds since 1970, by the machine's clock as it was
    /// set when this input was made.
    pub(super) fn unix_ms(&self, t_s: f64) -> u64 {
        self.now.unix_ms_of(t_s)
    }

    /// Returns the prediction for a job whose end in the look ahead, the simulation, is at `finish_s` seconds
    /// of the runtime's time. The errors of earlier predictions, which `ledger` has, correct that end and
    /// give the interval around it.
    pub(super) fn prediction(&self, job: &AheadJob, finish_s: f64, ledger: &Ledger) -> Prediction {
        let around = ledger.around(self.situation.now_s, finish_s);
        Prediction {
            finish_unix_ms: self.unix_ms(around.finish_s),
            low_unix_ms: self.unix_ms(around.low_s),
            high_unix_ms: self.unix_ms(around.high_s),
            goal_unix_ms: job.goal.map(|goal| goal.unix_ms),
            slack_s: job.goal.map(|goal| goal.s - around.finish_s),
            method: format!("lookahead/{}", self.policy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the start of a job and, as the present, the moment 60 seconds later, each by both
    /// clocks. In between, the machine's clock was set by `set_ms`.
    fn clock_set_by(set_ms: i64) -> [BothTimes; 2] {
        let begun = BothTimes {
            s: 17.25,
            unix_ms: 1_795_846_613_693,
        };
        let later_ms = begun.unix_ms + 60_000;
        let now = BothTimes {
            s: begun.s + 60.0,
            unix_ms: later_ms.saturating_add_signed(set_ms),
        };
        [begun, now]
    }

    #[test]
    fn a_goal_is_as_far_away_after_the_clock_was_set_as_before() {
        for set_ms in [-3_600_000, 0, 7_200_000] {
            let [begun, now] = clock_set_by(set_ms);
            let goal = now.goal(begun, 600.0);
            // Regression: a chain of jobs was two hours late after the clock was set two hours on.
            assert_eq!(goal.s - now.s, 540.0, "{set_ms}");
            assert_eq!(goal.unix_ms - now.unix_ms, 540_000, "{set_ms}");
        }
    }

    #[test]
    fn a_goal_by_the_clock_is_the_same_in_each_look_ahead() {
        for drift_ms in [-900, -1, 1, 900] {
            let [begun, now] = clock_set_by(drift_ms);
            let goal = now.goal(begun, 600.0);
            assert_eq!(goal.unix_ms, begun.unix_ms + 600_000, "{drift_ms}");
        }
    }
}
