//! What the process uses, as the kernel counts it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use procfs::process::Process;
use rustix::time::{ClockId, clock_gettime};

/// Processor time and bytes written, of the whole process with its background
/// threads, since it started or between two moments.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// User and system time together, in seconds.
    pub cpu_s: f64,
    /// Bytes of pages dirtied, on their way to the disk.
    pub written_bytes: u64,
    /// Bytes of those whose file was deleted before they were written, counted
    /// when the file goes.
    pub written_cancelled_bytes: u64,
}

impl Usage {
    /// Since the process started.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn now() -> Result<Self> {
        let io = this_process()?.io().context("cannot read /proc/self/io")?;
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Ok(Self {
            cpu_s: Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32).as_secs_f64(),
            written_bytes: io.write_bytes,
            written_cancelled_bytes: io.cancelled_write_bytes,
        })
    }

    /// What was used since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_s: self.cpu_s - before.cpu_s,
            written_bytes: self.written_bytes - before.written_bytes,
            written_cancelled_bytes: self.written_cancelled_bytes - before.written_cancelled_bytes,
        }
    }
}

/// Forgets the peak of memory so far, where the kernel lets a process do that.
pub fn reset_memory_peak() {
    // What it costs to be refused is a peak that counts earlier phases too.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that was resident since the last reset (VmHWM), in bytes.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn memory_peak_bytes() -> Result<u64> {
    let status = this_process()?.status()?;
    Ok(status.vmhwm.context("no VmHWM in /proc/self/status")? * 1024)
}

/// Memory that is resident and no file's (RssAnon), in bytes.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn memory_anonymous_bytes() -> Result<u64> {
    let status = this_process()?.status()?;
    Ok(status.rssanon.context("no RssAnon in /proc/self/status")? * 1024)
}

/// What the files of a directory and those below it take on the disk, in bytes.
///
/// A file counts with its length or its blocks, whichever is less: neither space
/// that is set aside for a log to grow into nor a hole holds anything.
///
/// # Errors
/// When the directory cannot be listed.
pub fn directory_bytes(dir: &Path) -> io::Result<u64> {
    files_bytes(dir, &|_| true)
}

/// The same without logs: when a store has settled, its tables have what they
/// hold.
///
/// # Errors
/// When the directory cannot be listed.
pub fn table_bytes(dir: &Path) -> io::Result<u64> {
    /// Those of ebb and RocksDB, and those of Fjall.
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

/// Sets every file system to the disk and empties the page cache; says whether
/// the kernel let it.
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
    fn usage_grows_with_what_is_done() {
        let before = Usage::now().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("below");
        fs::create_dir(&below).unwrap();
        for name in ["file", "1.log"] {
            let path = below.join(name);
            fs::write(&path, vec![1; 1 << 20]).unwrap();
            // What it takes is decided when it is written back.
            fs::File::open(&path).unwrap().sync_all().unwrap();
        }
        assert!(Usage::now().unwrap().since(&before).cpu_s > 0.0);
        assert_eq!(directory_bytes(dir.path()).unwrap(), 2 << 20);
        assert_eq!(table_bytes(dir.path()).unwrap(), 1 << 20);
        assert!(memory_peak_bytes().unwrap() > memory_anonymous_bytes().unwrap() / 2);
    }
}
