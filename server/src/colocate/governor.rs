//! Decides what analytics may use in each control cycle.

use std::sync::{Arc, Mutex};

use ebb_scheduler::availability::Availability;
use ebb_scheduler::runtime::CapacitySource;
use serde::Serialize;

use super::LoadMonitor;

/// The weight of the newest measurement in the estimate of the present load:
/// fast enough to follow a compressed day, slow enough not to follow a single
/// flush.
const NEWEST_WEIGHT: f64 = 0.5;

/// What was measured and granted at the start of one control cycle.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LoadSample {
    /// Seconds of the runtime's time.
    pub t_s: f64,
    /// Cores that transactional threads used in the cycle before.
    pub transactional_cores: f64,
    /// What analytics may use in the cycle that starts, in hundredths of a core.
    pub capacity_hundredths: u32,
}

/// Gives analytics what the transactional load leaves: the machine, less what
/// was measured, less a reserve. Plans by the forecast that it was given.
#[derive(Debug)]
pub struct Governor {
    cores: f64,
    reserve_cores: f64,
    forecast: Arc<Availability>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    monitor: LoadMonitor,
    load_cores: Option<f64>,
    history: Vec<LoadSample>,
}

impl Governor {
    /// A governor of `cores` cores, of which `reserve_cores` are never given to
    /// analytics; `forecast` is f(t) in hundredths of a core, reserve deducted.
    pub fn new(
        cores: u32,
        reserve_cores: f64,
        forecast: Arc<Availability>,
        monitor: LoadMonitor,
    ) -> Self {
        let state = State {
            monitor,
            load_cores: None,
            history: Vec::new(),
        };
        Self {
            cores: f64::from(cores),
            reserve_cores,
            forecast,
            state: Mutex::new(state),
        }
    }

    /// All cycles so far.
    pub fn history(&self) -> Vec<LoadSample> {
        self.state.lock().unwrap().history.clone()
    }

    fn capacity(&self, load_cores: f64) -> u32 {
        ((self.cores - load_cores - self.reserve_cores).max(0.0) * 100.0) as u32
    }
}

impl CapacitySource for Governor {
    fn capacity_hundredths(&self, now_s: f64) -> u32 {
        let mut state = self.state.lock().unwrap();
        // Where the kernel stops telling, the last estimate stays.
        let measured = state.monitor.transactional_cores().ok();
        let newest = measured.or(state.load_cores).unwrap_or(0.0);
        let load = state
            .load_cores
            .map_or(newest, |before| before + NEWEST_WEIGHT * (newest - before));
        state.load_cores = Some(load);
        let capacity_hundredths = self.capacity(load);
        state.history.push(LoadSample {
            t_s: now_s,
            transactional_cores: newest,
            capacity_hundredths,
        });
        capacity_hundredths
    }

    fn forecast(&self) -> Arc<Availability> {
        self.forecast.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn analytics_get_what_load_and_reserve_leave() {
        let forecast = Arc::new(Availability::constant(100.0).unwrap());
        let governor = Governor::new(2, 0.1, forecast, LoadMonitor::start().unwrap());
        for (load, capacity) in [(0.0, 190), (0.5, 140), (1.9, 0), (3.0, 0)] {
            assert_eq!(
                governor.capacity(load),
                capacity,
                "at a load of {load} cores"
            );
        }
    }
}
