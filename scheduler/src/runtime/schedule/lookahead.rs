//! Prediction of the ends of live jobs, and of the effect that another job would have on them.
//!
//! ```text
//!   Situation: jobs, policy, f(t) ─> cycles ahead of time ─> Finish of each job
//!                                      │ live_view, decide, shares: as in a control cycle
//! ```
//!
//! The prediction runs control cycles ahead of time. View, policy and shares are those of the
//! control thread; only the clock and the tasks are models. The simulator of clusters (`sim`)
//! does not fit: its tasks hold whole slots to their end, while here the share of a job slows
//! its tasks down and pauses them.
//!
//! The prediction assumes that no other job is submitted, that a task takes the mean CPU time of
//! its kind, that a job uses the part of its shares that it used lately
//! ([`GrantUse`](super::grant_use::GrantUse)), that memory suffices, that no attempt fails, and
//! that a commit takes no time.

use super::live_view::{LiveJob, Slot, live_view};
use super::shares::{Claimant, concurrency, shares};
use crate::availability::Availability;
use crate::model::{Job, JobId, TaskKind};
use crate::policy::{Placement, Policy};
use crate::runtime::panics::catch;
use std::collections::VecDeque;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The time span of a prediction, in seconds.
const HORIZON_S: f64 = 7.0 * 86_400.0;
/// The regular time between two simulated decisions of the policy, as a fraction of the time from
/// now to the simulated instant. It is never less than a control cycle. For a far future a
/// resolution of a quarter of a second is not needed, and hundreds of decisions are enough for
/// days.
const STEP_OF_AHEAD: f64 = 0.03;
/// The least time between two simulated decisions of the policy if a job completes its maps or its
/// last task, as a fraction of the time from now to the simulated instant. In the runtime such an
/// event starts a control cycle at once; here, many such events far ahead share one decision.
const STEP_OF_AHEAD_MIN: f64 = 0.002;
/// The least remaining CPU time that is assumed for a running task, as a fraction of the mean of
/// its kind. A task that has used more than the mean has not ended, so it needs more time.
const OVERDUE_PART: f64 = 0.1;
/// The shortest step, in seconds, so that rounding does not stop the model's clock.
const MOMENT_S: f64 = 1e-9;

/// The jobs and leases at one instant that need a share, with the policy and the options that
/// decide their shares.
#[derive(Clone)]
pub struct Situation {
    /// The instant, in seconds of the runtime's time.
    pub now_s: f64,
    /// The capacity that all jobs share in this cycle, in hundredths of a core.
    pub capacity_hundredths: u32,
    /// The forecast f(t) that the policy plans with.
    pub forecast: Arc<Availability>,
    pub(in crate::runtime) policy: Arc<dyn Policy>,
    pub(in crate::runtime) cycle_s: f64,
    pub(in crate::runtime) goal_margin: f64,
    pub(in crate::runtime) slot_hundredths: u32,
    pub(in crate::runtime) cores: u32,
    /// The fraction of their shares that jobs usually use, 0.05 to 1.
    pub(in crate::runtime) usual_speed: f64,
    pub(in crate::runtime) jobs: Vec<OutstandingJob>,
}

/// A job that is not submitted, for a prediction of its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HypotheticalJob {
    /// The number of map tasks; at least 1.
    pub maps: u32,
    /// CPU time of each map task in seconds; positive.
    pub map_cpu_s: f64,
    /// The number of reduce tasks.
    pub reduces: u32,
    /// CPU time of each reduce task in seconds; positive.
    pub reduce_cpu_s: f64,
    /// The goal in seconds from now; `None` for no goal.
    pub goal_s: Option<f64>,
    /// The job's weight among all jobs; positive.
    pub weight: f64,
    /// The most cores that the job may use; `None` for all.
    pub cores: Option<u32>,
    /// The number of times that the job runs all its tasks, one time after the other; at least 1.
    /// This stands for a request whose jobs run one after the other.
    pub steps: u32,
}

/// The predicted end of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finish {
    /// The job, with its goal in seconds of the runtime's time.
    pub job: Job,
    /// The predicted end of the job, in seconds since the runtime started; `None` if it is more
    /// than a week away, or if the policy panics.
    pub finish_s: Option<f64>,
    /// The end of the horizon, a week from the prediction, in seconds since the runtime started, if
    /// the job ends after it. `None` if `finish_s` is known, or if the policy panics.
    pub beyond_s: Option<f64>,
}

