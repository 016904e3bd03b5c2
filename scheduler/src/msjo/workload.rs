//! The random jobs of Ling et al., section 5.1.

use super::instance::{Instance, JobSpec, TaskSpec};
use crate::model::{Job, JobId};
use distrs::Normal;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The distribution of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Weights {
    /// Each weight is drawn independently.
    #[default]
    Random,
    /// Weights are drawn at random and divided by the work of their jobs. These unit
    /// weights are then assigned in ascending order, so a job that is released later has a
    /// higher weight per second of work.
    IncreasingUnit,
    /// Weights are drawn as for [`Self::IncreasingUnit`], and assigned in descending order, so a
    /// job that is released later has a lower weight per second of work.
    DecreasingUnit,
}

/// A family of random jobs. [`RandomJobs::most_random`] has the defaults of Ling et al.: 50
/// machines, everything random.
///
/// At each full second from 0 on, a job is released with probability 1/2. Weights are normal
/// around 30 (deviation 10), lengths of maps around 10 s (5 s), of reduces around 15 s (5 s), all
/// redrawn until they are positive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomJobs {
    /// The number of jobs.
    pub jobs: u32,
    /// The number of machines.
    pub machines: u32,
    /// Whether each job has 30 maps and 10 reduces. Otherwise it has Poisson(30) maps, at
    /// least one, and from one to as many reduces as maps, evenly drawn.
    pub uniform_counts: bool,
    /// Whether all maps take 10 s and all reduces 15 s.
    pub uniform_lengths: bool,
    /// The weights of the jobs. The weights of tasks are always drawn as
    /// [`Weights::Random`].
    pub weights: Weights,
    /// The time from a map's end until its output has arrived at the reduces, as a multiple of the
    /// map's length: 2, or 0 in the scenarios that minimise the completion times of tasks instead
    /// of jobs.
    pub delay_factor: f64,
}

impl RandomJobs {
    /// Returns the "most randomized scenario" of Ling et al.: `jobs` jobs on 50 machines, with
    /// random numbers, lengths and weights of tasks, and random weights of jobs.
    #[must_use]
    pub const fn most_random(jobs: u32) -> Self {
        Self {
            jobs,
            machines: 50,
            uniform_counts: false,
            uniform_lengths: false,
            weights: Weights::Random,
            delay_factor: 2.0,
        }
    }

    /// Draws the jobs; the same seed gives the same jobs.
    ///
    /// # Panics
    /// Without machines.
    #[must_use]
    pub fn draw(&self, seed: u64) -> Instance {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut at_s = 0.0;
        let specs = (0..u64::from(self.jobs)).map(|id| {
            while rng.random::<bool>() {
                at_s += 1.0;
            }
            let spec = self.draw_job(id, at_s, &mut rng);
            at_s += 1.0;
            spec
        });
        let mut specs: Vec<JobSpec> = specs.collect();
        self.deal_unit_weights(&mut specs);
        Instance::new(self.machines, specs).expect("drawn numbers are positive")
    }

    fn draw_job(&self, id: u64, released_s: f64, rng: &mut ChaCha8Rng) -> JobSpec {
        let weight = positive_normal(30.0, 10.0, rng);
        let (maps, reduces) = if self.uniform_counts {
            (30, 10)
        } else {
            let maps = poisson(30.0, rng).max(1);
            (maps, rng.random_range(1..=maps))
        };
        let mut tasks = |count: u32, mean_s: f64| -> Vec<TaskSpec> {
            let task = (0..count).map(|_| {
                let length_s = match (self.uniform_lengths, positive_normal(mean_s, 5.0, rng)) {
                    (true, _) => mean_s,
                    (false, drawn_s) => drawn_s,
                };
                TaskSpec {
                    length_s,
                    delay_s: self.delay_factor * length_s,
                    weight: positive_normal(30.0, 10.0, rng),
                }
            });
            task.collect()
        };
        let (maps, reduces) = (tasks(maps, 10.0), tasks(reduces, 15.0));
        JobSpec {
            job: Job {
                weight,
                ..Job::new(JobId(id), released_s, None)
            },
            maps,
            reduces,
        }
    }

