//! CREATE, ALTER, DROP, TRUNCATE TABLE.

use std::collections::{BTreeSet, HashSet};

use ebb_cql::protocol::{ErrorResponse, SchemaChangeKind, SchemaTarget};
use ebb_cql::syntax::ast::{
    AlterTable, ColumnDefinition, CreateTable, DropObject, Name, QualifiedName, TableChange,
};
use ebb_model::schema::{KeyspaceSchema, TableDefinition, TableOptions, TableSchema};
use uuid::Builder;

use super::properties::set_table_options;
use super::{Done, SchemaContext, changed, check_readable, in_keyspace, no_keyspace, resolve_type};
use crate::error::{Result, config, invalid, of_catalog, of_schema};
use crate::interrupt;
use crate::snapshots::names_snapshot;

fn target(name: &str) -> SchemaTarget {
    SchemaTarget::Table(name.to_string())
}

fn no_table(keyspace: &str, table: &str) -> ErrorResponse {
    ErrorResponse::invalid(format!("Table '{keyspace}.{table}' doesn't exist"))
}

pub(super) fn create(context: &SchemaContext<'_>, create: &CreateTable) -> Done {
    let (keyspace, name) = context.changeable(&create.table)?;
    let change = changed(SchemaChangeKind::Created, keyspace, target(name));
    context.change(change, |schema| {
        let of = schema
            .keyspace(keyspace)
            .ok_or_else(|| no_keyspace(keyspace))?;
        if of.table(name).is_some() && create.if_not_exists {
            return Ok(None);
        }
        let created = schema.create_table(define(of, create)?);
        let created = created.map_err(of_schema)?;
        // An unreadable table may have the id that the statement gives, and once it is readable again, two
        // tables would have that id. A random id is that of no other table.
        let mut properties = create.properties.iter();
        let has_id = properties.any(|property| property.name.as_str() == "id");
        if has_id && let Some(owner) = schema.unreadable_owner_of_id() {
            return Err(of_schema(owner));
        }
        Ok(Some(created))
    })
}

fn define(of: &KeyspaceSchema, create: &CreateTable) -> Result<TableDefinition> {
    let name = create.table.name.as_str();
    if create.compact_storage {
        return invalid("COMPACT STORAGE tables are not supported; leave WITH COMPACT STORAGE out");
    }
    let mut ordered = HashSet::new();
    for (column, _) in &create.clustering_order {
        if !ordered.insert(column) {
            return invalid(format!(
                "Duplicate column '{}' in CLUSTERING ORDER BY clause for table '{name}'",
                column.as_str()
            ));
        }
    }
    let mut options = TableOptions::default();
    let id = set_table_options(&mut options, &create.properties)?;
    let column = |column: &ColumnDefinition| {
        let ty = resolve_type(of, &column.type_name)?;
        Ok((column.name.as_str().to_string(), ty, column.is_static))
    };
    let columns = create.columns.iter().map(column);
    let names = |names: &[Name]| -> Vec<String> {
        names.iter().map(|name| name.as_str().to_string()).collect()
    };
    let key = create.primary_key.as_ref();
    let order = create.clustering_order.iter();
    let order = order.map(|(column, order)| (column.as_str().to_string(), *order));
    Ok(TableDefinition {
        keyspace: of.name().to_string(),
        name: name.to_string(),
        id: id.unwrap_or_else(|| Builder::from_random_bytes(rand::random()).into_uuid()),
        columns: columns.collect::<Result<_>>()?,
        partition_key: key.map(|key| names(&key.partition)).unwrap_or_default(),
        clustering: key.map(|key| names(&key.clustering)).unwrap_or_default(),
        order: order.collect(),
        options,
    })
}

pub(super) fn alter(context: &SchemaContext<'_>, alter: &AlterTable) -> Done {
    let (keyspace, name) = context.changeable(&alter.table)?;
    let change = changed(SchemaChangeKind::Updated, keyspace, target(name));
    context.change(change, |schema| {
        check_readable(schema, keyspace, Some(name))?;
        let found = schema.keyspace(keyspace);
        let Some((of, table)) = found.and_then(|of| Some((of, of.table(name)?))) else {
            return if alter.if_exists {
                Ok(None)
            } else {
                Err(no_table(keyspace, name))
            };
        };
        let next = changed_table(context, of, table, &alter.change)?;
        // A statement that changes nothing, such as ADD IF NOT EXISTS for an existing column, causes no
        // event for the drivers.
        if next == **table {
            return Ok(None);
        }
        let next = schema.alter_table(keyspace, name, |_| Ok(next));
        Ok(Some(next.map_err(of_schema)?))
    })
}

/// Charges the statement for one column that ALTER TABLE adds or drops, or for all that it renames.
/// Each such step copies the schema of the table, which takes hundreds of nanoseconds for each column
/// that the table has or had.
fn charge_step(table: &TableSchema) -> Result<()> {
    const COLUMNS_PER_UNIT: usize = 2;
    let columns = table.columns().len() + table.dropped().len();
    interrupt::charge(1 + (columns / COLUMNS_PER_UNIT) as u64)
}

