//! A statement that writes, understood: ready to be executed any number of times.

use std::sync::Arc;

use ebb_catalog::schema::{Column, ColumnKind, TableSchema};
use ebb_cql::syntax::ast::{Condition, Write};
use ebb_tables::CqlTable;

use super::keys::Keys;
use super::operation::Operation;
use super::using::Using;
use super::{delete, insert, update};
use crate::analyse::markers::Markers;
use crate::error::{Result, invalid};

/// INSERT, UPDATE or DELETE on one table.
#[derive(Debug)]
pub(super) struct WritePlan {
    pub(super) table: Arc<CqlTable>,
    pub(super) using: Using,
    pub(super) keys: Keys,
    pub(super) action: Action,
}

/// What happens to the rows.
#[derive(Debug)]
pub(super) enum Action {
    /// Columns change.
    Change {
        /// The row exists from then on, whatever its columns are: INSERT.
        has_marker: bool,
        /// In the order of the statement.
        changes: Vec<Change>,
    },
    /// They are deleted: rows, ranges of rows or partitions, as the keys say.
    Delete,
}

/// What happens to one column.
#[derive(Debug)]
pub(super) struct Change {
    /// The column.
    pub(super) column: Column,
    /// What happens to it.
    pub(super) operation: Operation,
}

impl Change {
    pub(super) fn is_static(&self) -> bool {
        self.column.kind == ColumnKind::Static
    }
}

/// The plan of a statement on its table. What its markers stand for is noted.
///
/// # Errors
/// In Cassandra's words, where the statement does not fit the table; counters and
/// conditions, which are not served yet.
pub(super) fn prepare(
    write: &Write,
    table: &Arc<CqlTable>,
    markers: &mut Markers,
) -> Result<WritePlan> {
    let is_conditional = match write {
        Write::Insert(insert) => insert.if_not_exists,
        Write::Update(update) => update.condition != Condition::None,
        Write::Delete(delete) => delete.condition != Condition::None,
    };
    if is_conditional {
        return invalid("Conditional writes (IF ...) are not supported yet");
    }
    if table.schema().is_counter() {
        return invalid("Writes to counter tables are not supported yet");
    }
    match write {
        Write::Insert(statement) => insert::prepare(statement, table, markers),
        Write::Update(statement) => update::prepare(statement, table, markers),
        Write::Delete(statement) => delete::prepare(statement, table, markers),
    }
}

impl WritePlan {
    /// The table that is written to.
    pub(super) fn table(&self) -> &Arc<CqlTable> {
        &self.table
    }

    /// The places of the markers of the partition key, in its order; none where a column
    /// of it has no marker of its own.
    pub(super) fn partition_markers(&self) -> Vec<u16> {
        self.keys.partition_markers()
    }

    /// The statement says its timestamp itself.
    pub(super) fn has_timestamp(&self) -> bool {
        self.using.timestamp.is_some()
    }
}

/// The column of this name.
pub(super) fn column<'s>(schema: &'s TableSchema, name: &str) -> Result<&'s Column> {
    match schema.column(name) {
        Some(column) => Ok(column),
        None => invalid(format!(
            "Undefined column name {name} in table {}.{}",
            schema.keyspace(),
            schema.name()
        )),
    }
}
