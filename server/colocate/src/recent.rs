//! The latest samples of an endless stream.

use std::collections::VecDeque;

/// The default number of samples of a stream: an hour of the guard's windows of 100 ms, and two and
/// a half hours of control cycles of 250 ms. Both together take at most 8 MB.
pub const SAMPLES_MAX_DEFAULT: usize = 36_000;

/// At most `samples_max` samples, oldest first; a further one displaces the oldest.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    samples: VecDeque<T>,
    samples_max: usize,
}

impl<T: Copy> Recent<T> {
    pub(crate) fn new(samples_max: usize) -> Self {
        Self {
            samples: VecDeque::new(),
            samples_max: samples_max.max(1),
        }
    }

    pub(crate) fn push(&mut self, sample: T) {
        if self.samples.len() == self.samples_max {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    pub(crate) fn last(&self) -> Option<T> {
        self.samples.back().copied()
    }

    /// Returns the samples, oldest first, that are newer than the latest one for which `is_new` is
    /// false.
    pub(crate) fn newest(&self, is_new: impl Fn(&T) -> bool) -> Vec<T> {
        let back = self.samples.iter().rev();
        let mut newest: Vec<T> = back.take_while(|sample| is_new(sample)).copied().collect();
        newest.reverse();
        newest
    }

    pub(crate) fn to_vec(&self) -> Vec<T> {
        self.samples.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GuardSample, LoadSample};

    #[test]
    fn the_oldest_go() {
        let mut recent = Recent::new(3);
        assert_eq!(recent.last(), None);
        (0..5).for_each(|number| recent.push(number));
        assert_eq!((recent.to_vec(), recent.last()), (vec![2, 3, 4], Some(4)));
        assert_eq!(recent.newest(|number| *number > 2), [3, 4]);
        assert!(recent.newest(|number| *number > 4).is_empty());
    }

    /// Regression: a governor kept all samples, 90 MB per day.
    #[test]
    fn samples_kept_by_default_take_8_mb_at_most() {
        let sample_bytes = size_of::<LoadSample>() + size_of::<GuardSample>();
        assert!(
            SAMPLES_MAX_DEFAULT * sample_bytes <= 8 << 20,
            "{sample_bytes}"
        );
    }
}
