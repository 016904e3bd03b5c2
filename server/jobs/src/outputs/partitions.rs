//! The rows of the partitions of an output between the end of their tasks and the commit.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_scheduler::runtime::{OutputWriter, SpillGrant, TaskError, owner_only};
use tempfile::TempDir;

use super::spill_place::SpillPlace;
use super::staging::{StagedRows, StagingWriter};

/// The output rows of the partitions whose tasks have ended, in files of one directory. The files
/// are closed: there may be more than the process may have open. Clones share the rows.
#[derive(Debug, Clone)]
pub(super) struct Partitions {
    place: SpillPlace,
    staged: Arc<Mutex<BTreeMap<u32, StagedRows>>>,
}

impl Partitions {
    /// Creates an empty set of partitions, whose files will be in `place`.
    pub(super) fn new(place: impl Into<SpillPlace>) -> Self {
        Self {
            place: place.into(),
            staged: Arc::default(),
        }
    }

    /// Returns the place of the files of the partitions.
    pub(super) fn place(&self) -> &SpillPlace {
        &self.place
    }

    /// Opens a writer for one attempt at a partition. `create` makes its file in the directory.
    pub(super) fn open(
        &self,
        partition: u32,
        create: impl FnOnce(&Path) -> io::Result<StagingWriter>,
    ) -> Result<PartitionWriter, TaskError> {
        let directory = self.place.directory();
        let staging = owner_only::create_dir_all(directory)
            .and_then(|()| create(directory))
            .map_err(TaskError::io(format!(
                "creating a temporary file in {}",
                directory.display()
            )))?;
        Ok(PartitionWriter {
            partitions: self.clone(),
            partition,
            staging,
            grant: self.place.grant(),
        })
    }

    /// Removes the rows of the finished partitions and returns them, in the order of the partitions.
    /// Dropping the rows frees their files.
    pub(super) fn take(&self) -> Vec<StagedRows> {
        let staged = std::mem::take(&mut *self.lock());
        staged.into_values().collect()
    }

    /// Creates a directory for the sorted files that a commit makes of the rows.
    pub(super) fn temporary_directory(&self) -> Result<TempDir, TaskError> {
        let directory = self.place.directory();
        let created = owner_only::temporary_dir_in(directory, "rows-");
        created.map_err(TaskError::io(format!(
            "creating a temporary directory in {}",
            directory.display()
        )))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, StagedRows>> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer of one attempt at a partition. If several attempts finish, the rows of the last one
/// are used.
#[derive(Debug)]
pub(super) struct PartitionWriter {
    partitions: Partitions,
    partition: u32,
    staging: StagingWriter,
    grant: SpillGrant,
}

impl OutputWriter for PartitionWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        let bytes = (key.len() + value.len()) as u64;
        self.grant.take(self.partitions.place.directory(), bytes)?;
        let written = self.staging.push(key, value);
        written.map_err(TaskError::io("writing a row to a temporary file"))
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        let rows = self.staging.finish();
        let rows = rows.map_err(TaskError::io("writing rows to a temporary file"))?;
        self.partitions.lock().insert(self.partition, rows);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::open_files_in;

    /// Regression: the file of each finished partition stayed open until the commit, so a job with
    /// thousands of tasks took all descriptors of its process.
    #[test]
    fn files_of_finished_partitions_are_closed_and_removed_with_their_rows() {
        let dir = tempfile::tempdir().unwrap();
        let partitions = Partitions::new(dir.path());
        for partition in 0..10 {
            let create = |directory: &Path| StagingWriter::create(directory, 100);
            let mut writer = partitions.open(partition, create).unwrap();
            writer.write(b"key", b"value").unwrap();
            assert_eq!(open_files_in(dir.path()), 1);
            Box::new(writer).finish().unwrap();
        }
        assert_eq!(open_files_in(dir.path()), 0);
        let files = || std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(files(), 10);
        drop(partitions.take());
        assert_eq!(files(), 0);
    }
}
