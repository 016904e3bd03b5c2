//! A directory that is being filled with a database, and can be opened only at the end.
//!
//! CURRENT is written first, marks the directory as incomplete, and is replaced last: if anything
//! interrupts the filling, the directory does not open.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::files::{self, FileKind};
use crate::log_store::{self, LockGuard, LogStore};
use crate::manifest::{Manifest, State};

/// A directory that is locked while it is being filled. If it is dropped before
/// [`NewDir::complete`], its files are removed.
#[derive(Debug)]
pub(crate) struct NewDir {
    log_store: Arc<dyn LogStore>,
    dir: PathBuf,
    complete: bool,
    _lock: Box<dyn LockGuard>,
}

impl NewDir {
    /// Locks and marks a directory that is missing or empty, to fill it.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if the directory has something in it other than a lock file;
    /// [`Error::Locked`]; [`Error::DiskFull`]; [`Error::Io`].
    pub(crate) fn claim(log_store: Arc<dyn LogStore>, dir: &Path) -> Result<Self> {
        refuse_used(&*log_store, dir)?;
        log_store
            .create_dir_all(dir)
            .map_err(Error::no_space_or_io("create", dir))?;
        let lock = log_store::take_lock(&*log_store, dir)?;
        // Check again: another process may have had the lock meanwhile.
        refuse_used(&*log_store, dir)?;
        let new = Self {
            log_store,
            dir: dir.to_path_buf(),
            complete: false,
            _lock: lock,
        };
        let (current, [tmp, _]) = (files::current(dir), files::current_tmps(dir));
        let mut file = new
            .log_store
            .create(&tmp)
            .map_err(Error::no_space_or_io("create", &tmp))?;
        file.append(files::INCOMPLETE)
            .and_then(|()| file.sync())
            .map_err(Error::no_space_or_io("write", &tmp))?;
        // A crash must not leave CURRENT without the mark: it would count as the damaged one of a database.
        new.log_store
            .rename(&tmp, &current)
            .map_err(Error::no_space_or_io("rename", &tmp))?;
        new.sync()?;
        Ok(new)
    }

    /// Writes the manifest with this state, so that the directory is a database from now on. Before,
    /// the caller must have written all other files, and made their bytes durable.
    pub(crate) fn complete(mut self, state: State) -> Result<()> {
        self.sync()?;
        let made = Manifest::create_with(self.log_store.clone(), &self.dir, state).map(drop);
        // A failure may leave either side of the rename; behind it nothing that
        // is named may go.
        self.complete = made.is_ok() || !is_incomplete(&*self.log_store, &self.dir);
        made
    }

    fn sync(&self) -> Result<()> {
        self.log_store
            .sync_dir(&self.dir)
            .map_err(Error::no_space_or_io("sync", &self.dir))
    }

    /// Removes the new files, CURRENT last: if one cannot be removed, CURRENT still marks the
    /// directory as incomplete.
    fn clear(&self) -> io::Result<()> {
        for path in self.log_store.list(&self.dir)? {
            if FileKind::of(&path).is_some() {
                self.log_store.remove(&path)?;
            }
        }
        self.log_store.sync_dir(&self.dir)?;
        self.log_store.remove(&files::current(&self.dir))
    }
}

impl Drop for NewDir {
    fn drop(&mut self) {
        if !self.complete {
            // The failure that led here is what the caller is told.
            let _ = self.clear();
        }
    }
}

/// Returns whether a directory has a database, which may be damaged or in use. The incomplete copy that an
/// interrupted backup or repair left is no database.
pub(crate) fn has_database(log_store: &dyn LogStore, dir: &Path) -> Result<bool> {
    Ok(Manifest::exists(log_store, dir)? && !is_incomplete(log_store, dir))
}

/// Returns whether CURRENT marks the directory as incomplete.
fn is_incomplete(log_store: &dyn LogStore, dir: &Path) -> bool {
    let read = || {
        let current = log_store.open_read(&files::current(dir))?;
        let mut bytes = vec![0; files::INCOMPLETE.len()];
        current.read_exact_at(&mut bytes, 0)?;
        io::Result::Ok(bytes)
    };
    read().is_ok_and(|bytes| bytes == files::INCOMPLETE)
}

fn refuse_used(log_store: &dyn LogStore, dir: &Path) -> Result<()> {
    if !log_store.exists(dir).map_err(Error::io("look for", dir))? {
        return Ok(());
    }
    let lock = files::lock(dir);
    let found = log_store.list(dir).map_err(Error::io("list", dir))?;
    match found.into_iter().find(|path| *path != lock) {
        Some(path) => Err(Error::InvalidRequest(format!(
            "{} has something in it ({}); name a directory that is empty or not there yet",
            dir.display(),
            path.file_name().unwrap_or_default().to_string_lossy()
        ))),
        None => Ok(()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::file_system::FileSystem;
    use crate::simulation::MemDisk;

    /// Regression: a crash could leave an empty CURRENT, and then the directory counted as a damaged
    /// database, not as an incomplete backup or repair.
    #[test]
    fn a_crash_leaves_current_with_the_mark_or_no_current() {
        const SEEDS: u64 = 16;
        let dir = Path::new("/copy");
        for nth_call in 1.. {
            let mut is_claimed = false;
            for seed in 0..SEEDS {
                let mem = MemDisk::new();
                mem.crash_at(nth_call);
                let claimed = NewDir::claim(Arc::new(mem.clone()), dir);
                is_claimed |= claimed.is_ok();
                // Without power, the drop removes no file.
                drop(claimed);
                mem.restart(seed);
                let has_current = mem.exists(&files::current(dir)).unwrap();
                assert!(
                    !has_current || is_incomplete(&mem, dir),
                    "call {nth_call}, seed {seed}"
                );
            }
            if is_claimed {
                break;
            }
        }
    }
}
