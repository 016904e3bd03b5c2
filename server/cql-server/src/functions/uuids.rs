//! New uuids, and the times in uuids of version 1.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};

/// The time from 1582-10-15, the epoch of uuids, to 1970, in ticks of 100 ns.
const EPOCH_TICKS: i64 = 0x01b2_1dd2_1381_4000;
const TICKS_PER_US: i64 = 10;
const TICKS_PER_MS: i64 = 10_000;
/// The number of bits of the time in a uuid.
const TIME_BITS: u32 = 60;

/// A generator of uuids of version 1 (RFC 9562), each greater than all that it returned before.
#[derive(Debug)]
pub struct TimeUuids {
    last_ticks: AtomicI64,
    /// The clock sequence and the node of each uuid. They are random, so that clients do not see an
    /// address of this machine.
    node: [u8; 8],
}

impl TimeUuids {
    pub fn new() -> Self {
        let mut node: [u8; 8] = rand::random();
        // The variant, and the bit that marks the node as no network card's address.
        node[0] = node[0] & 0x3f | 0x80;
        node[2] |= 1;
        Self {
            last_ticks: AtomicI64::new(0),
            node,
        }
    }

    /// Returns a new uuid for `now_us`, microseconds since 1970. If an earlier uuid has this time or
    /// a later one, the new uuid has the next time after that.
    pub fn next(&self, now_us: i64) -> [u8; 16] {
        let now = ticks(now_us);
        let later = |last: i64| Some(now.max(last + 1));
        let last = (self.last_ticks).fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
        compose(now.max(last.unwrap_or(0) + 1), self.node)
    }
}

/// Returns a new uuid of version 1 for `now_us`, microseconds since 1970: the next one of a
/// generator that the whole process shares.
pub fn timeuuid(now_us: i64) -> [u8; 16] {
    static UUIDS: LazyLock<TimeUuids> = LazyLock::new(TimeUuids::new);
    UUIDS.next(now_us)
}

pub fn random() -> [u8; 16] {
    uuid::Builder::from_random_bytes(rand::random())
        .into_uuid()
        .into_bytes()
}

/// Returns the least uuid of version 1, in the order of `timeuuid`, for a millisecond since 1970.
/// `None` if the time is out of range.
pub fn least(ms: i64) -> Option<[u8; 16]> {
    at(ms.checked_mul(TICKS_PER_MS)?, [0x80; 8])
}

/// Returns the greatest uuid of version 1 for a millisecond since 1970. `None` if the time is out
/// of range.
pub fn greatest(ms: i64) -> Option<[u8; 16]> {
    let last = ms
        .checked_mul(TICKS_PER_MS)?
        .checked_add(TICKS_PER_MS - 1)?;
    at(last, [0x7f; 8])
}

/// Returns the uuid of version 1 for a time in ticks of 100 ns since 1970. `None` if the time is
/// out of range.
fn at(ticks: i64, node: [u8; 8]) -> Option<[u8; 16]> {
    let ticks = ticks.checked_add(EPOCH_TICKS)?;
    (0..1_i64 << TIME_BITS)
        .contains(&ticks)
        .then(|| compose(ticks, node))
}

/// Returns the time of a uuid of version 1 in milliseconds since 1970. As in Cassandra, a fraction
/// of a millisecond is rounded towards 1970.
pub fn unix_ms(uuid: &[u8; 16]) -> i64 {
    (ticks_of(uuid) / TICKS_PER_US - EPOCH_TICKS / TICKS_PER_US) / 1000
}

/// Returns the time of a uuid of version 1 in milliseconds since 1970. A fraction of a millisecond
/// is rounded down.
pub fn unix_ms_floor(uuid: &[u8; 16]) -> i64 {
    (ticks_of(uuid) - EPOCH_TICKS).div_euclid(TICKS_PER_MS)
}

/// Returns the time of a uuid of version 1 in ticks of 100 ns since 1582-10-15.
fn ticks_of(uuid: &[u8; 16]) -> i64 {
    let ticks = u64::from_be_bytes([
        uuid[6] & 0x0f,
        uuid[7],
        uuid[4],
        uuid[5],
        uuid[0],
        uuid[1],
        uuid[2],
        uuid[3],
    ]);
    // 60 bits.
    ticks as i64
}

fn ticks(us: i64) -> i64 {
    us.saturating_mul(10).saturating_add(EPOCH_TICKS)
}

fn compose(ticks: i64, node: [u8; 8]) -> [u8; 16] {
    let time = ticks.to_be_bytes();
    let mut out = [0; 16];
    out[..4].copy_from_slice(&time[4..]);
    out[4..6].copy_from_slice(&time[2..4]);
    out[6] = time[0] & 0x0f | 0x10;
    out[7] = time[1];
    out[8..].copy_from_slice(&node);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeuuids_increase_and_contain_their_time() {
        let now_us = 1_700_000_000_123_000;
        let (one, two) = (timeuuid(now_us), timeuuid(now_us));
        assert_ne!(one, two);
        assert!(unix_ms(&one) >= 1_700_000_000_123);
        assert_eq!(one[6] >> 4, 1);
        assert_eq!(unix_ms(&least(7).unwrap()), 7);
        assert_eq!(unix_ms(&greatest(7).unwrap()), 7);
    }

    #[test]
    fn timeuuids_increase_even_if_the_clock_does_not() {
        let uuids = TimeUuids::new();
        let at = 1_700_000_000_000_000;
        let made = [at, at, at - 9_000_000, at * 2].map(|now_us| uuids.next(now_us));
        let ticks = |uuid: &[u8; 16]| {
            let high = u64::from(u16::from_be_bytes([uuid[6], uuid[7]]) & 0x0fff);
            let middle = u64::from(u16::from_be_bytes([uuid[4], uuid[5]]));
            let low = u64::from(u32::from_be_bytes([uuid[0], uuid[1], uuid[2], uuid[3]]));
            high << 48 | middle << 32 | low
        };
        assert!(
            made.windows(2)
                .all(|uuids| ticks(&uuids[0]) < ticks(&uuids[1]))
        );
        assert_eq!(unix_ms(&made[0]), at / 1000);
        assert!(
            made.iter()
                .all(|uuid| uuid[6] >> 4 == 1 && uuid[8] >> 6 == 2)
        );
    }

    #[test]
    fn a_uuid_has_no_time_before_1582_or_after_5236() {
        const FIRST_MS: i64 = -12_219_292_800_000;
        const LAST_MS: i64 = FIRST_MS + ((1_i64 << 60) - 1) / 10_000;
        for ms in [FIRST_MS, 0, LAST_MS] {
            let least = least(ms).unwrap();
            assert_eq!((least[6] >> 4, unix_ms(&least)), (1, ms));
        }
        for ms in [FIRST_MS - 1, LAST_MS + 1, i64::MIN, i64::MAX] {
            assert_eq!((least(ms), greatest(ms)), (None, None), "{ms}");
        }
    }

    /// `unix_ms` rounds towards zero, as Cassandra's `TimeUUID.unix` does; `unix_ms_floor` rounds
    /// down, as its `UUIDGen.getAdjustedTimestamp` does.
    #[test]
    fn the_time_of_a_uuid_is_rounded_towards_1970_or_down() {
        for (uuid, towards_1970, down) in [
            (greatest(-5).unwrap(), -4, -5),
            (least(-5).unwrap(), -5, -5),
            (greatest(5).unwrap(), 5, 5),
            (least(5).unwrap(), 5, 5),
        ] {
            assert_eq!((unix_ms(&uuid), unix_ms_floor(&uuid)), (towards_1970, down));
        }
    }
}
