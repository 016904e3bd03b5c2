//! The jobs of all trials, drawn before the first runs.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The number of jobs that are started before the prediction.
const JOBS: std::ops::RangeInclusive<u32> = 3..=6;
/// The time that the jobs run before the prediction, in seconds. This time and all CPU times below
/// are for jobs of scale 1: a trial multiplies them by its scale.
const BEFORE_S: f64 = 0.5;
/// CPU time of each job, in seconds.
const JOB_CPU_S: std::ops::Range<f64> = 0.6..2.0;
/// The goal of a job, as a multiple of the time that the machine needs for this job and all jobs
/// before it. From 1.1 on nearly all jobs meet their goals without the additional job: a job that
/// does not can be no victim.
const GOAL_FACTOR: std::ops::Range<f64> = 1.1..1.5;
/// CPU time of the additional job, whose effect on the running jobs is predicted, in seconds. It is
/// about as long as the other jobs. Under the default policy, a job that is much longer would be
/// the one that is given up, and would have no victim.
const OTHER_CPU_S: std::ops::Range<f64> = 0.5..1.5;
/// The goal of the additional job, whose effect on the running jobs is predicted, as a multiple of
/// the time that the machine needs for this job alone.
const OTHER_GOAL_FACTOR: std::ops::Range<f64> = 1.2..3.0;
/// The fraction of the machine that jobs get if nothing else runs.
const CAPACITY: f64 = 0.95;
/// Each run of a trial is given up after this multiple of the time that the run with the additional
/// job takes on an otherwise idle machine, plus [`LIMIT_MORE_S`].
const LIMIT_FACTOR: f64 = 3.0;
/// The seconds that are added to the limit that [`LIMIT_FACTOR`] gives.
const LIMIT_MORE_S: f64 = 3.0;

/// CPU time and goal of a job, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DrawnJob {
    pub cpu_s: f64,
    pub goal_s: f64,
}

/// The parameters of a trial.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TrialPlan {
    pub jobs: Vec<DrawnJob>,
    /// The time that the jobs run before the prediction, in seconds.
    pub before_s: f64,
    pub other: DrawnJob,
    /// Duration of a run of all jobs, with the additional one, on an otherwise idle machine, in
    /// seconds.
    pub takes_s: f64,
    /// Duration of a run without the additional job on an otherwise idle machine, in seconds.
    pub takes_alone_s: f64,
    /// The time after which a run is given up, in seconds.
    pub limit_s: f64,
}

/// Draws trials for a machine with `cores`. All CPU times are multiplied by `scale`.
pub(super) fn all(seed: u64, trials: u32, scale: u32, cores: u32) -> Vec<TrialPlan> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let capacity_cores = f64::from(cores) * CAPACITY;
    (0..trials)
        .map(|_| drawn(&mut rng, f64::from(scale), capacity_cores))
        .collect()
}

fn drawn(rng: &mut ChaCha8Rng, scale: f64, capacity_cores: f64) -> TrialPlan {
    let mut work_s = 0.0;
    let jobs = (0..rng.random_range(JOBS)).map(|_| {
        let cpu_s = rng.random_range(JOB_CPU_S) * scale;
        work_s += cpu_s;
        let goal_s = work_s / capacity_cores * rng.random_range(GOAL_FACTOR);
        DrawnJob { cpu_s, goal_s }
    });
    let jobs = jobs.collect();
    let cpu_s = rng.random_range(OTHER_CPU_S) * scale;
    let goal_s = cpu_s / capacity_cores * rng.random_range(OTHER_GOAL_FACTOR);
    let before_s = BEFORE_S * scale;
    // The jobs run from the start on, and the other job from the prediction on.
    let takes_alone_s = before_s.max(work_s / capacity_cores);
    let takes_s = takes_alone_s + cpu_s / capacity_cores;
    TrialPlan {
        jobs,
        before_s,
        other: DrawnJob { cpu_s, goal_s },
        takes_s,
        takes_alone_s,
        limit_s: takes_s * LIMIT_FACTOR + LIMIT_MORE_S,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_and_goals_can_be_met_without_the_other() {
        let trials = all(1, 50, 3, 2);
        assert_eq!(trials, all(1, 50, 3, 2));
        assert_ne!(trials, all(2, 50, 3, 2));
        assert_ne!(trials, all(1, 50, 1, 2));
        for trial in &trials {
            let mut work_s = 0.0;
            for job in &trial.jobs {
                work_s += job.cpu_s;
                assert!(work_s / 2.0 < job.goal_s);
            }
            assert!(trial.takes_s > (work_s + trial.other.cpu_s) / 2.0);
            assert!(trial.takes_alone_s < trial.takes_s);
            assert!(trial.limit_s > trial.takes_s);
        }
    }
}
