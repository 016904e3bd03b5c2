//! Predicted ends of jobs, and the errors of earlier predictions.
//!
//! The point estimate is the result of a look ahead
//! ([`Situation`](ebb_scheduler::runtime::Situation)). The interval around it is learned from the
//! jobs that succeeded: for each, the ratio of the actual remaining time to the predicted one when
//! the job was half over. With e the logarithms of the latest 64 ratios and n their number,
//!
//! ```text
//!   m  = sum(e) / (5 + n)                                      the systematic error
//!   sd = sqrt((5 * (0.2^2 + m^2) + sum((e - m)^2)) / (5 + n))  the deviation from job to job
//!   h  = t * sd * sqrt(1 + 1 / (5 + n))
//!   remaining time = (point - now) * exp(m -+ h)               in 9 of 10 cases
//! ```
//!
//! where t is the 95th percentile of Student's t distribution with 5 + n degrees of freedom. The 5 is a
//! prior of five jobs without systematic error, one in three of which was off by a fifth or more. This is the
//! posterior predictive distribution of normal errors whose mean and variance are both unknown (Gelman et
//! al., *Bayesian Data Analysis*, third edition, section 3.3). After a few jobs m and sd are themselves
//! uncertain, so h is then larger than the 1.645 sd that known ones would need.

use std::collections::{BTreeMap, VecDeque};

use distrs::StudentsT;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::sum;

/// The number of latest jobs for which the errors of the predicted ends are kept.
const ERRORS_MAX: usize = 64;
/// The weight of the prior, an assumption about the errors of predictions: it counts like this many jobs.
const BELIEVED: f64 = 5.0;
/// The standard deviation of the errors, as the prior assumes it. An error is the logarithm of the ratio of
/// the actual remaining time of a job to the predicted one.
const BELIEVED_SD: f64 = 0.2;
/// The percentile at the upper end of an interval that contains 9 of 10 cases.
const UPPER: f64 = 0.95;
/// The most predictions of a running job that are kept. When there are that many, every second one is
/// dropped, and from then on half as many of the new ones are added.
const PREDICTIONS_MAX: usize = 128;

/// A predicted end with the interval around it, in seconds of the runtime's time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictedEnd {
    /// The lower end of the interval.
    pub low_s: f64,
    /// The predicted end, corrected by the errors of earlier predictions.
    pub finish_s: f64,
    /// The upper end of the interval.
    pub high_s: f64,
}

/// The errors of the predicted ends of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PredictionErrorView {
    /// The number of jobs whose errors are in `mean_error_ratio`: the latest ones, 64 at most, that succeeded
    /// and had a prediction in the first half of their running time.
    pub jobs: usize,
    /// The mean of the jobs' relative errors. The relative error of a job is |end - predicted end|, divided
    /// by the time from the prediction to the end. `null` without jobs.
    pub mean_error_ratio: Option<f64>,
}

/// The predicted ends of running jobs, and the errors of the predictions for jobs that have
/// succeeded.
#[derive(Debug, Default)]
pub struct Ledger {
    followed: BTreeMap<String, Followed>,
    /// The logarithm of the ratio of the actual remaining time to the predicted one, for each of the latest
    /// jobs that succeeded.
    errors: VecDeque<f64>,
    /// The relative errors of the predictions for the jobs in `errors`: |end - predicted end|, divided by the
    /// time from the prediction to the end.
    parts: VecDeque<f64>,
}

#[derive(Debug)]
struct Followed {
    started_s: f64,
    /// Pairs of the time of a prediction and the predicted end, both in seconds of the runtime's time.
    predictions: Vec<(f64, f64)>,
    /// The number N for which every N-th new prediction is kept.
    every: u32,
    skipped: u32,
}

impl Ledger {
    /// Adds a prediction for a job that started at `started_s`. By the prediction, which was made
    /// at `at_s`, the job ends at `finish_s`, before a correction by the errors of earlier
    /// predictions.
    pub fn note(&mut self, job: &str, started_s: f64, at_s: f64, finish_s: f64) {
        let followed = self.followed.entry(job.to_string());
        let followed = followed.or_insert_with(|| Followed {
            started_s,
            predictions: Vec::new(),
            every: 1,
            skipped: 0,
        });
        followed.skipped += 1;
        if followed.skipped < followed.every {
            return;
        }
        followed.skipped = 0;
        followed.predictions.push((at_s, finish_s));
        if followed.predictions.len() >= PREDICTIONS_MAX {
            let mut nth = 0;
            followed.predictions.retain(|_| {
                nth += 1;
                nth % 2 == 0
            });
            followed.every *= 2;
        }
    }

