//! The rows of the partitions of an output between the end of their tasks and the commit.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_scheduler::runtime::{OutputWriter, SpillGrant, SpillSpace, TaskError, owner_only};
use tempfile::TempDir;

use super::staging::{StagedRows, StagingWriter};

/// The output rows of the partitions whose tasks have ended, in files of one directory. Clones
/// share the rows.
#[derive(Debug, Clone)]
pub(super) struct Partitions {
    directory: PathBuf,
    staged: Arc<Mutex<BTreeMap<u32, StagedRows>>>,
}

impl Partitions {
    /// Creates an empty set of partitions. `directory` is created with the first file.
    pub(super) fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            staged: Arc::default(),
        }
    }

    /// Returns the directory with the files of the partitions.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Opens a writer for one attempt at a partition. `create` makes its file in the directory.
    pub(super) fn open(
        &self,
        partition: u32,
        create: impl FnOnce(&Path) -> io::Result<StagingWriter>,
    ) -> Result<PartitionWriter, TaskError> {
        let staging = owner_only::create_dir_all(&self.directory)
            .and_then(|()| create(&self.directory))
            .map_err(TaskError::io(format!(
                "creating a temporary file in {}",
                self.directory.display()
            )))?;
        Ok(PartitionWriter {
            partitions: self.clone(),
            partition,
            staging,
            grant: Self::grant(),
        })
    }

    /// Returns an empty grant of disk space. A writer enlarges it before it writes, which fails
    /// before the disk would be full.
    pub(super) fn grant() -> SpillGrant {
        SpillSpace::default().grant()
    }

    /// Removes the rows of the finished partitions and returns them, in the order of the partitions.
    /// Dropping the rows frees their files.
    pub(super) fn take(&self) -> Vec<StagedRows> {
        let staged = std::mem::take(&mut *self.lock());
        staged.into_values().collect()
    }

    /// Creates a directory for the sorted files that a commit makes of the rows.
    pub(super) fn temporary_directory(&self) -> Result<TempDir, TaskError> {
        let created = owner_only::temporary_dir_in(&self.directory, "rows-");
        created.map_err(TaskError::io(format!(
            "creating a temporary directory in {}",
            self.directory.display()
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
        self.grant.take(self.partitions.directory(), bytes)?;
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