/// Returns the table as ALTER TABLE changes it. Columns are added and dropped one after the other,
/// so that each change is checked against the result of those before it. Renames are checked
/// against the table before the statement.
fn changed_table(
    context: &SchemaContext<'_>,
    of: &KeyspaceSchema,
    table: &TableSchema,
    change: &TableChange,
) -> Result<TableSchema> {
    let mut next = table.clone();
    match change {
        TableChange::Add {
            if_not_exists,
            columns,
        } => {
            for column in columns {
                charge_step(&next)?;
                let name = column.name.as_str();
                // As in Cassandra, an unknown type is an error even if the column exists.
                let ty = resolve_type(of, &column.type_name)?;
                if *if_not_exists && next.column(name).is_some() {
                    continue;
                }
                let added = next.add_column(name, ty, column.is_static);
                next = added.map_err(of_schema)?;
            }
        }
        TableChange::Drop {
            if_exists,
            columns,
            timestamp,
        } => {
            // Cells up to this timestamp stay hidden if the column is added again. By default it is the
            // server's next timestamp, which is above all that the server gave to writes before.
            let dropped_us = match timestamp {
                Some(timestamp) => timestamp.text.parse().map_err(|_| {
                    ErrorResponse::invalid(format!("Invalid timestamp value: {}", timestamp.text))
                })?,
                None => context.catalog.timestamps().next_us().map_err(of_catalog)?,
            };
            for column in columns.iter().map(Name::as_str) {
                charge_step(&next)?;
                if *if_exists && next.column(column).is_none() {
                    continue;
                }
                next = next.drop_column(column, dropped_us).map_err(of_schema)?;
            }
        }
        TableChange::Rename { if_exists, columns } => {
            charge_step(table)?;
            let mut charged = Ok(());
            let renames = interrupt::charge_each(columns, &mut charged)
                .map(|(from, to)| (from.as_str(), to.as_str()))
                .filter(|(from, _)| !*if_exists || table.column(from).is_some());
            let renamed = table.rename_columns(renames);
            charged?;
            next = renamed.map_err(of_schema)?;
        }
        TableChange::With(written) => {
            let mut options = next.options().clone();
            if set_table_options(&mut options, written)?.is_some() {
                return config("Cannot alter table id.");
            }
            // The values were checked above; here the table itself checks the changed options.
            // The set makes each option be copied once: one with megabytes of text may be repeated.
            // `set_table_options` rejects unknown names, so `get` finds each of them.
            let named = written.iter().map(|property| property.name.as_str());
            let named: BTreeSet<&str> = named.collect();
            let changes = named.into_iter().filter_map(|name| {
                let value = options.get(name)?.clone();
                Some((name.to_string(), value))
            });
            next = next.alter_options(changes).map_err(of_schema)?;
        }
        // CREATE TABLE rejects COMPACT STORAGE, so no table has it.
        TableChange::DropCompactStorage => {
            return invalid("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE");
        }
        TableChange::Retype { .. } => {
            return invalid("Altering column types is no longer supported");
        }
    }
    Ok(next)
}

pub(super) fn drop(context: &SchemaContext<'_>, drop: &DropObject) -> Done {
    let (keyspace, name) = context.changeable(&drop.name)?;
    let change = changed(SchemaChangeKind::Dropped, keyspace, target(name));
    context.change(change, |schema| {
        if schema.has_table(keyspace, name) {
            Ok(Some(schema.drop_table(keyspace, name).map_err(of_schema)?))
        } else if drop.if_exists {
            Ok(None)
        } else {
            Err(no_table(keyspace, name))
        }
    })
}

pub(super) fn truncate(context: &SchemaContext<'_>, name: &QualifiedName) -> Result<()> {
    let keyspace = in_keyspace(name, context.keyspace)?;
    let name = name.name.as_str();
    let state = context.catalog.state();
    if context.system.has_keyspace(keyspace) {
        return invalid("Cannot truncate virtual tables");
    }
    if names_snapshot(&state, keyspace) {
        return invalid(format!(
            "Cannot truncate {keyspace}.{name}: a snapshot never changes"
        ));
    }
    check_readable(state.schema(), keyspace, Some(name))?;
    if state.schema().keyspace(keyspace).is_none() {
        return invalid(format!("keyspace {keyspace} does not exist"));
    }
    let Some(table) = state.table(keyspace, name) else {
        return invalid(format!("table {name} does not exist"));
    };
    // The truncation fails if the table was dropped after the lookup. So a check after the lookup
    // counts no permissions on an earlier table of the same name.
    (context.check)(state.schema())?;
    context.catalog.truncate(table).map_err(of_catalog)
}
