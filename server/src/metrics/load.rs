//! The metrics of the load, of the free part of the machine, and of the guard's decisions.

use std::fmt;

use ebb_colocate::{Action, GuardSample, LatencyCounts, LoadSample};

use super::sheet::{Sheet, write_each};
use crate::node::Node;

/// Upper bounds of the buckets in histograms of request latencies, in seconds.
pub const REQUEST_BOUNDS_S: [f64; 17] = [
    5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
];

/// Upper bounds of the buckets in histograms of the stages of a CQL request (queued, executed, sent), in
/// seconds. A stage of a point request takes microseconds, so these buckets begin lower than those of whole
/// requests. They are narrower too, because stages differ mostly in their tails.
pub const STAGE_BOUNDS_S: [f64; 25] = [
    2e-6, 3e-6, 5e-6, 7e-6, 1e-5, 1.5e-5, 2e-5, 3e-5, 5e-5, 7e-5, 1e-4, 1.5e-4, 2e-4, 3e-4, 5e-4,
    7e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3, 1e-2, 3e-2, 0.1, 1.0,
];

pub(super) fn write(sheet: &mut Sheet<'_>, node: &Node) -> fmt::Result {
    if let Some(latencies) = node.latencies() {
        let (sum_s, buckets) = latency_buckets(&latencies.counts(), &REQUEST_BOUNDS_S);
        let help = "Latencies of point requests, from the last byte received to the last byte sent";
        sheet.histogram("request_duration_seconds", help, sum_s, &buckets)?;
    }
    let Some(governor) = node.governor() else {
        return Ok(());
    };
    if let Some(load) = governor.latest() {
        write_load(sheet, &load)?;
    }
    match governor.latest_guarded() {
        Some(guarded) => write_guard(sheet, &guarded),
        None => Ok(()),
    }
}

/// Writes the use of the machine as it was last measured.
pub(super) fn write_load(sheet: &mut Sheet<'_>, load: &LoadSample) -> fmt::Result {
    let requests = load.requests.unwrap_or_default();
    let users = [
        ([("by", "load")], load.transactional_cores),
        ([("by", "others")], load.others_cores),
    ];
    sheet.gauges("used_cores", "Cores in use, but for analytics", users)?;
    write_each!(sheet.gauge {
        "load_waiting_threads": load.transactional_waiting,
            "Threads of the load that waited for a core";
        "load_disk_bytes_per_second": load.transactional_disk_bytes_per_s,
            "What the load reads from the disk and writes to it";
        "load_requests_per_second": requests.requests_per_s, "Requests served";
        "analytics_capacity_cores": f64::from(load.capacity_hundredths) / 100.0,
            "Cores that analytics may use";
    });
    Ok(())
}

/// Writes the latest decision of the guard, which limits the cores of jobs to keep the latency objective,
/// with the measurements that it is based on. Latency and slack are left out where they are unknown.
pub(super) fn write_guard(sheet: &mut Sheet<'_>, guarded: &GuardSample) -> fmt::Result {
    let help = "The part of what the load leaves that the guard allows";
    sheet.gauge("guard_allowed_ratio", help, guarded.allowed)?;
    // The guard has a slack of 1 if it is unknown. Any measured latency makes it less.
    if guarded.slack < 1.0 {
        let help = "(objective - latency) / objective; below 0 it is broken";
        sheet.gauge("guard_slack_ratio", help, guarded.slack)?;
    }
    // Without requests the window has a latency of 0.
    if guarded.window.requests > 0 {
        let help = "The objective's quantile in the latest window";
        let latency_s = guarded.window.latency_us / 1e6;
        sheet.gauge("guard_latency_seconds", help, latency_s)?;
    }
    if let Some(alone_us) = guarded.alone_us {
        let help = "The objective's quantile of the load alone";
        sheet.gauge("guard_alone_seconds", help, alone_us / 1e6)?;
    }
    let actions = [
        (Action::Grow, "grow"),
        (Action::Hold, "hold"),
        (Action::Shrink, "shrink"),
        (Action::Stop, "stop"),
        (Action::Pause, "pause"),
    ];
    let taken = |action| f64::from(u8::from(guarded.action == action));
    let actions = actions.map(|(action, name)| ([("action", name)], taken(action)));
    sheet.gauges(
        "guard_action",
        "1 for what the guard did last, 0 for the others",
        actions,
    )
}

/// Returns the sum of the latencies in seconds, and for each bucket its upper bound and the number of
/// latencies in this bucket alone. The buckets have the bounds `bounds_s`, ascending; a last bucket, up to
/// infinity, has the longer latencies.
pub fn latency_buckets(counts: &LatencyCounts, bounds_s: &[f64]) -> (f64, Vec<(f64, u64)>) {
    let mut left = counts.total();
    let mut buckets = Vec::with_capacity(bounds_s.len() + 1);
    for &bound_s in bounds_s {
        let above = counts.above_us(bound_s * 1e6);
        buckets.push((bound_s, left - above));
        left = above;
    }
    buckets.push((f64::INFINITY, left));
    (counts.sum_us() / 1e6, buckets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_in_one_bucket() {
        let counts: LatencyCounts = [(40_000, 3), (900_000, 2), (20_000_000_000, 1)]
            .into_iter()
            .collect();
        let (sum_s, buckets) = latency_buckets(&counts, &REQUEST_BOUNDS_S);
        let in_bucket = |bound_s| {
            let found = buckets.iter().find(|(bound, _)| *bound == bound_s);
            found.map(|(_, count)| *count)
        };
        assert_eq!(in_bucket(5e-5), Some(3));
        assert_eq!(in_bucket(1e-3), Some(2));
        assert_eq!(in_bucket(f64::INFINITY), Some(1));
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 6);
        assert!((sum_s / 20.002 - 1.0).abs() < 0.03, "{sum_s}");
    }
}
