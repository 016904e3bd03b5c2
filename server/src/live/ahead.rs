//! The jobs of a node for a look ahead, which predicts when they end, and the conversion of the predicted
//! times to wall-clock times.

use ebb_jobs::history::now_unix_ms;
use ebb_scheduler::availability::Availability;
use ebb_scheduler::model::JobId;
use ebb_scheduler::runtime::{Finish, Situation};

use super::outlook::{LATELY_S, expected};
use super::prediction::Ledger;
use crate::jobs::{BeyondHorizon, EndForecast, Prediction};
use crate::node::{Node, RunningJob};

/// The input of a look ahead. (A look ahead is a simulation of the scheduler that predicts when jobs end.)
pub(super) struct Ahead {
    pub situation: Situation,
    /// The capacity that jobs are expected to have over time, in hundredths of a core.
    pub expected: Availability,
    pub jobs: Vec<AheadJob>,
    pub now: BothTimes,
    /// The name of the policy.
    pub policy: &'static str,
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
    /// The runtime's id of the step that runs.
    pub id: JobId,
    /// The id of the job in the history.
    pub job_id: String,
    /// The application of the job.
    pub application: String,
    /// The number of steps of the job.
    pub steps: u32,
    /// The time by which the job is to end; for a chain, a job of several steps, the time by which its last
    /// step is to end. `None` if the job has no goal.
    pub goal: Option<BothTimes>,
}

impl AheadJob {
    /// Returns the end of the job in the predictions `finishes`, in seconds of the runtime's time. `None` if
    /// it is more than a week ahead, if the policy panicked, or if `finishes` does not have the job.
    pub(super) fn finish_s(&self, finishes: &[Finish]) -> Option<f64> {
        self.finish(finishes)?.finish_s
    }

    fn finish<'f>(&self, finishes: &'f [Finish]) -> Option<&'f Finish> {
        let at = finishes.binary_search_by_key(&self.id, |finish| finish.job.id);
        finishes.get(at.ok()?)
    }
}

