//! Puts that expire: the form of their values, and the time at which a reader compares their
//! expiry.
//!
//! ```text
//!   expiry u64 LE, milliseconds since the Unix epoch | value
//! ```
//!
//! The expiry is absolute: it is computed once, at the commit, and every reader compares it
//! with the one time of that reader. An entry is gone from its expiry on.

use std::time::Duration;

use bytes::Bytes;

use crate::clock::MonotonicClock;
use crate::mutation::{self, Mutation};

/// The length, in bytes, of the expiry that is stored before the value of a put that expires.
pub(crate) const EXPIRY_BYTES: usize = size_of::<u64>();

/// Splits the stored value of a put that expires into the expiry, in milliseconds since the Unix
/// epoch, and the value that the user wrote.
///
/// # Panics
/// If `value` is shorter than an expiry. Code that reads versions from disk checks the length
/// first ([`Kind::fits`](crate::key::Kind::fits)).
pub(crate) fn split(value: &Bytes) -> (u64, Bytes) {
    let expiry = value.first_chunk().expect("an expiry stands before it");
    (u64::from_le_bytes(*expiry), value.slice(EXPIRY_BYTES..))
}

/// Returns a time to live in milliseconds, rounded up; `u64::MAX` if it is too long for a `u64`.
pub(crate) fn ttl_ms(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// The time with which the expiry of puts is compared.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReadTime<'a> {
    /// The time of one reader, which stays the same, in milliseconds since the Unix epoch.
    At(u64),
    /// The current time. The clock is read for each entry that has an expiry, and not otherwise.
    Now(&'a MonotonicClock),
    /// The earliest read time of several present and future readers, in milliseconds since the Unix
    /// epoch: an entry that has expired by then has expired for all of them.
    EarliestOf(u64),
}

/// The state of a put that expires, at a [`ReadTime`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Live,
    Expired,
    /// Live for the reader with the earliest time, and perhaps expired for others (only at
    /// [`ReadTime::EarliestOf`]).
    Undecided,
}

impl ReadTime<'_> {
    pub(crate) fn verdict(self, expiry_ms: u64) -> Verdict {
        let (now_ms, otherwise) = match self {
            Self::At(at_ms) => (at_ms, Verdict::Live),
            Self::Now(clock) => (clock.now_ms(), Verdict::Live),
            Self::EarliestOf(at_ms) => {
                let undecided = Verdict::Undecided;
                let live = Verdict::Live;
                (
                    at_ms,
                    mutation::replace(undecided, Mutation::FoldOntoExpiringPuts, live),
                )
            }
        };
        if expiry_ms <= now_ms {
            Verdict::Expired
        } else {
            otherwise
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_gone_from_its_expiry_on() {
        for (now_ms, expired) in [(0, false), (99, false), (100, true), (u64::MAX, true)] {
            let verdict = if expired {
                Verdict::Expired
            } else {
                Verdict::Live
            };
            assert_eq!(ReadTime::At(now_ms).verdict(100), verdict, "at {now_ms}");
        }
        assert_eq!(ReadTime::EarliestOf(99).verdict(100), Verdict::Undecided);
        assert_eq!(ReadTime::EarliestOf(100).verdict(100), Verdict::Expired);
    }

    #[test]
    fn a_time_to_live_is_never_cut_short() {
        for (ttl, ms) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(7), 7),
            (Duration::from_micros(7001), 8),
            (Duration::MAX, u64::MAX),
        ] {
            assert_eq!(ttl_ms(ttl), ms, "{ttl:?}");
        }
    }
}