    /// Removes a job that ended. If it succeeded, keeps the error of the last prediction in the first half of
    /// its time.
    pub fn end(&mut self, job: &str, ended_s: f64, succeeded: bool) {
        let Some(followed) = self.followed.remove(job).filter(|_| succeeded) else {
            return;
        };
        let half_s = (followed.started_s + ended_s) / 2.0;
        // The last prediction in the first half.
        let before = (followed.predictions).partition_point(|(at_s, _)| *at_s <= half_s);
        let Some((at_s, finish_s)) = before.checked_sub(1).map(|at| followed.predictions[at])
        else {
            return;
        };
        let (took_s, predicted_s) = (ended_s - at_s, finish_s - at_s);
        if took_s <= 0.0 || predicted_s <= 0.0 {
            return;
        }
        for (kept, error) in [
            (&mut self.errors, (took_s / predicted_s).ln()),
            (&mut self.parts, (took_s - predicted_s).abs() / took_s),
        ] {
            if kept.len() == ERRORS_MAX {
                kept.pop_front();
            }
            kept.push_back(error);
        }
    }

    /// Corrects the end `finish_s`, which a look ahead predicted, by the errors of earlier predictions.
    /// Returns the corrected end, with the interval that contains the actual end in 9 of 10 cases.
    pub fn around(&self, now_s: f64, finish_s: f64) -> PredictedEnd {
        let weight = BELIEVED + self.errors.len() as f64;
        let mean = self.errors.iter().sum::<f64>() / weight;
        let squares: f64 = (self.errors.iter().map(|error| (error - mean).powi(2))).sum();
        let believed_squares = BELIEVED * (BELIEVED_SD.powi(2) + mean.powi(2));
        let sd = ((believed_squares + squares) / weight).sqrt();
        let half_width = StudentsT::ppf(UPPER, weight) * sd * (1.0 + 1.0 / weight).sqrt();
        let left_s = (finish_s - now_s).max(0.0);
        let at = |error: f64| now_s + left_s * error.exp();
        PredictedEnd {
            low_s: at(mean - half_width),
            finish_s: at(mean),
            high_s: at(mean + half_width),
        }
    }

    /// Returns the mean error of the predictions for the latest jobs that succeeded, [`ERRORS_MAX`]
    /// at most, and the number of these jobs. For each job, the last prediction made in the first
    /// half of its running time counts; jobs without one are left out.
    pub(super) fn error(&self) -> PredictionErrorView {
        let jobs = self.parts.len();
        PredictionErrorView {
            jobs,
            mean_error_ratio: (jobs > 0).then(|| sum(self.parts.iter().copied()) / jobs as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prediction_at_half_time_is_compared_with_the_end() {
        let mut ledger = Ledger::default();
        for at_s in 0..100 {
            // 10 s too late from the middle on, and nonsense before.
            let finish_s = if at_s < 48 { 1e6 } else { 110.0 };
            ledger.note("7", 0.0, f64::from(at_s), finish_s);
        }
        ledger.note("8", 0.0, 1.0, 2.0);
        ledger.end("8", 100.0, false);
        ledger.end("9", 100.0, true);
        // Regression: the error was 0 without jobs, as if all predictions had been right.
        assert_eq!(ledger.error(), PredictionErrorView::default());
        assert_eq!(ledger.error().mean_error_ratio, None);
        ledger.end("7", 100.0, true);
        let PredictionErrorView {
            jobs: count,
            mean_error_ratio: mean,
        } = ledger.error();
        assert_eq!(count, 1);
        let mean = mean.unwrap();
        assert!((mean - 0.2).abs() < 0.01, "{mean}");
        assert!(ledger.followed.is_empty());
    }

    #[test]
    fn an_interval_is_learned() {
        let mut ledger = Ledger::default();
        let before = ledger.around(100.0, 200.0);
        assert_eq!(before.finish_s, 200.0);
        // exp(2.015 * 0.2 * sqrt(1.2)) = 1.555
        assert!((before.high_s - 255.5).abs() < 0.1, "{before:?}");
        assert!((before.low_s - 164.3).abs() < 0.1, "{before:?}");
        // Each takes a tenth longer than predicted.
        for n in 0..100 {
            let job = n.to_string();
            ledger.note(&job, 0.0, 50.0, 100.0);
            ledger.end(&job, 105.0, true);
        }
        let after = ledger.around(100.0, 200.0);
        assert!((after.finish_s - 209.2).abs() < 0.1, "{after:?}");
        assert!(after.high_s - after.low_s < 25.0, "{after:?}");
        assert_eq!(ledger.error().jobs, ERRORS_MAX);
    }

    #[test]
    fn at_most_128_predictions_of_a_long_job_are_kept() {
        let mut ledger = Ledger::default();
        for at_s in 0..100_000 {
            ledger.note("7", 0.0, f64::from(at_s), 1e5);
        }
        let kept = &ledger.followed["7"].predictions;
        assert!(
            (PREDICTIONS_MAX / 2 - 1..PREDICTIONS_MAX).contains(&kept.len()),
            "{}",
            kept.len()
        );
        assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
        ledger.end("7", 1e5, true);
        assert!(ledger.error().mean_error_ratio.unwrap() < 0.01);
    }
}
