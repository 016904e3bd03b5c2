//! The outcome of a trial: its predicted victims, and its real ones.
//!
//! A job is a real victim if it meets its goal without the other job and misses it with that job.
//! So each trial runs the jobs both ways: only the run without the other job shows which jobs are
//! late in any case. Chance decides about goals that are nearly missed, so a trial
//! can have several pairs of runs. Then the majority counts.

use serde::Serialize;

/// A trial: the same jobs, run several times with an additional job and without. Each run predicts
/// the effect of the additional job on the others. The prediction of the first run with the
/// additional job is compared with the outcome; the others show how much predictions differ.
#[derive(Debug, Serialize)]
pub(super) struct Trial {
    pub pairs: Vec<RunPair>,
}

/// Two runs of the jobs of a trial: with the additional job, whose effect was predicted, and
/// without.
#[derive(Debug, Serialize)]
pub(super) struct RunPair {
    pub with: TrialRun,
    pub without: TrialRun,
}

/// A run of the jobs of a trial.
#[derive(Debug, Serialize)]
pub(super) struct TrialRun {
    /// The planned jobs in order, except for the additional job, whose effect was predicted.
    pub jobs: Vec<JobRun>,
    /// The additional job, whose effect was predicted. `None` in a run without that job.
    pub other: Option<OtherJob>,
    /// Mean capacity for jobs, in cores, that the governor determined in the control cycles from
    /// the prediction to the end of the last job.
    pub left_cores: f64,
}

/// A job in a run. Times are in seconds from the prediction.
#[derive(Debug, Serialize)]
pub(super) struct JobRun {
    pub goal_s: Option<f64>,
    /// The predicted end before the additional job was submitted. `None` if the job had ended, so
    /// that the additional job could not delay it, or if its predicted end was more than a week
    /// away.
    pub predicted_alone_s: Option<f64>,
    /// The predicted end after the additional job was submitted; in a run without that job, another
    /// prediction at about the same time.
    pub predicted_later_s: Option<f64>,
    /// Whether the prediction named the job as a victim: as missing its goal through the additional
    /// job.
    pub is_predicted_victim: bool,
    pub finish_s: f64,
    pub met: bool,
}

/// The additional job of a trial, whose effect on the others was predicted. Times are in seconds
/// from the prediction.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct OtherJob {
    pub predicted_finish_s: f64,
    pub finish_s: f64,
}

impl Trial {
    /// Returns the number of jobs, without the additional job, whose effect on them was predicted.
    pub fn jobs(&self) -> usize {
        self.first().map_or(0, |run| run.jobs.len())
    }

    /// Returns whether the prediction named the job with this index as a victim: as missing its
    /// goal through the additional job.
    pub fn is_predicted_victim(&self, job: usize) -> bool {
        let named = |run: &TrialRun| run.jobs[job].is_predicted_victim;
        self.first().is_some_and(named)
    }

    /// Returns whether the predictions of most runs, with the additional job and without, named the
    /// job with this index as a victim.
    pub fn is_predicted_by_most(&self, job: usize) -> bool {
        // There are twice as many runs as pairs.
        self.times_named(job) > self.pairs.len()
    }

    /// Returns the number of runs, with the additional job and without, whose predictions named the
    /// job with this index as a victim.
    pub fn times_named(&self, job: usize) -> usize {
        let runs = self
            .pairs
            .iter()
            .flat_map(|pair| [&pair.with, &pair.without]);
        runs.filter(|run| run.jobs[job].is_predicted_victim).count()
    }

    /// Returns the number of runs in which the job met its goal: of those with the additional job,
    /// and of those without.
    pub fn met(&self, job: usize) -> (usize, usize) {
        let (mut met_with, mut met_without) = (0, 0);
        for pair in &self.pairs {
            met_with += usize::from(pair.with.jobs[job].met);
            met_without += usize::from(pair.without.jobs[job].met);
        }
        (met_with, met_without)
    }

    /// Returns whether the job still ran when the prediction was made, met its goal in most runs
    /// without the additional job, and missed it in most runs with that job.
    pub fn is_victim(&self, job: usize) -> bool {
        let (met_with, met_without) = self.met(job);
        let pairs = self.pairs.len();
        self.was_running(job) && 2 * met_with < pairs && 2 * met_without > pairs
    }

    /// Returns whether chance does not show in the outcome of the job: all runs with the additional
    /// job agree on whether it met its goal, and so do all runs without that job. Always true for a
    /// single pair of runs.
    pub fn is_clear(&self, job: usize) -> bool {
        let pairs = self.pairs.len();
        let (met_with, met_without) = self.met(job);
        [met_with, met_without]
            .into_iter()
            .all(|met| met == 0 || met == pairs)
    }

    /// Returns whether the job still ran when the prediction was made and, in this pair of runs,
    /// met its goal only in the run without the additional job.
    pub fn is_victim_in(&self, pair: usize, job: usize) -> bool {
        let lost = |pair: &RunPair| pair.without.jobs[job].met && !pair.with.jobs[job].met;
        self.was_running(job) && self.pairs.get(pair).is_some_and(lost)
    }

