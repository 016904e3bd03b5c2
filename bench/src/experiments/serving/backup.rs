//! A backup beside reads: their tail with it and without, and the rate at which it copies to another
//! file system, compared with `cp` and `sync`.
//!
//! The load is that of all parts about the tail, at half of what a closed loop reaches. Both copies
//! run beside it, and after the first round both read files that are in the page cache. A backup also
//! checks each block.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ebb_server::http::{BackupPlace, JobsClient};
use ebb_server::live::LoadPoint;
use ebb_storage::BackupInfo;
use serde::Serialize;
use tempfile::TempDir;

use super::args::ServingArgs;
use super::bar::verdict;
use super::command;
use super::repeats::BesideRepeats;
use super::report::PartResult;
use super::server::loaded;
use super::setting::Setting;
use super::steady::SteadyLoad;
use crate::console::progress_bar;
use crate::experiments::statistics::{mean, median, median_ratio};
use crate::number::fixed;
use crate::ycsb::KEY_BYTES;

/// The largest acceptable ratio of the p99 of reads beside a backup to that of the load alone.
const P99_MAX: f64 = 1.1;
/// The smallest acceptable ratio of the rate of a backup to that of `cp` and `sync`.
const RATE_MIN: f64 = 0.8;

#[derive(Debug, Clone, Serialize)]
pub struct Backup {
    /// Bytes of the files of a backup.
    pub bytes: u64,
    /// The folder on another file system in which the copies were made.
    pub target: PathBuf,
    /// The load's reads beside backups and alone.
    #[serde(flatten)]
    pub reads: BesideRepeats,
    /// The number of backups that completed during the windows.
    pub backups: u64,
    /// Megabytes per second of a backup, round by round.
    pub backup_mb_per_s: Vec<f64>,
    /// Megabytes per second of `cp` and `sync`, round by round.
    pub cp_mb_per_s: Vec<f64>,
    /// The use of the machine during the backups of `backup_mb_per_s`. `None` if they were so short
    /// that the server took no sample.
    pub cores: Option<CoresUsed>,
}

/// The mean use of the machine while backups copied, in cores, as the server measured it once a
/// second. It shows whether a slow backup had no CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CoresUsed {
    /// The cores that the governor, which shares the machine among load and background work,
    /// granted to the backup.
    pub granted: f64,
    /// The cores that the backup used of those granted to it.
    pub backup: f64,
    /// The cores that the server used for the load.
    pub load: f64,
    /// The cores that other processes used, the client of the load among them.
    pub others: f64,
}

impl CoresUsed {
    /// Returns the mean of the samples; `None` without samples.
    fn mean_of(samples: &[LoadPoint]) -> Option<Self> {
        let of = |cores: fn(&LoadPoint) -> f64| mean(samples.iter().map(cores));
        (!samples.is_empty()).then(|| Self {
            granted: of(|sample| sample.capacity_cores),
            backup: of(|sample| sample.analytics_cores),
            load: of(|sample| sample.load_cores),
            others: of(|sample| sample.others_cores),
        })
    }
}

impl PartResult for Backup {
    fn lines(&self) -> Vec<String> {
        let BesideRepeats {
            load,
            beside,
            counting,
        } = &self.reads;
        let rate = median_ratio(&self.backup_mb_per_s, &self.cp_mb_per_s);
        let mut lines = vec![
            format!(
                "a backup of {:.2} GB to {} beside reads of an open loop at {:.0} ops/s (peak {:.0}): \
                 p99 alone {:.0} us",
                self.bytes as f64 / 1e9,
                self.target.display(),
                load.rate_ops_per_s,
                load.peak_ops_per_s,
                load.p99_us
            ),
            format!(
                "  p99 beside / alone {beside}, at most {P99_MAX}: {}; alone again {}; beside threads that \
                 only count {counting}",
                verdict(beside.value <= P99_MAX),
                load.alone_again
            ),
            format!(
                "  {} backups completed; windows that count {:?}; {}",
                self.backups,
                load.windows,
                load.unanswered()
            ),
            format!(
                "  a backup {:.0} MB/s, cp and sync {:.0} MB/s; ratio {}, at least {RATE_MIN}: {}",
                median(&self.backup_mb_per_s),
                median(&self.cp_mb_per_s),
                fixed(rate, 2),
                verdict(rate.is_some_and(|rate| rate >= RATE_MIN))
            ),
        ];
        lines.extend(self.cores.map(|cores| {
            format!(
                "  meanwhile the backup was granted {:.2} cores and used {:.2}; the load used {:.2}, \
                 other processes {:.2}",
                cores.granted, cores.backup, cores.load, cores.others
            )
        }));
        lines
    }
}

