//! The programme of an objective of jobs, with a variable for each job instead of each task.
//!
//! If a job ends at C, its task u starts at C - tail at the latest, where the tail is the
//! least time from the start of u to the end of the job: the length of u, and for a map
//! also its delay and the longest reduce. These latest starts satisfy precedence, and they
//! satisfy releases if C is at least the length of the job on its own. All inequalities for
//! sets of tasks become easier with later starts. So start times that satisfy (1) to (4)
//! exist for given ends if and only if the latest starts do, and equation (4) becomes a row
//! of the ends:
//!
//! ```text
//!   sum over u in B of p (C_j(u) - tail)  >=  right side of B
//! ```
//!
//! 100 jobs of 4,500 tasks make a hundred variables.

use super::cuts::Chain;
use super::solved::Solved;
use crate::lp::{LinearProgramme, LpError, Variable};
use crate::msjo::instance::Instance;

/// The linear programme for `Objective::Jobs`, with the ends of jobs as variables. It has equations
/// (1) to (3) of Ling et al.: no job ends before its releases and its precedence allow.
#[derive(Debug)]
pub(super) struct ByJobs<'a> {
    instance: &'a Instance,
    /// The least time from the start of each task to the end of its job, in seconds.
    tail_s: Vec<f64>,
    /// The earliest end of each job, in seconds: its end if it never waits for a machine.
    earliest_s: Vec<f64>,
    /// The time by which all jobs of some optimal schedule have ended, in seconds.
    latest_s: f64,
}

impl<'a> ByJobs<'a> {
    pub fn new(instance: &'a Instance) -> Self {
        let tasks = &instance.tasks;
        let mut tail_s: Vec<f64> = tasks.iter().map(|task| task.length_s).collect();
        let mut earliest_s = Vec::with_capacity(instance.jobs.len());
        for job in &instance.jobs {
            if !job.reduces.is_empty() {
                let lengths_s = tasks[job.reduces.clone()].iter().map(|task| task.length_s);
                let reduce_s = lengths_s.fold(0.0, f64::max);
                for map in job.maps.clone() {
                    tail_s[map] += tasks[map].delay_s + reduce_s;
                }
            }
            let ends_s = job.tasks().map(|at| tasks[at].released_s + tail_s[at]);
            earliest_s.push(ends_s.fold(0.0, f64::max));
        }
        // When all machines are idle although tasks are left, all these tasks have been
        // released and wait for output that is under way. So a schedule that starts tasks
        // as soon as possible has at most the longest delay of such idle time after the
        // last release.
        let released_s = tasks.iter().map(|task| task.released_s);
        let free_s = instance.free_s.iter().copied();
        let delays_s = tasks.iter().map(|task| task.delay_s);
        let latest_s = released_s.chain(free_s).fold(0.0, f64::max)
            + delays_s.fold(0.0, f64::max)
            + tasks.iter().map(|task| task.length_s).sum::<f64>();
        Self {
            instance,
            tail_s,
            earliest_s,
            latest_s,
        }
    }

    pub fn solve(&self, chains: &[Chain]) -> Result<Solved, LpError> {
        let jobs = &self.instance.jobs;
        let mut lp = LinearProgramme::default();
        let ends: Vec<Variable> = (jobs.iter())
            .map(|job| lp.variable(job.job.weight))
            .collect();
        for (end, earliest_s) in ends.iter().zip(&self.earliest_s) {
            lp.at_least([(*end, 1.0)], *earliest_s);
        }
        for (job, end) in jobs.iter().zip(&ends) {
            // A job without weight costs nothing, so its end would rise without limit.
            if job.job.weight == 0.0 {
                lp.at_most([(*end, 1.0)], self.latest_s);
            }
        }
        let first = lp.rows();
        let rows: Vec<EndRow> = chains.iter().flat_map(|chain| self.rows(chain)).collect();
        for row in &rows {
            let terms = row.parts.iter().map(|&(job, part)| (ends[job], part));
            lp.at_least(terms, row.right_s);
        }
        let solution = lp.minimise()?;
        let end_s = (ends.iter().zip(&self.earliest_s))
            .map(|(&end, earliest_s)| solution[end].max(*earliest_s))
            .collect::<Vec<_>>();
        Ok(Solved {
            value: self.certified(&rows, &solution.multipliers()[first..]),
            start_s: self.latest_starts_s(&end_s),
        })
    }

    /// Returns the latest start times for which no job ends later than with `start_s`.
    pub fn late(&self, start_s: &[f64]) -> Vec<f64> {
        let mut end_s = self.earliest_s.clone();
        for ((task, start_s), tail_s) in self.instance.tasks.iter().zip(start_s).zip(&self.tail_s) {
            end_s[task.job] = end_s[task.job].max(start_s + tail_s);
        }
        self.latest_starts_s(&end_s)
    }

    fn latest_starts_s(&self, end_s: &[f64]) -> Vec<f64> {
        let tasks = self.instance.tasks.iter().zip(&self.tail_s);
        tasks
            .map(|(task, tail_s)| end_s[task.job] - tail_s)
            .collect()
    }

    /// Returns the constraints for the prefixes of one order of tasks (`chain`), each divided by
    /// the total length of the tasks in its prefix.
    fn rows(&self, chain: &Chain) -> Vec<EndRow> {
        let mut work_s = vec![0.0; self.instance.jobs.len()];
        let (mut sum_s, mut tails, mut at) = (0.0, 0.0, 0);
        let row = chain.rows.iter().map(|row| {
            for &task in &chain.order[at..row.length] {
                let length_s = self.instance.tasks[task].length_s;
                work_s[self.instance.tasks[task].job] += length_s;
                sum_s += length_s;
                tails += length_s * self.tail_s[task];
            }
            at = row.length;
            let parts = work_s.iter().enumerate();
            EndRow {
                parts: (parts.filter(|(_, work_s)| **work_s > 0.0))
                    .map(|(job, work_s)| (job, work_s / sum_s))
                    .collect(),
                right_s: (row.right + tails) / sum_s,
            }
        });
        row.collect()
    }

