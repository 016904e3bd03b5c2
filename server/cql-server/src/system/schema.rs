//! `system_schema`: keyspaces, tables, columns and types as rows. They include the server's own
//! keyspaces that are not virtual ([`LOCAL_KEYSPACES`]), and snapshots as keyspaces: those that a
//! statement names, or else the listed ones.

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;

use bytes::Bytes;
use ebb_model::key::Order;
use ebb_model::schema::{
    Column, ColumnKind, KeyspaceSchema, OptionValue, TableOptions, TableSchema,
};
use ebb_storage::ErrorKind;
use ebb_tables::{CatalogError, keyspace_with_tables_at};

use super::cells::{bigint, boolean, double, int, list, map, text, uuid};
use super::virtual_table::{Definition, RowSet, no_rows};
use super::{Facts, LOCAL_KEYSPACES, Lookup};
use crate::error::{Result, of_catalog};
use crate::interrupt::{self, UNITS_PER_LOOK};

const KEYSPACE: &str = "system_schema";

/// Returns the keyspaces whose rows a statement reads: keyspaces of users, and snapshots that
/// clients see as keyspaces. Each has the name by which clients know it. If the statement names a
/// snapshot in its WHERE clause, the returned keyspace has only the tables whose names `has_table`
/// accepts.
fn users(
    facts: &Facts,
    lookup: &Lookup,
    has_table: impl Fn(&str) -> bool,
) -> Result<Vec<(String, Arc<KeyspaceSchema>)>> {
    let schema = facts.state.schema();
    let Some(names) = &lookup.keyspaces else {
        let keyspaces = schema.keyspaces();
        let keyspaces = keyspaces.map(|keyspace| (keyspace.name().to_string(), keyspace.clone()));
        let snapshots = facts.catalog.snapshot_keyspaces(&facts.state).into_iter();
        let snapshots = snapshots.map(|snapshot| (snapshot.name, snapshot.schema));
        return Ok(keyspaces.chain(snapshots).collect());
    };
    let mut found = Vec::new();
    for name in names {
        if let Some(keyspace) = schema.keyspace(name) {
            found.push((name.clone(), keyspace.clone()));
        } else if let Some((keyspace, snapshot)) = lookup.snapshots.get(name)
            && let Some(now) = schema.keyspace(keyspace)
        {
            // The records of the tables are read from disk, possibly on a thread that serves
            // connections.
            interrupt::charge(UNITS_PER_LOOK)?;
            match keyspace_with_tables_at(facts.catalog.db(), now, snapshot, &has_table) {
                Ok(then) => found.push((name.clone(), Arc::new(then))),
                // The snapshot has expired meanwhile.
                Err(CatalogError::Store(error)) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(of_catalog(error)),
            }
        }
    }
    Ok(found)
}

/// Returns the tables of a keyspace whose rows a statement reads, in the order of their names.
fn tables_of<'k>(keyspace: &'k KeyspaceSchema, lookup: &Lookup) -> Vec<&'k TableSchema> {
    match &lookup.tables {
        None => keyspace.tables().map(|table| &**table).collect(),
        Some(names) => {
            let tables = names.iter().filter_map(|name| keyspace.table(name));
            tables.map(|table| &**table).collect()
        }
    }
}

/// Calls `compute` for each table of users, of snapshots and of [`LOCAL_KEYSPACES`] whose rows a
/// page reads. `compute` gets the name of the keyspace and the schema of the table, and adds the
/// rows about the table.
pub(super) fn for_each_table(
    facts: &Facts,
    lookup: &Lookup,
    rows: &mut RowSet<'_>,
    compute: impl FnMut(&mut RowSet<'_>, &str, &TableSchema) -> Result<()>,
) -> Result<()> {
    let users = users(facts, lookup, |table| lookup.has_table(table))?;
    let of_users = users.iter();
    let of_users = of_users.map(|(name, keyspace)| (&name[..], tables_of(keyspace, lookup)));
    let own = own_tables(facts, lookup, LOCAL_KEYSPACES);
    rows.for_each_table(of_users.chain(own), compute)
}

/// Selects from `keyspaces`, which are keyspaces of the system, those whose rows a statement reads.
/// Returns the name of each, and those of its tables whose rows the statement reads, in the order
/// of their names.
pub(super) fn own_tables<'f>(
    facts: &'f Facts,
    lookup: &'f Lookup,
    keyspaces: &'static [&'static str],
) -> impl Iterator<Item = (&'f str, Vec<&'f TableSchema>)> {
    let read = keyspaces
        .iter()
        .filter(move |name| lookup.has_keyspace(name));
    read.map(move |name| {
        let tables = facts.system.tables_of(slice::from_ref(name));
        let tables = tables.filter(|table| lookup.has_table(table.name()));
        (*name, tables.collect::<Vec<_>>())
    })
}

fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Bytes {
    list(texts.into_iter().map(text))
}

pub(super) const KEYSPACES: Definition = Definition {
    keyspace: KEYSPACE,
    name: "keyspaces",
    comment: "keyspace definitions",
    columns: &[
        "keyspace_name text",
        "durable_writes boolean",
        "replication frozen<map<text, text>>",
    ],
    primary_key: &["keyspace_name"],
    rows: keyspaces,
};

fn keyspaces(facts: &Facts, lookup: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let replication = |options: &BTreeMap<String, String>| {
        let full = |(key, value): (&String, &String)| match key.as_str() {
            "class" if !value.contains('.') => (
                text(key),
                text(&format!("org.apache.cassandra.locator.{value}")),
            ),
            _ => (text(key), text(value)),
        };
        map(options.iter().map(full))
    };
    let row = |name: &str, durable: bool, options: &BTreeMap<String, String>| {
        [
            ("keyspace_name", text(name)),
            ("durable_writes", boolean(durable)),
            ("replication", replication(options)),
        ]
    };
    for (name, keyspace) in users(facts, lookup, |_| false)? {
        rows.push(row(
            &name,
            keyspace.durable_writes(),
            keyspace.replication(),
        ))?;
    }
    let local = BTreeMap::from([("class".to_string(), "LocalStrategy".to_string())]);
    let own = LOCAL_KEYSPACES.iter();
    for name in own.filter(|name| lookup.has_keyspace(name)) {
        rows.push(row(name, true, &local))?;
    }
    Ok(())
}

/// The columns that the tables `tables` and `views` share: options, and an id.
const OPTION_COLUMNS: [&str; 22] = [
    "additional_write_policy text",
    "allow_auto_snapshot boolean",
    "bloom_filter_fp_chance double",
    "caching frozen<map<text, text>>",
    "cdc boolean",
    "comment text",
    "compaction frozen<map<text, text>>",
    "compression frozen<map<text, text>>",
    "crc_check_chance double",
    "dclocal_read_repair_chance double",
    "default_time_to_live int",
    "extensions frozen<map<text, blob>>",
    "gc_grace_seconds int",
    "id uuid",
    "incremental_backups boolean",
    "max_index_interval int",
    "memtable text",
    "memtable_flush_period_in_ms int",
    "min_index_interval int",
    "read_repair text",
    "read_repair_chance double",
    "speculative_retry text",
];

