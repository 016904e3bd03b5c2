//! The CREATE statements of keyspaces, types, tables and indexes, as DESCRIBE prints them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::options::{Kind, OPTIONS};
use super::{ColumnKind, IndexedColumn, KeyspaceSchema, OptionValue, TableSchema};
use crate::types::identifier::Quoted;
use crate::types::{QuotedType, UserType};

/// Returns a text as a CQL string literal.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// Returns a map as a CQL literal. Its values are printed as strings if `quoted`, else unchanged.
fn map(entries: &BTreeMap<String, String>, quoted: bool) -> String {
    let entries: Vec<String> = entries
        .iter()
        .map(|(key, value)| {
            if quoted {
                format!("{}: {}", text(key), text(value))
            } else {
                format!("{}: {value}", text(key))
            }
        })
        .collect();
    format!("{{{}}}", entries.join(", "))
}

impl KeyspaceSchema {
    /// Returns the `CREATE KEYSPACE` statement, without the keyspace's types and tables.
    pub fn describe(&self) -> String {
        // Cassandra, too, prints two spaces before AND.
        format!(
            "CREATE KEYSPACE {} WITH replication = {}  AND durable_writes = {};",
            Quoted(&self.name),
            map(&self.replication, true),
            self.durable_writes
        )
    }
}

impl UserType {
    /// Returns the `CREATE TYPE` statement.
    pub fn describe(&self) -> String {
        let fields: Vec<String> = self
            .fields()
            .iter()
            .map(|(name, ty)| format!("    {} {ty}", Quoted(name)))
            .collect();
        format!(
            "CREATE TYPE {}.{} (\n{}\n);",
            Quoted(self.keyspace()),
            QuotedType(self.name()),
            fields.join(",\n")
        )
    }
}

impl IndexedColumn<'_> {
    /// Returns the `CREATE INDEX` statement of this index; `table` is the table that has the index.
    pub fn describe(&self, table: &TableSchema) -> String {
        format!(
            "CREATE INDEX {} ON {}.{} ({});",
            Quoted(&self.index.name),
            Quoted(&table.keyspace),
            Quoted(&table.name),
            self.target()
        )
    }
}

impl TableSchema {
    /// Returns the `CREATE TABLE` statement. If `with_id` is true, as for DESCRIBE ... WITH
    /// INTERNALS, it contains the id of the table.
    pub fn describe(&self, with_id: bool) -> String {
        let mut out = format!(
            "CREATE TABLE {}.{} (\n",
            Quoted(&self.keyspace),
            Quoted(&self.name)
        );
        let names = |kind| -> Vec<String> {
            let columns = self.columns_of(kind).iter();
            columns.map(|c| Quoted(&c.name).to_string()).collect()
        };
        let partition = names(ColumnKind::PartitionKey);
        let clustering = names(ColumnKind::Clustering);
        // CQL permits PRIMARY KEY beside a column only if this column is the whole key.
        let inline = partition.len() == 1 && clustering.is_empty();
        let mut lines: Vec<String> = self
            .columns
            .iter()
            .map(|c| {
                let what = match c.kind {
                    ColumnKind::Static => " static",
                    ColumnKind::PartitionKey if inline => " PRIMARY KEY",
                    _ => "",
                };
                format!("    {} {}{what}", Quoted(&c.name), c.ty)
            })
            .collect();
        if !inline {
            let first = match partition.as_slice() {
                [one] => one.clone(),
                many => format!("({})", many.join(", ")),
            };
            let key: Vec<String> = [first].into_iter().chain(clustering).collect();
            lines.push(format!("    PRIMARY KEY ({})", key.join(", ")));
        }
        out.push_str(&lines.join(",\n"));
        out.push_str("\n) WITH ");

        let mut properties = Vec::new();
        if with_id {
            properties.push(format!("ID = {}", self.id));
        }
        let order: Vec<String> = self
            .columns_of(ColumnKind::Clustering)
            .iter()
            .map(|c| format!("{} {}", Quoted(&c.name), c.order))
            .collect();
        if !order.is_empty() {
            properties.push(format!("CLUSTERING ORDER BY ({})", order.join(", ")));
        }
        for (name, kind, _) in OPTIONS {
            let value = match (kind, self.options.get(name)) {
                (_, None) => continue,
                // Accepted only for old clients, so not printed.
                _ if name == "dclocal_read_repair_chance" => continue,
                (Kind::Text, Some(OptionValue::Text(value))) => text(value),
                (_, Some(OptionValue::Text(value))) => value.clone(),
                // The values of extensions are blobs, which are not quoted.
                (kind, Some(OptionValue::Map(value))) => map(value, kind != Kind::Extensions),
            };
            properties.push(format!("{name} = {value}"));
        }
        // Writing to a `String` does not fail.
        let _ = write!(out, "{};", properties.join("\n    AND "));
        out
    }
}
