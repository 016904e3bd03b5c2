//! The context of statements about the schema and about snapshots.

use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::ast::QualifiedName;
use ebb_model::access::Resource;
use ebb_model::schema::Schema;
use ebb_tables::Catalog;

use super::error::Result;
use super::outcome::SchemaChanges;
use super::system::SystemTables;

/// A check that the user has the permissions that a statement requires under a schema.
pub type Check<'a> = &'a dyn Fn(&Schema) -> Result<()>;

/// A function that grants the user all permissions on a keyspace or table.
pub type Grant<'a> = &'a dyn Fn(&Resource) -> Result<()>;

/// The context in which statements about the schema and about snapshots are executed.
#[derive(Clone, Copy)]
pub struct SchemaContext<'a> {
    /// The catalog that statements change.
    pub catalog: &'a Catalog,
    /// The system's tables, which no statement changes.
    pub system: &'a SystemTables,
    /// The keyspace in use.
    pub keyspace: Option<&'a str>,
    /// The schema changes that the call has made so far.
    pub changes: &'a SchemaChanges,
    /// The check of the statement's permissions. Each statement calls it where its object can no
    /// longer be replaced by another one of the same name: under the lock of schema changes or, for
    /// TRUNCATE, after the lookup of the table. An earlier check may find permissions on a dropped
    /// object.
    pub check: Check<'a>,
    /// Grants the creator of a keyspace or table all permissions on it. Called under the lock of
    /// schema changes: after the lock is released, another user may drop the object and create one
    /// of the same name, and the grant would be on that one.
    pub grant: Grant<'a>,
}

/// Returns the keyspace of a qualified name; for an unqualified one, the keyspace in use.
///
/// # Errors
/// If the name is unqualified and no keyspace is in use.
pub fn in_keyspace<'n>(name: &'n QualifiedName, in_use: Option<&'n str>) -> Result<&'n str> {
    let own = name.keyspace.as_ref().map(|keyspace| keyspace.as_str());
    own.or(in_use).ok_or_else(|| {
        ErrorResponse::invalid(
            "No keyspace has been specified. USE a keyspace, or explicitly specify \
             keyspace.tablename",
        )
    })
}
