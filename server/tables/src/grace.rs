//! The time that deletions stay before merges may purge them: `gc_grace_seconds`, by table.
//!
//! The merge operator exists before the catalog, and merges call it while the schema changes. So it
//! does not call the catalog, which may wait for the store. Instead the catalog publishes the grace
//! periods here, and reading them takes no lock.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::catalog::CatalogState;

/// The grace periods of all tables in the catalog of one database. Clones share their content: the
/// code that opens the database passes one clone to the merge operator and one to the catalog.
#[derive(Debug, Clone, Default)]
pub struct GracePeriods {
    /// The grace periods in seconds, by `KEYSPACE.TABLE`.
    by_table: Arc<ArcSwap<HashMap<String, u32>>>,
}

impl GracePeriods {
    /// Replaces the grace periods by those of the tables in `state`.
    pub(super) fn set(&self, state: &CatalogState) {
        let keyspaces = state.tables().values();
        let of_table = |table: &Arc<super::CqlTable>| {
            let schema = table.schema();
            let name = format!("{}.{}", schema.keyspace(), schema.name());
            (name, schema.options().gc_grace_secs())
        };
        let all = keyspaces.flat_map(HashMap::values).map(of_table);
        self.by_table.store(Arc::new(all.collect()));
    }

    /// Returns a time in seconds since 1970. Merges may purge content that was deleted or expired
    /// before this time. It is `read_time_ms`, the time of the earliest reader, less the grace
    /// period of `table` (`KEYSPACE.TABLE`). If the grace period is unknown, the result is
    /// [`i64::MIN`], so that merges purge nothing by age.
    pub(super) fn gc_before_s(&self, table: &str, read_time_ms: u64) -> i64 {
        let Some(&grace_s) = self.by_table.load().get(table) else {
            return i64::MIN;
        };
        let read_time_s = i64::try_from(read_time_ms / 1000).unwrap_or(i64::MAX);
        read_time_s - i64::from(grace_s)
    }
}
