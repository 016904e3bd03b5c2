//! The jobs of a node for a look ahead, and the conversion of its results to wall-clock times.

use ebb_jobs::history::now_unix_ms;
use ebb_scheduler::availability::Availability;
use ebb_scheduler::model::JobId;
use ebb_scheduler::runtime::{Finish, Situation};

use super::outlook::{LATELY_S, expected};
use super::prediction::Ledger;
use crate::jobs::Prediction;
use crate::node::{Node, RunningJob};

/// The input of a look ahead.
pub(super) struct Ahead {
    pub situation: Situation,
    /// The CPU time expected for jobs, in hundredths of a core.
    pub expected: Availability,
    pub jobs: Vec<AheadJob>,
    now_unix_ms: u64,
    policy: &'static str,
}

/// A job of the node in a look ahead.
pub(super) struct AheadJob {
    pub id: JobId,
    pub running: RunningJob,
    /// The goal of the whole job, also for a chain, in seconds of the runtime's time.
    pub goal_s: Option<f64>,
    /// The goal in milliseconds since 1970. It follows from the latest start of the job, so it is the same
    /// in each look ahead.
    pub goal_unix_ms: Option<u64>,
}

impl AheadJob {
    /// The end of the job in the result of a look ahead, if it is within the horizon.
    pub(super) fn finish_s(&self, finishes: &[Finish]) -> Option<f64> {
        let at = finishes.binary_search_by_key(&self.id, |finish| finish.job.id);
        finishes[at.ok()?].finish_s
    }
}

impl Ahead {
    /// The jobs of `node`. `None` for a runtime without management, and before its first control
    /// cycle.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let now_unix_ms = now_unix_ms();
        let running = node.running_jobs();
        let mut situation = node.runtime().situation()?;
        let now_s = situation.now_s;
        let jobs = running.into_iter().map(|running| {
            let progress = running.progress();
            let id = progress.status.id;
            let left = progress.steps.saturating_sub(progress.step);
            situation.repeat(id, left);
            let begun_unix_ms = running.begun_unix_ms();
            let begun_s = time_s(begun_unix_ms, now_unix_ms, now_s);
            let whole = running.request().goal_s.map(|goal_s| begun_s + goal_s);
            let goal_ms = running.request().goal_s.map(|goal_s| goal_s * 1e3);
            AheadJob {
                id,
                goal_unix_ms: goal_ms.map(|goal_ms| begun_unix_ms.saturating_add(goal_ms as u64)),
                goal_s: match progress.steps {
                    1 => progress.status.goal_s,
                    _ => whole,
                },
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
            now_unix_ms,
            policy: node.policy(),
        })
    }

    /// Converts seconds of the runtime's time to milliseconds since 1970.
    pub(super) fn unix_ms(&self, t_s: f64) -> u64 {
        let ahead_ms = (t_s - self.situation.now_s) * 1e3;
        (self.now_unix_ms as f64 + ahead_ms).max(0.0) as u64
    }

    /// Converts milliseconds since 1970 to seconds of the runtime's time.
    pub(super) fn time_s(&self, unix_ms: u64) -> f64 {
        time_s(unix_ms, self.now_unix_ms, self.situation.now_s)
    }

    /// The prediction for a job that ends at `finish_s` in the look ahead.
    pub(super) fn prediction(&self, job: &AheadJob, finish_s: f64, ledger: &Ledger) -> Prediction {
        let around = ledger.around(self.situation.now_s, finish_s);
        Prediction {
            finish_unix_ms: self.unix_ms(around.finish_s),
            low_unix_ms: self.unix_ms(around.low_s),
            high_unix_ms: self.unix_ms(around.high_s),
            goal_unix_ms: job.goal_unix_ms,
            slack_s: job.goal_s.map(|goal_s| goal_s - around.finish_s),
            method: format!("lookahead/{}", self.policy),
        }
    }
}

fn time_s(unix_ms: u64, now_unix_ms: u64, now_s: f64) -> f64 {
    now_s + (unix_ms as f64 - now_unix_ms as f64) / 1e3
}