    /// Returns |predicted end - end| of the additional job, whose effect was predicted, divided by
    /// the time that this job took. `None` if there is no run with that job.
    pub fn other_error_ratio(&self) -> Option<f64> {
        let other = self.first()?.other?;
        Some((other.predicted_finish_s - other.finish_s).abs() / other.finish_s)
    }

    /// Returns whether the job still ran at the prediction.
    pub fn was_running(&self, job: usize) -> bool {
        let ran = |run: &TrialRun| run.jobs[job].predicted_alone_s.is_some();
        self.first().is_some_and(ran)
    }

    /// Returns the first run with the additional job.
    fn first(&self) -> Option<&TrialRun> {
        self.pairs.first().map(|pair| &pair.with)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a run of jobs: `predicted` has for each job whether it was predicted to be a victim
    /// of the additional job, and `met` whether it met its goal. The additional job itself ran if
    /// `is_with_other`.
    fn run(is_with_other: bool, predicted: &[bool], met: &[bool]) -> TrialRun {
        let job = |(&is_predicted_victim, &met): (&bool, &bool)| JobRun {
            goal_s: Some(10.0),
            predicted_alone_s: Some(9.0),
            predicted_later_s: Some(9.0),
            is_predicted_victim,
            finish_s: if met { 9.5 } else { 10.5 },
            met,
        };
        TrialRun {
            jobs: predicted.iter().zip(met).map(job).collect(),
            other: is_with_other.then_some(OtherJob {
                predicted_finish_s: 1.5,
                finish_s: 1.0,
            }),
            left_cores: 1.9,
        }
    }

    /// Returns a trial of jobs with these predictions. Each of `pairs` has two lists of whether
    /// each job meets its goal: in the run with the additional job, and in the run without it.
    pub fn trial(predicted: &[bool], pairs: &[(&[bool], &[bool])]) -> Trial {
        let pair = |&(with, without): &(&[bool], &[bool])| RunPair {
            with: run(true, predicted, with),
            without: run(false, predicted, without),
        };
        Trial {
            pairs: pairs.iter().map(pair).collect(),
        }
    }

    fn victims(trial: &Trial) -> Vec<bool> {
        (0..trial.jobs()).map(|job| trial.is_victim(job)).collect()
    }

    #[test]
    fn a_job_that_is_late_without_the_other_job_too_is_no_victim() {
        let trial = trial(&[true, true], &[(&[false, false], &[true, false])]);
        assert_eq!(victims(&trial), [true, false]);
        assert_eq!(trial.other_error_ratio(), Some(0.5));
    }

    /// In three pairs of runs, the first job misses its goal twice with the other job, and never
    /// without that job. The second job misses its goal once with the other job and once without,
    /// so it is no victim.
    #[test]
    fn of_three_pairs_of_runs_the_majority_counts() {
        let trial = trial(
            &[false, false],
            &[
                (&[false, false], &[true, true]),
                (&[true, true], &[true, false]),
                (&[false, true], &[true, true]),
            ],
        );
        assert_eq!(victims(&trial), [true, false]);
        assert!(trial.is_victim_in(0, 0) && trial.is_victim_in(0, 1));
        assert!(!trial.is_victim_in(1, 0) && !trial.is_victim_in(3, 0));
    }

    /// The first job flips with the other job, and the second one without it.
    #[test]
    fn a_job_whose_runs_differ_is_not_clear() {
        let trial = trial(
            &[true, false, false],
            &[
                (&[false, false, false], &[true, true, true]),
                (&[true, false, false], &[true, false, true]),
            ],
        );
        assert_eq!(
            [0, 1, 2].map(|job| trial.is_clear(job)),
            [false, false, true]
        );
        assert_eq!(
            [0, 1, 2].map(|job| trial.met(job)),
            [(1, 2), (0, 1), (0, 2)]
        );
        assert_eq!(victims(&trial), [false, false, true]);
    }

    #[test]
    fn most_predictions_of_a_trial_can_differ_from_the_first_one() {
        let both: (&[bool], &[bool]) = (&[true], &[true]);
        let mut trial = trial(&[true], &[both, both]);
        assert!(trial.is_predicted_by_most(0));
        trial.pairs[0].without.jobs[0].is_predicted_victim = false;
        assert!(trial.is_predicted_by_most(0));
        trial.pairs[1].with.jobs[0].is_predicted_victim = false;
        assert!(!trial.is_predicted_by_most(0));
        assert!(trial.is_predicted_victim(0));
    }

    #[test]
    fn a_job_that_had_ended_before_the_prediction_is_no_victim() {
        let mut trial = trial(&[false, false], &[(&[false, false], &[true, true])]);
        trial.pairs[0].with.jobs[1].predicted_alone_s = None;
        assert_eq!(victims(&trial), [true, false]);
        assert!(!trial.is_victim_in(0, 1));
    }
}
