//! Decides the capacity of analytics in each control cycle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_scheduler::availability::Availability;
use ebb_scheduler::runtime::{Capacity, CapacityRequest, CapacitySource, RuntimeError};
use serde::Serialize;

use crate::cpu_limit::{CpuLimit, CpuLimitMonitor};
use crate::estimate::{LeftEstimate, LoadEstimate};
use crate::floor::{CpuShares, FLOOR_CORES_MIN, FloorDecision, ObjectiveState, most_cores};
use crate::floor_share::FloorShare;
use crate::guard::{Guard, GuardSample, ObservedWindow};
use crate::memory::{MemoryMonitor, SteadyMemory};
use crate::monitor::{LoadMonitor, MeasuredLoad, RequestRates, reachable_cores};
use crate::objective::Objective;
use crate::price::PricePoint;
use crate::recent::{Recent, SAMPLES_MAX_DEFAULT};

/// The minimal time over which the load is measured, in seconds: over less, the momentary activity of a
/// thread would dominate. A cycle that comes earlier uses the last measurement.
const MEASURE_S_MIN: f64 = 0.02;

/// The default fraction of the machine that analytics never get: for timers, the kernel, and errors of the
/// forecast.
pub const RESERVE: f64 = 0.05;

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

/// The resources that load and analytics share.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The number of cores on which analytics can run at once. If it is less than the number that
    /// the process could use at the start, it also bounds the load and analytics together.
    pub cores: u32,
    /// The cores that analytics never get, if the load and analytics may use `cores` cores
    /// together. If they may use more or fewer, because of the CPU limit (`cpu.max`) of a cgroup,
    /// the reserve grows or shrinks in proportion.
    pub reserve_cores: f64,
    /// The guaranteed minimum of analytics, in hundredths of a core. Analytics get it even if the
    /// load uses all cores, or the latency guard allows less. There are two exceptions: pauses that
    /// measure the load alone, and the floor (see `floor_cores`).
    pub least_hundredths: u32,
    /// The floor: cores that analytics get while other processes hold the CPU; 0 for none. The load
    /// and the guard of its latencies have priority. Meanwhile the floor replaces
    /// `least_hundredths`, and threads of analytics run in the ordinary scheduling class, not in
    /// the idle class.
    pub floor_cores: f64,
    /// The throughput of the disk that load and analytics share, in bytes per second; `None`: analytics
    /// read without a limit.
    pub disk_bytes_per_s: Option<u64>,
    /// The forecast f(t) by which policies plan: the capacity for analytics over time, in hundredths of a
    /// core, with the reserve deducted. `None`: a moving average, over about ten minutes, of the capacity
    /// that analytics got.
    pub forecast: Option<Arc<Availability>>,
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

impl Machine {
    /// Checks [`reserve_cores`](Self::reserve_cores) and [`floor_cores`](Self::floor_cores).
    ///
    /// # Errors
    /// If the reserve or the floor is not a number of cores that the machine has.
    pub(crate) fn check(&self) -> Result<(), RuntimeError> {
        let cores = f64::from(self.cores);
        let bad = |option, range, value| {
            Err(RuntimeError::Option {
                option,
                range,
                value,
            })
        };
        if !(0.0..=cores).contains(&self.reserve_cores) {
            let range = "0 to the cores of the machine";
            return bad("reserve_cores", range, self.reserve_cores);
        }
        if self.floor_cores != 0.0 && !(FLOOR_CORES_MIN..=cores).contains(&self.floor_cores) {
            let range = "0, or 0.01 to the cores of the machine";
            return bad("floor_cores", range, self.floor_cores);
        }
        Ok(())
    }

    /// Returns the reserve, the number of cores that analytics never get, if the load and analytics
    /// may use `own_cores` cores together. The reserve is proportional to `own_cores`: see
    /// [`reserve_cores`](Self::reserve_cores).
    fn reserve_of(&self, own_cores: f64) -> f64 {
        self.reserve_cores * (own_cores / f64::from(self.cores.max(1)))
    }

    /// Returns the capacity of analytics in hundredths of a core: the fraction `allowed` of the
    /// cores that are left, but at least the guaranteed minimum. Of `left_cores`, only as many
    /// count as analytics can run on at once, [`cores`](Self::cores).
    fn capacity_hundredths(&self, left_cores: f64, allowed: f64) -> u32 {
        let usable_cores = left_cores.clamp(0.0, f64::from(self.cores));
        ((usable_cores * allowed * 100.0) as u32).max(self.least_hundredths)
    }