/// A job with its remaining tasks.
#[derive(Clone, Debug)]
pub(in crate::runtime) struct OutstandingJob {
    job: Job,
    /// The numbers of all maps and all reduces, including finished ones.
    totals: (u32, u32),
    /// The estimated CPU time of a map and of a reduce, in seconds.
    task_s: (f64, f64),
    done_maps: u32,
    cores: u32,
    /// The fraction of its share that the job uses, 0.05 to 1.
    speed: f64,
    /// The remaining phases, maps before reduces. Only tasks of the first phase can run.
    phases: VecDeque<Phase>,
}

/// The maps or the reduces of a job that are not done.
#[derive(Clone, Debug)]
struct Phase {
    kind: TaskKind,
    task_s: f64,
    pending: u32,
    /// The remaining CPU time of each running task, in seconds.
    left_s: Vec<f64>,
}

impl Phase {
    fn new(kind: TaskKind, tasks: u32, task_s: f64) -> Self {
        Self {
            kind,
            task_s,
            pending: tasks,
            left_s: Vec::new(),
        }
    }

    fn tasks(&self) -> u32 {
        self.pending + self.left_s.len() as u32
    }

    /// Simulates the tasks of this phase for `length_s` seconds, or until the last one ends: at
    /// most `at_once` of them run at a time and share `rate` cores. Returns the time that this
    /// took, in seconds.
    fn advance(&mut self, rate: f64, at_once: u32, length_s: f64) -> f64 {
        let mut spent_s = 0.0;
        while self.tasks() > 0 && spent_s < length_s {
            while self.pending > 0 && (self.left_s.len() as u32) < at_once {
                self.pending -= 1;
                self.left_s.push(self.task_s);
            }
            let running = self.left_s.len() as f64;
            let per_task = (rate / running).min(1.0);
            if self.left_s.is_empty() || per_task <= 0.0 {
                return length_s;
            }
            // With very many tasks, whole rounds are skipped at once: the tasks that run after them
            // have progressed as far as those that ran before.
            let rounds_s = self.task_s / per_task;
            let rounds = ((length_s - spent_s) / rounds_s)
                .min(f64::from(self.pending) / running - 1.0)
                .floor();
            if rounds >= 1.0 {
                self.pending -= (rounds * running) as u32;
                spent_s += rounds * rounds_s;
                continue;
            }
            let next_s = self.left_s.iter().copied().fold(f64::INFINITY, f64::min) / per_task;
            let step_s = next_s.min(length_s - spent_s);
            spent_s += step_s;
            self.left_s.iter_mut().for_each(|left_s| {
                *left_s -= step_s * per_task;
            });
            self.left_s.retain(|left_s| *left_s > MOMENT_S * per_task);
        }
        spent_s
    }
}

impl OutstandingJob {
    /// Describes a job of the runtime. `totals` are the numbers of all its maps and all its
    /// reduces, and `speed` is the part of its share that it uses.
    pub fn new(live: LiveJob, totals: (u32, u32), cores: u32, speed: f64) -> Self {
        let mut job = Self {
            job: live.job,
            totals,
            task_s: (live.map_cpu_s, live.reduce_cpu_s),
            done_maps: live.done_maps,
            cores,
            speed,
            phases: VecDeque::new(),
        };
        for (kind, pending, task_s) in [
            (TaskKind::Map, live.pending_maps, live.map_cpu_s),
            (TaskKind::Reduce, live.pending_reduces, live.reduce_cpu_s),
        ] {
            let running = live.running.iter().filter(|(of, _)| *of == kind);
            let left_s = running.map(|(_, used_s)| (task_s - used_s).max(task_s * OVERDUE_PART));
            let phase = Phase {
                left_s: left_s.collect(),
                ..Phase::new(kind, pending, task_s)
            };
            if phase.tasks() > 0 {
                job.phases.push_back(phase);
            }
        }
        job
    }

    /// Appends all maps and reduces of the job once more. They stand for the next job of a request
    /// whose jobs run one after the other; it is assumed to have the same tasks.
    fn repeat(&mut self) {
        let (maps, reduces) = self.totals;
        let (map_s, reduce_s) = self.task_s;
        for (kind, tasks, task_s) in [
            (TaskKind::Map, maps, map_s),
            (TaskKind::Reduce, reduces, reduce_s),
        ] {
            if tasks > 0 {
                self.phases.push_back(Phase::new(kind, tasks, task_s));
            }
        }
    }

