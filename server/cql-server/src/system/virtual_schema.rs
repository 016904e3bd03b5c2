//! `system_virtual_schema`: the tables in its own keyspace and in `system_views`.

use super::cells::text;
use super::schema::{COLUMN_COLUMNS, column_rows, own_tables};
use super::virtual_table::{Definition, RowSet};
use super::{Facts, Lookup, VIRTUAL_KEYSPACES};
use crate::error::Result;

const KEYSPACE: &str = "system_virtual_schema";

pub(super) const KEYSPACES: Definition = Definition {
    keyspace: KEYSPACE,
    name: "keyspaces",
    comment: "virtual keyspace definitions",
    columns: &["keyspace_name text"],
    primary_key: &["keyspace_name"],
    rows: keyspaces,
};

fn keyspaces(_: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let mut all = VIRTUAL_KEYSPACES.iter();
    all.try_for_each(|name| rows.push([("keyspace_name", text(name))]))
}

pub(super) const TABLES: Definition = Definition {
    keyspace: KEYSPACE,
    name: "tables",
    comment: "virtual table definitions",
    columns: &["keyspace_name text", "table_name text", "comment text"],
    primary_key: &["keyspace_name", "table_name"],
    rows: tables,
};

fn tables(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    for table in facts.system.tables_of(VIRTUAL_KEYSPACES) {
        rows.push([
            ("keyspace_name", text(table.keyspace())),
            ("table_name", text(table.name())),
            ("comment", text(table.options().comment())),
        ])?;
    }
    Ok(())
}

pub(super) const COLUMNS: Definition = Definition {
    keyspace: KEYSPACE,
    name: "columns",
    comment: "virtual column definitions",
    columns: COLUMN_COLUMNS,
    primary_key: &["keyspace_name", "table_name", "column_name"],
    rows: columns,
};

fn columns(facts: &Facts, lookup: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let keyspaces = own_tables(facts, lookup, VIRTUAL_KEYSPACES);
    rows.for_each_table(keyspaces, |rows, keyspace, table| {
        column_rows(keyspace, table, rows)
    })
}
