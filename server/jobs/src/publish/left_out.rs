//! The tables that a publication leaves out, because their schemas or rows cannot be read, or rows cannot be published.
//!
//! Damage in the store, or a value that Iceberg cannot represent, fails only the table that has it, unless it is the
//! only table. The other tables get the tag. The set is not whole then, so `main` moves in no table, no old
//! publication is removed, no completion record is written, and the job fails. The same command finishes the
//! publication once the table can be published, as after an interruption between two commits.

use std::collections::BTreeMap;
use std::sync::Mutex;

use ebb_publish::commit::Retention;
use ebb_scheduler::runtime::{Split, TaskError};
use ebb_text::counts::counted;

use super::job::{PublicationJob, lock};
use super::plan::TablePlan;
use crate::Failure;
use crate::inputs::CellsInput;

/// The tables of the store that are left out, by their indexes, each with its first error.
#[derive(Debug, Default)]
pub(super) struct LeftOut(Mutex<BTreeMap<usize, TaskError>>);

impl LeftOut {
    /// Leaves out the table with the index `stored` because of `error`, unless it is left out already.
    pub(super) fn add(&self, stored: usize, error: TaskError) {
        lock(&self.0).entry(stored).or_insert(error);
    }

    pub(super) fn has(&self, stored: usize) -> bool {
        lock(&self.0).contains_key(&stored)
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}

impl PublicationJob {
    /// Leaves out the table of the store whose rows `split` has, because of `error`.
    ///
    /// # Errors
    /// Returns `error` if it is not certain that every attempt would repeat it, if the disk is full, or if the
    /// publication has no other table: then the whole job fails.
    pub(super) fn leave_out(&self, split: &Split, error: TaskError) -> Result<(), TaskError> {
        let is_of_table = error.is_final() && Failure::of(&error) != Failure::DiskFull;
        // Others may be published already: the error at the end then still names `--table`.
        let has_others = self.stored.len() > 1;
        let is_left = |stored: usize| {
            let mut tables = self.tables_of(stored);
            tables.any(|(_, table)| !table.is_published)
        };
        match CellsInput::table_of(split) {
            Some(stored) if is_of_table && has_others && is_left(stored) => {
                self.left_out.add(stored, error);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Returns whether the table of the store whose rows `split` has is left out.
    pub(super) fn leaves_out(&self, split: &Split) -> bool {
        CellsInput::table_of(split).is_some_and(|stored| self.left_out.has(stored))
    }

    /// Returns whether the Iceberg table with the number `number` is left out.
    pub(super) fn is_left_out(&self, number: u32) -> bool {
        let mut stored = self.stored.iter();
        let stored = stored.position(|(_, numbers)| numbers.contains(&number));
        stored.is_some_and(|stored| self.left_out.has(stored))
    }

    /// Returns the Iceberg tables that are not left out, with their numbers.
    pub(super) fn included(&self) -> impl Iterator<Item = (u32, &TablePlan)> {
        let tables = (0..).zip(&self.tables);
        tables.filter(move |(number, _)| !self.is_left_out(*number))
    }

    /// Returns the rule by which the commits remove old publications; `None` if they remove none: without the option
    /// `keep`, or while a table is left out.
    pub(super) fn retention(&self) -> Option<&Retention> {
        let retention = self.retention.as_ref();
        retention.filter(|_| self.left_out.is_empty())
    }

    /// Returns the error of a publication that has committed all tables but those that it leaves out; `None` if it
    /// leaves none out. The remedy comes first, because the runtime keeps only the beginning of a long cause. It is
    /// an error of the input if all tables that are left out have values that were refused.
    pub(super) fn left_out_error(&self) -> Option<TaskError> {
        let left_out = lock(&self.left_out.0);
        if left_out.is_empty() {
            return None;
        }
        let cause =
            |(stored, error): (&usize, &TaskError)| format!("{}: {error}", self.stored[*stored].0);
        let causes: Vec<String> = left_out.iter().map(cause).collect();
        let tables = self.stored.len();
        let others = if left_out.len() < tables {
            "; or publish the others by --table"
        } else {
            ""
        };
        let text = format!(
            "{} of {} cannot be published, and main stays in all of them: repair damage and repeat the command; if \
             values are refused, change the options, or change the values and publish a new snapshot{others}; {}",
            left_out.len(),
            counted(tables, "table"),
            causes.join("; ")
        );
        let is_refusal = |error: &TaskError| matches!(error, TaskError::Invalid(_));
        Some(if left_out.values().all(is_refusal) {
            TaskError::invalid(text)
        } else {
            TaskError::failed(text)
        })
    }
}
