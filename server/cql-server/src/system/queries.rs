//! `system_views.queries`: the queries that wait or run in a lane.

use std::time::Duration;

use bytes::Bytes;

use super::cells::{bigint, inet, int, text};
use super::virtual_table::{Definition, RowSet};
use super::{Facts, Lookup};
use crate::error::Result;

/// The table `queries`. Its columns for times have the same names as in Cassandra's table.
pub(super) const QUERIES: Definition = Definition {
    keyspace: "system_views",
    name: "queries",
    comment: "scans, changes of the schema and other long statements that wait or run",
    columns: &[
        "id bigint",
        "address inet",
        "keyspace_name text",
        "lane text",
        "port int",
        "queued_micros bigint",
        "running_micros bigint",
        "state text",
        "statement text",
        "statements int",
        "username text",
        "waits_for text",
    ],
    primary_key: &["id"],
    rows: queries,
};

fn queries(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    for query in facts.activity.queries.rows_of(facts.queries_of.as_deref()) {
        let statements = i32::try_from(query.statements).unwrap_or(i32::MAX);
        let mut cells = vec![
            ("id", bigint(i64::try_from(query.id).unwrap_or(i64::MAX))),
            ("address", inet(query.address.ip())),
            ("lane", text(query.lane)),
            ("port", int(query.address.port().into())),
            ("queued_micros", micros(query.queued)),
            ("running_micros", micros(query.running)),
            ("state", text(query.state)),
            ("statement", text(&query.statement)),
            ("statements", int(statements)),
        ];
        let (keyspace, user) = (query.keyspace.as_deref(), query.user.as_deref());
        cells.extend(keyspace.map(|keyspace| ("keyspace_name", text(keyspace))));
        cells.extend(user.map(|user| ("username", text(user))));
        cells.extend(query.waits_for.map(|what| ("waits_for", text(what))));
        rows.push(cells)?;
    }
    Ok(())
}

fn micros(time: Duration) -> Bytes {
    bigint(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
}
