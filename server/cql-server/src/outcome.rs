//! The outcome of a statement, except for the body of its RESULT.

use ebb_cql::protocol::SchemaChange;

/// The outcome of a statement, except for the body of its RESULT.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Warnings for the client that sent the statement.
    pub warnings: Vec<String>,
    /// The keyspace that the statement selected, if it was USE.
    pub keyspace: Option<String>,
    /// Changes of the schema, in their order, which become events for the connections that
    /// registered for events.
    pub changes: Vec<SchemaChange>,
    /// True if the statement created a snapshot. `changes` may be empty nevertheless, because a new
    /// snapshot may cause no event.
    pub created_snapshot: bool,
    /// True if the write gave up after conflicts with other writes. The request may be executed
    /// again: nothing was written, and there is no body.
    pub is_in_conflict: bool,
    /// True if the result would have other columns than the response to PREPARE, which the client
    /// decodes rows with. Nothing was executed, and there is no body: the client has to prepare the
    /// statement again.
    pub is_outdated: bool,
}
