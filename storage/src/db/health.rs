//! The problems of the database, read from memory alone, because readiness is probed every second.

use super::{Engine, SpaceUse, TableCore};

/// The problems of a database, from [`Db::health`](crate::Db::health).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// The failure that stopped all writes until the database is opened anew, if there was one.
    pub read_only_cause: Option<String>,
    /// The kinds of work that found no space on the disk when they were last tried.
    pub starved: Vec<SpaceUse>,
    /// The tables with damaged or unreadable files, as `keyspace.table`: reads that need those files
    /// fail.
    pub damaged_tables: Vec<String>,
    /// The tables of which merges leave out runs for a while, because they could not be read.
    pub left_out_tables: Vec<String>,
}

impl Engine {
    /// Returns what is wrong, without a look at the disk.
    pub(crate) fn health(&self) -> Health {
        let tables = self.tables();
        let named = |is_bad: fn(&TableCore) -> bool| {
            let bad = tables.iter().filter(|table| is_bad(table));
            let names = bad.map(|table| format!("{}.{}", table.keyspace, table.name));
            names.collect::<Vec<_>>()
        };
        Health {
            read_only_cause: self.read_only_cause(),
            starved: self.events.starved(),
            damaged_tables: named(|table| {
                table.version().all_runs().any(|run| !run.is_mergeable())
            }),
            left_out_tables: named(|table| !table.left_out.all().is_empty()),
        }
    }
}
