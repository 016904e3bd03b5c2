//! A file system in memory that can lose power at any call.
//!
//! [`MemDisk`] is the face: the crate's disk traits and the test's controls.
//! `machine` holds the power switch and decides each call's outcome, `names`
//! the directory tree and its journal, `file` the bytes.

mod file;
mod handles;
mod machine;
mod names;
mod rng;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use handles::{HeldLock, OpenFile};
use machine::Machine;

use crate::file_system::{FileSystem, ReadFile, WriteFile};
use crate::log_store::{LockGuard, LogStore};
use crate::table_store::TableFiles;

/// A file system in memory with the rules of a disk: unsynced data may be lost when the power
/// fails, and a test chooses when the power fails.
///
/// Clones share one disk. Relative paths start at its root, `/`, the only
/// directory a new disk has.
///
/// # What survives a power loss
///
/// * Synced bytes of a file, always. Of its unsynced bytes none, all or some: in the last case the
///   length of the file is drawn between the synced length and the length that programs saw, and
///   each 512-byte sector of unsynced bytes has reached the disk, or reads as zeros.
/// * Created, linked, renamed and removed names that [`FileSystem::sync_dir`] made durable, always.
///   Of the later changes of names in a directory, a random number of the earliest ones survives,
///   as on a journaling file system. A rename survives whole or not at all, also between two
///   directories. So a file may be gone if it was synced and its directory was not, and a removed
///   file may be back.
/// * Directories that [`FileSystem::create_dir_all`] made, once the call has returned. Directories
///   that [`TableFiles::remove_dir`] removed do not come back once the call has returned.
/// * The cut of [`FileSystem::truncate`], once it returned. The emptying of an
///   existing file by [`FileSystem::create`] may be undone until that file is synced.
///
/// If a sync of a file fails by [`MemDisk::fail_next`], no later sync writes the bytes that this
/// one was to write, as on Linux: a later sync succeeds, and a power loss still treats these bytes
/// as unsynced.
///
/// # Which calls count
///
/// Every call of the crate's disk traits, reading ones too, is one I/O call, also when it fails. The
/// exceptions are [`TableFiles::free_bytes`], [`ReadFile::forget_cached`], [`WriteFile::begin_sync`]
/// and [`LockGuard::is_in_place`], which also work without power. Dropping a handle or a lock is no
/// I/O call, nor are the methods of `MemDisk` itself, nor calls without power.
///
/// # Example
///
/// A commit is safe at whatever call the power fails:
///
/// ```
/// use ebb_storage::{FileSystem, LogStore};
/// use ebb_storage::simulation::MemDisk;
/// use std::path::Path;
///
/// fn commit(disk: &dyn LogStore) -> std::io::Result<()> {
///     let mut file = disk.create(Path::new("CURRENT.tmp"))?;
///     file.append(b"new")?;
///     file.sync()?;
///     disk.rename(Path::new("CURRENT.tmp"), Path::new("CURRENT"))?;
///     disk.sync_dir(Path::new("/"))
/// }
///
/// for nth_call in 1.. {
///     let disk = MemDisk::new();
///     disk.crash_at(nth_call);
///     let acknowledged = commit(&disk).is_ok();
///     disk.restart(7);
///     match disk.read_all("CURRENT") {
///         Ok(bytes) => assert_eq!(bytes, b"new"),
///         Err(_) => assert!(!acknowledged),
///     }
///     if acknowledged {
///         break;
///     }
/// }
/// ```
#[derive(Clone)]
pub struct MemDisk {
    machine: Arc<Mutex<Machine>>,
}

/// A guard that keeps all calls to the disk from returning until it is dropped.
#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) struct Hang<'a> {
    _machine: MutexGuard<'a, Machine>,
}

/// The kind of call a fault of [`MemDisk::fail_next`] strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultOp {
    /// A call of [`WriteFile::append`]. When it fails, it leaves a random part of its bytes in the
    /// file.
    Append,
    /// A call of [`WriteFile::sync`] or [`SyncFile::sync`](crate::SyncFile::sync). When it fails, the bytes
    /// that it was to write stay unsynced for good.
    Sync,
    /// A call of [`FileSystem::sync_dir`]. When it fails, a later call that succeeds makes the same
    /// names durable.
    SyncDir,
    /// A call of [`FileSystem::create`], which changes nothing when it fails.
    Create,
    /// A call of [`LogStore::rename`], which changes nothing when it fails.
    Rename,
    /// A call of [`TableFiles::link`], which changes nothing when it fails.
    Link,
    /// A call of [`FileSystem::remove`], which changes nothing when it fails.
    Remove,
    /// A call of [`ReadFile::read_exact_at`], which leaves the buffer as it was when it fails.
    Read,
    /// A call of [`FileSystem::truncate`], which changes nothing when it fails.
    Truncate,
    /// Every call, also those without a kind of their own. A call that has a kind fails as
    /// described for that kind; any other changes nothing.
    Any,
}

