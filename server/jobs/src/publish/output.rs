//! The output of the publication job. For each task and table it writes data files with the rows that are
//! new or changed, and delete files for the rows that they replace.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::sync::Arc;

use ebb_publish::commit::data_file_name;
use ebb_publish::data_file::{DataFileError, DataFileWriter};
use ebb_publish::iceberg::manifest::DataFile;
use ebb_publish::rows::{PositionalDeletes, Positions};
use ebb_publish::target::{Target, Upload};
use ebb_publish::types::ValueError;
use ebb_scheduler::runtime::{Checkpoint, Output, OutputWriter, TaskError};
use ebb_tables::read::TableError;

use super::job::{PublicationJob, lock};
use super::plan::TablePlan;
use super::previous::of_rows;
use super::records::{RowCounts, TaskRecord};
use crate::Failure;
use crate::error::of_table;
use crate::inputs::{Cells, Change, RowKey, TaskPace};

pub(super) struct PublicationOutput(pub(super) Arc<PublicationJob>);

impl Output for PublicationOutput {
    fn open(&self, partition: u32, attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        let task = self.0.pending.get(partition as usize).copied();
        let unknown = || TaskError::failed("a task that the publication does not have");
        let task = task.ok_or_else(unknown)?;
        self.0.begin()?;
        Ok(Box::new(TaskWriter {
            unique: format!("{}-{task}-{attempt}", self.0.run),
            task,
            job: Arc::clone(&self.0),
            tables: BTreeMap::new(),
        }))
    }

    fn commit(&self) -> Result<(), TaskError> {
        self.0.commits.begin(None)?;
        self.0.commit()
    }

    /// Leaves the files of finished tasks in the target, because the job may start again, for example
    /// after a stop of the server. No reader sees these files; a later publication of the table removes
    /// them.
    fn abort(&self) {}
}

/// The writer of the rows of one task.
struct TaskWriter {
    job: Arc<PublicationJob>,
    task: u32,
    /// A text that makes the names of this attempt's files differ from those of all other attempts.
    unique: String,
    /// The state of each table that the task has rows for, by the table's number.
    tables: BTreeMap<u32, OpenTable>,
}

/// The files that a task writes for one table, and the counts of the rows that it has written.
#[derive(Default)]
struct OpenTable {
    file: Option<OpenFile>,
    /// The finished files: data files that are full, and delete files that are complete.
    written: Written,
    /// The lookup, by key, of the positions of rows in the files of the newest publication. The
    /// task looks up the rows that it deletes. `None` before the first deleted row.
    positions: Option<Positions>,
    deletes: PositionalDeletes,
    counts: RowCounts,
}

/// The finished files of a task for one table.
#[derive(Default)]
struct Written {
    files: Vec<DataFile>,
    deletes: Vec<DataFile>,
    empty_values: u64,
}

/// A data file that is being written. If it is dropped, its upload is aborted, and the target has no
/// trace of it, unless requests to the target stall.
struct OpenFile {
    writer: DataFileWriter<Upload>,
    url: String,
}

impl OpenFile {
    fn create(job: &PublicationJob, table: &TablePlan, unique: &str) -> Result<Self, TaskError> {
        let name = data_file_name(&table.name, table.version + 1, unique);
        let mut upload = job.target.upload(&name).map_err(TaskError::failed)?;
        if let Some(place) = &job.place {
            let (mut grant, folder) = (place.space().grant(), place.directory().to_path_buf());
            // A part takes its space when it is sent, because until then its rows are only in memory.
            upload = upload.taking_space(move |bytes| {
                let taken = grant.take(&folder, bytes);
                taken.map_err(|full| io::Error::new(io::ErrorKind::StorageFull, full))
            });
        }
        let row_group_bytes = job.row_group_bytes;
        let writer = DataFileWriter::new(upload, &table.columns, job.on_empty, row_group_bytes);
        Ok(Self {
            writer: writer.map_err(TaskError::failed)?,
            url: job.target.url(&name),
        })
    }
}

/// Returns the error of a task that cannot write a data file. Other attempts would only fill the disk again,
/// so a full disk fails the job.
fn of_writing(error: impl Error + Send + Sync + 'static) -> TaskError {
    match Failure::of(&error) {
        Failure::DiskFull => TaskError::fatal(error),
        _ => TaskError::failed(error),
    }
}

impl RowCounts {
    fn note(&mut self, change: Change) {
        let counter = match change {
            Change::None => return,
            Change::Added => &mut self.added,
            Change::Replaced => &mut self.replaced,
            Change::Rewritten => &mut self.rewritten,
            Change::Removed => &mut self.removed,
        };
        *counter += 1;
    }
}

