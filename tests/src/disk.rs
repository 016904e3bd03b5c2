//! The in-memory machine that the proofs run on, with helpers. Only this module and
//! [`session`](crate::session) depend on how the engine accesses a disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{Db, FileSystem, Options};

/// The directory of every database in the randomized tests.
pub const DIR: &str = "/db";
/// The directory for files to ingest.
pub const INGEST_DIR: &str = "/ingest";

/// Returns options for a database on `mem` whose caller does all maintenance, so that every run is
/// the same.
pub fn manual(mem: &MemDisk) -> Options {
    on(
        mem,
        Options {
            maintenance: ebb_storage::Maintenance::Manual,
            // Full disks are smaller here than the default mark.
            low_water_bytes: 0,
            ..Options::default()
        },
    )
}

pub fn on(mem: &MemDisk, options: Options) -> Options {
    Options {
        disk: Arc::new(mem.clone()),
        ..options
    }
}

/// Returns the files of a directory whose paths end with `ending`, sorted; none if the directory
/// does not exist. Leaves out the lock file, which is always empty.
///
/// # Errors
/// Any error of the disk.
pub fn files(mem: &MemDisk, dir: &str, ending: &str) -> io::Result<Vec<PathBuf>> {
    if !mem.exists(dir.as_ref())? {
        return Ok(Vec::new());
    }
    let mut files = mem.list(dir.as_ref())?;
    files.retain(|path| !path.ends_with("LOCK") && path.to_string_lossy().ends_with(ending));
    files.sort();
    Ok(files)
}

/// Creates a directory.
///
/// # Errors
/// Any error of the disk.
pub fn create_dir(mem: &MemDisk, dir: &str) -> io::Result<()> {
    mem.create_dir_all(dir.as_ref())
}

/// Removes a file.
///
/// # Errors
/// Any error of the disk.
pub fn remove(mem: &MemDisk, path: &Path) -> io::Result<()> {
    mem.remove(path)
}

/// Removes all files of a directory, if the directory exists.
///
/// # Errors
/// Any error of the disk.
pub fn clear(mem: &MemDisk, dir: &str) -> io::Result<()> {
    let files = files(mem, dir, "")?;
    files.iter().try_for_each(|path| mem.remove(path))
}

/// Writes a file, and syncs the file and its directory, so that it survives a power loss.
///
/// # Errors
/// Any error of the disk.
pub fn write(mem: &MemDisk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    mem.create_dir_all(dir)?;
    let mut file = mem.create(path)?;
    file.append(bytes)?;
    file.sync()?;
    mem.sync_dir(dir)
}

/// Cuts the power, drops the handles (which can no longer save anything), and restarts the machine.
pub fn lose_power<T>(mem: &MemDisk, handles: T, seed: u64) {
    cut_power(mem);
    drop(handles);
    mem.restart(seed);
}

pub fn cut_power(mem: &MemDisk) {
    mem.crash_at(1);
    let cut = mem.exists(Path::new(DIR));
    debug_assert!(cut.is_err(), "the power fails in that call");
}

/// Checks that [`DIR`] has as many SSTables and WAL segments as the database's statistics show, and
/// no temporary files.
///
/// # Errors
/// If not; the error lists the files in the directory and the expected numbers of SSTables and WAL
/// segments.
pub fn no_orphans(mem: &MemDisk, db: &Db) -> anyhow::Result<()> {
    let files = files(mem, DIR, "")?;
    let of = |ending: &str| {
        let ends = |path: &&PathBuf| path.to_string_lossy().ends_with(ending);
        files.iter().filter(ends).count()
    };
    let stats = db.stats();
    let tables: usize = stats.tables.iter().map(|table| table.files).sum();
    anyhow::ensure!(
        of(".sst") == tables && of(".log") == stats.wal_segments && of(".tmp") == 0,
        "{tables} SSTables and {} WAL segments are needed, the directory has {files:?}",
        stats.wal_segments
    );
    Ok(())
}
