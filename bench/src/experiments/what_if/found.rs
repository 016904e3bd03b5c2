//! The results of all trials together.

use serde::Serialize;

use super::outcome::Trial;
use super::trial::{Answer, MANY_JOBS};
use crate::number::percent;

#[derive(Debug, Serialize)]
pub(super) struct Found {
    trials: Vec<Trial>,
    /// The number of trials that were given up, because a run took much longer than its work. All
    /// other fields leave these trials out.
    given_up: u32,
    /// The agreement of the predicted victims, the jobs that miss their goals through the
    /// additional job, with the real ones.
    victims: Agreement,
    /// The agreement of the predicted victims (jobs that miss their goals through the additional
    /// job) with the victims in the first pair of runs: one run with that job, and one without.
    /// `None` if there is only one pair.
    by_first_pair: Option<Agreement>,
    /// The agreement of the victims (jobs that missed their goals through the additional job) in
    /// the second pair of runs with those in the first: it shows how much of the outcome is chance.
    /// `None` if there is only one pair.
    by_repetition: Option<Agreement>,
    /// The mean of |predicted end - end| of the additional job, whose effect on the others was
    /// predicted, divided by the time that this job took.
    other_error_ratio: f64,
    /// The duration of each prediction beside [`MANY_JOBS`] jobs, in the order of the requests.
    answers: Vec<Answer>,
}

/// The agreement of predicted victims, the jobs that miss their goals through the additional job,
/// with real ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Agreement {
    /// The number of jobs that the prediction named as victims: as missing their goals through the
    /// additional job.
    predicted: usize,
    /// The number of jobs that really missed their goals through the additional job.
    real: usize,
    /// The number of jobs that missed their goals through the additional job, and were predicted
    /// to.
    both: usize,
    /// Precision: the fraction of the predicted victims that were real ones, `both` divided by
    /// `predicted`. `None` if no victim was predicted.
    precision: Option<f64>,
    /// Recall: the fraction of the real victims (jobs that really missed their goals through the
    /// additional job) that were predicted, `both` divided by `real`. `None` if there was no real
    /// victim.
    recall: Option<f64>,
}

impl Agreement {
    /// Counts the jobs of all trials that are victims according to `is_predicted`, to `is_real`,
    /// and to both. Both functions get a trial and the index of a job.
    fn of(
        trials: &[Trial],
        is_predicted: fn(&Trial, usize) -> bool,
        is_real: fn(&Trial, usize) -> bool,
    ) -> Self {
        let (mut predicted, mut real, mut both) = (0, 0, 0);
        for trial in trials {
            for job in 0..trial.jobs() {
                let (in_prediction, in_runs) = (is_predicted(trial, job), is_real(trial, job));
                predicted += usize::from(in_prediction);
                real += usize::from(in_runs);
                both += usize::from(in_prediction && in_runs);
            }
        }
        let part = |of: usize| (of > 0).then(|| both as f64 / of as f64);
        Self {
            predicted,
            real,
            both,
            precision: part(predicted),
            recall: part(real),
        }
    }

    fn text(&self) -> String {
        format!(
            "{} predicted, {} real, {} both: precision {}, recall {}",
            self.predicted,
            self.real,
            self.both,
            percent(self.precision, 0),
            percent(self.recall, 0)
        )
    }
}

impl Found {
    pub fn of(trials: Vec<Trial>, given_up: u32, answers: Vec<Answer>) -> Self {
        let is_repeated = trials.iter().any(|trial| trial.pairs.len() > 1);
        let predicted = Trial::is_predicted_victim;
        let first = |trial: &Trial, job: usize| trial.is_victim_in(0, job);
        let second = |trial: &Trial, job: usize| trial.is_victim_in(1, job);
        let errors = trials.iter().filter_map(Trial::other_error_ratio);
        let errors = errors.sum::<f64>();
        Self {
            given_up,
            victims: Agreement::of(&trials, predicted, Trial::is_victim),
            by_first_pair: is_repeated.then(|| Agreement::of(&trials, predicted, first)),
            by_repetition: is_repeated.then(|| Agreement::of(&trials, second, first)),
            other_error_ratio: errors / trials.len().max(1) as f64,
            answers,
            trials,
        }
    }

    pub fn print(&self) {
        println!(
            "{} trials, {} given up; victims: {}",
            self.trials.len(),
            self.given_up,
            self.victims.text()
        );
        if let (Some(first), Some(repetition)) = (self.by_first_pair, self.by_repetition) {
            println!("by the first pair of runs alone: {}", first.text());
            println!(
                "the second pair as a prediction of the first: {}",
                repetition.text()
            );
        }
        println!(
            "end of the other job: off by {:.1}% of the time it took, on average",
            self.other_error_ratio * 100.0
        );
        let over_http = sorted(&self.answers, |answer| answer.over_http_ms);
        let in_server = sorted(&self.answers, |answer| answer.in_server_ms);
        if let (Some(longest), Some(server_longest)) = (over_http.last(), in_server.last()) {
            println!(
                "beside {MANY_JOBS} jobs, {} questions: answered over HTTP in {:.1} ms (median), \
                 {longest:.1} ms (longest); of that in the server {:.1} and {server_longest:.1} ms",
                over_http.len(),
                over_http[over_http.len() / 2],
                in_server[in_server.len() / 2],
            );
        }
    }
}

fn sorted(answers: &[Answer], of: fn(&Answer) -> f64) -> Vec<f64> {
    let mut times: Vec<f64> = answers.iter().map(of).collect();
    times.sort_by(f64::total_cmp);
    times
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::trial;
    use super::*;

    #[test]
    fn precision_is_a_part_of_predicted_victims_and_recall_of_real_ones() {
        let trials = vec![
            trial(&[true, true], &[(&[true, false], &[true, true])]),
            trial(&[false], &[(&[true], &[true])]),
            trial(
                &[true, false, false],
                &[(&[false, false, false], &[true, true, true])],
            ),
        ];
        let found = Found::of(trials, 0, Vec::new());
        let victims = found.victims;
        assert_eq!((victims.predicted, victims.real, victims.both), (3, 4, 2));
        assert_eq!(victims.precision, Some(2.0 / 3.0));
        assert_eq!(victims.recall, Some(0.5));
        assert_eq!(found.other_error_ratio, 0.5);
        assert_eq!((found.by_first_pair, found.by_repetition), (None, None));
        let nothing = Found::of(Vec::new(), 0, Vec::new()).victims;
        assert_eq!((nothing.precision, nothing.recall), (None, None));
    }

    #[test]
    fn a_repetition_is_a_prediction_of_the_first_pair() {
        let all: &[bool] = &[true, true, true];
        let trials = vec![trial(
            &[true, true, false],
            &[
                (&[false, true, false], all),
                (&[false, false, true], all),
                (&[false, false, true], all),
            ],
        )];
        let found = Found::of(trials, 0, Vec::new());
        let counts = |of: Agreement| (of.predicted, of.real, of.both);
        assert_eq!(counts(found.victims), (2, 2, 2));
        assert_eq!(found.by_first_pair.map(counts), Some((2, 2, 1)));
        assert_eq!(found.by_repetition.map(counts), Some((2, 2, 1)));
    }
}
