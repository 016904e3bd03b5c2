//! The output of a job into files: a single file, a folder of parts, or the terminal.

mod part;
mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ebb_scheduler::runtime::{Output, OutputWriter, SpillGrant, SpillSpace, TaskError};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempPath;

use self::part::{OpenPart, Part};
pub use self::target::FilesTarget;
use self::target::SUCCESS;
use super::rows::RowWriter;
use super::scratch::ScratchDir;
use super::spill_place::SpillPlace;
use crate::history::{CommitRecord, OutputMark, WrittenFile};

/// The most bytes that the commit copies before it takes disk space for more.
const COPY_BYTES: u64 = 1 << 20;

/// The output of a job into files that appear once the job has succeeded. A target that already
/// exists is an error, at submission and in the commit.
///
/// Until the commit, the parts are in a scratch folder beside the target. The commit syncs them and
/// gives the file or folder its name in one step. Right before that step, the commit records the
/// identity of the file, or of `_SUCCESS` in the folder. A restart of the job recognizes the output
/// by that identity. A process that is killed leaves a hidden folder `.ebb-job-*`, which the next job
/// that writes there removes.
#[derive(Debug)]
pub struct FilesOutput {
    target: FilesTarget,
    /// The folder in which the target lies and the scratch folder is made.
    parent: PathBuf,
    /// The disk space that the parts, and then the file, may take.
    space: SpillSpace,
    rows: RowWriter,
    commits: CommitRecord,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    scratch: Option<Arc<ScratchDir>>,
    /// For each partition, the file with its rows, from the last attempt that finished.
    parts: BTreeMap<u32, Part>,
}

fn with<T>(shared: &Mutex<Shared>, f: impl FnOnce(&mut Shared) -> T) -> T {
    f(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}

impl FilesOutput {
    /// Creates an output that formats rows with `rows`. Until the commit, rows for the terminal are
    /// in `place`; rows for a file or folder are beside the target. All of them take their disk
    /// space from `place`.
    pub fn new(target: FilesTarget, rows: RowWriter, place: impl Into<SpillPlace>) -> Self {
        let place = place.into();
        let parent = target.parent().unwrap_or(place.directory()).to_path_buf();
        Self {
            target,
            parent,
            space: place.space().clone(),
            rows,
            commits: CommitRecord::default(),
            shared: Arc::default(),
        }
    }

    /// Sets the record of the job, which each commit updates before it puts the output in place.
    #[must_use]
    pub fn recorded_by(self, commits: CommitRecord) -> Self {
        Self { commits, ..self }
    }

    fn scratch(&self) -> Result<Arc<ScratchDir>, TaskError> {
        with(&self.shared, |shared| {
            if let Some(scratch) = &shared.scratch {
                return Ok(Arc::clone(scratch));
            }
            let made = match self.target {
                FilesTarget::Terminal => ScratchDir::create_with_parent(&self.parent),
                _ => ScratchDir::create_in(&self.parent),
            };
            let scratch = Arc::new(made.map_err(TaskError::io(format!(
                "creating a folder for unfinished files in {}",
                self.parent.display()
            )))?);
            shared.scratch = Some(Arc::clone(&scratch));
            Ok(scratch)
        })
    }

    /// Returns an empty grant of disk space, whose errors name the target.
    fn grant(&self) -> SpillGrant {
        let grant = self.space.grant();
        match self.target.path() {
            Some(path) => grant.naming(path),
            None => grant,
        }
    }

    /// Creates the file for one attempt at a partition of the output. Each file of a folder begins
    /// with the header. If the partitions are joined into one file, only the file of the first
    /// partition does.
    fn part(&self, partition: u32, attempt: u32) -> Result<OpenPart, TaskError> {
        let place = (self.scratch()?, self.grant());
        let mut part = OpenPart::create(&self.target, (partition, attempt), place)?;
        if partition == 0 || matches!(self.target, FilesTarget::Folder(_)) {
            part.write(&self.rows.header())?;
        }
        Ok(part)
    }

    fn commit_file(&self, target: &Path, parts: BTreeMap<u32, Part>) -> Result<(), TaskError> {
        let (whole, written) = self.joined(target, parts)?;
        self.commits.begin(Some(OutputMark::File(written)))?;
        let rename = || whole.persist_noclobber(target).map_err(|e| e.error);
        self.place(rename, || fs::remove_file(target))
            .map_err(|error| writing(target, error))
    }

    /// Appends the rows of the other partitions to the file of the first one, syncs this file and
    /// closes it. Returns its path and its identity.
    fn joined(
        &self,
        target: &Path,
        parts: BTreeMap<u32, Part>,
    ) -> Result<(TempPath, WrittenFile), TaskError> {
        let failed = |error| writing(target, error);
        let mut parts = parts.into_values();
        let Some(whole) = parts.next() else {
            return Err(failed(io::Error::other("no partition was written")));
        };
        // The position is set by a seek, because in append mode the system call that copies between
        // files fails.
        let to = OpenOptions::new().write(true).open(&whole.file);
        let mut to = to.map_err(failed)?;
        to.seek(SeekFrom::End(0)).map_err(failed)?;
        let mut grant = self.grant();
        for part in parts {
            let from = File::open(&part.file).map_err(failed)?;
            let mut left_bytes = from.metadata().map_err(failed)?.len();
            while left_bytes > 0 {
                let bytes = left_bytes.min(COPY_BYTES);
                grant.take(whole.scratch.path(), bytes)?;
                io::copy(&mut Read::take(&from, bytes), &mut to).map_err(failed)?;
                left_bytes -= bytes;
            }
        }
        to.sync_all().map_err(failed)?;
        // Closed before its identity is read: a network file system may set the time of the last
        // modification again when the file is closed.
        drop(to);
        let metadata = fs::metadata(&whole.file).map_err(failed)?;
        Ok((whole.file, WrittenFile::of(&metadata)))
    }

    fn commit_folder(&self, target: &Path, parts: BTreeMap<u32, Part>) -> Result<(), TaskError> {
        let failed = |error| writing(target, error);
        let (folder, written) = self.gathered(parts).map_err(failed)?;
        self.commits.begin(Some(OutputMark::File(written)))?;
        let rename = || rename_new(&folder, target);
        self.place(rename, || fs::remove_dir_all(target))
            .map_err(failed)
    }

    /// Moves the parts, which are synced, into a new folder in the scratch folder, and syncs it.
    /// Returns the folder and the identity of the file that marks it as complete.
    fn gathered(&self, parts: BTreeMap<u32, Part>) -> io::Result<(PathBuf, WrittenFile)> {
        let scratch = with(&self.shared, |shared| shared.scratch.clone());
        let scratch = scratch.ok_or_else(|| io::Error::other("no partition was written"))?;
        let folder = scratch.path().join("result");
        fs::create_dir(&folder)?;
        for (partition, part) in parts {
            let name = format!("part-{partition:05}.{}", self.rows.format().extension());
            part.file.persist(folder.join(name)).map_err(|e| e.error)?;
        }
        let success = folder.join(SUCCESS);
        File::create_new(&success)?.sync_all()?;
        File::open(&folder)?.sync_all()?;
        let written = WrittenFile::of(&fs::metadata(success)?);
        Ok((folder, written))
    }

    /// Gives the output its name by `rename`, and syncs the folder in which it lies. If the sync fails, calls
    /// `remove`: a commit that fails must leave nothing.
    fn place(
        &self,
        rename: impl FnOnce() -> io::Result<()>,
        remove: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        // Opened first, so that only the sync can fail once the result has its name.
        let parent = File::open(&self.parent)?;
        rename()?;
        parent.sync_all().inspect_err(|_| {
            let _ = remove();
        })
    }
}

/// Returns the error that the output could not be written to `target`.
fn writing(target: &Path, error: io::Error) -> TaskError {
    TaskError::io(format!("writing {}", target.display()))(error)
}

/// Renames `from` to `to`; an error if `to` exists.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems lack this rename. There, a rename of a folder never replaces a
        // folder with content.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            if to.try_exists()? {
                Err(io::ErrorKind::AlreadyExists.into())
            } else {
                fs::rename(from, to)
            }
        }
        renamed => Ok(renamed?),
    }
}

