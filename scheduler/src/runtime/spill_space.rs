//! The space for spills and for files of outputs: the free space of their file system, minus a
//! reserve. Without the reserve a job could fill the disk that the database writes its log to.

use super::error::TaskError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The default reserve of free space that spills leave, in bytes: twice the low-water mark of a
/// database, below which it refuses writes. A task whose spill would use the reserve fails its job,
/// and everything that the job has spilled is removed; meanwhile the database can still write.
const LEFT_BYTES: u64 = 128 << 20;

/// The most bytes that a writer may write before it reads the free space again.
const LOOK_EVERY_BYTES: u64 = 1 << 20;

/// A grant is at most the space above the reserve divided by this number, unless the writer needs
/// more at once. So this many writers that read the free space at the same time leave the reserve
/// free.
const WRITERS_MAX: u64 = 256;

type FreeBytes = dyn Fn(&Path) -> io::Result<u64> + Send + Sync;

/// The space for spills and for files of outputs: the free space of their file system, except for a
/// reserve, 128 MiB by default.
#[derive(Clone)]
pub struct SpillSpace {
    free_bytes: Arc<FreeBytes>,
    left_bytes: u64,
}

impl SpillSpace {
    /// Creates the space for spills with the default reserve. `free_bytes` returns the free bytes
    /// of the file system that has the given directory or file.
    pub fn new(free_bytes: impl Fn(&Path) -> io::Result<u64> + Send + Sync + 'static) -> Self {
        Self {
            free_bytes: Arc::new(free_bytes),
            left_bytes: LEFT_BYTES,
        }
    }

    /// Sets the reserve that spills leave free, in bytes.
    #[must_use]
    pub fn leaving(self, left_bytes: u64) -> Self {
        Self { left_bytes, ..self }
    }

    /// Returns the reserve that spills leave free, in bytes.
    pub(in crate::runtime) fn reserve_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// Returns a grant for one writer, with nothing granted so far.
    #[must_use]
    pub fn grant(&self) -> SpillGrant {
        SpillGrant {
            space: self.clone(),
            left_bytes: 0,
            named: None,
        }
    }
}

impl Default for SpillSpace {
    /// Returns the space for spills with the default reserve and the free bytes that the file
    /// system reports.
    fn default() -> Self {
        Self::new(|path| {
            let found = rustix::fs::statvfs(path)?;
            // Some file systems in user space report zeros.
            if found.f_blocks == 0 {
                return Err(io::ErrorKind::Unsupported.into());
            }
            Ok(found.f_bavail.saturating_mul(found.f_frsize))
        })
    }
}

impl fmt::Debug for SpillSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillSpace").finish_non_exhaustive()
    }
}

/// The space that one writer may take before it reads the free space again.
#[derive(Debug)]
pub struct SpillGrant {
    space: SpillSpace,
    left_bytes: u64,
    /// The path in errors; `None` for the path that the bytes are written to.
    named: Option<PathBuf>,
}

impl SpillGrant {
    /// Sets the path that errors name. It need not exist: a file that a user requested gets its name
    /// only when it is complete.
    #[must_use]
    pub fn naming(self, path: &Path) -> Self {
        Self {
            named: Some(path.to_path_buf()),
            ..self
        }
    }

    /// Takes `bytes` more on the file system of `path`, a directory or file.
    ///
    /// # Errors
    /// [`TaskError::Fatal`] with an I/O error of the kind [`io::ErrorKind::StorageFull`] if the
    /// bytes would reduce the reserve. Other attempts at the task would only spill the same again.
    pub fn take(&mut self, path: &Path, bytes: u64) -> Result<(), TaskError> {
        if bytes > self.left_bytes {
            // If the free space cannot be read, a write that finds no space fails by itself.
            let free_bytes = (self.space.free_bytes)(path).unwrap_or(u64::MAX);
            let left_bytes = self.space.left_bytes;
            let above_bytes = free_bytes.saturating_sub(left_bytes);
            if bytes > above_bytes {
                let text = format!(
                    "the disk is full: {free_bytes} bytes are free at {}, of which jobs leave \
                     {left_bytes} to the database: free some space, or use another disk",
                    self.named.as_deref().unwrap_or(path).display()
                );
                let full = io::Error::new(io::ErrorKind::StorageFull, text);
                return Err(TaskError::fatal(full));
            }
            let share_bytes = (above_bytes / WRITERS_MAX).min(LOOK_EVERY_BYTES);
            self.left_bytes = share_bytes.max(bytes);
        }
        self.left_bytes -= bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_writer_gets_all_space_above_the_reserve_and_reads_it_once_per_mebibyte_far_from_it() {
        const BLOCK_BYTES: u64 = 16 << 10;
        let (free, looks) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (found, counter) = (Arc::clone(&free), Arc::clone(&looks));
        let space = SpillSpace::new(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(found.load(Ordering::Relaxed))
        });
        free.store(LEFT_BYTES, Ordering::Relaxed);
        let mut grant = space.grant();
        let mut take = |bytes| grant.take(Path::new("run"), bytes);
        assert!(take(1).is_err());
        free.fetch_add(2 * LOOK_EVERY_BYTES, Ordering::Relaxed);
        let mut taken = 0;
        let refused = loop {
            match take(BLOCK_BYTES) {
                Ok(()) => taken += BLOCK_BYTES,
                Err(error) => break error,
            }
            free.fetch_sub(BLOCK_BYTES, Ordering::Relaxed);
        };
        assert_eq!(taken, 2 * LOOK_EVERY_BYTES);
        let TaskError::Fatal(cause) = &refused else {
            panic!("{refused:?}")
        };
        let full = cause.downcast_ref::<io::Error>().unwrap();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        // A block longer than one grant.
        free.store(u64::MAX, Ordering::Relaxed);
        take(4 * LOOK_EVERY_BYTES).unwrap();
        let looked = looks.load(Ordering::Relaxed);
        for _ in 0..2 * LOOK_EVERY_BYTES / BLOCK_BYTES {
            take(BLOCK_BYTES).unwrap();
        }
        assert_eq!(looks.load(Ordering::Relaxed), looked + 2);
        let system = SpillSpace::default();
        assert!((system.free_bytes)(&std::env::temp_dir()).unwrap() > 0);
    }

    /// Regression: each of many writers got a mebibyte for the same free bytes, and together they
    /// used the whole reserve.
    #[test]
    fn many_writers_that_read_the_free_space_at_once_leave_the_reserve() {
        for above_bytes in [300 << 20, 64 << 20, 1 << 20] {
            let space = SpillSpace::new(move |_| Ok(1000 + above_bytes)).leaving(1000);
            let granted = (0..WRITERS_MAX).map(|_| {
                let mut grant = space.grant();
                grant.take(Path::new("run"), 1).unwrap();
                1 + grant.left_bytes
            });
            assert!(granted.sum::<u64>() <= above_bytes, "{above_bytes}");
        }
    }
}