/// Returns the columns `own` of a table, followed by [`OPTION_COLUMNS`]. The schema sorts all of
/// them.
const fn with_options<const OWN: usize, const ALL: usize>(
    own: [&'static str; OWN],
) -> [&'static str; ALL] {
    let mut all = [""; ALL];
    let (some, options) = all.split_at_mut(OWN);
    some.copy_from_slice(&own);
    options.copy_from_slice(&OPTION_COLUMNS);
    all
}

pub(super) const TABLES: Definition = Definition {
    keyspace: KEYSPACE,
    name: "tables",
    comment: "table definitions",
    columns: &with_options::<3, 25>([
        "keyspace_name text",
        "table_name text",
        "flags frozen<set<text>>",
    ]),
    primary_key: &["keyspace_name", "table_name"],
    rows: table_rows,
};

fn table_rows(facts: &Facts, lookup: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    for_each_table(facts, lookup, rows, |rows, keyspace, table| {
        let flags: &[&str] = if table.is_counter() {
            &["compound", "counter"]
        } else {
            &["compound"]
        };
        let mut cells = vec![
            ("keyspace_name", text(keyspace)),
            ("table_name", text(table.name())),
            ("flags", texts(flags.iter().copied())),
            ("id", uuid(table.id())),
            ("read_repair_chance", double(0.0)),
        ];
        cells.extend(option_cells(table.options()));
        rows.push(cells)
    })
}

/// Returns the options as cells, each with the name of its column, which is the name of the option.
fn option_cells(options: &TableOptions) -> impl Iterator<Item = (&str, Bytes)> {
    options.iter().filter_map(|(name, value)| {
        let cell = match (name, value) {
            ("extensions", OptionValue::Map(entries)) => {
                map(entries.iter().map(|(key, value)| (text(key), blob(value))))
            }
            (_, OptionValue::Map(entries)) => {
                map(entries.iter().map(|(key, value)| (text(key), text(value))))
            }
            ("cdc", OptionValue::Text(value)) => boolean(value.eq_ignore_ascii_case("true")),
            // The default one is null.
            ("memtable", OptionValue::Text(value)) if value == "default" => return None,
            (
                "additional_write_policy"
                | "comment"
                | "memtable"
                | "read_repair"
                | "speculative_retry",
                OptionValue::Text(value),
            ) => text(value),
            (_, OptionValue::Text(value)) if name.ends_with("_chance") => {
                double(value.parse().unwrap_or(0.0))
            }
            (_, OptionValue::Text(value)) => int(value.parse().unwrap_or(0)),
        };
        Some((name, cell))
    })
}

/// Decodes a blob written as `0x...`, whose form the schema has checked.
fn blob(hex: &str) -> Bytes {
    let digits = hex.trim_start_matches("0x").as_bytes();
    let digit = |d: u8| (d as char).to_digit(16).unwrap_or(0) as u8;
    let byte = |pair: &[u8]| digit(pair[0]) << 4 | digit(pair[1]);
    digits.chunks_exact(2).map(byte).collect()
}

pub(super) const COLUMNS: Definition = Definition {
    keyspace: KEYSPACE,
    name: "columns",
    comment: "column definitions",
    columns: COLUMN_COLUMNS,
    primary_key: &["keyspace_name", "table_name", "column_name"],
    rows: columns,
};

pub(super) const COLUMN_COLUMNS: &[&str] = &[
    "keyspace_name text",
    "table_name text",
    "column_name text",
    "clustering_order text",
    "column_name_bytes blob",
    "kind text",
    "position int",
    "type text",
];

fn columns(facts: &Facts, lookup: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    for_each_table(facts, lookup, rows, |rows, keyspace, table| {
        column_rows(keyspace, table, rows)
    })
}

/// Adds the rows about the columns of a table, in the order of their keys, until the page is full.
pub(super) fn column_rows(
    keyspace: &str,
    table: &TableSchema,
    rows: &mut RowSet<'_>,
) -> Result<()> {
    let row = |column: &Column| {
        let order = match (column.kind, column.order) {
            (ColumnKind::Clustering, Order::Asc) => "asc",
            (ColumnKind::Clustering, Order::Desc) => "desc",
            _ => "none",
        };
        let position = match column.kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => column.position as i32,
            ColumnKind::Static | ColumnKind::Regular => -1,
        };
        [
            ("keyspace_name", text(keyspace)),
            ("table_name", text(table.name())),
            ("column_name", text(&column.name)),
            ("clustering_order", text(order)),
            ("column_name_bytes", text(&column.name)),
            ("kind", text(column.kind.as_str())),
            ("position", int(position)),
            ("type", text(&column.ty.to_string())),
        ]
    };
    let mut columns: Vec<&Column> = table.columns().iter().collect();
    columns.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    for column in columns {
        if rows.is_full() {
            break;
        }
        rows.push(row(column))?;
    }
    Ok(())
}

pub(super) const DROPPED_COLUMNS: Definition = Definition {
    keyspace: KEYSPACE,
    name: "dropped_columns",
    comment: "dropped column registry",
    columns: &[
        "keyspace_name text",
        "table_name text",
        "column_name text",
        "dropped_time timestamp",
        "kind text",
        "type text",
    ],
    primary_key: &["keyspace_name", "table_name", "column_name"],
    rows: dropped_columns,
};

fn dropped_columns(facts: &Facts, lookup: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    for_each_table(facts, lookup, rows, |rows, keyspace, table| {
        // The last dropped column of each name.
        let last: BTreeMap<_, _> = table.dropped().iter().map(|d| (&*d.name, d)).collect();
        last.into_iter().try_for_each(|(name, dropped)| {
            rows.push([
                ("keyspace_name", text(keyspace)),
                ("table_name", text(table.name())),
                ("column_name", text(name)),
                ("dropped_time", bigint(dropped.dropped_us.div_euclid(1000))),
                ("kind", text(dropped.kind.as_str())),
                ("type", text(&dropped.ty.to_string())),
            ])
        })
    })
}

