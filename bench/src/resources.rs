//! The resource usage of the process, as counted by the kernel.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use ebb_threads::process_cpu;
use procfs::process::{Process, Status};
use serde::Serialize;

/// CPU time and bytes written by the whole process, background threads included, since its start or
/// between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Usage {
    /// CPU time in user and kernel mode together, in seconds, exact to the nanosecond.
    pub cpu_s: f64,
    /// CPU time in user mode, in seconds, exact to a tick of the kernel (10 ms).
    pub cpu_user_s: f64,
    /// CPU time in kernel mode, in seconds, exact to a tick of the kernel (10 ms).
    pub cpu_system_s: f64,
    /// Bytes of pages that the process dirtied (`write_bytes` of `/proc/self/io`). The kernel
    /// writes these pages to the disk later, unless their file is deleted before.
    pub process_write_bytes: u64,
    /// Bytes of dirtied pages that were never written because their file was deleted. The kernel
    /// counts them at the deletion, so over a part of a run they may exceed the bytes that this
    /// part wrote.
    pub process_cancelled_write_bytes: u64,
}

impl Usage {
    /// Returns the usage since the start of the process.
    pub fn now() -> Result<Self> {
        let process = Process::myself().context("cannot open /proc/self")?;
        let stat = process.stat().context("cannot read /proc/self/stat")?;
        let io = process.io().context("cannot read /proc/self/io")?;
        let ticks_per_s = procfs::ticks_per_second() as f64;
        Ok(Self {
            cpu_s: process_cpu().as_secs_f64(),
            cpu_user_s: stat.utime as f64 / ticks_per_s,
            cpu_system_s: stat.stime as f64 / ticks_per_s,
            process_write_bytes: io.write_bytes,
            process_cancelled_write_bytes: io.cancelled_write_bytes,
        })
    }

    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_s: self.cpu_s - before.cpu_s,
            cpu_user_s: self.cpu_user_s - before.cpu_user_s,
            cpu_system_s: self.cpu_system_s - before.cpu_system_s,
            process_write_bytes: self.process_write_bytes - before.process_write_bytes,
            process_cancelled_write_bytes: self.process_cancelled_write_bytes
                - before.process_cancelled_write_bytes,
        }
    }
}

/// Returns the resident memory of the process (VmRSS), in bytes.
pub fn memory_bytes() -> Result<u64> {
    let kib = status()?.vmrss.context("no VmRSS in /proc/self/status")?;
    Ok(kib * 1024)
}

/// Returns the peak of the resident memory of the process (VmHWM), in bytes.
pub fn memory_peak_bytes() -> Result<u64> {
    let kib = status()?.vmhwm.context("no VmHWM in /proc/self/status")?;
    Ok(kib * 1024)
}

/// Returns the resident memory without pages of files (RssAnon), in bytes.
pub fn anonymous_bytes() -> Result<u64> {
    let kib = status()?
        .rssanon
        .context("no RssAnon in /proc/self/status")?;
    Ok(kib * 1024)
}

fn status() -> Result<Status> {
    let process = Process::myself().context("cannot open /proc/self")?;
    process.status().context("cannot read /proc/self/status")
}

/// Returns the total length of all files in a directory, in bytes.
pub fn directory_bytes(dir: &Path) -> io::Result<u64> {
    bytes_of_files(dir, |_| true)
}

/// Returns the total length, in bytes, of those files in a directory for which `counts` returns true.
pub fn bytes_of_files(dir: &Path, counts: impl Fn(&Path) -> bool) -> io::Result<u64> {
    let length = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        if !counts(&entry.path()) {
            return Ok(0);
        }
        match entry.metadata() {
            // A file that a merge replaced may go while the directory is listed.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
            metadata => Ok(metadata?.len()),
        }
    };
    fs::read_dir(dir)?.map(length).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_grows_with_work() {
        let before = Usage::now().unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), vec![1; 1 << 20]).unwrap();
        let used = Usage::now().unwrap().since(&before);
        assert!(used.cpu_s > 0.0, "{used:?}");
        assert_eq!(directory_bytes(dir.path()).unwrap(), 1 << 20);
        assert_eq!(
            bytes_of_files(dir.path(), |path| path.ends_with("other")).unwrap(),
            0
        );
        for bytes in [memory_bytes(), memory_peak_bytes(), anonymous_bytes()] {
            let bytes = bytes.unwrap();
            assert!(bytes > 0 && bytes.is_multiple_of(1024), "{bytes}");
        }
    }
}