impl OpenTable {
    /// Deletes the row with the key `key` from the newest publication. No delete is written if this
    /// publication removes the whole data file of the row. `unique` becomes part of the names of delete
    /// files.
    ///
    /// # Errors
    /// If no file of the newest publication has the row, or if a request to the target fails.
    fn delete(
        &mut self,
        job: &PublicationJob,
        (number, table): (u32, &TablePlan),
        (key, unique): (&[u8], &str),
    ) -> Result<(), TaskError> {
        let positions = match &mut self.positions {
            Some(positions) => positions,
            None => {
                let previous = &job.previous[number as usize];
                self.positions
                    .insert(previous.positions(&job.target, table)?)
            }
        };
        let Some(position) = positions.locate(key).map_err(of_rows)? else {
            // The store and the target do not have the same rows, so others may be wrong, too.
            job.forget_pin(number);
            return Err(TaskError::fatal(format!(
                "table {}: a row of the publication before is in none of its files; publish again, which \
                 writes all rows",
                table.label()
            )));
        };
        // The deletes of a file that the keys have passed are complete. Kept to the end, those of all files would
        // be in memory at once.
        for place in positions.take_passed() {
            let unique = format!("{unique}-{}", self.written.deletes.len());
            let names = (&table.name[..], table.version + 1, &unique[..]);
            let deletes = (self.deletes).write_of(place, &job.target, &table.live, names);
            self.written.deletes.extend(deletes.map_err(of_rows)?);
        }
        if table.rewrites.files.binary_search(&position.file).is_err() {
            self.deletes.add(position);
        }
        Ok(())
    }

    /// Finishes the data file that is being written, if there is one.
    fn end_file(&mut self, target: &Target) -> Result<(), TaskError> {
        let Some(OpenFile { writer, url }) = self.file.take() else {
            return Ok(());
        };
        self.written.empty_values += writer.empty_values();
        let (upload, file, index) = writer.finish_keyed(url).map_err(of_writing)?;
        upload.complete().map_err(of_writing)?;
        if let Some(index) = index {
            index.store(target, &file).map_err(TaskError::failed)?;
        }
        self.written.files.push(file);
        Ok(())
    }
}

impl OutputWriter for TaskWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        self.write_with_checkpoints(key, value, &|| Ok(()))
    }

    fn write_with_checkpoints(
        &mut self,
        key: &[u8],
        value: &[u8],
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        let job = &self.job;
        let row = RowKey::decode(key);
        let row = row.and_then(|row| Some((row, job.tables.get(row.table as usize)?)));
        let Some((row, table)) = row else {
            return Err(TaskError::failed(
                "a row of a table that the publication does not have",
            ));
        };
        // This table is committed already. The task runs for the other Iceberg table of the same CQL table:
        // one has the rows, one the static columns.
        if table.is_published {
            return Ok(());
        }
        let open = self.tables.entry(row.table).or_default();
        open.counts.note(row.change);
        // The data file of a row that is written again goes, with all deletes in it.
        if row.change.has_old() && row.change != Change::Rewritten {
            open.delete(job, (row.table, table), (row.key, &self.unique))?;
        }
        if !row.change.has_new() {
            return Ok(());
        }
        let file = match &mut open.file {
            Some(file) => file,
            None => {
                let unique = format!("{}-{}", self.unique, open.written.files.len());
                open.file.insert(OpenFile::create(job, table, &unique)?)
            }
        };
        // A collection may have thousands of long decimals, which take milliseconds each.
        let pace = TaskPace::new(checkpoint);
        let mut ended = None;
        let charge = &mut |bytes: usize| {
            pace.charge(bytes).map_err(|error| {
                ended = Some(error);
                ValueError::Ended
            })
        };
        let appended = file.writer.append_keyed(row.key, Cells(value), charge);
        if let Some(error) = ended {
            return Err(of_table(TableError::Ended(error)));
        }
        match appended {
            Ok(()) if file.writer.is_full() => open.end_file(&job.target),
            Ok(()) => Ok(()),
            Err(DataFileError::Value { column, error }) => {
                Err(job.refused(table, value, (&column[..], &error)))
            }
            Err(error) => Err(of_writing(error)),
        }
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        // A task of a table that is left out may not have read all of its rows, so it does not count as done.
        let split = &self.job.plan.splits[self.task as usize];
        if self.job.leaves_out(split) {
            return Ok(());
        }
        let Self {
            job,
            task,
            unique,
            tables,
        } = *self;
        let mut record = TaskRecord::default();
        for (number, mut open) in tables {
            let table = &job.tables[number as usize];
            record.counts.push((number, open.counts));
            open.end_file(&job.target)?;
            let names = (&table.name[..], table.version + 1, &unique[..]);
            let left = open.deletes.write(&job.target, &table.live, names);
            let Written {
                files,
                deletes,
                empty_values,
            } = open.written;
            record.empty_values += empty_values;
            record
                .files
                .extend(files.into_iter().map(|file| (number, file)));
            let deletes = deletes.into_iter().chain(left.map_err(of_rows)?);
            record.deletes.extend(deletes.map(|file| (number, file)));
        }
        let noted = (job.records).end_task(&job.target, &job.plan.id, task, &record);
        noted.map_err(TaskError::failed)?;
        lock(&job.done).insert(task, record);
        Ok(())
    }
}
