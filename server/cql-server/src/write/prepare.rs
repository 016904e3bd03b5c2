//! The analysis of writes: from the syntax tree to the plan.

use std::sync::Arc;

use ebb_cql::syntax::ast::{QualifiedName, Write};
use ebb_tables::CqlTable;

use super::condition::Conditions;
use super::keys::Keys;
use super::plan::WritePlan;
use super::using::Using;
use super::{delete, insert, update};
use crate::analyse::markers::Markers;
use crate::analyse::restrictions::{Conditional, Statement, Writing, Written};
use crate::error::{Result, invalid};

pub(super) fn table_of(write: &Write) -> &QualifiedName {
    match write {
        Write::Insert(statement) => &statement.table,
        Write::Update(statement) => &statement.table,
        Write::Delete(statement) => &statement.table,
    }
}

/// Plans a statement on its table, and stores in `markers` the receiver of each marker: the column,
/// argument or limit that its value is for.
pub(super) fn prepare(
    write: &Write,
    table: &Arc<CqlTable>,
    markers: &mut Markers,
) -> Result<WritePlan> {
    let schema = table.schema();
    if schema.is_counter() {
        check_counters(write)?;
    }
    let conditions = Conditions::prepare(write, schema, markers)?;
    let (statement, parts) = match write {
        Write::Insert(insert) => (Statement::Insert, insert::prepare(insert, schema, markers)?),
        Write::Update(update) => (Statement::Update, update::prepare(update, schema, markers)?),
        Write::Delete(delete) => (Statement::Delete, delete::prepare(delete, schema, markers)?),
    };
    let own = parts.action.written();
    // A condition on a row requires the full key, even if only static columns are written.
    let written = match own {
        Written::Statics if conditions.kinds().1 => Written::Rows,
        written => written,
    };
    let writing = Writing {
        statement,
        written,
        conditional: conditions.is_some().then_some(Conditional {
            writes_rows: own != Written::Statics,
        }),
    };
    Ok(WritePlan {
        table: Arc::clone(table),
        keys: Keys::prepare(schema, &parts.relations, writing, markers)?,
        using: Using::prepare(&parts.using, markers)?,
        action: parts.action,
        conditions,
        statement,
        json: parts.json,
        volatile: markers.take_volatile(),
    })
}

/// Checks that a write of counters is no INSERT, and has no timestamp and no TTL.
fn check_counters(write: &Write) -> Result<()> {
    let (timestamp, ttl) = match write {
        Write::Insert(_) => {
            return invalid(
                "INSERT statements are not allowed on counter tables, use UPDATE instead",
            );
        }
        Write::Update(update) => (&update.using.timestamp, &update.using.ttl),
        Write::Delete(delete) => (&delete.timestamp, &None),
    };
    match (timestamp, ttl) {
        (Some(_), _) => invalid("Cannot provide custom timestamp for counter updates"),
        (None, Some(_)) => invalid("Cannot provide custom TTL for counter updates"),
        (None, None) => Ok(()),
    }
}
