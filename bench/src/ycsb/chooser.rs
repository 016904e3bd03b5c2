//! Choosers: draw the record of an operation.
//!
//! The generators are those of YCSB, so that the hot sets are the same:
//!
//! - *zipfian* is its `ScrambledZipfianGenerator`: a rank drawn from a zipfian distribution over 10
//!   billion items (whatever the number of records), hashed by 64-bit FNV-1a and taken modulo the
//!   number of records. The hottest record gets about 1/26.5 of the requests, and hot records lie
//!   anywhere. The modulus is the number of records at the start of the run: a modulus that grew
//!   with inserts would give the hot ranks to other records at each insert. So only scans meet
//!   records that were inserted during a run.
//! - *latest* is its `SkewedLatestGenerator`: a zipfian rank over the current records, counted back
//!   from the newest.
//! - *uniform* draws from the current records.

use std::sync::LazyLock;

use rand::{Rng, RngExt};

use super::workload::Distribution;

/// The skew of YCSB's zipfian distribution.
pub const THETA: f64 = 0.99;

/// The number of ranks among which YCSB draws, whatever the number of records. YCSB then hashes the
/// drawn rank to a record.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// Draws record numbers from a distribution.
#[derive(Debug, Clone)]
pub struct Chooser(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Scrambled { ranks: Zipfian, records: u64 },
    Latest { ranks: Zipfian },
    Uniform,
}

impl Chooser {
    /// Creates a chooser for a run that starts with `records` records, at least 1.
    pub fn new(distribution: Distribution, records: u64) -> Self {
        assert!(records > 0, "there is nothing to choose from");
        Self(match distribution {
            Distribution::Zipfian => Kind::Scrambled {
                ranks: Zipfian::new(SCRAMBLED_ITEMS),
                records,
            },
            Distribution::Latest => Kind::Latest {
                ranks: Zipfian::new(records),
            },
            Distribution::Uniform => Kind::Uniform,
        })
    }

    /// Draws the number of a record, below `records_now`, which must never shrink between calls.
    pub fn choose(&mut self, records_now: u64, rng: &mut impl Rng) -> u64 {
        match &mut self.0 {
            Kind::Scrambled { ranks, records } => fnv1a(ranks.rank(rng)) % *records,
            Kind::Latest { ranks } => {
                ranks.grow(records_now);
                records_now - 1 - ranks.rank(rng)
            }
            Kind::Uniform => rng.random_range(0..records_now),
        }
    }
}

/// Draws ranks with probability proportional to `1 / (rank + 1)^THETA` (Gray et
/// al., Quickly Generating Billion-Record Synthetic Databases, SIGMOD 1994,
/// section 3.2).
#[derive(Debug, Clone)]
pub struct Zipfian {
    items: u64,
    zeta: f64,
    /// The sum of `1 / i^THETA` for `i` of 1 and 2.
    zeta_2: f64,
    eta: f64,
}

impl Zipfian {
    /// Creates a distribution over the ranks `0..items`; `items` is at least 1.
    pub fn new(items: u64) -> Self {
        assert!(items > 0, "no ranks to draw from");
        let (zeta, zeta_2) = (zeta(items), zeta_by_terms(2));
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta_2 / zeta);
        Self {
            items,
            zeta,
            zeta_2,
            eta,
        }
    }

    /// Extends the distribution to `0..items`, if that is larger.
    fn grow(&mut self, items: u64) {
        if items > self.items {
            *self = Self::new(items);
        }
    }

    /// Draws a rank; 0 is the most frequent.
    pub fn rank(&self, rng: &mut impl Rng) -> u64 {
        let u: f64 = rng.random();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < self.zeta_2 {
            return 1;
        }
        let spread = (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        // Rounding may reach `items`, and `as` saturates values that do not fit a u64.
        ((self.items as f64 * spread) as u64).min(self.items - 1)
    }
}

/// The number of terms that [`zeta`] adds one by one: enough for 12 digits of the tail.
const ZETA_TERMS: u64 = 64;
static ZETA_HEAD: LazyLock<f64> = LazyLock::new(|| zeta_by_terms(ZETA_TERMS));

/// Returns the sum of `1 / i^THETA` for `i` from 1 to `items`.
///
/// The Euler-Maclaurin formula gives the tail: adding up ten billion terms would take minutes, and
/// a growing number of items would need the sum repeatedly.
fn zeta(items: u64) -> f64 {
    if items <= ZETA_TERMS {
        return zeta_by_terms(items);
    }
    let (from, to) = (ZETA_TERMS as f64, items as f64);
    let integral = (to.powf(1.0 - THETA) - from.powf(1.0 - THETA)) / (1.0 - THETA);
    let ends = (to.powf(-THETA) - from.powf(-THETA)) / 2.0;
    let slopes = THETA / 12.0 * (from.powf(-THETA - 1.0) - to.powf(-THETA - 1.0));
    *ZETA_HEAD + integral + ends + slopes
}

