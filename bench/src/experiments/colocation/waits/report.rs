//! What was found, as tables and as JSON.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::Serialize;

use super::replay::{Holder, Wait};
use super::run::TracedWindow;
use super::slowest::Slowest;

/// Waits that are longer are shown by who had the core: less is what a wake-up takes.
const LONG_US: u64 = 25;
/// Waits that are longer than these are counted, in microseconds: they are rare, and each is
/// one that a request notices.
const LONGER_US: [u64; 4] = [500, 1000, 2000, 4000];

/// Waits for a core, alone and beside jobs.
#[derive(Debug, Serialize)]
pub struct Waits {
    /// Why there is no trace, if there is none.
    pub not_traced: Option<String>,
    /// The load alone, and beside jobs.
    pub conditions: Vec<Condition>,
}

/// The windows of one condition together.
#[derive(Debug, Serialize)]
pub struct Condition {
    /// Alone, or beside whom.
    pub name: String,
    /// How many windows.
    pub windows: usize,
    /// Requests per window.
    pub requests: f64,
    /// Median over windows of their p99, in microseconds; with what tracing costs.
    pub p99_us: f64,
    /// Cores that jobs used.
    pub analytics_cores: f64,
    /// How many request threads waited for a core on average, by the kernel's own count.
    pub waiting: MeanOfWindows,
    /// How long they waited each time that they got one, by the same, in microseconds.
    pub wait_us: f64,
    /// From the trace, if there is one.
    pub traced: Option<Traced>,
}

/// What the traces of a condition show.
#[derive(Debug, Serialize)]
pub struct Traced {
    /// From a wake-up until the thread ran.
    pub wake_ups: Lengths,
    /// From when a thread was displaced until it ran again.
    pub displaced: Lengths,
    /// All waits of more than 25 us together, in milliseconds per second.
    pub long_ms_per_s: MeanOfWindows,
    /// Waits of more than 0.5, 1, 2 and 4 ms, per second.
    pub longer_per_s: [MeanOfWindows; LONGER_US.len()],
    /// Waits of more than 25 us, by who had the core; the largest sum first.
    pub held_by: Vec<HeldBy>,
    /// The slowest 1% of the requests of each window.
    pub slowest: Slowest,
    /// Events that found no room in the buffers.
    pub events_lost: u64,
}

/// What windows showed on average, and how sure that is.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct MeanOfWindows {
    /// The mean.
    pub mean: f64,
    /// Its standard error: two means whose difference is less than twice what both errors
    /// make together do not differ. 0 of fewer than two windows.
    pub error: f64,
}

/// How long waits were, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Lengths {
    /// How many.
    pub count: usize,
    /// The median.
    pub p50_us: u64,
    /// 98 in 100 were at most this.
    pub p98_us: u64,
    /// 99 in 100.
    pub p99_us: u64,
    /// 995 in 1000.
    pub p995_us: u64,
    /// 999 in 1000.
    pub p999_us: u64,
    /// The mean.
    pub mean_us: f64,
}

/// Long waits while somebody had the core.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HeldBy {
    /// Who.
    pub holder: Holder,
    /// How many.
    pub waits: usize,
    /// Mean length, in microseconds.
    pub mean_us: f64,
    /// All together, in milliseconds per second of the windows.
    pub ms_per_s: f64,
}

impl MeanOfWindows {
    fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / (count - 1.0).max(1.0) / count).sqrt();
        Self { mean, error }
    }
}

impl fmt::Display for MeanOfWindows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let text = format!("{:.digits$} ±{:.digits$}", self.mean, self.error);
        f.write_str(&text)
    }
}

impl Lengths {
    fn of(mut lengths_us: Vec<u64>) -> Self {
        lengths_us.sort_unstable();
        let Some(last) = lengths_us.len().checked_sub(1) else {
            return Self::default();
        };
        let at = |quantile: f64| {
            let rank = (lengths_us.len() as f64 * quantile).ceil() as usize;
            lengths_us[rank.saturating_sub(1).min(last)]
        };
        Self {
            count: lengths_us.len(),
            p50_us: at(0.5),
            p98_us: at(0.98),
            p99_us: at(0.99),
            p995_us: at(0.995),
            p999_us: at(0.999),
            mean_us: lengths_us.iter().sum::<u64>() as f64 / lengths_us.len() as f64,
        }
    }
}

/// All long waits together, in milliseconds.
fn long_ms(waits: &[Wait]) -> f64 {
    let long = waits.iter().map(|wait| wait.length_us);
    long.filter(|us| *us > LONG_US).sum::<u64>() as f64 / 1e3
}

