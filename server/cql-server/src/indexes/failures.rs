//! The errors of failed index builds, for the log and for `system_views.index_builds`, until the
//! indexes are built.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use uuid::Uuid;

use super::building::Building;

type Report = Box<dyn Fn(&str) + Send + Sync>;

/// The last failure of each table with unfinished indexes.
#[derive(Default)]
pub struct BuildFailures {
    by_table: Mutex<BTreeMap<Uuid, Failure>>,
    report: OnceLock<Report>,
}

#[derive(Debug)]
struct Failure {
    of: Building,
    error: String,
}

impl Failure {
    fn words(&self) -> String {
        let table = self.of.table.schema();
        let (keyspace, name) = (table.keyspace(), table.name());
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
    /// Calls `report` with a message for the present failure of each table, and for each later
    /// failure. Further calls of this method have no effect. `report` may block: readers of
    /// failures do not wait for it.
    pub fn on_failure(&self, report: impl Fn(&str) + Send + Sync + 'static) {
        let by_table = self.by_table();
        // Set while the lock is held, so that each failure is reported once.
        if self.report.set(Box::new(report)).is_err() {
            return;
        }
        let so_far: Vec<String> = by_table.values().map(Failure::words).collect();
        drop(by_table);
        if let Some(report) = self.report.get() {
            so_far.iter().for_each(|words| report(words));
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
        by_table.insert(failure.of.table.schema().id(), failure);
        let report = self.report.get();
        drop(by_table);
        if let Some(report) = report {
            report(&words);
        }
    }

    /// Removes the failures of all tables that are not in `building`.
    pub(super) fn keep(&self, building: &[Building]) {
        let is_kept = |of: &Building| building.iter().any(|one| one.is_of_table(&of.table));
        self.by_table().retain(|_, failure| is_kept(&failure.of));
    }

    fn by_table(&self) -> MutexGuard<'_, BTreeMap<Uuid, Failure>> {
        // Each change of the map is a single call, so a panic leaves it consistent.
        self.by_table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
