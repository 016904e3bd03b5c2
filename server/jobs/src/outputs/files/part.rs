//! The rows of one partition, in a file of the scratch folder until the commit.

use std::fs::Permissions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use ebb_scheduler::runtime::{SpillGrant, TaskError};
use tempfile::{NamedTempFile, TempPath};

use super::FilesTarget;
use crate::outputs::scratch::ScratchDir;

/// A part that is being written. The file is declared first, so that it is dropped before the handle
/// of the scratch folder.
pub(super) struct OpenPart {
    file: BufWriter<NamedTempFile>,
    scratch: Arc<ScratchDir>,
    grant: SpillGrant,
    /// True if the commit puts the file itself in place, and does not only copy the rows.
    is_kept: bool,
}

impl OpenPart {
    /// Creates the file for one attempt at a partition of the output `target`. The file lies in the scratch folder,
    /// and takes its disk space from the grant.
    pub(super) fn create(
        target: &FilesTarget,
        (partition, attempt): (u32, u32),
        (scratch, grant): (Arc<ScratchDir>, SpillGrant),
    ) -> Result<Self, TaskError> {
        let (mode, is_kept) = match target {
            // The umask of the process decides who may open a file with a name that the
            // user chose.
            FilesTarget::File(_) => (0o666, partition == 0),
            FilesTarget::Folder(_) => (0o666, true),
            FilesTarget::Terminal => (0o600, false),
        };
        let made = tempfile::Builder::new()
            .prefix(&format!("part-{partition:05}-{attempt}-"))
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(scratch.path());
        let file = made.map_err(TaskError::io(format!(
            "creating a file in {}",
            scratch.path().display()
        )))?;
        Ok(Self {
            file: BufWriter::with_capacity(64 << 10, file),
            scratch,
            grant,
            is_kept,
        })
    }

    /// Appends `bytes`.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), TaskError> {
        // Before the bytes are written: a job must not fill up the disk.
        self.grant.take(self.scratch.path(), bytes.len() as u64)?;
        let written = self.file.write_all(bytes);
        written.map_err(TaskError::io("writing rows"))
    }

    /// Closes the file. A file that the commit puts in place is synced before: on a network file
    /// system, a later sync does not report the errors of writes that the close has waited for.
    pub(super) fn finish(self) -> Result<Part, TaskError> {
        let file = self.file.into_inner();
        let file = file.map_err(|e| TaskError::io("writing rows")(e.into_error()))?;
        if self.is_kept {
            let synced = file.as_file().sync_all();
            synced.map_err(TaskError::io("writing rows"))?;
        }
        Ok(Part {
            file: file.into_temp_path(),
            scratch: self.scratch,
        })
    }
}

/// A file in the scratch folder, and a handle that keeps the folder from being removed. The file is
/// declared first, so that it is removed before the handle is dropped. The file is closed: a job
/// may have more parts than the process may have open files.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) file: TempPath,
    pub(super) scratch: Arc<ScratchDir>,
}
