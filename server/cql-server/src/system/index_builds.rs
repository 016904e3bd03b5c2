//! `system_views.index_builds`: the unfinished indexes.

use super::cells::text;
use super::virtual_table::{Definition, RowSet};
use super::{Facts, Lookup};
use crate::error::Result;

pub(super) const INDEX_BUILDS: Definition = Definition {
    keyspace: "system_views",
    name: "index_builds",
    comment: "indexes that are being built, and why the last build failed",
    columns: &[
        "keyspace_name text",
        "table_name text",
        "index_name text",
        "last_error text",
    ],
    primary_key: &["keyspace_name", "table_name", "index_name"],
    rows: index_builds,
};

fn index_builds(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let keyspaces = facts.state.schema().keyspaces();
    for table in keyspaces.flat_map(|keyspace| keyspace.tables()) {
        for index in table.indexes().iter().filter(|index| index.is_building) {
            let mut cells = vec![
                ("keyspace_name", text(table.keyspace())),
                ("table_name", text(table.name())),
                ("index_name", text(&index.name)),
            ];
            let failure = facts.index_failures.of(table.id(), index.id);
            cells.extend(failure.map(|error| ("last_error", text(&error))));
            rows.push(cells)?;
        }
    }
    Ok(())
}
