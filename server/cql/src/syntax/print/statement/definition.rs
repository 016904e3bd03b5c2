//! Printing of CREATE, ALTER, DROP, LIST, DESCRIBE.

use std::fmt::{Display, Formatter, Result};

use super::{if_exists, if_not_exists};
use crate::syntax::ast::{
    AlterKeyspace, AlterTable, AlterType, ColumnDefinition, CreateIndex, CreateKeyspace,
    CreateSnapshot, CreateTable, CreateType, Describe, DescribeTarget, DropSnapshot, IndexTarget,
    IndexTargetKind, ListSnapshots, Name, PrimaryKey, Property, PropertyValue, SnapshotScope,
    TableChange, TypeChange,
};
use crate::syntax::print::term::{TypeReference, string};
use crate::syntax::print::{JoinedItems, Pairs, comma, quoted};

/// Words that are keywords after DESCRIBE, so that an object with such a name needs quotes.
const DESCRIBED: &[&str] = &[
    "aggregates",
    "cluster",
    "columnfamilies",
    "functions",
    "keyspaces",
    "snapshots",
    "tables",
    "types",
];

impl Display for Property {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let name = &self.name;
        match &self.value {
            PropertyValue::Constant(value) => write!(f, "{name} = {value}"),
            PropertyValue::Map(entries) => write!(f, "{name} = {{{}}}", Pairs(entries)),
        }
    }
}

/// Prints ` WITH a = 1 AND b = 2`, or nothing.
struct With<'a>(&'a [Property]);

impl Display for With<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            [] => Ok(()),
            properties => write!(f, " WITH {}", JoinedItems(properties, " AND ")),
        }
    }
}

impl Display for CreateKeyspace {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let exists = if_not_exists(self.if_not_exists);
        let with = With(&self.properties);
        write!(f, "CREATE KEYSPACE {exists}{}{with}", self.name)
    }
}

impl Display for AlterKeyspace {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let exists = if_exists(self.if_exists);
        let with = With(&self.properties);
        write!(f, "ALTER KEYSPACE {exists}{}{with}", self.name)
    }
}

impl Display for CreateTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let exists = if_not_exists(self.if_not_exists);
        write!(f, "CREATE TABLE {exists}{} (", self.table)?;
        comma(&self.columns).fmt(f)?;
        if let Some(primary_key) = &self.primary_key {
            let before = if self.columns.is_empty() { "" } else { ", " };
            write!(f, "{before}{primary_key}")?;
        }
        f.write_str(")")?;
        let mut options = Vec::new();
        if self.compact_storage {
            options.push("COMPACT STORAGE".to_owned());
        }
        if !self.clustering_order.is_empty() {
            let mut order = self.clustering_order.iter();
            let order: Vec<_> = order.by_ref().map(|(c, o)| format!("{c} {o}")).collect();
            options.push(format!("CLUSTERING ORDER BY ({})", order.join(", ")));
        }
        options.extend(self.properties.iter().map(Property::to_string));
        if options.is_empty() {
            Ok(())
        } else {
            write!(f, " WITH {}", options.join(" AND "))
        }
    }
}

impl Display for ColumnDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let is_static = if self.is_static { " STATIC" } else { "" };
        write!(f, "{} {}{is_static}", self.name, self.type_name)
    }
}

impl Display for PrimaryKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.partition[..] {
            [column] => write!(f, "PRIMARY KEY ({column}")?,
            columns => write!(f, "PRIMARY KEY (({})", comma(columns))?,
        }
        for column in &self.clustering {
            write!(f, ", {column}")?;
        }
        f.write_str(")")
    }
}

impl Display for AlterTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let exists = if_exists(self.if_exists);
        write!(f, "ALTER TABLE {exists}{}{}", self.table, self.change)
    }
}

/// Prints the change after the table's name.
impl Display for TableChange {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            TableChange::Add {
                if_not_exists: is_set,
                columns,
            } => write!(f, " ADD {}{}", if_not_exists(*is_set), OneOrMore(columns)),
            TableChange::Drop {
                if_exists: is_set,
                columns,
                timestamp,
            } => {
                write!(f, " DROP {}{}", if_exists(*is_set), OneOrMore(columns))?;
                match timestamp {
                    Some(timestamp) => write!(f, " USING TIMESTAMP {timestamp}"),
                    None => Ok(()),
                }
            }
            TableChange::DropCompactStorage => f.write_str(" DROP COMPACT STORAGE"),
            TableChange::Rename {
                if_exists: is_set,
                columns,
            } => write!(f, " RENAME {}{}", if_exists(*is_set), Renames(columns)),
            TableChange::Retype {
                if_exists: is_set,
                column,
                type_name,
            } => write!(f, " ALTER {}{column} TYPE {type_name}", if_exists(*is_set)),
            TableChange::With(properties) => With(properties).fmt(f),
        }
    }
}

/// Prints `a`, or `(a, b)`.
struct OneOrMore<'a, T>(&'a [T]);

impl<T: Display> Display for OneOrMore<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            [one] => one.fmt(f),
            more => write!(f, "({})", comma(more)),
        }
    }
}

/// Prints `a TO b AND c TO d`.
struct Renames<'a>(&'a [(Name, Name)]);

