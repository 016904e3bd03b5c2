//! The agreement of single looks ahead with the run in which they were made.
//!
//! A victim follows from two looks ahead, one with the additional job and one without. These
//! figures show which of the two looks is wrong, and whether its ends are too early or too late.

use serde::Serialize;

use super::agreement::Agreement;
use super::outcome::{JobRun, TrialRun};
use crate::experiments::statistics::median_if_any;
use crate::number::fixed;

/// The agreement of the looks ahead of runs of one kind, with the additional job or without that
/// job, with these runs. Only jobs count that had not ended before the look.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Look {
    /// The agreement of the jobs that were predicted to miss their goals with those that missed
    /// them.
    pub late: Agreement,
    /// The median of the time from the prediction to the end of a job, divided by the time to the
    /// predicted end: above 1 if jobs end later than predicted. `None` without jobs.
    pub end_ratio: Option<f64>,
}

impl Look {
    /// Compares the look ahead that was made in each run, after the additional job was submitted
    /// or would have been, with the ends of the jobs.
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a TrialRun>) -> Self {
        let jobs: Vec<(&JobRun, f64, f64)> = (runs.into_iter())
            .flat_map(|run| &run.jobs)
            .filter_map(|job| Some((job, job.predicted_later_s?, job.goal_s?)))
            .collect();
        let ratios = jobs
            .iter()
            .filter(|(_, predicted_s, _)| *predicted_s > 0.0)
            .map(|(job, predicted_s, _)| job.finish_s / predicted_s);
        Self {
            late: Agreement::of(
                (jobs.iter()).map(|(job, predicted_s, goal_s)| (predicted_s > goal_s, !job.met)),
            ),
            end_ratio: median_if_any(ratios),
        }
    }

    pub fn text(&self) -> String {
        format!(
            "{}; ends after {} of the predicted time (median)",
            self.late.text(),
            fixed(self.end_ratio, 2)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::trial;
    use super::*;

    /// All jobs have a goal at 10 s, and are predicted to end at 9 s. Of three jobs, one ends after
    /// its goal, at 10.5 s, and the others at 9.5 s.
    #[test]
    fn a_look_is_compared_with_its_own_run() {
        let mut trial = trial(&[false; 3], &[(&[true, false, true], &[true; 3])]);
        let run = &mut trial.pairs[0].with;
        let counts = |of: Look| (of.late.predicted, of.late.real, of.late.both);
        let found = Look::of([&*run]);
        assert_eq!(counts(found), (0, 1, 0));
        assert_eq!(found.end_ratio, Some(9.5 / 9.0));
        run.jobs[0].predicted_later_s = Some(11.0);
        run.jobs[1].predicted_later_s = Some(10.5);
        run.jobs[2].predicted_later_s = None;
        assert_eq!(counts(Look::of([&*run])), (2, 1, 1));
        assert_eq!(Look::of([]).end_ratio, None);
    }
}
