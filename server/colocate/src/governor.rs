//! Decides the capacity of analytics in each control cycle.

mod cores;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_scheduler::availability::Availability;
use ebb_scheduler::runtime::{Capacity, CapacityRequest, CapacitySource};
use serde::Serialize;

use self::cores::Cores;
use crate::cpu_limit::{CpuLimit, CpuLimitMonitor};
use crate::estimate::{LeftEstimate, LoadEstimate};
use crate::floor::{CpuShares, FloorDecision, ObjectiveState, most_cores};
use crate::floor_share::FloorShare;
use crate::guard::{Guard, GuardSample, ObservedWindow};
use crate::machine::Machine;
use crate::memory::{MemoryMonitor, SteadyMemory};
use crate::monitor::{LoadMonitor, MeasuredLoad, RequestRates, reachable_cores};
use crate::objective::Objective;
use crate::price::PricePoint;
use crate::recent::{Recent, SAMPLES_MAX_DEFAULT};

/// The minimal time over which the load is measured, in seconds: over less, the momentary activity of a
/// thread would dominate. A cycle that comes earlier uses the last measurement.
const MEASURE_S_MIN: f64 = 0.02;

/// The measurements and grants at the start of one control cycle.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct LoadSample {
    /// The time in seconds, by the runtime's clock.
    pub t_s: f64,
    /// Cores that transactional threads used since the previous measurement.
    pub transactional_cores: f64,
    /// The mean number of transactional threads that waited for a core.
    pub transactional_waiting: f64,
    /// The bytes per second that transactional threads read from the disk and wrote to it.
    pub transactional_disk_bytes_per_s: f64,
    /// The requests served since the previous measurement, if they are counted.
    pub requests: Option<RequestRates>,
    /// Cores that other processes use, and on a virtual machine also the host. A moving average
    /// over about two seconds; 0 if it is below 0.05.
    pub others_cores: f64,
    /// The limit on the CPU of the cgroups above this process, if there is one.
    pub cpu_limit: Option<CpuLimit>,
    /// The fraction, 0 to 1, of the remaining capacity that the latency guard lets analytics use.
    pub allowed: f64,
    /// The capacity of analytics in the cycle that starts, in hundredths of a core.
    pub capacity_hundredths: u32,
    /// True if other processes use the CPU, and analytics therefore run outside of the idle class, where
    /// `capacity_hundredths` is guaranteed to them.
    pub is_on_floor: bool,
    /// The memory that tasks may hold in this cycle, in bytes, if the system reports memory.
    pub memory_bytes: Option<u64>,
}

/// Grants analytics the capacity that the transactional load and other processes leave: the
/// capacity of the machine, less the measured use, less a reserve. If there is a [`Guard`],
/// analytics get only the fraction of this capacity that the guard allows. Policies plan by the
/// machine's forecast.
///
/// The load and analytics together stay below the CPU limit (`cpu.max`) of the cgroups above this
/// process. The limit is read in each control cycle, so the capacity follows a limit that is raised, lowered
/// or removed. Other processes may use the cores beyond the limit.
///
/// While other processes hold the CPU, analytics get a floor: [`Machine::floor_cores`].
///
/// The memory for tasks is the available memory plus the memory that tasks hold, less a twentieth
/// of the total. It is computed for the machine and for each cgroup of this process that has a
/// limit. The minimum of all results of the last five seconds counts. The guard does not affect it,
/// because latencies do not show how much memory is left.
#[derive(Debug)]
pub struct Governor {
    machine: Machine,
    cores: Cores,
    memory: MemoryMonitor,
    /// The CPU time that threads of the service outside of the runtime, such as clients' scans, may use
    /// while other processes use all cores.
    floor_share: Arc<FloorShare>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    monitor: LoadMonitor,
    measured_s: Option<f64>,
    left_memory: SteadyMemory,
    cpu_limits: CpuLimitMonitor,
    /// The CPU limit at the last measurement.
    cpu_limit: Option<CpuLimit>,
    estimate: LoadEstimate,
    /// The last measurement of the load.
    load: MeasuredLoad,
    floor: FloorDecision,
    /// The forecast f(t) of the capacity for analytics, if there is one.
    forecast: Option<Arc<Availability>>,
    /// The mean capacity that analytics got recently, for plans without a forecast.
    left: LeftEstimate,
    guard: Option<Guard>,
    /// The number of sources that feed the latency guard with measurements of the load.
    watches: usize,
    history: Recent<LoadSample>,
    guarded: Recent<GuardSample>,
}

