//! Syntax trees of CREATE, DROP, LIST SNAPSHOT, which are additions of ebb.
//!
//! A snapshot's name belongs to a keyspace, whether the snapshot keeps the keyspace or one table.

use super::{Name, Property, QualifiedName};

/// `CREATE SNAPSHOT [IF NOT EXISTS] s ON ... [WITH ttl = '1h']`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSnapshot {
    pub name: Name,
    pub if_not_exists: bool,
    pub on: SnapshotScope,
    /// The options as written; no repeated names.
    pub properties: Vec<Property>,
}

/// `DROP SNAPSHOT [IF EXISTS] s [ON ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropSnapshot {
    pub name: Name,
    pub if_exists: bool,
    /// The keyspace to which the snapshot's name belongs, or the only table of the snapshot; `None`
    /// for the keyspace in use.
    pub on: Option<SnapshotScope>,
}

/// `LIST SNAPSHOTS [ON ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListSnapshots {
    /// Lists only the snapshots of this keyspace, or those that contain this table; `None` for all
    /// snapshots.
    pub on: Option<SnapshotScope>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SnapshotScope {
    /// `KEYSPACE ks`: all its tables at one moment.
    Keyspace(Name),
    /// `[TABLE] ks.t`.
    Table(QualifiedName),
}