impl Display for Renames<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (at, (from, to)) in self.0.iter().enumerate() {
            let and = if at > 0 { " AND " } else { "" };
            write!(f, "{and}{from} TO {to}")?;
        }
        Ok(())
    }
}

impl Display for CreateType {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let exists = if_not_exists(self.if_not_exists);
        write!(f, "CREATE TYPE {exists}{} (", TypeReference(&self.name))?;
        for (at, (name, type_name)) in self.fields.iter().enumerate() {
            let before = if at > 0 { ", " } else { "" };
            write!(f, "{before}{name} {type_name}")?;
        }
        f.write_str(")")
    }
}

impl Display for AlterType {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let name = TypeReference(&self.name);
        write!(f, "ALTER TYPE {}{name} ", if_exists(self.if_exists))?;
        match &self.change {
            TypeChange::Add {
                if_not_exists: is_set,
                field,
                type_name,
            } => write!(f, "ADD {}{field} {type_name}", if_not_exists(*is_set)),
            TypeChange::Rename {
                if_exists: is_set,
                fields,
            } => write!(f, "RENAME {}{}", if_exists(*is_set), Renames(fields)),
            TypeChange::Retype {
                if_exists: is_set,
                field,
                type_name,
            } => write!(f, "ALTER {}{field} TYPE {type_name}", if_exists(*is_set)),
        }
    }
}

impl Display for CreateIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let custom = if self.custom { "CUSTOM " } else { "" };
        let exists = if_not_exists(self.if_not_exists);
        write!(f, "CREATE {custom}INDEX {exists}")?;
        if let Some(name) = &self.name {
            write!(f, "{name} ")?;
        }
        write!(f, "ON {} ({})", self.table, comma(&self.targets))?;
        if let Some(class) = &self.class {
            write!(f, " USING {}", string(class))?;
        }
        With(&self.properties).fmt(f)
    }
}

impl Display for IndexTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let column = &self.column;
        match self.kind {
            IndexTargetKind::Simple => column.fmt(f),
            kind => write!(f, "{kind}({column})"),
        }
    }
}

impl Display for CreateSnapshot {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let exists = if_not_exists(self.if_not_exists);
        let with = With(&self.properties);
        write!(
            f,
            "CREATE SNAPSHOT {exists}{} ON {}{with}",
            self.name, self.on
        )
    }
}

impl Display for DropSnapshot {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            "DROP SNAPSHOT {}{}",
            if_exists(self.if_exists),
            self.name
        )?;
        on(f, &self.on)
    }
}

impl Display for ListSnapshots {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("LIST SNAPSHOTS")?;
        on(f, &self.on)
    }
}

fn on(f: &mut Formatter<'_>, scope: &Option<SnapshotScope>) -> Result {
    match scope {
        Some(scope) => write!(f, " ON {scope}"),
        None => Ok(()),
    }
}

impl Display for SnapshotScope {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            SnapshotScope::Keyspace(keyspace) => write!(f, "KEYSPACE {keyspace}"),
            SnapshotScope::Table(table) => write!(f, "TABLE {table}"),
        }
    }
}

impl Display for Describe {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "DESCRIBE {}", self.target)?;
        if self.internals {
            f.write_str(" WITH INTERNALS")
        } else {
            Ok(())
        }
    }
}

/// Prints the words after DESCRIBE.
impl Display for DescribeTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            DescribeTarget::Cluster => f.write_str("CLUSTER"),
            DescribeTarget::Schema { full: false } => f.write_str("SCHEMA"),
            DescribeTarget::Schema { full: true } => f.write_str("FULL SCHEMA"),
            DescribeTarget::Keyspaces => f.write_str("KEYSPACES"),
            DescribeTarget::Keyspace { name, only } => {
                f.write_str(if *only { "ONLY KEYSPACE" } else { "KEYSPACE" })?;
                match name {
                    Some(name) => write!(f, " {name}"),
                    None => Ok(()),
                }
            }
            DescribeTarget::Snapshots => f.write_str("SNAPSHOTS"),
            DescribeTarget::Tables => f.write_str("TABLES"),
            DescribeTarget::Table(name) => write!(f, "TABLE {name}"),
            DescribeTarget::Index(name) => write!(f, "INDEX {name}"),
            DescribeTarget::View(name) => write!(f, "MATERIALIZED VIEW {name}"),
            DescribeTarget::Types => f.write_str("TYPES"),
            DescribeTarget::Type(name) => write!(f, "TYPE {name}"),
            DescribeTarget::Functions => f.write_str("FUNCTIONS"),
            DescribeTarget::Function(name) => write!(f, "FUNCTION {name}"),
            DescribeTarget::Aggregates => f.write_str("AGGREGATES"),
            DescribeTarget::Aggregate(name) => write!(f, "AGGREGATE {name}"),
            DescribeTarget::Any(name) => {
                let first = name.keyspace.as_ref().unwrap_or(&name.name);
                if !DESCRIBED.iter().any(|word| *first == *word) {
                    return name.fmt(f);
                }
                f.write_str(&quoted(first))?;
                match &name.keyspace {
                    Some(_) => write!(f, ".{}", name.name),
                    None => Ok(()),
                }
            }
        }
    }
}
