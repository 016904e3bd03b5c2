//! DESCRIBE.

use super::{Name, QualifiedName};

/// `DESCRIBE | DESC what [WITH INTERNALS]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Describe {
    /// What is described.
    pub target: DescribeTarget,
    /// `WITH INTERNALS`.
    pub internals: bool,
}

/// What DESCRIBE describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DescribeTarget {
    /// `CLUSTER`.
    Cluster,
    /// `[FULL] SCHEMA`.
    Schema {
        /// With the system's own keyspaces.
        full: bool,
    },
    /// `KEYSPACES`.
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
    /// `TABLES`.
    Tables,
    /// `TABLE t`.
    Table(QualifiedName),
    /// `INDEX i`.
    Index(QualifiedName),
    /// `MATERIALIZED VIEW v`.
    View(QualifiedName),
    /// `TYPES`.
    Types,
    /// `TYPE t`.
    Type(QualifiedName),
    /// `FUNCTIONS`.
    Functions,
    /// `FUNCTION f`.
    Function(QualifiedName),
    /// `AGGREGATES`.
    Aggregates,
    /// `AGGREGATE a`.
    Aggregate(QualifiedName),
    /// Only a name: a keyspace, or a table, index or view.
    Any(QualifiedName),
}
