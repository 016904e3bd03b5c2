//! Ratios within a round, and what they come to over the rounds.

use serde::Serialize;

use super::window::Window;

/// Windows of one kind against the load alone, round by round: medians.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratios {
    /// Of the medians of latency.
    pub p50_over_alone: f64,
    /// Of the 99th percentiles.
    pub p99_over_alone: f64,
    /// Of the 99.9th percentiles.
    pub p999_over_alone: f64,
    /// Cores used by jobs over the cores that the load alone left idle.
    pub idle_cpu_used: f64,
    /// Of the block cache's hit rates; none where no block was asked for.
    pub cache_hits_over_alone: Option<f64>,
}

impl Ratios {
    /// `windows` against `alone`, the windows of the same rounds; at least one
    /// of each.
    pub fn new(windows: &[Window], alone: &[Window]) -> Self {
        let ratio =
            |of: fn(&Window) -> f64| median(windows.iter().zip(alone).map(|(w, a)| of(w) / of(a)));
        let idle_used = windows.iter().zip(alone);
        let idle_used = idle_used.map(|(w, a)| w.analytics_cores / a.idle_cores.max(1e-3));
        let hits: Option<Vec<f64>> = windows
            .iter()
            .zip(alone)
            .map(|(w, a)| Some(w.cache_hits? / a.cache_hits?))
            .collect();
        Self {
            p50_over_alone: ratio(|w| w.p50_us),
            p99_over_alone: ratio(|w| w.p99_us),
            p999_over_alone: ratio(|w| w.p999_us),
            idle_cpu_used: median(idle_used),
            cache_hits_over_alone: hits.map(median),
        }
    }
}

/// How far two windows of the load alone are apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Noise {
    /// The upper 95% of alone against alone, of the 99th percentiles.
    pub p99: f64,
    /// The same of the 99.9th percentiles.
    pub p999: f64,
}

impl Noise {
    /// Of the load alone, twice in each round; at least one round. Which of the
    /// two is called the second is chance, so each pair counts both ways.
    pub fn new(alone: &[Window], again: &[Window]) -> Self {
        let upper = |of: fn(&Window) -> f64| {
            let ratios = alone.iter().zip(again).map(|(a, b)| of(a) / of(b));
            let mut both: Vec<f64> = ratios.flat_map(|ratio| [ratio, 1.0 / ratio]).collect();
            both.sort_by(f64::total_cmp);
            both[((both.len() as f64 * 0.95).ceil() as usize).clamp(1, both.len()) - 1]
        };
        Self {
            p99: upper(|w| w.p99_us),
            p999: upper(|w| w.p999_us),
        }
    }
}

/// Of at least one value.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(p99_us: f64, analytics_cores: f64) -> Window {
        Window {
            p50_us: 100.0,
            p99_us,
            p999_us: 10.0 * p99_us,
            ops_per_s: 1000.0,
            operations_unserved: 0,
            transactional_cores: 0.6,
            analytics_cores,
            others_cores: 0.0,
            idle_cores: 1.4,
            cache_hits: None,
            allowed_min: None,
            scheduling_class: None,
            timeline: Vec::new(),
        }
    }

    #[test]
    fn ratios_are_medians_of_those_within_a_round() {
        let alone = [window(100.0, 0.0), window(400.0, 0.0), window(1000.0, 0.0)];
        let beside = [window(110.0, 1.4), window(400.0, 0.7), window(3000.0, 1.33)];
        let ratios = Ratios::new(&beside, &alone);
        assert!((ratios.p99_over_alone - 1.1).abs() < 1e-12, "{ratios:?}");
        assert!((ratios.p999_over_alone - 1.1).abs() < 1e-12);
        assert!((ratios.idle_cpu_used - 0.95).abs() < 1e-12);
        assert_eq!(ratios.cache_hits_over_alone, None);
    }

    #[test]
    fn noise_is_how_far_equal_windows_are_apart_either_way() {
        let noise = Noise::new(
            &[window(100.0, 0.0), window(120.0, 0.0)],
            &[window(110.0, 0.0), window(100.0, 0.0)],
        );
        assert!((noise.p99 - 1.2).abs() < 1e-12, "{noise:?}");
        assert!((noise.p999 - 1.2).abs() < 1e-12);
    }

    #[test]
    fn a_median_of_evenly_many_lies_between_two() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
