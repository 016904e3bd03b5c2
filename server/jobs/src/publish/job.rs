//! The job of a publication: its input, which leaves out what an earlier start has done, and its output,
//! a Parquet file for each task and table.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_publish::commit::{
    Base, CommitError, Origin, Publication, PublishedTable, Stamp, data_file_name, sweep,
};
use ebb_publish::data_file::{DataFileError, DataFileWriter, ROW_GROUP_BYTES_MAX};
use ebb_publish::iceberg::manifest::DataFile;
use ebb_publish::target::{Target, Upload};
use ebb_publish::types::{OnEmpty, ValueError};
use ebb_scheduler::runtime::{
    Emit, Input, JobSpec, Mapper, Output, OutputWriter, RecordSink, Split, TaskError,
};
use ebb_tables::schema_at;
use serde_json::json;

use super::PublishRequest;
use super::plan::{COLUMNS_PROPERTY, PreviousColumns, StoredColumns, TablePlan, check_tables};
use super::records::{Records, StoredPlan, TaskRecord, data_files};
use crate::application::PublicationSite;
use crate::error::JobError;
use crate::history::{CommitRecord, now_unix_ms};
use crate::inputs::{Cells, CellsInput};
use crate::request::PublishTarget;

/// The least size of a row group, encoded.
const ROW_GROUP_BYTES_MIN: usize = 1 << 20;

/// Returns the job that publishes the tables of `site`, each in at most `splits` tasks.
pub(super) fn spec(
    name: &str,
    options: &PublishRequest,
    site: &PublicationSite<'_>,
    splits: u32,
) -> Result<JobSpec, JobError> {
    let (job, cells) = PublicationJob::open(options, site, splits as usize)?;
    let job = Arc::new(job);
    let input = PendingInput {
        cells,
        job: Arc::clone(&job),
    };
    let output = Arc::new(PublicationOutput(job));
    Ok(JobSpec::new(
        name,
        Arc::new(input),
        Arc::new(AsItIs),
        output,
    ))
}

