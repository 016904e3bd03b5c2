//! The SSTables that running backups keep, also those that no table has any more.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use super::Engine;
use crate::key::FileNumber;
use crate::sync::Mutex;

/// The SSTables that a backup keeps until it ends, with their bytes.
pub(crate) type KeptFiles = Vec<(FileNumber, u64)>;

/// The SSTables that each running backup keeps. The backup owns its list, so an ended backup no
/// longer counts, however it ended.
#[derive(Debug, Default)]
pub(crate) struct BackupFiles(Mutex<Vec<Weak<KeptFiles>>>);

impl BackupFiles {
    /// Adds the SSTables of a backup. They count as long as the returned list exists.
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
    /// Returns the bytes of the SSTables that running backups keep and no table has any more. A
    /// file that several backups keep counts once. Takes no time without a backup.
    pub(super) fn backup_held_bytes(&self) -> u64 {
        let backups = self.backup_files.running();
        if backups.is_empty() {
            return 0;
        }
        let mut current = HashSet::new();
        for table in self.tables() {
            let version = table.version();
            current.extend(version.all_runs().flat_map(|run| run.meta().numbers()));
        }
        let kept = backups.iter().flat_map(|files| files.iter().copied());
        let replaced = kept.filter(|(number, _)| !current.contains(number));
        let replaced: HashMap<FileNumber, u64> = replaced.collect();
        replaced.into_values().sum()
    }
}
