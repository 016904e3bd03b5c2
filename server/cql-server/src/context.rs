//! What statements about the schema and about snapshots work on.

use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::ast::QualifiedName;
use ebb_tables::Catalog;

use super::system::SystemTables;

/// What the statements work on.
#[derive(Debug, Clone, Copy)]
pub struct SchemaContext<'a> {
    /// What is changed.
    pub catalog: &'a Catalog,
    /// What cannot be.
    pub system: &'a SystemTables,
    /// The keyspace in use.
    pub keyspace: Option<&'a str>,
}

/// The keyspace that a name lies in: its own, or the one in use.
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
