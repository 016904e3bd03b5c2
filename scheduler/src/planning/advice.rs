//! The probability that a job meets its goal, predicted at its submission.
//!
//! Future submissions are unknown, so the probability is learned from past jobs. [`room_per_work`]
//! measures the *room* of a job at its submission, the capacity that is free for it until its goal,
//! and an isotonic regression (pool adjacent violators) estimates how often jobs with that much
//! room met their goals: more room never lowers the probability, and within each pool the
//! probability is the observed frequency, with half a job of either kind added. The result is
//! calibrated if the future resembles the past, independently of task lengths, forecast errors and
//! arrivals.

use crate::model::JobId;
use crate::policy::{ClusterView, Decision, Measure, Policy, room_per_work};
use crate::sim::{Interval, SimConfig, SimError, SimJob, simulate};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A past job: the capacity that was free for it at its submission, and whether it met its goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
    /// The capacity that was free for the job until its goal, as a multiple of the job's work; see
    /// [`room_per_work`].
    pub room: f64,
    /// True if the job met its goal.
    pub met: bool,
}

/// An isotonic regression: how often jobs met their goals, by the capacity that was free for them
/// at their submission ([`Past::room`]).
struct Predictor {
    /// An ascending step function from the room of a job ([`Past::room`]) to its probability of
    /// meeting the goal. Each step (pool) comes from past jobs with similar room. Its pair is the
    /// smallest room among these jobs, and the probability for jobs with at least this room and
    /// less than that of the next step. Jobs with less room than any step get the first probability.
    pools: Vec<(f64, f64)>,
}

impl Predictor {
    /// Fits the regression to past jobs in any order, and ignores those whose room is NaN. Without
    /// past jobs, every job gets the probability 1/2.
    fn learn(mut past: Vec<Past>) -> Self {
        past.retain(|job| !job.room.is_nan());
        past.sort_by(|a, b| a.room.total_cmp(&b.room));
        // For each pool: its smallest room, its jobs, and its jobs that met their goals.
        let mut pools: Vec<(f64, f64, f64)> = Vec::new();
        let part = |pool: &(f64, f64, f64)| pool.2 / pool.1;
        for job in past {
            let met = f64::from(u8::from(job.met));
            match pools.last_mut() {
                Some(last) if last.0 == job.room => {
                    last.1 += 1.0;
                    last.2 += met;
                }
                _ => pools.push((job.room, 1.0, met)),
            }
            while let [.., before, last] = pools.as_mut_slice()
                && part(before) >= part(last)
            {
                before.1 += last.1;
                before.2 += last.2;
                pools.pop();
            }
        }
        Self {
            // Half a job of either kind is added, because a few jobs that met their goals
            // are no certainty. The scan restores the order, which this may break.
            pools: (pools.iter())
                .map(|&(room, jobs, met)| (room, (met + 0.5) / (jobs + 1.0)))
                .scan(0.0_f64, |most, (room, part)| {
                    *most = most.max(part);
                    Some((room, *most))
                })
                .collect(),
        }
    }

    /// Returns the probability, 0 to 1, that a job meets its goal if the capacity that is free for
    /// it until then is `room` times its work. The result never falls as `room` grows.
    fn probability(&self, room: f64) -> f64 {
        let after = self.pools.partition_point(|&(from, _)| from <= room);
        match self.pools.get(after.saturating_sub(1)) {
            Some(&(_, part)) => part,
            None => 0.5,
        }
    }
}

/// Simulates `jobs` under `policy`. Returns each job with a goal that was submitted within
/// [`SimConfig::window_s`]: the capacity that was free for it in the first control cycle after its
/// submission, and whether it met the goal. Jobs that the policy never saw are left out.
///
/// # Errors
/// When the configuration or a job cannot be simulated.
pub fn observe(
    config: &SimConfig,
    jobs: Vec<SimJob>,
    policy: &dyn Policy,
) -> Result<Vec<(JobId, Past)>, SimError> {
    let observer = Observer {
        policy,
        room: Mutex::new(BTreeMap::new()),
    };
    let report = simulate(config, jobs, &observer)?;
    let room = (observer.room.into_inner()).unwrap_or_else(PoisonError::into_inner);
    let (from_s, until_s) = report.window_s;
    let counted =
        (report.jobs.iter()).filter(|record| (from_s..=until_s).contains(&record.job.submitted_s));
    let past = counted.filter_map(|record| {
        let (room, met) = (*room.get(&record.job.id)?, record.met?);
        Some((record.job.id, Past { room, met }))
    });
    Ok(past.collect())
}

