//! The CPU time expected for jobs, and the errors of the forecasts that policies plan by.

use std::collections::VecDeque;

use ebb_colocate::LeftForecast;
use ebb_scheduler::availability::{Availability, Step};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::prediction::PredictionErrorView;
use crate::node::RefusedForecast;

/// The time before now, in seconds, over which the CPU time that jobs could use was measured. The
/// expected CPU time is extrapolated from it.
pub(super) const LATELY_S: f64 = 60.0;
/// The weight of a given forecast beside recent measurements: it counts like this many seconds of
/// measurements that agree with it.
const BELIEVED_S: f64 = 10.0;
/// Without a forecast, the expected CPU time goes from its recent value back to its moving average over about
/// ten minutes. This is the time in which the distance shrinks by a factor of e, in seconds.
const BACK_S: f64 = 300.0;
/// The length of a window in which a forecast is compared with measurements, in seconds.
pub(super) const WINDOW_S: f64 = 60.0;
/// The horizons for which the errors of forecasts are known, in windows: a forecast for the first horizon is of the
/// window that begins with it, one for the last horizon of a window a day later.
const HORIZONS: [usize; 6] = [1, 10, 60, 240, 720, WINDOWS_PER_DAY];
const WINDOWS_PER_DAY: usize = 1440;
/// The number of windows that are kept: two days of windows, so that errors of a day are known for each horizon.
const WINDOWS_MAX: usize = 2 * WINDOWS_PER_DAY;
/// The least number of forecast errors from which the interval around a forecast can be computed.
const WINDOWS_MIN: usize = 5;
/// The fraction (0 to 1) of the past forecast errors that the interval around a forecast leaves out
/// on either side.
const TAIL: f64 = 0.05;

/// The forecast by which the policy plans, as the cores that jobs are expected not to get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    /// The time of the response, in milliseconds since 1970.
    pub made_at_unix_ms: u64,
    /// The source of the forecast: `learned` for one that the server makes from its record of the load;
    /// `given` for another one that the server was started with or got later; `last-ten-minutes` for a
    /// moving average over about that time, which the policy assumes to stay; `fixed` for a constant
    /// capacity.
    pub source: String,
    /// The errors because of which the policy does not plan by the forecast that the server learned, but by
    /// `last-ten-minutes`; `null` if no forecast was refused.
    #[serde(default)]
    pub refused: Option<RefusedForecast>,
    /// The points of the forecast, the nearest first.
    pub points: Vec<ForecastPoint>,
    /// The errors of past forecasts.
    pub error: ForecastErrorView,
    /// The errors of the predicted ends of jobs.
    pub predictions: PredictionErrorView,
}

/// The forecast of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ForecastPoint {
    /// The moment, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Cores that jobs are expected not to get, because the load or other processes use them, or
    /// because the guard limits jobs to keep the latency objective: the cores that jobs can use under
    /// the limit of the cgroup, less the reserve, which jobs never get, and less the cores that are
    /// forecast for jobs.
    pub load_cores: f64,
    /// The lower end of the interval around `load_cores`. By the errors of past forecasts that were
    /// as far ahead, the actual value is above it in 95 of 100 cases. If the source is `learned`,
    /// these are the errors of forecasts of the load alone; the part that others and the guard take
    /// is assumed. Otherwise these are the errors of the last two days, and it is `null` until five
    /// forecasts that were as far ahead have been compared with measurements.
    pub low_cores: Option<f64>,
    /// The upper end of the interval around `load_cores`: the actual value is below it in 95 of 100
    /// cases, by the same errors as for `low_cores`; `null` if `low_cores` is.
    pub high_cores: Option<f64>,
}

/// The errors of past forecasts of the cores that jobs could use, on average, in the next minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ForecastErrorView {
    /// The mean of the absolute errors of the forecasts, in cores; `null` before the first comparison
    /// with measurements.
    pub mean_abs_cores: Option<f64>,
    /// The number of one-minute windows in which forecasts were compared with measurements: the
    /// latest 1,440 at most.
    pub windows: usize,
}