    /// Returns the state of the job that the runtime would pass to the policy.
    fn live(&self) -> LiveJob {
        let mut live = LiveJob {
            job: self.job,
            pending_maps: 0,
            pending_reduces: 0,
            done_maps: self.done_maps,
            running: Vec::new(),
            speculative: 0,
            map_cpu_s: self.task_s.0,
            reduce_cpu_s: self.task_s.1,
        };
        for (at, phase) in self.phases.iter().enumerate() {
            match phase.kind {
                // The policy does not see the maps of a step that has not begun.
                TaskKind::Map if at > 0 => break,
                TaskKind::Map => live.pending_maps = phase.pending,
                TaskKind::Reduce => live.pending_reduces = phase.pending,
            }
            let used_s = phase.left_s.iter().map(|left_s| phase.task_s - left_s);
            live.running
                .extend(used_s.map(|used_s| (phase.kind, used_s.max(0.0))));
        }
        live
    }

    fn runnable(&self) -> u32 {
        let tasks = self.phases.front().map_or(0, Phase::tasks);
        tasks.min(self.cores)
    }

    /// Returns the time that the present phase still takes with this share, in seconds; infinity if
    /// the share is 0 or no phase is left.
    fn phase_s(&self, share_hundredths: u32) -> f64 {
        let phase = self.phases.front().cloned();
        phase.map_or(f64::INFINITY, |mut phase| {
            let (rate, at_once) = self.pace(share_hundredths);
            phase.advance(rate, at_once, f64::INFINITY)
        })
    }

    /// Advances the simulated job by `length_s` seconds with this share of CPU, at most to the end
    /// of its present phase, maps or reduces.
    fn advance(&mut self, share_hundredths: u32, length_s: f64) {
        let (rate, at_once) = self.pace(share_hundredths);
        let Some(phase) = self.phases.front_mut() else {
            return;
        };
        let before = phase.tasks();
        phase.advance(rate, at_once, length_s);
        if phase.kind == TaskKind::Map {
            self.done_maps += before - phase.tasks();
        }
        if phase.tasks() == 0 {
            self.phases.pop_front();
            let is_next_step = |phase: &Phase| phase.kind == TaskKind::Map;
            if self.phases.front().is_some_and(is_next_step) {
                self.done_maps = 0;
            }
        }
    }

    /// Returns the number of cores that the job uses if it has this share, and the number of its
    /// tasks that run at once. The job uses the fraction `speed` of its share.
    fn pace(&self, share_hundredths: u32) -> (f64, u32) {
        let rate = f64::from(share_hundredths) / 100.0 * self.speed;
        (rate, concurrency(share_hundredths, self.cores))
    }
}

impl Situation {
    /// Makes the job with this id run all its tasks `times` times more, one time after the other,
    /// in place of the jobs that will follow it in the same request. Does nothing if there is no
    /// such job.
    pub fn repeat(&mut self, id: JobId, times: u32) {
        if let Some(job) = self.jobs.iter_mut().find(|job| job.job.id == id) {
            (0..times).for_each(|_| job.repeat());
        }
    }

    /// Adds a job as if it were submitted now, and returns its id in this situation.
    pub fn add(&mut self, job: &HypotheticalJob) -> JobId {
        let last = self.jobs.iter().map(|job| job.job.id.0).max();
        let id = JobId(last.unwrap_or(0) + 1);
        let live = LiveJob {
            job: Job {
                weight: job.weight,
                ..Job::new(id, self.now_s, job.goal_s.map(|goal_s| self.now_s + goal_s))
            },
            pending_maps: job.maps,
            pending_reduces: job.reduces,
            done_maps: 0,
            running: Vec::new(),
            speculative: 0,
            map_cpu_s: job.map_cpu_s,
            reduce_cpu_s: job.reduce_cpu_s,
        };
        let cores = job.cores.unwrap_or(self.cores).clamp(1, self.cores.max(1));
        let mut added = OutstandingJob::new(live, (job.maps, job.reduces), cores, self.usual_speed);
        (1..job.steps).for_each(|_| added.repeat());
        self.jobs.push(added);
        id
    }

    /// Returns a copy of the job with this id: all its tasks, without a goal. `None` if there is
    /// no such job.
    #[must_use]
    pub fn like(&self, id: JobId) -> Option<HypotheticalJob> {
        let job = self.jobs.iter().find(|job| job.job.id == id)?;
        Some(HypotheticalJob {
            maps: job.totals.0.max(1),
            map_cpu_s: job.task_s.0,
            reduces: job.totals.1,
            reduce_cpu_s: job.task_s.1,
            goal_s: None,
            weight: job.job.weight,
            cores: Some(job.cores),
            steps: 1,
        })
    }

