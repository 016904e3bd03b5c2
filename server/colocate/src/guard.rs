//! The guard: shrinks analytics before a latency objective breaks, and lets them
//! grow again without oscillating.
//!
//! An objective may be a latency, or so many times what the load has alone: the latter is
//! kept by what analytics were found to cost ([`crate::price`]). A latency is kept by a
//! controller in the manner of Heracles (Lo et al., ISCA 2015), brought
//! from minutes to windows of a tenth of a second. From each window's latency L
//! and the objective O it takes the *slack* s = (O - L) / O, and decides on the
//! part `allowed`, 0 to 1, of what the load leaves:
//!
//! ```text
//!   s < 0                  Shrink: allowed / 2; in the second window in a row Stop: 0
//!   0 <= s < SLACK_SHRINK  Shrink: allowed * 0.8
//!   .. < SLACK_GROW        Hold
//!   above                  Grow:   allowed + 0.1, up to the bound
//! ```
//!
//! After a break it holds for some windows. What keeps Heracles from oscillating
//! is a wait of minutes; here it is a memory. What was allowed when it had to
//! shrink is where the trouble begins, so the *bound* stays below it until a time
//! of good windows has passed, and that time doubles whenever trouble is met
//! again. When the load falls well below what it was then, the memory goes.
//!
//! Heracles also stops growing by the load itself (above 80 to 85%); here the
//! governor does that, which measures what is left.

use serde::Serialize;

use crate::counts::LatencyCounts;
use crate::objective::{Limit, Objective};
use crate::price::{Price, PricePoint, Seen};

#[cfg(test)]
mod tests;

/// Below this slack analytics shrink, as Heracles's.
const SLACK_SHRINK: f64 = 0.05;
/// Above this slack they may grow. Heracles grows above 0.10, but after 15
/// seconds; a window's percentile is noisier than that of 15 seconds.
const SLACK_GROW: f64 = 0.20;
/// A window counts once it holds this many requests, so that its percentile is
/// more than its largest latency; windows with fewer are put together ...
const REQUESTS_MIN: u64 = 200;
/// ... for this long at most.
const GATHER_S_MAX: f64 = 1.0;
/// Growth in a window.
const GROWTH: f64 = 0.1;
/// Growth in a window once it is known where the trouble begins.
const GROWTH_CAREFUL: f64 = 0.02;
/// Less than this is nothing.
const ALLOWED_MIN: f64 = 0.02;
/// Windows without growth after a break.
const COOLDOWN_WINDOWS: u32 = 5;
/// Good windows after which what is known of the trouble is put to the test, the
/// first time; twice as many each time that trouble is met again, up to ...
const RETRY_WINDOWS: u32 = 100;
/// ... this many: at windows of a tenth of a second half an hour.
const RETRY_WINDOWS_MAX: u32 = 18_000;
/// The part of what was too much that is allowed afterwards.
const BELOW_TROUBLE: f64 = 0.8;
/// The part of the requests in trouble below which the load is another one.
const OTHER_LOAD: f64 = 0.8;

/// The load in a short time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LatencyWindow {
    /// When it ended, in seconds.
    pub t_s: f64,
    /// Its length in seconds; positive.
    pub length_s: f64,
    /// Requests that ended in it.
    pub requests: u64,
    /// The objective's quantile of their latencies, in microseconds.
    pub latency_us: f64,
}

/// A window of the load with its latencies, so that windows can be put together.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedWindow {
    /// Its length and its quantile.
    pub window: LatencyWindow,
    /// All of its latencies. Without them an objective over [alone](Limit::OverAlone) learns
    /// nothing from it.
    pub latencies: LatencyCounts,
}

impl From<LatencyWindow> for ObservedWindow {
    /// Of which only the quantile is known.
    fn from(window: LatencyWindow) -> Self {
        Self {
            window,
            latencies: LatencyCounts::default(),
        }
    }
}

/// What the guard does with what analytics may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// More.
    Grow,
    /// The same.
    Hold,
    /// Less.
    Shrink,
    /// Nothing.
    Stop,
    /// Nothing for a moment, to see the load alone.
    Pause,
}

/// What was decided at the end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GuardSample {
    /// The window; of several that were put together, all of them.
    pub window: LatencyWindow,
    /// (objective - latency) / objective: below 0 it is broken; 1 without any
    /// request, and where it is not known yet what the load alone has.
    pub slack: f64,
    /// The objective's quantile alone, in microseconds, where the objective is over that and
    /// it is known.
    pub alone_us: Option<f64>,
    /// What was done.
    pub action: Action,
    /// The part of what the load leaves that analytics may use now, 0 to 1.
    pub allowed: f64,
}

