//! The output of a job into files: a single file, a folder of parts, or the terminal.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ebb_scheduler::runtime::{Output, OutputWriter, SpillGrant, SpillSpace, TaskError};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::{NamedTempFile, TempPath};

use super::rows::RowWriter;
use super::scratch::ScratchDir;
use super::spill_place::SpillPlace;
use crate::history::{CommitRecord, OutputMark, WrittenFile};

/// The empty file that marks a folder of parts as complete, as in Hadoop.
const SUCCESS: &str = "_SUCCESS";

/// The most bytes that the commit copies before it takes disk space for more.
const COPY_BYTES: u64 = 1 << 20;

/// The destination of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilesTarget {
    /// One file, which has the rows of all partitions in their order.
    File(PathBuf),
    /// A folder with a file per partition, `part-00000.csv`, and `_SUCCESS`.
    Folder(PathBuf),
    /// Standard output; the rows of the partitions come in their order.
    Terminal,
}

impl FilesTarget {
    /// Returns whether something with the name of the target exists. A dangling link counts as
    /// existing, because a file cannot be made there; the terminal never exists.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn exists(&self) -> io::Result<bool> {
        match self {
            Self::Terminal => Ok(false),
            Self::File(path) | Self::Folder(path) => Ok(found(path)?.is_some()),
        }
    }

    /// Returns the folder in which the file or folder is made; `None` for the terminal.
    pub(crate) fn parent(&self) -> Option<&Path> {
        match self {
            Self::Terminal => None,
            Self::File(path) | Self::Folder(path) => Some(parent_of(path)),
        }
    }

    /// Returns the identity of the file, or of the file that marks the folder as complete. The job
    /// that made the file or folder recorded this identity before. `None` if there is no such file,
    /// and for the terminal.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn written(&self) -> io::Result<Option<WrittenFile>> {
        let found = match self {
            Self::Terminal => None,
            Self::File(path) => found(path)?,
            Self::Folder(path) => found(&path.join(SUCCESS))?,
        };
        Ok(found.as_ref().map(WrittenFile::of))
    }

    /// Checks that the file or folder can be made: nothing has its name, and its parent folder
    /// exists. Makes nothing.
    ///
    /// # Errors
    /// When the file or folder cannot be made. The error names the path and, if one is known, a
    /// remedy.
    pub fn check(&self) -> Result<(), TaskError> {
        let (Self::File(target) | Self::Folder(target)) = self else {
            return Ok(());
        };
        let name = target.display();
        let exists = self.exists();
        if exists.map_err(TaskError::io(format!("looking for {name}")))? {
            let advice = match self {
                Self::File(_) if target.is_dir() => {
                    format!("and is a folder; write {name}/FILE for a file in it")
                }
                _ if is_special(target) => {
                    "and is no file, but a device or a pipe; write - for the terminal".to_string()
                }
                _ => "already; remove it or choose another name".to_string(),
            };
            return Err(TaskError::failed(format!("{name} exists {advice}")));
        }
        let parent = parent_of(target);
        let around = parent.display();
        match fs::metadata(parent) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(TaskError::failed(format!(
                "{around} is not a directory; choose another place for {name}"
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(TaskError::failed(
                format!("no such folder: {around}; make it first (mkdir -p {around})"),
            )),
            Err(error) => Err(TaskError::io(format!("looking for {around}"))(error)),
        }
    }
}

/// Returns the metadata of the file, the folder or the link of this name; `None` if there is none.
fn found(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

/// Returns true for a device, a pipe or a socket, and for a link to one.
fn is_special(target: &Path) -> bool {
    fs::metadata(target).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Returns the folder that contains `target`.
fn parent_of(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

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

/// A file in the scratch folder, and a handle that keeps the folder from being removed. The file is
/// declared first, so that it is removed before the handle is dropped. The file is closed: a job
/// may have more parts than the process may have open files.
#[derive(Debug)]
struct Part {
    file: TempPath,
    scratch: Arc<ScratchDir>,
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
        match &self.target {
            FilesTarget::File(path) | FilesTarget::Folder(path) => grant.naming(path),
            FilesTarget::Terminal => grant,
        }
    }

    /// Creates the file for one attempt at a partition of the output. Each file of a folder begins
    /// with the header. If the partitions are joined into one file, only the file of the first
    /// partition does.
    fn part(&self, partition: u32, attempt: u32) -> Result<OpenPart, TaskError> {
        let scratch = self.scratch()?;
        let mode = match self.target {
            FilesTarget::Terminal => 0o600,
            // The umask of the process decides who may open a file with a name that the
            // user chose.
            _ => 0o666,
        };
        let made = tempfile::Builder::new()
            .prefix(&format!("part-{partition:05}-{attempt}-"))
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(scratch.path());
        let file = made.map_err(TaskError::io(format!(
            "creating a file in {}",
            scratch.path().display()
        )))?;
        let mut part = OpenPart {
            file: BufWriter::with_capacity(64 << 10, file),
            scratch,
            grant: self.grant(),
            is_kept: match self.target {
                FilesTarget::File(_) => partition == 0,
                FilesTarget::Folder(_) => true,
                FilesTarget::Terminal => false,
            },
        };
        if partition == 0 || matches!(self.target, FilesTarget::Folder(_)) {
            part.write(&self.rows.header())?;
        }
        Ok(part)
    }

    fn commit_file(&self, target: &Path, parts: BTreeMap<u32, Part>) -> Result<(), TaskError> {
        let (whole, written) = self.joined(target, parts)?;
        self.commits.begin(Some(OutputMark::File(written)))?;
        self.place_file(target, whole)
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

    fn place_file(&self, target: &Path, whole: TempPath) -> io::Result<()> {
        // Opened first, so that only the sync can fail once the result has its name.
        let parent = File::open(&self.parent)?;
        whole.persist_noclobber(target).map_err(|e| e.error)?;
        parent.sync_all().inspect_err(|_| {
            // A commit that fails must leave nothing.
            let _ = fs::remove_file(target);
        })
    }

    fn commit_folder(&self, target: &Path, parts: BTreeMap<u32, Part>) -> Result<(), TaskError> {
        let failed = |error| writing(target, error);
        let (folder, written) = self.gathered(parts).map_err(failed)?;
        self.commits.begin(Some(OutputMark::File(written)))?;
        self.place_folder(target, &folder).map_err(failed)
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

    fn place_folder(&self, target: &Path, folder: &Path) -> io::Result<()> {
        let parent = File::open(&self.parent)?;
        rename_new(folder, target)?;
        parent.sync_all().inspect_err(|_| {
            let _ = fs::remove_dir_all(target);
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

/// A part that is being written. The file is declared first, so that it is dropped before the handle
/// of the scratch folder.
struct OpenPart {
    file: BufWriter<NamedTempFile>,
    scratch: Arc<ScratchDir>,
    grant: SpillGrant,
    /// True if the commit puts the file itself in place, and does not only copy the rows.
    is_kept: bool,
}

impl OpenPart {
    /// Appends `bytes`.
    fn write(&mut self, bytes: &[u8]) -> Result<(), TaskError> {
        // Before the bytes are written: a job must not fill up the disk.
        self.grant.take(self.scratch.path(), bytes.len() as u64)?;
        let written = self.file.write_all(bytes);
        written.map_err(TaskError::io("writing rows"))
    }

    /// Closes the file. A file that the commit puts in place is synced before: on a network file
    /// system, a later sync does not report the errors of writes that the close has waited for.
    fn finish(self) -> Result<Part, TaskError> {
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

#[cfg(test)]
mod tests {
    use ebb_scheduler::runtime::{Emit, JobSpec, Outcome, Runtime};
    use ebb_storage::simulation::MemDisk;
    use ebb_storage::{Db, Maintenance, Options};
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::history::History;
    use crate::records::{Column, RecordFormat, RowFormat};
    use crate::request::{ApplicationRequest, JobRequest, OutputPlace, WordcountRequest};
    use crate::testing::{input, open_files_in, options};

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            Self { dir }
        }

        fn output(&self, target: fn(PathBuf) -> FilesTarget, format: RowFormat) -> FilesOutput {
            self.output_with(target, format, SpillSpace::default())
        }

        fn output_with(
            &self,
            target: fn(PathBuf) -> FilesTarget,
            format: RowFormat,
            space: SpillSpace,
        ) -> FilesOutput {
            let (key, value) = (vec![Column::text("k")], vec![Column::number("n")]);
            let rows = Arc::new(RecordFormat::rows(key, value));
            let target = target(self.dir.path().join("out"));
            let place = SpillPlace::new("unused", space);
            FilesOutput::new(target, RowWriter::new(format, rows), place)
        }

        /// Returns the number of files and folders beside the target, the target included.
        fn names(&self) -> usize {
            fs::read_dir(self.dir.path()).unwrap().count()
        }

        /// Returns all files in the test's directory, with their content.
        fn files(&self) -> Vec<(String, String)> {
            let entries = walkdir::WalkDir::new(self.dir.path()).sort_by_file_name();
            let files = entries.into_iter().map(Result::unwrap);
            files
                .filter(|entry| entry.file_type().is_file())
                .map(|entry| {
                    let name = entry.path().strip_prefix(self.dir.path()).unwrap();
                    let content = fs::read_to_string(entry.path()).unwrap();
                    (name.display().to_string(), content)
                })
                .collect()
        }
    }

    fn write(output: &FilesOutput, partition: u32, attempt: u32, rows: &[(&str, &str)]) {
        let mut writer = output.open(partition, attempt).unwrap();
        for (key, value) in rows {
            writer.write(key.as_bytes(), value.as_bytes()).unwrap();
        }
        writer.finish().unwrap();
    }

    /// Regression: the file of each finished partition stayed open until the commit, so a job with
    /// thousands of tasks took all descriptors of its process.
    #[test]
    fn files_of_finished_partitions_are_closed() {
        for target in [FilesTarget::File, FilesTarget::Folder] {
            let place = Place::new();
            let output = place.output(target, RowFormat::Text);
            for partition in 0..10 {
                write(&output, partition, 1, &[("a", "1")]);
            }
            // The lock of the scratch folder.
            assert_eq!(open_files_in(place.dir.path()), 1);
            output.commit().unwrap();
            assert_eq!(open_files_in(place.dir.path()), 0);
            let rows: String = place.files().into_iter().map(|(_, rows)| rows).collect();
            assert_eq!(rows, "a\t1\n".repeat(10));
        }
    }

    fn file(name: &str, content: &str) -> (String, String) {
        (name.to_string(), content.to_string())
    }

    #[test]
    fn a_file_has_the_partitions_in_their_order_under_one_header() {
        let place = Place::new();
        let output = place.output(FilesTarget::File, RowFormat::Csv);
        write(&output, 1, 1, &[("b", "2")]);
        write(&output, 0, 1, &[("a", "1"), ("c", "3")]);
        drop(output.open(2, 1).unwrap());
        assert!(!place.dir.path().join("out").exists());
        output.commit().unwrap();
        assert_eq!(place.files(), [file("out", "k,n\na,1\nc,3\nb,2\n")]);
        assert_eq!(place.names(), 1);
    }

    #[test]
    fn a_folder_has_a_file_per_partition_and_a_mark_that_it_is_complete() {
        let place = Place::new();
        let output = place.output(FilesTarget::Folder, RowFormat::Csv);
        write(&output, 1, 1, &[("b", "2")]);
        write(&output, 0, 2, &[("a", "1")]);
        assert!(!place.dir.path().join("out").exists());
        output.commit().unwrap();
        assert_eq!(
            place.files(),
            [
                file("out/_SUCCESS", ""),
                file("out/part-00000.csv", "k,n\na,1\n"),
                file("out/part-00001.csv", "k,n\nb,2\n"),
            ]
        );
        assert_eq!(place.names(), 1);
    }

    #[test]
    fn of_two_attempts_at_once_the_last_that_finishes_counts() {
        let place = Place::new();
        let output = place.output(FilesTarget::File, RowFormat::Text);
        let mut slow = output.open(0, 1).unwrap();
        slow.write(b"slow", b"1").unwrap();
        write(&output, 0, 2, &[("fast", "1")]);
        slow.write(b"slow", b"2").unwrap();
        drop(slow);
        output.commit().unwrap();
        assert_eq!(place.files(), [file("out", "fast\t1\n")]);
    }

    #[test]
    fn what_exists_is_refused_early_and_late_and_kept() {
        for target in [FilesTarget::File, FilesTarget::Folder] {
            let place = Place::new();
            let output = place.output(target, RowFormat::Text);
            output.check().unwrap();
            write(&output, 0, 1, &[("a", "1")]);
            fs::write(place.dir.path().join("out"), "mine").unwrap();
            assert!(output.check().unwrap_err().to_string().contains("exists"));
            assert!(output.target.check().is_err());
            assert!(output.commit().is_err());
            output.abort();
            assert_eq!(place.files(), [file("out", "mine")]);
        }
        let place = Place::new();
        let output = place.output(FilesTarget::Folder, RowFormat::Text);
        write(&output, 0, 1, &[("a", "1")]);
        fs::create_dir(place.dir.path().join("out")).unwrap();
        assert!(output.commit().is_err());
        assert!(place.files().is_empty());
    }

    /// Regression: a job was interrupted after it had recorded that it was about to put its output
    /// in place. Its restart regarded any file with the name of the output as that output, even the
    /// file of another job.
    #[test]
    fn a_commit_records_which_file_it_puts_in_place_before_it_does() {
        let db = Db::open("/db", in_memory()).unwrap();
        let history = History::open(&db).unwrap();
        for target in [FilesTarget::File, FilesTarget::Folder] {
            for is_taken in [false, true] {
                let place = Place::new();
                let application = ApplicationRequest::Wordcount(WordcountRequest { reduces: 1 });
                let to = OutputPlace::File("out".into());
                let request = JobRequest::new(application, Vec::new(), to.into(), "/d");
                let job = history.begin(&request, Vec::new(), None).unwrap();
                let commits = CommitRecord::default();
                commits.set(&history, &job);
                let output = place.output(target, RowFormat::Text).recorded_by(commits);
                write(&output, 0, 1, &[("a", "1")]);
                if is_taken {
                    let other = place.output(target, RowFormat::Text);
                    write(&other, 0, 1, &[("a", "1")]);
                    other.commit().unwrap();
                }
                assert_eq!(output.commit().is_err(), is_taken);
                let record = history.job(&job.id).unwrap().unwrap();
                assert!(record.commits && record.written_file.is_some());
                let is_own = output.target.written().unwrap() == record.written_file;
                assert_ne!(is_own, is_taken, "{record:?}");
            }
        }
    }

    fn in_memory() -> Options {
        Options {
            disk: Arc::new(MemDisk::new()),
            maintenance: Maintenance::Manual,
            ..Options::default()
        }
    }

    #[test]
    fn an_abort_or_a_drop_leaves_nothing_even_under_a_writer() {
        let place = Place::new();
        for abort in [true, false] {
            let output = place.output(FilesTarget::File, RowFormat::Text);
            write(&output, 0, 1, &[("a", "1")]);
            let mut writer = output.open(1, 1).unwrap();
            if abort {
                output.abort();
            }
            drop(output);
            writer.write(b"b", b"2").unwrap();
            drop(writer);
            assert_eq!(place.names(), 0);
        }
    }

    /// Regression: a job wrote its file until the disk was full, in four attempts, and the writes of
    /// the database failed.
    #[test]
    fn a_job_whose_output_would_reduce_the_reserve_fails_at_once_and_leaves_nothing() {
        let runtime = Runtime::start(options(1)).unwrap();
        let run = |output: FilesOutput| {
            let copy = |key: &[u8], value: &[u8], emit: &mut dyn Emit| emit.emit(key, value);
            let spec = JobSpec::new("copy", input(&["1"], 1), Arc::new(copy), Arc::new(output));
            runtime.submit(spec).unwrap().wait()
        };
        for target in [FilesTarget::File, FilesTarget::Folder] {
            let place = Place::new();
            // The space suffices for the header, and not for the row.
            let free_bytes = AtomicU64::new(1004);
            let space = SpillSpace::new(move |_| Ok(free_bytes.swap(1000, Ordering::SeqCst)));
            let report = run(place.output_with(target, RowFormat::Csv, space.leaving(1000)));
            let Outcome::Failed { cause } = &report.outcome else {
                panic!("{report:?}")
            };
            let expected = format!(
                "attempt 1: the disk is full: 1000 bytes are free at {}, of which jobs leave 1000 ",
                place.dir.path().join("out").display()
            );
            assert!(cause.contains(&expected), "{cause}");
            assert_eq!(report.counters.attempts_failed, 1);
            assert_eq!(place.names(), 0);
            // Nothing of the refused file takes space from the next one.
            let report = run(place.output(target, RowFormat::Csv));
            assert_eq!(report.outcome, Outcome::Succeeded);
        }
    }

    #[test]
    fn a_commit_whose_copy_would_reduce_the_reserve_fails_and_leaves_nothing() {
        let place = Place::new();
        let free_bytes = Arc::new(AtomicU64::new(u64::MAX));
        let found = Arc::clone(&free_bytes);
        let space = SpillSpace::new(move |_| Ok(found.load(Ordering::SeqCst))).leaving(1000);
        let output = place.output_with(FilesTarget::File, RowFormat::Text, space);
        write(&output, 0, 1, &[("a", "1")]);
        write(&output, 1, 1, &[("b", "2")]);
        // A byte less than the second partition needs.
        free_bytes.store(1003, Ordering::SeqCst);
        let error = output.commit().unwrap_err();
        assert!(error.is_final(), "{error:?}");
        let error = error.to_string();
        assert!(error.contains("1003 bytes are free"), "{error}");
        output.abort();
        assert_eq!(place.names(), 0);
    }

    #[test]
    fn a_job_without_partitions_has_a_result_without_rows() {
        let place = Place::new();
        let output = place.output(FilesTarget::File, RowFormat::Csv);
        output.commit().unwrap();
        assert_eq!(place.files(), [file("out", "k,n\n")]);
    }
}
