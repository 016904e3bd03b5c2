//! Syntax trees of CREATE, ALTER, DROP of keyspaces, tables, types, indexes.

pub use ebb_model::schema::IndexTarget as IndexTargetKind;

use super::{Constant, Name, Order, QualifiedName, TypeName};

/// `name = value` after WITH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    pub name: Name,
    pub value: PropertyValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyValue {
    /// A constant. An unquoted word that is no constant is parsed as a string in lower case.
    Constant(Constant),
    /// `{'class': 'SimpleStrategy', 'replication_factor': 1}`, as written; no repeated keys.
    Map(Vec<(Constant, Constant)>),
}

/// `CREATE KEYSPACE [IF NOT EXISTS] ks WITH ...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateKeyspace {
    pub name: Name,
    pub if_not_exists: bool,
    /// The options as written; no repeated names.
    pub properties: Vec<Property>,
}

/// `ALTER KEYSPACE [IF EXISTS] ks WITH ...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterKeyspace {
    pub name: Name,
    pub if_exists: bool,
    /// The options as written; no repeated names.
    pub properties: Vec<Property>,
}

/// `DROP KEYSPACE [IF EXISTS] ks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropKeyspace {
    pub name: Name,
    pub if_exists: bool,
}

/// `DROP TABLE | TYPE | INDEX [IF EXISTS] name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropObject {
    pub name: QualifiedName,
    pub if_exists: bool,
}

/// `CREATE TABLE [IF NOT EXISTS] t (...) [WITH ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTable {
    pub table: QualifiedName,
    pub if_not_exists: bool,
    /// The columns as written; names may be repeated.
    pub columns: Vec<ColumnDefinition>,
    /// The primary key; `c int PRIMARY KEY` makes a key of the one column `c`. `None` if the
    /// statement has no key, which is an error of the statement but not of its syntax.
    pub primary_key: Option<PrimaryKey>,
    /// `CLUSTERING ORDER BY (c DESC)`, as written.
    pub clustering_order: Vec<(Name, Order)>,
    pub compact_storage: bool,
    /// The options as written; no repeated names.
    pub properties: Vec<Property>,
}

/// `c int [STATIC]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDefinition {
    pub name: Name,
    pub type_name: TypeName,
    pub is_static: bool,
}

/// `PRIMARY KEY ((a, b), c, d)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimaryKey {
    /// The partition key, at least one column.
    pub partition: Vec<Name>,
    /// The clustering columns, possibly none.
    pub clustering: Vec<Name>,
}

/// `ALTER TABLE [IF EXISTS] t ...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterTable {
    pub table: QualifiedName,
    pub if_exists: bool,
    pub change: TableChange,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableChange {
    /// `ADD [IF NOT EXISTS] a int, b text`.
    Add {
        if_not_exists: bool,
        /// The new columns, at least one.
        columns: Vec<ColumnDefinition>,
    },
    /// `DROP [IF EXISTS] a, b [USING TIMESTAMP 1]`.
    Drop {
        if_exists: bool,
        /// The columns to drop, at least one.
        columns: Vec<Name>,
        /// The timestamp in microseconds since 1970, an integer.
        timestamp: Option<Constant>,
    },
    DropCompactStorage,
    /// `RENAME [IF EXISTS] a TO b AND c TO d`.
    Rename {
        if_exists: bool,
        /// Old and new names, at least one pair.
        columns: Vec<(Name, Name)>,
    },
    /// `ALTER [IF EXISTS] a TYPE int`, which Cassandra always rejects.
    Retype {
        if_exists: bool,
        column: Name,
        type_name: TypeName,
    },
    /// `WITH ...`, at least one option, no repeated names.
    With(Vec<Property>),
}

/// `CREATE TYPE [IF NOT EXISTS] t (a int, b text)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateType {
    pub name: QualifiedName,
    pub if_not_exists: bool,
    /// The fields as written; names may be repeated.
    pub fields: Vec<(Name, TypeName)>,
}

/// `ALTER TYPE [IF EXISTS] t ...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterType {
    pub name: QualifiedName,
    pub if_exists: bool,
    pub change: TypeChange,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeChange {
    /// `ADD [IF NOT EXISTS] a int`.
    Add {
        if_not_exists: bool,
        field: Name,
        type_name: TypeName,
    },
    /// `RENAME [IF EXISTS] a TO b AND c TO d`.
    Rename {
        if_exists: bool,
        /// Old and new names, at least one pair.
        fields: Vec<(Name, Name)>,
    },
    /// `ALTER [IF EXISTS] a TYPE int`, which Cassandra always rejects.
    Retype {
        if_exists: bool,
        field: Name,
        type_name: TypeName,
    },
}

/// `CREATE [CUSTOM] INDEX [IF NOT EXISTS] [i] ON t (...) [USING 'class'] [WITH ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateIndex {
    pub name: Option<QualifiedName>,
    pub if_not_exists: bool,
    pub custom: bool,
    pub table: QualifiedName,
    /// The columns to index, or parts of them such as `keys(c)`; possibly none.
    pub targets: Vec<IndexTarget>,
    pub class: Option<String>,
    /// The options as written; no repeated names.
    pub properties: Vec<Property>,
}

impl CreateIndex {
    /// Returns the name of the indexed table. If only the index is qualified with a keyspace, the table
    /// is in that keyspace, too.
    pub fn indexed_table(&self) -> QualifiedName {
        let of_index = self.name.as_ref().and_then(|name| name.keyspace.as_ref());
        QualifiedName {
            keyspace: self.table.keyspace.as_ref().or(of_index).cloned(),
            name: self.table.name.clone(),
        }
    }
}

/// `c`, `values(c)`, `keys(c)`, `entries(c)` or `full(c)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexTarget {
    pub kind: IndexTargetKind,
    pub column: Name,
}