/// Where trouble was met.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    /// What was allowed.
    allowed: f64,
    requests_per_s: f64,
    /// Good windows until it is put to the test.
    windows_left: u32,
    /// Of these in all.
    windows: u32,
}

/// Keeps an objective: windows in, what analytics may use out; no clock, no thread.
#[derive(Debug, Clone)]
pub struct Guard {
    objective: Objective,
    keeper: Keeper,
}

/// Who decides.
#[derive(Debug, Clone)]
enum Keeper {
    /// A latency is kept window by window.
    Latency(Controller),
    /// What the load has alone is learned, and what analytics cost it.
    OverAlone(Price),
}

impl Guard {
    /// One that allows everything so far.
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

    /// Returns the latency objective that the guard keeps.
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// The part of what the load leaves that analytics may use, 0 to 1.
    pub fn allowed(&self) -> f64 {
        match &self.keeper {
            Keeper::Latency(controller) => controller.allowed,
            Keeper::OverAlone(price) => price.allowed(),
        }
    }

    /// Analytics pause, so that the load is seen alone: nobody gets anything.
    pub fn is_pausing(&self) -> bool {
        matches!(&self.keeper, Keeper::OverAlone(price) if price.is_pausing())
    }

    /// Whether the load misses its objective or soon will. Where the objective is over alone, that is
    /// so while at most `hundredths` of a core for analytics are known to be too much.
    pub(crate) fn is_in_danger(&self, hundredths: f64) -> bool {
        match &self.keeper {
            Keeper::Latency(controller) => controller.is_tight || controller.cooldown_windows > 0,
            Keeper::OverAlone(price) => price.is_dear_at(hundredths),
        }
    }

    /// What each level of analytics that was tried costs the load, ascending; empty until
    /// it is known what the load has alone, and for an objective that is a latency.
    pub fn price(&self) -> Vec<PricePoint> {
        match &self.keeper {
            Keeper::Latency(_) => Vec::new(),
            Keeper::OverAlone(price) => price.points(),
        }
    }

    /// Forgets all that it saw, and allows everything again. Called when the last source of
    /// latencies has ended. True when that is more than before.
    pub(crate) fn release(&mut self) -> bool {
        let before = std::mem::replace(self, Self::new(self.objective));
        before.allowed() < self.allowed()
    }

    /// Takes in the next window, in which analytics had so many hundredths of a core;
    /// `None` when it waits for more requests before it judges.
    pub fn decide(
        &mut self,
        seen: &ObservedWindow,
        granted_hundredths: u32,
    ) -> Option<GuardSample> {
        let before = self.allowed();
        match &mut self.keeper {
            Keeper::Latency(controller) => controller.decide(seen.window),
            Keeper::OverAlone(price) => {
                price.take(&Seen {
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
                    action: match price.is_pausing() {
                        true => Action::Pause,
                        false => Action::between(before, price.allowed()),
                    },
                    allowed: price.allowed(),
                })
            }
        }
    }
}

impl Action {
    /// What leads from one part that is allowed to another.
    fn between(before: f64, now: f64) -> Self {
        match now {
            now if now > before => Self::Grow,
            0.0 if before > 0.0 => Self::Stop,
            now if now < before => Self::Shrink,
            _ => Self::Hold,
        }
    }
}

/// What keeps a latency.
#[derive(Debug, Clone)]
struct Controller {
    objective_us: f64,
    allowed: f64,
    cooldown_windows: u32,
    broken_before: bool,
    /// The slack of the latest window was below [`SLACK_SHRINK`].
    is_tight: bool,
    trouble: Option<Trouble>,
    /// Windows with too few requests to judge.
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

    /// Takes in the next window; `None` when it waits for more requests before
    /// it judges.
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

    /// Puts windows together until they can be judged. The latency is then that
    /// of the worst of them.
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
        // The second window in a row may still show what the first one allowed.
        if !self.broken_before {
            self.remember(requests_per_s);
        }
        self.allowed = match self.broken_before {
            true => 0.0,
            false => floor(self.allowed / 2.0),
        };
        self.cooldown_windows = COOLDOWN_WINDOWS;
    }

    /// What is allowed now is too much.
    fn remember(&mut self, requests_per_s: f64) {
        // Where nothing is allowed it was not us.
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
