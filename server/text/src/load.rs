//! Loads rows of files into a table: sorts them into files of the store's format first, then ingests
//! these by one commit.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use ebb_storage::{FileSystem, SortedWriter, Table};
use serde::Serialize;

use super::counts::counted;
use super::error::{LoadError, Problem};
use super::merge::{MergeError, merge};
use super::options::LoadOptions;
use super::plan::{Task, parts, sort_by_line_keys, tasks};
use super::rows::{Columns, Row, rows};
use super::sorter::{Origin, Run, Sorter};
use super::source::{self, ReadWatch};
use super::walk::{Found, Skipped, TextFile};

/// The number of bytes of rows that a thread reads or writes between two reports of progress.
const REPORT_EVERY_BYTES: u64 = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadPhase {
    /// Reads files. If their rows are in order, this phase writes them too.
    Read,
    /// Writes sorted rows.
    Write,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadProgress {
    pub phase: LoadPhase,
    /// The number of rows read or written in this phase.
    pub rows: u64,
    /// The number of bytes read so far from the files, before decompression.
    pub bytes_read: u64,
}

/// An observer of a load that may cancel it. Its methods run on any thread of the load.
pub trait LoadControl: Sync {
    /// Receives the progress so far.
    fn progress(&self, _now: LoadProgress) {}

    /// Returns whether the load is to stop, with nothing loaded.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// A load without an observer.
impl LoadControl for () {}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LoadReport {
    pub files: u64,
    /// Files that were skipped, in the search for files or later.
    pub skipped: Vec<Skipped>,
    pub rows: u64,
    /// The number of rows in the files that were replaced by a later row of this load with the same key.
    pub replaced: u64,
    /// The number of bytes of the text of the rows that were read, uncompressed, line ends included. Headers
    /// do not count.
    pub bytes: u64,
    /// The names of the columns; `None` if no file has a header.
    pub columns: Option<Vec<String>>,
    pub seconds: f64,
}

/// Rows in files of the store's format, ready for [`Sorted::ingest`]. Ingesting or dropping removes
/// the files; the caller removes the folder.
#[derive(Debug)]
pub struct Sorted {
    files: Vec<ScratchFiles>,
    report: LoadReport,
    start: Instant,
}

/// Files in the scratch folder. Dropping this removes them. Files that a table has ingested stay in
/// the table.
#[derive(Debug)]
struct ScratchFiles {
    disk: Arc<dyn FileSystem>,
    paths: Vec<PathBuf>,
}

impl Drop for ScratchFiles {
    fn drop(&mut self) {
        for path in &self.paths {
            // The folder's owner removes a file that is left.
            let _ = self.disk.remove(path);
        }
    }
}

/// Writes every row of the files into `table`, by one commit: [`sort`], then [`Sorted::ingest`].
///
/// # Errors
/// The errors of [`sort`] and of [`Sorted::ingest`]; nothing was loaded then, except perhaps after a
/// failed write of the log: see [`Sorted::ingest`].
pub fn load(
    table: &Table,
    found: &Found,
    options: &LoadOptions,
    scratch: &Path,
    control: &dyn LoadControl,
) -> Result<LoadReport, LoadError> {
    sort(found, options, scratch, control)?.ingest(table)
}

/// Reads every row of the files, and writes the rows sorted into files in `scratch`, an empty
/// folder on the disk that [`LoadOptions::sorted`] names. If `scratch` is in the file system of
/// the database, the files can be ingested without a copy.
///
/// # Errors
/// [`LoadError`]; `scratch` is empty again then.
pub fn sort(
    found: &Found,
    options: &LoadOptions,
    scratch: &Path,
    control: &dyn LoadControl,
) -> Result<Sorted, LoadError> {
    let start = Instant::now();
    let work = Work::new(options, scratch, control);
    let tasks = tasks(&found.files, options.max_bytes);
    let (mut tasks, bad) = if options.skip_bad {
        work.leave_out_bad(&tasks)?
    } else {
        (tasks, Vec::new())
    };
    // A line key is known without the line: no sort is needed if the files can be read in the order
    // of their keys.
    let files = if options.key.is_none() && sort_by_line_keys(&mut tasks) {
        work.write_in_order(&tasks)?
    } else {
        work.sort_all(&tasks)?
    };
    if control.is_cancelled() {
        return Err(LoadError::Cancelled);
    }
    let mut report = work.report();
    report.skipped = found.skipped.iter().cloned().chain(bad).collect();
    report.files = tasks.len() as u64;
    Ok(Sorted {
        files,
        report,
        start,
    })
}

impl Sorted {
    /// Makes the rows part of `table` by one commit, which is as durable as any write to the
    /// database. Rows in `table` with the same keys are replaced.
    ///
    /// # Errors
    /// Errors of the store. Nothing was loaded then, with one exception: after
    /// [`ebb_storage::Error::ReadOnly`] (a write or an fsync of the log failed), the rows may be in
    /// the table once the database is opened again.
    pub fn ingest(mut self, table: &Table) -> Result<LoadReport, LoadError> {
        let paths = self.files.iter().flat_map(|written| &written.paths);
        let paths: Vec<_> = paths.collect();
        if !paths.is_empty() {
            table.ingest(&paths)?;
        }
        self.report.seconds = self.start.elapsed().as_secs_f64();
        Ok(self.report)
    }
}

/// The state that the threads of a load share.
struct Work<'a> {
    options: &'a LoadOptions,
    scratch: &'a Path,
    control: &'a dyn LoadControl,
    /// True once a thread has failed, so that the others stop.
    failed: AtomicBool,
    rows: AtomicU64,
    bytes: AtomicU64,
    bytes_read: AtomicU64,
    replaced: AtomicU64,
    /// The columns that all files must have, and the first file in which they were found.
    columns: Mutex<Option<(PathBuf, Columns)>>,
}

impl<'a> Work<'a> {
    fn new(options: &'a LoadOptions, scratch: &'a Path, control: &'a dyn LoadControl) -> Self {
        Self {
            options,
            scratch,
            control,
            failed: AtomicBool::new(false),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            columns: Mutex::default(),
        }
    }

    fn report(self) -> LoadReport {
        let columns = self.columns.into_inner();
        let columns = columns.unwrap_or_else(PoisonError::into_inner);
        let replaced = self.replaced.into_inner();
        LoadReport {
            files: 0,
            skipped: Vec::new(),
            rows: self.rows.into_inner() - replaced,
            replaced,
            bytes: self.bytes.into_inner(),
            columns: columns.and_then(|(_, columns)| columns.names),
            seconds: 0.0,
        }
    }

    /// Calls `part` for each of `parts`, each on a thread of its own. Returns the results in the order
    /// of `parts`. If some calls fail, returns the first error in this order that is not a
    /// cancellation, because an error cancels the other threads.
    fn in_parallel<P: Sync, T: Send>(
        &self,
        parts: &[P],
        part: impl Fn(usize, &P) -> Result<T, LoadError> + Sync,
    ) -> Result<Vec<T>, LoadError> {
        thread::scope(|scope| {
            let part = &part;
            let spawn = |(at, tasks)| {
                let run = move || {
                    let result = part(at, tasks);
                    result.inspect_err(|_| self.failed.store(true, Ordering::Relaxed))
                };
                thread::Builder::new().spawn_scoped(scope, run)
            };
            let spawned: Vec<_> = parts.iter().enumerate().map(spawn).collect();
            let join = |worker: io::Result<thread::ScopedJoinHandle<'_, _>>| match worker {
                Ok(worker) => match worker.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                },
                Err(source) => Err(LoadError::Thread { source }),
            };
            // All threads are joined before an error is returned. An error that made other threads
            // stop has priority over their cancellations.
            let results: Vec<Result<T, _>> = spawned.into_iter().map(join).collect();
            let ended = |result: &Result<T, _>| matches!(result, Err(LoadError::Cancelled));
            let (mut ended, mut results): (Vec<_>, Vec<_>) = results.into_iter().partition(ended);
            results.append(&mut ended);
            results.into_iter().collect()
        })
    }

    /// Writes rows whose keys ascend within each file and from file to file, so nothing is sorted.
    fn write_in_order(&self, tasks: &[Task<'_>]) -> Result<Vec<ScratchFiles>, LoadError> {
        let parts = parts(tasks, self.options.threads, self.options.part_bytes_min);
        self.in_parallel(&parts, |at, tasks| {
            let name = format!("part-{}", at + 1);
            let mut writer = self.writer(&name)?;
            for task in *tasks {
                self.read(task, &mut |row| Ok(writer.put(&row.key, &row.value)?))?;
            }
            self.finish(writer)
        })
    }

    fn writer(&self, name: &str) -> Result<SortedWriter, LoadError> {
        let options = self.options.sorted.clone();
        Ok(SortedWriter::create(self.scratch, name, options)?)
    }

    fn finish(&self, writer: SortedWriter) -> Result<ScratchFiles, LoadError> {
        Ok(ScratchFiles {
            paths: writer.finish()?,
            disk: self.options.sorted.disk.clone(),
        })
    }

    /// Sorts the rows of all files, and writes them.
    fn sort_all(&self, tasks: &[Task<'_>]) -> Result<Vec<ScratchFiles>, LoadError> {
        let parts = parts(tasks, self.options.threads, self.options.part_bytes_min);
        let sort_bytes = self.options.sort_bytes / parts.len().max(1);
        let runs = self.in_parallel(&parts, |at, tasks| {
            let disk = self.options.sorted.disk.clone();
            let path = self.scratch.join(format!("runs-{}", at + 1));
            let mut sorter = Sorter::new(disk, path, sort_bytes);
            for task in *tasks {
                self.read(task, &mut |row| {
                    let (file, line) = (task.place, row.line);
                    let pushed = sorter.push(&row.key, &row.value, Origin { file, line });
                    pushed.map_err(|source| self.scratch_error(source))
                })?;
            }
            sorter.finish().map_err(|source| self.scratch_error(source))
        })?;
        let runs = runs.into_iter().flatten().collect();
        Ok(vec![self.write_merged(tasks, runs)?])
    }

    fn write_merged(&self, tasks: &[Task<'_>], runs: Vec<Run>) -> Result<ScratchFiles, LoadError> {
        let mut writer = self.writer("rows")?;
        let mut written = 0;
        let mut unreported_bytes = 0;
        let replaced = merge(runs, self.options.duplicates, |row| {
            writer.put(&row.key, &row.value)?;
            written += 1;
            unreported_bytes += (row.key.len() + row.value.len()) as u64;
            if unreported_bytes >= REPORT_EVERY_BYTES {
                unreported_bytes = 0;
                self.report_progress(LoadPhase::Write, written)?;
            }
            Ok(())
        });
        let replaced = replaced.map_err(|error| match error {
            MergeError::Io(source) => self.scratch_error(source),
            MergeError::Sink(error) => error,
            MergeError::Duplicate { key, first, second } => {
                let place = |origin: Origin| {
                    let task = tasks.iter().find(|task| task.place == origin.file);
                    let path = task.map(|task| task.file.path.clone());
                    (path.unwrap_or_default(), origin.line)
                };
                let (first, second) = (place(first), place(second));
                LoadError::Duplicate { key, first, second }
            }
        })?;
        self.replaced.store(replaced, Ordering::Relaxed);
        self.finish(writer)
    }

    fn scratch_error(&self, source: io::Error) -> LoadError {
        let path = self.scratch.to_path_buf();
        LoadError::Scratch { path, source }
    }

    /// Reads all files except streams. Returns the tasks of the files that can be loaded, and the other
    /// files with the reasons to skip them. The first good file in the order of `tasks` determines the
    /// columns, whichever thread is the fastest.
    fn leave_out_bad<'f>(
        &self,
        tasks: &[Task<'f>],
    ) -> Result<(Vec<Task<'f>>, Vec<Skipped>), LoadError> {
        let parts = parts(tasks, self.options.threads, self.options.part_bytes_min);
        let checked = self.in_parallel(&parts, |_, tasks| {
            let checked = tasks.iter().map(|task| self.check(task));
            checked.collect::<Result<Vec<_>, _>>()
        })?;
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for (task, checked) in tasks.iter().zip(checked.into_iter().flatten()) {
            let accepted = match &checked {
                Ok(Some(columns)) => self.accept_columns(task.file, columns),
                Ok(None) | Err(_) => Ok(()),
            };
            let other_columns = accepted.err().and_then(|error| error.skipped());
            match checked.err().or(other_columns) {
                None => good.push(*task),
                Some(skipped) => bad.push(skipped),
            }
        }
        Ok((good, bad))
    }

    /// Reads a file, and returns its columns, or the reason why it cannot be loaded. The columns are
    /// `None` if the file is no CSV or has no records, and for a stream: a stream can be read only once,
    /// so it passes this check unread.
    fn check(&self, task: &Task<'_>) -> Result<Result<Option<Columns>, Skipped>, LoadError> {
        if task.file.is_stream {
            return Ok(Ok(None));
        }
        let (uncounted, mut own) = (AtomicU64::new(0), None);
        let read = self.read_once(
            task,
            &uncounted,
            &mut |columns| {
                own = Some(columns.clone());
                Ok(())
            },
            &mut |_| Ok(()),
        );
        match read {
            Ok(()) => Ok(Ok(own)),
            Err(error) => match error.skipped() {
                Some(skipped) => Ok(Err(skipped)),
                None => Err(error),
            },
        }
    }

    /// Passes the rows of a file to `take`, counts them, and reports the progress.
    fn read(
        &self,
        task: &Task<'_>,
        take: &mut dyn FnMut(&Row) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let (mut rows, mut bytes) = (0, 0);
        let mut accept = |columns: &Columns| self.accept_columns(task.file, columns);
        self.read_once(task, &self.bytes_read, &mut accept, &mut |row| {
            take(row)?;
            rows += 1;
            bytes += row.text_bytes;
            if bytes >= REPORT_EVERY_BYTES {
                self.count(&mut rows, &mut bytes)?;
            }
            Ok(())
        })?;
        self.count(&mut rows, &mut bytes)
    }

    fn count(&self, rows: &mut u64, bytes: &mut u64) -> Result<(), LoadError> {
        self.bytes
            .fetch_add(std::mem::take(bytes), Ordering::Relaxed);
        let rows = std::mem::take(rows);
        let rows = rows + self.rows.fetch_add(rows, Ordering::Relaxed);
        self.report_progress(LoadPhase::Read, rows)
    }

    fn report_progress(&self, phase: LoadPhase, rows: u64) -> Result<(), LoadError> {
        self.control.progress(LoadProgress {
            phase,
            rows,
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
        });
        if self.is_ending() {
            Err(LoadError::Cancelled)
        } else {
            Ok(())
        }
    }

    fn is_ending(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.control.is_cancelled()
    }

    /// Reads a file once, up to the task's budget. Passes its rows to `take`, and its columns (if it is
    /// CSV) to `take_columns` as soon as they are known.
    fn read_once(
        &self,
        task: &Task<'_>,
        bytes_read: &AtomicU64,
        take_columns: &mut dyn FnMut(&Columns) -> Result<(), LoadError>,
        take: &mut dyn FnMut(&Row) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let file = task.file;
        let format = self.options.format_of(&file.path);
        let format = format.map_err(|problem| LoadError::File {
            path: file.path.clone(),
            problem,
        })?;
        let watch = ReadWatch {
            bytes: bytes_read,
            is_cancelled: &|| self.is_ending(),
        };
        let of_file = |problem: Problem| problem.of(&file.path);
        let text = source::open(file, &watch).map_err(of_file)?;
        let mut rows = rows(file, format, self.options, text).map_err(of_file)?;
        let mut are_columns_taken = false;
        if let Some(columns) = rows.columns() {
            take_columns(columns)?;
            are_columns_taken = true;
        }
        let (mut row, mut bytes) = (Row::default(), 0);
        while bytes < task.budget && rows.read(&mut row).map_err(of_file)? {
            if !are_columns_taken && let Some(columns) = rows.columns() {
                take_columns(columns)?;
                are_columns_taken = true;
            }
            bytes += row.text_bytes;
            take(&row)?;
        }
        Ok(())
    }

    /// Checks that a file has the same columns as the other files: rows of one table have the same
    /// columns. The first file in this check determines them.
    fn accept_columns(&self, file: &TextFile, columns: &Columns) -> Result<(), LoadError> {
        let first = self.columns.lock();
        let mut first = first.unwrap_or_else(PoisonError::into_inner);
        let (path, first) = first.get_or_insert_with(|| (file.path.clone(), columns.clone()));
        if (&first.names, first.count) == (&columns.names, columns.count) {
            return Ok(());
        }
        let description = |columns: &Columns| match &columns.names {
            Some(names) => format!("columns are {}", names.join(", ")),
            None => format!("records have {}", counted(columns.count, "field")),
        };
        let problem = format!(
            "line {}: its {}, and in {} {}; load them into tables of their own",
            columns.line,
            description(columns),
            path.display(),
            description(first)
        );
        let path = file.path.clone();
        Err(LoadError::File { path, problem })
    }
}

#[cfg(test)]
mod tests;
