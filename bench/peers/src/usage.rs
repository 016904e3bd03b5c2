//! The disk space of a store, and the kernel's caches and peaks.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Resets the kernel's peak of memory, if the process may do that.
pub fn reset_memory_peak() {
    // Without the permission, the peak includes earlier phases.
    let _ = fs::write("/proc/self/clear_refs", "5");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_no_tables() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("below");
        fs::create_dir(&below).unwrap();
        for name in ["file", "1.log"] {
            let path = below.join(name);
            fs::write(&path, vec![1; 1 << 20]).unwrap();
            // Blocks may be counted when they are written back, so the test forces that.
            fs::File::open(&path).unwrap().sync_all().unwrap();
        }
        assert_eq!(directory_bytes(dir.path()).unwrap(), 2 << 20);
        assert_eq!(table_bytes(dir.path()).unwrap(), 1 << 20);
    }
}
