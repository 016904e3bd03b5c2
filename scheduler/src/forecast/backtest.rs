//! What each method was worth on past days, and which to take therefore.

use super::grid::Grid;
use super::method::Method;
use super::pool::forecasts;
use super::profile::median;
use super::series::Series;
use std::collections::BTreeMap;

/// Past days that a choice needs at least to be told from chance, where there
/// are more.
const DAYS_MIN: usize = 7;

/// How much worse than the best a method may have been to be combined with it.
const WORSE_MAX: f64 = 1.1;

/// Methods that are combined at most.
const COMBINED_MAX: usize = 10;

/// Forecasts as they would have been made at one origin.
#[derive(Debug)]
struct Row {
    /// Per method.
    forecasts: Vec<Option<Vec<f64>>>,
    /// Per method: the sum of the absolute errors over the slots with a value,
    /// for a method that had a forecast.
    losses: Vec<Option<f64>>,
    /// The median of the losses: how hard this day was.
    usual_loss: f64,
}

/// Forecasts at past origins, made once each. A row holds what came after its
/// origin, so each question names the origin `now` that it is asked at, and rows
/// that end after it are not looked at.
#[derive(Debug)]
pub(super) struct Backtest<'a> {
    series: &'a Series,
    methods: Vec<Method>,
    grid: Grid,
    /// How many days back, one origin each.
    days: usize,
    rows: BTreeMap<usize, Row>,
}

/// The methods whose mean is the forecast, best first; positions in the pool.
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

    /// The origins to look at from `now`, latest first: a day apart, all with
    /// their horizon before `now` and a day of values before them.
    pub(super) fn origins(&self, now: usize) -> Vec<usize> {
        let Grid { day, horizon } = self.grid;
        let back = (0..self.days).map(|days| now.checked_sub(horizon + days * day));
        back.map_while(|origin| origin.filter(|&origin| origin >= day))
            .collect()
    }

    pub(super) fn forecast(&mut self, origin: usize, method: usize) -> Option<&[f64]> {
        self.row(origin).forecasts[method].as_deref()
    }

    /// What to take at `now`.
    ///
    /// A method's score is its loss over the usual loss of the same past days, so
    /// that one which could not forecast all of them is not helped by having
    /// missed the hard ones. Those within a tenth of the best are combined, up to
    /// a number; a method that cannot say anything now, or could not on a week of
    /// the past days, is left out. Falls back to the naive day.
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
        // Stable: among equals the simpler one, which stands first in the pool.
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

    /// The mean of the chosen methods at `origin`; of those that had a forecast
    /// then. `None` when none had.
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

    /// Per past origin from `now`, latest first: what was forecast, by the choice
    /// of *that* time, and the slot it begins at. Where that time had less than a
    /// week to choose from, by `choice`.
    pub(super) fn replayed(&mut self, now: usize, choice: &Choice) -> Vec<(usize, Vec<f64>)> {
        let mut replayed = Vec::new();
        for origin in self.origins(now) {
            let then = if self.origins(origin).len() < DAYS_MIN {
                choice.clone()
            } else {
                self.choose(origin)
            };
            if let Some(forecast) = self.combine(origin, &then) {
                replayed.push((origin, forecast));
            }
        }
        replayed
    }

    /// Forgets origins before `slot`.
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

/// The sum of the absolute errors over the slots that have a value.
pub(super) fn loss(series: &Series, origin: usize, forecast: &[f64]) -> f64 {
    let slots = forecast.iter().enumerate();
    let errors = slots.filter_map(|(ahead, forecast)| {
        let value = series.value(origin + ahead)?;
        Some((value - forecast).abs())
    });
    errors.sum()
}

/// Loss beside the usual one; where that is none, only who never missed is as
/// good.
fn score(loss: f64, usual: f64) -> f64 {
    if usual > 0.0 {
        loss / usual
    } else if loss > 0.0 {
        f64::INFINITY
    } else {
        0.0
    }
}
