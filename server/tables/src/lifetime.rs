//! The bound on the lifetimes that clients give to snapshots.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The number of years in [`LIFETIME_MAX`].
pub const LIFETIME_YEARS_MAX: u64 = 1000;

/// The longest lifetime of a snapshot. Clients of CQL and RFC 3339 have no times after the year 9999.
pub const LIFETIME_MAX: Duration = Duration::from_secs(LIFETIME_YEARS_MAX * 366 * 24 * 60 * 60);

/// The last second of the year 9999, since 1970.
const LAST_UNIX_S: u64 = 253_402_300_799;

/// Returns the time, or the end of the year 9999 if the time is later. A program that embeds the store
/// may have made a snapshot with a longer lifetime, and formatting its end would fail.
#[must_use]
pub fn before_year_10000(time: SystemTime) -> SystemTime {
    time.min(UNIX_EPOCH + Duration::from_secs(LAST_UNIX_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_after_the_year_9999_are_cut() {
        let at = |unix_s| UNIX_EPOCH + Duration::from_secs(unix_s);
        let last = at(LAST_UNIX_S);
        for (unix_s, expected) in [
            (0, UNIX_EPOCH),
            (LAST_UNIX_S, last),
            (LAST_UNIX_S + 1, last),
            (1 << 60, last),
        ] {
            assert_eq!(before_year_10000(at(unix_s)), expected, "{unix_s}");
        }
    }
}
