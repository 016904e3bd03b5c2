//! The record that a publication is whole: its tables, their metadata, and their numbers of rows.
//!
//! Publications of some tables of a snapshot, and then of others, have one record.

use ebb_publish::commit::Origin;
use serde::{Deserialize, Serialize};

use super::records::RowCounts;

/// The record that the publication of a snapshot is whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WholeRecord {
    database_id: String,
    snapshot: String,
    sequence_number: u64,
    read_time_s: i64,
    tables: Vec<WholeTable>,
    pub(super) empty_values_as_null: u64,
}

/// A table that is published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WholeTable {
    /// The folder in the target, `KEYSPACE/TABLE`.
    pub(super) table: String,
    /// The place of the metadata with the publication.
    pub(super) metadata: Option<String>,
    /// True if all rows were written; `None` if an earlier start has committed the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) is_whole: Option<bool>,
    /// The numbers of rows by the publication's effect on them; `None` if an earlier start has
    /// committed the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rows: Option<RowCounts>,
}

impl WholeRecord {
    /// Creates the record of a snapshot, without tables.
    pub(super) fn new(origin: &Origin) -> Self {
        Self {
            database_id: origin.database_id.clone(),
            snapshot: origin.snapshot.clone(),
            sequence_number: origin.sequence_number,
            read_time_s: origin.read_time_s,
            tables: Vec::new(),
            empty_values_as_null: 0,
        }
    }

    /// Returns whether the record is of the snapshot of `origin`, and not of another one with its name.
    pub(super) fn is_of(&self, origin: &Origin) -> bool {
        self.database_id == origin.database_id
            && self.snapshot == origin.snapshot
            && self.sequence_number == origin.sequence_number
            && self.read_time_s == origin.read_time_s
    }

    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.iter().any(|of| of.table == table)
    }

    /// Adds a table, or puts it in the place of the one with its name.
    pub(super) fn set(&mut self, table: WholeTable) {
        match self.tables.iter().position(|of| of.table == table.table) {
            Some(at) => self.tables[at] = table,
            None => self.tables.push(table),
        }
    }
}