    /// Returns the disk throughput that analytics may use, in bytes per second: the fraction `allowed` of
    /// the throughput that the load leaves if it uses `load_bytes_per_s`. `None` for no limit.
    fn read_bytes_per_s(&self, load_bytes_per_s: f64, allowed: f64) -> Option<u64> {
        let left = self.disk_bytes_per_s? as f64 - load_bytes_per_s;
        Some((left.max(0.0) * allowed) as u64)
    }
}

/// The numbers of cores that do not depend on the present CPU limits of cgroups.
#[derive(Debug, Clone, Copy)]
struct Cores {
    /// The number of cores on which this process may run.
    reachable: f64,
    /// The greatest number of cores that the load and analytics may use together.
    most: f64,
}

impl Cores {
    /// Returns the cores of a process that may run on `reachable` cores, and that starts under the
    /// CPU limit `limit`. If `configured` is less than the cores that the limit leaves at the
    /// start, it stays a bound. Otherwise it is taken to come from the limit, which may be raised
    /// later, and so is no bound.
    fn at_start(configured: u32, reachable: f64, limit: Option<CpuLimit>) -> Self {
        let configured = f64::from(configured);
        let usable = limit.map_or(reachable, |limit| limit.cores.min(reachable));
        // The configured number is whole, the limit not always.
        let most = if configured < usable.floor() {
            configured
        } else {
            reachable
        };
        Self { reachable, most }
    }

    /// Returns the cores that the load and analytics may use together under the CPU limit `limit`.
    fn own(self, limit: Option<CpuLimit>) -> f64 {
        limit.map_or(self.most, |limit| limit.cores.min(self.most))
    }

    /// Returns the cores that the load, analytics and other processes may use together under the CPU limit
    /// `limit` of the load and analytics. While other processes use only cores beyond the limit, they take
    /// no CPU time from the load and analytics.
    fn with_others(self, others_cores: f64, limit: Option<CpuLimit>) -> f64 {
        (self.own(limit) + others_cores).min(self.reachable)
    }
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

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::guard::LatencyWindow;
    use crate::memory::tests::root;

    /// Returns the governor's grants while tasks hold this many bytes.
    fn capacity(governor: &Governor, now_s: f64, held_bytes: u64) -> Capacity {
        governor.capacity(CapacityRequest {
            now_s,
            held_bytes,
            needed_hundredths: 0,
        })
    }

    fn machine(disk_bytes_per_s: Option<u64>) -> Machine {
        Machine {
            cores: 2,
            reserve_cores: 2.0 * RESERVE,
            disk_bytes_per_s,
            ..Machine::default()
        }
    }

    #[test]
    fn analytics_get_the_allowed_part_of_what_is_left_on_their_cores() {
        for (left, allowed, least_hundredths, capacity) in [
            (1.9, 1.0, 0, 190),
            (1.5, 0.5, 0, 75),
            (1.5, 0.0, 0, 0),
            (-1.1, 1.0, 0, 0),
            (-1.1, 1.0, 10, 10),
            (7.6, 1.0, 0, 200),
            (7.6, 0.5, 0, 100),
        ] {
            let machine = Machine {
                least_hundredths,
                ..machine(None)
            };
            assert_eq!(
                machine.capacity_hundredths(left, allowed),
                capacity,
                "{allowed} of {left} cores allowed"
            );
        }
    }

    #[test]
    fn a_cgroups_limit_counts_once_beside_others_outside_of_it() {
        // Returns the capacity for the load and analytics.
        let left = |configured, others_cores, reachable, limit: f64| {
            let limit = Some(CpuLimit {
                cores: limit,
                throttled_ratio: 0.0,
            });
            let cores = Cores::at_start(configured, reachable, limit);
            cores.with_others(others_cores, limit) - others_cores
        };
        assert_eq!(left(2, 0.5, 2.0, 2.0), 1.5, "the limit binds nothing");
        // One core of two: another process uses the second one.
        assert_eq!(left(1, 1.0, 2.0, 1.0), 1.0);
        assert_eq!(left(1, 1.5, 2.0, 1.0), 0.5);
        assert_eq!(left(1, 0.0, 2.0, 0.25), 0.25);
        assert_eq!(left(2, 0.0, 8.0, 2.5), 2.5);
        assert_eq!(left(1, 0.0, 8.0, 2.5), 1.0, "set below the limit");
    }