/// Returns the capacity that jobs are expected to have from `now_s` on, in hundredths of a core.
///
/// If a forecast was `given`, the result is this forecast times a ratio: the CPU time that jobs could
/// recently use, divided by what was forecast for that time. So the share that the guard takes and the error
/// of the forecast are assumed to stay. Otherwise the result goes from the recent mean to `planned`, the
/// moving average over about ten minutes.
///
/// `lately` has the times and capacities of recent control cycles, in ascending order.
pub(super) fn expected(
    given: Option<&Availability>,
    planned: &Availability,
    lately: &[(f64, u32)],
    now_s: f64,
) -> Availability {
    let mut left = (0.0, 0.0, 0.0);
    let ends = lately.iter().skip(1).map(|(t_s, _)| *t_s).chain([now_s]);
    for (&(from_s, hundredths), to_s) in lately.iter().zip(ends) {
        let length_s = (to_s - from_s).max(0.0);
        left.0 += length_s;
        left.1 += length_s * f64::from(hundredths);
        left.2 += given.map_or(0.0, |given| given.integral(from_s, to_s));
    }
    let (seconds, measured, forecast) = left;
    let availability = match given {
        Some(given) => {
            let believed = BELIEVED_S * given.mean(now_s, now_s + BELIEVED_S);
            let ratio = if forecast + believed > 0.0 {
                (measured + believed) / (forecast + believed)
            } else {
                1.0
            };
            given.clone().scaled(ratio)
        }
        None => {
            let base = planned.at(now_s);
            let near = if seconds > 0.0 {
                measured / seconds
            } else {
                base
            };
            let steps = (0..12).map(|step| {
                // 0, 10, 20, 40, ... seconds ahead.
                let ahead_s = if step == 0 {
                    0.0
                } else {
                    10.0 * f64::from(1 << (step - 1))
                };
                Step {
                    from_s: now_s + ahead_s,
                    hundredths: base + (near - base) * (-ahead_s / BACK_S).exp(),
                }
            });
            Availability::steps(steps.collect())
        }
    };
    availability.unwrap_or_else(|_| planned.clone())
}

/// The past forecasts and what came, in windows of [`WINDOW_S`].
#[derive(Debug, Default)]
pub(super) struct ForecastErrors {
    /// The latest windows that have ended, oldest first.
    windows: VecDeque<Window>,
    open: Option<OpenWindow>,
}

/// A window of time that has ended.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// The cores that jobs could use in the window, on average.
    measured_cores: f64,
    forecasts: Forecasts,
}

/// The cores that were forecast for jobs at the begin of a window: for each of [`HORIZONS`], in the window that ends
/// as far ahead.
type Forecasts = [f64; HORIZONS.len()];

/// A window of time that has not ended: the forecasts at its begin, and the measurements since.
#[derive(Debug, Clone, Copy)]
struct OpenWindow {
    from_s: f64,
    forecasts: Forecasts,
    cores_s: f64,
    seconds: f64,
}

impl ForecastErrors {
    /// Adds a measurement to the open window: in the `length_s` seconds before `now_s`, jobs could use
    /// `cores`. Once the window has lasted [`WINDOW_S`], keeps it and begins the next one with
    /// `planned`, the forecast from now on, in hundredths of a core. The first call only begins a window.
    pub(super) fn take(&mut self, now_s: f64, length_s: f64, cores: f64, planned: &Availability) {
        if let Some(open) = &mut self.open {
            open.cores_s += cores * length_s;
            open.seconds += length_s;
            if now_s - open.from_s < WINDOW_S {
                return;
            }
            if open.seconds > 0.0 {
                if self.windows.len() == WINDOWS_MAX {
                    self.windows.pop_front();
                }
                self.windows.push_back(Window {
                    measured_cores: open.cores_s / open.seconds,
                    forecasts: open.forecasts,
                });
            }
        }
        self.open = Some(OpenWindow {
            from_s: now_s,
            forecasts: HORIZONS.map(|horizon| {
                let end_s = now_s + horizon as f64 * WINDOW_S;
                planned.mean(end_s - WINDOW_S, end_s) / 100.0
            }),
            cores_s: 0.0,
            seconds: 0.0,
        });
    }

    pub(super) fn view(&self) -> ForecastErrorView {
        let errors = self.errors(0).rev().take(WINDOWS_PER_DAY);
        let (mut sum, mut windows) = (0.0, 0_usize);
        for error in errors {
            sum += error.abs();
            windows += 1;
        }
        ForecastErrorView {
            mean_abs_cores: (windows > 0).then(|| sum / windows as f64),
            windows,
        }
    }

    /// Returns the errors of the forecasts for the `nth` of [`HORIZONS`], oldest first: the measured cores for
    /// jobs less those of the forecast.
    fn errors(&self, nth: usize) -> impl DoubleEndedIterator<Item = f64> {
        let later = HORIZONS[nth] - 1;
        let forecasts = 0..self.windows.len().saturating_sub(later);
        forecasts.map(move |made| {
            self.windows[made + later].measured_cores - self.windows[made].forecasts[nth]
        })
    }

    /// Returns two quantiles of the errors of the forecasts for the `nth` of [`HORIZONS`], in cores (measured less
    /// forecast), for the ends of the interval around a forecast: a fraction of [`TAIL`] of the errors was
    /// below the first, and as many above the second. `None` before [`WINDOWS_MIN`] forecasts were
    /// compared with measurements.
    fn interval(&self, nth: usize) -> Option<(f64, f64)> {
        let mut errors: Vec<f64> = self.errors(nth).collect();
        if errors.len() < WINDOWS_MIN {
            return None;
        }
        errors.sort_by(f64::total_cmp);
        let at = |part: f64| errors[((errors.len() - 1) as f64 * part).round() as usize];
        Some((at(TAIL), at(1.0 - TAIL)))
    }

