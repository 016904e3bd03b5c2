//! Rate limits: a token bucket per key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The most buckets that are kept. When a key would need one more, the full buckets are dropped, which
/// changes nothing, because new ones are full. If no bucket is full, all are dropped.
const KEPT_MAX: usize = 4096;

/// A token bucket for each key, such as a client's address: it limits how often the key's events may happen.
#[derive(Debug)]
pub(super) struct Rates<K> {
    /// Tokens in a full bucket.
    burst: f64,
    /// Tokens that a bucket gains per second.
    per_s: f64,
    buckets: Mutex<HashMap<K, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    level: f64,
    at: Instant,
}

impl<K: Eq + Hash> Rates<K> {
    /// Creates buckets of `burst` tokens that gain `per_s` tokens per second. Both must be above 0.
    pub(super) fn new(burst: f64, per_s: f64) -> Self {
        Self {
            burst,
            per_s,
            buckets: Mutex::default(),
        }
    }

    /// Takes a token from the bucket of `key` at the time `now`. If the bucket has less than one token, takes
    /// nothing; the error is the number of seconds until the bucket has one.
    pub(super) fn take(&self, key: K, now: Instant) -> Result<(), f64> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= KEPT_MAX && !buckets.contains_key(&key) {
            buckets.retain(|_, bucket| self.level(*bucket, now) < self.burst);
            if buckets.len() >= KEPT_MAX {
                buckets.clear();
            }
        }
        let full = Bucket {
            level: self.burst,
            at: now,
        };
        let bucket = buckets.entry(key).or_insert(full);
        let level = self.level(*bucket, now);
        let left = if level < 1.0 { level } else { level - 1.0 };
        *bucket = Bucket {
            level: left,
            at: now,
        };
        if level < 1.0 {
            Err((1.0 - level) / self.per_s)
        } else {
            Ok(())
        }
    }

    fn level(&self, bucket: Bucket, now: Instant) -> f64 {
        let waited_s = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.level + waited_s * self.per_s).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_is_emptied_at_once_and_fills_with_time() {
        let rates = Rates::new(3.0, 2.0);
        let start = Instant::now(); // clock: the base of a manual clock
        let after = |ms| start + Duration::from_millis(ms);
        for _ in 0..3 {
            assert_eq!(rates.take("a", start), Ok(()));
        }
        assert_eq!(rates.take("a", start), Err(0.5));
        assert_eq!(rates.take("b", start), Ok(()), "it has its own");
        assert_eq!(rates.take("a", after(250)), Err(0.25));
        assert_eq!(rates.take("a", after(500)), Ok(()));
        assert!(rates.take("a", after(500)).is_err());
        // Never more than it holds.
        let taken = (0..10).filter(|_| rates.take("a", after(1_000_000)).is_ok());
        assert_eq!(taken.count(), 3);
    }

    #[test]
    fn no_more_are_remembered_than_fit() {
        let rates = Rates::new(1.0, 1e-9);
        let now = Instant::now(); // clock: the base of a manual clock
        for key in 0..3 * KEPT_MAX {
            assert_eq!(rates.take(key, now), Ok(()));
        }
        assert!(rates.buckets.lock().unwrap().len() <= KEPT_MAX);
    }
}