/// Measures the tail latency of reads beside backups of a new server, and the rate of the backups
/// compared with that of `cp`.
///
/// # Errors
/// When the target is on the file system of the data, the server fails or returns a wrong value, a
/// copy fails, or the user interrupts the run.
pub fn measure(setting: &Setting<'_>) -> Result<Backup> {
    // The bytes of the backup are given, not the number of records as in other parts.
    let args = &ServingArgs {
        records: setting.args.backup_gb * 1_000_000_000 / record_bytes(setting.args),
        ..setting.args.clone()
    };
    let target = other_file_system(&args.target, setting.folder)?;
    let server = setting.start("backed-up", &[])?;
    let mut client = loaded(&server, None, args.connections, args)?;
    // The flushes and merges of the loading belong to no window.
    server.settle()?;
    let jobs = server.jobs_client()?;
    let load = SteadyLoad::find(args, &mut client)?;
    let (reads, backups) = BesideRepeats::measure("backup", setting, &load, &mut client, || {
        let dir = target.path().join("beside");
        back_up(&jobs, &dir)?;
        Ok(fs::remove_dir_all(&dir)?)
    })?;
    // Links to the files of the database, which stay as they are whatever is merged.
    let linked = setting.folder.join("linked");
    let bytes = back_up(&jobs, &linked)?.bytes;
    let (mut backup_mb_per_s, mut cp_mb_per_s) = (Vec::new(), Vec::new());
    let mut samples = Vec::new();
    let bar = progress_bar("serving: copies", u64::from(args.rounds));
    for round in 0..=args.rounds {
        setting.check_interrupt()?;
        let copy = target.path().join("copy");
        let (backup, sampled) = load.beside(&mut client, || {
            let rate = mb_per_s(&copy, || {
                let made = back_up(&jobs, &copy)?;
                // On another file system each byte is copied, as by `cp`.
                ensure!(made.linked_bytes == 0, "a copy has links");
                Ok(made.bytes)
            })?;
            let took_s = bytes as f64 / 1e6 / rate;
            Ok((rate, jobs.load(took_s.ceil() as u32)?.samples))
        })?;
        let cp = load.beside(&mut client, || {
            mb_per_s(&copy, || {
                // A backup syncs each file that it copies, so the files of `cp` are synced, too.
                command::run(Command::new("cp").arg("-r").args([&linked, &copy]))?;
                // A backup has synced its files when it ends.
                command::run(Command::new("sync").arg("--file-system").arg(&copy))?;
                Ok(bytes)
            })
        })?;
        // The first round is for the page cache, which `cp` fills and a backup leaves as it is.
        if round > 0 {
            backup_mb_per_s.push(backup);
            cp_mb_per_s.push(cp);
            samples.extend(sampled);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    drop(client);
    server.stop()?;
    Ok(Backup {
        bytes,
        target: args.target.clone(),
        reads,
        backups,
        backup_mb_per_s,
        cp_mb_per_s,
        cores: CoresUsed::mean_of(&samples),
    })
}

/// Returns the bytes of key and value of a record.
pub(super) fn record_bytes(args: &ServingArgs) -> u64 {
    KEY_BYTES as u64 + args.value_bytes
}

/// Creates a folder below `target`, which has to be on another file system than `data`.
fn other_file_system(target: &Path, data: &Path) -> Result<TempDir> {
    let folder = TempDir::new_in(target);
    let folder = folder.with_context(|| format!("cannot write to {}", target.display()))?;
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev());
    ensure!(
        device(folder.path())? != device(data)?,
        "{} is on the file system of the data, where a backup copies nothing: name a folder on \
         another one by --target",
        target.display()
    );
    Ok(folder)
}

/// Has the server make a backup into a new directory.
///
/// # Errors
/// When the server makes no backup, or a damaged one.
pub(super) fn back_up(jobs: &JobsClient, dir: &Path) -> Result<BackupInfo> {
    let directory = dir.to_str().context("the path of a backup is UTF-8")?;
    let place = BackupPlace {
        name: None,
        directory: Some(directory.to_owned()),
    };
    let info = jobs.back_up(&place, None)?;
    ensure!(
        info.damaged.is_empty(),
        "the backup is damaged: {:?}",
        info.damaged
    );
    Ok(info)
}

/// Calls `copy`, which copies files into `dir` and returns the number of bytes. Returns the rate in
/// megabytes per second, and removes the copy.
fn mb_per_s(dir: &Path, copy: impl FnOnce() -> Result<u64>) -> Result<f64> {
    let began = Instant::now();
    let bytes = copy()?;
    let took_s = began.elapsed().as_secs_f64();
    fs::remove_dir_all(dir)?;
    Ok(bytes as f64 / 1e6 / took_s)
}

#[cfg(test)]
mod tests {
    use super::super::steady::tests::measured_load;
    use super::*;
    use crate::experiments::colocation::bootstrap::Estimate;

    #[test]
    fn a_folder_on_the_file_system_of_the_data_is_refused() {
        let data = tempfile::tempdir().unwrap();
        let error = other_file_system(data.path(), data.path()).unwrap_err();
        assert!(error.to_string().contains("--target"), "{error}");
        let absent = data.path().join("absent");
        let error = other_file_system(&absent, data.path()).unwrap_err();
        assert!(error.to_string().contains("absent"), "{error}");
    }

    #[test]
    fn each_bar_is_met_or_missed_by_its_own_number() {
        let estimate = |value| Estimate {
            value,
            low: value,
            high: value,
        };
        let result = |p99, mb_per_s| Backup {
            bytes: 1_000_000,
            target: PathBuf::from("/dev/shm"),
            reads: BesideRepeats {
                load: measured_load(),
                beside: estimate(p99),
                counting: estimate(1.0),
            },
            backups: 1,
            backup_mb_per_s: vec![mb_per_s],
            cp_mb_per_s: vec![100.0],
            cores: None,
        };
        let missed = |result: Backup| {
            let lines = result.lines();
            lines
                .iter()
                .filter(|line| line.contains(": misses"))
                .count()
        };
        assert_eq!(missed(result(1.1, 80.0)), 0);
        assert_eq!(missed(result(1.11, 80.0)), 1);
        assert_eq!(missed(result(1.1, 79.0)), 1);
    }

    #[test]
    fn the_cores_beside_a_backup_are_the_mean_of_all_samples() {
        let sample = |capacity_cores, others_cores| LoadPoint {
            capacity_cores,
            others_cores,
            analytics_cores: 0.25,
            load_cores: 0.5,
            ..LoadPoint::default()
        };
        let samples = [sample(0.5, 1.0), sample(1.0, 0.5)];
        let cores = CoresUsed {
            granted: 0.75,
            backup: 0.25,
            load: 0.5,
            others: 0.75,
        };
        assert_eq!(CoresUsed::mean_of(&samples), Some(cores));
        assert_eq!(CoresUsed::mean_of(&[]), None);
    }
}
