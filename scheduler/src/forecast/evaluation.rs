//! Accuracy of the forecasts on the last days of a series, each made from the values before
//! it.

use super::forecaster::{ForecastError, Forecaster, Options, naive};
use super::grid::Grid;
use super::method::{Cycle, Method};
use super::series::Series;
use serde::Serialize;
use std::collections::BTreeMap;

/// Nominal coverages of the prediction intervals that an evaluation checks.
const LEVELS: [f64; 3] = [0.5, 0.8, 0.95];

/// The errors of forecasts that begin a day apart, each made from the values before it.
///
/// All errors are WAPE (weighted absolute percentage error): the sum of absolute errors divided by
/// the sum of values. All methods forecast the same slots (steps of the series).
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// The number of forecasts; they begin a day apart.
    pub origins: usize,
    /// Length of a forecast in slots.
    pub horizon: usize,
    /// Number of slots with a measured value; only these are scored.
    pub scored: usize,
    /// Start of the first forecast, in seconds on the clock of the series.
    pub start_s: f64,
    /// Weighted absolute percentage error of the combined forecasts: for each forecast the methods
    /// are chosen by the values before it.
    pub wape: f64,
    /// The weighted absolute percentage error of the better one of the two naive methods, which
    /// repeat the last day and the last week. Which one is better is known only in hindsight.
    pub naive_wape: f64,
    /// `wape` divided by `naive_wape`; `None` if the better naive method has no error, as on a
    /// constant series.
    pub ratio: Option<f64>,
    /// The methods that could make every forecast, by their errors, least first.
    pub methods: Vec<MethodScore>,
    /// Coverage of the forecasts' central intervals at the nominal levels 50%, 80% and 95%.
    pub coverage: Vec<Coverage>,
    /// The slots of all forecasts, one forecast after the other, each in the order of time. With a
    /// horizon of more than a day the forecasts overlap, so a time occurs several times.
    pub slots: Vec<Predicted>,
}

/// The accuracy of one method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodScore {
    /// The method as text, as its `Display` prints it.
    pub name: String,
    /// The method and its parameters.
    pub method: Method,
    /// Weighted absolute percentage error of the method: the sum of its absolute errors divided by
    /// the sum of the loads, over the slots with a measured value.
    pub wape: f64,
    /// `wape` divided by [`Evaluation::naive_wape`]; `None` where that is 0.
    pub over_naive: Option<f64>,
    /// The number of forecasts in which the method was among those that were combined.
    pub chosen: usize,
}

/// How often the load was in a central interval of the forecast, which lies between two quantiles
/// that cut off equal tails.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// Nominal coverage of the interval, between 0 and 1.
    pub nominal: f64,
    /// Measured coverage: the fraction of the measured values that lay in the interval.
    pub measured: f64,
    /// The fraction of the measured values that lay above the upper quantile.
    pub above: f64,
    /// Mean width of the interval, divided by the mean load.
    pub width: f64,
}

/// A method with a weighted absolute percentage error below this counts as exact: rounding of sums
/// alone reaches this size.
const EXACT_WAPE: f64 = 1e-9;

/// Returns the error of a method divided by the error of another method; `None` if the other method
/// is exact.
fn over(wape: f64, other_wape: f64) -> Option<f64> {
    let ratio = wape / other_wape;
    (other_wape > EXACT_WAPE && ratio.is_finite()).then_some(ratio)
}

/// One slot of a forecast and its measured value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// Start of the slot in seconds on the clock of the series.
    pub t_s: f64,
    /// The measured load; `None` in a gap.
    pub value: Option<f64>,
    /// The point forecast of the combined methods.
    pub point: f64,
    /// The 10% quantile of the load, as forecast.
    pub low: f64,
    /// The 90% quantile of the load, as forecast.
    pub high: f64,
    /// The forecast of the naive method that repeats the last day before the forecast.
    pub naive_day: f64,
    /// The forecast of the naive method that repeats the last week before the forecast.
    pub naive_week: f64,
}

/// Forecasts the last `days` days of `series` from origins a day apart, each from the values
/// before it, and measures the errors. Calls `progress` after each origin with the number of
/// finished ones.
///
/// # Errors
/// When an option does not fit the series. When the series is too short: before the first
/// origin there must be two days and the horizon, and at least a week for the naive week.
/// When gaps leave a naive method without a forecast, or when the forecast days have no load.
pub fn evaluate(
    series: &Series,
    options: Options,
    days: usize,
    mut progress: impl FnMut(usize),
) -> Result<Evaluation, ForecastError> {
    let mut forecaster = Forecaster::new(series, options)?;
    let grid = forecaster.grid();
    if days == 0 {
        return Err(ForecastError::Option {
            what: "the number of days to forecast",
            value: 0.0,
            expected: "give at least 1",
        });
    }
    let have = series.len();
    let window = days
        .saturating_sub(1)
        .saturating_mul(grid.day)
        .saturating_add(grid.horizon);
    let need = window.saturating_add(before_first(&forecaster));
    if have < need {
        return Err(ForecastError::TooShortToEvaluate {
            have,
            need,
            days,
            need_days: need.div_ceil(grid.day),
        });
    }
    let mut tally = Tally::default();
    for day in 0..days {
        let origin = have - window + day * grid.day;
        tally.add(series, &mut forecaster, origin)?;
        progress(day + 1);
    }
    let start_s = series.time_s(have - window);
    if tally.total <= 0.0 {
        let scored = tally.scored;
        return Err(ForecastError::NoLoad { scored });
    }
    Ok(tally.evaluation(days, grid.horizon, start_s))
}