/// A publication, as its input and its output share it.
struct PublicationJob {
    target: Target,
    records: Records,
    plan: StoredPlan,
    /// True if the target has the plan from an earlier start.
    is_resumed: bool,
    tables: Vec<TablePlan>,
    /// The tasks that are not done, ascending: the number of each in the plan.
    pending: Vec<u32>,
    on_empty: OnEmpty,
    /// Half of a task's memory: a task has one row group for each table that it writes, and mostly it
    /// writes one table.
    row_group_bytes: usize,
    replaces_tag: bool,
    /// No other start of a publication has it, so neither have its files.
    run: String,
    /// True once the target was prepared for the first task.
    has_begun: Mutex<bool>,
    /// The tasks that are done, those of earlier starts included.
    done: Mutex<BTreeMap<u32, TaskRecord>>,
    commits: CommitRecord,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unique_id() -> String {
    format!("{:016x}", rand::random::<u64>())
}

impl PublicationJob {
    /// Plans the publication. Writes nothing.
    fn open(
        options: &PublishRequest,
        site: &PublicationSite<'_>,
        splits: usize,
    ) -> Result<(Self, CellsInput), JobError> {
        let target = open_target(&site.target)?;
        let mut tables: Vec<TablePlan> = Vec::new();
        let mut cells = CellsInput::default();
        // By the table of the store: the numbers of the Iceberg tables that it goes to.
        let mut goes_to: Vec<Range<u32>> = Vec::new();
        for &(name, stored) in &site.tables {
            let first = tables.len() as u32;
            let schema = schema_at(stored, &name.to_string())?;
            let origin = |table_id: String| Origin {
                database_id: site.database_id.clone(),
                table_id,
                snapshot: site.snapshot.to_owned(),
                sequence_number: stored.seq().0,
                read_time_s: i64::try_from(stored.read_time_ms() / 1000).unwrap_or(i64::MAX),
            };
            let plan = |suffix: &str, id: String, columns: StoredColumns| {
                let name = format!("{}/{}{suffix}", name.keyspace, name.table);
                plan_table(&target, name, origin(id), columns, options)
            };
            match schema {
                None => {
                    let id = format!("table {}", stored.number());
                    tables.push(plan("", id, StoredColumns::plain(options.text))?);
                    cells.add_plain(stored.clone(), splits, first);
                }
                Some(schema) => {
                    let id = schema.id().to_string();
                    let columns = StoredColumns::of_cql(&schema, false);
                    tables.push(plan("", id.clone(), columns)?);
                    let mut statics_to = None;
                    if schema.has_static_columns() {
                        let columns = StoredColumns::of_cql(&schema, true);
                        tables.push(plan("_static", format!("{id} static"), columns)?);
                        statics_to = Some(first + 1);
                    }
                    cells.add_cql(stored.clone(), Arc::new(schema), splits, first, statics_to);
                }
            }
            goes_to.push(first..tables.len() as u32);
        }
        let keyspace = site
            .tables
            .first()
            .map_or("", |(name, _)| &name.keyspace[..]);
        check_tables(keyspace, &tables)?;
        // Each table was opened by the name of the snapshot.
        let mut commits = site.tables.iter().map(|(_, stored)| stored.seq());
        let first = commits.next();
        if commits.any(|commit| Some(commit) != first) {
            return Err(JobError::senseless(format!(
                "snapshot {} was created anew at this moment; publish again",
                site.snapshot
            )));
        }

        let records = Records::new(keyspace, site.snapshot);
        let of = tables.first().map(|table| &table.origin);
        let origin = json!({
            "database_id": site.database_id,
            "sequence_number": of.map(|origin| origin.sequence_number),
            "read_time_s": of.map(|origin| origin.read_time_s),
            "options": options,
        });
        let stored = records.plan(&target).map_err(TaskError::failed)?;
        let stored = stored.filter(|stored| stored.origin == origin && stored.is_of(&tables));
        let is_resumed = stored.is_some();
        let mut done = BTreeMap::new();
        let plan = match stored {
            Some(plan) => {
                done = done_tasks(&target, &records, &plan, &tables)?;
                plan
            }
            None => StoredPlan {
                id: unique_id(),
                origin,
                tables: tables.iter().map(TablePlan::to_json).collect(),
                splits: cells.splits()?,
            },
        };
        let is_needed = |split: &Split| {
            let goes_to = CellsInput::table_of(split).and_then(|number| goes_to.get(number));
            let mut numbers = goes_to.cloned().unwrap_or_default();
            numbers.any(|number| !tables[number as usize].is_published)
        };
        let numbered = (0..).zip(&plan.splits);
        let is_left =
            |&(number, split): &(u32, &Split)| !done.contains_key(&number) && is_needed(split);
        let pending = numbered.filter(is_left);
        let pending: Vec<u32> = pending.map(|(number, _)| number).collect();
        let job = Self {
            target,
            records,
            plan,
            is_resumed,
            tables,
            pending,
            on_empty: if options.empty_as_null {
                OnEmpty::Null
            } else {
                OnEmpty::Refuse
            },
            row_group_bytes: (site.task_memory_bytes / 2)
                .clamp(ROW_GROUP_BYTES_MIN, ROW_GROUP_BYTES_MAX),
            replaces_tag: options.replace,
            run: unique_id(),
            has_begun: Mutex::new(false),
            done: Mutex::new(done),
            commits: site.commits.clone(),
        };
        Ok((job, cells))
    }

    /// Before the first task: proves that of two publishers one commits, removes what publishers left
    /// that can no longer commit, and stores the plan.
    fn begin(&self) -> Result<(), TaskError> {
        let target = &self.target;
        let mut has_begun = lock(&self.has_begun);
        if *has_begun {
            return Ok(());
        }
        target
            .check_creates_once(&self.run)
            .map_err(TaskError::failed)?;
        for table in &self.tables {
            sweep(target, &table.name).map_err(TaskError::failed)?;
        }
        let begun = if self.is_resumed {
            self.records.forget_refused(target)
        } else {
            self.records.begin(target, &self.plan)
        };
        begun.map_err(TaskError::failed)?;
        *has_begun = true;
        Ok(())
    }

