//! The governor with measurements and limits that a test sets, and with those of the test's machine.

use tempfile::TempDir;

use super::*;
use crate::guard::LatencyWindow;
use crate::machine::RESERVE;
use crate::machine::tests::machine;
use crate::memory::tests::root;

/// Returns a guard of a p99 of at most 2 ms.
fn guard() -> Guard {
    Guard::new("p99=2ms".parse().unwrap())
}

/// Returns a window of latencies that ends at `t_s`.
fn window(t_s: f64, latency_us: f64) -> LatencyWindow {
    LatencyWindow {
        t_s,
        length_s: 0.1,
        requests: 1000,
        latency_us,
    }
}

/// Returns a measurement that replaces the estimate: over an hour, the load and other processes use this many
/// cores.
fn used_for_an_hour(transactional_cores: f64, others_cores: f64) -> MeasuredLoad {
    MeasuredLoad {
        length_s: 3600.0,
        transactional_cores,
        others_cores,
        ..MeasuredLoad::default()
    }
}

/// Returns a governor that measures the test's machine.
fn measuring(machine: Machine, guard: Option<Guard>) -> Governor {
    Governor::new(machine, LoadMonitor::start().unwrap(), guard)
}

/// Returns the governor's grants while tasks hold this many bytes.
fn capacity(governor: &Governor, now_s: f64, held_bytes: u64) -> Capacity {
    governor.capacity(CapacityRequest {
        now_s,
        held_bytes,
        needed_hundredths: 0,
    })
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
    (governor.lock().estimate).take(&used_for_an_hour(load_cores, 0.0));
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
    (governor.lock().estimate).take(&used_for_an_hour(2.995, 0.0));
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

/// Returns a governor of two cores beside other processes that use 1.9 cores. Analytics are
/// guaranteed a floor of 0.15 cores beside busy processes, and otherwise `least_hundredths`. It
/// does not measure the test's machine.
fn beside_others(least_hundredths: u32) -> Governor {
    let machine = Machine {
        least_hundredths,
        floor_cores: 0.15,
        ..machine(None)
    };
    let monitor = LoadMonitor::start().unwrap();
    let (_root, cpu_limits) = limits("max 100000\n");
    let governor = Governor::within((cpu_limits, 2.0), machine, monitor, Some(guard()));
    let mut state = governor.lock();
    state.measured_s = Some(f64::INFINITY);
    state.estimate.take(&used_for_an_hour(0.1, 1.9));
    drop(state);
    governor
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
    assert!(governor.take_window(window(1.0, 3000.0)));
    assert_eq!(granted(40), (true, 0), "nobody leaves the floor for that");
    assert!(share.is_on() && !share.may_go_on());
    assert!(governor.latest().unwrap().is_on_floor);
}

#[test]
fn in_danger_analytics_get_their_minimum_in_the_idle_class() {
    let governor = beside_others(100);
    assert_eq!(capacity(&governor, 1.0, 0).cpu_hundredths, 15);
    assert!(governor.take_window(window(1.0, 3000.0)));
    let granted = capacity(&governor, 1.0, 0);
    assert_eq!((granted.is_on_floor, granted.cpu_hundredths), (false, 100));
}

#[test]
fn a_broken_objective_takes_cpu_and_bytes_back_at_once() {
    // The disk is so fast that the reads and writes of other tests do not matter.
    let disk_bytes_per_s = 1 << 60;
    let governor = measuring(machine(Some(disk_bytes_per_s)), Some(guard()));
    let reads_percent = |now_s| {
        let read_bytes_per_s = capacity(&governor, now_s, 0).read_bytes_per_s;
        (read_bytes_per_s.unwrap() as f64 / disk_bytes_per_s as f64 * 100.0).round()
    };
    assert_eq!(reads_percent(0.0), 100.0);
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
    let governor = measuring(machine(None), Some(guard()));
    let left_bytes = capacity(&governor, 1.0, 0).memory_bytes;
    assert!(left_bytes.is_some());
    for t_s in [1.1, 1.2] {
        assert!(governor.take_window(window(t_s, 1e9)));
    }
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
    let machine = Machine {
        least_hundredths: 10,
        // More than there is, under any limit.
        reserve_cores: 3.0,
        ..machine(None)
    };
    let governor = measuring(machine, None);
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
    let governor = measuring(machine(None), Some(guard())).keeping(2);
    for second in 1..=5 {
        let t_s = f64::from(second);
        capacity(&governor, t_s, 0);
        governor.take_window(window(t_s, 1.0));
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
    let governor = measuring(machine(None), None);
    assert!(!governor.take_window(window(0.1, 1e9)));
    assert_eq!(capacity(&governor, 0.1, 0).read_bytes_per_s, None);
    assert!(governor.guarded().is_empty());
}
