//! Errors of each method on past days, and the choice of methods by these errors.

use super::grid::Grid;
use super::method::Method;
use super::pool::forecasts;
use super::profile::median;
use super::series::Series;
use std::collections::BTreeMap;

/// Number of past days for which a method must have made a forecast: with fewer days, a good score
/// may be chance, so the method is left out. If the series has fewer past days than this, a method
/// must have a forecast for each of them.
const DAYS_MIN: usize = 7;

/// Largest score, as a multiple of the best one, at which a method is still combined with
/// the best one. Lower scores are better.
const WORSE_MAX: f64 = 1.1;

/// Largest number of methods that are combined.
const COMBINED_MAX: usize = 10;

/// The forecasts of all methods from one origin (the slot at which the forecasts begin),
/// and the errors of these forecasts.
#[derive(Debug)]
struct Row {
    /// The forecast of each method, by its position in the pool of methods. `None` for a
    /// method that could make none from the values before the origin.
    forecasts: Vec<Option<Vec<f64>>>,
    /// The sum of each method's absolute errors over the slots with a measured value, by the
    /// method's position in the pool of methods. `None` for a method without a forecast.
    losses: Vec<Option<f64>>,
    /// Median of the methods' losses: a measure of how difficult it was to forecast from
    /// this slot on.
    usual_loss: f64,
}

/// The forecasts of all methods from past origins (the slots at which forecasts begin), each made
/// once. A row has the forecasts from one origin and their errors, which depend on values after the
/// origin. A new forecast must not use values after its own origin, `now`. So [`Self::choose`] and
/// [`Self::replay`] read the errors only of rows whose horizon ends at `now` or before.
#[derive(Debug)]
pub(super) struct Backtest<'a> {
    series: &'a Series,
    methods: Vec<Method>,
    grid: Grid,
    /// The largest number of past days that are scored. One forecast of each method begins on each
    /// of them.
    days: usize,
    rows: BTreeMap<usize, Row>,
}

/// The methods that are combined, as positions in the pool, best first: the forecast is the mean of
/// their forecasts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice(pub(super) Vec<usize>);

impl<'a> Backtest<'a> {
    pub(super) fn new(series: &'a Series, methods: Vec<Method>, grid: Grid, days: usize) -> Self {
        Self {
            series,
            methods,
            grid,
            days,
            rows: BTreeMap::new(),
        }
    }

    /// Returns the past origins (slots at which forecasts begin) whose errors are known at `now`,
    /// latest first. They are a day apart, their horizon ends at `now` or before, and at least a
    /// day of values lies before each.
    pub(super) fn origins(&self, now: usize) -> Vec<usize> {
        let Grid { day, horizon } = self.grid;
        let back = (0..self.days).map(|days| now.checked_sub(horizon + days * day));
        back.map_while(|origin| origin.filter(|&origin| origin >= day))
            .collect()
    }

    pub(super) fn forecast(&mut self, origin: usize, method: usize) -> Option<&[f64]> {
        self.row(origin).forecasts[method].as_deref()
    }

    /// Chooses the methods for the forecast at `now`.
    ///
    /// A method's score is its loss over past days, divided by the usual loss (the median over all
    /// methods) of the same days. So a method that lacked a forecast on difficult days gains
    /// nothing by it. The methods with a score within a tenth of the best are combined, at most
    /// `COMBINED_MAX` of them. A method is left out if it has no forecast now, or had one on fewer
    /// than `DAYS_MIN` past days (if fewer days are scored: on fewer than all of them). If no method
    /// is left, chooses the naive method that repeats the last day.
    pub(super) fn choose(&mut self, now: usize) -> Choice {
        let origins = self.origins(now);
        let enough = origins.len().clamp(1, DAYS_MIN);
        let mut scored: Vec<(f64, usize)> = Vec::new();
        for method in 0..self.methods.len() {
            if self.forecast(now, method).is_none() {
                continue;
            }
            let (mut loss, mut usual, mut count) = (0.0, 0.0, 0);
            for &origin in &origins {
                let row = self.row(origin);
                if let Some(own) = row.losses[method] {
                    loss += own;
                    usual += row.usual_loss;
                    count += 1;
                }
            }
            if count >= enough {
                scored.push((score(loss, usual), method));
            }
        }
        // The sort is stable: among equal scores, the simpler method comes first, as in
        // the pool.
        scored.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some(&(best, _)) = scored.first() else {
            return Choice(vec![0]);
        };
        let good = scored
            .iter()
            .filter(|(score, _)| *score <= best * WORSE_MAX);
        let methods = good.map(|(_, method)| *method);
        Choice(methods.take(COMBINED_MAX).collect())
    }

