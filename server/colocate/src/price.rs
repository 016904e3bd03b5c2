//! The price of analytics: the growth of the tail latency with the *level*, the fraction of the
//! capacity left by the load that analytics may use, and the largest level that keeps the tail
//! within a multiple of *alone*, the tail latency of the load without analytics.
//!
//! ```text
//!   pauses of analytics ─► alone: the limit is 1.1 of its quantile
//!   the rest of the time ─► levels, a twelfth each: the fraction of their requests above the limit
//!                            └► monotone curve ─► the largest level that is not surely dear
//! ```
//!
//! The latencies of one window prove nothing: with the same load, the p99 of two windows may differ
//! by a factor of two. So windows are merged into *units* of up to half a second, and units are the
//! evidence. A level is *dear*, too costly, once more requests were above the limit than the
//! objective allows, by [`SURE`] standard errors. The errors count units, not requests, because the
//! requests of one stall are not independent. The levels form a monotone curve (pool adjacent
//! violators): more analytics never make the load faster. Evidence fades, so a level that was dear
//! by chance is tried again soon, and one that is dear by far after minutes.

use std::collections::VecDeque;

use serde::Serialize;

use crate::counts::LatencyCounts;

mod pauses;
#[cfg(test)]
mod tests;

use pauses::Pauses;

/// The number of levels of analytics above 0: equal steps of the fraction of the capacity that
/// analytics may use.
pub(crate) const LEVELS: usize = 12;
/// The time after a change of the fraction of the capacity that analytics may use, in seconds,
/// during which latencies may still show the effect of the former fraction.
const SETTLE_S: f64 = 0.1;
/// The length of a unit, one sample for the price, in seconds: successive measurement windows are
/// merged until they last this long. A unit is shorter if a pause of analytics begins or ends
/// within it.
const UNIT_S: f64 = 0.5;
/// The minimal number of pauses of analytics in which the load was measured, before its latency
/// without analytics counts as known.
const PAUSES_MIN: usize = 10;
/// The minimal number of requests, measured in pauses of analytics, before the load's latency
/// without analytics counts as known.
const ALONE_REQUESTS_MIN: u64 = 10_000;
/// The half-life of the weight of measurements, in seconds.
const HALF_LIFE_S: f64 = 120.0;
/// The maximal age of latencies that were measured while analytics ran, in seconds. Older ones are
/// dropped.
const KEPT_S: f64 = 600.0;
/// The maximal age of latencies that were measured in pauses of analytics, in seconds; older ones
/// are dropped. It is longer than [`KEPT_S`] because a load with few requests needs long for
/// [`ALONE_REQUESTS_MIN`] requests in pauses.
const ALONE_KEPT_S: f64 = 3600.0;
/// The number of latest pauses of analytics that alone determine the load's latency without
/// analytics, if they contain [`ALONE_REQUESTS_MIN`] requests: the latest pauses show the machine's
/// present state. With fewer requests, older pauses count too.
const PAUSES_LATEST: usize = 30;
/// The number of standard errors by which the requests above the latency limit must exceed the
/// allowed ones for a level of analytics to count as too costly. By chance, this happens in one of
/// forty evaluations.
const SURE: f64 = 2.0;
/// A level (fraction of the free capacity for analytics) that was too costly is tried again once the requests
/// above the latency limit exceed the allowed ones by less than this number of standard errors. Nothing is
/// measured at the level meanwhile; only its old measurements lose weight.
const RETRY: f64 = 1.0;
/// The weight of the assumption, for each level of analytics, that exactly as many requests exceed
/// the latency limit as the objective allows: it counts like this number of units of measurements,
/// half a second each. So a few measurements alone do not make a level too costly.
const PRIOR_UNITS: f64 = 3.0;
/// After a level of analytics that is too costly, half of it is tried if more than this many times
/// as many requests are above the latency limit as the objective allows. Otherwise the next lower
/// level is tried.
const FAR: f64 = 4.0;
/// The minimal time for which analytics keep a level, the fraction of the free capacity that they
/// may use, before the next higher level is tried, in seconds.
const RAISE_EVERY_S: f64 = 2.0;
/// If the request rate changes by more than this factor, and by more than chance explains, the load
/// is taken for a different one.
const OTHER_LOAD: f64 = 1.4;
/// If no request comes for this time, in seconds, the load is taken to have ended.
const SILENCE_S: f64 = 1.0;

