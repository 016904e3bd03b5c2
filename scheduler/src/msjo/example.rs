//! Small instances that tests work through by hand.

use super::instance::{Instance, JobSpec, TaskSpec};
use crate::model::{Job, JobId};

/// Returns a job. `maps` has the length of each map and the delay until its output reaches the
/// reduces; `reduces` has the length of each reduce; all in seconds.
pub fn job(id: u64, released_s: f64, weight: f64, maps: &[(f64, f64)], reduces: &[f64]) -> JobSpec {
    let maps = maps.iter().map(|&(length_s, delay_s)| TaskSpec {
        delay_s,
        ..TaskSpec::of(length_s)
    });
    JobSpec {
        job: Job {
            weight,
            ..Job::new(JobId(id), released_s, None)
        },
        maps: maps.collect(),
        reduces: reduces.iter().copied().map(TaskSpec::of).collect(),
    }
}

/// Returns an instance of one job of weight 1. `maps` has the length of each map and the delay of
/// its output, in seconds; `reduces` has the length of each reduce, in seconds.
pub fn one_job(machines: u32, released_s: f64, maps: &[(f64, f64)], reduces: &[f64]) -> Instance {
    Instance::new(machines, vec![job(0, released_s, 1.0, maps, reduces)]).unwrap()
}

/// Returns the instance of figure 1 of Ling et al.: three machines, a job of four maps and two
/// reduces, and a job of one map and one reduce. Maps take 75 s, reduces 100 s, without delays.
pub fn figure_1() -> Instance {
    let map = (75.0, 0.0);
    let jobs = vec![
        job(1, 0.0, 1.0, &[map; 4], &[100.0; 2]),
        job(2, 0.0, 1.0, &[map], &[100.0]),
    ];
    Instance::new(3, jobs).unwrap()
}

/// Returns an instance in which the order of two tasks depends on the sort key. By their start
/// times in the relaxation, a long map comes before a reduce; by their middles or ends, it comes
/// after the reduce. There is one machine. Job 0 of weight 10 has a map of 1 s, whose output takes
/// 3 s to arrive, and a reduce of 1 s and task weight 10. Job 1 of weight 1 has a map of 8 s.
///
/// In the relaxations job 0 ends at 5, its earliest: its map starts at 0 and its reduce at 4.
/// Equation (4) of Ling et al. requires that the sum of length times start over all three tasks is
/// at least (100 - 66) / 2 = 17: the square of their total length is 100, and the sum of their
/// squared lengths is 1 + 1 + 64. The reduce contributes 1 * 4, so the map of 8 s starts at (17 -
/// 4) / 8 = 1.625.
#[cfg(feature = "lp")]
pub fn long_map_beside_a_delay() -> Instance {
    let mut jobs = vec![
        job(0, 0.0, 10.0, &[(1.0, 3.0)], &[1.0]),
        job(1, 0.0, 1.0, &[(8.0, 0.0)], &[]),
    ];
    jobs[0].reduces[0].weight = 10.0;
    Instance::new(1, jobs).unwrap()
}

/// The starts of job 0's map, its reduce and job 1's map in [`long_map_beside_a_delay`], in
/// seconds, if the machine waits for the reduce, which runs from 4 to 5.
#[cfg(feature = "lp")]
pub const WAITING_STARTS_S: [f64; 3] = [0.0, 4.0, 5.0];

/// The starts of job 0's map, its reduce and job 1's map in [`long_map_beside_a_delay`], in
/// seconds, if the machine never waits while a task may start: the map of 8 s may start at 1, and
/// so runs before the reduce.
#[cfg(feature = "lp")]
pub const NON_IDLING_STARTS_S: [f64; 3] = [0.0, 9.0, 1.0];