    /// Returns 121 points of the forecast `planned`, at equal distances from `now_s` to `seconds` later.
    /// `cores` are those that jobs can use under the limit of the cgroup, less the reserve. The interval is
    /// that of `learned` if the forecast was learned, otherwise that of the past errors.
    pub(super) fn points(
        &self,
        (planned, learned): (&Availability, Option<&LeftForecast>),
        (now_s, now_unix_ms): (f64, u64),
        seconds: u32,
        cores: f64,
    ) -> Vec<ForecastPoint> {
        const POINTS: u32 = 120;
        let step_s = f64::from(seconds) / f64::from(POINTS);
        let intervals: Vec<_> = match learned {
            Some(_) => Vec::new(),
            None => (0..HORIZONS.len()).map(|nth| self.interval(nth)).collect(),
        };
        let point = |nth: u32| {
            let ahead_s = f64::from(nth) * step_s;
            let t_s = now_s + ahead_s;
            let load_cores = cores - planned.at(t_s) / 100.0;
            let within = |cores_: f64| cores_.clamp(0.0, cores);
            let interval = match (learned, interval_at(&intervals, ahead_s)) {
                (Some(learned), _) => {
                    let kept = |left: &Availability| cores - left.at(t_s) / 100.0;
                    // The plan of the last control cycle may be a minute older.
                    let (low, high) = (kept(&learned.most), kept(&learned.least));
                    Some((low.min(load_cores), high.max(load_cores)))
                }
                // An error is positive if jobs could use more than forecast, so less was kept from
                // them.
                (None, errors) => {
                    errors.map(|(least, most)| (load_cores - most, load_cores - least))
                }
            };
            ForecastPoint {
                at_unix_ms: now_unix_ms + (ahead_s * 1e3) as u64,
                load_cores: within(load_cores),
                low_cores: interval.map(|(low, _)| within(low)),
                high_cores: interval.map(|(_, high)| within(high)),
            }
        };
        (0..=POINTS).map(point).collect()
    }
}

