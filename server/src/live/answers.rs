//! The responses with the load and the forecast.

use ebb_colocate::Limit;
use ebb_jobs::history::now_unix_ms;

use super::outlook::Forecast;
use super::{Live, Load, ObjectiveView};

impl Live {
    /// Returns the load of the last `seconds` seconds, but at most of the last day: a sample for each second
    /// if `seconds` is at most an hour, otherwise a sample for each ten seconds.
    pub fn load(&self, seconds: u32) -> Load {
        let now_unix_ms = now_unix_ms();
        let node = &self.shared.node;
        let objective = node.governor().and_then(|governor| governor.objective());
        let state = self.shared.lock();
        let (samples, guard, shares) = state.day.since(now_unix_ms, seconds);
        let guard_cut_unix_ms = state.day.guard_cut_unix_ms(now_unix_ms, seconds);
        drop(state);
        Load {
            now_unix_ms,
            cores: node.runtime().cores(),
            objective: objective.map(|objective| {
                let (bound_us, ratio) = match objective.limit {
                    Limit::LatencyUs(us) => (Some(us), None),
                    Limit::OverAlone(ratio) => (None, Some(ratio)),
                };
                ObjectiveView {
                    quantile: objective.quantile.to_string(),
                    bound_us,
                    ratio,
                }
            }),
            samples,
            guard,
            guard_cut_unix_ms,
            shares,
        }
    }

    /// Returns the forecast of the next `seconds` seconds; `None` before the runtime's first control cycle,
    /// and after a cycle that panicked.
    pub fn forecast(&self, seconds: u32) -> Option<Forecast> {
        let node = &self.shared.node;
        let now_unix_ms = now_unix_ms();
        let (forecast, now_s) = (node.runtime().forecast()?, node.runtime().now_s());
        let governor = node.governor();
        let runtime_cores = f64::from(node.runtime().cores());
        let cores = governor.map_or(runtime_cores, |governor| governor.cores_for_analytics());
        let given = governor.and_then(|governor| governor.forecast());
        let learned = node.learned_forecast().filter(|_| given.is_some());
        let refused = node.refused_forecast().filter(|_| given.is_none());
        let source = match (given, governor) {
            (Some(_), _) if learned.is_some() => "learned",
            (Some(_), _) => "given",
            (None, Some(_)) => "last-ten-minutes",
            (None, None) => "fixed",
        };
        let state = self.shared.lock();
        let now = (now_s, now_unix_ms);
        Some(Forecast {
            made_at_unix_ms: now_unix_ms,
            source: source.to_string(),
            refused,
            points: (state.forecast_errors).points(
                (&forecast, learned.as_deref()),
                now,
                seconds,
                cores,
            ),
            error: state.forecast_errors.view(),
            predictions: state.ledger.error(),
        })
    }
}
