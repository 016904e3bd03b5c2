//! Secondary indexes, apart from the statements that write and read through them.
//!
//! ```text
//!   write::indexes    a new value of a row ─► its entry, in the same commit
//!   read::by_index    entries ─► rows, whose values are checked
//!   stale             entries whose rows have another value ─► removed
//!   build             rows older than the index ─► entries, in the background
//!   building          the tables with unfinished indexes
//!   failures          the errors of builds, for the log and system_views.index_builds
//! ```
//!
//! The invariant of a built index: whenever a reader sees a value in a row, it also sees the entry
//! of the value. There may be stale entries, but none are missing, and readers check the row. So
//! timestamps, TTLs and deletions do not matter to the index. The exception is a reader whose time is
//! more than [`MARGIN_S`] before that of the server.

mod build;
mod building;
mod failures;
mod stale;

use ebb_cql::protocol::{ErrorKind, ErrorResponse};
use ebb_model::schema::IndexedColumn;
use ebb_tables::{Catalog, CqlTable};

pub use self::build::IndexBuilds;
pub use self::failures::BuildFailures;
pub use self::stale::remove_stale;
use crate::analyse::select::SelectPlan;
use crate::call::Call;
use crate::error::Result;

/// The number of seconds for which an expired value keeps its index entries. A later reader may
/// have an earlier time, at which the value is not expired. A client may name its own time
/// (`now_in_seconds`), and after a restart readers follow the clock, which may have been set back.
/// A reader whose time is earlier by more than this margin may miss values that it looks up by an
/// index. A reader with an older view needs no margin: it also sees the entries that were removed
/// later.
const MARGIN_S: i64 = 60;

/// Returns the time, in seconds since 1970, at which a value must be live to need an index entry.
/// This is [`MARGIN_S`] before `read_time_ms`, the time of a reader, or before the time of the
/// clock, whichever is earlier. After the clock was set back, the time of readers is ahead of the
/// clock.
fn expiry_time_s(catalog: &Catalog, read_time_ms: u64) -> i64 {
    let read_time_s = i64::try_from(read_time_ms / 1000).unwrap_or(i64::MAX);
    let clock_s = catalog.timestamps().now_us().div_euclid(1_000_000);
    read_time_s.min(clock_s) - MARGIN_S
}

/// Rejects a read whose plan uses an index that is unfinished, or that has been dropped since the
/// read took its schema. To be called after the read has opened its view, which may lack the
/// entries of a dropped index.
pub fn check_available(plan: &SelectPlan, table: &CqlTable, call: &Call<'_>) -> Result<()> {
    let relation = plan.restrictions.index.as_ref();
    let indexed = relation.and_then(|relation| relation.of(table.schema()));
    let lacks_entries = |indexed: &IndexedColumn<'_>| {
        indexed.index.is_building || table.is_index_dropped(indexed.index.id)
    };
    match indexed.filter(lacks_entries) {
        None => Ok(()),
        Some(indexed) => Err(ErrorResponse {
            kind: ErrorKind::ReadFailure {
                consistency: call.parameters.consistency,
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
