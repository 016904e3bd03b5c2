//! Decides what analytics may use in each control cycle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_scheduler::availability::Availability;
use ebb_scheduler::runtime::CapacitySource;
use serde::Serialize;

use super::estimate::LoadEstimate;
use super::guard::{Guard, GuardSample, LatencyWindow};
use super::monitor::LoadMonitor;

/// The shortest time over which the load is measured, in seconds: over less,
/// what a thread happens to do at the moment would count for the load. A cycle
/// that comes earlier goes by the last measurement.
const MEASURE_S_MIN: f64 = 0.02;

/// What was measured and granted at the start of one control cycle.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LoadSample {
    /// Seconds of the runtime's time.
    pub t_s: f64,
    /// Cores that transactional threads used since the measurement before.
    pub transactional_cores: f64,
    /// Cores that other processes use, as estimated.
    pub others_cores: f64,
    /// The part of what is left that the guard allows, 0 to 1.
    pub allowed: f64,
    /// What analytics may use in the cycle that starts, in hundredths of a core.
    pub capacity_hundredths: u32,
}

/// What is shared out.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Cores of the machine.
    pub cores: u32,
    /// Cores that are never given to analytics.
    pub reserve_cores: f64,
    /// What analytics may read, in bytes per second, when the guard allows all;
    /// `None`: as much as they can.
    pub read_bytes_per_s: Option<u64>,
    /// f(t) in hundredths of a core, reserve deducted.
    pub forecast: Arc<Availability>,
}

/// Gives analytics what the transactional load and other processes leave: the
/// machine, less what was measured, less a reserve; of that the part that a
/// [`Guard`] allows, if there is one. Plans by the forecast that it was given.
#[derive(Debug)]
pub struct Governor {
    machine: Machine,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    monitor: LoadMonitor,
    measured_s: Option<f64>,
    estimate: LoadEstimate,
    transactional_cores: f64,
    guard: Option<Guard>,
    history: Vec<LoadSample>,
    guarded: Vec<GuardSample>,
}

impl Machine {
    /// What is left beside a load of so many cores, when this part of it is
    /// allowed, in hundredths of a core.
    fn capacity_hundredths(&self, load_cores: f64, allowed: f64) -> u32 {
        let left = f64::from(self.cores) - load_cores - self.reserve_cores;
        (left.max(0.0) * allowed * 100.0) as u32
    }
}

impl Governor {
    /// A governor of a machine; `guard` holds an objective, where there is one.
    pub fn new(machine: Machine, monitor: LoadMonitor, guard: Option<Guard>) -> Self {
        let state = State {
            monitor,
            measured_s: None,
            estimate: LoadEstimate::default(),
            transactional_cores: 0.0,
            guard,
            history: Vec::new(),
            guarded: Vec::new(),
        };
        Self {
            machine,
            state: Mutex::new(state),
        }
    }

    /// All cycles so far.
    pub fn history(&self) -> Vec<LoadSample> {
        self.lock().history.clone()
    }

    /// All decisions of the guard so far.
    pub fn guarded(&self) -> Vec<GuardSample> {
        self.lock().guarded.clone()
    }

    /// Tells the guard of a window of the load. True when it allows another part
    /// than before: then the runtime should plan anew.
    pub fn take_window(&self, window: LatencyWindow) -> bool {
        let mut state = self.lock();
        let Some(guard) = &mut state.guard else {
            return false;
        };
        let before = guard.allowed();
        let sample = guard.decide(window);
        let changed = guard.allowed() != before;
        state.guarded.extend(sample);
        changed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn measure(&mut self, now_s: f64) {
        if self
            .measured_s
            .is_some_and(|before_s| now_s - before_s < MEASURE_S_MIN)
        {
            return;
        }
        self.measured_s = Some(now_s);
        // Where the kernel stops telling, the last estimate stays.
        if let Ok(used) = self.monitor.look() {
            self.transactional_cores = used.transactional_cores;
            self.estimate.take(&used);
        }
    }

    fn allowed(&self) -> f64 {
        self.guard.as_ref().map_or(1.0, Guard::allowed)
    }
}

impl CapacitySource for Governor {
    fn capacity_hundredths(&self, now_s: f64) -> u32 {
        let mut state = self.lock();
        state.measure(now_s);
        let allowed = state.allowed();
        let load_cores = state.estimate.load_cores();
        let capacity_hundredths = self.machine.capacity_hundredths(load_cores, allowed);
        let sample = LoadSample {
            t_s: now_s,
            transactional_cores: state.transactional_cores,
            others_cores: state.estimate.others_cores(),
            allowed,
            capacity_hundredths,
        };
        state.history.push(sample);
        capacity_hundredths
    }

    fn read_bytes_per_s(&self) -> Option<u64> {
        let allowed = self.lock().allowed();
        let all = self.machine.read_bytes_per_s?;
        Some((all as f64 * allowed) as u64)
    }

    fn forecast(&self) -> Arc<Availability> {
        self.machine.forecast.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(read_bytes_per_s: Option<u64>) -> Machine {
        Machine {
            cores: 2,
            reserve_cores: 0.1,
            read_bytes_per_s,
            forecast: Arc::new(Availability::constant(100.0).unwrap()),
        }
    }

    #[test]
    fn analytics_get_what_load_and_reserve_leave() {
        let machine = machine(None);
        for (load, allowed, capacity) in [
            (0.0, 1.0, 190),
            (0.5, 1.0, 140),
            (0.5, 0.5, 70),
            (0.5, 0.0, 0),
            (1.9, 1.0, 0),
            (3.0, 1.0, 0),
        ] {
            assert_eq!(
                machine.capacity_hundredths(load, allowed),
                capacity,
                "at a load of {load} cores, {allowed} of the rest allowed"
            );
        }
    }

    #[test]
    fn a_broken_objective_takes_cpu_and_bytes_back_at_once() {
        let guard = Guard::new("p99=2ms".parse().unwrap());
        let monitor = LoadMonitor::start().unwrap();
        let governor = Governor::new(machine(Some(1000)), monitor, Some(guard));
        assert_eq!(governor.read_bytes_per_s(), Some(1000));
        let window = |t_s, latency_us| LatencyWindow {
            t_s,
            length_s: 0.1,
            requests: 1000,
            latency_us,
        };
        assert!(!governor.take_window(window(0.1, 1000.0)));
        assert!(governor.take_window(window(0.2, 3000.0)));
        assert_eq!(governor.read_bytes_per_s(), Some(500));
        assert!(governor.take_window(window(0.3, 3000.0)));
        assert_eq!(governor.capacity_hundredths(0.3), 0);
        assert_eq!(governor.read_bytes_per_s(), Some(0));
        let allowed: Vec<f64> = governor.guarded().iter().map(|s| s.allowed).collect();
        assert_eq!(allowed, [1.0, 0.5, 0.0]);
        assert_eq!(governor.history().len(), 1);
    }

    #[test]
    fn without_a_guard_windows_change_nothing() {
        let governor = Governor::new(machine(None), LoadMonitor::start().unwrap(), None);
        let window = LatencyWindow {
            t_s: 0.1,
            length_s: 0.1,
            requests: 1000,
            latency_us: 1e9,
        };
        assert!(!governor.take_window(window));
        assert_eq!(governor.read_bytes_per_s(), None);
        assert!(governor.guarded().is_empty());
    }
}
