//! The jobs that one divisible machine of speed 1 can complete by their goals.
//!
//! Each job has a release, a goal and an amount of work, which may be done in parts at any
//! time between release and goal. The scheduling literature calls this 1 | pmtn, r_j | sum
//! U_j. Serving the earliest goal first completes as much work in time as is possible. The
//! sets of jobs that fit are therefore the independent sets of a matroid in its fractional
//! form (a polymatroid), and a greedy choice solves the linear relaxation exactly: the
//! smallest jobs first, each as far as it fits.

use crate::ordered_f64::OrderedF64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A job on a single divisible machine, which stands for the cluster. Times are measured in the
/// work that the machine can do: one unit of work takes one unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FluidJob {
    /// Earliest time at which the job's work may be done.
    pub release: f64,
    /// Latest time at which the job's work may be done.
    pub goal: f64,
    /// Amount of work, in units of the machine's time; positive.
    pub work: f64,
}

/// Relative difference below which two numbers count as equal, because of rounding.
const EPSILON: f64 = 1e-9;

impl FluidJob {
    fn fits_alone(&self) -> bool {
        self.work <= (self.goal - self.release) * (1.0 + EPSILON)
    }
}

/// Returns the optimum of the linear relaxation, in jobs: the smallest possible sum of the jobs'
/// missed parts, each between 0 and 1. A job that does not fit even alone counts as missed whole.
/// The result is never larger than [`missed_exactly`].
///
/// Takes time proportional to the number of jobs times the number of jobs in a busy period of the
/// machine.
#[must_use]
pub fn missed_relaxed(jobs: &[FluidJob]) -> f64 {
    let met = Relaxation::new(jobs).solve(&vec![Fate::Open; jobs.len()]);
    jobs.len() as f64 - met.iter().sum::<f64>()
}

/// Returns the smallest possible number of missed jobs, by branch and bound over the relaxation.
/// `None` if `branches_max` branches do not suffice to find it.
#[must_use]
pub fn missed_exactly(jobs: &[FluidJob], branches_max: usize) -> Option<usize> {
    let relaxation = Relaxation::new(jobs);
    let mut best = jobs.len();
    let mut open = vec![vec![Fate::Open; jobs.len()]];
    for _ in 0..branches_max {
        let Some(fates) = open.pop() else {
            return Some(best);
        };
        let met = relaxation.solve(&fates);
        let forced_in = |job: usize| fates[job] == Fate::In;
        if (0..jobs.len()).any(|job| forced_in(job) && met[job] < 1.0) {
            continue;
        }
        let missed = jobs.len() as f64 - met.iter().sum::<f64>();
        if (missed - ROUNDING).ceil() >= best as f64 {
            continue;
        }
        // Branches on a job that is met in part. If there is none, the relaxation is an exact
        // answer.
        match (0..jobs.len()).find(|&job| met[job] > 0.0 && met[job] < 1.0) {
            None => best = missed.round() as usize,
            Some(job) => {
                best = best.min(met.iter().filter(|&&part| part < 1.0).count());
                for fate in [Fate::In, Fate::Out] {
                    let mut fates = fates.clone();
                    fates[job] = fate;
                    open.push(fates);
                }
            }
        }
    }
    open.is_empty().then_some(best)
}

/// Tolerance for rounding errors in a sum of missed fractions of jobs.
pub(super) const ROUNDING: f64 = 1e-6;

/// The assumption about a job in a branch of the branch-and-bound search: not decided yet, its goal
/// is met, or its goal is missed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    In,
    Out,
}

struct Relaxation<'a> {
    jobs: &'a [FluidJob],
    by_release: Vec<usize>,
    by_work: Vec<usize>,
}

impl<'a> Relaxation<'a> {
    fn new(jobs: &'a [FluidJob]) -> Self {
        let sorted = |key: fn(&FluidJob) -> f64| {
            let mut order: Vec<usize> = (0..jobs.len()).collect();
            order.sort_by(|&a, &b| key(&jobs[a]).total_cmp(&key(&jobs[b])));
            order
        };
        Self {
            jobs,
            by_release: sorted(|job| job.release),
            by_work: sorted(|job| job.work),
        }
    }

