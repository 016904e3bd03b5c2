//! How long deletions stay before merges may purge them: `gc_grace_seconds`, by table.
//!
//! The merge operator is there before the catalog, and is asked by merges while the schema
//! changes. So it does not ask the catalog, which may wait for the store. The catalog tells
//! both what there is; whoever asks waits for nobody.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::catalog::CatalogState;

/// The grace of each table that the catalog of one database has. Clones are one and the
/// same: what opens the database gives one to the merge operator, and one to the catalog.
#[derive(Debug, Clone, Default)]
pub struct GracePeriods {
    /// In seconds, by `KEYSPACE.TABLE`.
    by_table: Arc<ArcSwap<HashMap<String, u32>>>,
}

impl GracePeriods {
    /// From now on these are the tables.
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

    /// Before when, in seconds since 1970, something must have been deleted or have
    /// expired so that merges for readers at `read_time_ms` may purge it. Of a table that
    /// is not known nothing is: it may have any grace.
    pub(super) fn gc_before_s(&self, table: &str, read_time_ms: u64) -> i64 {
        let Some(&grace_s) = self.by_table.load().get(table) else {
            return i64::MIN;
        };
        let read_time_s = i64::try_from(read_time_ms / 1000).unwrap_or(i64::MAX);
        read_time_s - i64::from(grace_s)
    }
}
