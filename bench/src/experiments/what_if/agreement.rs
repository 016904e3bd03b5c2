//! The agreement of predictions with the outcomes of jobs.

use serde::Serialize;

use crate::number::percent;

/// The 95th percentile of the standard normal distribution. An interval of this many standard
/// deviations on either side of the mean contains 9 of 10 cases.
const Z: f64 = 1.645;

/// The agreement of predictions with outcomes. Each job has a predicted event, or none, and a real
/// one, or none. The events are, for example, that the additional job makes this job late.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Agreement {
    /// The number of jobs with a predicted event.
    pub predicted: usize,
    /// The number of jobs with a real event.
    pub real: usize,
    /// The number of jobs with a real event that was predicted.
    pub both: usize,
    /// Precision: the fraction of the predicted events that were real, `both` divided by
    /// `predicted`. `None` if no event was predicted.
    pub precision: Option<f64>,
    /// The bounds of the interval that contains the true precision in 9 of 10 cases. `None` if no
    /// event was predicted. The jobs count as independent. Those of one trial are not, so the
    /// interval is somewhat too narrow.
    pub precision_interval: Option<[f64; 2]>,
    /// Recall: the fraction of the real events that were predicted, `both` divided by `real`.
    /// `None` if there was no real event.
    pub recall: Option<f64>,
    /// The bounds of the interval of the recall, like `precision_interval`. `None` if there was no
    /// real event.
    pub recall_interval: Option<[f64; 2]>,
}

impl Agreement {
    /// Counts the events of all jobs. For each job `jobs` has whether its event was predicted, and
    /// whether it was real.
    pub fn of(jobs: impl IntoIterator<Item = (bool, bool)>) -> Self {
        let (mut predicted, mut real, mut both) = (0, 0, 0);
        for (is_predicted, is_real) in jobs {
            predicted += usize::from(is_predicted);
            real += usize::from(is_real);
            both += usize::from(is_predicted && is_real);
        }
        let part = |of: usize| (of > 0).then(|| both as f64 / of as f64);
        Self {
            predicted,
            real,
            both,
            precision: part(predicted),
            precision_interval: wilson_interval(both, predicted),
            recall: part(real),
            recall_interval: wilson_interval(both, real),
        }
    }

    pub fn text(&self) -> String {
        let between = |interval: Option<[f64; 2]>| {
            interval.map_or_else(String::new, |[low, high]| {
                format!(" ({} to {})", percent(low, 0), percent(high, 0))
            })
        };
        format!(
            "{} predicted, {} real, {} both: precision {}{}, recall {}{}",
            self.predicted,
            self.real,
            self.both,
            percent(self.precision, 0),
            between(self.precision_interval),
            percent(self.recall, 0),
            between(self.recall_interval),
        )
    }
}

/// Returns the bounds of Wilson's interval for a probability, after `hits` of `tries`. It contains
/// the probability in 9 of 10 cases. `None` without a try.
fn wilson_interval(hits: usize, tries: usize) -> Option<[f64; 2]> {
    if tries == 0 {
        return None;
    }
    let count = tries as f64;
    let part = hits as f64 / count;
    let scale = 1.0 + Z * Z / count;
    let middle = (part + Z * Z / (2.0 * count)) / scale;
    let variance = part * (1.0 - part) / count + Z * Z / (4.0 * count * count);
    let half = Z * variance.sqrt() / scale;
    Some([(middle - half).max(0.0), (middle + half).min(1.0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_is_a_part_of_the_predicted_events_and_recall_of_the_real_ones() {
        let found = Agreement::of([(true, true), (true, false), (false, true), (false, true)]);
        assert_eq!((found.predicted, found.real, found.both), (2, 3, 1));
        assert_eq!(found.precision, Some(0.5));
        assert_eq!(found.recall, Some(1.0 / 3.0));
        let nothing = Agreement::of([(false, false)]);
        assert_eq!((nothing.precision, nothing.recall), (None, None));
        assert_eq!(nothing.precision_interval, None);
        assert!(nothing.text().ends_with("precision -, recall -"));
    }

    #[test]
    fn the_interval_is_wide_after_few_tries() {
        let near = |found: Option<[f64; 2]>, right: [f64; 2]| {
            let found = found.unwrap();
            let mut pairs = found.into_iter().zip(right);
            assert!(pairs.all(|(a, b)| (a - b).abs() < 1e-3), "{found:?}");
        };
        near(wilson_interval(12, 21), [0.396, 0.731]);
        near(wilson_interval(1, 1), [0.270, 1.0]);
        near(wilson_interval(0, 1), [0.0, 0.730]);
        assert_eq!(wilson_interval(0, 0), None);
    }
}