/// Returns the greatest number of days that [`evaluate`] can forecast if no value is missing; 0 if the series is
/// too short.
///
/// # Errors
/// When an option does not fit the series.
pub fn days_to_evaluate(series: &Series, options: Options) -> Result<usize, ForecastError> {
    let forecaster = Forecaster::new(series, options)?;
    let Grid { day, horizon } = forecaster.grid();
    let more = series
        .len()
        .checked_sub(before_first(&forecaster) + horizon);
    Ok(more.map_or(0, |more| more / day + 1))
}

/// Returns the number of slots that an evaluation needs before its first forecast: a week for the naive week.
fn before_first(forecaster: &Forecaster<'_>) -> usize {
    forecaster.least().max(7 * forecaster.grid().day)
}

/// Sums over the forecasts so far: of measured values, of errors, and of values inside the
/// predicted intervals. The scores of the evaluation are computed from these sums.
#[derive(Default)]
struct Tally {
    /// Number of slots with a measured value.
    scored: usize,
    /// Sum of the measured values.
    total: f64,
    /// Sum of the absolute errors of the combined forecasts.
    loss: f64,
    /// For each method, by its position in the pool: the method (`None` only while the entry is
    /// created), the sum of its absolute errors, the number of its forecasts, and how often it was
    /// chosen.
    methods: BTreeMap<usize, (Option<Method>, f64, usize, usize)>,
    /// For the interval of each of [`LEVELS`]: the number of measured values inside it, the number
    /// above it, and the sum of its widths.
    covered: [(usize, usize, f64); LEVELS.len()],
    slots: Vec<Predicted>,
}

impl Tally {
    /// Adds the forecasts that begin at the slot `origin`.
    fn add(
        &mut self,
        series: &Series,
        forecaster: &mut Forecaster<'_>,
        origin: usize,
    ) -> Result<(), ForecastError> {
        let forecast = forecaster.at(origin)?;
        let each = forecaster.each(origin);
        // All errors are compared with those of the naive methods, so both must have a forecast here.
        let known = |cycle| {
            let at = naive(each.iter().map(|(method, _)| *method), cycle);
            at.and_then(|at| each[at].1.as_ref())
                .ok_or(ForecastError::NaiveGaps { cycle, origin })
        };
        let (day, week) = (known(Cycle::Day)?, known(Cycle::Week)?);
        let quantile = |q| {
            forecast
                .quantile(q)
                .expect("the levels lie between 0.01 and 0.99")
        };
        let bounds = LEVELS.map(|level| {
            let tail = (1.0 - level) / 2.0;
            (quantile(tail), quantile(1.0 - tail))
        });
        let (low, high) = (quantile(0.1), quantile(0.9));

        for (ahead, &point) in forecast.point().iter().enumerate() {
            let value = series.value(origin + ahead);
            self.slots.push(Predicted {
                t_s: series.time_s(origin + ahead),
                value,
                point,
                low: low[ahead],
                high: high[ahead],
                naive_day: day[ahead],
                naive_week: week[ahead],
            });
            // A gap has no error. It is in `slots` all the same, which has every slot.
            let Some(value) = value else { continue };
            self.scored += 1;
            self.total += value;
            self.loss += (value - point).abs();
            for ((inside, above, width), (low, high)) in self.covered.iter_mut().zip(&bounds) {
                let (low, high) = (low[ahead], high[ahead]);
                *inside += usize::from((low..=high).contains(&value));
                *above += usize::from(value > high);
                *width += high - low;
            }
        }
        // The pool has the same methods at every origin, so the position identifies a method. One
        // without a forecast here gets no count, and `evaluation` leaves it out of the comparison.
        for (index, (method, own)) in each.iter().enumerate() {
            let (name, loss, count, chosen) = self.methods.entry(index).or_default();
            *name = Some(*method);
            if let Some(own) = own {
                *loss += super::backtest::loss(series, origin, own);
                *count += 1;
            }
            *chosen += usize::from(forecast.methods().contains(method));
        }
        Ok(())
    }

    fn evaluation(self, origins: usize, horizon: usize, start_s: f64) -> Evaluation {
        let wape = |loss: f64| loss / self.total;
        let mut methods: Vec<MethodScore> = Vec::new();
        for (method, loss, count, chosen) in self.methods.into_values() {
            let Some(method) = method.filter(|_| count == origins) else {
                continue;
            };
            methods.push(MethodScore {
                name: method.to_string(),
                method,
                wape: wape(loss),
                over_naive: None,
                chosen,
            });
        }
        let naive = methods
            .iter()
            .filter(|score| matches!(score.method, Method::Naive(_)));
        let naive_wape = naive.map(|score| score.wape).fold(f64::INFINITY, f64::min);
        for score in &mut methods {
            score.over_naive = over(score.wape, naive_wape);
        }
        methods.sort_by(|a, b| a.wape.total_cmp(&b.wape));
        let part = |count: usize| count as f64 / self.scored as f64;
        let coverage = LEVELS.iter().zip(self.covered);
        let coverage = coverage.map(|(&nominal, (inside, above, width))| Coverage {
            nominal,
            measured: part(inside),
            above: part(above),
            width: width / self.total,
        });
        Evaluation {
            origins,
            horizon,
            scored: self.scored,
            start_s,
            wape: wape(self.loss),
            naive_wape,
            ratio: over(wape(self.loss), naive_wape),
            methods,
            coverage: coverage.collect(),
            slots: self.slots,
        }
    }
}