    /// Commits the tables that are not published yet, then writes the record of the set.
    fn commit(&self) -> Result<(), TaskError> {
        let target = &self.target;
        let left = || self.tables.iter().filter(|table| !table.is_published);
        if left().next().is_some() {
            self.records
                .forget_whole(target)
                .map_err(TaskError::failed)?;
        }
        for (number, table) in (0..).zip(&self.tables) {
            self.commit_table(number, table).map_err(|error| {
                TaskError::failed(match number {
                    0 => error.to_string(),
                    // Readers of these tables already see the new tag.
                    at => format!(
                        "{error}; {at} of {} tables are published",
                        self.tables.len()
                    ),
                })
            })?;
        }
        let whole = self.whole().map_err(TaskError::failed)?;
        self.records
            .end(target, &whole)
            .map_err(TaskError::failed)?;
        for table in left() {
            // The publication is there. What remains is removed by the next one.
            let _ = sweep(target, &table.name);
        }
        Ok(())
    }

    fn commit_table(&self, number: u32, table: &TablePlan) -> Result<(), CommitError> {
        let found = PublishedTable::open(&self.target, &table.name)?;
        // Before this start, or by another one of the same publication.
        if found.is_published(&table.origin, self.replaces_tag)? {
            return Ok(found.mend_hint()?);
        }
        found.check_version(table.version)?;
        let files = lock(&self.done)
            .values()
            .flat_map(|task| &task.files)
            .filter(|(of, _)| *of == number)
            .map(|(_, file)| file.clone())
            .collect();
        let columns = table.columns.iter().map(|column| column.field.clone());
        let property = (COLUMNS_PROPERTY.to_owned(), table.columns_property.clone());
        let publication = Publication {
            origin: table.origin.clone(),
            columns: columns.collect(),
            last_column_id: table.last_column_id,
            base: Base::Replaced,
            files,
            deletes: Vec::new(),
            replaces_tag: self.replaces_tag,
            properties: [property].into(),
        };
        let stamp = Stamp {
            now_ms: i64::try_from(now_unix_ms()).unwrap_or(i64::MAX),
            snapshot_id: rand::random_range(1..=i64::MAX),
            table_uuid: uuid::Builder::from_random_bytes(rand::random())
                .into_uuid()
                .to_string(),
        };
        found.commit(&publication, &stamp).map(drop)
    }

    /// Returns the record that the publication is whole.
    fn whole(&self) -> Result<serde_json::Value, CommitError> {
        let mut tables = Vec::new();
        for table in &self.tables {
            let version = PublishedTable::open(&self.target, &table.name)?.version();
            let metadata = format!("{}/metadata/v{version}.metadata.json", table.name);
            tables.push(json!({"table": table.name, "metadata": metadata}));
        }
        let empty_values = lock(&self.done)
            .values()
            .map(|task| task.empty_values)
            .sum::<u64>();
        let of = self.tables.first().map(|table| &table.origin);
        Ok(json!({
            "database_id": of.map(|origin| &origin.database_id),
            "snapshot": of.map(|origin| &origin.snapshot),
            "sequence_number": of.map(|origin| origin.sequence_number),
            "read_time_s": of.map(|origin| origin.read_time_s),
            "tables": tables,
            "empty_values_as_null": empty_values,
        }))
    }

