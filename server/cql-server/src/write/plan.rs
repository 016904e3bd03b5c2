//! A statement that writes, understood: ready to be executed any number of times.

use std::sync::Arc;

use ebb_cql::syntax::ast::{self, Relation};
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
    pub(super) keys: Keys,
    pub(super) action: Action,
    /// What must hold of the row, or nothing is written.
    pub(super) conditions: Conditions,
    pub(super) statement: Statement,
    pub(super) json: Option<JsonRow>,
    /// The volatile calls in all its terms.
    pub(super) volatile: VolatileCalls,
}

/// What a statement says, its columns found.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) relations: Vec<Relation>,
    pub(super) using: ast::Using,
    pub(super) action: Action,
    pub(super) json: Option<JsonRow>,
}

#[derive(Debug)]
pub(super) enum Action {
    Change {
        /// The row exists from then on, whatever its columns are: INSERT.
        has_marker: bool,
        changes: Vec<Change>,
    },
    /// They are deleted: rows, ranges of rows or partitions, as the keys say.
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
    /// The places of the markers of the partition key, in its order; none where a column
    /// of it has no marker of its own.
    pub(super) fn partition_markers(&self) -> Vec<u16> {
        match &self.json {
            // They are in the text.
            Some(_) => Vec::new(),
            None => self.keys.partition_markers(self.table.schema()),
        }
    }

    pub(super) fn counts(&self) -> bool {
        self.table.schema().is_counter()
    }

    /// Hands `use_bound` the values by which its keys and changes are known: those that are
    /// bound, and those that are in the text of INSERT JSON.
    ///
    /// # Errors
    /// What `use_bound` says; where the text says no row of the table.
    pub(super) fn with_values<T>(
        &self,
        bound: &Bound<'_>,
        use_bound: impl FnOnce(&Bound<'_>) -> Result<T>,
    ) -> Result<T> {
        match &self.json {
            None => use_bound(bound),
            Some(json) => {
                let values = json.read(self.table.schema(), bound)?;
                use_bound(&json.bind(&values, bound))
            }
        }
    }

    pub(super) fn writes_statics(&self) -> bool {
        match &self.action {
            Action::Change { changes, .. } => changes.iter().any(Change::is_static),
            Action::Delete => false,
        }
    }

    /// The statement says its timestamp itself.
    pub(super) fn has_timestamp(&self) -> bool {
        self.using.timestamp.is_some()
    }
}
