//! DESCRIBE.

use super::{Name, QualifiedName};

/// `DESCRIBE | DESC what [WITH INTERNALS]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Describe {
    pub target: DescribeTarget,
    pub internals: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DescribeTarget {
    Cluster,
    /// `[FULL] SCHEMA`.
    Schema {
        /// With the system's own keyspaces.
        full: bool,
    },
    Keyspaces,
    /// `[ONLY] KEYSPACE [ks]`.
    Keyspace {
        /// The one in use where none is named.
        name: Option<Name>,
        /// Without what is in it.
        only: bool,
    },
    /// `SNAPSHOTS`: ebb's own.
    Snapshots,
    Tables,
    Table(QualifiedName),
    Index(QualifiedName),
    /// `MATERIALIZED VIEW v`.
    View(QualifiedName),
    Types,
    Type(QualifiedName),
    Functions,
    Function(QualifiedName),
    Aggregates,
    Aggregate(QualifiedName),
    /// Only a name: a keyspace, or a table, index or view.
    Any(QualifiedName),
}