/// Measurements of the load in a window of time, as input of the price curve: the growth of the
/// load's latencies with the capacity of analytics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CurveInput<'a> {
    /// The end of the window, in seconds since its source began to measure.
    pub t_s: f64,
    /// The length of the window, in seconds.
    pub length_s: f64,
    /// The number of requests that ended in the window.
    pub requests: u64,
    /// The latencies of the `requests`; empty if unknown.
    pub latencies: &'a LatencyCounts,
    /// The capacity of analytics in the window, in hundredths of a core.
    pub granted_hundredths: u32,
}

/// The measured cost of one level of analytics: the latencies of the load while analytics may use a
/// given fraction of the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PricePoint {
    /// The level: the fraction, 0 to 1, that analytics may use of the capacity that the load
    /// leaves. At 0 the load runs alone.
    pub allowed: f64,
    /// The mean capacity that analytics had while `allowed` had this value, in hundredths of a
    /// core.
    pub granted_hundredths: f64,
    /// The number of requests measured while analytics were allowed this fraction.
    pub requests: u64,
    /// The time for which the load was measured while analytics were allowed this fraction, in
    /// seconds.
    pub seconds: f64,
    /// The objective's quantile of the latencies of the measured requests, in microseconds.
    pub latency_us: f64,
    /// The quotient of `latency_us` and the same quantile without analytics.
    pub over_alone: f64,
    /// The number of requests above the latency limit, divided by the number that the objective
    /// allows: above 1 the objective is missed. Smoothed over all levels, so that it never falls as
    /// the level, `allowed`, grows.
    pub above_limit: f64,
    /// The standard error of `above_limit`.
    pub above_limit_error: f64,
    /// True if the level is too costly: the load misses its latency objective while analytics use
    /// this fraction, by more than chance explains.
    pub is_dear: bool,
}

/// About half a second of measurements at one level, the fraction of the free capacity that
/// analytics may use; less if a pause of analytics began or ended meanwhile.
#[derive(Debug, Clone)]
struct Unit {
    t_s: f64,
    length_s: f64,
    level: usize,
    latencies: LatencyCounts,
    requests: u64,
    /// The number of requests above the latency limit, the objective's multiple of the present
    /// latency without analytics.
    above: u64,
    /// The sum over windows of the granted capacity, in hundredths of a core, times the length of
    /// the window in seconds.
    granted: f64,
}

/// Sums over units (samples of up to half a second) of five numbers, each times the weight of the unit: its
/// requests, its requests above the latency limit, the squares of both, and their product. The sums
/// determine the fraction of requests above the limit, and its standard error.
#[derive(Debug, Clone, Copy, Default)]
struct Evidence {
    above: f64,
    requests: f64,
    above2: f64,
    above_requests: f64,
    requests2: f64,
}

impl Evidence {
    fn add(&mut self, weight: f64, above: f64, requests: f64) {
        self.above += weight * above;
        self.requests += weight * requests;
        self.above2 += weight * above * above;
        self.above_requests += weight * above * requests;
        self.requests2 += weight * requests * requests;
    }

    fn and(mut self, more: Self) -> Self {
        self.above += more.above;
        self.requests += more.requests;
        self.above2 += more.above2;
        self.above_requests += more.above_requests;
        self.requests2 += more.requests2;
        self
    }

    /// Returns the fraction of requests above the latency limit. `prior` imagined requests are
    /// added, a fraction `lets` of them above the limit, so that few measured requests give no
    /// extreme result.
    fn part(&self, lets: f64, prior: f64) -> f64 {
        (self.above + lets * prior) / (self.requests + prior).max(1e-9)
    }

    /// Returns the variance of the number of requests above the latency limit, per request: the
    /// variance between units (samples of half a second), plus that of single requests.
    fn variance(&self) -> f64 {
        let part = self.part(0.0, 0.0);
        let spread = self.above2 - 2.0 * part * self.above_requests + part * part * self.requests2;
        spread.max(0.0) / self.requests.max(1e-9) + part
    }
}

/// The cost to the load's latency if analytics use one level (a fraction of the free capacity),
/// smoothed so that a higher level never costs less.
#[derive(Debug, Clone, Copy)]
struct LevelPrice {
    level: usize,
    /// The fraction of requests above the limit, divided by the fraction that the objective allows.
    above: f64,
    error: f64,
    is_dear: bool,
}