impl Governor {
    /// Creates a governor of a machine; `guard` limits analytics so that the load meets its latency
    /// objective, if it has one.
    pub fn new(machine: Machine, monitor: LoadMonitor, guard: Option<Guard>) -> Self {
        let bounds = (CpuLimitMonitor::start(), reachable_cores());
        Self::within(bounds, machine, monitor, guard)
    }

    /// Creates a governor of a process that may run on `reachable_cores` cores, below the CPU limits that
    /// `cpu_limits` reads.
    fn within(
        (mut cpu_limits, reachable_cores): (CpuLimitMonitor, f64),
        machine: Machine,
        monitor: LoadMonitor,
        guard: Option<Guard>,
    ) -> Self {
        let cpu_limit = cpu_limits.sample();
        let state = State {
            monitor,
            measured_s: None,
            left_memory: SteadyMemory::default(),
            cpu_limits,
            cpu_limit,
            estimate: LoadEstimate::default(),
            load: MeasuredLoad::default(),
            floor: FloorDecision::default(),
            forecast: machine.forecast.clone(),
            left: LeftEstimate::default(),
            guard,
            watches: 0,
            history: Recent::new(SAMPLES_MAX_DEFAULT),
            guarded: Recent::new(SAMPLES_MAX_DEFAULT),
        };
        Self {
            cores: Cores::at_start(machine.cores, reachable_cores, cpu_limit),
            machine,
            memory: MemoryMonitor::start(),
            floor_share: Arc::new(FloorShare::new()),
            state: Mutex::new(state),
        }
    }

    /// Sets how many control cycles are kept in the history, and how many decisions of the latency guard,
    /// in place of [`SAMPLES_MAX_DEFAULT`]; drops the samples so far.
    #[must_use]
    pub fn keeping(self, samples_max: usize) -> Self {
        let mut state = self.lock();
        state.history = Recent::new(samples_max);
        state.guarded = Recent::new(samples_max);
        drop(state);
        self
    }

    /// Replaces the forecast f(t) by which scheduling policies plan: the capacity for analytics over the
    /// runtime's time, in hundredths of a core, with the reserve deducted.
    pub fn plan_by(&self, forecast: Arc<Availability>) {
        self.lock().forecast = Some(forecast);
    }

    /// Removes the forecast, so that scheduling policies plan by a moving average, over about ten minutes, of
    /// the capacity that analytics got.
    pub fn plan_by_mean(&self) {
        self.lock().forecast = None;
    }

    /// Returns the measurements of the latest control cycles, oldest first.
    pub fn history(&self) -> Vec<LoadSample> {
        self.lock().history.to_vec()
    }

    /// Returns the measurements of the control cycles after `t_s`, in seconds of the runtime's time, oldest
    /// first.
    pub fn history_after(&self, t_s: f64) -> Vec<LoadSample> {
        self.lock().history.newest(|sample| sample.t_s > t_s)
    }

    /// Returns the measurements of the latest control cycle; `None` before the first one.
    pub fn latest(&self) -> Option<LoadSample> {
        self.lock().history.last()
    }

    /// Returns the latest decisions of the latency guard, which limits analytics so that the load meets its
    /// latency objective; oldest first.
    pub fn guarded(&self) -> Vec<GuardSample> {
        self.lock().guarded.to_vec()
    }

    /// Returns the latency guard's decisions about windows that ended after `t_s`, oldest first. A decision
    /// is about one measurement window, or about several merged ones. `t_s` counts in seconds from the
    /// start of the measurement of latencies, not of the runtime.
    pub fn guarded_after(&self, t_s: f64) -> Vec<GuardSample> {
        self.lock().guarded.newest(|sample| sample.window.t_s > t_s)
    }

    /// Returns the resources that load and analytics share, as given at the start. The forecast may have
    /// been replaced since: see [`forecast`](Self::forecast).
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the floor of threads that the service runs itself: the CPU that these threads get together
    /// even while other processes use all cores. It is at most the machine's floor, and comes in addition
    /// to that of jobs. `None` if there is no floor.
    pub fn floor_share(&self) -> Option<Arc<FloorShare>> {
        (self.machine.floor_cores > 0.0).then(|| Arc::clone(&self.floor_share))
    }

