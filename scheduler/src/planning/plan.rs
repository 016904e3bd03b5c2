//! The outlook of jobs under a forecast, and the changes that would save those at risk.
//!
//! The caller draws the future several times: task lengths, stragglers, errors of the
//! forecast, and whatever else a scenario leaves to chance. A job's probability is the part
//! of the futures in which it meets its goal. A change saves a job if the job is safe with
//! it and all other safe jobs stay safe.

use crate::model::{Job, JobId, Splits};
use crate::policy::Policy;
use crate::sim::{Recording, SimConfig, SimError, SimJob, simulate};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The expected end of a job, its risk, and the changes with which it would meet its goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlook {
    /// Id, submission, goal and weight. If the job follows another one, its submission differs
    /// between the simulated futures. Its submission here is the median over the futures in which
    /// it is submitted, or infinite if there are none; its goal counts from this submission.
    pub job: Job,
    /// Median of the job's ends over the simulated futures (draws of what may happen), in seconds;
    /// `None` if it ends in fewer than half of them.
    pub finish_s: Option<f64>,
    /// Time, in seconds, at which the job has ended in enough of the simulated futures for the
    /// plan's confidence; `None` if it ends in fewer of them.
    pub safe_finish_s: Option<f64>,
    /// Fraction of the simulated futures in which the job meets its goal, 0 to 1; `None` without a
    /// goal.
    pub met_probability: Option<f64>,
    /// True if `met_probability` is below the plan's confidence.
    pub at_risk: bool,
    /// For a job at risk: changes with which it would meet its goal, the cheapest first.
    pub saved_by: Vec<Saving>,
}

/// A change with which a job at risk would meet its goal with the plan's confidence, without making
/// other jobs miss theirs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Saving {
    /// The change of a weight, a goal, a number of maps, or the list of jobs.
    #[serde(flatten)]
    pub change: Change,
    /// Cost for comparing changes: 0 for more weight, because all other jobs that meet their goals
    /// still meet them; for fewer maps, the fraction of the maps that is given up; for a later
    /// goal, the delay divided by the time from the job's submission until its goal; 1 for removing
    /// another job.
    pub cost: f64,
}

/// A change that makes a job at risk meet its goal: a change of this job, or the removal of another
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Change {
    /// The job gets a larger weight.
    Weight {
        /// The new weight of the job.
        weight: f64,
    },
    /// The job gets a later goal.
    LaterGoal {
        /// The earliest goal, in seconds, that the job meets with the plan's confidence, to within
        /// a hundredth of the time from the job's submission until then.
        goal_s: f64,
    },
    /// The job gets fewer maps, and fewer reduces in proportion.
    FewerMaps {
        /// The largest number of maps with which the job meets its goal with the plan's confidence,
        /// to within a hundredth of its maps (or to within one map, if it has fewer than 100).
        maps: u32,
    },
    /// Another job is removed from the list of jobs, and leaves its capacity to those that remain.
    Without {
        /// The job to remove.
        job: JobId,
    },
}

/// One drawn future: the configuration of a cluster, and all jobs.
pub type Future = (SimConfig, Vec<SimJob>);

/// Larger weights that are tried for a job at risk, as multiples of its weight.
const WEIGHTS: [f64; 6] = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// An upper bound on the delays of a goal that are tried, as a multiple of the time from the job's
/// submission until its goal. For a very late job the bound is twice its lateness, if that is more.
const LATER_MAX: f64 = 32.0;

/// Relative precision of goals and numbers of maps in a [`Saving`].
const PRECISION: f64 = 0.01;

