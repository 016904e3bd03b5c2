//! The guard: shrinks analytics before a latency objective breaks, and lets them
//! grow again without oscillating.
//!
//! An objective may be a latency, or a multiple of the latency of the load alone. The latter is kept
//! by the measured cost of analytics ([`crate::price`]). The former is kept by a controller in the
//! manner of Heracles (Lo et al., ISCA 2015), scaled from minutes to windows of a tenth of a second.
//! From each window's latency L and the objective O it computes the *slack* s = (O - L) / O, and
//! decides on `allowed`, the fraction, 0 to 1, that analytics may use of the capacity that the load
//! leaves:
//!
//! ```text
//!   s < 0                  Shrink: allowed / 2; in the second window in a row Stop: 0
//!   0 <= s < SLACK_SHRINK  Shrink: allowed * 0.8
//!   .. < SLACK_GROW        Hold
//!   above                  Grow:   allowed + 0.1, up to the bound
//! ```
//!
//! After a break it holds for some windows. Heracles avoids oscillation by a wait of minutes; here a
//! memory of the *trouble* does. The fraction `allowed` at which analytics had to shrink marks where
//! trouble begins, so the *bound* of the fraction stays below it until a time of good windows has
//! passed, and that time doubles whenever trouble recurs. When the request rate falls well below the
//! rate in trouble, the memory is dropped.
//!
//! Heracles also stops growth by the load itself (above 80 to 85%); here the governor does that,
//! because it measures the remaining capacity.

use serde::Serialize;

use crate::counts::LatencyCounts;
use crate::objective::{Limit, Objective};
use crate::price::{CurveInput, Price, PricePoint};

#[cfg(test)]
mod tests;

/// Analytics shrink while the slack, (objective - latency) / objective, is below this, as in
/// Heracles.
const SLACK_SHRINK: f64 = 0.05;
/// Analytics may grow while the slack, (objective - latency) / objective, is above this. Heracles
/// uses 0.10 for latencies of 15 seconds; the windows here are shorter, so their percentiles are
/// noisier.
const SLACK_GROW: f64 = 0.20;
/// The minimal number of requests in a measurement window. With fewer, its 99th percentile would be
/// just the latency of its slowest request or two, so such windows are merged.
const REQUESTS_MIN: u64 = 200;
/// The maximal length of merged windows, in seconds. Measurement windows with too few requests for a
/// decision are merged until they have enough, or are this long.
const GATHER_S_MAX: f64 = 1.0;
/// The growth of `allowed`, the fraction (0 to 1) of the free capacity that analytics may use, after a
/// measurement window whose slack is at least [`SLACK_GROW`].
const GROWTH: f64 = 0.1;
/// The growth of `allowed`, instead of [`GROWTH`], while it is at least half of its bound and the guard
/// remembers a fraction at which the latency objective was in danger.
const GROWTH_CAREFUL: f64 = 0.02;
/// The least fraction of the free capacity that is allowed to analytics; smaller fractions are
/// rounded down to 0.
const ALLOWED_MIN: f64 = 0.02;
/// The number of measurement windows without growth of the fraction that is allowed to analytics,
/// after a window in which the latency objective was missed.
const COOLDOWN_WINDOWS: u32 = 5;
/// The number of good windows, with a slack of at least [`SLACK_SHRINK`], that must pass after the
/// latency objective was in danger, before analytics may again use the fraction of the free
/// capacity at which the danger began. Windows of the cooldown ([`COOLDOWN_WINDOWS`]) do not count.
/// The number doubles each time that the objective is in danger again, up to [`RETRY_WINDOWS_MAX`].
/// If the request rate falls far enough ([`OTHER_LOAD`]), the wait ends at once, and the next wait
/// starts from this number again.
const RETRY_WINDOWS: u32 = 100;
/// The maximal number of good windows before analytics may again use the fraction of the free
/// capacity at which the latency objective was last in danger: half an hour of windows of a tenth of
/// a second.
const RETRY_WINDOWS_MAX: u32 = 18_000;
/// After the latency objective was in danger, analytics may use at most this part of the fraction
/// of the free capacity at which the danger began.
const BELOW_TROUBLE: f64 = 0.8;
/// If the request rate falls below this fraction of the rate at which the objective was in danger,
/// the guard takes the load for a different one.
const OTHER_LOAD: f64 = 0.8;

