//! Space that is held back on the disk of the log and the manifest, so that operations that free
//! space work on a full disk.
//!
//! Truncating or dropping a table, dropping a keyspace, deleting a snapshot, removing segments of
//! the log and installing a flush or a merge each write a little before they free much, and so do
//! batches of [`Db::write_freeing`](crate::Db::write_freeing). The file
//! `RESERVE` takes space for them while there is enough. If one of them finds no space, the file
//! is removed and the operation repeated; a later flush creates the file again. (ZFS calls this
//! slop space, and keeps it in its own accounts; a file works on any file system, and against
//! other programs too.)
//!
//! The file has random bytes, which are written and not only allocated: a file system that
//! compresses, or finds equal blocks, would hold nothing back for zeros. The first flush after an
//! opening, which background threads do at once, reads the file and replaces one with other bytes.

use std::io;
use std::path::{Path, PathBuf};

use super::Engine;
use crate::disk::Disk;
use crate::error::{ErrorKind, Result};
use crate::files;
use crate::manifest::DatabaseId;
use crate::mutation::{self, Mutation};
use crate::sync::Mutex;

/// The least space that is held back, in bytes: enough for new manifests of a few thousand runs,
/// and for many records of the log.
const RESERVE_BYTES_MIN: u64 = 1 << 20;

/// At most 1 / `FREE_FRACTION` of the free space is held back, so that the reserve does not fill
/// the disk.
const FREE_FRACTION: u64 = 16;

/// The number of times that an operation is repeated if it finds no space although the reserve was
/// removed: writers that waited for space may have taken it.
const TRIES_MAX: usize = 4;

/// The file `RESERVE` is written and read in chunks of this size.
const CHUNK_BYTES: usize = RESERVE_BYTES_MIN as usize;

/// The file `RESERVE`, which holds disk space back for operations that give space back.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    /// The seed of the generator of the file's content.
    seed: u64,
    /// The length of the file `RESERVE`, in bytes; `None` until it is known.
    held_bytes: Mutex<Option<u64>>,
}

impl Reserve {
    /// Returns the reserve (a file that holds space back) of a database. The files of two databases
    /// have different bytes, because equal ones would hold nothing back on a file system that
    /// stores equal blocks once.
    pub(super) fn new(dir: &Path, database: DatabaseId) -> Self {
        let (seed, _) = database.0.split_first_chunk::<8>().expect("16 bytes");
        Self {
            path: files::reserve(dir),
            seed: u64::from_le_bytes(*seed),
            held_bytes: Mutex::default(),
        }
    }

    /// Returns the content of the file in chunks. The iterator has no end: the length of the file
    /// decides how many chunks it has.
    fn chunks(&self) -> impl Iterator<Item = Vec<u8>> {
        let mut generator = fastrand::Rng::with_seed(self.seed);
        std::iter::repeat_with(move || {
            let mut chunk = vec![0; CHUNK_BYTES];
            generator.fill(&mut chunk);
            chunk
        })
    }

    /// Returns the length of the file that is on the disk; 0 without one. Removes a file that
    /// cannot be read, or that has other content: a crash cut it, or it is a copy of another
    /// database's.
    fn found_bytes(&self, disk: &dyn Disk) -> u64 {
        self.read(disk).ok().flatten().unwrap_or_else(|| {
            let _ = disk.remove(&self.path);
            0
        })
    }

    /// Reads the file and returns its length; `None` if its content is not that of this reserve.
    fn read(&self, disk: &dyn Disk) -> io::Result<Option<u64>> {
        let file = disk.open_read(&self.path)?;
        let bytes = file.len()?;
        let mut found = vec![0; CHUNK_BYTES];
        let mut at = 0;
        for chunk in self.chunks() {
            let part = CHUNK_BYTES.min(usize::try_from(bytes - at).unwrap_or(CHUNK_BYTES));
            file.read_once_exact_at(&mut found[..part], at)?;
            if found[..part] != chunk[..part] {
                return Ok(None);
            }
            at += part as u64;
            if at == bytes {
                break;
            }
        }
        Ok(Some(bytes))
    }

