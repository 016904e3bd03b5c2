//! What must be missed in whole jobs, group by group.
//!
//! The relaxations count parts of jobs: of three large ones that do not fit together
//! two and a half may be met. But jobs that are released one after another can be
//! divided into groups, each with the cluster to itself. What a group misses alone
//! it misses beside others too, and it misses whole jobs, so each group's part
//! is rounded up before all are added. Each may also be looked at in another way:
//! instants that fall badly for the jobs of one morning fall well for those of another.
//!
//! The division is the best one of those tried, by dynamic programming over where
//! groups end.

use super::fluid::{FluidJob, ROUNDING, missed_exactly, missed_relaxed};

/// Groups begin and end at multiples of this many jobs.
const STEP: usize = 5;

/// Sizes of groups, in steps. One of s steps ends at a multiple of s / 4, since the
/// time that a group takes grows with the square of its size.
const SIZES: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Whole jobs are sought in so many branches times jobs per group.
const BRANCHES_TIMES_JOBS_MAX: usize = 20_000;

/// The least number of jobs that must be missed, whatever is done: never above the
/// least of [`missed_exactly`] in any view.
///
/// `views` are relaxations of the same jobs in the same order, at least one.
pub(super) fn missed_in_groups(views: &[Vec<FluidJob>]) -> usize {
    let jobs = views[0].len();
    let mut order: Vec<usize> = (0..jobs).collect();
    order.sort_by(|&a, &b| views[0][a].release.total_cmp(&views[0][b].release));
    let views: Vec<Vec<FluidJob>> = (views.iter())
        .map(|view| order.iter().map(|&job| view[job]).collect())
        .collect();

    // At each end of a group: what is missed until there, where the last group that
    // misses some begins, and how that is looked at.
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

/// The relaxation, rounded up to whole jobs.
fn missed_whole(jobs: &[FluidJob]) -> usize {
    (missed_relaxed(jobs) - ROUNDING).ceil().max(0.0) as usize
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

    /// Of five jobs a day, each of 3, there is time for 12: a quarter of the fifth is
    /// missed by the relaxation, and all of it in whole jobs.
    #[test]
    fn days_are_rounded_up_one_by_one() {
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

    /// The one view sees the trouble of the first day only, the other that of the
    /// second.
    #[test]
    fn each_group_is_looked_at_in_the_way_that_tells_most() {
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
    fn no_division_tells_more_than_all_jobs_together() {
        let seed = 73;
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut told, mut least) = (0, 0);
        for _ in 0..40 {
            let jobs: Vec<FluidJob> = (0..rng.random_range(1..18))
                .map(|_| {
                    let release = rng.random_range(0.0..60.0_f64).floor();
                    let length = rng.random_range(1.0..12.0_f64).floor();
                    job(release, release + length, rng.random_range(0.5..9.0))
                })
                .collect();
            let exactly = missed_exactly(&jobs, 1_000_000).expect("few jobs");
            let missed = missed_in_groups(std::slice::from_ref(&jobs));
            assert!(missed <= exactly, "{missed} of {exactly}: {jobs:?}");
            told += missed;
            least += exactly;
        }
        assert!(10 * told >= 9 * least && least > 60, "{told} of {least}");
    }
}
