//! How fast merges may go: bytes and times in, waits out.

use std::time::Duration;

/// What is not used is saved up for so long.
const BURST: Duration = Duration::from_millis(100);

/// Fills with tokens, one for each byte, at a rate.
#[derive(Debug)]
pub(super) struct TokenBucket {
    bytes_per_sec: f64,
    /// Below 0 while somebody has to wait.
    tokens: f64,
    /// When it was looked at last, since any fixed moment.
    at: Duration,
}

impl TokenBucket {
    /// A full one; `bytes_per_sec` of 0 counts as 1.
    pub(super) fn new(bytes_per_sec: u64) -> Self {
        let bytes_per_sec = bytes_per_sec.max(1) as f64;
        Self {
            bytes_per_sec,
            tokens: bytes_per_sec * BURST.as_secs_f64(),
            at: Duration::ZERO,
        }
    }

    /// Takes tokens, which may be more than there are, and says how long to wait
    /// until all that were taken have come in.
    pub(super) fn take(&mut self, bytes: u64, now: Duration) -> Duration {
        let earned = now.saturating_sub(self.at).as_secs_f64() * self.bytes_per_sec;
        let full = self.bytes_per_sec * BURST.as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + earned).min(full) - bytes as f64;
        let wait_s = (-self.tokens / self.bytes_per_sec).max(0.0);
        Duration::try_from_secs_f64(wait_s).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn tokens_come_at_the_rate_and_are_saved_up_for_a_moment() {
        let mut bucket = TokenBucket::new(1000);
        for (at, bytes, wait) in [
            (ms(0), 100, ms(0)),
            (ms(0), 0, ms(0)),
            (ms(0), 50, ms(50)),
            // Two who take at once wait for both.
            (ms(0), 50, ms(100)),
            (ms(60), 0, ms(40)),
            (ms(100), 0, ms(0)),
            (ms(150), 60, ms(10)),
            // However long nobody took any.
            (ms(100_000), 101, ms(1)),
            // A time that is not the latest counts as that.
            (ms(50_000), 0, ms(1)),
        ] {
            assert_eq!(bucket.take(bytes, at), wait, "{bytes} at {at:?}");
        }
    }

    #[test]
    fn over_a_long_time_the_rate_is_kept_whatever_the_chunks() {
        for chunk in [10, 999, 250_000] {
            let mut bucket = TokenBucket::new(1_000_000);
            let (mut now, mut taken) = (Duration::ZERO, 0);
            while now < Duration::from_secs(10) {
                now += bucket.take(chunk, now);
                taken += chunk;
            }
            let most = 10_000_000 + 100_000 + 2 * chunk;
            assert!((10_000_000..=most).contains(&taken), "{taken} by {chunk}");
        }
    }

    #[test]
    fn no_rate_and_no_size_is_too_extreme() {
        assert!(TokenBucket::new(0).take(u64::MAX, ms(1)) > Duration::from_secs(1 << 40));
        assert_eq!(TokenBucket::new(u64::MAX).take(1 << 40, ms(1)), ms(0));
    }
}