    const CPU_MAX: &str = "sys/fs/cgroup/cpu.max";

    /// Returns the limits of a cgroup with this `cpu.max`, which is in the folder.
    fn limits(cpu_max: &str) -> (TempDir, CpuLimitMonitor) {
        let root = root(&[("proc/self/cgroup", "0::/\n"), (CPU_MAX, cpu_max)]);
        let limits = CpuLimitMonitor::below(root.path());
        (root, limits)
    }

    /// Returns a governor on eight cores, under the CPU limits that `cpu_limits` reads. The options
    /// have `cores` cores, and a twentieth of them as the reserve. The load uses `load_cores`, and
    /// other processes none. The governor does not measure the test's machine.
    fn below(cpu_limits: CpuLimitMonitor, cores: u32, load_cores: f64) -> Governor {
        let machine = Machine {
            cores,
            reserve_cores: RESERVE * f64::from(cores),
            ..Machine::default()
        };
        let monitor = LoadMonitor::start().unwrap();
        let governor = Governor::within((cpu_limits, 8.0), machine, monitor, None);
        governor.lock().estimate.take(&MeasuredLoad {
            length_s: 3600.0,
            transactional_cores: load_cores,
            ..MeasuredLoad::default()
        });
        governor
    }

    /// Returns the capacity of analytics under the limits as they are now.
    fn followed(governor: &Governor) -> u32 {
        let mut state = governor.lock();
        state.cpu_limit = state.cpu_limits.sample();
        let left_cores = governor.left_cores(&state);
        governor.machine.capacity_hundredths(left_cores, 1.0)
    }

    /// Once, the number of cores at the start stayed a bound when the limit from which it came was raised or
    /// removed, and the reserve stayed a twentieth of these cores when the limit was lowered.
    #[test]
    fn the_capacity_follows_a_limit_that_is_raised_lowered_or_removed() {
        let (root, cpu_limits) = limits("400000 100000\n");
        let governor = below(cpu_limits, 4, 0.495);
        assert_eq!(followed(&governor), 330, "4 - 0.495 - 4 / 20");
        for (cpu_max, capacity, most_cores) in [
            ("200000 100000\n", 140, 1.9),
            ("60000 100000\n", 7, 0.57),
            ("440000 100000\n", 368, 4.0),
            ("max 100000\n", 400, 4.0),
            ("100000 100000\n", 45, 0.95),
        ] {
            std::fs::write(root.path().join(CPU_MAX), cpu_max).unwrap();
            assert_eq!(followed(&governor), capacity, "{cpu_max}");
            let most = governor.cores_for_analytics();
            assert!((most - most_cores).abs() < 1e-9, "{cpu_max}: {most}");
        }
    }

    #[test]
    fn a_raised_limit_leaves_the_load_more_cores_than_analytics_can_use() {
        let (root, cpu_limits) = limits("200000 100000\n");
        let governor = below(cpu_limits, 2, 1.795);
        assert_eq!(followed(&governor), 10);
        std::fs::write(root.path().join(CPU_MAX), "400000 100000\n").unwrap();
        assert_eq!(followed(&governor), 200);
        governor.lock().estimate.take(&MeasuredLoad {
            length_s: 3600.0,
            transactional_cores: 2.995,
            ..MeasuredLoad::default()
        });
        assert_eq!(followed(&governor), 80);
    }

    #[test]
    fn cores_that_were_set_below_the_limit_stay_a_bound() {
        let (root, cpu_limits) = limits("400000 100000\n");
        let governor = below(cpu_limits, 2, 0.495);
        for cpu_max in ["400000 100000\n", "600000 100000\n", "max 100000\n"] {
            std::fs::write(root.path().join(CPU_MAX), cpu_max).unwrap();
            assert_eq!(followed(&governor), 140, "{cpu_max}");
        }
    }

    #[test]
    fn a_control_cycle_reads_the_limit_again() {
        let (root, cpu_limits) = limits("400000 100000\n");
        let governor = below(cpu_limits, 4, 0.0);
        let limit = |now_s| {
            capacity(&governor, now_s, 0);
            governor
                .latest()
                .unwrap()
                .cpu_limit
                .map(|limit| limit.cores)
        };
        assert_eq!(limit(1.0), Some(4.0));
        std::fs::write(root.path().join(CPU_MAX), "150000 100000\n").unwrap();
        assert_eq!(limit(2.0), Some(1.5));
        std::fs::write(root.path().join(CPU_MAX), "max 100000\n").unwrap();
        assert_eq!(limit(3.0), None);
    }

