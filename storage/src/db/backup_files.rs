//! The files that running backups and verifications keep, also those that the database does not need
//! any more.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use super::Engine;
use crate::key::FileNumber;
use crate::sync::Mutex;

/// The files that a backup or a verification keeps until it ends, with their bytes.
#[derive(Debug)]
pub(crate) struct KeptFiles {
    pub(crate) sstables: Vec<(FileNumber, u64)>,
    /// The segments of the log.
    pub(crate) segments: Vec<(FileNumber, u64)>,
}

/// The files that each running backup and verification keeps. Each of them owns its list, so one that has
/// ended no longer counts, however it ended.
#[derive(Debug, Default)]
pub(crate) struct BackupFiles(Mutex<Vec<Weak<KeptFiles>>>);

impl BackupFiles {
    /// Adds the files of a backup or a verification. They count as long as the returned list exists.
    pub(crate) fn add(&self, files: KeptFiles) -> Arc<KeptFiles> {
        let files = Arc::new(files);
        let mut all = self.0.lock().unwrap();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&files));
        files
    }

    fn running(&self) -> Vec<Arc<KeptFiles>> {
        let all = self.0.lock().unwrap();
        all.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Engine {
    /// Returns the bytes of the files that running backups and verifications keep and the database does
    /// not need any more: SSTables that no table has, and segments of the log that were removed. A file
    /// that several of them keep counts once. Takes no time if none runs.
    pub(super) fn backup_held_bytes(&self) -> u64 {
        let running = self.backup_files.running();
        if running.is_empty() {
            return 0;
        }
        let mut current = HashSet::new();
        for table in self.tables() {
            let version = table.version();
            current.extend(version.all_runs().flat_map(|run| run.meta().numbers()));
        }
        let kept = running.iter().flat_map(|files| &files.sstables);
        let replaced = kept.filter(|(number, _)| !current.contains(number));
        let oldest = self.wal.oldest_segment();
        let kept = running.iter().flat_map(|files| &files.segments);
        let removed = kept.filter(|(number, _)| *number < oldest);
        sum_once(replaced) + sum_once(removed)
    }
}

/// Returns the bytes of the files, each counted once.
fn sum_once<'a>(files: impl Iterator<Item = &'a (FileNumber, u64)>) -> u64 {
    let files: HashMap<FileNumber, u64> = files.copied().collect();
    files.into_values().sum()
}
