//! One divisible machine of speed 1: which jobs can meet their goals at all.
//!
//! Jobs are released, have a goal, and need an amount of work; any of it may be
//! done at any time between the two, in parts. This is 1 | pmtn, r_j | sum U_j of
//! the scheduling literature. Serving the earliest goal first does as much work in
//! time as can be done, so the sets of jobs that fit are the independent sets of a
//! matroid in its fractional form (a polymatroid), and a greedy choice solves the
//! linear relaxation exactly: the smallest jobs first, each as far as it fits.

use crate::ordered_f64::OrderedF64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A job on the machine, in the machine's own time: one unit of work takes one
/// unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FluidJob {
    /// Not before this.
    pub release: f64,
    /// Not after this.
    pub goal: f64,
    /// How much; positive.
    pub work: f64,
}

/// Relative differences below this are rounding.
const EPSILON: f64 = 1e-9;

impl FluidJob {
    fn fits_alone(&self) -> bool {
        self.work <= (self.goal - self.release) * (1.0 + EPSILON)
    }
}

/// The linear relaxation: the least sum of missed parts of jobs, each part
/// between 0 and 1, that leaves what the machine can do in time. A job that does
/// not fit alone counts whole. In jobs; never above [`missed_exactly`].
///
/// Takes time in proportion to n times the jobs of a busy period of the machine.
#[must_use]
pub fn missed_relaxed(jobs: &[FluidJob]) -> f64 {
    let met = Relaxation::new(jobs).solve(&vec![Fate::Open; jobs.len()]);
    jobs.len() as f64 - met.iter().sum::<f64>()
}

/// The least number of jobs that must be missed, by branch and bound over the
/// relaxation. `None` when `branches_max` were not enough.
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
        // What is met in part is the question; whole parts are an answer.
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

/// Sums of parts of jobs carry rounding.
pub(super) const ROUNDING: f64 = 1e-6;

/// What a branch says of a job.
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

    /// Which part of each job is met, 0 to 1.
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

    /// How much more is done in time with `job`, whose work is part of `work`, than
    /// without it: all of the others' work can be. The earliest goal goes first, and what
    /// is late is given up, which does the most that can be done.
    ///
    /// The machine is idle just before `from`, and again at some time after the job's
    /// release; before and behind, nothing changes.
    fn more_in_time(&self, work: &[f64], job: usize, from: f64) -> f64 {
        let first = (self.by_release).partition_point(|&job| self.jobs[job].release < from);
        let mut released = (self.by_release[first..].iter().copied())
            .filter(|&job| work[job] > 0.0)
            .peekable();
        let mut waiting: BinaryHeap<Reverse<Waiting>> = BinaryHeap::new();
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
                waiting.push(Reverse(Waiting {
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

/// When the machine is busy with work that can all be done in time: from a release on
/// until nothing waits. In which order makes no difference.
#[derive(Default)]
struct BusyPeriods {
    /// Starts and ends, ascending, apart from each other.
    periods: Vec<(f64, f64)>,
}

impl BusyPeriods {
    /// The start of the period that `t` is in, or `t`.
    fn start_of(&self, t: f64) -> f64 {
        let after = self.periods.partition_point(|&(start, _)| start <= t);
        match after.checked_sub(1).map(|at| self.periods[at]) {
            Some((start, end)) if t <= end => start,
            _ => t,
        }
    }

    /// With more work, released at `t`.
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

/// A job that has been released and is not done; the earliest goal is the least. What is left
/// never decides, since a job waits once.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    goal: OrderedF64,
    job: usize,
    left: OrderedF64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn job(release: f64, goal: f64, work: f64) -> FluidJob {
        FluidJob {
            release,
            goal,
            work,
        }
    }

    /// Between 0 and 10 there is room for 10 of 4 + 4 + 6: both small ones and a
    /// third of the large one. The fourth does not fit alone.
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

    /// Whether all of `chosen` can be met: between any release and any goal, no
    /// more work than time.
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
    fn branch_and_bound_finds_what_trying_every_subset_finds() {
        let seed = 61;
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut missed_some = 0;
        for _ in 0..300 {
            let jobs: Vec<FluidJob> = (0..rng.random_range(1..9))
                .map(|_| {
                    let release = rng.random_range(0.0..20.0_f64).floor();
                    let length = rng.random_range(1.0..12.0_f64).floor();
                    job(release, release + length, rng.random_range(0.5..9.0))
                })
                .collect();
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
    fn work_that_meets_other_work_makes_one_busy_period() {
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

    /// Each week apart: what is met in one does not depend on the others, though all of
    /// them are looked at together.
    #[test]
    fn weeks_that_do_not_meet_are_solved_as_each_alone() {
        let seed = 62;
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut all = Vec::new();
        let mut apart = 0.0;
        for week in 0..40 {
            let start = f64::from(week) * 1000.0;
            let jobs: Vec<FluidJob> = (0..rng.random_range(1..30))
                .map(|_| {
                    let release = start + rng.random_range(0.0..60.0_f64).floor();
                    let length = rng.random_range(1.0..30.0_f64).floor();
                    job(release, release + length, rng.random_range(0.5..9.0))
                })
                .collect();
            apart += missed_relaxed(&jobs);
            all.extend(jobs);
        }
        let together = missed_relaxed(&all);
        assert!((together - apart).abs() < 1e-6, "{together}, apart {apart}");
        assert!(apart > 100.0, "the weeks are no test: {apart}");
    }

    #[test]
    fn too_few_branches_are_no_answer() {
        let jobs = [job(0.0, 10.0, 7.0), job(0.0, 10.0, 7.5)];
        assert_eq!(missed_exactly(&jobs, 1), None);
        assert_eq!(missed_exactly(&jobs, 10), Some(1));
    }
}
