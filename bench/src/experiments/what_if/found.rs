//! The results of all trials together.

use serde::Serialize;

use super::agreement::Agreement;
use super::chance::Chance;
use super::look::Look;
use super::outcome::Trial;
use super::trial::{Answer, MANY_JOBS};

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
    /// The agreement of the predicted victims with the real ones, only over jobs whose outcome does
    /// not show chance: all runs of the same kind agree. `None` if there is only one pair.
    clear_victims: Option<Agreement>,
    /// The agreement of the victims that most predictions of a trial named with the real ones. It
    /// shows whether the predictions of one moment differ from those of a moment like it. `None` if
    /// there is only one pair.
    by_most_predictions: Option<Agreement>,
    /// How often two runs of the same kind differ. `None` if there is only one pair.
    chance: Option<Chance>,
    /// The looks ahead with the additional job, compared with the runs with that job.
    look_with: Look,
    /// The looks ahead without the additional job, compared with the runs without that job.
    look_without: Look,
    /// The mean of |predicted end - end| of the additional job, whose effect on the others was
    /// predicted, divided by the time that this job took.
    other_error_ratio: f64,
    /// The duration of each prediction beside [`MANY_JOBS`] jobs, in the order of the requests.
    answers: Vec<Answer>,
}

impl Found {
    pub fn of(trials: Vec<Trial>, given_up: u32, answers: Vec<Answer>) -> Self {
        let is_repeated = trials.iter().any(|trial| trial.pairs.len() > 1);
        let predicted = Trial::is_predicted_victim;
        let first = |trial: &Trial, job: usize| trial.is_victim_in(0, job);
        let second = |trial: &Trial, job: usize| trial.is_victim_in(1, job);
        let agreement = |is_predicted: OfJob, is_real: OfJob| {
            over_jobs(&trials, |_, _| true, is_predicted, is_real)
        };
        let victims = agreement(predicted, Trial::is_victim);
        let by_first_pair = is_repeated.then(|| agreement(predicted, first));
        let by_repetition = is_repeated.then(|| agreement(second, first));
        let by_most_predictions =
            is_repeated.then(|| agreement(Trial::is_predicted_by_most, Trial::is_victim));
        let clear_victims =
            is_repeated.then(|| over_jobs(&trials, Trial::is_clear, predicted, Trial::is_victim));
        let pairs = || trials.iter().flat_map(|trial| &trial.pairs);
        let errors = trials.iter().filter_map(Trial::other_error_ratio);
        let errors = errors.sum::<f64>();
        Self {
            given_up,
            victims,
            by_first_pair,
            by_repetition,
            clear_victims,
            by_most_predictions,
            chance: Chance::of(&trials),
            look_with: Look::of(pairs().map(|pair| &pair.with)),
            look_without: Look::of(pairs().map(|pair| &pair.without)),
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
        if let Some(clear) = self.clear_victims {
            println!("only jobs whose runs agree: {}", clear.text());
        }
        if let Some(most) = self.by_most_predictions {
            println!("by most predictions of a trial: {}", most.text());
        }
        if let Some(chance) = self.chance {
            println!("{}", chance.text());
        }
        println!(
            "late jobs without the other job: {}",
            self.look_without.text()
        );
        println!("late jobs with the other job: {}", self.look_with.text());
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

/// A property of a job in a trial, from the trial and the index of the job.
type OfJob = fn(&Trial, usize) -> bool;

/// Returns the agreement of `is_predicted` with `is_real` over the jobs of all trials that `counts`
/// chooses.
fn over_jobs(trials: &[Trial], counts: OfJob, is_predicted: OfJob, is_real: OfJob) -> Agreement {
    let all = trials
        .iter()
        .flat_map(|trial| (0..trial.jobs()).map(move |job| (trial, job)));
    let chosen = all.filter(|(trial, job)| counts(trial, *job));
    Agreement::of(chosen.map(|(trial, job)| (is_predicted(trial, job), is_real(trial, job))))
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
    fn the_victims_of_all_trials_are_counted_together() {
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
        assert_eq!((found.clear_victims, found.chance), (None, None));
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
        assert_eq!(found.by_most_predictions.map(counts), Some((2, 2, 2)));
        // Only the first job has the same outcome in all runs of one kind.
        assert_eq!(found.clear_victims.map(counts), Some((1, 1, 1)));
    }
}
