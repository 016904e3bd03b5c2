//! The latencies of one window, in a form in which windows can be merged.

/// The number of buckets per doubling of the latency: the upper end of a bucket is about 2% above
/// the lower end.
const BUCKETS_IN_DOUBLING: f64 = 32.0;

/// A histogram of latencies, whose buckets are about 2% of their latency wide.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LatencyCounts {
    /// The index of each bucket that is not empty, and the number of latencies in it, ascending by
    /// index.
    ascending: Vec<(u16, u64)>,
}

impl FromIterator<(u64, u64)> for LatencyCounts {
    /// Collects latencies in nanoseconds with their counts, in any order.
    fn from_iter<T: IntoIterator<Item = (u64, u64)>>(nanos: T) -> Self {
        let counted = nanos.into_iter().filter(|(_, count)| *count > 0);
        let mut all: Vec<(u16, u64)> = counted
            .map(|(nanos, count)| (bucket(nanos), count))
            .collect();
        all.sort_unstable();
        let mut counts = Self::default();
        for (bucket, count) in all {
            counts.push(bucket, count);
        }
        counts
    }
}

impl LatencyCounts {
    fn push(&mut self, bucket: u16, count: u64) {
        match self.ascending.last_mut() {
            Some((last, counted)) if *last == bucket => *counted += count,
            _ => self.ascending.push((bucket, count)),
        }
    }

    /// Returns the number of latencies.
    pub fn total(&self) -> u64 {
        self.ascending.iter().map(|(_, count)| count).sum()
    }

    /// Returns the number of latencies in buckets above the bucket of `latency_us`.
    pub fn above_us(&self, latency_us: f64) -> u64 {
        let limit = bucket((latency_us * 1e3) as u64);
        let first = self
            .ascending
            .partition_point(|(bucket, _)| *bucket <= limit);
        self.ascending[first..].iter().map(|(_, count)| count).sum()
    }

    /// Returns the sum of all latencies, in microseconds, with an error of about 1% at most.
    pub fn sum_us(&self) -> f64 {
        let middle_us =
            |bucket: u16| ((f64::from(bucket) + 0.5) / BUCKETS_IN_DOUBLING).exp2() / 1e3;
        let buckets = self.ascending.iter();
        buckets
            .map(|(bucket, count)| middle_us(*bucket) * *count as f64)
            .fold(0.0, |sum, us| sum + us)
    }

    /// Adds the counts of another histogram.
    pub(crate) fn add(&mut self, more: &Self) {
        let mut all = std::mem::take(&mut self.ascending);
        all.extend_from_slice(&more.ascending);
        all.sort_unstable();
        for (bucket, count) in all {
            self.push(bucket, count);
        }
    }

    /// Returns the upper end of the bucket that contains a quantile (0 to 1), in microseconds;
    /// `None` if there are no latencies.
    pub(crate) fn quantile_us(&self, quantile: f64) -> Option<f64> {
        let mut left = ((self.total() as f64 * quantile).ceil() as u64).max(1);
        for (bucket, count) in &self.ascending {
            if *count >= left {
                let end_ns = (f64::from(*bucket + 1) / BUCKETS_IN_DOUBLING).exp2();
                return Some(end_ns / 1e3);
            }
            left -= count;
        }
        None
    }
}

fn bucket(nanos: u64) -> u16 {
    // There are at most 64 doublings.
    ((nanos.max(1) as f64).log2() * BUCKETS_IN_DOUBLING) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_counts_have_quantiles() {
        let mut counts: LatencyCounts = (1..=500).rev().map(|us| (us * 1000, 2)).collect();
        counts.add(&(501..=1000).map(|us| (us * 1000, 2)).collect());
        counts.add(&LatencyCounts::default());
        assert_eq!(counts.total(), 2000);
        assert!((counts.sum_us() / 1_001_000.0 - 1.0).abs() < 0.01);
        for (quantile, us) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = counts.quantile_us(quantile).unwrap();
            assert!((us..=us * (1.0 + 1.0 / 32.0)).contains(&found), "{found}");
        }
        let above = counts.above_us(900.0);
        assert!((150..=200).contains(&above), "{above}");
        assert_eq!(counts.above_us(1e9), 0);
        assert_eq!(LatencyCounts::default().quantile_us(0.5), None);
        let never: LatencyCounts = [(u64::MAX, 1), (5, 0)].into_iter().collect();
        assert_eq!((never.total(), never.above_us(1.0)), (1, 1));
    }
}
