//! Rows on their way into a table. Temporary files have them by their keys in the store; they
//! become operands (the store's form of a write) once their timestamp is known.

use std::path::Path;
use std::sync::Arc;

use ebb_model::key::{DecodedKey, Place};
use ebb_scheduler::runtime::{Checkpoint, OutputWriter, TaskError};
use ebb_storage::{Db, SortedWriter, SortedWriterOptions};
use ebb_tables::{CqlRow, CqlTable};

use super::plan::{RowPlan, WaitingRow};
use super::waiting;
use crate::outputs::partitions::PartitionWriter;
use crate::outputs::spill_place::SpillPlace;
use crate::outputs::staging::{StagedRows, merge_with};
use crate::records::InvalidInput;

/// A writer of encoded rows into the temporary file of a partition of the output.
pub(super) struct WaitingWriter {
    rows: PartitionWriter,
    /// The static columns that were written last: the key of their partition's header, and their
    /// encoded values. `None` before the first ones. Rows of a partition mostly follow each other,
    /// so most rows have the same static columns as the row before, and these are not written
    /// again.
    last_statics: Option<(Vec<u8>, Vec<u8>)>,
}

impl WaitingWriter {
    pub(super) fn new(rows: PartitionWriter) -> Self {
        Self {
            rows,
            last_statics: None,
        }
    }

    pub(super) fn write(&mut self, row: WaitingRow) -> Result<(), TaskError> {
        if row.statics.is_some() && row.statics != self.last_statics {
            self.last_statics = row.statics;
            if let Some((key, values)) = &self.last_statics {
                self.rows.write(key, values)?;
            }
        }
        match row.row {
            Some((key, values)) => self.rows.write(&key, &values),
            None => Ok(()),
        }
    }

    pub(super) fn finish(self) -> Result<(), TaskError> {
        Box::new(self.rows).finish()
    }
}

/// Returns a writer that makes files in `directory` that `table` can ingest.
pub(super) fn sorted_writer(
    db: &Db,
    table: &CqlTable,
    directory: &Path,
) -> Result<SortedWriter, TaskError> {
    let options = SortedWriterOptions {
        sstable: table.rows().options().sstable.clone(),
        merge_operator: Some(Arc::new(CqlRow::default())),
        ..db.sorted_writer_options()
    };
    SortedWriter::create(directory, "rows", options).map_err(TaskError::failed)
}

/// Passes the rows in `staged` to `take`, ascending by key, as operands of writes at `written_us`,
/// in microseconds since 1970. Of several rows with the same primary key only the last one is
/// passed; `duplicate` is called for each of the others, with their primary key as text. Rows that
/// are too many for one pass are merged into files in `place` before. `checkpoint` is called for
/// each row that goes into such a file.
///
/// # Errors
/// If rows of a partition have different values of a static column; or the error of `take`,
/// `duplicate` or `checkpoint`.
pub(super) fn for_each_operand(
    plan: &RowPlan,
    written_us: i64,
    (place, staged): (&SpillPlace, Vec<StagedRows>),
    checkpoint: Checkpoint<'_>,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), TaskError>,
    mut duplicate: impl FnMut(&str) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    let mut operand = Vec::new();
    let row = |key: &[u8], waiting: &[u8]| {
        operand.clear();
        if is_header(key)? {
            plan.header_operand(waiting, written_us, &mut operand)?;
        } else {
            plan.row_operand(waiting, written_us, &mut operand)?;
        }
        take(key, &operand)
    };
    merge_with(place, staged, checkpoint, row, |key, earlier, later| {
        if !is_header(key)? {
            return duplicate(&plan.shown(key));
        }
        match waiting::unite(earlier, later)? {
            None => Ok(()),
            Some(id) => {
                let (shown, table) = (plan.shown(key), plan.table_name());
                let column = plan.column_name(id);
                let problem = format!(
                    "rows of the partition {shown} of table {table} have several values of its \
                     static column {column}"
                );
                Err(InvalidInput(problem).into())
            }
        }
    })
}

fn is_header(key: &[u8]) -> Result<bool, TaskError> {
    let decoded = DecodedKey::read(key).map_err(TaskError::failed)?;
    Ok(decoded.place == Place::Header)
}
