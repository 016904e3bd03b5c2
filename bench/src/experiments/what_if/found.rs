//! The results of all trials together.

use serde::Serialize;

use super::trial::{Answer, MANY_JOBS, Trial};
use crate::number::percent;

#[derive(Debug, Serialize)]
pub(super) struct Found {
    trials: Vec<Trial>,
    /// Trials that were given up. They count for nothing else.
    given_up: u32,
    /// Victims that were predicted.
    said: usize,
    /// Real victims.
    real: usize,
    /// Real victims that were predicted.
    both: usize,
    /// `both` over `said`. `None` if no victim was predicted.
    precision: Option<f64>,
    /// `both` over `real`. `None` if there was no real victim.
    recall: Option<f64>,
    /// |predicted end - end| of the other job over the time it took: the mean.
    other_error_ratio: f64,
    /// Times of predictions beside [`MANY_JOBS`] jobs, in the order of the requests.
    answers: Vec<Answer>,
}

impl Found {
    pub fn of(trials: Vec<Trial>, given_up: u32, answers: Vec<Answer>) -> Self {
        let sum = |of: fn(&Trial) -> usize| trials.iter().map(of).sum::<usize>();
        let both = |trial: &Trial| {
            let real = |id: &&String| trial.real.contains(id);
            trial.said.iter().filter(real).count()
        };
        let (said, real) = (sum(|trial| trial.said.len()), sum(|trial| trial.real.len()));
        let both = trials.iter().map(both).sum::<usize>();
        let part = |of: usize| (of > 0).then(|| both as f64 / of as f64);
        let error = |trial: &Trial| (trial.said_finish_s - trial.finish_s).abs() / trial.finish_s;
        let errors = trials.iter().map(error).sum::<f64>();
        Self {
            given_up,
            precision: part(said),
            recall: part(real),
            said,
            real,
            both,
            other_error_ratio: errors / trials.len().max(1) as f64,
            answers,
            trials,
        }
    }

    pub fn print(&self) {
        println!(
            "{} trials, {} given up: {} victims predicted, {} real, {} both: precision {}, recall {}",
            self.trials.len(),
            self.given_up,
            self.said,
            self.real,
            self.both,
            percent(self.precision, 0),
            percent(self.recall, 0)
        );
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
    use super::*;

    #[test]
    fn precision_is_a_part_of_predicted_victims_and_recall_of_real_ones() {
        let trial = |said: &[&str], real: &[&str]| Trial {
            in_time: 3,
            said: said.iter().map(ToString::to_string).collect(),
            real: real.iter().map(ToString::to_string).collect(),
            said_finish_s: 1.5,
            finish_s: 1.0,
            left_cores: 1.9,
            jobs: Vec::new(),
        };
        let trials = vec![
            trial(&["a", "b"], &["b"]),
            trial(&[], &[]),
            trial(&["c"], &["c", "d"]),
        ];
        let found = Found::of(trials, 0, Vec::new());
        assert_eq!((found.said, found.real, found.both), (3, 3, 2));
        assert_eq!(found.precision, Some(2.0 / 3.0));
        assert_eq!(found.other_error_ratio, 0.5);
        assert_eq!(Found::of(Vec::new(), 0, Vec::new()).recall, None);
    }
}