/// Returns the interval of the errors of forecasts that were `ahead_s` seconds ahead, in cores: between two
/// [`HORIZONS`] a mean of both intervals, weighted by the distance. `intervals` has those of all horizons. `None` if
/// one of the two is unknown.
fn interval_at(intervals: &[Option<(f64, f64)>], ahead_s: f64) -> Option<(f64, f64)> {
    let ahead = (ahead_s / WINDOW_S).max(1.0);
    let later = HORIZONS.partition_point(|horizon| (*horizon as f64) < ahead);
    let later = later.min(HORIZONS.len() - 1);
    let sooner = later.saturating_sub(1);
    let [near, far] = [sooner, later].map(|nth| intervals.get(nth).copied().flatten());
    let far = far?;
    if ahead <= HORIZONS[sooner] as f64 {
        // The first horizon.
        return Some(far);
    }
    let near = near?;
    let span = (HORIZONS[later] - HORIZONS[sooner]) as f64;
    let weight = ((ahead - HORIZONS[sooner] as f64) / span).min(1.0);
    let between = |near: f64, far: f64| near + weight * (far - near);
    Some((between(near.0, far.0), between(near.1, far.1)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn constant(hundredths: f64) -> Availability {
        Availability::constant(hundredths).unwrap()
    }

    #[test]
    fn a_forecast_that_was_too_high_is_scaled_down() {
        let given = Availability::steps(vec![
            Step {
                from_s: 0.0,
                hundredths: 100.0,
            },
            Step {
                from_s: 1000.0,
                hundredths: 180.0,
            },
        ]);
        let given = given.unwrap();
        // Half of the forecast, for 60 s.
        let lately: Vec<(f64, u32)> = (0..240).map(|n| (f64::from(n) * 0.25, 50)).collect();
        let expected = expected(Some(&given), &given, &lately, 60.0);
        let ratio = (50.0 * 60.0 + 1000.0) / (100.0 * 60.0 + 1000.0);
        assert!((expected.at(61.0) - 100.0 * ratio).abs() < 1e-6);
        assert!((expected.at(1001.0) - 180.0 * ratio).abs() < 1e-6);
        let unknown = super::expected(Some(&given), &given, &[], 60.0);
        assert_eq!(unknown.at(61.0), 100.0);
    }

    #[test]
    fn without_a_forecast_what_is_left_goes_back_to_its_mean() {
        let lately: Vec<(f64, u32)> = (0..60).map(|n| (f64::from(n), 40)).collect();
        let expected = expected(None, &constant(140.0), &lately, 60.0);
        assert_eq!(expected.at(60.0), 40.0);
        assert!((expected.at(60.0 + 640.0) - 140.0).abs() < 20.0);
        assert!((expected.at(60.0 + 10_000.0) - 140.0).abs() < 1.0);
        let unknown = super::expected(None, &constant(140.0), &[], 60.0);
        assert_eq!(unknown.at(60.0), 140.0);
    }

    /// The forecast is one core for jobs, and 1.2 and 0.8 cores are left to them in alternate
    /// minutes.
    #[test]
    fn the_interval_is_as_wide_as_errors_were() {
        let (mut errors, planned) = (ForecastErrors::default(), constant(100.0));
        let points =
            |errors: &ForecastErrors| errors.points((&planned, None), (0.0, 5000), 600, 1.9);
        let mut now_s = 0.0;
        errors.take(now_s, 1.0, 0.0, &planned);
        // Regression: it was 0 cores, as if all forecasts had been right.
        assert_eq!(errors.view().mean_abs_cores, None);
        for minute in 0..20 {
            if minute == 4 {
                let (all, first) = (points(&errors), points(&errors)[0]);
                assert_eq!((first.low_cores, first.high_cores), (None, None));
                assert_eq!(all.len(), 121);
                assert_eq!((all[0].at_unix_ms, all[120].at_unix_ms), (5000, 605_000));
            }
            for _ in 0..60 {
                now_s += 1.0;
                let cores = if minute % 2 == 0 { 1.2 } else { 0.8 };
                errors.take(now_s, 1.0, cores, &planned);
            }
        }
        let view = errors.view();
        assert_eq!(view.windows, 20);
        assert!(
            (view.mean_abs_cores.unwrap() - 0.2).abs() < 1e-9,
            "{view:?}"
        );
        let point = points(&errors)[60];
        for (found, right) in [
            (point.load_cores, 0.9),
            (point.low_cores.unwrap(), 0.7),
            (point.high_cores.unwrap(), 1.1),
        ] {
            assert!((found - right).abs() < 1e-9, "{point:?}");
        }
    }

    /// The forecast is the capacity of the present minute. Jobs can use 0.01 cores more in each minute, so the
    /// error grows with the horizon.
    #[test]
    fn the_interval_grows_with_the_horizon() {
        let mut errors = ForecastErrors::default();
        let cores_in = |minute: u32| f64::from(minute) * 0.01;
        for second in 0..=100 * 60 {
            let cores = cores_in(second / 60);
            let now_s = f64::from(second);
            errors.take(now_s, 1.0, cores, &constant(cores * 100.0));
        }
        let planned = constant(100.0);
        let points = |seconds| errors.points((&planned, None), (0.0, 0), seconds, 3.0);
        let hour = points(3600);
        // What is kept from jobs: two cores now, and by the errors 0.6 less in an hour.
        assert!((hour[120].load_cores - 2.0).abs() < 1e-9);
        let width = |ahead_s: usize| {
            let point = hour[ahead_s / 30];
            assert!(point.low_cores <= point.high_cores);
            2.0 - point.low_cores.unwrap()
        };
        assert!(width(60) < 0.03, "{}", width(60));
        assert!((0.08..0.12).contains(&width(600)), "{}", width(600));
        assert!((0.58..0.62).contains(&width(3600)), "{}", width(3600));
        assert!((0.3..0.4).contains(&width(2100)), "{}", width(2100));
        // Of four hours ahead nothing is known.
        let far = points(14_400)[120];
        assert_eq!((far.low_cores, far.high_cores), (None, None));
    }

    #[test]
    fn a_learned_forecast_has_the_interval_of_its_own_errors() {
        let steps = |first: f64, second: f64| {
            let step = |from_s, hundredths| Step { from_s, hundredths };
            Availability::steps(vec![step(0.0, first), step(300.0, second)]).unwrap()
        };
        let learned = LeftForecast {
            expected: Arc::new(steps(100.0, 120.0)),
            least: steps(90.0, 60.0),
            most: steps(110.0, 190.0),
        };
        let mut errors = ForecastErrors::default();
        for second in 0..=600 {
            errors.take(f64::from(second), 1.0, 0.0, &learned.expected);
        }
        let planned = (&*learned.expected, Some(&learned));
        let points = errors.points(planned, (0.0, 0), 600, 2.0);
        for (nth, low, load, high) in [(0, 0.9, 1.0, 1.1), (120, 0.1, 0.8, 1.4)] {
            let point = points[nth];
            let found = [point.low_cores, Some(point.load_cores), point.high_cores];
            for (found, right) in found.into_iter().zip([low, load, high]) {
                assert!((found.unwrap() - right).abs() < 1e-9, "{point:?}");
            }
        }
    }
}
