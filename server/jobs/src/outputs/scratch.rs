//! A hidden folder for a job's files: parts beside the target, which only have to be
//! renamed in the end, and spills.
//!
//! The process holds a lock on a file in the folder. When a process is killed, its lock ends, and
//! the next job that makes such a folder in the same place removes the old one.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use ebb_scheduler::runtime::owner_only;
use tempfile::TempDir;

/// The prefix of the names of scratch folders.
const PREFIX: &str = ".ebb-job-";

/// The name of a file in each scratch folder. The process that uses the folder keeps the file
/// locked.
const LOCK: &str = "lock";

/// A hidden folder, removed with its content when dropped. If the process is killed, the folder
/// stays until another scratch folder is made beside it. Only the user of the process may enter the
/// folder.
#[derive(Debug)]
pub struct ScratchDir {
    // Dropped before the lock, so that no other process removes the folder meanwhile.
    dir: TempDir,
    _lock: File,
}

impl ScratchDir {
    /// Creates an empty folder as [`ScratchDir::create_in`] does. If `parent` is absent, it is
    /// created for the user of the process only.
    ///
    /// # Errors
    /// When `parent` cannot be created, read or written.
    pub fn create_with_parent(parent: &Path) -> io::Result<Self> {
        owner_only::create_dir_all(parent)?;
        Self::create_in(parent)
    }

    /// Creates an empty folder in `parent`, and removes the folders that killed processes left
    /// there.
    ///
    /// # Errors
    /// When `parent` cannot be read or written.
    pub fn create_in(parent: &Path) -> io::Result<Self> {
        remove_left_behind(parent)?;
        loop {
            let dir = owner_only::temporary_dir_in(parent, PREFIX)?;
            // Until the lock is held, the folder looks abandoned, and another process may
            // remove it.
            match locked(&dir.path().join(LOCK), owner_only::create_new) {
                Ok(Some(lock)) => return Ok(Self { dir, _lock: lock }),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Opens a file by `open` and locks it. Returns `None` if another process has the lock, or had it
/// and removed the file.
fn locked(path: &Path, open: impl FnOnce(&Path) -> io::Result<File>) -> io::Result<Option<File>> {
    let file = open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(path.try_exists()?.then_some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn remove_left_behind(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let is_scratch = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !is_scratch || !entry.file_type()?.is_dir() {
            continue;
        }
        let folder = entry.path();
        match locked(&folder.join(LOCK), |path| File::open(path)) {
            // The folder of another user, or an error; its own process may be removing it.
            Ok(Some(_lock)) => {
                let _ = fs::remove_dir_all(&folder);
            }
            // The process was killed before it made the lock. If it still runs and is about
            // to make the lock, it starts over.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let _ = fs::remove_dir(&folder);
            }
            Ok(None) | Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_scratch_folder_and_a_parent_that_was_absent_are_for_their_owner_only() {
        let temp = tempfile::tempdir().unwrap();
        let (data, parent) = (temp.path().join("data"), temp.path().join("data/spill"));
        let scratch = ScratchDir::create_with_parent(&parent).unwrap();
        let lock = scratch.path().join(LOCK);
        for path in [data.as_path(), &parent, scratch.path(), &lock] {
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
        }
    }

    fn names(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn a_scratch_folder_goes_with_its_owner_and_not_before() {
        let parent = tempfile::tempdir().unwrap();
        let first = ScratchDir::create_in(parent.path()).unwrap();
        fs::write(first.path().join("part"), "rows").unwrap();
        let second = ScratchDir::create_in(parent.path()).unwrap();
        assert!(first.path().join("part").exists());
        assert_eq!(names(parent.path()), 2);
        drop((first, second));
        assert_eq!(names(parent.path()), 0);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_is_not_ours_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join(".ebb-job-AbCdEf");
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        fs::write(left.join("part"), "rows").unwrap();
        fs::create_dir(parent.path().join(".ebb-job-empty")).unwrap();
        let other = parent.path().join(".ebb-job-other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("mine"), "not a scratch folder").unwrap();
        fs::write(parent.path().join(".ebb-job-file"), "").unwrap();
        let scratch = ScratchDir::create_in(parent.path()).unwrap();
        assert!(!left.exists() && scratch.path().exists());
        assert!(other.join("mine").exists());
        assert_eq!(names(parent.path()), 3);
    }
}