/// The measured growth of the load's latency with the capacity of analytics, and the choice of the
/// level: the fraction of the free capacity that analytics may use. A pure state machine: windows
/// in, a level out; no clock, no thread.
#[derive(Debug, Clone)]
pub(crate) struct Price {
    quantile: f64,
    /// The objective: the latency at `quantile` may be this multiple of the one without analytics.
    factor: f64,
    level: usize,
    pauses: Pauses,
    changed_s: f64,
    raised_s: f64,
    silent_s: f64,
    gathering: Option<Unit>,
    units: VecDeque<Unit>,
    alone_us: Option<f64>,
    /// For each level (fraction of the free capacity) of analytics, true if it was too costly at
    /// the last evaluation: the load missed its latency objective by more than chance explains.
    dear: [bool; LEVELS + 1],
}

impl Price {
    /// Creates a price curve without measurements, which lets analytics use all capacity that the
    /// load leaves. The objective is that the `quantile` of the load's latencies is at most
    /// `factor` times the one without analytics.
    pub(crate) fn new(quantile: f64, factor: f64) -> Self {
        Self {
            quantile,
            factor,
            level: LEVELS,
            pauses: Pauses::new(),
            changed_s: f64::NEG_INFINITY,
            raised_s: f64::NEG_INFINITY,
            silent_s: 0.0,
            gathering: None,
            units: VecDeque::new(),
            alone_us: None,
            dear: [false; LEVELS + 1],
        }
    }

    /// Returns the fraction, 0 to 1, that analytics may now use of the capacity that the load
    /// leaves.
    pub(crate) fn allowed(&self) -> f64 {
        if self.pauses.is_on() {
            0.0
        } else {
            self.level as f64 / LEVELS as f64
        }
    }

    /// Returns whether analytics pause, so that the load is measured alone.
    pub(crate) fn is_pausing(&self) -> bool {
        self.pauses.is_on()
    }

    /// Returns whether the load surely missed its latency objective while analytics had a mean
    /// capacity of at most this many hundredths of a core.
    pub(crate) fn is_dear_at(&self, hundredths: f64) -> bool {
        let is_at_most = |level: usize| {
            let units = self.units.iter().filter(|unit| unit.level == level);
            let sums = units.fold((0.0, 0.0), |(granted, seconds), unit| {
                (granted + unit.granted, seconds + unit.length_s)
            });
            sums.0 <= hundredths * sums.1
        };
        (0..=LEVELS).any(|level| self.dear[level] && is_at_most(level))
    }

    /// Returns the objective's quantile of the load's latencies without analytics, in microseconds; `None`
    /// until it is known.
    pub(crate) fn alone_us(&self) -> Option<f64> {
        self.alone_us
    }

    /// Returns the largest latency that the objective allows at its quantile, in microseconds;
    /// `None` until the latency without analytics is known.
    pub(crate) fn limit_us(&self) -> Option<f64> {
        self.alone_us.map(|alone| alone * self.factor)
    }

    /// Processes the measurements of the next window of time.
    pub(crate) fn take(&mut self, seen: &CurveInput<'_>) {
        if seen.requests == 0 {
            self.silent_s += seen.length_s;
            if self.silent_s >= SILENCE_S {
                // The load has ended, and the next one may be different.
                self.pauses.stop();
                *self = Self {
                    pauses: self.pauses.clone(),
                    ..Self::new(self.quantile, self.factor)
                };
            }
            return;
        }
        self.silent_s = 0.0;
        if seen.latencies.total() == 0 {
            return;
        }
        let now_s = seen.t_s;
        if now_s - seen.length_s >= self.changed_s + SETTLE_S - 1e-9 {
            self.gather(seen);
        }
        let is_whole = |unit: &Unit| unit.length_s >= UNIT_S - 1e-9;
        if self.gathering.as_ref().is_some_and(is_whole) {
            self.close_unit(now_s);
        }
        self.pause_or_go_on(now_s);
    }

    fn gather(&mut self, seen: &CurveInput<'_>) {
        let level = if self.pauses.is_on() { 0 } else { self.level };
        let unit = self.gathering.get_or_insert_with(|| Unit {
            t_s: seen.t_s,
            length_s: 0.0,
            level,
            latencies: LatencyCounts::default(),
            requests: 0,
            above: 0,
            granted: 0.0,
        });
        unit.t_s = seen.t_s;
        unit.length_s += seen.length_s;
        unit.requests += seen.latencies.total();
        unit.latencies.add(seen.latencies);
        unit.granted += f64::from(seen.granted_hundredths) * seen.length_s;
    }