fn zeta_by_terms(items: u64) -> f64 {
    (1..=items).map(|i| (i as f64).powf(-THETA)).sum()
}

/// Returns YCSB's hash of `n` (`Utils.fnvhash64`): FNV-1a over the bytes of `n`, the least
/// significant byte first. YCSB interprets this hash as a signed number, and takes its absolute
/// value.
fn fnv1a(n: u64) -> u64 {
    let hash = n
        .to_le_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |h, byte| {
            (h ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
    hash.cast_signed().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    const DRAWS: usize = 200_000;

    fn rng() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(7)
    }

    fn histogram(records: u64, mut draw: impl FnMut() -> u64) -> Vec<usize> {
        let mut counts = vec![0; records as usize];
        for _ in 0..DRAWS {
            counts[draw() as usize] += 1;
        }
        counts
    }

    #[track_caller]
    fn assert_near(measured: f64, expected: f64) {
        let relative = (measured - expected).abs() / expected;
        assert!(relative < 0.05, "{measured} is not near {expected}");
    }

    #[test]
    fn zeta_agrees_with_the_sum_and_with_the_constant_in_ycsb() {
        for items in [1, 2, 64, 65, 1000, 100_000] {
            let (fast, slow) = (zeta(items), zeta_by_terms(items));
            assert!((fast - slow).abs() < 1e-9, "{items}: {fast} {slow}");
        }
        assert!((zeta(SCRAMBLED_ITEMS) - 26.469_028_201_783_02).abs() < 1e-6);
    }

    #[test]
    fn ranks_have_the_frequencies_of_the_formula() {
        let (mut rng, n) = (rng(), 1000);
        let zipfian = Zipfian::new(n);
        let counts = histogram(n, || zipfian.rank(&mut rng));
        let share = |rank: usize| counts[rank] as f64 / DRAWS as f64;
        assert_near(share(0), 1.0 / zeta(n));
        assert_near(share(1), 0.5f64.powf(THETA) / zeta(n));
        let first_tenth = counts[..100].iter().sum::<usize>() as f64 / DRAWS as f64;
        assert_near(first_tenth, zeta(100) / zeta(n));
    }

    #[test]
    fn tiny_sets_of_ranks_are_complete_and_stay_inside() {
        let mut rng = rng();
        for n in 1..=4 {
            let zipfian = Zipfian::new(n);
            let counts = histogram(n, || zipfian.rank(&mut rng));
            assert!(counts.iter().all(|count| *count > 0), "{n}: {counts:?}");
        }
    }

    #[test]
    fn scrambled_covers_the_range_and_its_hottest_record_is_not_the_first() {
        let (mut rng, n) = (rng(), 1000);
        let mut chooser = Chooser::new(Distribution::Zipfian, n);
        let counts = histogram(n, || chooser.choose(n, &mut rng));
        assert!(counts.iter().all(|count| *count > 0), "every record is met");
        let (hottest, count) = counts.iter().enumerate().max_by_key(|(_, c)| **c).unwrap();
        assert_eq!(hottest as u64, fnv1a(0) % n);
        assert_ne!(hottest, 0);
        // The frequency of its own rank, and its part of the other ranks, which hash to all records
        // alike.
        let own = 1.0 / zeta(SCRAMBLED_ITEMS);
        let expected = own + (1.0 - own) / n as f64;
        assert_near(*count as f64 / DRAWS as f64, expected);
    }

    #[test]
    fn latest_prefers_the_newest_records_after_growth_too() {
        let mut rng = rng();
        let mut chooser = Chooser::new(Distribution::Latest, 100);
        for n in [100, 1000] {
            let counts = histogram(n, || chooser.choose(n, &mut rng));
            let newest = *counts.last().unwrap();
            assert_near(newest as f64 / DRAWS as f64, 1.0 / zeta(n));
            assert_eq!(counts.iter().max(), Some(&newest));
            let half = counts.len() / 2;
            let newer: usize = counts[half..].iter().sum();
            assert!(newer > DRAWS * 3 / 4, "{newer} of {DRAWS}");
        }
    }

    #[test]
    fn uniform_draws_all_records_equally_often() {
        let (mut rng, n) = (rng(), 20);
        let mut chooser = Chooser::new(Distribution::Uniform, n);
        for count in histogram(n, || chooser.choose(n, &mut rng)) {
            assert_near(count as f64, DRAWS as f64 / n as f64);
        }
    }
}
