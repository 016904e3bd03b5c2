//! The memory that the machine leaves to analytics.
//!
//! ```text
//!   left = available + held by tasks - reserve        of the machine, and of each
//!                                                     cgroup that this process is in
//! ```
//!
//! The minimum counts. For the machine, *available* is `MemAvailable`; for a cgroup (version 2) it is
//! the rest of its limit, including unused file pages.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use procfs::{FromRead, Meminfo};

/// The fraction of all memory that analytics never get: for the store, the kernel and others, which
/// may allocate before the next sample.
const RESERVE: f64 = 0.05;

/// An increase of the available memory must last for this time, in seconds, before tasks may use it.
/// Preempting a task loses its work, so a short increase should not start tasks.
const STEADY_S: f64 = 5.0;

/// The maximal number of bytes that are read of a file. All files that are read here are shorter.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The mount point of cgroups, below the root.
const CGROUPS: &str = "sys/fs/cgroup";

/// The memory of the machine or of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Memory {
    total_bytes: u64,
    /// The bytes that could be allocated now, including those of file pages that the kernel would
    /// drop.
    available_bytes: u64,
}

impl Memory {
    /// Returns the bytes that analytics may hold, if `held_bytes` of the used memory are theirs.
    fn left_bytes(self, held_bytes: u64) -> u64 {
        let reserve_bytes = (self.total_bytes as f64 * RESERVE) as u64;
        let free_or_held_bytes = self.available_bytes.saturating_add(held_bytes);
        free_or_held_bytes.saturating_sub(reserve_bytes)
    }
}

/// Reads the available memory of the machine and of the cgroups of this process.
#[derive(Debug)]
pub struct MemoryMonitor {
    meminfo: PathBuf,
    /// The cgroup of this process, then those above it.
    cgroups: Vec<PathBuf>,
}

impl MemoryMonitor {
    /// Returns a monitor of the machine and of the current cgroups of this process.
    pub fn start() -> Self {
        Self::below(Path::new("/"))
    }

    /// Returns the memory of the machine in bytes, or the lowest limit of the cgroups if that is less;
    /// `None` if the system does not show either.
    pub fn total_bytes(&self) -> Option<u64> {
        self.all().map(|memory| memory.total_bytes).min()
    }

    fn below(root: &Path) -> Self {
        Self {
            meminfo: root.join("proc/meminfo"),
            cgroups: cgroups(root),
        }
    }

    /// Returns the bytes that analytics may hold, if `held_bytes` of the used memory are theirs;
    /// `None` if the system does not report memory.
    pub(super) fn left_bytes(&self, held_bytes: u64) -> Option<u64> {
        self.all().map(|memory| memory.left_bytes(held_bytes)).min()
    }

    /// Returns the memory of the machine, and of the cgroups that have limits.
    fn all(&self) -> impl Iterator<Item = Memory> {
        let cgroups = self.cgroups.iter().filter_map(|path| of_cgroup(path));
        of_machine(&self.meminfo).into_iter().chain(cgroups)
    }
}

/// Returns the directories of the cgroup of this process and of those above it.
pub(super) fn cgroups(root: &Path) -> Vec<PathBuf> {
    let text = text(&root.join("proc/self/cgroup")).unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("0::/"));
    let named = Path::new(named.unwrap_or_default());
    // A cgroup outside of this process's namespace has another form of name.
    let is_within = |path: &Path| path.components().all(|c| matches!(c, Component::Normal(_)));
    let named = Some(named).filter(|path| is_within(path));
    let mount = root.join(CGROUPS);
    let cgroups = named.unwrap_or(Path::new("")).ancestors();
    cgroups.map(|path| mount.join(path)).collect()
}

fn of_machine(path: &Path) -> Option<Memory> {
    let file = File::open(path).ok()?;
    let meminfo = Meminfo::from_read(file.take(FILE_BYTES_MAX)).ok()?;
    Some(Memory {
        total_bytes: meminfo.mem_total,
        available_bytes: meminfo.mem_available?,
    })
}

/// Returns the memory of a cgroup; `None` if it has no limit.
fn of_cgroup(path: &Path) -> Option<Memory> {
    let number = |name: &str| text(&path.join(name))?.trim().parse::<u64>().ok();
    // Above the lower one of them, the kernel slows the whole group down.
    let limits = [number("memory.max"), number("memory.high")];
    let limit_bytes = limits.into_iter().flatten().min()?;
    let stat = text(&path.join("memory.stat")).unwrap_or_default();
    let inactive = stat
        .lines()
        .find_map(|line| line.strip_prefix("inactive_file "));
    let inactive_bytes = inactive.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let used_bytes = number("memory.current")?.saturating_sub(inactive_bytes);
    Some(Memory {
        total_bytes: limit_bytes,
        available_bytes: limit_bytes.saturating_sub(used_bytes),
    })
}

/// Returns the text of a file; `None` if it cannot be read.
pub(super) fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The minimum of the memory left in the last [`STEADY_S`] seconds.
#[derive(Debug, Default)]
pub(super) struct SteadyMemory {
    /// Samples that are smaller than all later ones: time in seconds, and bytes; both ascend.
    samples: VecDeque<(f64, u64)>,
}