    /// Returns the mean of the forecasts of the chosen methods from the slot `origin` on. Methods
    /// without a forecast there are left out; `None` if no chosen method has one.
    pub(super) fn combine(&mut self, origin: usize, choice: &Choice) -> Option<Vec<f64>> {
        let mut sum = vec![0.0; self.grid.horizon];
        let mut count = 0.0;
        for &method in &choice.0 {
            let Some(forecast) = self.forecast(origin, method) else {
                continue;
            };
            sum.iter_mut()
                .zip(forecast)
                .for_each(|(sum, value)| *sum += value);
            count += 1.0;
        }
        sum.iter_mut().for_each(|sum| *sum /= count);
        (count > 0.0).then_some(sum)
    }

    /// Returns past origins (slots at which forecasts begin), the latest first, each with the
    /// combined forecast from there. They are the past origins of the forecast at `now`. A forecast
    /// combines the methods that would have been chosen *at its origin*, or the methods in `choice`
    /// if that origin has fewer than `DAYS_MIN` past origins of its own. Origins at which none of
    /// these methods has a forecast are left out.
    pub(super) fn replay(&mut self, now: usize, choice: &Choice) -> Vec<(usize, Vec<f64>)> {
        let mut forecasts = Vec::new();
        for origin in self.origins(now) {
            let then = if self.origins(origin).len() < DAYS_MIN {
                choice.clone()
            } else {
                self.choose(origin)
            };
            if let Some(forecast) = self.combine(origin, &then) {
                forecasts.push((origin, forecast));
            }
        }
        forecasts
    }

    /// Drops the forecasts that began before `slot`.
    pub(super) fn forget_before(&mut self, slot: usize) {
        self.rows = self.rows.split_off(&slot);
    }

    fn row(&mut self, origin: usize) -> &Row {
        let (series, methods, grid) = (self.series, &self.methods, self.grid);
        self.rows.entry(origin).or_insert_with(|| {
            let forecasts = forecasts(methods, series.before(origin), grid);
            let loss = |forecast: &Vec<f64>| loss(series, origin, forecast);
            let losses: Vec<_> = forecasts.iter().map(|f| f.as_ref().map(loss)).collect();
            let mut known: Vec<f64> = losses.iter().copied().flatten().collect();
            Row {
                forecasts,
                losses,
                usual_loss: median(&mut known).unwrap_or(0.0),
            }
        })
    }
}

/// Returns the sum of the absolute errors of a forecast that begins at slot `origin`, over the
/// slots that have a value.
pub(super) fn loss(series: &Series, origin: usize, forecast: &[f64]) -> f64 {
    let slots = forecast.iter().enumerate();
    let errors = slots.filter_map(|(ahead, forecast)| {
        let value = series.value(origin + ahead)?;
        Some((value - forecast).abs())
    });
    errors.sum()
}

/// Divides a method's loss by `usual`, the median loss of all methods. If `usual` is zero, a method
/// without errors scores 0 and every other one infinity.
fn score(loss: f64, usual: f64) -> f64 {
    if usual > 0.0 {
        loss / usual
    } else if loss > 0.0 {
        f64::INFINITY
    } else {
        0.0
    }
}
