//! A forecast that is off, as measured ones are.

use super::config::SimConfig;
use super::job::normal;
use crate::availability::{Availability, Step};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

/// How far the expected load is off: the logarithm of forecast over load is a
/// normal process of first order.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForecastError {
    /// Its standard deviation; positive and finite.
    pub log_sd: f64,
    /// In this time, in seconds, its correlation falls to 1/e; positive and finite.
    pub correlation_s: f64,
    /// The quantile of the load that policies are told, each step for itself, above
    /// 0 and below 1: 0.5 is the forecast; above, they reckon with less that is left.
    #[serde(default = "median")]
    pub quantile: f64,
}

const fn median() -> f64 {
    0.5
}

/// The forecast is a step function with steps of this length.
const STEP_S: f64 = 900.0;

impl ForecastError {
    /// What is expected of `config`'s availability, from 0 to its horizon. The same
    /// seed draws the same.
    ///
    /// The load is what f(t) takes from the whole cluster; the expected load is never
    /// more than all of it.
    #[must_use]
    pub fn draw(&self, config: &SimConfig, seed: u64) -> Availability {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // Apart from the streams of task lengths, of the generator and of replicas.
        rng.set_stream(u64::MAX - 2);
        let whole = config.cpu_hundredths();
        let kept = (-STEP_S / self.correlation_s).exp();
        let fresh = self.log_sd * (1.0 - kept * kept).sqrt();
        let mut error = self.log_sd * normal(&mut rng);
        let careful = distrs::Normal::ppf(self.quantile, 0.0, self.log_sd);
        let steps = (0..(config.horizon_s / STEP_S).ceil().max(1.0) as usize).map(|step| {
            let from_s = step as f64 * STEP_S;
            let load = whole - config.availability.mean(from_s, from_s + STEP_S);
            let expected = load.max(0.0) * (error + careful).exp();
            error = kept * error + fresh * normal(&mut rng);
            Step {
                from_s,
                hundredths: (whole - expected).max(0.0),
            }
        });
        Availability::steps(steps.collect()).expect("finite steps in order")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_as_large_and_as_lasting_as_asked_for() {
        let f = Availability::constant(7000.0).unwrap();
        let mut config = SimConfig::one_slot_nodes(100, f);
        config.horizon_s = 20_000.0 * STEP_S;
        let error = ForecastError {
            log_sd: 0.2,
            correlation_s: 4.0 * STEP_S,
            quantile: 0.5,
        };
        let told = error.draw(&config, 7);
        let logs: Vec<f64> = (0..20_000)
            .map(|step| ((10_000.0 - told.at(f64::from(step) * STEP_S)) / 3000.0).ln())
            .collect();
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let covariance = |lag: usize| {
            let pairs = logs.iter().zip(&logs[lag..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n
        };
        // 20,000 values with a memory of 4: about 2,500 independent ones.
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((covariance(0).sqrt() - 0.2).abs() < 0.01);
        let after_four = covariance(4) / covariance(0);
        assert!((after_four - (-1.0_f64).exp()).abs() < 0.06, "{after_four}");
        assert_eq!(told, error.draw(&config, 7));
        assert_ne!(told, error.draw(&config, 8));
    }

    /// The load is 3000 everywhere.
    #[test]
    fn the_load_stays_below_its_quantile_as_often_as_that_says() {
        let f = Availability::constant(7000.0).unwrap();
        let mut config = SimConfig::one_slot_nodes(100, f);
        config.horizon_s = 20_000.0 * STEP_S;
        for (quantile, seed) in [(0.3, 11), (0.5, 12), (0.8, 13)] {
            let error = ForecastError {
                log_sd: 0.2,
                correlation_s: STEP_S,
                quantile,
            };
            let told = error.draw(&config, seed);
            let below = (0..20_000)
                .filter(|step| 10_000.0 - told.at(f64::from(*step) * STEP_S) >= 3000.0)
                .count();
            // About 10,000 independent values: a standard deviation of half a percent.
            let part = below as f64 / 20_000.0;
            assert!((part - quantile).abs() < 0.02, "{quantile}: {part}");
        }
    }
}