/// Long waits by holder, over so many seconds.
fn held_by(waits: &[Wait], seconds: f64) -> Vec<HeldBy> {
    let mut found: BTreeMap<Holder, (usize, u64)> = BTreeMap::new();
    for wait in waits.iter().filter(|wait| wait.length_us > LONG_US) {
        let (count, us) = found.entry(wait.holder).or_default();
        *count += 1;
        *us += wait.length_us;
    }
    let mut held: Vec<HeldBy> = (found.into_iter())
        .map(|(holder, (waits, us))| HeldBy {
            holder,
            waits,
            mean_us: us as f64 / waits as f64,
            ms_per_s: us as f64 / 1e3 / seconds.max(1e-9),
        })
        .collect();
    held.sort_by(|a, b| b.ms_per_s.total_cmp(&a.ms_per_s));
    held
}

impl Condition {
    /// Of all its windows.
    pub fn of(name: &str, windows: &[TracedWindow]) -> Self {
        let mean = |of: fn(&TracedWindow) -> f64| {
            windows.iter().map(of).sum::<f64>() / windows.len().max(1) as f64
        };
        let seconds = windows.iter().map(|w| w.counted.length_s).sum::<f64>();
        let waited_us: f64 = (windows.iter())
            .map(|w| w.counted.waited_ns as f64 / 1e3)
            .sum();
        let waiting = |w: &TracedWindow| {
            let waited_s = w.counted.waited_ns as f64 / 1e9;
            waited_s / w.counted.length_s.max(1e-9)
        };
        let runs: u64 = windows.iter().map(|w| w.counted.runs).sum();
        let mut p99s: Vec<f64> = windows.iter().map(|w| w.p99_us).collect();
        p99s.sort_by(f64::total_cmp);
        Self {
            name: name.to_string(),
            windows: windows.len(),
            requests: mean(|w| w.requests as f64),
            p99_us: p99s.get(p99s.len() / 2).copied().unwrap_or(0.0),
            analytics_cores: mean(|w| w.analytics_cores),
            waiting: MeanOfWindows::of(windows.iter().map(waiting)),
            wait_us: waited_us / runs.max(1) as f64,
            traced: Traced::of(windows, seconds),
        }
    }
}

impl Traced {
    fn of(windows: &[TracedWindow], seconds: f64) -> Option<Self> {
        let replayed: Vec<_> = (windows.iter())
            .map(|window| Some((window, window.replayed.as_ref()?)))
            .collect::<Option<_>>()?;
        let waits: Vec<Wait> = (replayed.iter())
            .flat_map(|(_, replayed)| replayed.waits.iter().copied())
            .collect();
        let per_s =
            |of: &dyn Fn(&[Wait]) -> f64| {
                MeanOfWindows::of((replayed.iter()).map(|(window, replayed)| {
                    of(&replayed.waits) / window.counted.length_s.max(1e-9)
                }))
            };
        let of_kind = |is_wake_up| {
            let waits = waits.iter().filter(|wait| wait.is_wake_up == is_wake_up);
            Lengths::of(waits.map(|wait| wait.length_us).collect())
        };
        let slow: Vec<_> = (replayed.iter())
            .map(|(window, replayed)| (window.slow.clone(), window.slowest, *replayed))
            .collect();
        Some(Self {
            wake_ups: of_kind(true),
            displaced: of_kind(false),
            long_ms_per_s: per_s(&long_ms),
            longer_per_s: LONGER_US.map(|us| {
                per_s(&|waits| waits.iter().filter(|wait| wait.length_us > us).count() as f64)
            }),
            held_by: held_by(&waits, seconds),
            slowest: Slowest::of(&slow),
            events_lost: windows.iter().map(|window| window.lost).sum(),
        })
    }
}

impl Waits {
    /// All tables.
    pub fn text(&self) -> String {
        let mut out = String::new();
        if let Some(why) = &self.not_traced {
            let _ = writeln!(
                out,
                "No trace, only what schedstat counts: {why}. Root has tracefs."
            );
        }
        for condition in &self.conditions {
            let _ = writeln!(
                out,
                "Waits for a core, {}: {} windows, {:.0} requests each, p99 {:.0} us, jobs used {:.2} cores\n  schedstat: {:.3} threads waited on average, {:.1} us each time",
                condition.name,
                condition.windows,
                condition.requests,
                condition.p99_us,
                condition.analytics_cores,
                condition.waiting,
                condition.wait_us,
            );
            if let Some(traced) = &condition.traced {
                traced.write(&mut out);
            }
            out.push('\n');
        }
        out
    }
}

