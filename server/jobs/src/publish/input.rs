//! The input of a publication job: the rows of those splits that no earlier start of the job has
//! finished.

use std::sync::Arc;

use ebb_scheduler::runtime::{Checkpoint, Emit, Input, Mapper, RecordSink, Split, TaskError};

use super::job::PublicationJob;
use super::previous::RewrittenRows;
use crate::inputs::{CellsInput, Change, RowKey};

/// The input of a publication job: the splits that no earlier start of the job has finished. Splits
/// of tables that are already published are left out.
pub(super) struct PendingInput {
    pub(super) cells: CellsInput,
    pub(super) job: Arc<PublicationJob>,
}

impl PendingInput {
    /// Returns the rows of the newest publication that lie in the key range of `split`, and in data
    /// files that this publication removes. These rows are written again.
    fn rewritten(&self, split: &Split) -> Result<RewrittenRows<'_>, TaskError> {
        let (lower, upper) = CellsInput::range_of(split).unwrap_or_default();
        let mut rows = RewrittenRows::new(&self.job.target, lower, upper);
        let Some(number) = CellsInput::table_of(split) else {
            return Ok(rows);
        };
        for (number, table) in self.job.tables_of(number) {
            if !table.is_published && !table.rewrites.files.is_empty() {
                rows.add((number, table), &self.job.previous[number as usize])?;
            }
        }
        Ok(rows)
    }
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
        self.read_with_checkpoints(split, record, &|| Ok(()))
    }

    fn read_with_checkpoints(
        &self,
        split: &Split,
        record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        self.job.sweep_once(checkpoint)?;
        if self.job.leaves_out(split) {
            return Ok(());
        }
        let read = match self.rewritten(split) {
            Ok(mut rewritten) => (self.cells).read_with(split, &mut rewritten, record, checkpoint),
            Err(error) => Err(error),
        };
        // Errors of the writer, such as that of a refused value, come back from the reading.
        read.or_else(|error| self.job.leave_out(split, error))
    }
}

/// A mapper that emits only rows that have changed since the newest publication, or must be written
/// again.
pub(super) struct Differing;

impl Mapper for Differing {
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        let is_as_it_was = RowKey::decode(key).is_some_and(|row| row.change == Change::None);
        if is_as_it_was {
            return Ok(());
        }
        emit.emit(key, value)
    }
}
