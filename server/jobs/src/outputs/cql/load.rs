//! Rows of files whose values have types, loaded into a CQL table by one commit.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebb_model::key::PARTITIONS_START;
use ebb_model::schema::TableSchema;
use ebb_model::types::CqlType;
use ebb_scheduler::runtime::{SpillSpace, TaskError};
use ebb_tables::{Catalog, CatalogError, CqlTable};
use ebb_text::{Duplicates, LoadControl, LoadPhase, LoadProgress};

use super::plan::RowPlan;
use super::stage::{self, WaitingWriter};
use crate::error::JobError;
use crate::outputs::partitions::Partitions;
use crate::outputs::spill_place::{SpillPlace, disk_reserve_bytes};
use crate::outputs::staging::StagingWriter;
use crate::records::InvalidInput;

/// The size in bytes of the rows that a load holds in memory, to sort them before they are written to a
/// temporary file.
const SORT_BYTES: usize = 64 << 20;

/// The number of rows between two progress reports of a load.
const REPORT_EVERY_ROWS: u64 = 4096;

/// A load of rows into a CQL table, by one commit. The table may have rows already. All rows have the
/// timestamp of the commit, as if they were inserted then, and a null deletes the old value of its column.
/// The rows never expire, whatever `default_time_to_live` is.
///
/// A table with indexes or counters is an error.
pub struct CqlLoad {
    catalog: Arc<Catalog>,
    table: Arc<CqlTable>,
    plan: RowPlan,
    columns: Vec<(String, CqlType)>,
    partitions: Partitions,
    rows: WaitingWriter,
    rows_pushed: u64,
}

/// The numbers of rows that a load wrote and left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadedRows {
    /// The number of rows that the load put into the table.
    pub rows: u64,
    /// The number of rows that were left out because a later row had the same primary key.
    pub replaced: u64,
}

impl CqlLoad {
    /// Begins a load of rows whose values are in the order of `columns`. Until the commit, the rows
    /// are in files in `directory`, and no one else may write to the table. This function decides
    /// whether nulls have to delete older values. In a table that is empty now they do not, so they
    /// would not delete a value that another writer adds before the commit.
    ///
    /// # Errors
    /// If there is no such table, if the table lacks one of `columns`, if `columns` lacks a column of the
    /// primary key or has a column twice, or if the table has indexes or counters.
    pub fn begin(
        catalog: Arc<Catalog>,
        (keyspace, name): (&str, &str),
        columns: &[String],
        directory: &Path,
    ) -> Result<Self, JobError> {
        let refused = |why: String| JobError::senseless(format!("table {keyspace}.{name}: {why}"));
        let state = catalog.state();
        // Checked first, because this error names the reason, and not only that the table is missing.
        if let Some(unreadable) = state.schema().unreadable(keyspace, Some(name)) {
            return Err(CatalogError::from(unreadable).into());
        }
        let table = state.table(keyspace, name).cloned();
        let table = table.ok_or_else(|| refused("CQL has no such table".to_owned()))?;
        let schema = table.schema();
        check(schema).map_err(&refused)?;
        let mut found = Vec::new();
        for (at, name) in columns.iter().enumerate() {
            if columns[..at].contains(name) {
                return Err(refused(format!(
                    "two columns of the rows are called {name}"
                )));
            }
            let column = schema.column(name).ok_or_else(|| {
                let known: Vec<&str> = schema.columns().iter().map(|of| &of.name[..]).collect();
                refused(format!(
                    "it has no column {name}; it has: {}; name the columns to load, for example \
                     --columns {}",
                    known.join(", "),
                    known.join(",")
                ))
            })?;
            found.push(column);
        }
        let names: Vec<&str> = columns.iter().map(String::as_str).collect();
        let mut plan = RowPlan::of_columns(schema, &found, &names)?;
        // In an empty table a null has no older value to delete. Any entry counts, even a deletion: then
        // the nulls delete needlessly, which does no harm.
        let mut entries = table.rows().range::<&[u8], _>(PARTITIONS_START..);
        if entries.next().transpose()?.is_some() {
            plan = plan.deleting_nulls();
        }
        let types = found.iter().map(|column| column.ty.clone());
        let columns = columns.iter().cloned().zip(types).collect();
        let space = SpillSpace::default().leaving(disk_reserve_bytes(catalog.db()));
        let partitions = Partitions::new(SpillPlace::new(directory, space));
        let create = |directory: &Path| StagingWriter::create(directory, SORT_BYTES);
        // A load has a single writer, so it needs a single partition.
        let rows = WaitingWriter::new(partitions.open(0, create)?);
        Ok(Self {
            plan,
            columns,
            partitions,
            rows,
            rows_pushed: 0,
            table,
            catalog,
        })
    }

    /// Returns the columns of the rows, each with the type of its values.
    pub fn columns(&self) -> &[(String, CqlType)] {
        &self.columns
    }