/// Simulates all `futures` and returns the outlook of the jobs `of_interest`, in that order.
///
/// `futures`, at least one, hold the same jobs of interest; their task lengths and the other
/// jobs are drawn anew for each. A job is safe if it meets its goal in at least the fraction
/// `confidence`, 0 to 1, of the futures.
///
/// # Errors
/// When a configuration or a job cannot be simulated.
pub fn plan(
    futures: Vec<Future>,
    of_interest: &[JobId],
    policy: &dyn Policy,
    confidence: f64,
) -> Result<Vec<Outlook>, SimError> {
    let mut planner = Planner {
        futures,
        of_interest,
        policy,
        confidence,
        safe: Vec::new(),
        missed: Vec::new(),
    };
    let runs = planner.runs()?;
    // If all futures agree, nothing is left to chance, and one future suffices for trying
    // changes.
    if runs.windows(2).all(|pair| pair[0] == pair[1]) {
        planner.futures.truncate(1);
    }
    let met = planner.met(&runs);
    // A job without a goal is neither safe nor at risk: no change has to spare it.
    planner.safe = met
        .iter()
        .map(|met| met.is_some_and(|p| p >= confidence))
        .collect();
    planner.missed = (runs.iter().take(planner.futures.len()))
        .map(|future| future.iter().map(|run| run.met() == Some(false)).collect())
        .collect();
    let mut outlooks = Vec::new();
    for (index, &id) in of_interest.iter().enumerate() {
        let own: Vec<Run> = runs.iter().map(|future| future[index]).collect();
        let finish_s = |q: f64| quantile(own.iter().map(|run| run.finished_s), q);
        let safe_finish_s = finish_s(confidence);
        // The submission and the goal of a job that follows another one count from the end of that
        // one. The outlook moves both by `shift_s` to points in time. `savings` works on the jobs as
        // they are in the futures, so the goals in its result are moved afterwards.
        let mut job = planner.job(id).job;
        let mut shift_s = 0.0;
        if planner.job(id).after.is_some() {
            let submitted_s = quantile(own.iter().filter_map(Run::submitted_s).map(Some), 0.5);
            shift_s = submitted_s.unwrap_or(f64::INFINITY) - job.submitted_s;
            job.submitted_s += shift_s;
            job.goal_s = job.goal_s.map(|goal_s| goal_s + shift_s);
        }
        let at_risk = met[index].is_some_and(|p| p < confidence);
        let mut saved_by = Vec::new();
        if at_risk {
            let late_s = safe_finish_s.zip(job.goal_s);
            saved_by = planner.savings(index, late_s.map(|(end_s, goal_s)| end_s - goal_s))?;
        }
        for saving in &mut saved_by {
            if let Change::LaterGoal { goal_s } = &mut saving.change {
                *goal_s += shift_s;
            }
        }
        outlooks.push(Outlook {
            job,
            finish_s: finish_s(0.5),
            safe_finish_s,
            met_probability: met[index],
            at_risk,
            saved_by,
        });
    }
    Ok(outlooks)
}

/// Returns the `q`-quantile of `times_s`: the earliest of them by which at least the fraction `q`
/// of all of them have come. `None` in `times_s` stands for a time that never comes. Returns `None`
/// if the quantile is such a time, or if there are no times.
fn quantile(times_s: impl Iterator<Item = Option<f64>>, q: f64) -> Option<f64> {
    let mut times_s: Vec<f64> = times_s.map(|t_s| t_s.unwrap_or(f64::INFINITY)).collect();
    times_s.sort_by(f64::total_cmp);
    let at = (q * times_s.len() as f64).ceil().max(1.0) as usize - 1;
    let last = times_s.len().saturating_sub(1);
    let t_s = times_s.get(at.min(last)).copied();
    t_s.filter(|t_s| t_s.is_finite())
}

/// The course of a job in one of the simulated futures.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    /// The job with the submission and the goal that it has in this future. If the job follows
    /// another one, its submission is the end of that other job, and its goal counts from there.
    job: Job,
    /// False if the job was not submitted, because the job that it follows did not end.
    was_submitted: bool,
    /// The end of the job in seconds; `None` if the job is left out or does not end.
    finished_s: Option<f64>,
}

impl Run {
    fn submitted_s(&self) -> Option<f64> {
        self.was_submitted.then_some(self.job.submitted_s)
    }

    fn met(&self) -> Option<bool> {
        self.job.met(self.finished_s)
    }
}

