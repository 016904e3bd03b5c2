//! Quantiles from counts in buckets, after DDSketch (Masson, Rim and Lee, VLDB 2019). The width of
//! a bucket is a fixed fraction of its values, so the relative error of a quantile is bounded,
//! whatever the values are. The sketches of parts add up to the sketch of the whole.

use std::collections::BTreeMap;

/// The largest relative error of a quantile: its distance from the exact quantile, as a fraction of
/// the exact one.
pub const RELATIVE_ERROR: f64 = 0.005;

/// The ratio of the upper end of a bucket to its lower end.
const GAMMA: f64 = (1.0 + RELATIVE_ERROR) / (1.0 - RELATIVE_ERROR);

/// A sketch of how numbers are distributed: the number of values in each bucket. The bucket `i` of
/// `positive` counts the values in `(GAMMA^(i-1), GAMMA^i]`, and the bucket `i` of `negative` the
/// values whose negatives lie there. All floats together need at most 150,000 buckets of each sign.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sketch {
    negative: BTreeMap<i32, u64>,
    zeros: u64,
    positive: BTreeMap<i32, u64>,
}

impl Sketch {
    pub(super) fn add(&mut self, value: f64) {
        let bucket = (value.abs().ln() / GAMMA.ln()).ceil() as i32;
        if value > 0.0 {
            *self.positive.entry(bucket).or_default() += 1;
        } else if value < 0.0 {
            *self.negative.entry(bucket).or_default() += 1;
        } else {
            self.zeros += 1;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.negative, &other.negative),
            (&mut self.positive, &other.positive),
        ] {
            for (&bucket, &count) in theirs {
                *mine.entry(bucket).or_default() += count;
            }
        }
        self.zeros += other.zeros;
    }

    /// Returns the quantile `q` (0 to 1), with a relative error of at most [`RELATIVE_ERROR`]: the
    /// smallest value such that at least this fraction of all values is less than or equal to it.
    /// `None` if there are no values.
    pub(super) fn quantile(&self, q: f64) -> Option<f64> {
        let middle = |bucket: i32| 2.0 * GAMMA.powi(bucket) / (GAMMA + 1.0);
        let negative = self.negative.iter().rev();
        let ascending = (negative.map(|(&bucket, &count)| (-middle(bucket), count)))
            .chain([(0.0, self.zeros)])
            .chain(
                self.positive
                    .iter()
                    .map(|(&bucket, &count)| (middle(bucket), count)),
            )
            .filter(|&(_, count)| count > 0);
        let counts = self.negative.values().chain(self.positive.values());
        let total = counts.sum::<u64>() + self.zeros;
        // The smallest value with at least this many at or below it.
        let rank = (q * total as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (value, count) in ascending {
            below += count;
            if below >= rank {
                return Some(value);
            }
        }
        None
    }

    /// Appends the sketch:
    ///
    /// ```text
    ///   zeros, u64 | negative buckets, u32 | positive buckets, u32
    ///   | per bucket, negative ones first: bucket, i32 | count, u64
    /// ```
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.zeros.to_le_bytes());
        bytes.extend((self.negative.len() as u32).to_le_bytes());
        bytes.extend((self.positive.len() as u32).to_le_bytes());
        for (bucket, count) in self.negative.iter().chain(&self.positive) {
            bytes.extend(bucket.to_le_bytes());
            bytes.extend(count.to_le_bytes());
        }
    }

    /// Decodes a sketch from the start of `bytes`, and removes the bytes that it took. Returns
    /// `None` if `bytes` do not begin with an encoded sketch.
    pub(super) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let zeros = u64::from_le_bytes(take(bytes)?);
        let negative = u32::from_le_bytes(take(bytes)?);
        let positive = u32::from_le_bytes(take(bytes)?);
        let mut buckets = |count: u32| {
            let bucket = |_| {
                let bucket = i32::from_le_bytes(take(bytes)?);
                Some((bucket, u64::from_le_bytes(take(bytes)?)))
            };
            (0..count).map(bucket).collect::<Option<_>>()
        };
        Some(Self {
            negative: buckets(negative)?,
            zeros,
            positive: buckets(positive)?,
        })
    }
}

/// Removes the first `N` bytes of `bytes` and returns them; `None` if there are fewer.
pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn quantiles_are_within_their_error_and_parts_add_up() {
        for seed in 0..20 {
            println!("seed {seed}");
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let count = rng.random_range(1..2000);
            let mut value = |_| {
                let magnitude = 10_f64.powf(rng.random_range(-8.0..8.0));
                magnitude * f64::from(rng.random_range(-1..3))
            };
            let mut values: Vec<f64> = (0..count).map(&mut value).collect();
            let mut whole = Sketch::default();
            let mut parts = [Sketch::default(), Sketch::default()];
            for (n, &value) in values.iter().enumerate() {
                whole.add(value);
                parts[n % 2].add(value);
            }
            let [mut first, second] = parts;
            first.merge(&second);
            assert_eq!(first, whole);
            values.sort_by(f64::total_cmp);
            for q in [0.0, 0.01, 0.5, 0.9, 0.99, 1.0] {
                let rank = ((q * f64::from(count)).ceil() as usize).max(1) - 1;
                let (exact, found) = (values[rank], whole.quantile(q).unwrap());
                let error = (found - exact).abs();
                assert!(
                    error <= exact.abs() * RELATIVE_ERROR * 1.000001,
                    "{found} {exact}"
                );
            }
        }
    }

    #[test]
    fn a_sketch_reads_back_from_its_bytes() {
        let mut sketch = Sketch::default();
        for value in [-3.0, 0.0, 1.0, 1.0, 1e300, 5e-324] {
            sketch.add(value);
        }
        let mut bytes = Vec::new();
        sketch.encode(&mut bytes);
        let cut = bytes.len() - 1;
        bytes.push(7);
        let mut rest = &bytes[..];
        assert_eq!(Sketch::decode(&mut rest), Some(sketch));
        assert_eq!(rest, [7]);
        assert_eq!(Sketch::decode(&mut &bytes[..cut]), None);
        assert_eq!(Sketch::default().quantile(0.5), None);
    }
}
