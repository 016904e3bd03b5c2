//! A table as the engine holds it.

use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use crate::error::{Error, Result};
use crate::merge_operator::MergeOperators;
use crate::merger::Merger;
use crate::options::TableOptions;
use crate::version::{TableId, TableVersion};

/// A table: its identity, and the version that readers take.
#[derive(Debug)]
pub(crate) struct TableCore {
    /// Which open database it is of: [`Engine::id`](super::Engine::id).
    pub(crate) database: u64,
    pub(crate) id: TableId,
    pub(crate) keyspace: String,
    pub(crate) name: String,
    pub(crate) options: TableOptions,
    pub(crate) merger: Arc<Merger>,
    version: ArcSwap<TableVersion>,
    /// Held to replace the version, never while doing I/O.
    replacing: Mutex<()>,
    /// Versions that were replaced and may still be read.
    retired: Mutex<Vec<Arc<TableVersion>>>,
}

impl TableCore {
    pub(crate) fn new(
        database: u64,
        id: TableId,
        (keyspace, name): (&str, &str),
        options: TableOptions,
        operators: &MergeOperators,
        version: TableVersion,
    ) -> Arc<Self> {
        let merger = Merger::new(
            format!("{keyspace}.{name}"),
            options.merge_operator.as_deref(),
            operators,
        );
        Arc::new(Self {
            database,
            id,
            keyspace: keyspace.to_string(),
            name: name.to_string(),
            options,
            merger: Arc::new(merger),
            version: ArcSwap::from_pointee(version),
            replacing: Mutex::default(),
            retired: Mutex::default(),
        })
    }

    /// # Errors
    /// `InvalidRequest` when the table was created without a merge operator.
    pub(crate) fn check_merges(&self) -> Result<()> {
        if self.options.merge_operator.is_some() {
            return Ok(());
        }
        Err(Error::InvalidRequest(format!(
            "table {}.{} has no merge operator; create it with one",
            self.keyspace, self.name
        )))
    }

    /// The table as it is now; it stays readable for as long as it is held.
    pub(crate) fn version(&self) -> Arc<TableVersion> {
        self.version.load_full()
    }

    /// The same for the length of a look-up, without counting a reference.
    pub(crate) fn peek(&self) -> arc_swap::Guard<Arc<TableVersion>> {
        self.version.load()
    }

    /// Replaces the version by what `change` makes of it; `None` keeps it.
    /// Returns whether it was replaced.
    pub(crate) fn update(
        &self,
        change: impl FnOnce(&TableVersion) -> Option<TableVersion>,
    ) -> bool {
        let _replacing = self.replacing.lock().unwrap();
        let Some(next) = change(&self.version.load()) else {
            return false;
        };
        let old = self.version.swap(Arc::new(next));
        self.retired.lock().unwrap().push(old);
        true
    }

    /// Lets go of old versions that no reader holds, and with them of memtables
    /// and files that only they had; returns how many are still held.
    ///
    /// A reader is never the last to let go: freeing a memtable of a hundred
    /// thousand entries, or removing a file, takes longer than many reads.
    pub(crate) fn release_retired(&self) -> usize {
        let mut retired = self.retired.lock().unwrap();
        let all = std::mem::take(&mut *retired);
        let (free, held) = all
            .into_iter()
            .partition(|version| Arc::strong_count(version) == 1);
        *retired = held;
        let left = retired.len();
        drop(retired);
        drop::<Vec<_>>(free);
        left
    }
}