struct Planner<'a> {
    futures: Vec<Future>,
    of_interest: &'a [JobId],
    policy: &'a dyn Policy,
    confidence: f64,
    /// For each job that the plan is about: true if the job is safe, that is, meets its goal in
    /// enough of the futures for the plan's confidence, without any change.
    safe: Vec<bool>,
    /// For each future, and in it each job that the plan is about: true if the job misses its goal
    /// there without any change.
    missed: Vec<Vec<bool>>,
}

impl Planner<'_> {
    fn job(&self, id: JobId) -> &SimJob {
        let (_, jobs) = &self.futures[0];
        (jobs.iter().find(|job| job.job.id == id)).expect("a job of every future")
    }

    /// Simulates all futures. Returns, for each future, the course of each job that the plan is
    /// about.
    fn runs(&self) -> Result<Vec<Vec<Run>>, SimError> {
        let runs: Vec<OnceLock<Vec<Run>>> = vec![OnceLock::new(); self.futures.len()];
        let order: Vec<usize> = (0..self.futures.len()).collect();
        self.on_all_cores(&order, |future| {
            let (config, jobs) = &self.futures[future];
            let run = self.runs_of(config, jobs.clone())?;
            runs[future].set(run).expect("each future is run once");
            Ok(true)
        })?;
        let runs = runs.into_iter().filter_map(OnceLock::into_inner);
        Ok(runs.collect())
    }

    /// Simulates one future with `config` and `jobs`. Returns the course of each job that the plan
    /// is about.
    fn runs_of(&self, config: &SimConfig, jobs: Vec<SimJob>) -> Result<Vec<Run>, SimError> {
        let config = SimConfig {
            recording: Recording::default(),
            ..config.clone()
        };
        let report = simulate(&config, jobs, self.policy)?;
        let run = |&id: &JobId| {
            let record = report.jobs.iter().find(|record| record.job.id == id);
            Run {
                job: record.map_or_else(|| self.job(id).job, |record| record.job),
                was_submitted: record.is_some_and(|record| record.was_submitted),
                finished_s: record.and_then(|record| record.finished_s),
            }
        };
        Ok(self.of_interest.iter().map(run).collect())
    }

    /// Calls `work` for the futures (the simulated courses of events) with the numbers in
    /// `order`, on all cores, until a call returns false. Returns false if a call did.
    fn on_all_cores(
        &self,
        order: &[usize],
        work: impl Fn(usize) -> Result<bool, SimError> + Sync,
    ) -> Result<bool, SimError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (next, go_on) = (AtomicUsize::new(0), AtomicBool::new(true));
        let worker = || -> Result<(), SimError> {
            while go_on.load(Ordering::Relaxed)
                && let Some(&future) = order.get(next.fetch_add(1, Ordering::Relaxed))
            {
                if !work(future)? {
                    go_on.store(false, Ordering::Relaxed);
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.min(order.len()))
                .map(|_| scope.spawn(worker))
                .collect();
            workers
                .into_iter()
                .try_for_each(|worker| match worker.join() {
                    Ok(done) => done,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
        })?;
        Ok(go_on.into_inner())
    }

    /// Returns, for each job that the plan is about, the fraction of the futures in which the job
    /// meets its goal; `None` without a goal. `runs[future][index]` is the run of the job at
    /// position `index` of `of_interest`.
    fn met(&self, runs: &[Vec<Run>]) -> Vec<Option<f64>> {
        let of = |(index, &id): (usize, &JobId)| {
            self.job(id).job.goal_s?;
            let in_time = |future: &&Vec<Run>| future[index].met() == Some(true);
            Some(runs.iter().filter(in_time).count() as f64 / runs.len() as f64)
        };
        self.of_interest.iter().enumerate().map(of).collect()
    }

    /// Returns whether, with the change, the job at position `index` of `of_interest` is safe
    /// (meets its goal in enough of the simulated futures for the plan's confidence), and all other
    /// jobs that are safe without the change still are.
    ///
    /// Most changes do not save the job, so the simulations are ordered and cut to find this out
    /// early: the futures in which the job is late without the change come first, no future is
    /// simulated once the answer is certain, and no simulation runs longer than until the last
    /// goal.
    fn saves(&self, index: usize, change: Change) -> Result<bool, SimError> {
        let id = self.of_interest[index];
        let left_out = |other: usize| {
            change
                == Change::Without {
                    job: self.of_interest[other],
                }
        };
        // Only jobs with a goal are safe or at risk.
        let must: Vec<usize> = (0..self.of_interest.len())
            .filter(|&other| (other == index || self.safe[other]) && !left_out(other))
            .collect();
        let futures = self.futures.len();
        let enough = |met: usize| met as f64 / futures as f64 >= self.confidence;
        let missed: Vec<AtomicUsize> = must.iter().map(|_| AtomicUsize::new(0)).collect();
        let mut order: Vec<usize> = (0..futures).collect();
        order.sort_by_key(|&future| !self.missed[future][index]);
        // The goal of a job that follows another one counts from the end of that job and may
        // lie at any time.
        let chained = self.futures[0].1.iter().any(|job| job.after.is_some());
        let goals_s = must.iter().filter_map(|&other| match change {
            Change::LaterGoal { goal_s } if other == index => Some(goal_s),
            _ => self.job(self.of_interest[other]).job.goal_s,
        });
        let last_goal_s = goals_s.fold(0.0, f64::max);
        self.on_all_cores(&order, |future| {
            let (config, jobs) = &self.futures[future];
            let mut config = config.clone();
            if !chained {
                // A horizon must be positive; a goal need not be.
                config.horizon_s = config.horizon_s.min(last_goal_s.max(config.cycle_s));
            }
            let runs = self.runs_of(&config, apply(jobs, id, change))?;
            let all_enough = must.iter().zip(&missed).all(|(&job, missed)| {
                let late = runs[job].met() != Some(true);
                let missed = missed.fetch_add(usize::from(late), Ordering::Relaxed);
                enough(futures - missed - usize::from(late))
            });
            Ok(all_enough)
        })
    }

    /// Returns the changes that save the job with this index, which is at risk: after the
    /// change it meets its goal with the plan's confidence, and other safe jobs stay safe.
    /// There is at most one change of each kind, and the cheapest is first. `late_s` is the
    /// time from the job's goal to the time by which it ends with that confidence, in seconds;
    /// `None` if there is no such time.
    fn savings(&self, index: usize, late_s: Option<f64>) -> Result<Vec<Saving>, SimError> {
        let id = self.of_interest[index];
        let one = self.job(id);
        let (job, maps) = (one.job, one.maps);
        let mut savings = Vec::new();
        for times in WEIGHTS {
            let change = Change::Weight {
                weight: job.weight * times,
            };
            if self.saves(index, change)? {
                savings.push(Saving { change, cost: 0.0 });
                break;
            }
        }
        if let Some(saving) = self.later_goal(index, &job, late_s)? {
            savings.push(saving);
        }
        if let Some(saving) = self.fewer_maps(index, maps)? {
            savings.push(saving);
        }
        // A job that others wait for cannot be left out alone.
        let (_, jobs) = &self.futures[0];
        let is_last = |other: JobId| jobs.iter().all(|job| job.after != Some(other));
        let mut others: Vec<&SimJob> = (self.of_interest.iter())
            .filter(|&&other| other != id && is_last(other))
            .map(|&other| self.job(other))
            .collect();
        others.sort_by_key(|other| (other.maps, other.job.id));
        for other in others {
            let change = Change::Without { job: other.job.id };
            if self.saves(index, change)? {
                savings.push(Saving { change, cost: 1.0 });
                break;
            }
        }
        savings.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Ok(savings)
    }

    /// Returns the change that moves the job's goal to the earliest later time with which the job
    /// is safe; `None` if no delay up to the bound, see [`LATER_MAX`], is enough.
    fn later_goal(
        &self,
        index: usize,
        job: &Job,
        late_s: Option<f64>,
    ) -> Result<Option<Saving>, SimError> {
        let goal_s = job.goal_s.expect("only a job with a goal is at risk");
        let whole_s = (goal_s - job.submitted_s).max(1.0);
        let most = LATER_MAX.max(2.0 * late_s.unwrap_or(0.0) / whole_s);
        let change = |cost: f64| Change::LaterGoal {
            goal_s: goal_s + cost * whole_s,
        };
        let (mut too_little, mut enough) = (0.0, PRECISION);
        while !self.saves(index, change(enough))? {
            too_little = enough;
            enough *= 2.0;
            if enough > most {
                return Ok(None);
            }
        }
        while enough - too_little > PRECISION * (1.0 + enough) {
            let middle = (too_little + enough) / 2.0;
            if self.saves(index, change(middle))? {
                enough = middle;
            } else {
                too_little = middle;
            }
        }
        Ok(Some(Saving {
            change: change(enough),
            cost: enough,
        }))
    }

    /// Returns the change that leaves the job as many of its maps as possible, so that it meets its
    /// goal with the plan's confidence; `None` if there is no such number. The number is found by
    /// bisection between 0 and `maps`, on the assumption that fewer maps never make the job later.
    fn fewer_maps(&self, index: usize, maps: u32) -> Result<Option<Saving>, SimError> {
        let (mut few, mut too_many) = (0, maps);
        while f64::from(too_many - few) > (PRECISION * f64::from(maps)).max(1.0) {
            let middle = few + (too_many - few) / 2;
            if self.saves(index, Change::FewerMaps { maps: middle })? {
                few = middle;
            } else {
                too_many = middle;
            }
        }
        Ok((few > 0).then(|| Saving {
            change: Change::FewerMaps { maps: few },
            cost: 1.0 - f64::from(few) / f64::from(maps),
        }))
    }
}