    /// Returns the number of jobs and leases.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Predicts the end of each job, if all jobs together have the capacity `expected` over time,
    /// in hundredths of a core. The result is ordered by id. The policy still plans with
    /// [`forecast`](Self::forecast), which may be more careful.
    ///
    /// The policy is called about once for each phase (maps or reduces) of each job. It is also
    /// called at regular steps, which grow with the distance from now: with cycles of 250 ms, some
    /// 240 times for an hour and some 400 times for a week.
    #[must_use]
    pub fn finishes(&self, expected: &Availability) -> Vec<Finish> {
        let mut jobs = self.jobs.clone();
        jobs.sort_by_key(|job| job.job.id);
        let unfinished = |job: &OutstandingJob| Finish {
            job: job.job,
            finish_s: None,
            beyond_s: None,
        };
        let mut finishes: Vec<Finish> = jobs.iter().map(unfinished).collect();
        let mut record_ends = |jobs: &mut Vec<OutstandingJob>, now_s: f64| {
            for job in jobs.extract_if(.., |job| job.phases.is_empty()) {
                let at = finishes.binary_search_by_key(&job.job.id, |finish| finish.job.id);
                finishes[at.expect("all are there")].finish_s = Some(now_s);
            }
        };
        let mut now_s = self.now_s;
        record_ends(&mut jobs, now_s);
        while !jobs.is_empty() && now_s - self.now_s < HORIZON_S {
            let ahead_s = now_s - self.now_s;
            let until_s = now_s + self.cycle_s.max(ahead_s * STEP_OF_AHEAD);
            let stays_until_s = now_s + ahead_s * STEP_OF_AHEAD_MIN;
            let Some(placement) = self.decide(now_s, expected, &jobs) else {
                return finishes;
            };
            while now_s < until_s && !jobs.is_empty() {
                let capacity_hundredths = self.capacity(expected.mean(now_s, until_s));
                let shares = self.share_out(&placement, capacity_hundredths, &jobs);
                let phases_s = jobs
                    .iter()
                    .zip(&shares)
                    .map(|(job, share)| job.phase_s(*share));
                let phase_s = phases_s.fold(f64::INFINITY, f64::min);
                let length_s = phase_s.min(until_s - now_s).max(MOMENT_S);
                for (job, share) in jobs.iter_mut().zip(&shares) {
                    job.advance(*share, length_s);
                }
                now_s += length_s;
                record_ends(&mut jobs, now_s);
                if phase_s <= length_s && now_s >= stays_until_s {
                    break;
                }
            }
        }
        for finish in finishes.iter_mut().filter(|it| it.finish_s.is_none()) {
            finish.beyond_s = Some(self.now_s + HORIZON_S);
        }
        finishes
    }

    /// Returns a capacity that jobs are expected to have, in whole hundredths of a core. It is
    /// rounded to the nearest: without the fraction, jobs that get little CPU would end too late.
    fn capacity(&self, hundredths: f64) -> u32 {
        (hundredths.max(0.0).round() as u32).min(self.cores * 100)
    }

    /// Returns the placement of the policy for `jobs` at `now_s`; `None` if the policy panics.
    /// `expected` is the capacity over time, in hundredths of a core.
    fn decide(
        &self,
        now_s: f64,
        expected: &Availability,
        jobs: &[OutstandingJob],
    ) -> Option<Placement> {
        let live: Vec<LiveJob> = jobs.iter().map(OutstandingJob::live).collect();
        let view = live_view(
            (now_s, self.cycle_s),
            self.goal_margin,
            Slot::new(self.slot_hundredths),
            self.capacity(expected.at(now_s)),
            Arc::clone(&self.forecast),
            &live,
        );
        catch(|| self.policy.decide(&view).placement).ok()
    }

    /// Returns the share that `placement` gives to each job, in hundredths of a core, in the order
    /// of `jobs`.
    fn share_out(
        &self,
        placement: &Placement,
        capacity_hundredths: u32,
        jobs: &[OutstandingJob],
    ) -> Vec<u32> {
        let claimants: Vec<Claimant> = jobs
            .iter()
            .map(|job| Claimant {
                job: job.job,
                slots: placement.slots(job.job.id),
                runnable_tasks: job.runnable(),
                speculative: 0,
            })
            .collect();
        let shares = shares(capacity_hundredths, self.slot_hundredths, &claimants);
        shares.into_iter().map(|(_, share)| share).collect()
    }
}