    /// Returns the part of each job that is done in time, 0 to 1. Jobs with [`Fate::In`],
    /// which must be met, get capacity before jobs with [`Fate::Open`], which the search has
    /// not decided. Jobs with [`Fate::Out`] get none.
    fn solve(&self, fates: &[Fate]) -> Vec<f64> {
        let mut taken = vec![0.0; self.jobs.len()];
        let mut met = vec![0.0; self.jobs.len()];
        let mut busy = BusyPeriods::default();
        let of = |fate: Fate| (self.by_work.iter().copied()).filter(move |&job| fates[job] == fate);
        for job in of(Fate::In).chain(of(Fate::Open)) {
            let one = self.jobs[job];
            if !one.fits_alone() {
                continue;
            }
            taken[job] = one.work;
            let more = self.more_in_time(&taken, job, busy.start_of(one.release));
            met[job] = match more.clamp(0.0, one.work) / one.work {
                part if part > 1.0 - EPSILON => 1.0,
                part if part < EPSILON => 0.0,
                part => part,
            };
            taken[job] = met[job] * one.work;
            busy.add(one.release, taken[job]);
        }
        met
    }

    /// Returns by how much the work that is done in time grows if `job` is added. `work` holds the
    /// work of each job, including `job`; all other jobs can be done in time. The machine serves
    /// the earliest goal first and gives up late work, which completes as much in time as is
    /// possible.
    ///
    /// The machine is idle just before `from`, and again at some time after the job's release.
    /// Outside of this interval `job` changes nothing, so only the interval is simulated.
    fn more_in_time(&self, work: &[f64], job: usize, from: f64) -> f64 {
        let first = (self.by_release).partition_point(|&job| self.jobs[job].release < from);
        let mut released = (self.by_release[first..].iter().copied())
            .filter(|&job| work[job] > 0.0)
            .peekable();
        let mut waiting: BinaryHeap<Reverse<WaitingJob>> = BinaryHeap::new();
        let mut now = f64::NEG_INFINITY;
        let mut more = 0.0;
        loop {
            if waiting.is_empty() {
                let next = released.peek().filter(|_| now <= self.jobs[job].release);
                let Some(&next) = next else {
                    return more;
                };
                now = now.max(self.jobs[next].release);
            }
            while let Some(next) = released.next_if(|&next| self.jobs[next].release <= now) {
                waiting.push(Reverse(WaitingJob {
                    goal: OrderedF64(self.jobs[next].goal),
                    job: next,
                    left: OrderedF64(work[next]),
                }));
                more -= if next == job { 0.0 } else { work[next] };
            }
            let Some(mut first) = waiting.peek_mut() else {
                continue;
            };
            let next = released
                .peek()
                .map_or(f64::INFINITY, |&job| self.jobs[job].release);
            let (goal, left) = (first.0.goal.0, first.0.left.0);
            let end = now + left;
            if end <= next.min(goal) {
                more += left;
                now = end;
                PeekMut::pop(first);
            } else if goal <= next {
                more += (goal - now).max(0.0);
                now = now.max(goal);
                PeekMut::pop(first);
            } else {
                more += next - now;
                first.0.left.0 -= next - now;
                now = next;
            }
        }
    }
}

/// The periods in which the machine works without a break, if it gets only work that can be done by
/// the goals. Each lasts from the release of a job until no work waits. The order in which jobs are
/// served does not change the periods.
#[derive(Default)]
struct BusyPeriods {
    /// Start and end of each busy period; the periods are ascending and disjoint.
    periods: Vec<(f64, f64)>,
}

impl BusyPeriods {
    /// Returns the start of the period that contains `t`; `t` itself if the machine is idle then.
    fn start_of(&self, t: f64) -> f64 {
        let after = self.periods.partition_point(|&(start, _)| start <= t);
        match after.checked_sub(1).map(|at| self.periods[at]) {
            Some((start, end)) if t <= end => start,
            _ => t,
        }
    }

    /// Adds `work` that is released at `t`: extends the period at `t` or inserts a new one,
    /// and merges the periods that touch it.
    fn add(&mut self, t: f64, work: f64) {
        if work <= 0.0 {
            return;
        }
        let mut at = self.periods.partition_point(|&(start, _)| start <= t);
        if at > 0 && t <= self.periods[at - 1].1 {
            at -= 1;
            self.periods[at].1 += work;
        } else {
            self.periods.insert(at, (t, t + work));
        }
        let mut merged = at + 1;
        while let Some(&(start, end)) = self.periods.get(merged)
            && start <= self.periods[at].1
        {
            self.periods[at].1 += end - start;
            merged += 1;
        }
        self.periods.drain(at + 1..merged);
    }
}

