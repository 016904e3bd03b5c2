//! A model of forecast errors: it draws a forecast that differs from the true load as
//! measured forecasts do.

use super::config::SimConfig;
use super::job::normal;
use crate::availability::{Availability, Step};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

/// Parameters of the error of the expected load: the logarithm of the forecast divided by
/// the load is a first-order autoregressive normal process.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForecastError {
    /// Standard deviation of the logarithm of the forecast divided by the load; positive
    /// and finite.
    pub log_sd: f64,
    /// Time after which the correlation of the errors has fallen to 1/e, in seconds;
    /// positive and finite.
    pub correlation_s: f64,
    /// Quantile of the load that policies plan with, above 0 and below 1; it applies to each step
    /// on its own. 0.5 is the forecast itself; with a higher quantile, policies expect less
    /// capacity to be left.
    #[serde(default = "median")]
    pub quantile: f64,
}

const fn median() -> f64 {
    0.5
}

/// Length in seconds of a step of the forecast, which is a step function.
const STEP_S: f64 = 900.0;

impl ForecastError {
    /// Draws a forecast of f(t), the availability in `config`, from time 0 to the simulation's
    /// horizon. The same seed draws the same forecast.
    ///
    /// The error applies to the load, which is the cluster's capacity minus f(t). The forecast of
    /// the load never exceeds the capacity.
    #[must_use]
    pub fn draw(&self, config: &SimConfig, seed: u64) -> Availability {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // A random stream of its own, apart from those of task lengths, the generator and
        // the replicas.
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
    fn errors_have_the_configured_deviation_and_correlation() {
        let f = Availability::constant(7000.0).unwrap();
        let mut config = SimConfig::one_slot_nodes(100, f);
        config.horizon_s = 20_000.0 * STEP_S;
        let error = ForecastError {
            log_sd: 0.2,
            correlation_s: 4.0 * STEP_S,
            quantile: 0.5,
        };
        let forecast = error.draw(&config, 7);
        let logs: Vec<f64> = (0..20_000)
            .map(|step| ((10_000.0 - forecast.at(f64::from(step) * STEP_S)) / 3000.0).ln())
            .collect();
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let covariance = |lag: usize| {
            let pairs = logs.iter().zip(&logs[lag..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n
        };
        // 20,000 values with a correlation over 4 steps count as about 2,500 independent
        // ones.
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((covariance(0).sqrt() - 0.2).abs() < 0.01);
        let after_four = covariance(4) / covariance(0);
        assert!((after_four - (-1.0_f64).exp()).abs() < 0.06, "{after_four}");
        assert_eq!(forecast, error.draw(&config, 7));
        assert_ne!(forecast, error.draw(&config, 8));
    }

    /// The load is 3000 at all times. A forecast of its 0.8 quantile, say, is at least that high
    /// in 80% of all steps.
    #[test]
    fn the_load_stays_below_its_quantile_with_that_frequency() {
        let f = Availability::constant(7000.0).unwrap();
        let mut config = SimConfig::one_slot_nodes(100, f);
        config.horizon_s = 20_000.0 * STEP_S;
        for (quantile, seed) in [(0.3, 11), (0.5, 12), (0.8, 13)] {
            let error = ForecastError {
                log_sd: 0.2,
                correlation_s: STEP_S,
                quantile,
            };
            let forecast = error.draw(&config, seed);
            let below = (0..20_000)
                .filter(|step| 10_000.0 - forecast.at(f64::from(*step) * STEP_S) >= 3000.0)
                .count();
            // About 10,000 independent values have a standard deviation of half a
            // percent.
            let part = below as f64 / 20_000.0;
            assert!((part - quantile).abs() < 0.02, "{quantile}: {part}");
        }
    }
}