    /// Ends the current unit of measurements, and chooses the next level of analytics: the fraction
    /// of the free capacity that they may use.
    fn close_unit(&mut self, now_s: f64) {
        let Some(unit) = self.gathering.take() else {
            return;
        };
        if self.is_another_load(&unit) {
            self.units.clear();
            self.alone_us = None;
            self.pauses.load_changed(now_s);
        }
        let is_alone = unit.level == 0;
        self.units.push_back(unit);
        self.units.retain(|unit| {
            let kept_s = if unit.level == 0 {
                ALONE_KEPT_S
            } else {
                KEPT_S
            };
            now_s - unit.t_s <= kept_s
        });
        let before = self.limit_us();
        if is_alone {
            self.alone_us = self.measure_alone();
        }
        let limit_us = self.limit_us();
        let latest = if limit_us == before { 1 } else { usize::MAX };
        for unit in self.units.iter_mut().rev().take(latest) {
            unit.above = limit_us.map_or(0, |limit_us| unit.latencies.above_us(limit_us));
        }
        self.choose(now_s);
    }

    /// Returns whether the request rate in `unit`, half a second of measurements, and in the unit
    /// before it differs from the rate in earlier units by more than the factor [`OTHER_LOAD`], and
    /// by more than chance explains.
    fn is_another_load(&self, unit: &Unit) -> bool {
        let (mut requests, mut seconds) = (unit.requests as f64, unit.length_s);
        // A single unit may be a burst.
        let Some(last) = self.units.back() else {
            return false;
        };
        requests += last.requests as f64;
        seconds += last.length_s;
        let before = self.units.iter().rev().skip(1);
        let (all, all_s) = before.fold((0.0, 0.0), |(requests, seconds), unit| {
            (requests + unit.requests as f64, seconds + unit.length_s)
        });
        if all_s < 2.0 * UNIT_S {
            return false;
        }
        let expected = all / all_s * seconds;
        let is_far = requests > expected * OTHER_LOAD || requests * OTHER_LOAD < expected;
        is_far && (requests - expected).abs() > 4.0 * expected.max(1.0).sqrt()
    }

    /// Returns the latest units of measurements in which no analytics ran. They determine the
    /// load's latency without analytics.
    fn alone(&self) -> Vec<&Unit> {
        let mut alone = Vec::new();
        let mut requests = 0;
        for unit in self.units.iter().rev().filter(|unit| unit.level == 0) {
            if alone.len() >= PAUSES_LATEST && requests >= ALONE_REQUESTS_MIN {
                break;
            }
            requests += unit.requests;
            alone.push(unit);
        }
        alone
    }

    /// Returns the objective's quantile of the load's latencies without analytics, in microseconds; `None` if
    /// there are too few measurements.
    fn measure_alone(&self) -> Option<f64> {
        let alone = self.alone();
        let mut pool = LatencyCounts::default();
        alone.iter().for_each(|unit| pool.add(&unit.latencies));
        let is_enough = alone.len() >= PAUSES_MIN && pool.total() >= ALONE_REQUESTS_MIN;
        is_enough.then(|| pool.quantile_us(self.quantile)).flatten()
    }

    fn weight(&self, unit: &Unit, now_s: f64) -> f64 {
        (-(now_s - unit.t_s).max(0.0) / HALF_LIFE_S).exp2()
    }

    /// Returns, for each level (fraction of the free capacity) that analytics have tried, its cost
    /// to the load's latency, smoothed so that a higher level never costs less. Empty until the
    /// latency without analytics is known.
    fn curve(&self, now_s: f64) -> Vec<LevelPrice> {
        if self.alone_us.is_none() {
            return Vec::new();
        }
        let lets = 1.0 - self.quantile;
        let mut tried = [None::<Evidence>; LEVELS + 1];
        let mut alone = Evidence::default();
        for unit in self.alone() {
            alone.add(1.0, unit.above as f64, unit.requests as f64);
        }
        let (mut requests, mut units) = (0.0, 0.0);
        for unit in &self.units {
            let (weight, of_all) = (self.weight(unit, now_s), unit.requests as f64);
            tried[unit.level]
                .get_or_insert_default()
                .add(weight, unit.above as f64, of_all);
            requests += of_all * UNIT_S / unit.length_s.max(1e-9);
            units += 1.0;
        }
        let prior = PRIOR_UNITS * requests / f64::max(units, 1.0);
        // Pool adjacent violators: blocks of levels, with ascending fractions of requests above the
        // limit.
        let mut blocks: Vec<(Vec<usize>, Evidence)> = Vec::new();
        let found = (tried.iter().enumerate()).filter_map(|(level, it)| Some((level, (*it)?)));
        for (level, evidence) in found {
            let mut block = (vec![level], evidence);
            let part = |evidence: &Evidence| evidence.part(lets, prior);
            while let Some(below) = blocks.pop_if(|below| part(&below.1) > part(&block.1)) {
                block = ([below.0, block.0].concat(), below.1.and(block.1));
            }
            blocks.push(block);
        }
        let priced = blocks.iter().flat_map(|(levels, evidence)| {
            let part = evidence.part(lets, prior);
            // If analytics cost nothing, a level and *alone* are two samples of the same
            // distribution, and a stall in only the larger one proves little. So the variance of
            // both together determines their errors.
            let variance = evidence.and(alone).variance();
            let samples = 1.0 / (evidence.requests + prior) + 1.0 / alone.requests.max(1e-9);
            let error = (variance * samples).sqrt();
            levels.iter().map(move |&level| LevelPrice {
                level,
                above: part / lets,
                error: error / lets,
                is_dear: level > 0 && part - lets > self.errors_allowed(level) * error,
            })
        });
        priced.collect()
    }

