//! The throttling of writers while background work is behind: numbers in, numbers out.
//!
//! ```text
//!   level     0 ───── soft ────────────── hard ──►
//!   pressure  0        0    (continuous)    1
//!   writers   pass freely │ are throttled   │ stall
//! ```
//!
//! Tokens are background work, in bytes flushed and merged. The price of a written byte rises
//! continuously with the pressure, from nothing, so writers slow down until background work keeps
//! up with them, and do not stop all at once.

use std::time::Duration;

/// The two limits of a level, such as a number of runs or memtables: writers are slowed above
/// `soft`, and stall at `hard`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limit {
    /// The level above which writers are slowed. A level up to this limit does not count as a
    /// backlog.
    pub(super) soft: f64,
    /// The level at which writers stall; at least `soft`.
    pub(super) hard: f64,
}

impl Limit {
    /// Returns the pressure on writers at a level: from 0 at the soft limit to 1 at the hard one
    /// and above.
    pub(super) fn pressure(self, level: f64) -> f64 {
        if level >= self.hard {
            return 1.0;
        }
        ((level - self.soft) / (self.hard - self.soft)).max(0.0)
    }
}

/// The limits of the number of runs of a table; they apply only while there is a merge to wait for.
/// The soft limit is the default picker's limit on the runs of a table.
pub(super) const RUNS: Limit = Limit {
    soft: 24.0,
    hard: 48.0,
};

/// Returns the limit for the memtables of a table. Writers wait once `frozen_max` memtables are
/// frozen and the open one is full. They are slowed above half of this limit, or above one memtable
/// if that is more, because some waiting memtables are normal.
pub(super) fn memtable_limit(frozen_max: usize) -> Limit {
    let hard = frozen_max as f64 + 1.0;
    Limit {
        soft: (hard / 2.0).max(1.0),
        hard,
    }
}

/// Returns how far the flushes of a table are behind: the number of frozen memtables, plus the size
/// of the open memtable as a fraction of a full one (at most 1). 0 if no memtable is frozen,
/// because no thread flushes the open one.
pub(super) fn memtable_level(frozen: usize, open_bytes: usize, bytes_max: usize) -> f64 {
    match frozen {
        0 => 0.0,
        _ => frozen as f64 + (open_bytes as f64 / bytes_max.max(1) as f64).min(1.0),
    }
}

/// The most tokens that a byte costs. Without this bound, a large write just below the hard limit
/// would leave so large a debt that writers still waited after the pressure had gone.
const PRICE_MAX: f64 = 64.0;

/// Returns the tokens that a write of `bytes` costs: none at a pressure of 0, one for each byte at
/// one half, and ever more towards 1.
pub(super) fn cost_bytes(bytes: usize, pressure: f64) -> u64 {
    let price = (pressure / (1.0 - pressure)).min(PRICE_MAX);
    (bytes as f64 * price).ceil() as u64
}

/// A write of this many bytes, or fewer, waits at most [`WAIT_UNIT`] for tokens. A larger one waits
/// in proportion, up to [`WAIT_UNITS_MAX`] times as long.
const WAIT_UNIT_BYTES: usize = 4 << 10;
const WAIT_UNIT: Duration = Duration::from_millis(1);
const WAIT_UNITS_MAX: usize = 8;

/// Returns the longest time that a write of `bytes` waits for tokens. Background work may bring no
/// tokens for a second, during a long fsync. In this second, one writer whose writes have up to 32
/// KiB writes 4 MiB at most, a part of a memtable.
pub(super) fn throttle_wait_max(bytes: usize) -> Duration {
    let units = bytes.div_ceil(WAIT_UNIT_BYTES).clamp(1, WAIT_UNITS_MAX);
    WAIT_UNIT * units as u32
}

/// The balance of tokens: flushes and merges add one for each byte, and throttled writes spend
/// them.
#[derive(Debug)]
pub(super) struct Tokens {
    /// The tokens that are left for writes; below 0 after a write that cost more than there were.
    balance_bytes: i64,
    max_bytes: i64,
}

impl Tokens {
    /// Returns a full balance. It never exceeds `max_bytes` (at least 1), however long no writer
    /// needs tokens.
    pub(super) fn new(max_bytes: usize) -> Self {
        let max_bytes = i64::try_from(max_bytes).unwrap_or(i64::MAX).max(1);
        Self {
            balance_bytes: max_bytes,
            max_bytes,
        }
    }

    pub(super) fn refill(&mut self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.balance_bytes = self.balance_bytes.saturating_add(bytes).min(self.max_bytes);
    }

