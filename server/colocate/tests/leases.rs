//! A lease's threads are the service's own, but what they do under it is no load.

use ebb_colocate::LoadMonitor;
use ebb_colocate::runtime::{LeaseOptions, Runtime, RuntimeOptions};

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