fn print(parts: BTreeMap<u32, Part>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let print = || {
        for part in parts.into_values() {
            io::copy(&mut File::open(&part.file)?, &mut stdout)?;
        }
        stdout.flush()
    };
    match print() {
        // The reader has closed its end, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

impl Output for FilesOutput {
    fn check(&self) -> Result<(), TaskError> {
        if self.target == FilesTarget::Terminal {
            return Ok(());
        }
        self.target.check()?;
        // A place that cannot be written to is an error now, and not after the maps.
        self.scratch().map(drop)
    }

    fn open(&self, partition: u32, attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        Ok(Box::new(PartWriter {
            part: self.part(partition, attempt)?,
            rows: self.rows.clone(),
            partition,
            shared: Arc::clone(&self.shared),
        }))
    }

    fn commit(&self) -> Result<(), TaskError> {
        let mut parts = with(&self.shared, |shared| std::mem::take(&mut shared.parts));
        // The result of a job without partitions has no rows.
        if let Entry::Vacant(missing) = parts.entry(0) {
            missing.insert(self.part(0, 0)?.finish()?);
        }
        let committed = match &self.target {
            FilesTarget::File(path) => self.commit_file(path, parts),
            FilesTarget::Folder(path) => self.commit_folder(path, parts),
            FilesTarget::Terminal => (self.commits.begin(None))
                .and_then(|()| print(parts).map_err(TaskError::io("writing to stdout"))),
        };
        with(&self.shared, |shared| shared.scratch = None);
        committed
    }

    fn abort(&self) {
        with(&self.shared, |shared| *shared = Shared::default());
    }
}

struct PartWriter {
    part: OpenPart,
    rows: RowWriter,
    partition: u32,
    shared: Arc<Mutex<Shared>>,
}

impl OutputWriter for PartWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        self.part.write(self.rows.line(key, value)?)
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        let part = self.part.finish()?;
        with(&self.shared, |shared| {
            shared.parts.insert(self.partition, part)
        });
        Ok(())
    }
}