/// A policy that delegates to another one and records the capacity that is free for each job until
/// its goal, in the first cycle whose view contains the job.
struct Observer<'a> {
    policy: &'a dyn Policy,
    room: Mutex<BTreeMap<JobId, f64>>,
}

impl Policy for Observer<'_> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn measure(&self) -> Measure {
        self.policy.measure()
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, job) in view.jobs.iter().enumerate() {
            if let Some(goal_s) = job.job.goal_s {
                (room.entry(job.job.id)).or_insert_with(|| room_per_work(view, index, goal_s));
            }
        }
        self.policy.decide(view)
    }
}

/// A bin of a reliability diagram: the jobs whose predicted probability of meeting the goal
/// lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReliabilityBin {
    /// Lower limit of the predicted probabilities in the bin, inclusive.
    pub from: f64,
    /// Upper limit of the predicted probabilities in the bin, exclusive except in the last bin.
    pub until: f64,
    /// Number of jobs whose predicted probability lies in the bin.
    pub jobs: u32,
    /// Mean of the jobs' predicted probabilities.
    pub predicted: f64,
    /// Part of the jobs that met their goals, 0 to 1.
    pub met: f64,
    /// Half the width of the 95% confidence interval of `met`. It is computed from the differences
    /// between replicas (runs of the simulation), and is 0 with one replica.
    pub met_half_width_95: f64,
}

/// Edges of the bins of a reliability diagram: finer where goals are likely to be met.
const EDGES: [f64; 13] = [
    0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.93, 0.97, 1.0,
];

/// For each job of one simulation run (a replica): the predicted probability that it meets its
/// goal, 0 to 1, and whether it met the goal.
pub type Predictions = Vec<(f64, bool)>;

/// Predicts each replica's jobs from the replicas in the other half (two-fold cross-validation), so
/// that no job contributes to its own prediction.
///
/// If one half met more goals than usual by chance, the predictions from it are too high, and those
/// from the other half too low; over all replicas both errors cancel. A single replica has no other
/// half: each of its jobs gets the probability 1/2.
#[must_use]
pub fn predict_each_half(replicas: &[Vec<Past>]) -> Vec<Predictions> {
    let (first, second) = replicas.split_at(replicas.len() / 2);
    let predict = |training: &[Vec<Past>], test: &[Vec<Past>]| {
        let predictor = Predictor::learn(training.concat());
        let predicted = |job: &Past| (predictor.probability(job.room), job.met);
        let predictions = test.iter().map(|jobs| jobs.iter().map(predicted).collect());
        predictions.collect::<Vec<Predictions>>()
    };
    let mut predictions = predict(second, first);
    predictions.extend(predict(first, second));
    predictions
}