impl Ahead {
    /// Returns the input of a look ahead for `running`, the jobs that `node` runs, with [`jobs`](Self::jobs) in
    /// the same order. `None` before the runtime's first control cycle, after a cycle in which the policy or
    /// the capacity source panicked, and for an unmanaged runtime, which does not limit jobs and uses no
    /// policy.
    pub(super) fn of(node: &Node, running: &[RunningJob]) -> Option<Self> {
        let unix_ms = now_unix_ms();
        let mut situation = node.runtime().situation()?;
        let now_s = situation.now_s;
        let now = BothTimes { s: now_s, unix_ms };
        let jobs = running.iter().map(|running| {
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
                job_id: running.id().to_string(),
                application: running.record().application.clone(),
                steps: progress.steps,
                goal: goal_s.map(|goal_s| now.goal(begun, goal_s)),
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

    /// Returns the forecast of the end of a job from `finishes`, the result of the look ahead; `None` if that
    /// has no end of the job and does not show that the end is after the horizon.
    pub(super) fn end_forecast(
        &self,
        job: &AheadJob,
        finishes: &[Finish],
        ledger: &Ledger,
    ) -> Option<EndForecast> {
        let finish = job.finish(finishes)?;
        if let Some(finish_s) = finish.finish_s {
            let prediction = self.prediction(job, finish_s, ledger);
            return Some(EndForecast::Within(prediction));
        }
        Some(EndForecast::Beyond(BeyondHorizon {
            horizon_unix_ms: self.unix_ms(finish.beyond_s?),
            goal_unix_ms: job.goal.map(|goal| goal.unix_ms),
            method: self.method(),
        }))
    }

    /// Returns the prediction for a job whose end in the look ahead, the simulation, is at `finish_s` seconds
    /// of the runtime's time. The errors of earlier predictions, which `ledger` has, correct that end and
    /// give the interval around it.
    fn prediction(&self, job: &AheadJob, finish_s: f64, ledger: &Ledger) -> Prediction {
        let around = ledger.around(self.situation.now_s, finish_s);
        Prediction {
            finish_unix_ms: self.unix_ms(around.finish_s),
            low_unix_ms: self.unix_ms(around.low_s),
            high_unix_ms: self.unix_ms(around.high_s),
            goal_unix_ms: job.goal.map(|goal| goal.unix_ms),
            slack_s: job.goal.map(|goal| goal.s - around.finish_s),
            method: self.method(),
        }
    }

    fn method(&self) -> String {
        format!("lookahead/{}", self.policy)
    }
}

/// Look-aheads over jobs that a test describes, for the tests of this module and of `what_if`.
#[cfg(test)]
pub(super) mod testing {
    use std::sync::Arc;

    use ebb_scheduler::policy::Fair;
    use ebb_scheduler::runtime::{HypotheticalJob, Runtime, RuntimeOptions};
    use ebb_test_support::wait::until_some;

    use super::*;

    /// Returns a job of `maps` map tasks, each of a second of CPU time.
    pub(in crate::live) fn job(maps: u32) -> HypotheticalJob {
        HypotheticalJob {
            maps,
            map_cpu_s: 1.0,
            reduces: 0,
            reduce_cpu_s: 1.0,
            goal_s: None,
            weight: 1.0,
            cores: None,
            steps: 1,
        }
    }

    /// Returns the input of a look ahead over `jobs`, whose ids in the history are `1`, `2` and so on. They share
    /// two cores in equal parts. No job runs, so the ends in the look ahead do not depend on the machine.
    pub(in crate::live) fn ahead_of(jobs: &[HypotheticalJob]) -> Ahead {
        let runtime = Runtime::start(RuntimeOptions {
            policy: Arc::new(Fair),
            ..RuntimeOptions::new(2)
        });
        let runtime = runtime.unwrap();
        let mut situation = until_some("a control cycle", || runtime.situation());
        let now = BothTimes {
            s: situation.now_s,
            unix_ms: 1_795_846_613_693,
        };
        let jobs = jobs.iter().zip(1_u32..).map(|(job, number)| AheadJob {
            id: situation.add(job),
            job_id: number.to_string(),
            application: "wordcount".to_string(),
            steps: 1,
            goal: job.goal_s.map(|goal_s| now.goal(now, goal_s)),
        });
        let jobs = jobs.collect();
        Ahead {
            situation,
            expected: Availability::constant(200.0).unwrap(),
            jobs,
            now,
            policy: "fair",
        }
    }
}

#[cfg(test)]
mod tests {
    use ebb_scheduler::runtime::HypotheticalJob;

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

    /// Regression: a job that was predicted not to end within a week looked like one without a prediction.
    #[test]
    fn an_end_after_the_horizon_is_a_forecast() {
        let goal_s = Some(600.0);
        let ahead = testing::ahead_of(&[
            HypotheticalJob {
                goal_s,
                ..testing::job(10)
            },
            HypotheticalJob {
                goal_s,
                map_cpu_s: 1e6,
                ..testing::job(1000)
            },
        ]);
        let finishes = ahead.situation.finishes(&ahead.expected);
        let forecast =
            |at: usize| ahead.end_forecast(&ahead.jobs[at], &finishes, &Ledger::default());
        let Some(EndForecast::Within(near)) = forecast(0) else {
            panic!("{:?}", forecast(0));
        };
        assert!(near.slack_s > Some(500.0), "{near:?}");
        let now_unix_ms = ahead.now.unix_ms;
        let far = BeyondHorizon {
            horizon_unix_ms: now_unix_ms + 7 * 86_400_000,
            goal_unix_ms: Some(now_unix_ms + 600_000),
            method: "lookahead/fair".to_string(),
        };
        assert!(far.is_late());
        assert_eq!(forecast(1), Some(EndForecast::Beyond(far)));
        assert_eq!(
            ahead.end_forecast(&ahead.jobs[1], &[], &Ledger::default()),
            None
        );
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