impl MemDisk {
    /// Creates an empty disk, with power.
    pub fn new() -> Self {
        Self {
            machine: Arc::new(Mutex::new(Machine::new())),
        }
    }

    /// Returns the number of I/O calls since the disk was created. Restarts do not reset it.
    pub fn io_calls(&self) -> u64 {
        self.machine().io_calls
    }

    /// Lets the power fail in the `nth` I/O call from now; 1 is the next. Replaces an earlier
    /// `crash_at`.
    ///
    /// This I/O call and all later ones fail with [`io::ErrorKind::Other`], "simulated power loss",
    /// until [`MemDisk::restart`]. The effect of the call happens in part, under the rules for
    /// unsynced data: a crash in a sync, for instance, may find all, some or none of the bytes
    /// durable.
    ///
    /// # Panics
    ///
    /// If `nth` is 0.
    pub fn crash_at(&self, nth: u64) {
        assert!(nth > 0, "calls are counted from 1");
        self.machine().calls_until_crash = Some(nth);
    }

    /// Returns whether calls can succeed. Returns false from a crash to the restart.
    pub fn has_power(&self) -> bool {
        self.machine().has_power
    }

    /// Starts the machine again, cutting the power first if it is on.
    ///
    /// `seed` alone determines what survives: the same history and seed leave the same disk. All that
    /// survived is durable. Locks are free, open files are dead (every call on them goes on failing), armed
    /// crashes and faults are disarmed; the capacity stays.
    ///
    /// Threads from before the crash that still hold this `MemDisk` can make calls again: stop them first.
    pub fn restart(&self, seed: u64) {
        self.machine().restart(seed);
    }

    /// Makes the `nth` call of the kind `op` from now fail once, with an error of the kind `kind`;
    /// 1 is the next call. Faults add up: each counts the calls on its own.
    ///
    /// # Panics
    ///
    /// If `nth` is 0.
    pub fn fail_next(&self, op: FaultOp, nth: u64, kind: io::ErrorKind) {
        assert!(nth > 0, "calls are counted from 1");
        self.machine().fail_next(op, nth, kind);
    }

    /// Returns the number of faults of [`MemDisk::fail_next`] that have not struck yet.
    pub fn armed_faults(&self) -> usize {
        self.machine().faults.len()
    }

    /// Disarms the faults that have not struck yet.
    pub fn clear_faults(&self) {
        self.machine().faults.clear();
    }

    /// Makes the disk slow: before a call, the thread yields to other threads a random number of
    /// times, up to `turns_max`, drawn from `seed`. This changes the order of the calls of several
    /// threads, without a wait for time to pass. 0, the default, makes the disk fast.
    pub fn set_slow(&self, turns_max: u32, seed: u64) {
        self.machine().set_slow(turns_max, seed);
    }

