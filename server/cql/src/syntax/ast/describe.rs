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
        /// True to include the system's own keyspaces.
        full: bool,
    },
    Keyspaces,
    /// `[ONLY] KEYSPACE [ks]`.
    Keyspace {
        /// The keyspace; `None` for the keyspace in use.
        name: Option<Name>,
        /// True to leave out the keyspace's contents.
        only: bool,
    },
    /// `SNAPSHOTS`, an addition of ebb.
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
    /// A name without a kind: a keyspace, or a table, index or view.
    Any(QualifiedName),
}
