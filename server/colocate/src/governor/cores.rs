//! The cores that the load and analytics may use together, and those that other processes leave them.

use crate::cpu_limit::CpuLimit;

/// The numbers of cores that do not depend on the present CPU limits of cgroups.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cores {
    /// The number of cores on which this process may run.
    pub(super) reachable: f64,
    /// The greatest number of cores that the load and analytics may use together.
    most: f64,
}

impl Cores {
    /// Returns the cores of a process that may run on `reachable` cores, and that starts under the
    /// CPU limit `limit`. If `configured` is less than the cores that the limit leaves at the
    /// start, it stays a bound. Otherwise it is taken to come from the limit, which may be raised
    /// later, and so is no bound.
    pub(super) fn at_start(configured: u32, reachable: f64, limit: Option<CpuLimit>) -> Self {
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
    pub(super) fn own(self, limit: Option<CpuLimit>) -> f64 {
        limit.map_or(self.most, |limit| limit.cores.min(self.most))
    }

    /// Returns the cores that the load, analytics and other processes may use together under the CPU limit
    /// `limit` of the load and analytics. While other processes use only cores beyond the limit, they take
    /// no CPU time from the load and analytics.
    pub(super) fn with_others(self, others_cores: f64, limit: Option<CpuLimit>) -> f64 {
        (self.own(limit) + others_cores).min(self.reachable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroups_limit_counts_once_beside_others_outside_of_it() {
        for (configured, others_cores, reachable, limit, left, case) in [
            (2, 0.5, 2.0, 2.0, 1.5, "the limit binds nothing"),
            (
                1,
                1.0,
                2.0,
                1.0,
                1.0,
                "another process uses the second core",
            ),
            (1, 1.5, 2.0, 1.0, 0.5, "others use a half of it, too"),
            (1, 0.0, 2.0, 0.25, 0.25, "the limit is below a core"),
            (2, 0.0, 8.0, 2.5, 2.5, "the number is the limit, rounded"),
            (1, 0.0, 8.0, 2.5, 1.0, "the number is set below the limit"),
        ] {
            let limit = Some(CpuLimit {
                cores: limit,
                throttled_ratio: 0.0,
            });
            let cores = Cores::at_start(configured, reachable, limit);
            let shared = cores.with_others(others_cores, limit);
            assert_eq!(shared - others_cores, left, "{case}");
        }
    }
}