    /// Returns the error of a row with a value that Iceberg does not have. The error names table and
    /// column; the row and the value are written to the target.
    fn refused(
        &self,
        table: &TablePlan,
        cells: &[u8],
        (column, error): (&str, &ValueError),
    ) -> TaskError {
        let key = table
            .columns
            .iter()
            .zip(Cells(cells))
            .take(table.key_columns);
        let key = key.map(|(column, cell)| {
            let literal = cell.map_or_else(|| "null".to_owned(), |cell| column.ty.literal(cell));
            format!("{} = {literal}", column.field.name)
        });
        let key = key.collect::<Vec<_>>().join(" AND ");
        let label = table.label();
        let text = format!("table {label}, row {key}, column {column}: {error}\n");
        let row = match self.records.refuse(&self.target, text) {
            Ok(url) => format!("{url} names the row"),
            Err(error) => format!("the row could not be named: {error}"),
        };
        let reason = error.reason();
        TaskError::invalid(format!("table {label}, column {column}: {reason}; {row}"))
    }
}

/// Opens the target. Nothing is written or sent.
fn open_target(target: &PublishTarget) -> Result<Target, JobError> {
    let opened = match target {
        PublishTarget::Folder(path) => Target::folder(path),
        PublishTarget::Bucket { name, prefix } => Target::bucket(name, prefix),
    };
    opened.map_err(JobError::senseless)
}

/// Plans a table of the target, after what the target has of it.
fn plan_table(
    target: &Target,
    name: String,
    origin: Origin,
    stored: StoredColumns,
    options: &PublishRequest,
) -> Result<TablePlan, JobError> {
    let found = PublishedTable::open(target, &name).map_err(TaskError::failed)?;
    let is_published = found.is_published(&origin, options.replace);
    let is_published = is_published.map_err(JobError::senseless)?;
    let previous = PreviousColumns::of(&found);
    let plan = TablePlan::new(name, origin, stored, &previous, options)?;
    Ok(TablePlan {
        version: found.version(),
        is_published,
        ..plan
    })
}

/// Returns the tasks that an earlier start has done, as far as their data files are there.
fn done_tasks(
    target: &Target,
    records: &Records,
    plan: &StoredPlan,
    tables: &[TablePlan],
) -> Result<BTreeMap<u32, TaskRecord>, TaskError> {
    let there = tables.iter().map(|table| {
        if table.is_published {
            Ok(None)
        } else {
            data_files(target, &table.name).map(Some)
        }
    });
    let there = there.collect::<Result<Vec<_>, _>>();
    let there = there.map_err(TaskError::failed)?;
    let is_there = |(number, file): &(u32, DataFile)| match there.get(*number as usize) {
        Some(Some(there)) => there.contains(&file.file_path),
        Some(None) => true,
        None => false,
    };
    records
        .done(target, plan, is_there)
        .map_err(TaskError::failed)
}

/// The splits of the tasks that are not done.
struct PendingInput {
    cells: CellsInput,
    job: Arc<PublicationJob>,
}

impl Input for PendingInput {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let split = |(index, task): (u32, &u32)| Split {
            index,
            ..self.job.plan.splits[*task as usize].clone()
        };
        Ok((0..).zip(&self.job.pending).map(split).collect())
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        self.cells.read(split, record)
    }
}

struct AsItIs;

impl Mapper for AsItIs {
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        emit.emit(key, value)
    }
}

struct PublicationOutput(Arc<PublicationJob>);

impl Output for PublicationOutput {
    fn open(&self, partition: u32, attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        let task = self.0.pending.get(partition as usize);
        let unknown = || TaskError::failed("a task that the publication does not have");
        self.0.begin()?;
        Ok(Box::new(TaskWriter {
            task: *task.ok_or_else(unknown)?,
            job: Arc::clone(&self.0),
            attempt,
            files: BTreeMap::new(),
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

/// Writes the rows of a task: a file for each table that has any.
struct TaskWriter {
    job: Arc<PublicationJob>,
    task: u32,
    attempt: u32,
    files: BTreeMap<u32, OpenFile>,
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

impl OutputWriter for TaskWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        let number = key.first_chunk().map(|number| u32::from_be_bytes(*number));
        let job = &self.job;
        let table = number.and_then(|number| Some((number, job.tables.get(number as usize)?)));
        let Some((number, table)) = table else {
            return Err(TaskError::failed(
                "a row of a table that the publication does not have",
            ));
        };
        if table.is_published {
            return Ok(());
        }
        let file = match self.files.entry(number) {
            Entry::Occupied(file) => file.into_mut(),
            Entry::Vacant(place) => {
                let unique = format!("{}-{}-{}", job.run, self.task, self.attempt);
                place.insert(OpenFile::create(job, table, &unique)?)
            }
        };
        match file.writer.append(Cells(value)) {
            Ok(()) => Ok(()),
            Err(DataFileError::Value { column, error }) => {
                Err(job.refused(table, value, (&column[..], &error)))
            }
            Err(error) => Err(TaskError::failed(error)),
        }
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        let Self {
            job, task, files, ..
        } = *self;
        let mut record = TaskRecord::default();
        for (number, OpenFile { writer, url }) in files {
            record.empty_values += writer.empty_values();
            let (upload, file) = writer.finish(url).map_err(TaskError::failed)?;
            upload.complete().map_err(TaskError::failed)?;
            record.files.push((number, file));
        }
        let noted = (job.records).end_task(&job.target, &job.plan.id, task, &record);
        noted.map_err(TaskError::failed)?;
        lock(&job.done).insert(task, record);
        Ok(())
    }
}