    #[test]
    fn the_floor_is_a_number_of_cores_that_the_machine_has() {
        for (floor_cores, is_good) in [
            (0.0, true),
            (0.01, true),
            (2.0, true),
            (2.1, false),
            (0.004, false),
            (-0.1, false),
            (f64::NAN, false),
        ] {
            let machine = Machine {
                floor_cores,
                ..machine(None)
            };
            assert_eq!(machine.check().is_ok(), is_good, "{floor_cores}");
        }
    }

    /// Returns a governor of two cores beside other processes that use 1.9 cores. Analytics are
    /// guaranteed a floor of 0.15 cores beside busy processes, and otherwise `least_hundredths`. It
    /// does not measure the test's machine.
    fn beside_others(least_hundredths: u32) -> Governor {
        let machine = Machine {
            least_hundredths,
            floor_cores: 0.15,
            ..machine(None)
        };
        let guard = Guard::new("p99=2ms".parse().unwrap());
        let monitor = LoadMonitor::start().unwrap();
        let (_root, cpu_limits) = limits("max 100000\n");
        let governor = Governor::within((cpu_limits, 2.0), machine, monitor, Some(guard));
        let mut state = governor.lock();
        state.measured_s = Some(f64::INFINITY);
        state.estimate.take(&MeasuredLoad {
            length_s: 3600.0,
            transactional_cores: 0.1,
            others_cores: 1.9,
            ..MeasuredLoad::default()
        });
        drop(state);
        governor
    }

    /// Returns a window that misses the tests' objective: a p99 of at most 2 ms.
    fn broken() -> LatencyWindow {
        LatencyWindow {
            t_s: 1.0,
            length_s: 0.1,
            requests: 1000,
            latency_us: 3000.0,
        }
    }

    #[test]
    fn jobs_and_other_threads_get_the_floor_each_until_the_objective_is_broken() {
        let governor = beside_others(0);
        let granted = |needed_hundredths| {
            let capacity = governor.capacity(CapacityRequest {
                now_s: 1.0,
                held_bytes: 0,
                needed_hundredths,
            });
            (capacity.is_on_floor, capacity.cpu_hundredths)
        };
        let share = governor.floor_share().expect("there is a floor");
        assert!(!share.is_on());
        assert_eq!(granted(0), (true, 15));
        assert!(share.is_on() && share.may_go_on());
        assert_eq!(granted(40), (true, 40), "a goal needs more");
        assert!(governor.take_window(broken()));
        assert_eq!(granted(40), (true, 0), "nobody leaves the floor for that");
        assert!(share.is_on() && !share.may_go_on());
        assert!(governor.latest().unwrap().is_on_floor);
    }

    #[test]
    fn in_danger_analytics_get_their_minimum_in_the_idle_class() {
        let governor = beside_others(100);
        assert_eq!(capacity(&governor, 1.0, 0).cpu_hundredths, 15);
        assert!(governor.take_window(broken()));
        let granted = capacity(&governor, 1.0, 0);
        assert_eq!((granted.is_on_floor, granted.cpu_hundredths), (false, 100));
    }

    #[test]
    fn analytics_get_the_disk_throughput_that_the_load_leaves() {
        let machine = machine(Some(1000));
        for (load, allowed, left) in [
            (0.0, 1.0, 1000),
            (400.0, 1.0, 600),
            (400.0, 0.5, 300),
            (2000.0, 1.0, 0),
        ] {
            assert_eq!(machine.read_bytes_per_s(load, allowed), Some(left));
        }
    }

