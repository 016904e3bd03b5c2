//! The output of a job into a CQL table: all rows are there once the job has succeeded, or none.
//!
//! ```text
//!   rows ─> RowPlan: columns by name, text as values ─> staged, by the keys of the engine:
//!           the row, and its partition's header with the static columns
//!   commit: a timestamp ─> its record ─> sorted files of operands, and of entries of the
//!           indexes that the table has ─> ingest, one commit
//! ```
//!
//! [`CqlLoad`] does the same with rows of files, for a command that has the database to itself.

mod entries;
mod load;
mod plan;
mod stage;
#[cfg(test)]
mod tests;
mod values;
mod waiting;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use ebb_model::key::PARTITIONS_START;
use ebb_model::row::{Column, Header, RowError, RowRef};
use ebb_model::schema::{TableDefinition, TableSchema};
use ebb_scheduler::runtime::{Output, OutputWriter, TaskError};
use ebb_storage::{Cache, Db, TableReader};
use ebb_tables::read::{Partition, RowScan, Source, TableError, Unpaced, read_key};
use ebb_tables::write::WriteTimes;
use ebb_tables::{Catalog, CatalogError, CatalogState, CqlTable};

use self::entries::WithEntries;
pub use self::load::{CqlLoad, LoadedRows};
use self::plan::RowPlan;
use self::stage::WaitingWriter;
use super::partitions::Partitions;
use super::spill_place::SpillPlace;
use super::staging::StagingWriter;
use crate::error::{JobError, of_table};
use crate::history::{CommitRecord, OutputMark};
use crate::records::{Fields, InvalidInput, RecordFormat, RowDecoder};

/// The size in bytes of the rows that are held in memory at once, to be sorted before they are written to a
/// temporary file: rows of a task, or of the commit if the table has indexes.
const SORT_BYTES: usize = 4 << 20;

/// The output of a job into a CQL table, which has the job's rows once the job has succeeded. All
/// rows have one timestamp, which the server assigns at the commit, as if they were inserted then:
/// they overwrite earlier writes of clients, and later writes win. The commit creates the table if
/// it is absent.
///
/// A table that has rows at the submission is an error, because the results of two jobs would be mixed. Two
/// rows of the job with the same primary key are an error, and so are two different values of a static column
/// in one partition.
pub struct CqlOutput {
    catalog: Arc<Catalog>,
    /// The schema that the table had at the start of the job, or that of the table to be created.
    schema: Arc<TableSchema>,
    /// The table; empty until the commit has created it, if it is to be created. If the table is dropped,
    /// its files stay until the output is dropped, at the end of the job.
    target: OnceLock<Arc<CqlTable>>,
    /// The definition of the table to be created; `None` if the table exists already.
    missing: Option<TableDefinition>,
    rows: Arc<RecordFormat>,
    plan: Arc<RowPlan>,
    commits: CommitRecord,
    partitions: Partitions,
}

impl CqlOutput {
    /// Creates an output of rows with the format `rows` into the table `name` in a keyspace that
    /// CQL made. Until the commit, the rows are in files in `place`. If the table is absent, it
    /// is created with the columns of the rows; the columns of their key are its primary key.
    /// `commits`, the record of the job, gets the number of the table.
    ///
    /// # Errors
    /// When columns of the rows and of the table do not match, or when the table cannot be
    /// created.
    pub fn new(
        catalog: Arc<Catalog>,
        (keyspace, name): (&str, &str),
        rows: Arc<RecordFormat>,
        place: impl Into<SpillPlace>,
        commits: CommitRecord,
    ) -> Result<Self, JobError> {
        let found = catalog.state().table(keyspace, name).cloned();
        if let Some(table) = &found {
            commits.set_table(table.rows().number());
        }
        let (schema, missing) = match &found {
            Some(table) => (Arc::clone(table.schema()), None),
            None => {
                let definition = plan::definition(keyspace, name, &rows)?;
                let schema = TableSchema::create(definition.clone()).map_err(CatalogError::from)?;
                (Arc::new(schema), Some(definition))
            }
        };
        let plan = RowPlan::new(Arc::clone(&schema), &rows)?;
        Ok(Self {
            catalog,
            schema,
            target: found.map_or_else(OnceLock::new, OnceLock::from),
            missing,
            rows,
            plan: Arc::new(plan),
            commits,
            partitions: Partitions::new(place),
        })
    }

    fn name(&self) -> String {
        format!("{}.{}", self.schema.keyspace(), self.schema.name())
    }

    /// Returns the table; `None` if it is still to be created. It is an error if the table was
    /// dropped or created by others since the job started.
    fn table(&self) -> Result<Option<Arc<CqlTable>>, TaskError> {
        let state = self.catalog.state();
        if let Some(target) = self.target.get() {
            return self.current(&state, target).map(Some);
        }
        match state.table(self.schema.keyspace(), self.schema.name()) {
            None => Ok(None),
            Some(_) => Err(self.replaced()),
        }
    }