    /// Spends `cost_bytes` if the balance is above 0; otherwise spends nothing and returns false. A
    /// write may cost more than the balance, or it could never be admitted: later writes wait until
    /// the debt is paid.
    pub(super) fn spend(&mut self, cost_bytes: u64) -> bool {
        if self.balance_bytes <= 0 {
            return false;
        }
        let cost_bytes = i64::try_from(cost_bytes).unwrap_or(i64::MAX);
        self.balance_bytes = self.balance_bytes.saturating_sub(cost_bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_rises_from_the_soft_to_the_hard_limit() {
        for (soft, hard, level, pressure) in [
            (2.0, 4.0, 0.0, 0.0),
            (2.0, 4.0, 2.0, 0.0),
            (2.0, 4.0, 2.5, 0.25),
            (2.0, 4.0, 3.0, 0.5),
            (2.0, 4.0, 4.0, 1.0),
            (2.0, 4.0, 9.0, 1.0),
            // Nothing between them.
            (1.0, 1.0, 0.0, 0.0),
            (1.0, 1.0, 0.9, 0.0),
            (1.0, 1.0, 1.0, 1.0),
        ] {
            let found = Limit { soft, hard }.pressure(level);
            assert_eq!(found, pressure, "{level} of {soft} to {hard}");
        }
        assert_eq!((RUNS.pressure(24.0), RUNS.pressure(48.0)), (0.0, 1.0));
        assert_eq!(RUNS.pressure(36.0), 0.5);
    }

    #[test]
    fn memtables_press_from_half_of_what_may_wait() {
        for (frozen_max, frozen, open, pressure) in [
            (3, 0, 100, 0.0),
            (3, 1, 100, 0.0),
            (3, 2, 0, 0.0),
            (3, 2, 50, 0.25),
            (3, 3, 0, 0.5),
            (3, 3, 100, 1.0),
            (3, 4, 0, 1.0),
            (1, 0, 500, 0.0),
            (1, 1, 0, 0.0),
            (1, 1, 50, 0.5),
            // More than a memtable holds is no more than a full one.
            (1, 1, 500, 1.0),
            (1, 2, 0, 1.0),
            (0, 0, 500, 0.0),
            (0, 1, 0, 1.0),
        ] {
            let level = memtable_level(frozen, open, 100);
            let found = memtable_limit(frozen_max).pressure(level);
            assert_eq!(found, pressure, "{frozen} of {frozen_max}, {open}%");
        }
    }

    /// A full memtable slows writers as much as one more frozen one, so freezing it changes
    /// nothing.
    #[test]
    fn a_full_memtable_presses_as_much_as_one_frozen_more() {
        for frozen_max in 0..5 {
            for frozen in 1..=frozen_max + 1 {
                let limit = memtable_limit(frozen_max);
                let full = limit.pressure(memtable_level(frozen, 100, 100));
                let frozen_more = limit.pressure(memtable_level(frozen + 1, 0, 100));
                assert_eq!(full, frozen_more, "{frozen} of {frozen_max}");
            }
        }
    }

    #[test]
    fn a_write_waits_for_tokens_in_proportion_to_its_size_within_bounds() {
        for (bytes, wait_ms) in [
            (0, 1),
            (4096, 1),
            (4097, 2),
            (20_000, 5),
            (32 << 10, 8),
            (usize::MAX, 8),
        ] {
            let wait = Duration::from_millis(wait_ms);
            assert_eq!(throttle_wait_max(bytes), wait, "{bytes}");
        }
    }

    #[test]
    fn the_cost_of_a_write_rises_continuously_from_nothing() {
        for (pressure, cost) in [
            (0.0, 0),
            (0.2, 250),
            (0.5, 1000),
            (0.75, 3000),
            (1.0, 64_000),
        ] {
            assert_eq!(cost_bytes(1000, pressure), cost, "{pressure}");
        }
        let cost = |thousandths| cost_bytes(1_000_000, f64::from(thousandths) / 1000.0);
        assert!((1..1000).all(|p| cost(p) >= cost(p - 1)));
        assert!((1..500).all(|p| cost(p) - cost(p - 1) < 5000));
        assert_eq!(cost_bytes(0, 1.0), 0);
    }

    /// Writes of any sizes cost, together, no more than the tokens that were there at the start,
    /// those that background work added, and the cost of one more write.
    #[test]
    fn writes_are_admitted_in_proportion_to_the_work_done() {
        for pressure in [0.1, 0.5, 0.9, 0.999] {
            for sizes in [&[100][..], &[1, 10_000], &[5000, 1, 1]] {
                let mut tokens = Tokens::new(1000);
                let mut sizes = sizes.iter().cycle().peekable();
                let (mut admitted, mut largest) = (0, 0);
                for _ in 0..10_000 {
                    tokens.refill(500);
                    while tokens.spend(cost_bytes(**sizes.peek().unwrap(), pressure)) {
                        let cost = cost_bytes(*sizes.next().unwrap(), pressure);
                        (admitted, largest) = (admitted + cost, largest.max(cost));
                    }
                }
                let brought = 500 * 10_000 + 1000;
                assert!(admitted >= brought - 500, "{admitted} at {pressure}");
                assert!(admitted < brought + largest, "{admitted} at {pressure}");
            }
        }
    }

    #[test]
    fn unused_tokens_are_not_hoarded() {
        let mut tokens = Tokens::new(100);
        tokens.refill(u64::MAX);
        assert!(tokens.spend(101) && !tokens.spend(0));
        tokens.refill(1);
        assert!(!tokens.spend(0));
        tokens.refill(1);
        assert!(tokens.spend(u64::MAX) && !tokens.spend(1));
    }
}