/// A job that was released and is not done. Jobs are ordered by goal, then by number. The derived
/// order would compare `left` (the remaining work) last, but never does, since no two entries have
/// the same number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct WaitingJob {
    goal: OrderedF64,
    job: usize,
    left: OrderedF64,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::test_rng::test_rng;
    use rand::RngExt;
    use rand_chacha::ChaCha8Rng;

    pub fn job(release: f64, goal: f64, work: f64) -> FluidJob {
        FluidJob {
            release,
            goal,
            work,
        }
    }

    /// Draws 1 to `jobs_max` jobs that are released within `span` from `start` on, and have less
    /// than `length` of time each.
    pub fn random_jobs(
        rng: &mut ChaCha8Rng,
        jobs_max: u32,
        (start, span): (f64, f64),
        length: f64,
    ) -> Vec<FluidJob> {
        (0..rng.random_range(1..=jobs_max))
            .map(|_| {
                let release = start + rng.random_range(0.0..span).floor();
                let goal = release + rng.random_range(1.0..length).floor();
                job(release, goal, rng.random_range(0.5..9.0))
            })
            .collect()
    }

    /// Between 0 and 10 there is time for 10 of the work 4 + 4 + 6: for both small jobs and a
    /// third of the large one. The fourth job does not fit alone.
    #[test]
    fn the_smallest_jobs_are_met_first_and_the_next_in_part() {
        let jobs = [
            job(0.0, 10.0, 4.0),
            job(0.0, 10.0, 6.0),
            job(0.0, 10.0, 4.0),
            job(3.0, 5.0, 2.5),
        ];
        assert!((missed_relaxed(&jobs) - (2.0 / 3.0 + 1.0)).abs() < 1e-9);
        assert_eq!(missed_exactly(&jobs, 100), Some(2));
    }

    /// Returns whether all jobs of the bit set `chosen` can be met: between any release and
    /// any goal there is no more work than time.
    fn fits(jobs: &[FluidJob], chosen: u32) -> bool {
        let chosen = || (0..jobs.len()).filter(move |job| chosen >> job & 1 == 1);
        chosen().all(|first| {
            chosen().all(|last| {
                let (from, until) = (jobs[first].release, jobs[last].goal);
                let inside = chosen().filter(|&j| jobs[j].release >= from && jobs[j].goal <= until);
                inside.map(|j| jobs[j].work).sum::<f64>() <= (until - from).max(0.0) + 1e-7
            })
        })
    }

    #[test]
    fn branch_and_bound_agrees_with_a_search_of_all_subsets() {
        let mut rng = test_rng(61);
        let mut missed_some = 0;
        for _ in 0..300 {
            let jobs = random_jobs(&mut rng, 8, (0.0, 20.0), 12.0);
            let most = (0..1_u32 << jobs.len())
                .filter(|&chosen| fits(&jobs, chosen))
                .map(u32::count_ones)
                .max();
            let least = jobs.len() - most.unwrap() as usize;
            assert_eq!(missed_exactly(&jobs, 100_000), Some(least), "{jobs:?}");
            let relaxed = missed_relaxed(&jobs);
            assert!(
                relaxed <= least as f64 + 1e-6,
                "{relaxed} of {least}: {jobs:?}"
            );
            missed_some += usize::from(relaxed > 0.0);
        }
        assert!(missed_some > 100, "the cases are no test: {missed_some}");
    }

    #[test]
    fn touching_work_merges_into_one_busy_period() {
        let mut busy = BusyPeriods::default();
        for (t, work) in [(10.0, 2.0), (20.0, 5.0), (11.0, 3.0), (40.0, 1.0)] {
            busy.add(t, work);
        }
        assert_eq!(busy.periods, [(10.0, 15.0), (20.0, 25.0), (40.0, 41.0)]);
        busy.add(8.0, 12.5);
        assert_eq!(busy.periods, [(8.0, 30.5), (40.0, 41.0)]);
        assert_eq!(busy.start_of(30.0), 8.0);
        assert_eq!(busy.start_of(31.0), 31.0);
    }

    /// The jobs of one week do not compete with those of other weeks, so the bound for all weeks in
    /// one problem must be the sum of the bounds for the single weeks.
    #[test]
    fn disjoint_weeks_miss_as_much_together_as_apart() {
        let mut rng = test_rng(62);
        let mut all = Vec::new();
        let mut apart = 0.0;
        for week in 0..40 {
            let start = f64::from(week) * 1000.0;
            let jobs = random_jobs(&mut rng, 29, (start, 60.0), 30.0);
            apart += missed_relaxed(&jobs);
            all.extend(jobs);
        }
        let together = missed_relaxed(&all);
        assert!((together - apart).abs() < 1e-6, "{together}, apart {apart}");
        assert!(apart > 100.0, "the weeks are no test: {apart}");
    }

    #[test]
    fn too_few_branches_return_none() {
        let jobs = [job(0.0, 10.0, 7.0), job(0.0, 10.0, 7.5)];
        assert_eq!(missed_exactly(&jobs, 1), None);
        assert_eq!(missed_exactly(&jobs, 10), Some(1));
    }
}
