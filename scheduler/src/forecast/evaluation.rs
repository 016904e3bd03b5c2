//! What the forecasts were worth on a part of a series that they had not seen.

use super::forecaster::{ForecastError, Forecaster, Options, naive};
use super::method::{Cycle, Method};
use super::series::Series;
use serde::Serialize;
use std::collections::BTreeMap;

/// Nominal coverage of the intervals that are checked.
const LEVELS: [f64; 3] = [0.5, 0.8, 0.95];

/// Forecasts from a rolling origin against what came.
///
/// The error of all is WAPE: the sum of absolute errors over the sum of values,
/// over the same slots for every method.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// Number of forecasts, one day from the next.
    pub origins: usize,
    /// Length of a forecast in slots.
    pub horizon: usize,
    /// Slots that were scored: those with a value.
    pub scored: usize,
    /// Start of the first forecast, in seconds on the clock of the series.
    pub start_s: f64,
    /// WAPE of what was chosen at each origin.
    pub wape: f64,
    /// The least WAPE of naive day and naive week, known in hindsight.
    pub naive_wape: f64,
    /// `wape` over `naive_wape`; `None` where the naive method never missed, as on a constant
    /// series.
    pub ratio: Option<f64>,
    /// WAPE of each method that had a forecast at every origin, least first.
    pub methods: Vec<MethodScore>,
    /// How often the load lay in the intervals.
    pub coverage: Vec<Coverage>,
    /// Every forecast slot, in the order of time.
    pub slots: Vec<Predicted>,
}

/// What a method was worth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodScore {
    /// The method in words.
    pub name: String,
    /// The method.
    pub method: Method,
    /// Its WAPE.
    pub wape: f64,
    /// `wape` over the least WAPE of the naive methods; `None` where that is 0.
    pub over_naive: Option<f64>,
    /// At how many of the origins it was one of those that were combined.
    pub chosen: usize,
}

/// How often the load lay between two quantiles that leave out as much on either
/// side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// How often it should have.
    pub nominal: f64,
    /// How often it did, as a part of the scored slots.
    pub measured: f64,
    /// Part of the scored slots that lay above the upper quantile.
    pub above: f64,
    /// Mean width over mean load.
    pub width: f64,
}

/// The WAPE below which a method never misses: what is left is the rounding of its sums.
const EXACT_WAPE: f64 = 1e-9;

/// The error of a method over that of another one; `None` if the other one never misses.
fn over(wape: f64, other_wape: f64) -> Option<f64> {
    let ratio = wape / other_wape;
    (other_wape > EXACT_WAPE && ratio.is_finite()).then_some(ratio)
}

/// One slot of a forecast and what came.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// Start of the slot in seconds on the clock of the series.
    pub t_s: f64,
    /// What was measured, if anything.
    pub value: Option<f64>,
    /// What was forecast.
    pub point: f64,
    /// The 10% quantile.
    pub low: f64,
    /// The 90% quantile.
    pub high: f64,
    /// What the naive day said.
    pub naive_day: f64,
    /// What the naive week said.
    pub naive_week: f64,
}

/// Forecasts the last `days` days of `series` from origins a day apart, each from
/// the values before it, and compares. `progress` is told after each how many are
/// done.
///
/// # Errors
/// When an option makes no sense with the series; when it is too short: before the
/// first origin it takes two days and the horizon, and a week for the naive week;
/// when gaps leave a naive method without a forecast, or the days without a load.
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
    let need = window.saturating_add(forecaster.least().max(7 * grid.day));
    if have < need {
        return Err(ForecastError::TooShort { have, need });
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

#[derive(Default)]
struct Tally {
    scored: usize,
    total: f64,
    loss: f64,
    /// Per method in the order of the pool: loss, forecasts, times chosen.
    methods: BTreeMap<usize, (Option<Method>, f64, usize, usize)>,
    /// Per level: inside, above, sum of widths.
    covered: [(usize, usize, f64); LEVELS.len()],
    slots: Vec<Predicted>,
}

impl Tally {
    fn add(
        &mut self,
        series: &Series,
        forecaster: &mut Forecaster<'_>,
        origin: usize,
    ) -> Result<(), ForecastError> {
        let forecast = forecaster.at(origin)?;
        let each = forecaster.each(origin);
        let known = |cycle| {
            let at = naive(each.iter().map(|(method, _)| *method), cycle);
            at.and_then(|at| each[at].1.as_ref())
                .ok_or(ForecastError::Gaps { origin })
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