    #[test]
    fn a_broken_objective_takes_cpu_and_bytes_back_at_once() {
        let guard = Guard::new("p99=2ms".parse().unwrap());
        let monitor = LoadMonitor::start().unwrap();
        // The disk is so fast that the reads and writes of other tests do not matter.
        let disk_bytes_per_s = 1 << 60;
        let governor = Governor::new(machine(Some(disk_bytes_per_s)), monitor, Some(guard));
        let reads_percent = |now_s| {
            let read_bytes_per_s = capacity(&governor, now_s, 0).read_bytes_per_s;
            (read_bytes_per_s.unwrap() as f64 / disk_bytes_per_s as f64 * 100.0).round()
        };
        assert_eq!(reads_percent(0.0), 100.0);
        let window = |t_s, latency_us| LatencyWindow {
            t_s,
            length_s: 0.1,
            requests: 1000,
            latency_us,
        };
        assert!(!governor.take_window(window(0.1, 1000.0)));
        assert!(governor.take_window(window(0.2, 3000.0)));
        assert_eq!(reads_percent(0.2), 50.0);
        assert!(governor.take_window(window(0.3, 3000.0)));
        let nothing = capacity(&governor, 0.3, 0);
        assert_eq!(nothing.cpu_hundredths, 0);
        assert_eq!(nothing.read_bytes_per_s, Some(0));
        let allowed: Vec<f64> = governor.guarded().iter().map(|s| s.allowed).collect();
        assert_eq!(allowed, [1.0, 0.5, 0.0]);
        assert_eq!(governor.history().len(), 3);
    }

    #[test]
    fn memory_does_not_depend_on_the_guard() {
        let guard = Guard::new("p99=2ms".parse().unwrap());
        let monitor = LoadMonitor::start().unwrap();
        let governor = Governor::new(machine(None), monitor, Some(guard));
        let left_bytes = capacity(&governor, 1.0, 0).memory_bytes;
        assert!(left_bytes.is_some());
        let bad = |t_s| LatencyWindow {
            t_s,
            length_s: 0.1,
            requests: 1000,
            latency_us: 1e9,
        };
        assert!(governor.take_window(bad(1.1)) && governor.take_window(bad(1.2)));
        // The minimum of both samples, while tasks hold more than the machine has.
        let still = capacity(&governor, 2.0, 1 << 60).memory_bytes;
        assert_eq!(still, left_bytes);
        let plenty = capacity(&governor, 20.0, 1 << 60).memory_bytes;
        assert!(plenty.unwrap() > 1 << 59);
        let cycles = governor.history().into_iter();
        let memory_bytes: Vec<_> = cycles.map(|cycle| cycle.memory_bytes).collect();
        assert_eq!(memory_bytes, [left_bytes, left_bytes, plenty]);
    }

    #[test]
    fn policies_plan_by_the_remaining_capacity_until_there_is_a_forecast() {
        let governor = Governor::new(
            Machine {
                least_hundredths: 10,
                // More than there is, under any limit.
                reserve_cores: 3.0,
                ..machine(None)
            },
            LoadMonitor::start().unwrap(),
            None,
        );
        let granted = capacity(&governor, 1.0, 0);
        assert_eq!(granted.cpu_hundredths, 10);
        assert_eq!(granted.forecast.at(1e6), 10.0);
        governor.plan_by(Arc::new(Availability::constant(70.0).unwrap()));
        assert_eq!(capacity(&governor, 2.0, 0).forecast.at(1e6), 70.0);
        governor.plan_by_mean();
        assert_eq!(capacity(&governor, 3.0, 0).forecast.at(1e6), 10.0);
    }

    #[test]
    fn the_requested_number_of_samples_is_kept() {
        let guard = Guard::new("p99=2ms".parse().unwrap());
        let monitor = LoadMonitor::start().unwrap();
        let governor = Governor::new(machine(None), monitor, Some(guard)).keeping(2);
        for second in 1..=5 {
            let t_s = f64::from(second);
            capacity(&governor, t_s, 0);
            governor.take_window(LatencyWindow {
                t_s,
                length_s: 1.0,
                requests: 1000,
                latency_us: 1.0,
            });
        }
        let cycles: Vec<_> = governor.history().iter().map(|cycle| cycle.t_s).collect();
        assert_eq!(cycles, [4.0, 5.0]);
        let decided = governor.guarded();
        let ended: Vec<_> = decided.iter().map(|sample| sample.window.t_s).collect();
        assert_eq!(ended, [4.0, 5.0]);
        assert_eq!(governor.latest().map(|cycle| cycle.t_s), Some(5.0));
        assert_eq!(governor.latest_guarded(), decided.last().copied());
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
        assert_eq!(capacity(&governor, 0.1, 0).read_bytes_per_s, None);
        assert!(governor.guarded().is_empty());
    }
}
