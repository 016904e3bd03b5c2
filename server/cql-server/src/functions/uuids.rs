//! Uuids that the server makes, and the times that those of version 1 carry.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

/// From 1582-10-15, where the time of a uuid begins, to 1970, in ticks of 100 ns.
const EPOCH_TICKS: i64 = 0x01b2_1dd2_1381_4000;

/// A new uuid of version 1 at `now_us`, microseconds since 1970; each is greater than all
/// that this process made before.
pub fn timeuuid(now_us: i64) -> [u8; 16] {
    static LAST_TICKS: AtomicI64 = AtomicI64::new(0);
    static NODE: OnceLock<[u8; 8]> = OnceLock::new();
    let now = ticks(now_us);
    let next = |last: i64| Some(now.max(last + 1));
    let last = LAST_TICKS.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    let ticks = now.max(last.unwrap_or(0) + 1);
    let node = NODE.get_or_init(|| {
        let mut node: [u8; 8] = rand::random();
        // The variant, and the bit of nodes that are no network card's.
        node[0] = node[0] & 0x3f | 0x80;
        node[2] |= 1;
        node
    });
    compose(ticks, *node)
}

/// A new uuid of version 4.
pub fn random() -> [u8; 16] {
    uuid::Builder::from_random_bytes(rand::random())
        .into_uuid()
        .into_bytes()
}

/// The least uuid of version 1 of a millisecond, in the order of `timeuuid`.
pub fn least(ms: i64) -> [u8; 16] {
    compose(ticks(ms.saturating_mul(1000)), [0x80; 8])
}

/// The greatest uuid of version 1 of a millisecond.
pub fn greatest(ms: i64) -> [u8; 16] {
    compose(
        ticks(ms.saturating_mul(1000)).saturating_add(9_999),
        [0x7f; 8],
    )
}

/// The milliseconds since 1970 that a uuid of version 1 says.
pub fn unix_ms(uuid: &[u8; 16]) -> i64 {
    let time = u64::from_be_bytes([
        uuid[6] & 0x0f,
        uuid[7],
        uuid[4],
        uuid[5],
        uuid[0],
        uuid[1],
        uuid[2],
        uuid[3],
    ]);
    (time as i64 - EPOCH_TICKS).div_euclid(10_000)
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
    fn timeuuids_rise_and_carry_their_time() {
        let now_us = 1_700_000_000_123_000;
        let (one, two) = (timeuuid(now_us), timeuuid(now_us));
        assert_ne!(one, two);
        assert!(unix_ms(&one) >= 1_700_000_000_123);
        assert_eq!(one[6] >> 4, 1);
        assert_eq!(unix_ms(&least(7)), 7);
        assert_eq!(unix_ms(&greatest(7)), 7);
    }
}
