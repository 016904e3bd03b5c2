//! The workload generator of section 5.3.5.1 (table 5.6): clients submit jobs at random
//! times.

use super::bounds::{COPIES_MAX, JOBS_MAX, TASKS_MAX};
use super::config::{SimError, at_most};
use super::job::{SimJob, Stragglers, TaskLength, log_normal};
use crate::model::{Job, JobId, NodeId, Profile, Splits};
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// The ways in which generated jobs differ from the thesis's workload, table 5.6; by default
/// there are none.
#[derive(Clone, Debug, PartialEq)]
pub struct Variety {
    /// Mean number of jobs that arrive at once, geometrically distributed; at least 1. The
    /// rate of all jobs does not change.
    pub burst_jobs_mean: f64,
    /// Tail index, above 1, of a Pareto distribution of sizes in place of the log-normal one:
    /// the smaller it is, the more of the work is in few jobs.
    pub maps_pareto: Option<f64>,
    /// Pairs of a fraction of the jobs, 0 to 1, and the length of the maps of these jobs in
    /// seconds. The maps of the remaining jobs have the profile's length.
    pub other_map_s: Vec<(f64, f64)>,
    /// Range of the policy's initial estimate of a job's maps, as a factor of their true
    /// length; log-uniform between these two.
    pub estimate_factor: (f64, f64),
}

impl Default for Variety {
    fn default() -> Self {
        Self {
            burst_jobs_mean: 1.0,
            maps_pareto: None,
            other_map_s: Vec::new(),
            estimate_factor: (1.0, 1.0),
        }
    }
}

impl Variety {
    /// Returns the mean length of maps over all jobs, in seconds. `other_map_s` gives the length of
    /// the maps for some fractions of the jobs; `map_s` is the length for the remaining jobs.
    #[must_use]
    pub fn mean_map_s(&self, map_s: f64) -> f64 {
        let parts: f64 = self.other_map_s.iter().map(|(part, _)| part).sum();
        let others = self.other_map_s.iter().map(|(part, map_s)| part * map_s);
        (1.0 - parts) * map_s + others.sum::<f64>()
    }
}

/// Parameters of the generator: jobs arrive as a Poisson process, have log-normal sizes, and goals
/// in proportion to their length in isolation. [`Variety`] has deviations from this. All numbers
/// are finite, and none is negative.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// End of the arrivals, in seconds; they begin at 0.
    pub span_s: f64,
    /// Mean rate of arrivals, in jobs per second.
    pub rate_per_s: f64,
    /// Mean number of maps of a job.
    pub maps_mean: f64,
    /// Standard deviation of the logarithm of a job's number of maps; 0: all jobs have the same
    /// size.
    pub maps_log_sd: f64,
    /// Number of reduces for each map, rounded up for the job; 0: none.
    pub reduces_per_map: f64,
    /// Demands and mean lengths of the tasks.
    pub profile: Profile,
    /// Standard deviation of the logarithm of a task's length; 0: all tasks of a job have the
    /// same length.
    pub task_log_sd: f64,
    /// Range of a uniformly drawn factor. The time from the submission to the goal is this
    /// multiple of the length that the job has in isolation. `None`: no goals.
    pub goal_factor: Option<(f64, f64)>,
    /// The number of maps that run at once in the empty cluster. The goal of a job, see
    /// `goal_factor`, depends on the length that the job would have with all these slots to itself.
    pub isolated_slots: f64,
    /// Replicas of each split; 0: input is equally near to all nodes.
    pub replicas: u32,
    /// Factor by which a map takes longer if its input lies on another node.
    pub remote_factor: f64,
    /// Stragglers among the tasks of each job; `None`: there are none.
    pub stragglers: Option<Stragglers>,
    /// Bytes that a map reads.
    pub map_input_bytes: u64,
    /// The ways in which the jobs differ from the thesis's workload, table 5.6.
    pub variety: Variety,
}

impl Workload {
    /// Returns the length of a job that has the whole cluster to itself, in seconds: whole waves
    /// of maps, then of reduces.
    fn isolated_s(&self, map_s: f64, maps: u32, reduces: u32) -> f64 {
        let waves = |tasks: u32| (f64::from(tasks) / self.isolated_slots).ceil();
        waves(maps) * map_s + waves(reduces) * self.profile.reduce.task_s
    }