fn apply(jobs: &[SimJob], id: JobId, change: Change) -> Vec<SimJob> {
    let mut jobs = jobs.to_vec();
    if let Change::Without { job: without } = change {
        jobs.retain(|job| job.job.id != without);
    }
    for job in jobs.iter_mut().filter(|job| job.job.id == id) {
        match change {
            Change::Weight { weight } => job.job.weight = weight,
            Change::LaterGoal { goal_s } => job.job.goal_s = Some(goal_s),
            Change::FewerMaps { maps } => *job = with_maps(job, maps),
            Change::Without { .. } => {}
        }
    }
    jobs
}

/// Returns the job with its first `maps` maps, and with reduces in proportion, at least one if it
/// has any.
fn with_maps(job: &SimJob, maps: u32) -> SimJob {
    let reduces = u64::from(job.reduces) * u64::from(maps) / u64::from(job.maps.max(1));
    SimJob {
        maps,
        reduces: (reduces as u32).max(u32::from(job.reduces > 0)),
        splits: job.splits.as_ref().map(|splits| {
            let nodes = (0..maps).map(|split| splits.nodes_of(split).to_vec());
            Arc::new(Splits::new(nodes.collect()))
        }),
        ..job.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::Availability;
    use crate::model::Profile;
    use crate::policy::{Fifo, ForecastEdf};
    use crate::sim::TaskLength;

    /// Returns a future: one course of events to simulate. It has ten nodes, cycles of 1 s,
    /// and jobs with maps of 100 s. `jobs` holds id, goal and number of maps.
    fn future(log_sd: f64, seed: u64, jobs: &[(u64, f64, u32)]) -> Future {
        let f = Availability::constant(1000.0).unwrap();
        let mut config = SimConfig::one_slot_nodes(10, f);
        config.cycle_s = 1.0;
        config.seed = seed;
        let length = match log_sd {
            0.0 => TaskLength::Fixed(100.0),
            log_sd => TaskLength::LogNormal {
                mean_s: 100.0,
                log_sd,
            },
        };
        let jobs = jobs.iter().map(|&(id, goal_s, maps)| {
            let job = Job::new(JobId(id), 0.0, Some(goal_s));
            SimJob::of_maps(job, maps, Profile::cpu(100, 100.0, 100.0), length)
        });
        (config, jobs.collect())
    }

    fn saving(outlook: &Outlook, kind: fn(&Change) -> bool) -> Option<Change> {
        let mut changes = outlook.saved_by.iter().map(|saving| saving.change);
        changes.find(kind)
    }

    /// Returns the later goal that would save the job, in seconds.
    fn later_goal_s(outlook: &Outlook) -> f64 {
        match saving(outlook, |change| matches!(change, Change::LaterGoal { .. })) {
            Some(Change::LaterGoal { goal_s }) => goal_s,
            _ => panic!("{outlook:?}"),
        }
    }

    /// Until 300 s there is time for 30 maps, and the two jobs have 20 and 25, so the policy gives
    /// up the larger one. A goal 200 s later, at most ten maps, or removing the other job would
    /// save it. More weight would save it too, but make the other job miss its goal.
    #[test]
    fn a_job_at_risk_has_savings_in_the_order_of_their_cost() {
        let futures = vec![future(0.0, 1, &[(1, 300.0, 20), (2, 300.0, 25)])];
        let outlooks = plan(futures, &[JobId(1), JobId(2)], &ForecastEdf, 0.95).unwrap();
        let (first, second) = (&outlooks[0], &outlooks[1]);
        assert_eq!((first.met_probability, first.at_risk), (Some(1.0), false));
        assert!(first.saved_by.is_empty());
        assert_eq!((second.met_probability, second.at_risk), (Some(0.0), true));
        let weight = saving(second, |change| matches!(change, Change::Weight { .. }));
        assert_eq!(weight, None, "it would cost the other its goal");
        let goal_s = later_goal_s(second);
        assert!((500.0..515.0).contains(&goal_s), "{goal_s}");
        let fewer = saving(second, |change| matches!(change, Change::FewerMaps { .. }));
        assert_eq!(fewer, Some(Change::FewerMaps { maps: 10 }));
        let without = saving(second, |change| matches!(change, Change::Without { .. }));
        assert_eq!(without, Some(Change::Without { job: JobId(1) }));
        let costs: Vec<f64> = second.saved_by.iter().map(|saving| saving.cost).collect();
        assert!(costs.is_sorted());
    }

    /// The first job ends at 100 s, and the second one takes 200 s from there.
    #[test]
    fn the_goal_of_a_job_that_follows_another_one_counts_from_the_end_of_that_one() {
        let following = |goal_s: f64| {
            let (config, mut jobs) = future(0.0, 1, &[(1, 1000.0, 10), (2, goal_s, 20)]);
            jobs[1].after = Some(JobId(1));
            let of_interest = [JobId(1), JobId(2)];
            let outlooks = plan(vec![(config, jobs)], &of_interest, &Fifo, 0.95);
            outlooks.unwrap().remove(1)
        };
        let safe = following(250.0);
        assert_eq!((safe.met_probability, safe.at_risk), (Some(1.0), false));
        assert_eq!(
            (safe.job.submitted_s, safe.job.goal_s),
            (100.0, Some(350.0))
        );
        let late = following(150.0);
        assert_eq!((late.met_probability, late.at_risk), (Some(0.0), true));
        let goal_s = later_goal_s(&late);
        assert!((300.0..310.0).contains(&goal_s), "{goal_s}");
    }

    #[test]
    fn a_goal_that_is_far_too_early_is_saved_by_one_after_the_end_of_the_job() {
        let futures = vec![future(0.0, 1, &[(1, 1.0, 10)])];
        let outlooks = plan(futures, &[JobId(1)], &Fifo, 0.95).unwrap();
        let goal_s = later_goal_s(&outlooks[0]);
        assert!((100.0..103.0).contains(&goal_s), "{goal_s}");
    }

    #[test]
    fn ends_and_probability_come_from_all_futures() {
        // One wave of ten maps whose lengths vary by half: the job meets 230 s in some
        // futures.
        let futures = (0..60).map(|seed| future(0.5, seed, &[(1, 230.0, 10)]));
        let outlook = plan(futures.collect(), &[JobId(1)], &ForecastEdf, 0.9).unwrap();
        let one = &outlook[0];
        let met = one.met_probability.unwrap();
        let (median_s, safe_s) = (one.finish_s.unwrap(), one.safe_finish_s.unwrap());
        assert!(0.1 < met && met < 0.95, "{met}");
        assert!(median_s < safe_s);
        assert_eq!(met >= 0.5, median_s <= 230.0);
        assert!(one.at_risk == (met < 0.9));
    }
}
