//! CREATE, DROP, LIST SNAPSHOT: ebb's own.
//!
//! A snapshot's name belongs to a keyspace, whether it keeps the keyspace or one table.

use super::{Name, Property, QualifiedName};

/// `CREATE SNAPSHOT [IF NOT EXISTS] s ON ... [WITH ttl = '1h']`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSnapshot {
    pub name: Name,
    pub if_not_exists: bool,
    pub on: SnapshotScope,
    /// As written, no name twice.
    pub properties: Vec<Property>,
}

/// `DROP SNAPSHOT [IF EXISTS] s [ON ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropSnapshot {
    pub name: Name,
    pub if_exists: bool,
    /// A keyspace or table whose snapshot is meant; without it, one of the keyspace in
    /// use.
    pub on: Option<SnapshotScope>,
}

/// `LIST SNAPSHOTS [ON ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListSnapshots {
    /// Only of this keyspace or table; without it, all of every keyspace.
    pub on: Option<SnapshotScope>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SnapshotScope {
    /// `KEYSPACE ks`: all its tables, at one moment.
    Keyspace(Name),
    /// `[TABLE] ks.t`.
    Table(QualifiedName),
}
