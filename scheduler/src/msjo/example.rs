//! Small instances that tests work through by hand.

use super::instance::{Instance, JobSpec, TaskSpec};
use crate::model::{Job, JobId};

/// A job with maps of given length and delay, and reduces of given length.
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

/// One job of weight 1.
pub fn one_job(machines: u32, released_s: f64, maps: &[(f64, f64)], reduces: &[f64]) -> Instance {
    Instance::new(machines, vec![job(0, released_s, 1.0, maps, reduces)]).unwrap()
}

/// Figure 1: three machines; four maps and two reduces, and one of each; maps of 75 s,
/// reduces of 100 s, no delays.
pub fn figure_1() -> Instance {
    let map = (75.0, 0.0);
    let jobs = vec![
        job(1, 0.0, 1.0, &[map; 4], &[100.0; 2]),
        job(2, 0.0, 1.0, &[map], &[100.0]),
    ];
    Instance::new(3, jobs).unwrap()
}