    /// Returns the number of rows that were pushed so far.
    pub fn rows(&self) -> u64 {
        self.rows_pushed
    }

    /// Adds a row: a value for each column, in their order. Each value must be valid for the type of its
    /// column, except that the elements of sets and maps may be in any order, and may occur several times.
    ///
    /// # Errors
    /// [`TaskError::Invalid`] if the row has no primary key, or one that is too long; or an error of the
    /// system.
    pub fn push(&mut self, values: &[Option<Vec<u8>>]) -> Result<(), TaskError> {
        let row = self.plan.row(values).map_err(InvalidInput)?;
        self.rows.write(row)?;
        self.rows_pushed += 1;
        Ok(())
    }

    /// Adds the rows to the table, durably and by one commit.
    ///
    /// # Errors
    /// [`TaskError::Invalid`] if rows of a partition have different values of a static column, or if two rows
    /// have the same primary key and `duplicates` does not allow that; [`TaskError::Cancelled`] if `control`
    /// is cancelled; or an error if the table was changed meanwhile or the store fails. After an error nothing is
    /// loaded, unless only the sync at the end failed: then the rows can be read, a loss of power may remove
    /// them, and the store rejects further writes.
    pub fn commit(
        self,
        duplicates: Duplicates,
        control: &dyn LoadControl,
    ) -> Result<LoadedRows, TaskError> {
        let Self {
            catalog,
            table,
            plan,
            partitions,
            rows,
            rows_pushed,
            columns: _,
        } = self;
        rows.finish()?;
        // The timestamp is taken at the commit and not at the start of the load, because the rows
        // count as inserted by the commit.
        let written_us = catalog.timestamps().next_us().map_err(TaskError::failed)?;
        let files = partitions.temporary_directory()?;
        let mut writer = stage::sorted_writer(catalog.db(), &table, files.path())?;
        let mut grant = partitions.place().grant();
        let checkpoint = || -> Result<(), TaskError> {
            if control.is_cancelled() {
                Err(TaskError::Cancelled)
            } else {
                Ok(())
            }
        };
        // Counts static columns as well, so it is only a measure of progress.
        let mut written = 0_u64;
        let take = |key: &[u8], operand: &[u8]| {
            // Before the bytes are written: a load must not fill up the disk.
            grant.take(files.path(), (key.len() + operand.len()) as u64)?;
            writer.merge(key, operand).map_err(TaskError::failed)?;
            written += 1;
            if written.is_multiple_of(REPORT_EVERY_ROWS) {
                control.progress(LoadProgress {
                    phase: LoadPhase::Write,
                    rows: written,
                    // The user's files were read before.
                    bytes_read: 0,
                });
                // Not later: the ingestion after it is one step.
                return checkpoint();
            }
            Ok(())
        };
        let mut replaced = 0;
        let staged = (partitions.place(), partitions.take());
        let duplicate = |key: &str| -> Result<(), TaskError> {
            if duplicates == Duplicates::Last {
                replaced += 1;
                return Ok(());
            }
            let problem = format!(
                "several rows have the primary key {key} of table {}; --duplicates last takes the \
                 last one",
                plan.table_name()
            );
            Err(InvalidInput(problem).into())
        };
        stage::for_each_operand(&plan, written_us, staged, &checkpoint, take, duplicate)?;
        let sorted = writer.finish().map_err(TaskError::failed)?;
        if !sorted.is_empty() {
            ingest(&catalog, &table, &sorted)?;
        }
        Ok(LoadedRows {
            rows: rows_pushed - replaced,
            replaced,
        })
    }
}

/// Checks that rows can be loaded into a table with this schema.
///
/// # Errors
/// The reason why they cannot.
fn check(schema: &TableSchema) -> Result<(), String> {
    if schema.is_counter() {
        return Err("its values are counters, which cannot be loaded".to_owned());
    }
    let indexes: Vec<&str> = schema.indexes().iter().map(|of| &of.name[..]).collect();
    if !indexes.is_empty() {
        return Err(format!(
            "it has indexes, whose entries a load does not write: {}; drop them, load, and create \
             them again",
            indexes.join(", ")
        ));
    }
    Ok(())
}

/// Ingests sorted files into a table, unless the table has been changed since they were written.
fn ingest(catalog: &Catalog, table: &Arc<CqlTable>, sorted: &[PathBuf]) -> Result<(), TaskError> {
    let (keyspace, name) = (table.schema().keyspace(), table.schema().name());
    catalog.exclusively(|state| match state.table(keyspace, name) {
        Some(now) if Arc::ptr_eq(now, table) => {
            let ingested = table.rows().ingest(sorted);
            ingested.map(drop).map_err(TaskError::failed)
        }
        _ => Err(TaskError::failed(format!(
            "table {keyspace}.{name} was changed while rows were loaded: load them again"
        ))),
    })?;
    catalog.db().sync().map_err(TaskError::failed)
}
