//! The CPU time, memory and disk writes of the process, as counted by the kernel.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use procfs::process::Process;
use rustix::time::{ClockId, clock_gettime};

/// CPU time and bytes written by the whole process, background threads included, since its start or
/// between two moments.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// User and system time together, in seconds.
    pub cpu_s: f64,
    /// Bytes of pages that were dirtied and are to be written to the disk.
    pub written_bytes: u64,
    /// Bytes of those pages that were never written because their file was deleted, counted at the
    /// deletion.
    pub written_cancelled_bytes: u64,
}

impl Usage {
    /// Returns the usage since the start of the process.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn now() -> Result<Self> {
        let io = this_process()?.io().context("cannot read /proc/self/io")?;
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Ok(Self {
            cpu_s: Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32).as_secs_f64(),
            written_bytes: io.write_bytes,
            written_cancelled_bytes: io.cancelled_write_bytes,
        })
    }

    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_s: self.cpu_s - before.cpu_s,
            written_bytes: self.written_bytes - before.written_bytes,
            written_cancelled_bytes: self.written_cancelled_bytes - before.written_cancelled_bytes,
        }
    }
}

/// Resets the kernel's peak of memory, if the process may do that.
pub fn reset_memory_peak() {
    // Without the permission, the peak includes earlier phases.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Returns the highest resident memory since the last reset (VmHWM), in bytes.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn memory_peak_bytes() -> Result<u64> {
    let status = this_process()?.status()?;
    Ok(status.vmhwm.context("no VmHWM in /proc/self/status")? * 1024)
}

/// Returns the resident memory without pages of files (RssAnon), in bytes.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn memory_anonymous_bytes() -> Result<u64> {
    let status = this_process()?.status()?;
    Ok(status.rssanon.context("no RssAnon in /proc/self/status")? * 1024)
}

/// Returns the disk space of all files in a directory and its subdirectories, in bytes.
///
/// A file counts with its length or its blocks, whichever is less: space preallocated for a log
/// holds no data, and neither does a hole.
///
/// # Errors
/// If a directory cannot be listed.
pub fn directory_bytes(dir: &Path) -> io::Result<u64> {
    files_bytes(dir, &|_| true)
}

/// Returns the disk space of a directory without its logs: once a store has settled, its tables
/// hold all data that the logs hold.
///
/// # Errors
/// If the directory cannot be listed.
pub fn table_bytes(dir: &Path) -> io::Result<u64> {
    /// The extensions of logs: the first of ebb and RocksDB, the second of Fjall.
    const LOGS: [&str; 2] = ["log", "jnl"];
    files_bytes(dir, &|path| {
        let extension = path.extension().and_then(OsStr::to_str);
        !extension.is_some_and(|extension| LOGS.contains(&extension))
    })
}

fn files_bytes(dir: &Path, counts: &dyn Fn(&Path) -> bool) -> io::Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.metadata() {
            // A file that a merge replaced may go while the directory is listed.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Ok(metadata) if metadata.is_dir() => total += files_bytes(&entry.path(), counts)?,
            metadata => {
                let metadata = metadata?;
                if counts(&entry.path()) {
                    total += metadata.len().min(metadata.blocks() * 512);
                }
            }
        }
    }
    Ok(total)
}

/// Syncs all file systems and empties the page cache. Returns whether the kernel allowed it.
pub fn drop_page_cache() -> bool {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

fn this_process() -> Result<Process> {
    Process::myself().context("cannot open /proc/self")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_grows_with_work() {
        let before = Usage::now().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("below");
        fs::create_dir(&below).unwrap();
        for name in ["file", "1.log"] {
            let path = below.join(name);
            fs::write(&path, vec![1; 1 << 20]).unwrap();
            // The kernel counts the bytes when they are written back, so the test forces that.
            fs::File::open(&path).unwrap().sync_all().unwrap();
        }
        assert!(Usage::now().unwrap().since(&before).cpu_s > 0.0);
        assert_eq!(directory_bytes(dir.path()).unwrap(), 2 << 20);
        assert_eq!(table_bytes(dir.path()).unwrap(), 1 << 20);
        assert!(memory_peak_bytes().unwrap() > memory_anonymous_bytes().unwrap() / 2);
    }
}