    /// Returns the number of cores that this process may run on, ignoring the limits of cgroups.
    pub fn reachable_cores(&self) -> f64 {
        self.cores.reachable
    }

    /// Returns the number of cores that analytics get if nothing else runs: the cores that the load
    /// and analytics may use together under the last measured CPU limit of the cgroups, less the
    /// reserve. This is at most the number of cores on which analytics can run.
    pub fn cores_for_analytics(&self) -> f64 {
        let own = self.cores.own(self.lock().cpu_limit);
        (own - self.machine.reserve_of(own)).clamp(0.0, f64::from(self.machine.cores))
    }

    /// Returns the forecast f(t) of the capacity for analytics over time, which scheduling policies use in
    /// their plans. `None`: they plan by a moving average, over about ten minutes, of the capacity that
    /// analytics got.
    pub fn forecast(&self) -> Option<Arc<Availability>> {
        self.lock().forecast.clone()
    }

    /// Returns the latency objective of the load, if it has one.
    pub fn objective(&self) -> Option<Objective> {
        self.lock().guard.as_ref().map(Guard::objective)
    }

    /// Returns the latency guard's latest decision about the capacity of analytics; `None` before the first
    /// one.
    pub fn latest_guarded(&self) -> Option<GuardSample> {
        self.lock().guarded.last()
    }

    /// Returns the price of analytics: the growth of the load's latencies, for each fraction of the
    /// remaining capacity that analytics were allowed to use. The guard measures it if the
    /// objective is a multiple of the latency [without analytics](crate::Limit::OverAlone). The
    /// list is empty for another objective, and until the price is known.
    pub fn price(&self) -> Vec<PricePoint> {
        let state = self.lock();
        state.guard.as_ref().map(Guard::price).unwrap_or_default()
    }

    /// Passes one window of measurements of the load to the latency guard. Returns true if the guard now
    /// allows analytics another fraction of the capacity than before: then the runtime should plan again.
    pub fn take_window(&self, window: impl Into<ObservedWindow>) -> bool {
        let mut state = self.lock();
        let granted = state.history.last();
        let granted = granted.map_or(0, |cycle| cycle.capacity_hundredths);
        let Some(guard) = &mut state.guard else {
            return false;
        };
        let before = guard.allowed();
        let sample = guard.decide(&window.into(), granted);
        let changed = guard.allowed() != before;
        if let Some(sample) = sample {
            state.guarded.push(sample);
        }
        changed
    }

    /// Registers a source of the load's latencies. The latency guard limits analytics by them.
    pub(crate) fn begin_watch(&self) {
        self.lock().watches += 1;
    }

    /// Unregisters a source of the load's latencies. After the last one, nothing shows that the load meets
    /// its latency objective, so analytics could never get more capacity again; therefore the latency guard
    /// is reset and lifts its limits. Returns true if it allows more than before.
    pub(crate) fn end_watch(&self) -> bool {
        let mut state = self.lock();
        state.watches -= 1;
        state.watches == 0 && state.guard.as_mut().is_some_and(Guard::release)
    }

    /// Returns the cores that the load and other processes leave to analytics by the last measurement, after
    /// the reserve; negative if they leave less than the reserve.
    fn left_cores(&self, state: &State) -> f64 {
        let others_cores = state.estimate.others_cores();
        let cores = self.cores.with_others(others_cores, state.cpu_limit);
        let reserve = self.machine.reserve_of(self.cores.own(state.cpu_limit));
        cores - state.estimate.load_cores() - reserve
    }