    /// Returns the current form of `table`. It is an error if `table` was dropped, even if a table with the
    /// same name and id has been created since then.
    fn current(&self, state: &CatalogState, table: &CqlTable) -> Result<Arc<CqlTable>, TaskError> {
        let now = state.current(table).cloned();
        now.ok_or_else(|| self.replaced())
    }

    /// Returns the error that the table is not the one that the job started with.
    fn replaced(&self) -> TaskError {
        TaskError::failed(format!(
            "table {} was dropped or created while the job ran",
            self.name()
        ))
    }

    /// Returns the table, and creates it if it is absent.
    fn created(&self) -> Result<Arc<CqlTable>, TaskError> {
        if let Some(table) = self.table()? {
            return Ok(table);
        }
        let create = |schema: &ebb_model::schema::Schema| {
            let definition = self.missing.clone();
            let created = definition.map(|definition| schema.create_table(definition));
            created.transpose().map_err(CatalogError::from)
        };
        let created = self.catalog.change(create).flatten();
        // The table is there although a later step failed.
        if matches!(&created, Ok(true) | Err(CatalogError::Unfinished(_))) {
            (self.catalog).announce_table(self.schema.keyspace(), self.schema.name());
        }
        created.map_err(TaskError::failed)?;
        let state = self.catalog.state();
        let table = state.table(self.schema.keyspace(), self.schema.name());
        // The id is a random one of this output, so a table that has it is the created one.
        let table = table.filter(|table| table.schema().id() == self.schema.id());
        let table = table.ok_or_else(|| self.replaced())?;
        Ok(Arc::clone(self.target.get_or_init(|| Arc::clone(table))))
    }
}

