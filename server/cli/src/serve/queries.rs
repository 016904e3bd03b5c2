//! The queries of CQL, for HTTP.

use std::sync::Arc;
use std::time::Duration;

use ebb_cql_server::queries::{self, QueryRow};
use ebb_server::http::{Queries, QueryView};

/// The queries of a server of CQL.
#[derive(Debug)]
pub(super) struct CqlQueries(pub(super) Arc<queries::Queries>);

impl Queries for CqlQueries {
    fn list(&self) -> Vec<QueryView> {
        self.0.rows().into_iter().map(view).collect()
    }

    fn kill(&self, id: u64) -> Option<bool> {
        self.0.kill(id)
    }
}

fn view(row: QueryRow) -> QueryView {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    QueryView {
        id: row.id,
        address: row.address.to_string(),
        user: row.user,
        keyspace: row.keyspace,
        statement: row.statement,
        statements: u64::try_from(row.statements).unwrap_or(u64::MAX),
        lane: row.lane.to_owned(),
        state: row.state.to_owned(),
        waits_for: row.waits_for.map(str::to_owned),
        queued_ms: ms(row.queued),
        running_ms: ms(row.running),
    }
}