/// Measurements of the load in a short window of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LatencyWindow {
    /// The end of the window, in seconds since its source began to measure.
    pub t_s: f64,
    /// The length in seconds; positive.
    pub length_s: f64,
    /// The number of requests that ended in the window.
    pub requests: u64,
    /// The objective's quantile of the latencies of the requests, in microseconds.
    pub latency_us: f64,
}

/// Measurements of the load in a window of time, with all latencies. Quantiles of windows cannot be
/// merged, but their latencies can.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedWindow {
    /// The end, the length, the number of requests and the quantile.
    pub window: LatencyWindow,
    /// All latencies of the window. Without them the guard ignores the window if its objective is a
    /// [multiple](Limit::OverAlone) of the latency without analytics.
    pub latencies: LatencyCounts,
}

impl From<LatencyWindow> for ObservedWindow {
    /// Converts a window to one without a histogram of latencies.
    fn from(window: LatencyWindow) -> Self {
        Self {
            window,
            latencies: LatencyCounts::default(),
        }
    }
}

/// The change of the capacity of analytics by a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// More capacity than before.
    Grow,
    /// Unchanged capacity.
    Hold,
    /// Less capacity.
    Shrink,
    /// No capacity: analytics stop until the guard lets them grow again.
    Stop,
    /// No capacity for a moment, to measure the load alone.
    Pause,
}

/// The latency guard's decision at the end of a measurement window: the fraction of the free capacity
/// that analytics may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GuardSample {
    /// The latencies by which the guard decided: one window, or several merged ones if one alone
    /// had too few requests.
    pub window: LatencyWindow,
    /// (objective - latency) / objective: below 0 the objective is missed; 1 without requests, and
    /// while the latency of the load alone is unknown.
    pub slack: f64,
    /// The load's latency without analytics, at the objective's quantile, in microseconds; `None`
    /// while it is unknown, or if the objective does not depend on it.
    pub alone_us: Option<f64>,
    /// The change of the capacity.
    pub action: Action,
    /// The fraction, 0 to 1, that analytics may now use of the capacity that the load leaves.
    pub allowed: f64,
}

/// The fraction allowed to analytics, and the request rate, when the objective was last in danger. For some
/// time afterwards, analytics must stay below this fraction.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    /// The fraction, 0 to 1, of the capacity left that analytics were allowed when the objective was
    /// in danger.
    allowed: f64,
    requests_per_s: f64,
    /// The number of further measurement windows that must meet the objective before analytics may
    /// use the fraction `allowed` again.
    windows_left: u32,
    /// The number at which `windows_left` started. It doubles each time that the objective is in
    /// danger again.
    windows: u32,
}

/// Decides how much capacity analytics may use, so that the load meets its latency objective. A pure
/// state machine: windows in, allowed capacity out; no clock, no thread.
#[derive(Debug, Clone)]
pub struct Guard {
    objective: Objective,
    keeper: Keeper,
}

/// The method by which the objective is kept.
#[derive(Debug, Clone)]
enum Keeper {
    /// The controller of an objective that is a latency: decides window by window.
    Latency(Controller),
    /// The keeper of an objective that is a multiple of the latency without analytics: measures that
    /// latency, and the cost of analytics.
    OverAlone(Price),
}

impl Guard {
    /// Creates a latency guard that initially lets analytics use all capacity that the load leaves.
    pub fn new(objective: Objective) -> Self {
        Self {
            keeper: match objective.limit {
                Limit::LatencyUs(latency_us) => {
                    Keeper::Latency(Controller::allowing_all(latency_us))
                }
                Limit::OverAlone(factor) => {
                    Keeper::OverAlone(Price::new(objective.quantile.part(), factor))
                }
            },
            objective,
        }
    }