/// Sorts the jobs of all replicas into bins by predicted probability, and compares the mean
/// prediction in each bin with the fraction of jobs that met their goals: a reliability diagram.
/// Bins without jobs are left out.
#[must_use]
pub fn reliability(replicas: &[Predictions]) -> Vec<ReliabilityBin> {
    let groups = EDGES.windows(2).filter_map(|edges| {
        let (from, until) = (edges[0], edges[1]);
        let inside = |p: f64| p >= from && (p < until || until == 1.0);
        // For each replica: number of jobs, sum of their probabilities, number that met
        // their goals.
        let counts = replicas.iter().map(|answers| {
            let answers = answers.iter().filter(|(p, _)| inside(*p));
            answers.fold((0.0, 0.0, 0.0), |(jobs, predicted, met), (p, is_met)| {
                (
                    jobs + 1.0,
                    predicted + p,
                    met + f64::from(u8::from(*is_met)),
                )
            })
        });
        let counts: Vec<(f64, f64, f64)> = counts.collect();
        let sum = |of: fn(&(f64, f64, f64)) -> f64| counts.iter().map(of).sum::<f64>();
        let (jobs, predicted, met) = (sum(|c| c.0), sum(|c| c.1), sum(|c| c.2));
        let more_than_expected: Vec<f64> = (counts.iter())
            .map(|count| count.2 - count.0 * met / jobs)
            .collect();
        let half_width = Interval::of(&more_than_expected).half_width_95;
        (jobs > 0.0).then(|| ReliabilityBin {
            from,
            until,
            jobs: jobs as u32,
            predicted: predicted / jobs,
            met: met / jobs,
            met_half_width_95: half_width * replicas.len() as f64 / jobs,
        })
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::Availability;
    use crate::model::Profile;
    use crate::policy::ForecastEdf;
    use crate::sim::{Variety, Workload};

    fn past(room: f64, met: bool) -> Past {
        Past { room, met }
    }

    #[test]
    fn neighbours_that_contradict_are_pooled() {
        let predictor = Predictor::learn(vec![
            past(3.0, true),
            past(1.0, true),
            past(4.0, true),
            past(2.0, false),
            past(f64::NAN, true),
        ]);
        // Rooms 1 and 2 are pooled (1 of 2 met their goals), and 3 and 4 as well (2 of 2).
        assert_eq!(predictor.pools, [(1.0, 0.5), (3.0, 2.5 / 3.0)]);
        assert_eq!(predictor.probability(0.0), 0.5);
        assert_eq!(predictor.probability(2.9), 0.5);
        assert_eq!(predictor.probability(1e9), 2.5 / 3.0);
        assert_eq!(Predictor::learn(Vec::new()).probability(1.0), 0.5);
    }

    #[test]
    fn predictions_are_calibrated_on_weeks_outside_of_the_training_half() {
        let workload = Workload {
            span_s: 200_000.0,
            rate_per_s: 0.01,
            maps_mean: 6.0,
            maps_log_sd: 1.2,
            reduces_per_map: 0.0,
            profile: Profile::cpu(100, 100.0, 100.0),
            task_log_sd: 0.2,
            goal_factor: Some((1.2, 6.0)),
            isolated_slots: 10.0,
            replicas: 0,
            remote_factor: 1.0,
            stragglers: None,
            map_input_bytes: 0,
            variety: Variety::default(),
        };
        let week = |seed: u64| {
            let f = Availability::constant(1000.0).unwrap();
            let mut config = SimConfig::one_slot_nodes(10, f);
            config.recording = crate::sim::Recording::default();
            config.seed = seed;
            let jobs = workload.draw(seed, 1, 10).unwrap();
            let past = observe(&config, jobs, &ForecastEdf).unwrap();
            past.into_iter().map(|(_, past)| past).collect::<Vec<_>>()
        };
        let seed = 83;
        println!("seeds from {seed}");
        let weeks: Vec<Vec<Past>> = (0..4).map(|week_n| week(seed + week_n)).collect();
        let bins = reliability(&predict_each_half(&weeks));
        let sure = bins.iter().filter(|bin| bin.jobs >= 200);
        for bin in sure.clone() {
            // Three standard deviations of a frequency among the bin's jobs; 1.5 allows for
            // the error of the learned frequency.
            let off = 3.0 * (0.25 / f64::from(bin.jobs)).sqrt() * 1.5;
            assert!((bin.predicted - bin.met).abs() < off, "{bin:?}");
        }
        assert!(sure.count() >= 2, "the weeks are no test: {bins:?}");
    }

    /// All jobs have the same room, so the regression has one step, and all jobs get the same
    /// probability: the fraction of past jobs that met their goals, with half a met and half a
    /// missed goal added. In the first replica neither of two jobs meets its goal, in the second
    /// one of two does. Each replica is predicted from the other: the first with the probability
    /// 1.5 / 3, the second with 0.5 / 3.
    #[test]
    fn a_replica_is_predicted_from_the_other_half_only() {
        let replicas = [
            vec![past(1.0, false), past(1.0, false)],
            vec![past(1.0, true), past(1.0, false)],
        ];
        let answers = predict_each_half(&replicas);
        assert_eq!(answers[0], [(0.5, false), (0.5, false)]);
        assert_eq!(answers[1], [(0.5 / 3.0, true), (0.5 / 3.0, false)]);
        let bins = reliability(&answers);
        let rows: Vec<_> = (bins.iter())
            .map(|bin| (bin.from, bin.jobs, bin.met))
            .collect();
        assert_eq!(rows, [(0.1, 2, 0.5), (0.5, 2, 0.0)]);
    }

    /// In two replicas of 10 jobs, 8 and 6 met their goals: 7 are expected of each. The
    /// differences, 1 and -1, have a standard deviation of the square root of 2, and their mean a
    /// standard error of 1. The standard error of the fraction among all 20 jobs is then 2 / 20,
    /// and Student's t for two replicas is 12.706.
    #[test]
    fn the_confidence_interval_comes_from_differences_between_replicas() {
        let replica = |met: usize| (0..10).map(|job| (0.75, job < met)).collect();
        let bins = reliability(&[replica(8), replica(6)]);
        assert_eq!(bins.len(), 1);
        assert!((bins[0].met - 0.7).abs() < 1e-12);
        assert!((bins[0].met_half_width_95 - 12.706 * 0.1).abs() < 1e-9);
    }
}
