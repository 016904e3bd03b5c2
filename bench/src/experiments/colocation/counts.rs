//! The latencies of a window, in a form in which windows can be merged, and drawn repeatedly.

use hdrhistogram::Histogram;

/// The latencies that occurred and their counts: a histogram without its empty buckets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Pairs of a latency in nanoseconds and how often it was measured (never 0), by ascending
    /// latency, without duplicates.
    ascending: Vec<(u64, u64)>,
}

impl From<&Histogram<u64>> for Counts {
    fn from(nanos: &Histogram<u64>) -> Self {
        let recorded = nanos.iter_recorded();
        let counted = recorded.map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()));
        Self {
            ascending: counted.collect(),
        }
    }
}

#[cfg(test)]
impl FromIterator<u64> for Counts {
    fn from_iter<T: IntoIterator<Item = u64>>(nanos: T) -> Self {
        let mut nanos: Vec<u64> = nanos.into_iter().collect();
        nanos.sort_unstable();
        let runs = nanos.chunk_by(|left, right| left == right);
        Self {
            ascending: runs.map(|run| (run[0], run.len() as u64)).collect(),
        }
    }
}

/// The measurement windows under one condition of the experiment, such as the load alone. They
/// share one list of latencies, so that the histogram of several windows is a sum of counts.
pub struct Pool {
    /// All distinct latencies that occur in any of the windows, ascending, in nanoseconds.
    latencies: Vec<u64>,
    /// For each window, pairs of a position in `latencies` and the number of operations that took
    /// this long.
    windows: Vec<Vec<(u32, u64)>>,
}

impl Pool {
    pub fn new<'a>(windows: impl IntoIterator<Item = &'a Counts>) -> Self {
        let windows: Vec<&Counts> = windows.into_iter().collect();
        let all = windows.iter().flat_map(|window| &window.ascending);
        let mut latencies: Vec<u64> = all.map(|(nanos, _)| *nanos).collect();
        latencies.sort_unstable();
        latencies.dedup();
        let position = |nanos: &u64| latencies.partition_point(|it| it < nanos) as u32;
        let placed = |window: &&Counts| {
            let counts = window.ascending.iter();
            counts
                .map(|(nanos, count)| (position(nanos), *count))
                .collect()
        };
        Self {
            windows: windows.iter().map(placed).collect(),
            latencies,
        }
    }

    pub fn len(&self) -> usize {
        self.windows.len()
    }

    /// Returns the `quantiles` (each 0 to 1) of the latencies of all windows, in microseconds; NaN
    /// without operations.
    pub fn all_us<const N: usize>(&self, quantiles: [f64; N]) -> [f64; N] {
        self.quantiles_us(0..self.len(), quantiles)
    }

    /// Returns the `quantiles` (each 0 to 1) of the latencies of the windows at the positions
    /// `drawn`, in microseconds. A window that is drawn twice counts twice. NaN without operations.
    pub fn quantiles_us<const N: usize>(
        &self,
        drawn: impl Iterator<Item = usize>,
        quantiles: [f64; N],
    ) -> [f64; N] {
        let mut counts = vec![0_u64; self.latencies.len()];
        let mut all = 0;
        for window in drawn {
            for (position, count) in &self.windows[window] {
                counts[*position as usize] += count;
                all += count;
            }
        }
        let mut found = [f64::NAN; N];
        for (quantile, found) in quantiles.iter().zip(&mut found) {
            let rank = ((all as f64 * quantile).ceil() as u64).max(1);
            let mut passed = 0;
            let holds_rank = |count: &u64| {
                passed += count;
                passed >= rank
            };
            if let Some(position) = counts.iter().position(holds_rank) {
                *found = self.latencies[position] as f64 / 1e3;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_all_windows_together() {
        let quiet: Counts = (1..=99).map(|us| us * 1000).collect();
        let stalled: Counts = [5_000_000].into_iter().collect();
        let pool = Pool::new([&quiet, &stalled]);
        assert_eq!(pool.len(), 2);
        let of = |drawn: &[usize]| pool.quantiles_us(drawn.iter().copied(), [0.5, 0.99, 0.999]);
        assert_eq!(of(&[0, 1]), [50.0, 99.0, 5000.0]);
        assert_eq!(of(&[0, 1, 1]), [51.0, 5000.0, 5000.0]);
        assert!(of(&[])[0].is_nan());
    }

    #[test]
    fn counts_of_a_histogram_are_its_buckets() {
        let mut nanos = Histogram::new_with_bounds(1, 1_000_000, 3).unwrap();
        for value in [7, 7, 900] {
            nanos.record(value).unwrap();
        }
        assert_eq!(Counts::from(&nanos), [7, 900, 7].into_iter().collect());
    }
}
