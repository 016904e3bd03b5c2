//! A token bucket: it limits the use of CPU time or of bytes to a rate.
//!
//! The bucket decides, and its owner waits. Use is charged after the fact, so a bucket can be in
//! debt, and its owner waits until the debt is paid.
//!
//! Crates such as `governor` admit whole tokens before use, at a rate that is fixed when the
//! limiter is made; pacing needs debt, fractions and a new rate in each control cycle. The bucket
//! is plain data under its owner's lock, so there are no interleavings of its own to model.

/// The answer of a [`Bucket`] to its owner: to go on, or to wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The bucket is not in debt: the owner may go on using CPU time or bytes.
    Go,
    /// The owner has to wait for this time, in seconds.
    WaitFor(f64),
    /// The rate is zero: the owner has to wait until it changes.
    Pause,
}

/// A token bucket. It fills at a rate, up to a burst, and may be in debt. The owner chooses the
/// unit of the tokens; times are in seconds and ascend.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    rate_per_s: f64,
    burst: f64,
    balance: f64,
    filled_s: f64,
}

impl Bucket {
    /// Creates an empty bucket with a rate of zero.
    pub fn new(now_s: f64) -> Self {
        Self {
            rate_per_s: 0.0,
            burst: 0.0,
            balance: 0.0,
            filled_s: now_s,
        }
    }

    /// Sets the rate and the burst from `now_s` on. The bucket first fills at the old rate until
    /// `now_s`.
    pub fn set_rate(&mut self, rate_per_s: f64, burst: f64, now_s: f64) {
        self.fill(now_s);
        self.rate_per_s = rate_per_s;
        self.burst = burst;
    }

    /// Charges an amount that was already used.
    pub fn charge(&mut self, amount: f64, now_s: f64) {
        self.fill(now_s);
        self.balance -= amount;
    }

    /// Returns whether the owner of the bucket may go on.
    pub fn verdict(&mut self, now_s: f64) -> Verdict {
        self.fill(now_s);
        if self.rate_per_s <= 0.0 {
            Verdict::Pause
        } else if self.balance >= 0.0 {
            Verdict::Go
        } else {
            Verdict::WaitFor(-self.balance / self.rate_per_s)
        }
    }

    fn fill(&mut self, now_s: f64) {
        let earned = (now_s - self.filled_s).max(0.0) * self.rate_per_s;
        self.balance = (self.balance + earned).min(self.burst);
        self.filled_s = now_s;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_core_pays_ten_milliseconds_in_twenty() {
        let mut bucket = Bucket::new(0.0);
        assert_eq!(bucket.verdict(0.0), Verdict::Pause);
        bucket.set_rate(0.5, 0.02, 0.0);
        assert_eq!(bucket.verdict(0.0), Verdict::Go);
        bucket.charge(0.010, 0.0);
        assert_eq!(bucket.verdict(0.0), Verdict::WaitFor(0.020));
        let Verdict::WaitFor(wait_s) = bucket.verdict(0.015) else {
            panic!("still in debt")
        };
        assert!((wait_s - 0.005).abs() < 1e-12);
        assert_eq!(bucket.verdict(0.0201), Verdict::Go);
    }

    #[test]
    fn savings_end_at_the_burst() {
        let mut bucket = Bucket::new(0.0);
        bucket.set_rate(2.0, 0.02, 0.0);
        assert_eq!(bucket.verdict(3600.0), Verdict::Go);
        assert_eq!(bucket.balance, 0.02);
    }

    #[test]
    fn a_new_rate_does_not_apply_to_the_past() {
        let mut bucket = Bucket::new(0.0);
        bucket.charge(1.0, 0.0);
        bucket.set_rate(1.0, 0.02, 10.0);
        assert_eq!(bucket.verdict(10.0), Verdict::WaitFor(1.0));
    }
}