    /// Writes the file `RESERVE` for manifests of `manifest_bytes` (both copies together) if it is
    /// missing or too short, and it would take at most 1 / [`FREE_FRACTION`] of the free space. The
    /// next flush repeats a failed attempt.
    fn hold(&self, disk: &dyn Disk, dir: &Path, manifest_bytes: u64) {
        let mut held_bytes = self.held_bytes.lock().unwrap();
        let held = *held_bytes.get_or_insert_with(|| self.found_bytes(disk));
        // Space for two new manifests beside the old one, both copies of each.
        let needed = (2 * manifest_bytes).max(RESERVE_BYTES_MIN);
        if held >= needed {
            return;
        }
        let free = disk.free_bytes(dir).ok().flatten();
        let Some(bytes) = free.and_then(|free| reserve_bytes(needed, free)) else {
            return;
        };
        let write = || -> io::Result<()> {
            let mut file = disk.create(&self.path)?;
            let chunks = bytes / CHUNK_BYTES as u64;
            for chunk in self.chunks().take(chunks as usize) {
                file.append(&chunk)?;
            }
            file.sync()
        };
        *held_bytes = match write() {
            Ok(()) => Some(bytes),
            // An unfinished file holds some space back, too.
            Err(_) => None,
        };
    }

    /// Removes the file `RESERVE`. Returns false if there is none, or if it cannot be removed.
    fn give_up(&self, disk: &dyn Disk) -> bool {
        let mut held_bytes = self.held_bytes.lock().unwrap();
        if *held_bytes == Some(0) {
            return false;
        }
        let removed = disk.remove(&self.path).is_ok();
        *held_bytes = Some(0);
        removed
    }
}

/// Returns the length of a reserve that holds `needed` bytes back, in whole chunks; `None` if less than
/// [`FREE_FRACTION`] times that many bytes are `free`. While the manifest grows, each longer reserve
/// is written anew, during a flush. So the length is a power of two, unless there is too little free
/// space for that.
fn reserve_bytes(needed: u64, free: u64) -> Option<u64> {
    let in_chunks = needed.next_multiple_of(CHUNK_BYTES as u64);
    let lengths = [in_chunks.next_power_of_two(), in_chunks];
    lengths
        .into_iter()
        .find(|length| *length <= free / FREE_FRACTION)
}

impl Engine {
    /// Does `work`, which frees space. If `work` finds no space, removes the reserve (the file
    /// `RESERVE`) and repeats `work`. So `work` must be repeatable: when it fails with
    /// [`DiskFull`](crate::Error::DiskFull), it must have changed nothing, or the next call must
    /// continue from the changes that it made.
    pub(super) fn with_reserve<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let found_none = |outcome: &Result<T>| {
            outcome
                .as_ref()
                .is_err_and(|e| e.kind() == ErrorKind::DiskFull)
        };
        let mut outcome = work();
        if !found_none(&outcome)
            || mutation::is(Mutation::KeepReserve)
            || !self.reserve.give_up(self.disk())
        {
            return outcome;
        }
        for _ in 0..TRIES_MAX {
            outcome = work();
            if !found_none(&outcome) {
                break;
            }
        }
        outcome
    }

    /// Sets the low-water mark for the present size of the manifest, and holds space back again if
    /// much space is free.
    pub(super) fn hold_reserve(&self) {
        let manifest_bytes = self.manifest.lock().unwrap().bytes();
        self.low_water.set_manifest_bytes(manifest_bytes);
        self.reserve.hold(self.disk(), &self.dir, manifest_bytes);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::file_system::FileSystem;
    use crate::simulation::MemDisk;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_length_is_a_power_of_two_if_that_fits() {
        for (needed, free, length) in [
            (MIB, 16 * MIB, Some(MIB)),
            (MIB, 16 * MIB - 1, None),
            (4 * MIB + 1, 1 << 30, Some(8 * MIB)),
            (4 * MIB + 1, 100 * MIB, Some(5 * MIB)),
            (4 * MIB + 1, 79 * MIB, None),
        ] {
            assert_eq!(reserve_bytes(needed, free), length, "{needed} of {free}");
        }
    }

    /// Regression: once the manifest had some 500 edits, each flush wrote the file anew.
    #[test]
    fn a_growing_manifest_seldom_needs_another_reserve() {
        let (disk, dir) = (MemDisk::new(), Path::new("/db"));
        disk.create_dir_all(dir).unwrap();
        disk.set_capacity_bytes(Some(1 << 30));
        let reserve = Reserve::new(dir, DatabaseId([7; 16]));
        let mut lengths = Vec::new();
        for manifest_bytes in (0..4 * MIB).step_by(10_000) {
            let calls = disk.io_calls();
            reserve.hold(&disk, dir, manifest_bytes);
            let length = disk.file_len(&reserve.path).unwrap();
            assert_eq!(*reserve.held_bytes.lock().unwrap(), Some(length));
            assert!(length >= 2 * manifest_bytes);
            if disk.io_calls() > calls {
                lengths.push(length);
            }
        }
        assert_eq!(lengths, [MIB, 2 * MIB, 4 * MIB, 8 * MIB]);
    }
}
