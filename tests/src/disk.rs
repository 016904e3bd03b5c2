//! The machine in memory that the proofs run on, and what they ask of it. How the
//! engine reaches a disk is known here and in [`session`](crate::session) only.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{Db, FileSystem, Options};

/// The directory of every database under proof.
pub const DIR: &str = "/db";
/// Where files to ingest are written.
pub const INGEST_DIR: &str = "/ingest";

/// Options on a disk; the caller does all the work, so that a run is the same
/// every time.
pub fn manual(mem: &MemDisk) -> Options {
    on(
        mem,
        Options {
            maintenance: ebb_storage::Maintenance::Manual,
            // Full disks are small here.
            low_water_bytes: 0,
            ..Options::default()
        },
    )
}

/// The same options on another disk.
pub fn on(mem: &MemDisk, options: Options) -> Options {
    Options {
        disk: Arc::new(mem.clone()),
        ..options
    }
}

/// The files of a directory whose paths end so, ascending; none when there is no
/// directory. Not the lock file, in which nothing is.
///
/// # Errors
/// What the disk says.
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
/// What the disk says.
pub fn create_dir(mem: &MemDisk, dir: &str) -> io::Result<()> {
    mem.create_dir_all(dir.as_ref())
}

/// Removes a file.
///
/// # Errors
/// What the disk says.
pub fn remove(mem: &MemDisk, path: &Path) -> io::Result<()> {
    mem.remove(path)
}

/// Removes all files of a directory, if it is there.
///
/// # Errors
/// What the disk says.
pub fn clear(mem: &MemDisk, dir: &str) -> io::Result<()> {
    let files = files(mem, dir, "")?;
    files.iter().try_for_each(|path| mem.remove(path))
}

/// Writes a file of these bytes, which no power loss takes away.
///
/// # Errors
/// What the disk says.
pub fn write(mem: &MemDisk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    mem.create_dir_all(dir)?;
    let mut file = mem.create(path)?;
    file.append(bytes)?;
    file.sync()?;
    mem.sync_dir(dir)
}

/// Cuts the power, lets go of the handles (which can then save nothing any
/// more), and starts the machine again.
pub fn lose_power<T>(mem: &MemDisk, handles: T, seed: u64) {
    cut_power(mem);
    drop(handles);
    mem.restart(seed);
}

/// Cuts the power.
pub fn cut_power(mem: &MemDisk) {
    mem.crash_at(1);
    let cut = mem.exists(Path::new(DIR));
    debug_assert!(cut.is_err(), "the power fails in that call");
}

/// Whether the directory has the files that the database needs, and no others: by
/// the names there, and by the database's own account.
///
/// # Errors
/// What is there, and what is needed.
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