    /// Returns a lower bound on the optimum of the programme, which holds for any multipliers that
    /// are not negative (weak duality), however inexact the solver is. The bound is the sum of two
    /// parts:
    ///
    /// - over the rows: the multiplier times `right_s`;
    /// - over the jobs: the remaining weight times the earliest end, or times the latest end if the
    ///   remaining weight is negative. It is the weight of the job minus, for each row, the
    ///   multiplier times the job's part in the row.
    fn certified(&self, rows: &[EndRow], multipliers: &[f64]) -> f64 {
        let mut left: Vec<f64> = (self.instance.jobs.iter())
            .map(|job| job.job.weight)
            .collect();
        let mut value = 0.0;
        for (row, multiplier) in rows.iter().zip(multipliers) {
            value += multiplier * row.right_s;
            for &(job, part) in &row.parts {
                left[job] -= multiplier * part;
            }
        }
        for (left, earliest_s) in left.iter().zip(&self.earliest_s) {
            let end_s = if *left < 0.0 {
                self.latest_s
            } else {
                *earliest_s
            };
            value += left * end_s;
        }
        value
    }
}

/// A constraint of the linear programme: the mean of the jobs' ends, weighted by `parts`, is at
/// least `right_s` seconds.
#[derive(Debug)]
struct EndRow {
    /// The position of each job that has tasks in the constrained set, and the job's part of the
    /// work of this set.
    parts: Vec<(usize, f64)>,
    right_s: f64,
}

#[cfg(test)]
mod tests {
    use super::super::cuts::Row;
    use super::*;
    use crate::msjo::example::job;

    /// Job 0, released at 1: maps of 2 s and 4 s, delays of 3 s and 0 s, reduces of 1 s and 5 s.
    /// The least times from the starts of these tasks to the job's end (tails) are 2 + 3 + 5, 4 +
    /// 5, 1 and 5; alone it ends at 11. Job 1: a map of 6 s.
    ///
    /// The constraint on a set of tasks is that the sum of length times start is at least its right
    /// side. It becomes a constraint on the job's end C, because each task starts at C - tail. The
    /// set here is all tasks of job 0 but the first map, and the right side is 40. The lengths sum
    /// to 10, and length times tail sums to 4 * 9 + 1 * 1 + 5 * 5 = 62, so C >= (40 + 62) / 10.
    #[test]
    fn ends_of_jobs_stand_for_starts_of_tasks() {
        let jobs = vec![
            job(0, 1.0, 3.0, &[(2.0, 3.0), (4.0, 0.0)], &[1.0, 5.0]),
            job(1, 0.0, 1.0, &[(6.0, 9.0)], &[]),
        ];
        let instance = Instance::new(2, jobs).unwrap();
        let by_jobs = ByJobs::new(&instance);
        assert_eq!(by_jobs.tail_s, [10.0, 9.0, 1.0, 5.0, 6.0]);
        assert_eq!(by_jobs.earliest_s, [11.0, 6.0]);
        assert_eq!(by_jobs.latest_s, 1.0 + 9.0 + 18.0);
        let chain = |right| Chain {
            machines: 2,
            order: vec![1, 2, 3],
            rows: vec![Row { length: 3, right }],
        };
        let rows = by_jobs.rows(&chain(40.0));
        assert_eq!(
            (&rows[0].parts[..], rows[0].right_s),
            (&[(0, 1.0)][..], 10.2)
        );
        // 10.2 is before 11, the end of the job on its own; 13.2 is not.
        for (right, end_s) in [(40.0, 11.0), (70.0, 13.2)] {
            let solved = by_jobs.solve(&[chain(right)]).unwrap();
            assert!((solved.value - (3.0 * end_s + 6.0)).abs() < 1e-5);
            assert!((solved.start_s[1] - (end_s - 9.0)).abs() < 1e-5);
        }
    }

    /// Job 0 (weight 3) ends at 11 or later, job 1 (weight 1) at 6 or later, and a constraint
    /// requires job 0 to end at 13.2 or later. Each multiplier m of this constraint gives a lower
    /// bound on the sum of weight times end: m * 13.2 for job 0, plus its remaining weight 3 - m
    /// times its earliest end, plus 6 for job 1. The best is m = 3. With m = 4 the remaining weight
    /// is -1, and counts with the latest end, 28.
    #[test]
    fn whatever_the_multipliers_the_bound_is_one() {
        let jobs = vec![
            job(0, 1.0, 3.0, &[(2.0, 3.0), (4.0, 0.0)], &[1.0, 5.0]),
            job(1, 0.0, 1.0, &[(6.0, 9.0)], &[]),
        ];
        let instance = Instance::new(2, jobs).unwrap();
        let by_jobs = ByJobs::new(&instance);
        let rows = [EndRow {
            parts: vec![(0, 1.0)],
            right_s: 13.2,
        }];
        let proven = |multiplier| by_jobs.certified(&rows, &[multiplier]);
        let near = |value: f64, exact: f64| (value - exact).abs() < 1e-9;
        assert!(near(proven(3.0), 45.6));
        assert!(near(proven(1.0), 13.2 + 2.0 * 11.0 + 6.0));
        assert!(near(proven(4.0), 4.0 * 13.2 - 28.0 + 6.0));
    }
}
