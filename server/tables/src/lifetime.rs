//! The bound on the lifetimes that clients give to snapshots.

use std::time::Duration;

/// The number of years in [`LIFETIME_MAX`].
pub const LIFETIME_YEARS_MAX: u64 = 1000;

/// The longest lifetime of a snapshot. Clients of CQL and RFC 3339 have no times after the year 9999.
pub const LIFETIME_MAX: Duration = Duration::from_secs(LIFETIME_YEARS_MAX * 366 * 24 * 60 * 60);
