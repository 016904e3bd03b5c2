//! The problems of the database, read from memory alone, because readiness is probed every second.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{Engine, SpaceUse, TableCore};
use crate::disk::StuckCall;

/// The pause between two tries to get the lock of the catalog.
const RETRY_AFTER: Duration = Duration::from_millis(10);
/// The number of tries to get the lock of the catalog, half a second in all. A healthy disk takes
/// less time for a change of the catalog.
const TRIES_MAX: u32 = 50;

/// The problems of a database, from [`Db::health`](crate::Db::health).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// The reason why the database accepts no writes until it is opened anew: it was opened only to
    /// be read, or there was a failure. `None` if it accepts writes.
    pub read_only_cause: Option<String>,
    /// The kinds of work that found no space on the disk when they were last tried.
    pub starved: Vec<SpaceUse>,
    /// The calls on files of the database that have not returned for five seconds, the longest first. Only
    /// with `Maintenance::Background`.
    pub stuck_calls: Vec<StuckCall>,
    /// The tables with damaged or unreadable files, as `keyspace.table`: reads that need those files
    /// fail.
    pub damaged_tables: Vec<String>,
    /// The tables, as `keyspace.table`, with runs that merges leave out for a while, because the
    /// runs could not be read.
    pub left_out_tables: Vec<String>,
}

impl Engine {
    /// Returns the problems of the database, without access to the disk. If the creation or the
    /// drop of a table waits long for the disk, the problems of tables are left out.
    pub(crate) fn health(&self) -> Health {
        let tables = self.tables_within(TRIES_MAX).unwrap_or_default();
        let named = |is_bad: fn(&TableCore) -> bool| {
            let bad = tables.iter().filter(|table| is_bad(table));
            let names = bad.map(|table| format!("{}.{}", table.keyspace, table.name));
            names.collect::<Vec<_>>()
        };
        Health {
            read_only_cause: self.read_only_cause(),
            starved: self.events.starved(),
            stuck_calls: self.stuck_calls(),
            damaged_tables: named(|table| {
                table.version().all_runs().any(|run| !run.is_mergeable())
            }),
            left_out_tables: named(|table| !table.left_out.all().is_empty()),
        }
    }

    /// Returns the tables, or `None` if the catalog stays locked during all tries: a creation or a
    /// drop of a table locks it while the manifest is written.
    fn tables_within(&self, tries: u32) -> Option<Vec<Arc<TableCore>>> {
        for tried in 0..tries {
            if tried > 0 {
                thread::park_timeout(RETRY_AFTER);
            }
            if let Ok(catalog) = self.catalog.try_read() {
                return Some(catalog.tables().cloned().collect());
            }
        }
        None
    }
}
