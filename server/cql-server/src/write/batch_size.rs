//! How large a batch may be: Cassandra's `batch_size_warn_threshold` and
//! `batch_size_fail_threshold` by default.

use std::sync::Arc;

use ebb_catalog::key::PartitionKey;
use ebb_tables::CqlTable;

use crate::error::{Result, invalid};

/// Above this size of all operands a batch gets a warning.
const WARN_BYTES: usize = 5 * 1024;
/// Above this it is refused.
const FAIL_BYTES: usize = 50 * 1024;

/// What is counted of a batch. Only one that spans several partitions has a limit: what one
/// partition gets in one write costs no node more than it would alone.
#[derive(Debug, Default)]
pub(super) struct BatchSize {
    /// Those written to, each once.
    tables: Vec<Arc<CqlTable>>,
    /// The first partition that is written to.
    first: Option<PartitionKey>,
    spans_partitions: bool,
}

impl BatchSize {
    /// Notes what a statement writes to.
    pub(super) fn add(&mut self, table: &Arc<CqlTable>, partitions: &[PartitionKey]) {
        for partition in partitions {
            let first = self.first.get_or_insert_with(|| partition.clone());
            self.spans_partitions |= first != partition;
        }
        if (self.tables.iter()).any(|known| Arc::ptr_eq(known, table)) {
            return;
        }
        // Tables of a keyspace share its partitions.
        let keyspace = |table: &CqlTable| table.schema().keyspace().to_owned();
        if let Some(first) = self.tables.first() {
            self.spans_partitions |= keyspace(first) != keyspace(table);
        }
        self.tables.push(table.clone());
    }

    /// The warning that a batch of so many bytes gets.
    ///
    /// # Errors
    /// In Cassandra's words, where it is too large.
    pub(super) fn check(&self, bytes: usize) -> Result<Vec<String>> {
        if !self.spans_partitions || bytes <= WARN_BYTES {
            return Ok(Vec::new());
        }
        if bytes > FAIL_BYTES {
            return invalid("Batch too large");
        }
        let tables = self.tables.iter().map(|table| {
            let schema = table.schema();
            format!("{}.{}", schema.keyspace(), schema.name())
        });
        Ok(vec![format!(
            "Batch for [{}] is of size {bytes}, exceeding specified threshold of {WARN_BYTES} by {}.",
            tables.collect::<Vec<_>>().join(", "),
            bytes - WARN_BYTES
        )])
    }
}
