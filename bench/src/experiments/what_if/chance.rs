//! The part of chance in the outcomes: how often two runs of the same jobs differ.

use serde::Serialize;

use super::outcome::Trial;
use crate::number::percent;

/// How often the same jobs have different outcomes in two runs of the same kind: both with the
/// additional job, or both without that job. Only jobs count that still ran at the prediction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Chance {
    /// The number of jobs that were compared.
    pub jobs: usize,
    /// The probability, 0 to 1, that a job meets its goal in one run with the additional job, and
    /// misses it in another one.
    pub flip_with: f64,
    /// The same probability for two runs without the additional job.
    pub flip_without: f64,
    /// The probability, 0 to 1, that the prediction of one run names a job as a victim, and the
    /// prediction of another run of the trial does not.
    pub flip_of_prediction: f64,
}

impl Chance {
    /// Compares the runs of each trial. Returns `None` if no trial has several pairs of runs with a
    /// job to compare.
    pub fn of(trials: &[Trial]) -> Option<Self> {
        let (mut jobs, mut with, mut without, mut prediction) = (0_usize, 0.0, 0.0, 0.0);
        for trial in trials.iter().filter(|trial| trial.pairs.len() > 1) {
            let pairs = trial.pairs.len();
            for job in (0..trial.jobs()).filter(|job| trial.was_running(*job)) {
                let (met_with, met_without) = trial.met(job);
                jobs += 1;
                with += differ(met_with, pairs);
                without += differ(met_without, pairs);
                prediction += differ(trial.times_named(job), 2 * pairs);
            }
        }
        let mean = |sum: f64| sum / jobs as f64;
        (jobs > 0).then(|| Self {
            jobs,
            flip_with: mean(with),
            flip_without: mean(without),
            flip_of_prediction: mean(prediction),
        })
    }

    pub fn text(&self) -> String {
        format!(
            "two runs of the same kind differ for {} of {} jobs with the other job, {} without; \
             two predictions differ for {}",
            percent(self.flip_with, 1),
            self.jobs,
            percent(self.flip_without, 1),
            percent(self.flip_of_prediction, 1),
        )
    }
}

/// Returns the probability that two different ones of `runs` runs, at least 2, have different
/// outcomes, if `hits` of them have one outcome and all others have the other one.
fn differ(hits: usize, runs: usize) -> f64 {
    (2 * hits * (runs - hits)) as f64 / (runs * (runs - 1)) as f64
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::trial;
    use super::*;

    #[test]
    fn two_of_three_runs_differ_if_one_has_another_outcome() {
        assert_eq!(
            [0, 1, 2, 3].map(|hits| differ(hits, 3)),
            [0.0, 2.0 / 3.0, 2.0 / 3.0, 0.0]
        );
        assert_eq!([0, 1, 2].map(|hits| differ(hits, 2)), [0.0, 1.0, 0.0]);
    }

    /// The first of two jobs meets its goal in one of two runs with the other job. The second
    /// one always misses its goal with that job, and always meets it without.
    #[test]
    fn a_job_flips_if_the_same_run_ends_otherwise() {
        let pairs: [(&[bool], &[bool]); 2] = [
            (&[true, false], &[true, true]),
            (&[false, false], &[true, true]),
        ];
        let mut twice = trial(&[false, true], &pairs);
        let found = Chance::of(std::slice::from_ref(&twice)).unwrap();
        assert_eq!(
            (found.jobs, found.flip_with, found.flip_without),
            (2, 0.5, 0.0)
        );
        assert_eq!(found.flip_of_prediction, 0.0);
        twice.pairs[1].without.jobs[1].is_predicted_victim = false;
        let found = Chance::of(std::slice::from_ref(&twice)).unwrap();
        // Three of four predictions name the second job.
        assert_eq!(found.flip_of_prediction, 0.25);
        twice.pairs[0].with.jobs[0].predicted_alone_s = None;
        assert_eq!(Chance::of(&[twice]).unwrap().jobs, 1);
        assert_eq!(Chance::of(&[trial(&[true], &[(&[true], &[true])])]), None);
    }
}
