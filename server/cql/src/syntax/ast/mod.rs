//! The syntax tree of a statement.
//!
//! The tree of CQL 3.4.6 (Cassandra 4.1) and of ebb's own statements about snapshots and queries.
//! It owns its strings, and contains no positions and no types of a schema. Texts that differ only
//! in white space, comments, the case of words or redundant quotes result in equal trees.
//!
//! ```text
//! name         names, and names in a keyspace
//! types        types as written
//! term         values: constants, markers, literals, calls, arithmetic
//! relation     the relations of WHERE and the conditions of IF
//! select       SELECT, its selectors
//! write        INSERT, UPDATE, DELETE, BATCH
//! definition   CREATE, ALTER, DROP of keyspaces, tables, types, indexes
//! snapshot     CREATE, DROP, LIST SNAPSHOT
//! describe     DESCRIBE
//! role         CREATE, ALTER, DROP, GRANT, REVOKE, LIST of roles; identities
//! permission   GRANT, REVOKE, LIST of permissions
//! ```
mod definition;
mod describe;
mod name;
mod permission;
mod relation;
mod role;
mod select;
mod snapshot;
mod term;
mod types;
mod write;

pub use definition::*;
pub use describe::*;
pub use name::*;
pub use permission::*;
pub use relation::*;
pub use role::*;
pub use select::*;
pub use snapshot::*;
pub use term::*;
pub use types::*;
pub use write::*;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    Select(Select),
    /// `INSERT`, `UPDATE` or `DELETE`.
    Write(Write),
    Batch(Batch),
    /// `TRUNCATE [TABLE] t`.
    Truncate(QualifiedName),
    /// `USE ks`.
    Use(Name),
    CreateKeyspace(CreateKeyspace),
    AlterKeyspace(AlterKeyspace),
    DropKeyspace(DropKeyspace),
    CreateTable(CreateTable),
    AlterTable(AlterTable),
    DropTable(DropObject),
    CreateType(CreateType),
    AlterType(AlterType),
    DropType(DropObject),
    CreateIndex(CreateIndex),
    DropIndex(DropObject),
    Describe(Describe),
    CreateSnapshot(CreateSnapshot),
    DropSnapshot(DropSnapshot),
    ListSnapshots(ListSnapshots),
    /// `KILL QUERY 7`, by the id in `system_views.queries`, an addition of ebb.
    KillQuery(u64),
    Role(RoleStatement),
    Permission(PermissionStatement),
    /// A statement of CQL that ebb does not support.
    Unsupported(Unsupported),
}

/// A statement of which only the first words are parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// The kind of statement in capitals, such as `CREATE TRIGGER`. OR REPLACE is left out.
    pub what: &'static str,
    /// The whole statement unchanged, without surrounding white space and final semicolons.
    pub text: String,
}

/// A statement and the markers in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    pub statement: Statement,
    /// The name of each marker, `None` for `?`; [`Marker::index`] is an index into this list. If a
    /// name occurs twice in a statement, the list contains it twice.
    pub markers: Vec<Option<Name>>,
}
