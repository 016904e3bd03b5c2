//! The bound on the lifetimes that clients give to snapshots.

use std::time::Duration;

/// The number of years in [`LIFETIME_MAX`].
pub const LIFETIME_YEARS_MAX: u64 = 1000;

/// The length of a year of 365.25 days, which is also the `year` of the arguments of commands and
/// of CQL's `ttl`. So 1000 years are the longest lifetime, and 1000 years and a second are too long.
const YEAR_S: u64 = 31_557_600;

/// The longest lifetime of a snapshot. It keeps the time of expiry far from the year 9999, after which
/// neither RFC 3339 nor the clients of CQL have times.
pub const LIFETIME_MAX: Duration = Duration::from_secs(LIFETIME_YEARS_MAX * YEAR_S);