pub(super) const TYPES: Definition = Definition {
    keyspace: KEYSPACE,
    name: "types",
    comment: "user defined type definitions",
    columns: &[
        "keyspace_name text",
        "type_name text",
        "field_names frozen<list<text>>",
        "field_types frozen<list<text>>",
    ],
    primary_key: &["keyspace_name", "type_name"],
    rows: types,
};

fn types(facts: &Facts, lookup: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    for (name, keyspace) in users(facts, lookup, |_| true)? {
        for ty in keyspace.user_types() {
            let types: Vec<_> = ty.fields().iter().map(|(_, t)| t.to_string()).collect();
            rows.push([
                ("keyspace_name", text(&name)),
                ("type_name", text(ty.name())),
                (
                    "field_names",
                    texts(ty.fields().iter().map(|(name, _)| &**name)),
                ),
                ("field_types", texts(types.iter().map(String::as_str))),
            ])?;
        }
    }
    Ok(())
}

pub(super) const INDEXES: Definition = Definition {
    keyspace: KEYSPACE,
    name: "indexes",
    comment: "secondary index definitions",
    columns: &[
        "keyspace_name text",
        "table_name text",
        "index_name text",
        "kind text",
        "options frozen<map<text, text>>",
    ],
    primary_key: &["keyspace_name", "table_name", "index_name"],
    rows: indexes,
};

fn indexes(facts: &Facts, lookup: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    for_each_table(facts, lookup, rows, |rows, keyspace, table| {
        let mut indexes = table.indexed_columns();
        indexes.try_for_each(|indexed| {
            rows.push([
                ("keyspace_name", text(keyspace)),
                ("table_name", text(table.name())),
                ("index_name", text(&indexed.index.name)),
                ("kind", text("COMPOSITES")),
                ("options", map([(text("target"), text(&indexed.target()))])),
            ])
        })
    })
}

/// The built indexes. As in Cassandra, the column `table_name` contains the keyspace.
pub(super) const BUILT_INDEXES: Definition = Definition {
    keyspace: "system",
    name: "IndexInfo",
    comment: "built column indexes",
    columns: &["table_name text", "index_name text", "value blob"],
    primary_key: &["table_name", "index_name"],
    rows: built_indexes,
};

fn built_indexes(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    for keyspace in facts.state.schema().keyspaces() {
        let indexes = keyspace.tables().flat_map(|table| table.indexes());
        for index in indexes.filter(|index| !index.is_building) {
            rows.push([
                ("table_name", text(keyspace.name())),
                ("index_name", text(&index.name)),
                ("value", Bytes::new()),
            ])?;
        }
    }
    Ok(())
}

/// Empty tables for objects that ebb does not have. Drivers read each of them, and a missing table
/// would be an error.
pub(super) const ALWAYS_EMPTY: [Definition; 4] = [
    Definition {
        keyspace: KEYSPACE,
        name: "triggers",
        comment: "trigger definitions",
        columns: &[
            "keyspace_name text",
            "table_name text",
            "trigger_name text",
            "options frozen<map<text, text>>",
        ],
        primary_key: &["keyspace_name", "table_name", "trigger_name"],
        rows: no_rows,
    },
    Definition {
        keyspace: KEYSPACE,
        name: "views",
        comment: "view definitions",
        columns: &with_options::<6, 28>([
            "keyspace_name text",
            "view_name text",
            "base_table_id uuid",
            "base_table_name text",
            "include_all_columns boolean",
            "where_clause text",
        ]),
        primary_key: &["keyspace_name", "view_name"],
        rows: no_rows,
    },
    Definition {
        keyspace: KEYSPACE,
        name: "functions",
        comment: "user defined function definitions",
        columns: &[
            "keyspace_name text",
            "function_name text",
            "argument_types frozen<list<text>>",
            "argument_names frozen<list<text>>",
            "body text",
            "called_on_null_input boolean",
            "language text",
            "return_type text",
        ],
        primary_key: &["keyspace_name", "function_name", "argument_types"],
        rows: no_rows,
    },
    Definition {
        keyspace: KEYSPACE,
        name: "aggregates",
        comment: "user defined aggregate definitions",
        columns: &[
            "keyspace_name text",
            "aggregate_name text",
            "argument_types frozen<list<text>>",
            "final_func text",
            "initcond text",
            "return_type text",
            "state_func text",
            "state_type text",
        ],
        primary_key: &["keyspace_name", "aggregate_name", "argument_types"],
        rows: no_rows,
    },
];