    /// Returns the latency objective of the guard.
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// Returns the fraction, 0 to 1, that analytics may use of the capacity that the load leaves.
    pub fn allowed(&self) -> f64 {
        match &self.keeper {
            Keeper::Latency(controller) => controller.allowed,
            Keeper::OverAlone(price) => price.allowed(),
        }
    }

    /// Returns whether analytics pause, so that the load is measured alone. Then even the guaranteed
    /// minimum is 0.
    pub fn is_pausing(&self) -> bool {
        matches!(&self.keeper, Keeper::OverAlone(price) if price.is_pausing())
    }

    /// Returns whether the latency objective of the load is in danger. An objective that is a
    /// latency is in danger if the load misses it, is close to it, or missed it in the latest
    /// windows; `hundredths` has no effect. An objective that is a [multiple](Limit::OverAlone) of
    /// the latency without analytics is in danger if the load is known to miss it while analytics
    /// use at most `hundredths` hundredths of a core.
    pub(crate) fn is_in_danger(&self, hundredths: f64) -> bool {
        match &self.keeper {
            Keeper::Latency(controller) => controller.is_tight || controller.cooldown_windows > 0,
            Keeper::OverAlone(price) => price.is_dear_at(hundredths),
        }
    }

    /// Returns the price of analytics: the growth of the load's latencies, for each fraction of the
    /// remaining capacity that analytics were allowed to use, ascending by this fraction. The list
    /// is empty until the latency of the load alone is known, and for an objective that is a fixed
    /// latency.
    pub fn price(&self) -> Vec<PricePoint> {
        match &self.keeper {
            Keeper::Latency(_) => Vec::new(),
            Keeper::OverAlone(price) => price.points(),
        }
    }

    /// Resets the guard, which then lets analytics use all capacity that the load leaves. Called when
    /// the last source of latencies has ended. Returns true if the guard allowed less before.
    pub(crate) fn release(&mut self) -> bool {
        let before = std::mem::replace(self, Self::new(self.objective));
        before.allowed() < self.allowed()
    }

    /// Processes the next window. `granted_hundredths` is the capacity of analytics during the
    /// window, in hundredths of a core. Returns `None` if more requests are needed for a decision.
    pub fn decide(
        &mut self,
        seen: &ObservedWindow,
        granted_hundredths: u32,
    ) -> Option<GuardSample> {
        let before = self.allowed();
        match &mut self.keeper {
            Keeper::Latency(controller) => controller.decide(seen.window),
            Keeper::OverAlone(price) => {
                price.take(&CurveInput {
                    t_s: seen.window.t_s,
                    length_s: seen.window.length_s,
                    requests: seen.window.requests,
                    latencies: &seen.latencies,
                    granted_hundredths,
                });
                let limit_us = price.limit_us().filter(|_| seen.window.requests > 0);
                Some(GuardSample {
                    window: seen.window,
                    slack: limit_us.map_or(1.0, |us| (us - seen.window.latency_us) / us),
                    alone_us: price.alone_us(),
                    action: if price.is_pausing() {
                        Action::Pause
                    } else {
                        Action::between(before, price.allowed())
                    },
                    allowed: price.allowed(),
                })
            }
        }
    }
}

impl Action {
    /// Returns the action that changes the fraction of the capacity allowed to analytics from
    /// `before` to `now`.
    fn between(before: f64, now: f64) -> Self {
        match now {
            now if now > before => Self::Grow,
            0.0 if before > 0.0 => Self::Stop,
            now if now < before => Self::Shrink,
            _ => Self::Hold,
        }
    }
}

/// The controller that keeps the load's latency below a fixed objective. After each window, or
/// several merged ones if they have too few requests, it sets the fraction of the free capacity that
/// analytics may use.
#[derive(Debug, Clone)]
struct Controller {
    objective_us: f64,
    allowed: f64,
    cooldown_windows: u32,
    broken_before: bool,
    /// True if the latency of the latest window was near its objective, or above: the slack was
    /// below [`SLACK_SHRINK`].
    is_tight: bool,
    trouble: Option<Trouble>,
    /// The latest windows, merged, while they have too few requests for a decision.
    gathered: Option<LatencyWindow>,
}

