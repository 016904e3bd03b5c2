//! A lease's threads are the service's own, but what they do under it is no load.

#![allow(
    clippy::disallowed_methods,
    reason = "tests look at clocks and files themselves"
)]

use ebb_colocate::runtime::{LeaseOptions, Runtime, RuntimeOptions, leased_use};
use ebb_colocate::{Colocated, ColocatedOptions, LoadMonitor};

/// What a query used under its lease counted for the load: so it took from itself what
/// it was to share with jobs.
#[test]
fn what_a_thread_uses_under_a_lease_counts_for_analytics() {
    let runtime = Runtime::start(RuntimeOptions::new(2)).unwrap();
    let lease = runtime.lease("query", LeaseOptions::default()).unwrap();
    let mut monitor = LoadMonitor::start().unwrap();
    let thread = lease.enter().unwrap();
    while thread.used_cpu_s() < 0.3 {
        assert!(runtime.now_s() < 60.0, "it has no CPU");
        for n in 0..1000_u64 {
            std::hint::black_box(n * n);
        }
        thread.checkpoint().unwrap();
    }
    let load = monitor.sample().unwrap();
    let leased_s = load.analytics_cores * load.length_s;
    let load_s = load.transactional_cores * load.length_s;
    assert!(leased_s > 0.29, "{leased_s} s of 0.3 s");
    assert!(load_s < 0.15, "{load_s} s are the load's");
}

/// What an export wrote counted for the load's disk: so the jobs were allowed to read less.
#[test]
fn what_a_thread_writes_under_a_lease_is_not_the_loads() {
    let runtime = Runtime::start(RuntimeOptions::new(2)).unwrap();
    let lease = runtime.lease("export", LeaseOptions::default()).unwrap();
    let mut monitor = LoadMonitor::start().unwrap();
    let mut load_bytes = |write: &dyn Fn()| {
        write();
        let load = monitor.sample().unwrap();
        load.transactional_disk_bytes_per_s * load.length_s
    };
    // Not in a file system in memory, which no disk is written for.
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

/// A service takes a lease without looking for the runtime.
#[test]
fn a_service_leases_a_share_beside_its_jobs() {
    let mut options = ColocatedOptions::new(2);
    options.least_hundredths = 100;
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