    /// Draws the jobs, ordered by submission, with ids from `first_id` on and input on
    /// `nodes` nodes. The same seed draws the same jobs.
    ///
    /// # Errors
    /// When the draw has more jobs, tasks or copies of splits than a run may have: sizes and
    /// bursts are unbounded, so a draw may be far above the mean.
    pub fn draw(&self, seed: u64, first_id: u64, nodes: u32) -> Result<Vec<SimJob>, SimError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // A random stream of its own, apart from those of task lengths, which are numbered by
        // job.
        rng.set_stream(u64::MAX);
        let mut jobs = Vec::new();
        let mut submitted_s = 0.0;
        let burst = self.variety.burst_jobs_mean;
        let (mut tasks, mut copies) = (0, 0);
        let replicas = u64::from(self.replicas.min(nodes));
        loop {
            submitted_s += -(1.0 - rng.random::<f64>()).ln() / self.rate_per_s * burst;
            if submitted_s >= self.span_s {
                return Ok(jobs);
            }
            loop {
                let id = JobId(first_id + jobs.len() as u64);
                let mut job = self.draw_job(id, submitted_s, &mut rng);
                tasks += job.tasks();
                copies += u64::from(job.maps) * replicas;
                at_most("jobs", 1 + jobs.len() as u64, JOBS_MAX)?;
                at_most("tasks", tasks, TASKS_MAX)?;
                at_most("copies of splits", copies, COPIES_MAX)?;
                if self.replicas > 0 {
                    job.splits = Some(place_splits(job.maps, self.replicas, nodes, &mut rng));
                }
                jobs.push(job);
                // Without bursts no random number is drawn, so that the default draws the same
                // jobs as a workload without this variety.
                if burst <= 1.0 || rng.random::<f64>() < 1.0 / burst {
                    break;
                }
            }
        }
    }

    fn draw_maps(&self, rng: &mut ChaCha8Rng) -> u32 {
        let maps = match self.variety.maps_pareto {
            None => log_normal(self.maps_mean, self.maps_log_sd, rng),
            // A Pareto size is the smallest size times u^(-1/a); the mean is a / (a - 1)
            // times the smallest.
            Some(tail) => {
                let least = self.maps_mean * (tail - 1.0) / tail;
                least * (1.0 - rng.random::<f64>()).powf(-1.0 / tail)
            }
        };
        maps.round().max(1.0) as u32
    }

    /// Draws the mean length of a job's maps, in seconds.
    fn draw_map_s(&self, rng: &mut ChaCha8Rng) -> f64 {
        let others = &self.variety.other_map_s;
        if others.is_empty() {
            return self.profile.map.task_s;
        }
        let mut at = rng.random::<f64>();
        for &(part, map_s) in others {
            if at < part {
                return map_s;
            }
            at -= part;
        }
        self.profile.map.task_s
    }

    fn draw_estimate_factor(&self, rng: &mut ChaCha8Rng) -> f64 {
        let (low, high) = self.variety.estimate_factor;
        if low == high {
            return low;
        }
        low * (high / low).powf(rng.random::<f64>())
    }

    /// Draws a job without the places of its input, which are drawn afterwards.
    fn draw_job(&self, id: JobId, submitted_s: f64, rng: &mut ChaCha8Rng) -> SimJob {
        let maps = self.draw_maps(rng);
        let map_s = self.draw_map_s(rng);
        let reduces = (f64::from(maps) * self.reduces_per_map).ceil() as u32;
        let goal_s = self.goal_factor.map(|(low, high)| {
            let factor = low + (high - low) * rng.random::<f64>();
            submitted_s + factor * self.isolated_s(map_s, maps, reduces)
        });
        let length = |mean_s: f64| match self.task_log_sd {
            0.0 => TaskLength::Fixed(mean_s),
            log_sd => TaskLength::LogNormal { mean_s, log_sd },
        };
        let mut profile = self.profile;
        profile.map.task_s = map_s * self.draw_estimate_factor(rng);
        SimJob {
            reduces,
            reduce_length: length(self.profile.reduce.task_s),
            remote_factor: self.remote_factor,
            stragglers: self.stragglers,
            map_input_bytes: self.map_input_bytes,
            ..SimJob::of_maps(
                Job::new(id, submitted_s, goal_s),
                maps,
                profile,
                length(map_s),
            )
        }
    }
}

