//! Ratios of the measurements of one condition to those of the load alone.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::bootstrap::{Estimate, p99_ratio, ratios};
use super::counts::{Counts, Pool};
use super::window::Window;
use crate::experiments::statistics::mean;

/// The windows of one condition, in most cases with jobs, compared with windows of the load alone.
/// All windows of a condition that are not excluded are pooled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratios {
    pub windows: usize,
    pub p50: Estimate,
    pub p99: Estimate,
    pub p999: Estimate,
    /// The 99th percentile of the latency of a batch, from its due time to the end of its last
    /// operation, divided by that of the load alone.
    pub batch_p99: Estimate,
    /// The 99th percentile of the delay until a thread began a due operation, divided by that of
    /// the load alone.
    pub dispatch_p99: Estimate,
    /// The p99 of the load during the lead (the time at the start of a window that precedes the
    /// measured part), divided by that of the load alone. `None` if a window has no operations in its
    /// lead.
    pub lead_p99: Option<Estimate>,
    /// CPU used by jobs, divided by the CPU that the load alone left idle.
    pub idle_cpu_used: f64,
    /// Bytes of rows that jobs read per second; `None` without jobs, or if jobs run in processes.
    pub jobs_bytes_per_s: Option<f64>,
    /// Bytes of rows that jobs read, per second of their CPU time.
    pub jobs_bytes_per_cpu_s: Option<f64>,
    /// The fraction of the measured time in which the machine paused ([`Window::paused`]): the mean
    /// over the windows of the condition. `None` if the fraction of any of these windows is `None`.
    pub paused: Option<f64>,
    /// The ratio of the block cache's hit rate for point reads with jobs to that of the load alone;
    /// `None` if there is a window in which no point read needed a block.
    pub cache_hits: Option<f64>,
}

impl Ratios {
    /// Compares the load in the windows `beside` jobs with the load in the windows `alone`. Each has
    /// at least one window.
    pub fn new(beside: &[&Window], alone: &[&Window]) -> Self {
        let of = |of: fn(&Window) -> &Counts| {
            let pool = |windows: &[&Window]| Pool::new(windows.iter().map(|window| of(window)));
            (pool(beside), pool(alone))
        };
        let (latencies, alone_latencies) = of(|window| &window.latencies);
        let [p50, p99, p999] = ratios(&latencies, &alone_latencies, [0.5, 0.99, 0.999]);
        let p99_of = |(beside, alone): (Pool, Pool)| p99_ratio(&beside, &alone);
        let has_lead = beside.iter().chain(alone).all(|window| window.has_lead);
        let hits = |windows: &[&Window]| {
            let hits: Option<Vec<f64>> = windows.iter().map(|window| window.cache_hits).collect();
            hits.map(mean)
        };
        let idle = mean(alone.iter().map(|window| window.idle_cores));
        let used = mean(beside.iter().map(|window| window.analytics_cores));
        let jobs_bytes: Option<Vec<_>> = beside.iter().map(|w| w.jobs_bytes_per_s).collect();
        let jobs_bytes_per_s = jobs_bytes.map(mean);
        Self {
            windows: beside.len(),
            p50,
            p99,
            p999,
            batch_p99: p99_of(of(|window| &window.batches)),
            dispatch_p99: p99_of(of(|window| &window.dispatch)),
            lead_p99: has_lead.then(|| p99_of(of(|window| &window.lead))),
            idle_cpu_used: used / idle.max(1e-3),
            jobs_bytes_per_s,
            jobs_bytes_per_cpu_s: jobs_bytes_per_s.map(|bytes| bytes / used.max(1e-3)),
            paused: (beside
                .iter()
                .map(|window| window.paused)
                .collect::<Option<Vec<_>>>())
            .map(mean),
            cache_hits: hits(beside).zip(hits(alone)).map(|(b, a)| b / a),
        }
    }
}

impl Serialize for Ratios {
    /// Serializes each estimate as three numbers: `p99_over_alone`, `p99_over_alone_low` and
    /// `p99_over_alone_high`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let estimates = [
            ("p50", Some(self.p50)),
            ("p99", Some(self.p99)),
            ("p999", Some(self.p999)),
            ("batch_p99", Some(self.batch_p99)),
            ("dispatch_p99", Some(self.dispatch_p99)),
            ("lead_p99", self.lead_p99),
        ];
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("windows_counted", &self.windows)?;
        for (name, estimate) in estimates {
            let name = format!("{name}_over_alone");
            map.serialize_entry(&name, &estimate.map(|it| it.value))?;
            map.serialize_entry(&format!("{name}_low"), &estimate.map(|it| it.low))?;
            map.serialize_entry(&format!("{name}_high"), &estimate.map(|it| it.high))?;
        }
        map.serialize_entry("idle_cpu_used", &self.idle_cpu_used)?;
        map.serialize_entry("jobs_bytes_per_s", &self.jobs_bytes_per_s)?;
        map.serialize_entry("jobs_bytes_per_cpu_s", &self.jobs_bytes_per_cpu_s)?;
        map.serialize_entry("paused", &self.paused)?;
        map.serialize_entry("cache_hits_over_alone", &self.cache_hits)?;
        map.end()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::experiments::colocation::disturbance::Disturbance;

    /// Returns a window of 100 operations. The slowest two took `slowest_us`.
    pub fn window(slowest_us: u64, analytics_cores: f64) -> Window {
        let operations = |slowest_us: u64| -> Counts {
            let quick = std::iter::repeat_n(100_000, 98);
            quick.chain([slowest_us * 1000; 2]).collect()
        };
        Window {
            latencies: operations(slowest_us),
            batches: operations(2 * slowest_us),
            dispatch: operations(slowest_us / 2),
            lead: operations(3 * slowest_us),
            has_lead: true,
            p50_us: 100.0,
            p99_us: slowest_us as f64,
            p999_us: slowest_us as f64,
            ops_per_s: 1000.0,
            paused: Some(0.01),
            operations_unserved: 0,
            transactional_cores: 0.6,
            analytics_cores,
            jobs_bytes_per_s: (analytics_cores > 0.0).then_some(1e6),
            others_cores: 0.0,
            idle_cores: 1.4,
            cache_hits: None,
            allowed_min: None,
            scheduling_class: None,
            disturbance: Disturbance::default(),
            pieces: Vec::new(),
        }
    }

    #[test]
    fn windows_are_pooled_before_they_are_compared() {
        let alone = [window(1000, 0.0), window(1000, 0.0)];
        let beside = [window(1100, 1.4), window(1100, 0.7)];
        let ratios = Ratios::new(&beside.each_ref(), &alone.each_ref());
        assert!((ratios.p99.value - 1.1).abs() < 1e-9, "{ratios:?}");
        assert!((ratios.p99.high - 1.1).abs() < 1e-9, "equal windows");
        assert_eq!(ratios.p50.value, 1.0);
        assert!((ratios.lead_p99.unwrap().value - 1.1).abs() < 1e-9);
        assert!((ratios.idle_cpu_used - 0.75).abs() < 1e-12);
        assert_eq!(ratios.jobs_bytes_per_s, Some(1e6));
        assert!((ratios.jobs_bytes_per_cpu_s.unwrap() - 1e6 / 1.05).abs() < 1e-3);
        assert_eq!((ratios.cache_hits, ratios.paused), (None, Some(0.01)));
        let json = serde_json::to_value(ratios).unwrap();
        for name in [
            "p99_over_alone",
            "p99_over_alone_low",
            "p99_over_alone_high",
        ] {
            assert!((json[name].as_f64().unwrap() - 1.1).abs() < 1e-9, "{json}");
        }
    }
}
