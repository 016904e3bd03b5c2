//! The plan of a write, which can be executed any number of times.

use std::sync::Arc;

use ebb_cql::syntax::ast::Relation;
use ebb_model::schema::{Column, ColumnKind};
use ebb_tables::CqlTable;

use super::condition::Conditions;
use super::json::JsonRow;
use super::keys::Keys;
use super::operation::Operation;
use super::using::Using;
use crate::analyse::markers::Bound;
use crate::analyse::restrictions::{Statement, Written};
use crate::analyse::volatile::VolatileCalls;
use crate::error::Result;

#[derive(Debug)]
pub(super) struct WritePlan {
    pub(super) table: Arc<CqlTable>,
    pub(super) using: Using,
    // Shared by the INSERT JSON statements of a batch: they name all columns of their table.
    pub(super) keys: Arc<Keys>,
    pub(super) action: Arc<Action>,
    /// The conditions in IF under which the statement writes.
    pub(super) conditions: Conditions,
    pub(super) statement: Statement,
    pub(super) json: Option<JsonRow>,
    /// The calls of volatile functions, such as `uuid()`, in all terms of the statement. Their
    /// results differ from call to call.
    pub(super) volatile: VolatileCalls,
}

/// The WHERE clause of a write (for INSERT, `=` for each key column) and its changes.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) relations: Vec<Relation>,
    pub(super) action: Action,
}

#[derive(Debug)]
pub(super) enum Action {
    Change {
        /// True for INSERT, which writes a marker: the row exists from then on even without values.
        has_marker: bool,
        changes: Vec<Change>,
    },
    /// Deletes rows, ranges of rows or partitions, depending on the keys.
    Delete,
}

impl Action {
    pub(super) fn written(&self) -> Written {
        match self {
            Self::Delete => Written::Deleted,
            Self::Change { changes, .. } => {
                if !changes.is_empty() && changes.iter().all(Change::is_static) {
                    Written::Statics
                } else {
                    Written::Rows
                }
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Change {
    pub(super) column: Column,
    pub(super) operation: Operation,
}

impl Change {
    pub(super) fn is_static(&self) -> bool {
        self.column.kind == ColumnKind::Static
    }
}

impl WritePlan {
    /// Returns the indexes of the bind markers for the columns of the partition key, in the order
    /// of the columns. The result is empty if the value of any of these columns is not a single
    /// marker.
    pub(super) fn partition_markers(&self) -> Vec<u16> {
        match &self.json {
            // The key is in the JSON text.
            Some(_) => Vec::new(),
            None => self.keys.partition_markers(self.table.schema()),
        }
    }

    pub(super) fn counts(&self) -> bool {
        self.table.schema().is_counter()
    }

    pub(super) fn deletes(&self) -> bool {
        self.statement == Statement::Delete
    }

    /// Calls `use_bound` with the values of the statement: the bound ones, followed by those in the
    /// text of INSERT JSON. After the call, the results of functions that `use_bound` has evaluated
    /// no longer count as used memory. So `use_bound` must not return values that contain such
    /// results, except for keys, whose memory has a limit of its own.
    ///
    /// # Errors
    /// The error of `use_bound`, or an error if the text is no row of the table.
    pub(super) fn with_values<T>(
        &self,
        bound: &Bound<'_>,
        use_bound: impl FnOnce(&Bound<'_>) -> Result<T>,
    ) -> Result<T> {
        bound.dropping(|| match &self.json {
            None => use_bound(bound),
            Some(json) => {
                let values = json.read(self.table.schema(), bound)?;
                use_bound(&json.bind(&values, bound))
            }
        })
    }

    pub(super) fn writes_statics(&self) -> bool {
        match &*self.action {
            Action::Change { changes, .. } => changes.iter().any(Change::is_static),
            Action::Delete => false,
        }
    }

    /// Returns whether the statement has to read stored lists before it changes them.
    pub(super) fn reads_lists(&self) -> bool {
        match &*self.action {
            Action::Change { changes, .. } => {
                let mut changes = changes.iter();
                changes.any(|change| change.operation.reads_list())
            }
            Action::Delete => false,
        }
    }

    /// Returns the greatest timestamp of the drops of columns to which the statement writes a
    /// value; [`i64::MIN`] if there are none. In such a column the drop hides values whose
    /// timestamps are not greater. Columns in which the statement only deletes values do not count.
    ///
    /// # Errors
    /// Cassandra's error for an invalid value.
    pub(super) fn dropped_up_to(&self, bound: &Bound<'_>) -> Result<i64> {
        let schema = self.table.schema();
        let Action::Change { changes, .. } = &*self.action else {
            return Ok(i64::MIN);
        };
        // The text of INSERT JSON is parsed once more only if a column was dropped and added again.
        if schema.dropped_cells().is_empty() {
            return Ok(i64::MIN);
        }
        self.with_values(bound, |bound| {
            let mut greatest = i64::MIN;
            for change in changes {
                if let Some(dropped_us) = schema.dropped_up_to(change.column.id)
                    && change.operation.sets_value(&change.column.ty, bound)?
                {
                    greatest = greatest.max(dropped_us);
                }
            }
            Ok(greatest)
        })
    }

    /// Returns whether the statement has USING TIMESTAMP.
    pub(super) fn has_timestamp(&self) -> bool {
        self.using.timestamp.is_some()
    }
}