    fn errors_allowed(&self, level: usize) -> f64 {
        if self.dear[level] { RETRY } else { SURE }
    }

    fn choose(&mut self, now_s: f64) {
        let curve = self.curve(now_s);
        self.dear = [false; LEVELS + 1];
        for priced in &curve {
            self.dear[priced.level] = priced.is_dear;
        }
        let at = |level: usize| curve.iter().find(|priced| priced.level == level);
        let is_dear = |level| at(level).is_some_and(|priced| priced.is_dear);
        let dearest = curve.iter().filter(|priced| priced.is_dear);
        let first_dear = dearest.map(|priced| priced.level).min();
        let before = self.level;
        if let Some(dear) = first_dear.filter(|dear| *dear <= self.level) {
            let far = at(dear).is_some_and(|priced| priced.above > FAR);
            self.level = if far { dear / 2 } else { dear - 1 };
        } else if !curve.is_empty()
            && self.level < LEVELS
            && now_s - self.raised_s >= RAISE_EVERY_S
            && !is_dear(self.level + 1)
            && first_dear.is_none_or(|dear| dear > self.level + 1)
        {
            self.level += 1;
        }
        if self.level != before {
            (self.raised_s, self.changed_s) = (now_s, now_s);
        }
    }

    fn pause_or_go_on(&mut self, now_s: f64) {
        let is_over = self.pauses.is_over(now_s);
        let begins = self.pauses.is_due(now_s) && self.needs_pauses();
        if !is_over && !begins {
            return;
        }
        // The gathered windows belong to the time before the change.
        self.close_unit(now_s);
        if is_over {
            (self.pauses).end(now_s, self.alone().len() >= PAUSES_MIN)
        } else {
            self.pauses.begin(now_s)
        }
        self.changed_s = now_s;
    }

    /// Returns whether analytics should pause now and then: they run beside the load, and requests
    /// are frequent enough that pauses will show the load's latency without analytics.
    fn needs_pauses(&self) -> bool {
        let per_s_min = pauses::requests_per_s_min(ALONE_REQUESTS_MIN, ALONE_KEPT_S);
        let is_enough = |unit: &Unit| unit.requests as f64 >= per_s_min * unit.length_s;
        // At level 0 the load is alone anyway.
        self.level > 0 && self.units.back().is_some_and(is_enough)
    }

    /// Returns the measured cost of each level of analytics (fraction of the capacity) that was
    /// tried, ascending by level.
    pub(crate) fn points(&self) -> Vec<PricePoint> {
        let now_s = self.units.back().map_or(0.0, |unit| unit.t_s);
        let curve = self.curve(now_s);
        let point = |priced: &LevelPrice| {
            let units: Vec<&Unit> = (self.units.iter())
                .filter(|unit| unit.level == priced.level)
                .collect();
            let mut pool = LatencyCounts::default();
            units.iter().for_each(|unit| pool.add(&unit.latencies));
            let seconds: f64 = units.iter().map(|unit| unit.length_s).sum();
            let granted: f64 = units.iter().map(|unit| unit.granted).sum();
            let latency_us = pool.quantile_us(self.quantile).unwrap_or(0.0);
            PricePoint {
                allowed: priced.level as f64 / LEVELS as f64,
                granted_hundredths: granted / seconds.max(1e-9),
                requests: pool.total(),
                seconds,
                latency_us,
                over_alone: latency_us / self.alone_us.unwrap_or(latency_us).max(1e-9),
                above_limit: priced.above,
                above_limit_error: priced.error,
                is_dear: priced.is_dear,
            }
        };
        curve.iter().map(point).collect()
    }
}
