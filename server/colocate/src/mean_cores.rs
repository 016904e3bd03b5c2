//! The mean number of cores that a load used, over measurements of different lengths.

/// The mean of measurements of a load. Each measurement has the weight of its length.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MeanCores {
    /// The core-seconds that the load used in all measurements.
    used_s: f64,
    /// The length of all measurements, in seconds.
    seconds: f64,
}

impl MeanCores {
    /// Returns the mean of one measurement: the load used `cores` cores over `length_s` seconds. A negative
    /// `cores` counts as 0. Returns `None` if the length is not positive, or a number is not finite, as after a
    /// division by a time of 0.
    pub fn of(length_s: f64, cores: f64) -> Option<Self> {
        let used_s = cores.max(0.0) * length_s;
        // `f64::max` turns NaN into 0, so `used_s` alone does not show that `cores` is a number.
        let is_measured = length_s > 0.0 && cores.is_finite() && used_s.is_finite();
        is_measured.then_some(Self {
            used_s,
            seconds: length_s,
        })
    }

    /// Adds other measurements.
    pub fn add(&mut self, other: Self) {
        self.used_s += other.used_s;
        self.seconds += other.seconds;
    }

    /// Returns the length of all measurements, in seconds.
    pub fn seconds(self) -> f64 {
        self.seconds
    }

    /// Returns the mean, in cores; `None` without a measurement.
    pub fn mean(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.used_s / self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_weighted_by_their_length() {
        let mut mean = MeanCores::default();
        assert_eq!((mean.seconds(), mean.mean()), (0.0, None));
        for (length_s, cores) in [(0.75, 1.0), (0.25, 2.0), (1.0, -3.0)] {
            mean.add(MeanCores::of(length_s, cores).unwrap());
        }
        assert_eq!((mean.seconds(), mean.mean()), (2.0, Some(0.625)));
    }

    /// Regression: a measurement whose length is not finite left a slot without a mean.
    #[test]
    fn measurements_that_are_not_finite_or_have_no_length_are_refused() {
        let (inf, nan, max) = (f64::INFINITY, f64::NAN, f64::MAX);
        for (length_s, cores) in [
            (0.0, 1.0),
            (-1.0, 1.0),
            (inf, 1.0),
            (inf, 0.0),
            (nan, 1.0),
            (1.0, inf),
            (1.0, -inf),
            (1.0, nan),
            (2.0, max),
        ] {
            assert_eq!(MeanCores::of(length_s, cores), None, "{length_s}, {cores}");
        }
    }
}