/// Places each of `splits` splits on `replicas` different nodes at random, or on all `nodes`
/// if these are fewer.
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
            variety: Variety::default(),
        }
    }

    #[test]
    fn jobs_have_the_configured_number_and_mean_size() {
        let draw = |seed| thesis().draw(seed, 1, 100).unwrap();
        let jobs = draw(3);
        let n = jobs.len() as f64;
        assert!(
            (2350.0..2650.0).contains(&n),
            "Poisson: 2500 +- 3 * 50, got {n}"
        );
        // The mean of 2500 log-normals of log-sd 1.55 deviates by 6% or less in two of three
        // draws; the test allows three times that.
        let maps = jobs.iter().map(|job| f64::from(job.maps)).sum::<f64>() / n;
        assert!((50.0..74.0).contains(&maps), "{maps}");
        assert_eq!(jobs, draw(3));
        assert_ne!(jobs, draw(4));
    }

    #[test]
    fn goals_and_replicas_keep_their_bounds() {
        let workload = thesis();
        for job in workload.draw(9, 1, 100).unwrap() {
            let map_s = workload.profile.map.task_s;
            let isolated_s = workload.isolated_s(map_s, job.maps, job.reduces);
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

    /// Half of the jobs have maps of 3,600 s, and estimates are 2 to 5 times the true length.
    #[test]
    fn estimates_and_lengths_vary_and_goals_follow_the_true_lengths() {
        let mut workload = thesis();
        workload.variety.other_map_s = vec![(0.5, 3600.0)];
        workload.variety.estimate_factor = (2.0, 5.0);
        assert_eq!(workload.variety.mean_map_s(387.0), (387.0 + 3600.0) / 2.0);
        let jobs = workload.draw(9, 1, 100).unwrap();
        for job in &jobs {
            let TaskLength::Fixed(map_s) = job.map_length else {
                panic!("the lengths have no deviation");
            };
            let estimate = job.profile.map.task_s / map_s;
            assert!((2.0 - 1e-9..5.0 + 1e-9).contains(&estimate), "{estimate}");
            let waves = (f64::from(job.maps) / 100.0).ceil();
            let factor = (job.job.goal_s.unwrap() - job.job.submitted_s) / (waves * map_s);
            assert!((1.5 - 1e-6..4.0 + 1e-6).contains(&factor), "{factor}");
        }
        let long = jobs.iter().filter(|job| job.map_length.mean_s() == 3600.0);
        let part = long.count() as f64 / jobs.len() as f64;
        assert!((0.45..0.55).contains(&part), "{part}");
    }

    #[test]
    fn bursts_and_pareto_sizes_keep_the_mean_work() {
        let mut workload = thesis();
        workload.variety.burst_jobs_mean = 10.0;
        workload.variety.maps_pareto = Some(2.5);
        let week = |seed| workload.draw(seed, 1, 100).unwrap();
        let weeks: Vec<Vec<SimJob>> = (0..8).map(week).collect();
        let jobs = weeks.iter().flatten();
        let n = jobs.clone().count() as f64;
        // 8 weeks of 250 bursts of 10 +- 9.5 jobs: the sum deviates by about 2%.
        assert!((0.9..1.1).contains(&(n / 8.0 / 2500.0)), "{n}");
        let maps = jobs.map(|job| f64::from(job.maps)).sum::<f64>() / n;
        assert!((57.0..67.0).contains(&maps), "{maps}");
        let mut at_once: Vec<f64> = weeks[0].iter().map(|job| job.job.submitted_s).collect();
        at_once.dedup();
        assert!(at_once.len() < weeks[0].len() / 5);
    }

    /// The first workload has jobs of a billion maps, the second a burst of a million million
    /// jobs.
    #[test]
    fn a_draw_beyond_the_bounds_of_a_run_is_an_error() {
        let mut workload = thesis();
        workload.maps_mean = 1e9;
        workload.replicas = 0;
        let error = workload.draw(1, 1, 100).unwrap_err().to_string();
        assert!(
            error.contains("tasks or more; at most 10000000 are allowed"),
            "{error}"
        );
        workload = thesis();
        workload.variety.burst_jobs_mean = 1e12;
        workload.rate_per_s = 1e12;
        workload.maps_mean = 1.0;
        workload.maps_log_sd = 0.0;
        workload.replicas = 0;
        let error = workload.draw(1, 1, 100).unwrap_err().to_string();
        assert!(
            error.contains("100001 jobs or more; at most 100000 are allowed"),
            "{error}"
        );
    }

    #[test]
    fn a_job_in_isolation_runs_in_whole_waves() {
        let isolated_s = |maps| thesis().isolated_s(thesis().profile.map.task_s, maps, 0);
        assert_eq!(isolated_s(100), 387.0);
        assert_eq!(isolated_s(101), 774.0);
    }
}