    fn deal_unit_weights(&self, specs: &mut [JobSpec]) {
        if self.weights == Weights::Random {
            return;
        }
        let work_s = |spec: &JobSpec| -> f64 {
            let tasks = spec.maps.iter().chain(&spec.reduces);
            tasks.map(|task| task.length_s).sum()
        };
        let mut unit_weights: Vec<f64> = (specs.iter())
            .map(|spec| spec.job.weight / work_s(spec))
            .collect();
        unit_weights.sort_by(f64::total_cmp);
        if self.weights == Weights::DecreasingUnit {
            unit_weights.reverse();
        }
        for (spec, unit_weight) in specs.iter_mut().zip(unit_weights) {
            spec.job.weight = unit_weight * work_s(spec);
        }
    }
}

/// Returns `instance` as a scheduler with wrong estimates sees it: the length and the delay of
/// each task are multiplied by the same factor, drawn evenly between 1 - `error_max` (at least
/// 0.001) and 1 + `error_max`. `error_max` is from 0 to 1.
#[must_use]
pub fn misjudged(instance: &Instance, error_max: f64, seed: u64) -> Instance {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut believed = instance.clone();
    for task in &mut believed.tasks {
        let factor = 1.0 + error_max * (1.0 - 2.0 * rng.random::<f64>());
        // Lengths have to be positive.
        let factor = factor.max(1e-3);
        task.length_s *= factor;
        task.delay_s *= factor;
    }
    believed
}

fn positive_normal(mean: f64, deviation: f64, rng: &mut ChaCha8Rng) -> f64 {
    loop {
        let drawn = Normal::ppf(rng.random::<f64>(), mean, deviation);
        if drawn.is_finite() && drawn > 0.0 {
            return drawn;
        }
    }
}

/// Draws the number of events of a Poisson process of rate 1 in a time of length `mean`.
fn poisson(mean: f64, rng: &mut ChaCha8Rng) -> u32 {
    let (mut at, mut events) = (0.0, 0);
    loop {
        at -= (1.0 - rng.random::<f64>()).ln();
        if at >= mean {
            return events;
        }
        events += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_random_jobs_have_the_means_of_the_paper() {
        let instance = RandomJobs::most_random(400).draw(5);
        assert_eq!(instance, RandomJobs::most_random(400).draw(5));
        assert_ne!(instance, RandomJobs::most_random(400).draw(6));
        let mean = |numbers: Vec<f64>| numbers.iter().sum::<f64>() / numbers.len() as f64;
        let maps = mean(
            instance
                .jobs
                .iter()
                .map(|job| job.maps.len() as f64)
                .collect(),
        );
        assert!((29.0..31.0).contains(&maps), "30 +- 5.5 / 20: {maps}");
        let reduces = (instance.jobs.iter()).map(|job| job.reduces.len() as f64);
        let reduces = mean(reduces.collect());
        assert!(
            (14.0..17.0).contains(&reduces),
            "15.5 +- 9.5 / 20: {reduces}"
        );
        let weight = mean(instance.jobs.iter().map(|job| job.job.weight).collect());
        assert!((28.5..31.5).contains(&weight), "30 +- 10 / 20: {weight}");
        let last_s = instance.jobs.last().unwrap().job.submitted_s;
        assert!(
            (700.0..900.0).contains(&last_s),
            "every second unit: {last_s}"
        );
        let map = instance.tasks[0];
        assert_eq!(map.delay_s, 2.0 * map.length_s);
        assert!(!instance.maps_are_shorter());
    }

    #[test]
    fn unit_weights_ascend_or_descend_with_the_release() {
        for (weights, ascending) in [
            (Weights::IncreasingUnit, true),
            (Weights::DecreasingUnit, false),
        ] {
            let jobs = RandomJobs {
                weights,
                ..RandomJobs::most_random(30)
            };
            let instance = jobs.draw(1);
            let unit: Vec<f64> = (0..30).map(|job| instance.unit_weight(job)).collect();
            assert!(unit.is_sorted_by(|a, b| a == b || (a < b) == ascending));
        }
    }

    #[test]
    fn uniform_jobs_are_alike_and_errors_stay_within_their_bound() {
        let jobs = RandomJobs {
            uniform_counts: true,
            uniform_lengths: true,
            ..RandomJobs::most_random(3)
        };
        let instance = jobs.draw(2);
        assert_eq!(instance.tasks.len(), 120);
        assert_eq!(instance.work_s(2), 450.0);
        assert!(instance.maps_are_shorter());
        let believed = misjudged(&instance, 0.25, 3);
        for (believed, truth) in believed.tasks.iter().zip(&instance.tasks) {
            let factor = believed.length_s / truth.length_s;
            assert!((0.75..=1.25).contains(&factor) && factor != 1.0);
        }
    }
}
