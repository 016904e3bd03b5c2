//! The bound on the lifetimes that clients give to snapshots.

use std::time::Duration;

/// The number of years in [`LIFETIME_MAX`].
pub const LIFETIME_YEARS_MAX: u64 = 1000;

/// The longest lifetime of a snapshot. Neither RFC 3339 nor the clients of CQL have times
/// after the year 9999.
pub const LIFETIME_MAX: Duration = Duration::from_secs(LIFETIME_YEARS_MAX * 366 * 24 * 60 * 60);
