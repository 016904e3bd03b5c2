//! The completion record of a publication: its tables, their metadata, and their numbers of rows.
//!
//! If some tables of a snapshot are published, and later others, both publications share one record.

use ebb_publish::commit::Origin;
use serde::{Deserialize, Serialize};

use super::records::RowCounts;

/// The completion record of a publication, which is written once all tables are committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WholeRecord {
    database_id: String,
    snapshot: String,
    sequence_number: u64,
    read_time_s: i64,
    tables: Vec<WholeTable>,
    pub(super) empty_values_as_null: u64,
}

/// A published table, in the completion record of its publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WholeTable {
    /// The name of the table: its folder in the target, `KEYSPACE/TABLE`.
    pub(super) table: String,
    /// The name in the target of the metadata file that contains the publication, or the file's
    /// location if a catalog has put it elsewhere; `None` if there is no such file.
    pub(super) metadata: Option<String>,
    /// True if all rows were written, false if only changed ones were; `None` if the table was
    /// committed before this run of the publication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) is_whole: Option<bool>,
    /// The numbers of rows, by the change that the publication made; `None` if the table was
    /// committed before this run of the publication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rows: Option<RowCounts>,
}

impl WholeRecord {
    /// Creates a record without tables for the snapshot `origin`.
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

    /// Returns whether the record is of the snapshot `origin`, and not of another one with the same
    /// name.
    pub(super) fn is_of(&self, origin: &Origin) -> bool {
        self.database_id == origin.database_id
            && self.snapshot == origin.snapshot
            && self.sequence_number == origin.sequence_number
            && self.read_time_s == origin.read_time_s
    }

    /// Returns the id of the database that published the snapshot.
    pub(super) fn database_id(&self) -> &str {
        &self.database_id
    }

    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.iter().any(|of| of.table == table)
    }

    /// Returns the names of the tables, in the order of the record.
    pub(super) fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|of| &of.table[..])
    }

    /// Removes the tables with these names.
    pub(super) fn remove(&mut self, names: &[String]) {
        self.tables.retain(|of| !names.contains(&of.table));
    }

    /// Adds the tables of an earlier record of the same snapshot, except for those that this record
    /// has.
    pub(super) fn add_earlier(&mut self, earlier: Self) {
        let mut tables = earlier.tables;
        tables.retain(|of| !self.has(&of.table));
        // If this record has all of these tables, it counts their empty values, too.
        if tables.is_empty() {
            return;
        }
        tables.append(&mut self.tables);
        self.tables = tables;
        self.empty_values_as_null += earlier.empty_values_as_null;
    }

    /// Adds a published table to the record, in place of an earlier entry for the same table.
    pub(super) fn set(&mut self, table: WholeTable) {
        match self.tables.iter().position(|of| of.table == table.table) {
            Some(at) => self.tables[at] = table,
            None => self.tables.push(table),
        }
    }
}
