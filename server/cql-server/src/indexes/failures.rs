//! The errors of index builds that failed, for the log and `system_views.index_builds` until the
//! build is tried again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use uuid::Uuid;

use super::building::Building;

type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// The last failure of each table whose indexes are to be built.
#[derive(Default)]
pub struct BuildFailures {
    by_table: Mutex<BTreeMap<Uuid, Failure>>,
    tell: OnceLock<Tell>,
}

#[derive(Debug)]
struct Failure {
    of: Building,
    error: String,
}

impl Failure {
    fn words(&self) -> String {
        let Building { keyspace, name, .. } = &self.of;
        let error = &self.error;
        format!("the indexes of {keyspace}.{name} cannot be built, and are tried again: {error}")
    }
}

impl fmt::Debug for BuildFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BuildFailures")
            .field(&*self.by_table())
            .finish()
    }
}

impl BuildFailures {
    /// Calls `tell` with a message for each failure so far, and for each one from now on. Calls
    /// after the first have no effect. `tell` may block: readers of failures do not wait for it.
    pub fn tell(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        let by_table = self.by_table();
        // Set while the lock is held, so that each failure is passed to `tell` once.
        if self.tell.set(Box::new(tell)).is_err() {
            return;
        }
        let so_far: Vec<String> = by_table.values().map(Failure::words).collect();
        drop(by_table);
        if let Some(tell) = self.tell.get() {
            so_far.iter().for_each(|words| tell(words));
        }
    }

    /// Returns the error of the last build of an index, if the build failed.
    pub fn of(&self, table: Uuid, index: u32) -> Option<String> {
        let by_table = self.by_table();
        let failure = by_table.get(&table)?;
        let is_of_index = failure.of.indexes.contains(&index);
        is_of_index.then(|| failure.error.clone())
    }

    pub(super) fn note(&self, of: &Building, error: String) {
        let of = of.clone();
        let failure = Failure { of, error };
        let words = failure.words();
        let mut by_table = self.by_table();
        by_table.insert(failure.of.id, failure);
        let tell = self.tell.get();
        drop(by_table);
        if let Some(tell) = tell {
            tell(&words);
        }
    }

    /// Forgets the failures of tables that are not in `building`.
    pub(super) fn keep(&self, building: &[Building]) {
        let is_kept = |id: &Uuid| building.iter().any(|table| table.id == *id);
        self.by_table().retain(|id, _| is_kept(id));
    }

    fn by_table(&self) -> MutexGuard<'_, BTreeMap<Uuid, Failure>> {
        // Each change of the map is one call, so a panic leaves it whole.
        self.by_table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