/// Returns whether a table still has rows or static columns that a job wrote at the timestamp `written_us`,
/// in microseconds since 1970: false once later writes have replaced all of them.
///
/// # Errors
/// When the store fails, or an operand is damaged.
pub fn has_rows_written_at(db: &Db, table: &CqlTable, written_us: i64) -> Result<bool, TableError> {
    let (view, schema) = (db.view(), table.schema());
    let reader = (&view, table.rows());
    let damaged = |key: &[u8], error: RowError| TableError::damaged(schema, key, error);
    let mut scan = scan(&reader, schema)?;
    while let Some(start) = scan.next_partition()? {
        if let Some(header) = &start.header {
            let is_written = has_statics_written_at(header, written_us);
            if is_written.map_err(|error| damaged(&start.key, error))? {
                return Ok(true);
            }
        }
        while let Some(row) = scan.next_row()? {
            let marker = RowRef::parse(&row.operand).map(|row| row.marker());
            let marker = marker.map_err(|error| damaged(&row.key, error))?;
            if marker.is_some_and(|marker| marker.timestamp == written_us) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns whether the header of a partition has static columns that were written at `written_us`.
fn has_statics_written_at(header: &[u8], written_us: i64) -> Result<bool, RowError> {
    let header = Header::parse(header)?;
    let columns = header.static_row().map(|row| row.columns());
    let replaced = WriteTimes::at(written_us).older_deletion();
    let replaced_us = replaced.map(|deletion| deletion.timestamp);
    for column in columns.into_iter().flatten() {
        let is_written = match column?.1 {
            Column::Cell(cell) => cell.timestamp == written_us,
            // A merge may have dropped the deletion, and an empty value has no elements.
            Column::Collection(all) => {
                let deletion = all.deletion();
                let mut is_written =
                    deletion.is_some_and(|deletion| Some(deletion.timestamp) == replaced_us);
                for element in all.elements() {
                    let element = element?;
                    is_written |= element.cell.timestamp == written_us;
                }
                is_written
            }
        };
        if is_written {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether the table has a row or a static value that is visible to `reader`.
fn has_rows(reader: &dyn TableReader, schema: &TableSchema) -> Result<bool, TableError> {
    let read_time_s = i64::try_from(reader.read_time_ms() / 1000).unwrap_or(i64::MAX);
    let mut scan = scan(reader, schema)?;
    while let Some(start) = scan.next_partition()? {
        let key = read_key(schema, &start.key)?;
        let partition = Partition::new(schema, key, start.header.as_deref(), read_time_s)?;
        // In a partition without rows, static values count as a row.
        if partition.has_static_values()? || scan.has_live_row(&partition)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Opens a scan over all rows of a table.
fn scan<'s>(
    reader: &'s dyn TableReader,
    schema: &'s TableSchema,
) -> Result<RowScan<'s>, TableError> {
    let source = Source::Stored(reader, Cache::Fill, &Unpaced);
    RowScan::open(source, schema, PARTITIONS_START, None)
}

impl Output for CqlOutput {
    fn check(&self) -> Result<(), TaskError> {
        let Some(table) = self.table()? else {
            return Ok(());
        };
        let view = self.catalog.db().view();
        let reader = (&view, table.rows());
        if has_rows(&reader, table.schema()).map_err(of_table)? {
            Err(TaskError::failed(format!(
                "table {} has rows already; choose another name, or TRUNCATE it",
                self.name()
            )))
        } else {
            Ok(())
        }
    }

    fn open(&self, partition: u32, _attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        let create = |directory: &Path| StagingWriter::create(directory, SORT_BYTES);
        Ok(Box::new(CqlWriter {
            plan: Arc::clone(&self.plan),
            decoder: self.rows.whole(),
            fields: Fields::default(),
            rows: WaitingWriter::new(self.partitions.open(partition, create)?),
        }))
    }

    fn commit(&self) -> Result<(), TaskError> {
        // Created even without rows: a job without rows leaves an empty table. Whether the table has
        // rows was checked at the submission only. Rows that clients have written since then stay,
        // and those of the job overwrite them as a later INSERT would.
        let table = self.created()?;
        self.commits.set_table(table.rows().number());
        let staged = self.partitions.take();
        if staged.is_empty() {
            return Ok(());
        }
        let written_us = self.catalog.timestamps().next_us();
        let written_us = written_us.map_err(TaskError::failed)?;
        // A commit that cannot be recorded must not happen: if the process dies before the end of the job,
        // a restart looks for rows of this timestamp.
        self.commits
            .begin(Some(OutputMark::Timestamp(written_us)))?;
        let files = self.partitions.temporary_directory()?;
        let mut writer = stage::sorted_writer(self.catalog.db(), &table, files.path())?;
        let mut with_entries = match table.schema().indexes() {
            [] => None,
            _ => {
                let now_s = written_us.div_euclid(1_000_000);
                let place = self.partitions.place();
                Some(WithEntries::new(table.schema(), now_s, place)?)
            }
        };
        let mut grant = self.partitions.place().grant();
        let take = |key: &[u8], operand: &[u8]| match &mut with_entries {
            None => {
                // Before the bytes are written: a job must not fill up the disk.
                grant.take(files.path(), (key.len() + operand.len()) as u64)?;
                writer.merge(key, operand).map_err(TaskError::failed)
            }
            Some(with_entries) => with_entries.add(key, operand),
        };
        let staged = (self.partitions.place(), staged);
        let duplicate = |key: &str| -> Result<(), TaskError> {
            let problem = format!(
                "several rows have the primary key {key} of table {}",
                self.name()
            );
            Err(InvalidInput(problem).into())
        };
        // The commit of a job cannot be cancelled.
        stage::for_each_operand(&self.plan, written_us, staged, &|| Ok(()), take, duplicate)?;
        if let Some(with_entries) = with_entries {
            with_entries.write(&mut writer)?;
        }
        let sorted = writer.finish().map_err(TaskError::failed)?;
        // A partition of the output has a temporary file even if it has no rows.
        if sorted.is_empty() {
            return Ok(());
        }
        // Under the lock of the schema, so that no index is created between the check and the
        // ingestion: it would lack the entries of these rows. A column that was added is null in these
        // rows, and one that was renamed keeps its id.
        self.catalog.exclusively(|state| {
            let now = self.current(state, &table)?;
            let indexes = |table: &CqlTable| -> Vec<u32> {
                (table.schema().indexes().iter().map(|index| index.id)).collect()
            };
            if indexes(&now) != indexes(&table) {
                return Err(TaskError::failed(format!(
                    "an index of table {} was created or dropped while rows were put in place: \
                     start the job again",
                    self.name()
                )));
            }
            if !self.plan.fits(now.schema()) {
                return Err(TaskError::failed(format!(
                    "a column of table {} that the job writes was dropped while it ran",
                    self.name()
                )));
            }
            table.rows().ingest(&sorted).map_err(TaskError::failed)
        })?;
        // The job succeeds only once its rows are durable.
        self.catalog.db().sync().map_err(TaskError::failed)
    }

    fn abort(&self) {
        drop(self.partitions.take());
    }
}

struct CqlWriter {
    plan: Arc<RowPlan>,
    decoder: RowDecoder,
    fields: Fields,
    rows: WaitingWriter,
}

impl OutputWriter for CqlWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        let invalid = |problem: String| crate::records::InvalidRow::error(key, problem);
        let decoded = self.decoder.decode(key, value, &mut self.fields);
        decoded.map_err(invalid)?;
        let row = self.plan.row(&self.fields).map_err(invalid)?;
        self.rows.write(row)
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        self.rows.finish()
    }
}
