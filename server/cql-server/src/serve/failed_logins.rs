//! The limit on wrong passwords from one address.
//!
//! Each address has a bucket of tokens. Verifying a password takes a token, and a right password
//! returns it. Buckets refill evenly. While a bucket is empty, all logins from the address are
//! rejected, right passwords included: otherwise a guess would be confirmed.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time in which an empty bucket refills. In unit tests it is an hour, so that no bucket
/// refills while a test runs.
const FILLS_IN: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 60 });
/// The most addresses with a bucket of their own, which bounds the memory. All other addresses
/// share one bucket.
const ADDRESSES_MAX: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct FailedLogins {
    /// The tokens of a full bucket: the most wrong passwords that one address may try in a row. An
    /// empty bucket is full again after [`FILLS_IN`]. `None` for no limit.
    failures_max: Option<u32>,
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
    verified: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// The number of tokens in the bucket at the time `at`. Each token permits one attempt with a
    /// password.
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// Returns the number of tokens at `now`, with those that were refilled since the time `at`. A
    /// full bucket has `most` tokens.
    fn filled(self, now: Instant, most: u32) -> f64 {
        let most = f64::from(most);
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.tokens + passed / FILLS_IN.as_secs_f64() * most).min(most)
    }
}

impl FailedLogins {
    /// Creates the limit: each address may send `failures_max` wrong passwords in a row, and on
    /// average as many per minute. Zero is no limit. `logins_max` is the number of passwords that
    /// are verified at once.
    ///
    /// The limit is raised to `logins_max` + 1 if it is less. Each password takes a token of its
    /// address while it is verified, and right passwords alone must not use up the tokens.
    pub(super) fn new(failures_max: u32, logins_max: usize) -> Self {
        let least = u32::try_from(logins_max).map_or(u32::MAX, |most| most.saturating_add(1));
        Self {
            failures_max: (failures_max > 0).then_some(failures_max.max(least)),
            buckets: Mutex::default(),
            verified: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Returns whether the server may process a login from this address now. If not, counts a
    /// rejected login.
    pub(super) fn may_try(&self, address: IpAddr, now: Instant) -> bool {
        let Some(most) = self.failures_max else {
            return true;
        };
        let buckets = self.lock();
        let bucket = buckets.get(&place_of(address));
        let may = bucket.is_none_or(|bucket| bucket.filled(now, most) >= 1.0);
        self.count_refusal(may)
    }

    /// Takes a token for verifying a password from this address. Returns false, and counts a
    /// rejected login, if the address has no token left.
    pub(super) fn begin(&self, address: IpAddr, now: Instant) -> bool {
        let may = self.add(address, now, -1.0);
        if may {
            self.verified.fetch_add(1, Ordering::Relaxed);
        }
        self.count_refusal(may)
    }

    /// Counts a wrong password.
    pub(super) fn was_wrong(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Puts back the token that [`begin`](Self::begin) took from the bucket of the address, because
    /// the password was right.
    pub(super) fn was_right(&self, address: IpAddr, now: Instant) {
        self.add(address, now, 1.0);
    }

    /// Returns the number of verified passwords, the number of those that were wrong, and the
    /// number of logins that were rejected without verifying their passwords.
    pub(super) fn counts(&self) -> [u64; 3] {
        [&self.verified, &self.failed, &self.refused].map(|count| count.load(Ordering::Relaxed))
    }

    fn count_refusal(&self, may: bool) -> bool {
        if !may {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        may
    }

    /// Adds tokens to the bucket of an address, or takes them if the number is negative. Returns
    /// false, and changes nothing, if the bucket has too few tokens.
    fn add(&self, address: IpAddr, now: Instant, tokens: f64) -> bool {
        let Some(most) = self.failures_max else {
            return true;
        };
        let mut buckets = self.lock();
        let mut place = place_of(address);
        if buckets.len() >= ADDRESSES_MAX && !buckets.contains_key(&place) {
            buckets.retain(|_, bucket| bucket.filled(now, most) < f64::from(most));
            if buckets.len() >= ADDRESSES_MAX {
                place = Ipv6Addr::UNSPECIFIED.into();
            }
        }
        let full = Bucket {
            tokens: most.into(),
            at: now,
        };
        let bucket = buckets.entry(place).or_insert(full);
        let after = bucket.filled(now, most) + tokens;
        if after < 0.0 {
            return false;
        }
        *bucket = Bucket {
            tokens: after,
            at: now,
        };
        // A full bucket needs no entry.
        if bucket.filled(now, most) >= f64::from(most) {
            buckets.remove(&place);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Bucket>> {
        // Each change of a bucket is a single assignment, so a panic leaves it consistent.
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the key of an address's bucket: the address itself or, for IPv6, its first 64 bits,
/// because a client may choose the other bits.
fn place_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(network).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time from which a test computes all other times.
    fn begin() -> Instant {
        Instant::now() // clock: the base of a test's times
    }

    #[test]
    fn an_address_may_fail_as_often_as_its_bucket_has_tokens() {
        let logins = FailedLogins::new(3, 1);
        let (one, other): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let now = begin();
        for _ in 0..3 {
            assert!(logins.may_try(one, now) && logins.begin(one, now));
        }
        assert!(!logins.may_try(one, now) && !logins.begin(one, now));
        assert!(!logins.may_try("::ffff:10.0.0.1".parse().unwrap(), now));
        assert!(logins.begin(other, now));
        let later = now + FILLS_IN / 3;
        assert!(logins.begin(one, later) && !logins.begin(one, later));
        // Any number of right passwords costs no tokens.
        let later = later + FILLS_IN / 3;
        for _ in 0..10 {
            assert!(logins.begin(one, later));
            logins.was_right(one, later);
        }
        assert_eq!(logins.counts(), [15, 0, 4]);
        assert_eq!(logins.lock().len(), 2);
    }

    #[test]
    fn right_passwords_verified_at_once_do_not_block_others() {
        let logins = FailedLogins::new(1, 4);
        let (address, now) = (IpAddr::from([10, 0, 0, 1]), begin());
        assert!((0..4).all(|_| logins.begin(address, now)));
        assert!(logins.may_try(address, now));
        (0..4).for_each(|_| logins.was_right(address, now));
        assert!(logins.lock().is_empty());
    }

    #[test]
    fn full_buckets_are_removed_and_a_network_has_one() {
        let logins = FailedLogins::new(2, 1);
        let now = begin();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(logins.begin(address("2001:db8::1"), now));
        assert!(logins.begin(address("2001:db8::2"), now));
        assert!(!logins.begin(address("2001:db8::3"), now));
        assert!(logins.begin(address("2001:db8:0:1::1"), now));
        logins.was_right(address("2001:db8:0:1::1"), now);
        assert_eq!(logins.lock().len(), 1);
        let none = FailedLogins::new(0, 1);
        assert!((0..1000).all(|_| none.begin(address("::1"), now)));
    }

    #[test]
    fn the_memory_for_addresses_is_bounded() {
        let logins = FailedLogins::new(2, 1);
        let now = begin();
        for number in 0..(ADDRESSES_MAX as u32 + 100) {
            logins.begin(std::net::Ipv4Addr::from(number).into(), now);
        }
        assert!(logins.lock().len() <= ADDRESSES_MAX + 1);
        // By now these buckets are full again, and are removed.
        let later = now + FILLS_IN;
        assert!(logins.begin([99, 0, 0, 1].into(), later));
        assert_eq!(logins.lock().len(), 1);
    }
}