    /// Runs `event` before each I/O call, in the thread that makes the call, until
    /// [`MemDisk::end_event`] or the next `before_each_call`; also before calls without power. The
    /// event may itself make I/O calls. No event runs before these calls, nor before those of other
    /// threads meanwhile. While the event runs, neither it nor another thread may replace or end it. The
    /// caller of the disk may hold locks during its calls, and an event that needs one of these locks
    /// waits for ever.
    ///
    /// A test lets something else happen at each call of a piece of work, in the same order in each
    /// run:
    ///
    /// ```
    /// use ebb_storage::FileSystem;
    /// use ebb_storage::simulation::MemDisk;
    /// use std::path::Path;
    ///
    /// let disk = MemDisk::new();
    /// let other = disk.clone();
    /// disk.before_each_call(move || drop(other.create(Path::new("/other"))));
    /// assert!(disk.exists(Path::new("/other"))?);
    /// disk.end_event();
    /// assert_eq!(disk.io_calls(), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn before_each_call(&self, event: impl FnMut() + Send + 'static) {
        let older = self.machine().event.replace(Box::new(event));
        // The drop of an event may make calls, so it comes after the lock.
        drop(older);
    }

    /// Ends and drops the event of [`MemDisk::before_each_call`].
    pub fn end_event(&self) {
        let event = self.machine().event.take();
        drop(event);
    }

    /// Creates another disk with the same files, all of them durable. It shares nothing with this disk: no
    /// handles, locks, faults, events or limits. This is not an I/O call.
    pub fn fork(&self) -> Self {
        Self {
            machine: Arc::new(Mutex::new(self.machine().fork())),
        }
    }

    /// Limits the bytes of all files together; `None`, the default, is no
    /// limit. An append beyond it writes what fits and fails with
    /// [`io::ErrorKind::StorageFull`].
    pub fn set_capacity_bytes(&self, capacity_bytes: Option<u64>) {
        self.machine().capacity_bytes = capacity_bytes;
    }

    /// Makes the disk hang: no call returns until the result is dropped.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn hang(&self) -> Hang<'_> {
        Hang {
            _machine: self.machine(),
        }
    }

    /// Returns the bytes of all files that have a name or are held open: a removed file takes space until its
    /// last handle drops.
    pub fn used_bytes(&self) -> u64 {
        self.machine().used_bytes()
    }

    /// Flips bit `bit` (0 is the lowest) of a byte of a file, durably.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such file; `UnexpectedEof` if `byte_offset` is not below its
    /// length.
    ///
    /// # Panics
    ///
    /// If `bit` is above 7.
    pub fn flip_bit(&self, path: impl AsRef<Path>, byte_offset: u64, bit: u8) -> io::Result<()> {
        assert!(bit < 8, "a byte has bits 0 to 7");
        let mut machine = self.machine();
        machine.file_at(path.as_ref())?.flip_bit(byte_offset, bit)
    }

    /// Cuts a file to `len` bytes, or fills it with zeros up to there, durably. Unlike
    /// [`FileSystem::truncate`], it is not an I/O call, and needs no power.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such file.
    pub fn cut(&self, path: impl AsRef<Path>, len: u64) -> io::Result<()> {
        let mut machine = self.machine();
        machine.file_at(path.as_ref())?.cut(machine::to_len(len)?);
        Ok(())
    }

    /// Returns the length of a file as running programs see it, in bytes.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such file.
    pub fn file_len(&self, path: impl AsRef<Path>) -> io::Result<u64> {
        let mut machine = self.machine();
        Ok(machine.file_at(path.as_ref())?.bytes().len() as u64)
    }

    /// Returns all bytes of a file as running programs see them.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such file.
    pub fn read_all(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut machine = self.machine();
        Ok(machine.file_at(path.as_ref())?.bytes().to_vec())
    }

    /// Locks the machine, even if the lock is poisoned: a test that panics in another thread must
    /// not hide its message behind a second panic, and no method leaves the machine half changed.
    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the simulated machine for a call of the disk traits. To simulate a slow disk, lets
    /// other threads go first. Then runs the event of [`MemDisk::before_each_call`].
    fn call(&self) -> MutexGuard<'_, Machine> {
        let (turns, event) = {
            let mut machine = self.machine();
            (machine.turns(), machine.event.take())
        };
        for _ in 0..turns {
            thread::yield_now();
        }
        if let Some(mut event) = event {
            // The calls of the event find no event, so it is not run within itself.
            event();
            self.machine().event = Some(event);
        }
        self.machine()
    }
}

impl Default for MemDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemDisk").finish_non_exhaustive()
    }
}

impl FileSystem for MemDisk {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let mut machine = self.call();
        Ok(Arc::new(OpenFile {
            inode: machine.open(path)?,
            boot: machine.boot,
            disk: self.clone(),
        }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let mut machine = self.call();
        Ok(Box::new(OpenFile {
            inode: machine.create(path)?,
            boot: machine.boot,
            disk: self.clone(),
        }))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.call().truncate(path, len)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call().remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.call().list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.call().create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.call().sync_dir(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.call().exists(path)
    }
}

impl LogStore for MemDisk {
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call().rename(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let mut machine = self.call();
        Ok(Box::new(HeldLock {
            path: machine.lock(path)?,
            boot: machine.boot,
            disk: self.clone(),
        }))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let mut machine = self.call();
        Ok(Box::new(HeldLock {
            path: machine.lock_shared(path)?,
            boot: machine.boot,
            disk: self.clone(),
        }))
    }
}

impl TableFiles for MemDisk {
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call().link(from, to)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.call().remove_dir(dir)
    }

    fn free_bytes(&self, _: &Path) -> io::Result<Option<u64>> {
        Ok(self.machine().free_bytes())
    }
}
