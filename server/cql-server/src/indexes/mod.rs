//! Secondary indexes, apart from the statements that write and read them.
//!
//! ```text
//!   write::indexes    a value that a row gets ─► its entry, in the same commit
//!   read::by_index    entries ─► rows, whose values are checked
//!   stale             entries whose rows have another value now ─► removed
//!   build             rows from before the index ─► entries, in the background
//!   building          the tables whose indexes are to be built
//!   failures          the errors of builds, for the log and system_views.index_builds
//! ```
//!
//! What always holds of an index that is not being built: a value that a reader sees in a row
//! has its entry at the same instant. So an entry may say too much, never too little, and the
//! row decides. Timestamps, times to live and deletions need no part in it.

mod build;
mod building;
mod failures;
mod stale;

use ebb_cql::protocol::{ErrorKind, ErrorResponse};
use ebb_tables::CqlTable;

pub use self::build::IndexBuilds;
pub use self::failures::BuildFailures;
pub use self::stale::remove_stale;
use crate::analyse::select::SelectPlan;
use crate::call::Call;
use crate::error::Result;

/// Refuses to read by an index that has not all rows yet.
pub fn check_built(plan: &SelectPlan, table: &CqlTable, call: &Call<'_>) -> Result<()> {
    let relation = plan.restrictions.index.as_ref();
    let indexed = relation.and_then(|relation| relation.of(table.schema()));
    match indexed.filter(|indexed| indexed.index.is_building) {
        None => Ok(()),
        Some(indexed) => Err(ErrorResponse {
            kind: ErrorKind::ReadFailure {
                consistency: call.parameters.consistency,
                received: 0,
                block_for: 1,
                failures: 1,
                data_present: false,
            },
            message: format!(
                "The secondary index '{}' is not yet available",
                indexed.index.name
            ),
        }),
    }
}

#[cfg(test)]
mod tests;
