//! Lengths of tasks: geometric, from random numbers that do not depend on the policy.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The geometric distribution of the lengths of tasks that end in each time slot with the same
/// probability (`rate`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometric {
    /// The factor 1 / ln(1 - rate), at most 0, that turns the logarithm of a random number into a
    /// length.
    factor: f64,
}

impl Geometric {
    pub fn new(rate: f64) -> Self {
        Self {
            factor: 1.0 / (-rate).ln_1p(),
        }
    }

    /// Returns the length in slots, at least 1, of a task with this `luck` in (0, 1]: P(length >
    /// k) = (1 - rate)^k.
    pub fn slots(self, luck: f64) -> u32 {
        1 + (luck.ln() * self.factor) as u32
    }

    /// Returns the largest number of slots that a task can take, whatever random number
    /// ([`luck`]) is drawn for it.
    pub fn slots_max(self) -> u32 {
        self.slots(LEAST)
    }
}

/// The smallest random number that [`luck`] returns: above 0, so that its logarithm is finite.
const LEAST: f64 = 1.0 / (1_u64 << 53) as f64;

/// Returns the random number, uniform in (0, 1], that determines the length of task `index` of
/// job `job`. It is the same under every policy and wherever the task runs, so that policies are
/// compared on the same tasks.
pub(super) fn luck(seed: u64, job: u64, index: u32) -> f64 {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&job.to_le_bytes());
    bytes[8..].copy_from_slice(&index.to_le_bytes());
    ((xxh3_64_with_seed(&bytes, seed) >> 11) + 1) as f64 * LEAST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_geometric_with_the_mean_of_one_over_the_rate() {
        for rate in [1.0, 0.8, 0.2, 0.01] {
            let lengths = Geometric::new(rate);
            let n = 100_000;
            let drawn = (0..n).map(|index| lengths.slots(luck(7, 3, index)));
            let mean = drawn.map(f64::from).sum::<f64>() / f64::from(n);
            // The standard deviation of the mean is sqrt(1 - rate) / rate / sqrt(n).
            let sd = (1.0 - rate).sqrt() / rate / f64::from(n).sqrt();
            assert!((mean - 1.0 / rate).abs() <= 4.0 * sd, "{rate}: {mean}");
        }
    }

    #[test]
    fn nearer_is_never_slower_for_the_same_task() {
        let (near, far) = (Geometric::new(0.8), Geometric::new(0.2));
        for index in 0..1000 {
            let luck = luck(1, 0, index);
            assert!(near.slots(luck) <= far.slots(luck));
            assert!(far.slots(luck) <= far.slots_max());
        }
    }
}