impl Controller {
    fn allowing_all(objective_us: f64) -> Self {
        Self {
            objective_us,
            allowed: 1.0,
            cooldown_windows: 0,
            broken_before: false,
            is_tight: false,
            trouble: None,
            gathered: None,
        }
    }

    /// Processes the next window; `None` if more requests are needed for a decision.
    fn decide(&mut self, window: LatencyWindow) -> Option<GuardSample> {
        let window = self.gather(window)?;
        let slack = match window.requests {
            0 => 1.0,
            _ => (self.objective_us - window.latency_us) / self.objective_us,
        };
        let requests_per_s = window.requests as f64 / window.length_s.max(1e-9);
        let is_another = |trouble: &Trouble| requests_per_s < OTHER_LOAD * trouble.requests_per_s;
        if self.trouble.as_ref().is_some_and(is_another) {
            self.trouble = None;
        }
        let before = self.allowed;
        if slack < 0.0 {
            self.break_down(requests_per_s);
        } else {
            self.recover(slack, requests_per_s);
        }
        self.broken_before = slack < 0.0;
        self.is_tight = slack < SLACK_SHRINK;
        Some(GuardSample {
            window,
            slack,
            alone_us: None,
            action: Action::between(before, self.allowed),
            allowed: self.allowed,
        })
    }

    /// Merges a window with those held back so far. Returns the merged window if it has enough
    /// requests for a decision, has no request at all, or is long enough. Otherwise holds it back
    /// and returns `None`. The latency of the merged window is the maximum of the windows'
    /// latencies.
    fn gather(&mut self, window: LatencyWindow) -> Option<LatencyWindow> {
        let whole = match self.gathered.take() {
            None => window,
            Some(before) => LatencyWindow {
                t_s: window.t_s,
                length_s: before.length_s + window.length_s,
                requests: before.requests + window.requests,
                latency_us: before.latency_us.max(window.latency_us),
            },
        };
        let quiet = whole.requests == 0;
        if quiet || whole.requests >= REQUESTS_MIN || whole.length_s >= GATHER_S_MAX {
            return Some(whole);
        }
        self.gathered = Some(whole);
        None
    }

    fn break_down(&mut self, requests_per_s: f64) {
        // The second window in a row may still reflect the capacity allowed in the first one.
        if !self.broken_before {
            self.remember(requests_per_s);
        }
        self.allowed = if self.broken_before {
            0.0
        } else {
            floor(self.allowed / 2.0)
        };
        self.cooldown_windows = COOLDOWN_WINDOWS;
    }

    /// Records that the currently allowed fraction is too much at this request rate.
    fn remember(&mut self, requests_per_s: f64) {
        // If nothing is allowed, analytics are not the cause.
        if self.allowed > 0.0 {
            let windows = self.trouble.map_or(RETRY_WINDOWS, |trouble| {
                trouble.windows.saturating_mul(2).min(RETRY_WINDOWS_MAX)
            });
            self.trouble = Some(Trouble {
                allowed: self.allowed,
                requests_per_s,
                windows_left: windows,
                windows,
            });
        }
    }

    fn recover(&mut self, slack: f64, requests_per_s: f64) {
        if slack < SLACK_SHRINK {
            self.remember(requests_per_s);
            self.allowed = floor(self.allowed * 0.8);
            return;
        }
        if self.cooldown_windows > 0 {
            self.cooldown_windows -= 1;
            return;
        }
        let bound = match &mut self.trouble {
            None => 1.0,
            Some(trouble) if trouble.windows_left > 0 => {
                trouble.windows_left -= 1;
                trouble.allowed * BELOW_TROUBLE
            }
            Some(_) => 1.0,
        };
        if slack >= SLACK_GROW {
            let growth = match &self.trouble {
                Some(_) if self.allowed >= bound / 2.0 => GROWTH_CAREFUL,
                _ => GROWTH,
            };
            let grown = (self.allowed + growth).min(bound);
            self.allowed = self.allowed.max(grown);
        }
    }
}

fn floor(allowed: f64) -> f64 {
    if allowed < ALLOWED_MIN { 0.0 } else { allowed }
}