impl SteadyMemory {
    /// Adds a sample of the time `now_s`, which must not be before the last one. Returns the minimum
    /// of the samples of the last [`STEADY_S`] seconds.
    pub(super) fn take(&mut self, now_s: f64, left_bytes: u64) -> u64 {
        while self
            .samples
            .pop_back_if(|sample| sample.1 >= left_bytes)
            .is_some()
        {}
        self.samples.push_back((now_s, left_bytes));
        // The last sample always stays.
        while self.samples[0].0 < now_s - STEADY_S {
            self.samples.pop_front();
        }
        self.samples[0].1
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Creates a root directory with some files.
    pub(crate) fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn left_bytes(files: &[(&str, &str)], held_bytes: u64) -> Option<u64> {
        MemoryMonitor::below(root(files).path()).left_bytes(held_bytes)
    }

    /// A `/proc/meminfo` of 1000 KiB, 600 of which are available.
    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:           1000 kB
MemFree:             200 kB
MemAvailable:        600 kB
Buffers:               0 kB
Cached:              500 kB
SwapCached:            0 kB
Active:                0 kB
Inactive:              0 kB
SwapTotal:             0 kB
SwapFree:              0 kB
Dirty:                 0 kB
Writeback:             0 kB
Mapped:                0 kB
Slab:                  0 kB
Committed_AS:          0 kB
VmallocTotal:          0 kB
VmallocUsed:           0 kB
VmallocChunk:          0 kB
",
    );

    #[test]
    fn a_machine_leaves_its_available_memory_and_that_of_tasks_less_a_reserve() {
        assert_eq!(left_bytes(&[MEMINFO], 0), Some(550 << 10));
        assert_eq!(left_bytes(&[MEMINFO], 100 << 10), Some(650 << 10));
        assert_eq!(
            left_bytes(&[MEMINFO], u64::MAX),
            Some(u64::MAX - (50 << 10))
        );
        let full = MEMINFO.1.replace("600 kB", " 20 kB");
        assert_eq!(left_bytes(&[("proc/meminfo", &full)], 10 << 10), Some(0));
    }

    #[test]
    fn the_tightest_cgroup_above_this_process_counts() {
        let slice = "sys/fs/cgroup/a/memory";
        let leaf = "sys/fs/cgroup/a/b/memory";
        let files = |max: &str, high: &str| {
            let named = |name: &str, of: &str| format!("{of}.{name}");
            vec![
                (MEMINFO.0.to_owned(), MEMINFO.1.to_owned()),
                (
                    "proc/self/cgroup".to_owned(),
                    "4:memory:/x\n0::/a/b\n".to_owned(),
                ),
                (named("max", leaf), "max\n".to_owned()),
                (named("current", leaf), "1\n".to_owned()),
                (named("max", slice), max.to_owned()),
                (named("high", slice), high.to_owned()),
                (named("current", slice), "90000\n".to_owned()),
                (
                    named("stat", slice),
                    "anon 1\ninactive_anon 7\ninactive_file 30000\n".to_owned(),
                ),
            ]
        };
        for (max, high, left, total) in [
            ("max\n", "max\n", 550 << 10, 1000 << 10),
            ("100000\n", "max\n", 35_000, 100_000),
            ("100000\n", "80000\n", 16_000, 80_000),
            ("40000\n", "max\n", 0, 40_000),
            ("not a number\n", "max\n", 550 << 10, 1000 << 10),
        ] {
            let files = files(max, high);
            let files: Vec<_> = files
                .iter()
                .map(|(path, text)| (&path[..], &text[..]))
                .collect();
            assert_eq!(left_bytes(&files, 0), Some(left), "{max:?}, {high:?}");
            let total_bytes = MemoryMonitor::below(root(&files).path()).total_bytes();
            assert_eq!(total_bytes, Some(total), "{max:?}, {high:?}");
        }
    }

    #[test]
    fn an_invisible_cgroup_and_invalid_files_are_no_limit() {
        for cgroup in [
            "0::/../../elsewhere\n",
            "",
            "1:name=systemd:/\n",
            "0::/gone\n",
        ] {
            let files = [MEMINFO, ("proc/self/cgroup", cgroup)];
            assert_eq!(left_bytes(&files, 0), Some(550 << 10), "{cgroup:?}");
        }
        assert_eq!(left_bytes(&[], 0), None);
        assert_eq!(left_bytes(&[("proc/meminfo", "no line like any")], 0), None);
        let endless = "x".repeat(1 << 20);
        assert_eq!(left_bytes(&[("proc/meminfo", &endless)], 0), None);
    }

    #[test]
    fn this_machine_reports_its_remaining_memory() {
        let left_bytes = MemoryMonitor::start().left_bytes(0);
        let total_bytes = of_machine(Path::new("/proc/meminfo")).map(|memory| memory.total_bytes);
        assert!(left_bytes.unwrap() < total_bytes.unwrap());
    }

    #[test]
    fn less_counts_at_once_and_more_only_when_it_stays() {
        let mut memory = SteadyMemory::default();
        let left = [
            (0.0, 50),
            (1.0, 90),
            (2.0, 40),
            (4.0, 70),
            (5.0, 60),
            (7.0, 99),
            (7.5, 99),
        ];
        let steady = left.map(|(now_s, bytes)| memory.take(now_s, bytes));
        assert_eq!(steady, [50, 50, 40, 40, 40, 40, 60]);
        assert_eq!(memory.take(30.0, 80), 80);
        assert_eq!(memory.take(30.0, 70), 70);
        assert_eq!(memory.samples.len(), 1);
    }
}
