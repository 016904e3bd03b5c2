//! The record of the checks of SSTables, the file `CHECKS`: when each file was last read and found
//! whole. So a restart does not begin with the first file again.
//!
//! The record is no part of the database. If it is lost or damaged, or has the form of another version
//! of ebb, the checks begin anew.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::files;
use crate::sstable::FileId;

/// The largest record that is read, in bytes: the record of a million SSTables is smaller.
const BYTES_MAX: usize = 64 << 20;

/// The times of the last checks of SSTables, in milliseconds since the Unix epoch. The key of a
/// file is its random id. The number of the file would not do: in a copy of the database, another
/// file may have the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckRecord {
    /// The time at which the files of the database were last listed. A file that is not in `files`
    /// was written after this time, or before this record was created.
    looked_ms: u64,
    /// The time of the last check of any file; before the first check, the creation of this record.
    checked_ms: u64,
    /// For each file the time of its last check. For a file that was not checked yet, a time before
    /// it was written, or the creation of this record if the file is older: the age of the file is
    /// counted from this time.
    files: HashMap<FileId, u64>,
}

/// An SSTable that can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: FileId,
    pub(super) bytes: u64,
}

impl CheckRecord {
    /// Returns a record without checks of SSTables. The age of existing files is not known, and is
    /// counted from `now_ms`.
    pub(super) fn new(now_ms: u64) -> Self {
        Self {
            looked_ms: now_ms,
            checked_ms: now_ms,
            files: HashMap::new(),
        }
    }

    /// Returns, in milliseconds since the Unix epoch, the time of the last check of a file. If the
    /// file was not checked yet, returns the time from which its age is counted: a time before it
    /// was written, or the creation of this record if the file is older.
    pub(super) fn since_ms(&self, file: FileId) -> u64 {
        self.files.get(&file).copied().unwrap_or(self.looked_ms)
    }

    /// Notes the files that exist now, and forgets all others. Times of checks that lie in the
    /// future become `now_ms`, because a clock may have been set back.
    pub(super) fn note_files(&mut self, files: impl IntoIterator<Item = FileId>, now_ms: u64) {
        let times = files
            .into_iter()
            .map(|id| (id, self.since_ms(id).min(now_ms)));
        self.files = times.collect();
        self.looked_ms = now_ms;
        self.checked_ms = self.checked_ms.min(now_ms);
    }

    /// Notes that a check found an SSTable whole.
    pub(super) fn note_check(&mut self, file: FileId, now_ms: u64) {
        self.files.insert(file, now_ms);
        self.checked_ms = now_ms;
    }

    /// Returns the file to be checked next, and the time from which on it may be checked, in
    /// milliseconds since the Unix epoch; `None` if there are no files. Each file is checked once
    /// in `every_ms`, and the checks are spread over that time: the pause after a check is to
    /// `every_ms` as the bytes of the next file are to those of all files. There is no pause before
    /// the check of a file that is overdue (not checked for `every_ms` or longer), as after the
    /// server was down.
    pub(super) fn next(&self, files: &[Candidate], every_ms: u64) -> Option<(Candidate, u64)> {
        let next = files.iter().min_by_key(|file| self.since_ms(file.id))?;
        let all_bytes: u128 = files.iter().map(|file| u128::from(file.bytes)).sum();
        let part_ms = u128::from(every_ms) * u128::from(next.bytes) / all_bytes.max(1);
        let paced_ms = self.checked_ms.saturating_add(part_ms as u64);
        let latest_ms = self.since_ms(next.id).saturating_add(every_ms);
        Some((*next, paced_ms.min(latest_ms)))
    }

