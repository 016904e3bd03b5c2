//! Threads under a lease belong to the service, but their work under it is not load.

#![expect(clippy::disallowed_methods, reason = "tests write files themselves")]

use ebb_colocate::runtime::{LeaseOptions, Runtime, RuntimeOptions, Throttles, leased_use};
use ebb_colocate::{Colocated, ColocatedOptions, LoadMonitor};
use ebb_test_support::wait;

/// Returns options without the kernel's idle class (the lowest scheduling class): while a compiler
/// keeps the cores busy, threads of that class make hardly any progress.
fn options() -> RuntimeOptions {
    RuntimeOptions {
        throttles: Throttles {
            idle_class: false,
            ..Throttles::default()
        },
        ..RuntimeOptions::new(2)
    }
}

/// Uses 0.3 s of CPU time on a thread under a lease (a permit for analytics). Returns the CPU time,
/// in seconds, that was meanwhile counted as used by analytics, and by the load of requests.
fn compute_under_lease() -> (f64, f64) {
    let runtime = Runtime::start(options()).unwrap();
    let lease = runtime.lease("query", LeaseOptions::default()).unwrap();
    let mut monitor = LoadMonitor::start().unwrap();
    let thread = lease.enter().unwrap();
    while thread.used_cpu_s() < 0.3 {
        assert!(runtime.now_s() < wait::HANG.as_secs_f64(), "it has no CPU");
        for n in 0..1000_u64 {
            std::hint::black_box(n * n);
        }
        thread.checkpoint().unwrap();
    }
    let load = monitor.sample().unwrap();
    (
        load.analytics_cores * load.length_s,
        load.transactional_cores * load.length_s,
    )
}

#[test]
fn cpu_time_under_a_lease_counts_for_analytics() {
    let (leased_s, _) = compute_under_lease();
    assert!(leased_s > 0.29, "{leased_s} s of 0.3 s");
}

/// A query under a lease once counted as load, and so reduced the capacity that it shares with
/// jobs.
#[test]
#[ignore = "nightly: the load is the CPU time of all other threads of this process"]
fn cpu_time_under_a_lease_does_not_count_for_the_load() {
    let (_, load_s) = compute_under_lease();
    assert!(load_s < 0.15, "{load_s} s are the load's");
}

/// The writes of an export once counted as the load's disk use, so the jobs were allowed to read
/// less.
#[test]
fn writes_under_a_lease_do_not_count_for_the_load() {
    let runtime = Runtime::start(options()).unwrap();
    let lease = runtime.lease("export", LeaseOptions::default()).unwrap();
    let mut monitor = LoadMonitor::start().unwrap();
    let mut load_bytes = |write: &dyn Fn()| {
        write();
        let load = monitor.sample().unwrap();
        load.transactional_disk_bytes_per_s * load.length_s
    };
    // Not in a file system in memory, because its writes do not reach a disk.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let write = |name| std::fs::write(dir.path().join(name), vec![7; 8 << 20]).unwrap();
    if load_bytes(&|| write("unleased")) < 7e6 {
        println!("this kernel does not count what threads write");
        return;
    }
    let before = leased_use().disk_bytes;
    let leased = load_bytes(&|| {
        let _thread = lease.enter().unwrap();
        write("leased");
    });
    assert!(leased_use().disk_bytes - before >= 8 << 20);
    assert!(leased < 1e6, "{leased} bytes of 8 MiB are the load's");
}

/// A service takes a lease without access to the runtime.
#[test]
fn a_service_leases_a_share_beside_its_jobs() {
    let mut options = ColocatedOptions::new(2);
    options.least_hundredths = 100;
    options.runtime.throttles.idle_class = false;
    let colocated = Colocated::new(options).unwrap();
    let lease = colocated.lease("report", LeaseOptions::default()).unwrap();
    let thread = lease.enter().unwrap();
    let status = colocated.status().runtime;
    assert_eq!(status.jobs[0].name, "report");
    assert!(status.jobs[0].is_lease && status.jobs[0].tasks_running == 1);
    thread.checkpoint().unwrap();
    drop((thread, lease));
    assert!(colocated.status().runtime.jobs.is_empty());
}
