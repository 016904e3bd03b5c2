//! The context of statements about the schema and about snapshots.

use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::ast::QualifiedName;
use ebb_tables::Catalog;

use super::outcome::SchemaChanges;
use super::system::SystemTables;

/// The context in which statements about the schema and about snapshots are executed.
#[derive(Debug, Clone, Copy)]
pub struct SchemaContext<'a> {
    /// The catalog that statements change.
    pub catalog: &'a Catalog,
    /// The system's tables, which no statement changes.
    pub system: &'a SystemTables,
    /// The keyspace in use.
    pub keyspace: Option<&'a str>,
    /// The schema changes that the call has made so far.
    pub changes: &'a SchemaChanges,
}

/// Returns the keyspace of a qualified name; for an unqualified one, the keyspace in use.
///
/// # Errors
/// If the name is unqualified and no keyspace is in use.
pub fn in_keyspace<'n>(
    name: &'n QualifiedName,
    in_use: Option<&'n str>,
) -> Result<&'n str, ErrorResponse> {
    let own = name.keyspace.as_ref().map(|keyspace| keyspace.as_str());
    own.or(in_use).ok_or_else(|| {
        ErrorResponse::invalid(
            "No keyspace has been specified. USE a keyspace, or explicitly specify \
             keyspace.tablename",
        )
    })
}
