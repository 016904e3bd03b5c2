//! The outcome of a statement, beyond the body of its RESULT.

use ebb_cql::protocol::SchemaChange;

/// The outcome of a statement, beyond the body of its RESULT.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Warnings for the client that sent the statement.
    pub warnings: Vec<String>,
    /// The keyspace that USE selected, if the statement was one.
    pub keyspace: Option<String>,
    /// Changes of the schema, in order: events for the connections that registered for them.
    pub changes: Vec<SchemaChange>,
    /// True if the statement created a snapshot, whose creation may be no change that clients see.
    pub created_snapshot: bool,
    /// True if the write conflicted with other writes and gave up. Nothing was written, and there is no
    /// body: the request may be executed again.
    pub is_in_conflict: bool,
    /// True if the result would have other columns than those in the response to PREPARE, by
    /// which the client decodes rows. Nothing was executed, and there is no body: the client has
    /// to prepare the statement again.
    pub is_outdated: bool,
}
