//! The prediction of a job's end that counts: the last one before half of the job's time had passed.

use ebb_scheduler::model::JobId;
use ebb_server::live::Ledger;
use serde::Serialize;

use super::day_run::Prediction;

/// The last prediction of a job's end that was made in the first half of the time from the job's
/// submission to its end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HalfWay {
    /// The time of the prediction, in seconds since the start of the day.
    pub at_s: f64,
    /// The predicted end, in seconds since the start of the day.
    pub finish_s: f64,
    /// The distance of the predicted from the real end of the job, divided by the time from the
    /// prediction to the real end.
    pub error_ratio: f64,
    /// The lower end of the interval for nine of ten cases that a server would have shown, in seconds since
    /// the start of the day. The interval is learned from the jobs of the day that had ended by then.
    pub low_s: f64,
    /// The upper end of this interval.
    pub high_s: f64,
    /// Whether the real end was within this interval.
    pub is_within: bool,
}

/// A job that has ended. Times are in seconds since the start of the day.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndedJob {
    pub(super) id: JobId,
    pub(super) submitted_s: f64,
    pub(super) finished_s: f64,
    pub(super) has_succeeded: bool,
}

impl HalfWay {
    /// Returns the prediction for `job` that counts. `None` if no prediction was made by half of its time, or the
    /// last one has no end. `jobs` are all jobs of the day, and `predictions` those of the day, the oldest first.
    pub(super) fn of(job: EndedJob, jobs: &[EndedJob], predictions: &[Prediction]) -> Option<Self> {
        let half_s = (job.submitted_s + job.finished_s) / 2.0;
        let mut of_job = predictions.iter().filter(|it| it.job == job.id);
        let last = of_job.rfind(|it| it.at_s <= half_s)?;
        let (at_s, finish_s) = (last.at_s, last.finish_s?);
        let end = ledger_at(at_s, jobs, predictions).around(at_s, finish_s);
        Some(Self {
            at_s,
            finish_s,
            error_ratio: (finish_s - job.finished_s).abs() / (job.finished_s - at_s),
            low_s: end.low_s,
            high_s: end.high_s,
            is_within: (end.low_s..=end.high_s).contains(&job.finished_s),
        })
    }
}

/// Returns the errors of the predictions for the jobs that had ended at `at_s`, as a server that started with the
/// day has them.
fn ledger_at(at_s: f64, jobs: &[EndedJob], predictions: &[Prediction]) -> Ledger {
    let mut ledger = Ledger::default();
    for job in jobs.iter().filter(|job| job.finished_s <= at_s) {
        let id = job.id.to_string();
        for prediction in predictions.iter().filter(|it| it.job == job.id) {
            if let Some(finish_s) = prediction.finish_s {
                ledger.note(&id, job.submitted_s, prediction.at_s, finish_s);
            }
        }
        ledger.end(&id, job.finished_s, job.has_succeeded);
    }
    ledger
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u64, finished_s: f64) -> EndedJob {
        EndedJob {
            id: JobId(id),
            submitted_s: 0.0,
            finished_s,
            has_succeeded: true,
        }
    }

    fn prediction(id: u64, at_s: f64, finish_s: f64) -> Prediction {
        Prediction {
            job: JobId(id),
            at_s,
            finish_s: Some(finish_s),
        }
    }

    #[test]
    fn the_last_prediction_of_the_first_half_counts() {
        let ended = job(1, 100.0);
        let predictions = [(40.0, 900.0), (50.0, 110.0), (60.0, 100.0)];
        let predictions = predictions.map(|(at_s, finish_s)| prediction(1, at_s, finish_s));
        let half_way = HalfWay::of(ended, &[ended], &predictions).unwrap();
        assert_eq!((half_way.at_s, half_way.finish_s), (50.0, 110.0));
        assert!((half_way.error_ratio - 0.2).abs() < 1e-9, "{half_way:?}");
        assert!(half_way.is_within, "{half_way:?}");
        assert!(HalfWay::of(ended, &[ended], &predictions[2..]).is_none());
        let other = job(2, 100.0);
        assert!(HalfWay::of(other, &[other], &predictions).is_none());
    }

    #[test]
    fn an_end_is_within_the_interval_that_was_learned_from_jobs_before() {
        // Each of eight jobs takes twice as long as predicted.
        let before: Vec<EndedJob> = (1..=8).map(|id| job(id, 30.0)).collect();
        let of_before = before.iter().map(|job| prediction(job.id.0, 10.0, 20.0));
        let mut predictions: Vec<Prediction> = of_before.collect();
        predictions.push(prediction(9, 40.0, 60.0));
        let late = job(9, 80.0);
        let alone = HalfWay::of(late, &[late], &predictions).unwrap();
        assert!(!alone.is_within, "{alone:?}");
        let all = [&before[..], &[late]].concat();
        let learned = HalfWay::of(late, &all, &predictions).unwrap();
        assert!(learned.is_within, "{learned:?}");
        // A job that ends later teaches nothing.
        let later: Vec<EndedJob> = before
            .iter()
            .map(|job| EndedJob {
                finished_s: 41.0,
                ..*job
            })
            .collect();
        let all = [&later[..], &[late]].concat();
        assert_eq!(HalfWay::of(late, &all, &predictions), Some(alone));
    }
}
