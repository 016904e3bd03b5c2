//! The CPU limit of the cgroups above this process (`cpu.max`), and how often it is used up.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::memory::{cgroups, text};

/// A CPU limit counts as used up if the kernel throttled the cgroup in at least this fraction, 0 to
/// 1, of the latest periods of the limit.
const THROTTLED_RATIO_MIN: f64 = 0.1;

/// The number of periods over which throttling is averaged: two seconds, with the usual periods of
/// 100 ms.
const PERIODS: f64 = 20.0;

/// The CPU limit of the cgroups above this process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CpuLimit {
    /// The smallest of the cgroups' limits, in cores.
    pub cores: f64,
    /// The fraction of the latest periods in which a limit was used up, so that threads waited for
    /// the next period; 0 to 1.
    pub throttled_ratio: f64,
}

impl CpuLimit {
    /// Returns whether the limit is used up: in a tenth of the latest periods or more, threads waited
    /// for the next period.
    pub fn is_used_up(&self) -> bool {
        self.throttled_ratio >= THROTTLED_RATIO_MIN
    }
}

/// Reads the CPU limits of the cgroups that this process was in when the monitor was created. The limits may
/// change at any time.
#[derive(Debug)]
pub(super) struct CpuLimitMonitor(Vec<Cgroup>);

#[derive(Debug)]
struct Cgroup {
    directory: PathBuf,
    /// The counters at the last sample; `None` before the first one.
    periods: Option<Periods>,
    throttled_ratio: f64,
}

/// Two counters of `cpu.stat`: the number of periods in which the cgroup ran, and the number of
/// periods in which the cgroup was throttled. The counter `throttled_usec` is not read, because a sum
/// of the waits of all cores cannot be compared with a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Periods {
    all: u64,
    throttled: u64,
}

impl CpuLimitMonitor {
    pub(super) fn start() -> Self {
        Self::below(Path::new("/"))
    }

    /// Returns a monitor of the cgroups whose files are below `root`.
    pub(super) fn below(root: &Path) -> Self {
        let cgroups = cgroups(root).into_iter().map(|directory| Cgroup {
            directory,
            periods: None,
            throttled_ratio: 0.0,
        });
        Self(cgroups.collect())
    }

    /// Returns the current limit; `None` if no cgroup has one.
    pub(super) fn sample(&mut self) -> Option<CpuLimit> {
        let limits = self.0.iter_mut().filter_map(Cgroup::sample);
        limits.reduce(|a, b| CpuLimit {
            cores: a.cores.min(b.cores),
            throttled_ratio: a.throttled_ratio.max(b.throttled_ratio),
        })
    }
}

impl Cgroup {
    fn sample(&mut self) -> Option<CpuLimit> {
        let cores = limit_cores(&text(&self.directory.join("cpu.max"))?)?;
        let stat = text(&self.directory.join("cpu.stat"));
        if let Some(now) = stat.and_then(|stat| Periods::of(&stat)) {
            let before = self.periods.replace(now).unwrap_or(now);
            self.throttled_ratio = now.averaged(before, self.throttled_ratio);
        }
        Some(CpuLimit {
            cores,
            throttled_ratio: self.throttled_ratio,
        })
    }
}

/// Returns the CPU limit in a text of `cpu.max`, in cores: the quota divided by its period. `None` if
/// the quota is `max`, or the text is malformed.
fn limit_cores(text: &str) -> Option<f64> {
    let mut fields = text.split_ascii_whitespace().map(str::parse::<u32>);
    let quota_us = fields.next()?.ok()?;
    let period_us = fields.next()?.ok().filter(|period_us| *period_us > 0)?;
    Some(f64::from(quota_us) / f64::from(period_us))
}

impl Periods {
    /// Parses a text of `cpu.stat`; `None` if it lacks the counters, as in a cgroup without the CPU
    /// controller.
    fn of(stat: &str) -> Option<Self> {
        let counter = |name: &str| {
            let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(found, _)| *found == name)?.1.parse().ok()
        };
        Some(Self {
            all: counter("nr_periods")?,
            throttled: counter("nr_throttled")?,
        })
    }

    /// Returns the moving average of the fraction of periods that were throttled. `ratio` is this
    /// average up to the earlier counters `before`; the periods from `before` to `self` are added to
    /// it.
    fn averaged(self, before: Self, ratio: f64) -> f64 {
        let all = self.all.saturating_sub(before.all) as f64;
        let throttled = self.throttled.saturating_sub(before.throttled) as f64;
        let weight = 1.0 - (-all / PERIODS).exp();
        ratio + weight * (throttled / all.max(1.0) - ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::root;

    #[test]
    fn a_limit_is_the_quota_over_its_period() {
        assert_eq!(limit_cores("50000 100000\n"), Some(0.5));
        assert_eq!(limit_cores("250000 100000\n"), Some(2.5));
        for no_limit in ["max 100000\n", "50000\n", "50000 0\n", "-1 100000\n", ""] {
            assert_eq!(limit_cores(no_limit), None, "{no_limit:?}");
        }
    }

    #[test]
    fn throttling_is_averaged_over_periods_and_stays_without_new_ones() {
        let stat = "usage_usec 9\nnr_periods 100\nnr_throttled 40\nthrottled_usec 7\n";
        let before = Periods::of(stat).unwrap();
        assert_eq!(Periods::of("usage_usec 9\n"), None);
        assert_eq!(before.averaged(before, 0.3), 0.3);
        let after = |all, throttled| Periods { all, throttled }.averaged(before, 0.0);
        let (short, long) = (after(101, 41), after(300, 240));
        assert!((0.04..0.06).contains(&short), "{short}");
        assert!((0.99..=1.0).contains(&long), "{long}");
    }

    #[test]
    fn the_smallest_limit_above_this_process_counts_and_the_most_throttling() {
        let limit = |leaf: &str| {
            let root = root(&[
                ("proc/self/cgroup", "4:cpu:/x\n0::/a/b\n"),
                ("sys/fs/cgroup/a/b/cpu.max", leaf),
                ("sys/fs/cgroup/a/cpu.max", "400000 100000\n"),
                ("sys/fs/cgroup/a/cpu.stat", "nr_periods 0\nnr_throttled 0\n"),
            ]);
            let mut monitor = CpuLimitMonitor::below(root.path());
            assert_eq!(monitor.sample().unwrap().throttled_ratio, 0.0);
            let stat = root.path().join("sys/fs/cgroup/a/cpu.stat");
            std::fs::write(stat, "nr_periods 900\nnr_throttled 450\n").unwrap();
            monitor.sample().unwrap()
        };
        assert_eq!(limit("max 100000\n").cores, 4.0);
        let both = limit("150000 100000\n");
        assert_eq!(both.cores, 1.5);
        assert!((both.throttled_ratio - 0.5).abs() < 1e-6);
    }
}
