//! CREATE and DROP INDEX.

use ebb_cql::protocol::{SchemaChange, SchemaChangeKind, SchemaTarget};
use ebb_cql::syntax::ast::{CreateIndex, DropObject};

use super::{Done, SchemaContext, changed, check_readable, in_keyspace, no_keyspace};
use crate::error::{Result, invalid, of_schema};

/// Returns the schema change that is reported for a new or dropped index: an update of its table.
fn updated(keyspace: &str, table: &str) -> SchemaChange {
    changed(
        SchemaChangeKind::Updated,
        keyspace,
        SchemaTarget::Table(table.to_owned()),
    )
}

pub(super) fn create(context: &SchemaContext<'_>, create: &CreateIndex) -> Done {
    let of_index = create.name.as_ref().and_then(|name| name.keyspace.as_ref());
    let named = create.indexed_table();
    let (keyspace, table) = context.changeable(&named)?;
    if of_index.is_some_and(|of| of.as_str() != keyspace) {
        return invalid(format!(
            "Keyspace name '{keyspace}' doesn't match index name '{table}'"
        ));
    }
    check_attributes(create)?;
    let name = create.name.as_ref().map(|name| name.name.as_str());
    context.change(updated(keyspace, table), |schema| {
        let of = schema
            .keyspace(keyspace)
            .ok_or_else(|| no_keyspace(keyspace))?;
        check_readable(schema, keyspace, Some(table))?;
        if of.table(table).is_none() {
            return invalid(format!("Table '{table}' doesn't exist"));
        }
        let [target] = &create.targets[..] else {
            return invalid(if create.targets.is_empty() {
                "Only CUSTOM indexes can be created without specifying a target column"
            } else {
                "Only CUSTOM indexes support multiple columns"
            });
        };
        let by = (target.column.as_str(), target.kind);
        let next = schema.create_index((keyspace, table), name, by, create.if_not_exists);
        next.map_err(of_schema)
    })
}

fn check_attributes(create: &CreateIndex) -> Result<()> {
    match (create.custom, &create.class) {
        (false, Some(_)) => invalid("Cannot specify index class for a non-CUSTOM index"),
        (true, None) => invalid("CUSTOM index requires specifiying the index class"),
        (true, Some(class)) => invalid(format!(
            "CUSTOM indexes are not supported ({class}); an index without CUSTOM and USING serves \
             = and CONTAINS"
        )),
        (false, None) if !create.properties.is_empty() => {
            invalid("Cannot specify options for a non-CUSTOM index")
        }
        (false, None) => Ok(()),
    }
}

pub(super) fn drop(context: &SchemaContext<'_>, drop: &DropObject) -> Done {
    context.changeable(&drop.name)?;
    let keyspace = in_keyspace(&drop.name, context.keyspace)?;
    let index = drop.name.name.as_str();
    context.change_by(|schema| {
        let known = schema.keyspace(keyspace);
        let is_there = known.is_some_and(|known| known.table_of_index(index).is_some());
        // An unreadable table may have the index, so that IF EXISTS must not succeed.
        let is_certain = schema.unreadable_owner_of_index(keyspace).is_none();
        if drop.if_exists && !is_there && is_certain {
            return Ok(None);
        }
        let (next, table) = schema.drop_index(keyspace, index).map_err(of_schema)?;
        Ok(Some((next, updated(keyspace, &table))))
    })
}