    /// Returns the cores that the transactional load and analytics use, the cores left to analytics, and
    /// those that analytics need. `left_cores` is the number that the load, other processes and the reserve
    /// leave. `needed_hundredths` is the CPU that analytics need from now on to meet the goals of their
    /// jobs, in hundredths of a core.
    fn cpu_shares(&self, left_cores: f64, needed_hundredths: u32, state: &State) -> CpuShares {
        let own = self.cores.own(state.cpu_limit);
        let load = state.estimate.transactional_cores();
        // Other members of the cgroup are not measured separately: they use the part of the limit beyond
        // the load's.
        let is_used_up_by_others = state
            .cpu_limit
            .is_some_and(|limit| limit.is_used_up() && load < limit.cores / 2.0);
        CpuShares {
            own: own - self.machine.reserve_of(own),
            load,
            left: if is_used_up_by_others {
                0.0
            } else {
                left_cores.max(0.0)
            },
            analytics: state.estimate.analytics_cores(),
            needed: f64::from(needed_hundredths) / 100.0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Measures the load, unless the last measurement is less than [`MEASURE_S_MIN`] old.
    fn measure(&mut self, now_s: f64) {
        let is_soon = |before_s: f64| now_s - before_s < MEASURE_S_MIN;
        if self.measured_s.is_some_and(is_soon) {
            return;
        }
        self.measured_s = Some(now_s);
        self.cpu_limit = self.cpu_limits.sample();
        // If the kernel returns an error, the last estimate stays.
        if let Ok(load) = self.monitor.sample() {
            self.estimate.take(&load);
            self.load = load;
        }
    }

    /// Returns the fraction, 0 to 1, of the capacity left by the load that the latency guard lets
    /// analytics use: 1 if the load has no latency objective, and so no guard.
    fn allowed(&self) -> f64 {
        self.guard.as_ref().map_or(1.0, Guard::allowed)
    }

    /// Returns the state of the load's latency objective. By it the governor decides whether
    /// analytics get the floor, their minimum of `floor_cores` while other processes use all cores.
    fn objective(&self, floor_cores: f64) -> ObjectiveState {
        let most_hundredths = most_cores(floor_cores) * 100.0;
        let is_in_danger = |guard: &Guard| guard.is_in_danger(most_hundredths);
        ObjectiveState {
            is_pausing: self.guard.as_ref().is_some_and(Guard::is_pausing),
            is_in_danger: self.guard.as_ref().is_some_and(is_in_danger),
            allowed: self.allowed(),
        }
    }
}

impl CapacitySource for Governor {
    fn capacity(&self, request: CapacityRequest) -> Capacity {
        let CapacityRequest {
            now_s,
            held_bytes,
            needed_hundredths,
        } = request;
        // Needs no state, so the files are read without the lock.
        let left_bytes = self.memory.left_bytes(held_bytes);
        // Locked to the end, so that floor, history and forecast are of the same measurement.
        let mut state = self.lock();
        state.measure(now_s);
        let memory_bytes = left_bytes.map(|bytes| state.left_memory.take(now_s, bytes));
        let allowed = state.allowed();
        let others_cores = state.estimate.others_cores();
        let left_cores = self.left_cores(&state);
        let objective = state.objective(self.machine.floor_cores);
        let shares = self.cpu_shares(left_cores, needed_hundredths, &state);
        let least_hundredths = self.machine.least_hundredths;
        state.floor = match (state.floor).next(self.machine.floor_cores, &shares, objective) {
            // The guaranteed minimum of analytics is granted in the idle class.
            FloorDecision::Paused if least_hundredths > 0 && !objective.is_pausing => {
                FloorDecision::Idle
            }
            decided => decided,
        };
        (self.floor_share).set(state.floor.shared_cores(self.machine.floor_cores));
        let capacity_hundredths = match state.floor {
            // The load must be measured alone.
            _ if objective.is_pausing => 0,
            FloorDecision::Idle => self.machine.capacity_hundredths(left_cores, allowed),
            FloorDecision::Paused => 0,
            FloorDecision::Floor { hundredths } => hundredths,
        };
        let load_bytes_per_s = state.estimate.disk_bytes_per_s();
        let sample = LoadSample {
            t_s: now_s,
            transactional_cores: state.load.transactional_cores,
            transactional_waiting: state.load.transactional_waiting,
            transactional_disk_bytes_per_s: state.load.transactional_disk_bytes_per_s,
            requests: state.load.requests,
            others_cores,
            cpu_limit: state.cpu_limit,
            allowed,
            capacity_hundredths,
            is_on_floor: state.floor.is_on_floor(),
            memory_bytes,
        };
        state.history.push(sample);
        // Plans without a forecast go by what analytics were granted, so the guard counts there, too.
        state.left.take(now_s, capacity_hundredths);
        let forecast = match &state.forecast {
            Some(forecast) => Arc::clone(forecast),
            None => Arc::new(state.left.availability()),
        };
        Capacity {
            cpu_hundredths: capacity_hundredths,
            is_on_floor: state.floor.is_on_floor(),
            read_bytes_per_s: self.machine.read_bytes_per_s(load_bytes_per_s, allowed),
            memory_bytes,
            forecast,
        }
    }
}