    /// Reads the record of the checks of SSTables (the file `CHECKS`) of the database in `dir`.
    /// `None` if there is none, or if it is too large, damaged, or of another version of ebb.
    ///
    /// # Errors
    /// The error of the disk; a missing file is no error.
    pub(super) fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Self>> {
        let file = match disk.open_read(&files::checks(dir)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
        if len > BYTES_MAX {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(serde_json::from_slice(&bytes).ok())
    }

    /// Replaces the record of the checks of SSTables of the database in `dir`, whole or not at all.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`].
    pub(super) fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let (new, path) = (files::checks_tmp(dir), files::checks(dir));
        let bytes = serde_json::to_vec(self).expect("a record is plain data");
        let write = || -> io::Result<()> {
            let mut file = disk.create(&new)?;
            file.append(&bytes)?;
            file.sync()?;
            disk.rename(&new, &path)?;
            disk.sync_dir(dir)
        };
        write().map_err(|error| {
            // On a full disk other files need the space.
            let _ = disk.remove(&new);
            Error::no_space_or_io("write", &path)(error)
        })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::file_system::FileSystem;
    use crate::simulation::MemDisk;

    const DAY_MS: u64 = 86_400_000;

    fn candidates(sizes: &[u64]) -> Vec<Candidate> {
        let candidate = |&bytes| {
            let id = FileId::random();
            Candidate { id, bytes }
        };
        sizes.iter().map(candidate).collect()
    }

    fn ids(files: &[Candidate]) -> impl Iterator<Item = FileId> {
        files.iter().map(|file| file.id)
    }

    #[test]
    fn a_file_counts_from_its_last_check_and_a_new_one_from_the_look_before_it_was_there() {
        let files = candidates(&[1, 1, 1]);
        let mut record = CheckRecord::new(10);
        record.note_files(ids(&files[..2]), 20);
        record.note_check(files[0].id, 30);
        record.note_files(ids(&files), 40);
        let since = |record: &CheckRecord| -> Vec<_> {
            ids(&files).map(|id| record.since_ms(id)).collect()
        };
        assert_eq!(since(&record), [30, 10, 20]);
        // The second file is gone, and its id is new when it is met again.
        record.note_files([files[0].id, files[2].id], 50);
        record.note_files(ids(&files), 60);
        assert_eq!(since(&record), [30, 50, 20]);
        // The clock was set back.
        record.note_files(ids(&files), 25);
        assert_eq!(since(&record), [25, 25, 20]);
    }

    /// Checks one file after the other as [`CheckRecord::next`] returns them. Returns each checked
    /// file with the day of its check.
    fn checks(record: &mut CheckRecord, files: &[Candidate], every_days: u64) -> Vec<(usize, u64)> {
        let mut checks = Vec::new();
        for _ in 0..files.len() + 2 {
            let (next, due_ms) = record.next(files, every_days * DAY_MS).unwrap();
            let file = files.iter().position(|file| *file == next).unwrap();
            checks.push((file, due_ms / DAY_MS));
            record.note_check(next.id, due_ms);
        }
        checks
    }

    #[test]
    fn the_checks_are_spread_over_the_time_by_the_sizes_of_the_files() {
        let files = candidates(&[10, 40, 10]);
        let mut record = CheckRecord::new(0);
        record.note_files(ids(&files), 0);
        // The order of the files must not depend on their random ids.
        for (file, ms) in files.iter().zip(0..) {
            record.files.insert(file.id, ms);
        }
        let found = checks(&mut record, &files, 30);
        assert_eq!(found, [(0, 5), (1, 25), (2, 30), (0, 35), (1, 55)]);
        assert_eq!(record.next(&[], DAY_MS), None);
        let empty = candidates(&[0]);
        let next = CheckRecord::new(7).next(&empty, DAY_MS);
        assert_eq!(next, Some((empty[0], 7)));
    }

    #[test]
    fn a_late_file_is_checked_without_a_pause() {
        let files = candidates(&[10, 10]);
        let mut record = CheckRecord::new(0);
        record.note_files(ids(&files), 0);
        record.note_check(files[0].id, DAY_MS);
        // 40 days later.
        let (next, due_ms) = record.next(&files, 30 * DAY_MS).unwrap();
        assert_eq!((next, due_ms / DAY_MS), (files[1], 16));
        record.note_check(files[1].id, 41 * DAY_MS);
        let (next, due_ms) = record.next(&files, 30 * DAY_MS).unwrap();
        assert_eq!((next, due_ms / DAY_MS), (files[0], 31));
    }

    #[test]
    fn a_record_is_read_again_and_a_damaged_one_is_none() {
        let (disk, dir) = (MemDisk::new(), Path::new("/db"));
        disk.create_dir_all(dir).unwrap();
        let read = || CheckRecord::read(&disk, dir).unwrap();
        assert_eq!(read(), None);
        let files = candidates(&[1, 1]);
        let mut record = CheckRecord::new(7);
        for now_ms in [8, 9] {
            record.note_files(ids(&files), now_ms);
            record.note_check(files[0].id, now_ms);
            record.write(&disk, dir).unwrap();
            assert_eq!(read(), Some(record.clone()));
        }
        let path = files::checks(dir);
        for len in 0..disk.file_len(&path).unwrap() {
            let fork = disk.fork();
            fork.cut(&path, len).unwrap();
            assert_eq!(CheckRecord::read(&fork, dir).unwrap(), None, "{len}");
        }
        disk.set_capacity_bytes(Some(disk.used_bytes()));
        let full = record.write(&disk, dir);
        assert!(matches!(full, Err(Error::DiskFull { .. })), "{full:?}");
        assert!(!disk.exists(&files::checks_tmp(dir)).unwrap());
        assert_eq!(read(), Some(record));
    }
}
