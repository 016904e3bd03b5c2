//! The outcome of a statement, except for the body of its RESULT.

use std::cell::RefCell;

use ebb_cql::protocol::SchemaChange;

/// The outcome of a statement, except for the body of its RESULT.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Warnings for the client that sent the statement.
    pub warnings: Vec<String>,
    /// The keyspace that the statement selected, if it was USE.
    pub keyspace: Option<String>,
    /// True if the statement created a snapshot. [`SchemaChanges`] do not show this, because a new
    /// snapshot may cause no event.
    pub created_snapshot: bool,
    /// True if the write gave up after conflicts with other writes. The request may be executed
    /// again: nothing was written, and there is no body.
    pub is_in_conflict: bool,
    /// True if the columns of the result would differ from those in the response to PREPARE, by
    /// which the client decodes rows. Nothing was executed, and there is no body: the client has to
    /// prepare the statement again.
    pub is_outdated: bool,
}

/// The schema changes of a call, in their order, which become events for the connections that
/// registered for events. They are no part of the [`Outcome`], because a statement may fail after it
/// has changed the schema, for example when the permissions of the creator cannot be stored.
#[derive(Debug, Default)]
pub struct SchemaChanges(RefCell<Vec<SchemaChange>>);

impl SchemaChanges {
    /// Adds changes that have taken effect.
    pub fn add(&self, changes: impl IntoIterator<Item = SchemaChange>) {
        self.0.borrow_mut().extend(changes);
    }

    /// Removes and returns all changes.
    pub fn take(&self) -> Vec<SchemaChange> {
        self.0.take()
    }
}
