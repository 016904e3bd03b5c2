//! A lower bound on missed goals in whole jobs, group by group.
//!
//! The relaxations count parts of jobs: of three large jobs that do not fit together, two
//! and a half may be met. To count whole jobs, the jobs are divided by release into
//! groups, each with the cluster to itself. A group misses at least as many jobs beside
//! others as alone, and it misses whole jobs, so each group's part is rounded up before
//! all are added. Each group may use another view (relaxation), because the instants of a
//! probe may suit the jobs of one morning and not those of another.
//!
//! Dynamic programming over the ends of groups finds the best of the divisions that are
//! tried.

use super::fluid::{FluidJob, ROUNDING, missed_exactly, missed_relaxed};

/// Groups of jobs begin and end at multiples of this many jobs, in the order of their releases, so
/// that fewer divisions into groups have to be tried. The last group ends with the last job.
const STEP: usize = 5;

/// The sizes of groups that are tried, in steps of [`STEP`] jobs. A group of s steps may end only
/// at multiples of s / 4 steps, or with the last job, because the time for a group grows with the
/// square of its size.
const SIZES: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Limit of the branch-and-bound search for the exact result of a group: the number of branches
/// times the number of jobs in the group.
const BRANCHES_TIMES_JOBS_MAX: usize = 20_000;

/// Returns a lower bound on the number of jobs that miss their goals under any scheduler. Divides
/// the jobs into groups, and adds up the least number of jobs that each group misses. Each of `views`
/// is a relaxation of the same jobs, and each group is counted in the view in which it misses most.
/// With a single view, the result is never larger than [`missed_exactly`] of all jobs.
pub(super) fn missed_in_groups(views: &[Vec<FluidJob>]) -> usize {
    let jobs = views[0].len();
    let mut order: Vec<usize> = (0..jobs).collect();
    order.sort_by(|&a, &b| views[0][a].release.total_cmp(&views[0][b].release));
    let views: Vec<Vec<FluidJob>> = (views.iter())
        .map(|view| order.iter().map(|&job| view[job]).collect())
        .collect();

    // By end of a group: the jobs missed up to there, the start of the last group, and
    // its view (`None` if the group misses no job).
    let ends = jobs.div_ceil(STEP);
    let mut most = vec![(0, 0, None); ends + 1];
    for end in 1..=ends {
        most[end] = (most[end - 1].0, end - 1, None);
        let sizes = SIZES.into_iter().filter(|&size| size <= end);
        for size in sizes.filter(|&size| end == ends || end % size.div_ceil(4) == 0) {
            let begin = end - size;
            for (at, view) in views.iter().enumerate() {
                let missed = most[begin].0 + missed_whole(&view[range(begin, end, jobs)]);
                if missed > most[end].0 {
                    most[end] = (missed, begin, Some(at));
                }
            }
        }
    }

    let mut missed = 0;
    let mut end = ends;
    while end > 0 {
        let (_, begin, view) = most[end];
        if let Some(view) = view {
            let group = &views[view][range(begin, end, jobs)];
            let exactly = missed_exactly(group, BRANCHES_TIMES_JOBS_MAX / group.len());
            missed += exactly.unwrap_or_else(|| missed_whole(group));
        }
        end = begin;
    }
    missed
}

fn range(begin: usize, end: usize, jobs: usize) -> std::ops::Range<usize> {
    begin * STEP..(end * STEP).min(jobs)
}

/// Returns a lower bound on the number of jobs that miss their goals: the sum of missed fractions
/// of jobs in the linear relaxation, rounded up.
fn missed_whole(jobs: &[FluidJob]) -> usize {
    (missed_relaxed(jobs) - ROUNDING).ceil().max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::super::fluid::tests::{job, random_jobs};
    use super::*;
    use crate::test_rng::test_rng;

    /// Each day has five jobs of work 3 and time for 14: the relaxation misses a third of
    /// the fifth job, and whole jobs miss all of it.
    #[test]
    fn the_bound_is_rounded_up_for_each_day() {
        let days = |count: u32| -> Vec<FluidJob> {
            (0..count)
                .flat_map(|day| {
                    vec![job(f64::from(day) * 100.0, f64::from(day) * 100.0 + 14.0, 3.0); 5]
                })
                .collect()
        };
        assert!((missed_relaxed(&days(3)) - 1.0).abs() < 1e-9);
        assert_eq!(missed_in_groups(&[days(3)]), 3);
        assert_eq!(missed_in_groups(&[days(0)]), 0);
    }

    /// The lower bound on missed goals takes, for each group of jobs (here those of one day), the
    /// view (relaxation) that gives the larger bound. In the first view only the first day has more
    /// work than time (15 in 14: one missed), in the second view only the second day (20 in 14: two
    /// missed).
    #[test]
    fn each_group_uses_the_view_with_the_largest_bound() {
        let view = |works: [f64; 2]| -> Vec<FluidJob> {
            let day = |day: usize| {
                vec![job(100.0 * day as f64, 100.0 * day as f64 + 14.0, works[day]); 5]
            };
            (0..2).flat_map(day).collect()
        };
        let views = [view([3.0, 2.0]), view([2.0, 4.0])];
        assert_eq!(missed_in_groups(&views[..1]), 1);
        assert_eq!(missed_in_groups(&views), 1 + 2);
    }

    #[test]
    fn the_bound_in_groups_is_valid_and_within_a_tenth_of_exact() {
        let mut rng = test_rng(73);
        let (mut found, mut least) = (0, 0);
        for _ in 0..40 {
            let jobs = random_jobs(&mut rng, 17, (0.0, 60.0), 12.0);
            let exactly = missed_exactly(&jobs, 1_000_000).expect("few jobs");
            let missed = missed_in_groups(std::slice::from_ref(&jobs));
            assert!(missed <= exactly, "{missed} of {exactly}: {jobs:?}");
            found += missed;
            least += exactly;
        }
        assert!(10 * found >= 9 * least && least > 60, "{found} of {least}");
    }
}
