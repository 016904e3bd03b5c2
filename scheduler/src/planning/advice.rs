//! The probability that a job meets its goal, predicted at its submission.
//!
//! Nobody knows what will be submitted next, so the answer is learned: a number
//! that says how much room there is for the job now, and how often jobs with so
//! much room met their goals so far. The second is an isotonic regression (pool
//! adjacent violators): more room, no smaller probability, and within each pool
//! the probability is what was counted. So it is calibrated wherever the past is
//! like the future, whatever the lengths of tasks, the forecast's errors and the
//! arrivals are like.

use crate::model::JobId;
use crate::policy::{ClusterView, Decision, Measure, Policy, room_per_work};
use crate::sim::{Interval, SimConfig, SimError, SimJob, simulate};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A job as it was when it was submitted, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
    /// Room per work until its goal, as [`room_per_work`] has it.
    pub room: f64,
    /// Whether it met its goal.
    pub met: bool,
}

/// Predicts from what became of past jobs.
struct Predictor {
    /// From this room on, this probability; both ascend.
    pools: Vec<(f64, f64)>,
}

impl Predictor {
    /// Learns from past jobs in any order. Without any, nothing is known and every
    /// probability is 1/2.
    fn learn(mut past: Vec<Past>) -> Self {
        past.retain(|job| !job.room.is_nan());
        past.sort_by(|a, b| a.room.total_cmp(&b.room));
        // Per pool: where it begins, jobs, jobs that met their goals.
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
            // Half a job of either kind more: a few that met their goals are no
            // certainty.
            pools: (pools.iter())
                .map(|&(room, jobs, met)| (room, (met + 0.5) / (jobs + 1.0)))
                .scan(0.0_f64, |most, (room, part)| {
                    *most = most.max(part);
                    Some((room, *most))
                })
                .collect(),
        }
    }

    /// How probably a job with so much room per work meets its goal, 0 to 1; never
    /// less for more room.
    fn probability(&self, room: f64) -> f64 {
        let after = self.pools.partition_point(|&(from, _)| from <= room);
        match self.pools.get(after.saturating_sub(1)) {
            Some(&(_, part)) => part,
            None => 0.5,
        }
    }
}

/// Runs `jobs` under `policy`, and gives what was known of each job with a goal
/// in the first control cycle after its submission, with what became of it.
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

/// Decides as another policy, and notes how each job stood when it was new.
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
    /// From this probability on.
    pub from: f64,
    /// Until this one; the last includes it.
    pub until: f64,
    /// How many jobs.
    pub jobs: u32,
    /// The mean of their predicted probabilities.
    pub predicted: f64,
    /// How many of them met their goals, 0 to 1.
    pub met: f64,
    /// Half the width of the 95% confidence interval of `met`, from how much the
    /// replicas differ; 0 for one.
    pub met_half_width_95: f64,
}

/// Edges of the bins of a reliability diagram: finer where goals are likely to be met.
const EDGES: [f64; 13] = [
    0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.93, 0.97, 1.0,
];

/// For each job of one replica, the predicted probability that it meets its goal, 0 to 1,
/// and whether it did.
pub type Predictions = Vec<(f64, bool)>;

/// Predicts each replica's jobs from the half of the replicas that it is not in
/// (cross-validation). So no job is predicted from itself, and what a lucky half predicts
/// too high, the other predicts as much too low.
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

/// A reliability diagram: the predicted probabilities of the jobs of all replicas against
/// the part that met their goals. Bins without jobs are left out.
#[must_use]
pub fn reliability(replicas: &[Predictions]) -> Vec<ReliabilityBin> {
    let groups = EDGES.windows(2).filter_map(|edges| {
        let (from, until) = (edges[0], edges[1]);
        let inside = |p: f64| p >= from && (p < until || until == 1.0);
        // Per replica: jobs, the sum of their probabilities, how many met their goals.
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

    /// 2 of 3 up to room 3, then 1 of 1: pools of (2 + 1/2) / 4 and 1.5 / 2.
    #[test]
    fn neighbours_that_contradict_are_pooled() {
        let predictor = Predictor::learn(vec![
            past(3.0, true),
            past(1.0, true),
            past(4.0, true),
            past(2.0, false),
            past(f64::NAN, true),
        ]);
        // 1 and 2 are pooled (1/2), 3 and 4 too (2/2).
        assert_eq!(predictor.pools, [(1.0, 0.5), (3.0, 2.5 / 3.0)]);
        assert_eq!(predictor.probability(0.0), 0.5);
        assert_eq!(predictor.probability(2.9), 0.5);
        assert_eq!(predictor.probability(1e9), 2.5 / 3.0);
        assert_eq!(Predictor::learn(Vec::new()).probability(1.0), 0.5);
    }

    #[test]
    fn what_is_told_is_what_happens_in_weeks_that_were_not_learned_from() {
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
            // Three standard deviations of a share of so many, and of those learned.
            let off = 3.0 * (0.25 / f64::from(bin.jobs)).sqrt() * 1.5;
            assert!((bin.predicted - bin.met).abs() < off, "{bin:?}");
        }
        assert!(sure.count() >= 2, "the weeks are no test: {bins:?}");
    }

    /// The first replica taught that room 1 is never enough, the second that it is in
    /// one of two: the one is predicted 1.5 / 3, the other 0.5 / 3.
    #[test]
    fn nobody_is_told_what_he_taught() {
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

    /// 8 of 10 and 6 of 10 met: 7 are expected of each, and they differ from it by 1 and
    /// -1, a standard deviation of the square root of 2. Of the mean that is 1, of the
    /// sum of 20 jobs 2 / 20; t is 12.706.
    #[test]
    fn what_was_met_is_as_sure_as_the_replicas_are_alike() {
        let replica = |met: usize| (0..10).map(|job| (0.75, job < met)).collect();
        let bins = reliability(&[replica(8), replica(6)]);
        assert_eq!(bins.len(), 1);
        assert!((bins[0].met - 0.7).abs() < 1e-12);
        assert!((bins[0].met_half_width_95 - 12.706 * 0.1).abs() < 1e-9);
    }
}
