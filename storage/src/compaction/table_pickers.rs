//! Which tables have a picker of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::pick::CompactionPicker;

/// The pickers of tables that do not have that of the database.
///
/// A picker is code, and content does not depend on it: so it is not stored with the
/// table. Whoever opens the database says it, each time as they like, and whoever says
/// nothing merges with [`CompactionOptions::picker`](crate::CompactionOptions::picker).
///
/// ```
/// use ebb_storage::{CompactionOptions, TablePickers, TieredPicker};
///
/// // A table that is read far more than it is written.
/// let eager = TieredPicker { runs_before_merge: 3, ..TieredPicker::default() };
/// let compaction = CompactionOptions {
///     table_pickers: TablePickers::default().with("app", "prices", eager),
///     ..CompactionOptions::default()
/// };
/// # drop(compaction);
/// ```
#[derive(Debug, Clone, Default)]
pub struct TablePickers {
    /// By keyspace and name.
    pickers: BTreeMap<String, BTreeMap<String, Arc<dyn CompactionPicker>>>,
}

impl TablePickers {
    /// These and one more, of the table `keyspace.name`, whether it is there already or
    /// comes later; it takes the place of another of that table.
    #[must_use]
    pub fn with(
        mut self,
        keyspace: &str,
        name: &str,
        picker: impl CompactionPicker + 'static,
    ) -> Self {
        let of_keyspace = self.pickers.entry(keyspace.to_string()).or_default();
        of_keyspace.insert(name.to_string(), Arc::new(picker));
        self
    }

    pub(crate) fn get(&self, keyspace: &str, name: &str) -> Option<&Arc<dyn CompactionPicker>> {
        self.pickers.get(keyspace)?.get(name)
    }
}