impl Traced {
    fn write(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "  {:<42} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
            "us", "n", "mean", "p50", "p98", "p99", "p99.5", "p99.9"
        );
        for (name, lengths) in [
            ("from wake-up to run", self.wake_ups),
            ("displaced", self.displaced),
        ] {
            let _ = writeln!(
                out,
                "  {name:<42} {:>8} {:>8.1} {:>8} {:>8} {:>8} {:>8} {:>8}",
                lengths.count,
                lengths.mean_us,
                lengths.p50_us,
                lengths.p98_us,
                lengths.p99_us,
                lengths.p995_us,
                lengths.p999_us
            );
        }
        let _ = writeln!(
            out,
            "  waits above 25 us together: {} ms/s",
            self.long_ms_per_s
        );
        for (us, longer) in LONGER_US.iter().zip(&self.longer_per_s) {
            let _ = writeln!(out, "  waits above {us} us: {longer:.1} a second");
        }
        let _ = writeln!(
            out,
            "  {:<42} {:>8} {:>8} {:>8}",
            "waits above 25 us, by who had the core", "n", "mean", "ms/s"
        );
        for held in &self.held_by {
            let _ = writeln!(
                out,
                "  {:<42} {:>8} {:>8.0} {:>8.2}",
                held.holder.name(),
                held.waits,
                held.mean_us,
                held.ms_per_s
            );
        }
        let it = &self.slowest;
        let _ = writeln!(
            out,
            "  slowest 1%: {} requests from {} us on, {:.0} us on average; {:.2} faults each",
            it.requests, it.from_us, it.mean_us, it.faults
        );
        for (name, us) in [
            ("due: its thread slept", it.due_asleep_us),
            ("due: its thread had no core", it.due_no_core_us),
            ("due: its thread did those before", it.due_busy_us),
            ("taken: no core", it.no_core_us),
            ("taken: asleep (a lock, the disk)", it.asleep_us),
            ("in a system call", it.in_call_us),
            ("on a core", it.on_core_us),
            ("not in the trace", it.unknown_us),
        ] {
            let _ = writeln!(
                out,
                "  {name:<42} {us:>8.1} us {:>5.0}%",
                100.0 * us / it.mean_us.max(1e-9)
            );
        }
        if self.events_lost > 0 {
            let _ = writeln!(out, "  {} events found no room.", self.events_lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_knows_how_sure_it_is() {
        let of = |values: &[f64]| MeanOfWindows::of(values.iter().copied());
        let mean = of(&[1.0, 3.0, 2.0, 2.0]);
        assert!((mean.mean - 2.0).abs() < 1e-12);
        assert!((mean.error - (2.0_f64 / 3.0 / 4.0).sqrt()).abs() < 1e-12);
        assert_eq!(format!("{mean:.1}"), "2.0 ±0.4");
        assert_eq!(
            of(&[7.0]),
            MeanOfWindows {
                mean: 7.0,
                error: 0.0
            }
        );
        assert_eq!(of(&[]), MeanOfWindows::default());
    }

    #[test]
    fn lengths_are_ranked() {
        let lengths = Lengths::of((1..=1000).rev().collect());
        assert_eq!(
            [
                lengths.p50_us,
                lengths.p98_us,
                lengths.p99_us,
                lengths.p995_us,
                lengths.p999_us
            ],
            [500, 980, 990, 995, 999]
        );
        assert_eq!((lengths.count, lengths.mean_us), (1000, 500.5));
        assert_eq!(Lengths::of(Vec::new()), Lengths::default());
    }

    #[test]
    fn long_waits_are_summed_by_holder_the_largest_first() {
        let wait = |length_us, holder| Wait {
            length_us,
            is_wake_up: true,
            holder,
        };
        let held = held_by(
            &[
                wait(100, Holder::Task),
                wait(25, Holder::Task),
                wait(200, Holder::Task),
                wait(1000, Holder::Store),
            ],
            2.0,
        );
        let of = |holder, waits, mean_us, ms_per_s| HeldBy {
            holder,
            waits,
            mean_us,
            ms_per_s,
        };
        assert_eq!(
            held,
            [
                of(Holder::Store, 1, 1000.0, 0.5),
                of(Holder::Task, 2, 150.0, 0.15)
            ]
        );
    }
}
