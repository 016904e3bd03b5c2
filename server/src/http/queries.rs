//! The queries of CQL that wait or run in the server, for operators.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A source of the CQL queries that wait or run, which lists them and kills those that only read. A node does
/// not depend on the CQL server, so the program that starts both the CQL and the HTTP server provides this.
pub trait Queries: Debug + Send + Sync {
    /// Returns the queries that wait or run at present, the oldest first.
    fn list(&self) -> Vec<QueryView>;

    /// Kills a query that only reads, and returns true. Returns `None` if there is no query with this id or its
    /// client already has an error, and false if the query goes on, because it may change something.
    fn kill(&self, id: u64) -> Option<bool>;
}

/// A query of CQL.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct QueryView {
    /// The id: 1 for the first query since the start of the server.
    pub id: u64,
    /// The address and port of the client.
    pub address: String,
    /// The role of the client; `null` on a server without logins.
    pub user: Option<String>,
    /// The keyspace that the client uses; `null` if it uses none.
    pub keyspace: Option<String>,
    /// The statement, or the first one of a batch, with `?` for each constant; cut at a kilobyte.
    pub statement: String,
    /// The number of statements in the request: 1, or those of a batch.
    pub statements: u64,
    /// The lane, a queue with threads of its own for statements of one class: `scan` (reads of some
    /// partitions), `range` (reads that name no partition), `moved` (statements that took long among short
    /// ones), `schema` (changes of the schema) or `control` (`KILL QUERY`).
    pub lane: String,
    /// `waiting`, `running`, or `ending` if the client has its response but the thread still runs.
    pub state: String,
    /// The reason why the query waits: `client` (the client has to read earlier results first), `turn` (other
    /// queries of the same `lane` come first) or `memory` (there is no memory for the result yet). `null` if
    /// the query does not wait.
    pub waits_for: Option<String>,
    /// The time for which the query has waited in all, in milliseconds. A query that has run may wait again.
    pub queued_ms: u64,
    /// The time for which the query has run in all, in milliseconds.
    pub running_ms: u64,
}

/// The queries of CQL.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct QueryList {
    /// The queries of this page, the oldest first.
    pub queries: Vec<QueryView>,
    /// The value of `after` for the next page; `null` on the last one.
    pub next: Option<String>,
}
