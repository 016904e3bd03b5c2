//! The idle time of each CPU, as the kernel counts it in `/proc/stat`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

const STAT: &str = "/proc/stat";

/// The maximal number of bytes that are read of [`STAT`]. The rows of CPUs come first, so this is enough
/// for some ten thousand CPUs.
const STAT_BYTES_MAX: u64 = 1 << 20;

/// The idle time of each CPU since boot, in ticks of the kernel, by the number of the CPU. The numbers may
/// have gaps: a CPU that is offline has no row in `/proc/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdleTimes(BTreeMap<usize, u64>);

impl IdleTimes {
    /// Reads the idle times up to now.
    ///
    /// # Errors
    /// If `/proc/stat` cannot be read, or has no row of a CPU, or one without an idle time.
    pub(super) fn read() -> io::Result<Self> {
        let file = File::open(STAT)?;
        Self::of(BufReader::new(file.take(STAT_BYTES_MAX)))
    }

    /// Parses the text of `/proc/stat`.
    pub(super) fn of(stat: impl BufRead) -> io::Result<Self> {
        let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut times = BTreeMap::new();
        for line in stat.lines() {
            let line = line?;
            let Some(row) = line.strip_prefix("cpu") else {
                break;
            };
            // The first row, the sum over all CPUs, has no number.
            if row.starts_with(' ') {
                continue;
            }
            let (cpu, ticks) = of_row(row).ok_or_else(|| {
                wrong(format!(
                    "{STAT} has a row without the idle time of a CPU: {line:?}"
                ))
            })?;
            times.insert(cpu, ticks);
        }
        if times.is_empty() {
            return Err(wrong(format!("{STAT} has no row of a CPU")));
        }
        Ok(Self(times))
    }

    /// Returns whether `/proc/stat` has a row of this CPU.
    pub(super) fn has(&self, cpu: usize) -> bool {
        self.0.contains_key(&cpu)
    }

    /// Returns the ticks for which the CPUs that `counts` selects by number were idle since `before`. A CPU
    /// that is missing in `self` or in `before` was offline, and counts as never idle. The result may be
    /// negative: the kernel sometimes lowers the idle time of a CPU, and raises it again later. If only the
    /// increase counted, the CPU would seem more idle than it was.
    pub(super) fn ticks_since(&self, before: &Self, counts: impl Fn(usize) -> bool) -> f64 {
        let of_these = self.0.iter().filter(|(cpu, _)| counts(**cpu));
        let idle = of_these.filter_map(|(cpu, now)| Some(*now as f64 - *before.0.get(cpu)? as f64));
        idle.sum()
    }
}

/// Parses the row of a CPU without its first word, `cpu`: the number of the CPU, and its ticks by use. The
/// fourth of these is the idle time, and the fifth, missing on old kernels, the idle time that waited for a
/// disk. `None` if the number or the idle time is missing.
fn of_row(row: &str) -> Option<(usize, u64)> {
    let mut fields = row.split_ascii_whitespace();
    let cpu = fields.next()?.parse().ok()?;
    let idle: u64 = fields.nth(3)?.parse().ok()?;
    let waited: u64 = match fields.next() {
        Some(ticks) => ticks.parse().ok()?,
        None => 0,
    };
    Some((cpu, idle.saturating_add(waited)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a text of `/proc/stat` with these CPUs and their idle ticks.
    fn times(idle: &[(usize, u64)]) -> IdleTimes {
        let mut text = "cpu  9 9 9 999 99 0 0 0 0 0\n".to_string();
        for (cpu, ticks) in idle {
            text += &format!("cpu{cpu} 1 2 3 {ticks} 0 4 5 6 7 8\n");
        }
        text += "intr 1 2 3\nctxt 1\n";
        IdleTimes::of(text.as_bytes()).unwrap()
    }

    #[test]
    fn waiting_for_a_disk_is_idle_and_missing_on_old_kernels() {
        let parsed = |row: &str| IdleTimes::of(row.as_bytes()).unwrap();
        assert_eq!(parsed("cpu3 1 2 3 40 5 6\n"), times(&[(3, 45)]));
        assert_eq!(parsed("cpu3 1 2 3 40\n"), times(&[(3, 40)]));
        assert!(IdleTimes::read().is_ok());
    }

    #[test]
    fn a_text_without_idle_times_is_an_error() {
        for (text, what) in [
            ("", "no row of a CPU"),
            ("cpu  1 2 3 4 5\nctxt 1\n", "no row of a CPU"),
            ("cpu0 1 2 3\n", "cpu0 1 2 3"),
            ("cpu0 1 2 3 x 5\n", "cpu0 1 2 3 x 5"),
            ("cpux 1 2 3 4 5\n", "cpux"),
        ] {
            let error = IdleTimes::of(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("/proc/stat"), "{error}");
            assert!(error.contains(what), "{error}");
        }
    }

    /// Once, the sum of idle times since boot was compared, so a CPU that went offline took all of its idle
    /// time away, and other processes seemed to use thousands of cores.
    #[test]
    fn a_cpu_that_goes_offline_or_comes_online_counts_as_never_idle() {
        let all = times(&[(0, 100), (1, 5000), (2, 300)]);
        let without = times(&[(0, 110), (2, 330)]);
        assert_eq!(without.ticks_since(&all, |_| true), 40.0);
        let again = times(&[(0, 115), (1, 5010), (2, 330)]);
        assert_eq!(again.ticks_since(&without, |_| true), 5.0);
    }

    #[test]
    fn an_idle_time_that_falls_and_rises_again_counts_once() {
        let readings = [100, 97, 104].map(|ticks| times(&[(0, ticks), (1, 50)]));
        let since = |n: usize| readings[n].ticks_since(&readings[n - 1], |_| true);
        assert_eq!((since(1), since(2)), (-3.0, 7.0));
    }
}
