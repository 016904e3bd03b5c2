//! The limits on the bytes and partitions of a batch: Cassandra's `batch_size` and
//! `unlogged_batch_across_partitions` thresholds.

use std::collections::HashSet;
use std::sync::Arc;

use ebb_cql::protocol::BatchKind;
use ebb_model::key::PartitionKey;
use ebb_tables::CqlTable;

use crate::error::Result;
use crate::guardrails::{Guardrails, Limit};

/// The tables and partitions of a batch. Only a batch over several partitions is limited: several
/// rows of one partition cost a node no more in a batch than one by one.
#[derive(Debug)]
pub(super) struct BatchSize {
    kind: BatchKind,
    /// The distinct tables of the batch.
    tables: Vec<Arc<CqlTable>>,
    /// The partitions of the batch. For a logged batch the first two suffice, since they show that
    /// the batch spans several partitions.
    partitions: HashSet<PartitionKey>,
    spans_keyspaces: bool,
}

impl BatchSize {
    pub(super) fn new(kind: BatchKind) -> Self {
        Self {
            kind,
            tables: Vec::new(),
            partitions: HashSet::new(),
            spans_keyspaces: false,
        }
    }

    /// Adds the table and the partitions of a statement. Returns the total length, in bytes, of the
    /// partition keys that were new and are kept in `partitions`.
    pub(super) fn add(&mut self, table: &Arc<CqlTable>, partitions: &[PartitionKey]) -> usize {
        let mut kept_bytes = 0;
        for partition in partitions {
            if self.kind == BatchKind::Logged && self.partitions.len() > 1 {
                break;
            }
            if !self.partitions.contains(partition) {
                self.partitions.insert(partition.clone());
                kept_bytes += partition.as_bytes().len();
            }
        }
        if (self.tables.iter()).any(|known| Arc::ptr_eq(known, table)) {
            return kept_bytes;
        }
        // Tables of a keyspace share its partitions.
        let keyspace = |table: &CqlTable| table.schema().keyspace().to_owned();
        if let Some(first) = self.tables.first() {
            self.spans_keyspaces |= keyspace(first) != keyspace(table);
        }
        self.tables.push(table.clone());
        kept_bytes
    }

    /// Checks the batch against guardrails, and adds their warnings to `warnings`. `bytes` is the
    /// length of all keys and operands of the batch.
    pub(super) fn check(
        &self,
        bytes: usize,
        guardrails: &Guardrails,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let partitions = self.partitions.len();
        if partitions < 2 && !self.spans_keyspaces {
            return Ok(());
        }
        let tables = self.tables.iter().map(|table| {
            let schema = table.schema();
            format!("{}.{}", schema.keyspace(), schema.name())
        });
        let tables = format!("[{}]", tables.collect::<Vec<_>>().join(", "));
        if self.kind != BatchKind::Logged {
            let plural = match self.tables.len() {
                1 => "",
                _ => "s",
            };
            let what = format!("table{plural} {tables}");
            let limit = Limit::UnloggedBatchAcrossPartitions;
            guardrails.check(limit, &what, partitions as u64, warnings)?;
        }
        guardrails.check(Limit::BatchSize, &tables, bytes as u64, warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::harness::Server;

    #[test]
    fn all_partitions_are_counted_only_for_unlogged_batches() {
        let server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY)"]);
        let state = server.executor.catalog().state();
        let table = state.table("ks", "t").unwrap();
        let keys = (0..5_i32).map(|k| PartitionKey::new(&[&k.to_be_bytes()]).unwrap());
        let keys: Vec<_> = keys.collect();
        for (kind, counted) in [(BatchKind::Logged, 2), (BatchKind::Unlogged, 5)] {
            let mut size = BatchSize::new(kind);
            for _ in 0..2 {
                size.add(table, &keys);
            }
            assert_eq!(size.partitions.len(), counted);
        }
    }
}
