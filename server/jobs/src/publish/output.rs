//! The output of the job: for each task and table a data file with the rows that are written, and files of
//! deletes of the rows that they replace.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebb_publish::commit::data_file_name;
use ebb_publish::data_file::{DataFileError, DataFileWriter};
use ebb_publish::rows::{PositionalDeletes, Positions};
use ebb_publish::target::Upload;
use ebb_scheduler::runtime::{Output, OutputWriter, TaskError};

use super::job::{PublicationJob, lock};
use super::plan::TablePlan;
use super::previous::of_rows;
use super::records::{RowCounts, TaskRecord};
use crate::inputs::{Cells, Change, RowKey};

pub(super) struct PublicationOutput(pub(super) Arc<PublicationJob>);

impl Output for PublicationOutput {
    fn open(&self, partition: u32, attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        let task = self.0.pending.get(partition as usize);
        let unknown = || TaskError::failed("a task that the publication does not have");
        self.0.begin()?;
        Ok(Box::new(TaskWriter {
            task: *task.ok_or_else(unknown)?,
            job: Arc::clone(&self.0),
            attempt,
            tables: BTreeMap::new(),
        }))
    }

    fn commit(&self) -> Result<(), TaskError> {
        self.0.commits.begin(None)?;
        self.0.commit()
    }

    /// Leaves the tasks that are done for the next start, which a stop of the server may precede. No
    /// reader sees their files; a later publication of the table sweeps them.
    fn abort(&self) {}
}

/// Writes the rows of a task.
struct TaskWriter {
    job: Arc<PublicationJob>,
    task: u32,
    attempt: u32,
    /// The tables that the task has rows for, by number.
    tables: BTreeMap<u32, OpenTable>,
}

/// The files that a task writes of a table.
#[derive(Default)]
struct OpenTable {
    file: Option<OpenFile>,
    /// The search for the rows that are replaced.
    positions: Option<Positions>,
    deletes: PositionalDeletes,
    counts: RowCounts,
}

/// A data file that is being written. It leaves nothing behind if it is dropped.
struct OpenFile {
    writer: DataFileWriter<Upload>,
    url: String,
}

impl OpenFile {
    fn create(job: &PublicationJob, table: &TablePlan, unique: &str) -> Result<Self, TaskError> {
        let name = data_file_name(&table.name, table.version + 1, unique);
        let upload = job.target.upload(&name).map_err(TaskError::failed)?;
        let row_group_bytes = job.row_group_bytes;
        let writer = DataFileWriter::new(upload, &table.columns, job.on_empty, row_group_bytes);
        Ok(Self {
            writer: writer.map_err(TaskError::failed)?,
            url: job.target.url(&name),
        })
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
    /// Deletes the row that the newest publication has of `key`. Nothing is to be done in a file that goes.
    fn delete(
        &mut self,
        job: &PublicationJob,
        (number, table): (u32, &TablePlan),
        key: &[u8],
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
        if table.rewrites.files.binary_search(&position.file).is_err() {
            self.deletes.add(position);
        }
        Ok(())
    }
}

/// Returns a part of names that no other attempt at a task has.
fn unique(job: &PublicationJob, task: u32, attempt: u32) -> String {
    format!("{}-{task}-{attempt}", job.run)
}

impl OutputWriter for TaskWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        let job = &self.job;
        let row = RowKey::decode(key);
        let row = row.and_then(|row| Some((row, job.tables.get(row.table as usize)?)));
        let Some((row, table)) = row else {
            return Err(TaskError::failed(
                "a row of a table that the publication does not have",
            ));
        };
        if table.is_published {
            return Ok(());
        }
        let open = self.tables.entry(row.table).or_default();
        open.counts.note(row.change);
        // The data file of a row that is written again goes, with all deletes in it.
        if row.change.has_old() && row.change != Change::Rewritten {
            open.delete(job, (row.table, table), row.key)?;
        }
        if !row.change.has_new() {
            return Ok(());
        }
        let file = match &mut open.file {
            Some(file) => file,
            None => {
                let unique = unique(job, self.task, self.attempt);
                open.file.insert(OpenFile::create(job, table, &unique)?)
            }
        };
        match file.writer.append_keyed(row.key, Cells(value)) {
            Ok(()) => Ok(()),
            Err(DataFileError::Value { column, error }) => {
                Err(job.refused(table, value, (&column[..], &error)))
            }
            Err(error) => Err(TaskError::failed(error)),
        }
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        let Self {
            job,
            task,
            attempt,
            tables,
        } = *self;
        let unique = unique(&job, task, attempt);
        let mut record = TaskRecord::default();
        for (number, open) in tables {
            let table = &job.tables[number as usize];
            record.counts.push((number, open.counts));
            if let Some(OpenFile { writer, url }) = open.file {
                record.empty_values += writer.empty_values();
                let finished = writer.finish_keyed(url).map_err(TaskError::failed)?;
                let (upload, file, index) = finished;
                upload.complete().map_err(TaskError::failed)?;
                if let Some(index) = index {
                    let stored = index.store(&job.target, &file);
                    stored.map_err(TaskError::failed)?;
                }
                record.files.push((number, file));
            }
            let names = (&table.name[..], table.version + 1, &unique[..]);
            let deletes = open.deletes.write(&job.target, &table.live, names);
            let deletes = deletes.map_err(of_rows)?.into_iter();
            record.deletes.extend(deletes.map(|file| (number, file)));
        }
        let noted = (job.records).end_task(&job.target, &job.plan.id, task, &record);
        noted.map_err(TaskError::failed)?;
        lock(&job.done).insert(task, record);
        Ok(())
    }
}
