//! The workload generator of section 5.3.5.1 (table 5.6): clients that submit
//! jobs at random.

use super::job::{SimJob, Stragglers, TaskLength, log_normal};
use crate::model::{Job, JobId, NodeId, Profile, Splits};
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Jobs that arrive as a Poisson process, of log-normal size, with goals in
/// proportion to their length in isolation. All numbers are positive and finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Jobs arrive from 0 until this, in seconds.
    pub span_s: f64,
    /// How many arrive on average, in jobs per second.
    pub rate_per_s: f64,
    /// Mean number of maps of a job.
    pub maps_mean: f64,
    /// Standard deviation of the logarithm of that number; 0: all alike.
    pub maps_log_sd: f64,
    /// Reduces for each map, rounded up; 0: none.
    pub reduces_per_map: f64,
    /// What tasks need, and how long they take on average.
    pub profile: Profile,
    /// Standard deviation of the logarithm of a task's length; 0: all alike.
    pub task_log_sd: f64,
    /// Goals lie at a uniformly drawn multiple of the job's length in isolation,
    /// between these two, after the submission. `None`: no goals.
    pub goal_factor: Option<(f64, f64)>,
    /// Slots of the empty cluster: what a job in isolation has to itself.
    pub isolated_slots: f64,
    /// Replicas of each split; 0: all nodes are as near.
    pub replicas: u32,
    /// How many times longer a map takes whose input lies elsewhere.
    pub remote_factor: f64,
    /// Some tasks take much longer than others.
    pub stragglers: Option<Stragglers>,
    /// What a map reads, in bytes.
    pub map_input_bytes: u64,
}

impl Workload {
    /// How long a job takes that has the whole cluster to itself, in seconds:
    /// whole waves of maps, then of reduces.
    #[must_use]
    pub fn isolated_s(&self, maps: u32, reduces: u32) -> f64 {
        let waves = |tasks: u32| (f64::from(tasks) / self.isolated_slots).ceil();
        waves(maps) * self.profile.map.task_s + waves(reduces) * self.profile.reduce.task_s
    }

    /// Draws the jobs, ordered by submission, with ids from `first_id` on. Their
    /// input lies on `nodes` nodes. The same seed draws the same jobs.
    #[must_use]
    pub fn draw(&self, seed: u64, first_id: u64, nodes: u32) -> Vec<SimJob> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // Apart from the streams of task lengths, which are numbered by job.
        rng.set_stream(u64::MAX);
        let mut jobs = Vec::new();
        let mut submitted_s = 0.0;
        loop {
            submitted_s += -(1.0 - rng.random::<f64>()).ln() / self.rate_per_s;
            if submitted_s >= self.span_s {
                return jobs;
            }
            let id = JobId(first_id + jobs.len() as u64);
            jobs.push(self.draw_job(id, submitted_s, nodes, &mut rng));
        }
    }

    fn draw_job(&self, id: JobId, submitted_s: f64, nodes: u32, rng: &mut ChaCha8Rng) -> SimJob {
        let maps = log_normal(self.maps_mean, self.maps_log_sd, rng)
            .round()
            .max(1.0) as u32;
        let reduces = (f64::from(maps) * self.reduces_per_map).ceil() as u32;
        let goal_s = self.goal_factor.map(|(low, high)| {
            let factor = low + (high - low) * rng.random::<f64>();
            submitted_s + factor * self.isolated_s(maps, reduces)
        });
        let length = |mean_s: f64| match self.task_log_sd {
            0.0 => TaskLength::Fixed(mean_s),
            log_sd => TaskLength::LogNormal { mean_s, log_sd },
        };
        SimJob {
            reduces,
            reduce_length: length(self.profile.reduce.task_s),
            remote_factor: self.remote_factor,
            splits: (self.replicas > 0).then(|| place_splits(maps, self.replicas, nodes, rng)),
            stragglers: self.stragglers,
            map_input_bytes: self.map_input_bytes,
            ..SimJob::of_maps(
                Job::new(id, submitted_s, goal_s),
                maps,
                self.profile,
                length(self.profile.map.task_s),
            )
        }
    }
}

/// Puts each of `splits` splits on `replicas` different nodes at random, or on
/// all `nodes` where those are fewer.
pub fn place_splits(splits: u32, replicas: u32, nodes: u32, rng: &mut ChaCha8Rng) -> Arc<Splits> {
    let places = (0..splits).map(|_| {
        let drawn = sample(rng, nodes as usize, replicas.min(nodes) as usize);
        drawn.into_iter().map(|node| NodeId(node as u32)).collect()
    });
    Arc::new(Splits::new(places.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thesis() -> Workload {
        Workload {
            span_s: 7.0 * 86_400.0,
            rate_per_s: 2500.0 / (7.0 * 86_400.0),
            maps_mean: 62.0,
            maps_log_sd: 1.55,
            reduces_per_map: 0.0,
            profile: Profile::cpu(100, 387.0, 387.0),
            task_log_sd: 0.0,
            goal_factor: Some((1.5, 4.0)),
            isolated_slots: 100.0,
            replicas: 3,
            remote_factor: 1.2,
            stragglers: None,
            map_input_bytes: 0,
        }
    }

    #[test]
    fn the_jobs_are_as_many_and_as_large_as_asked_for() {
        let jobs = thesis().draw(3, 1, 100);
        let n = jobs.len() as f64;
        assert!(
            (2350.0..2650.0).contains(&n),
            "Poisson: 2500 +- 3 * 50, got {n}"
        );
        // The mean of 2500 log-normals of log-sd 1.55 is off by 6% or less in two
        // of three draws; three times that is next to certain.
        let maps = jobs.iter().map(|job| f64::from(job.maps)).sum::<f64>() / n;
        assert!((50.0..74.0).contains(&maps), "{maps}");
        assert_eq!(jobs, thesis().draw(3, 1, 100));
        assert_ne!(jobs, thesis().draw(4, 1, 100));
    }

    #[test]
    fn goals_and_replicas_keep_their_bounds() {
        let workload = thesis();
        for job in workload.draw(9, 1, 100) {
            let isolated_s = workload.isolated_s(job.maps, job.reduces);
            let factor = (job.job.goal_s.unwrap() - job.job.submitted_s) / isolated_s;
            assert!((1.5 - 1e-6..4.0 + 1e-6).contains(&factor));
            let splits = job.splits.unwrap();
            for split in 0..splits.count() {
                let mut nodes = splits.nodes_of(split).to_vec();
                nodes.sort_unstable();
                nodes.dedup();
                assert_eq!(nodes.len(), 3, "three different nodes");
            }
        }
    }

    #[test]
    fn a_job_in_isolation_runs_in_whole_waves() {
        assert_eq!(thesis().isolated_s(100, 0), 387.0);
        assert_eq!(thesis().isolated_s(101, 0), 774.0);
    }
}
