//! Too large partitions, which are detected when the store writes them, logged, and counted for
//! operators.
//!
//! ```text
//!   flush, merge ─ bytes of a group ─> Db::on_large_group ─> LargePartition ─> log, counters
//! ```
//!
//! No statement fails because of a large partition, as in Cassandra: a write does not read the size
//! of its partition.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebb_model::key::{DecodedKey, header_key};
use ebb_model::schema::TableSchema;
use ebb_storage::LargeGroup;
use ebb_tables::Catalog;

use super::{Guardrails, Limit, Threshold};

/// A partition that was larger than a threshold when a flush or a merge wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargePartition {
    pub keyspace: String,
    pub table: String,
    /// The values of the columns of the partition key as text, separated by colons.
    pub key: String,
    /// Bytes of the written keys and values, before compression.
    pub bytes: u64,
    /// The threshold in bytes that the partition exceeds.
    pub threshold_bytes: u64,
    /// True if this is the threshold for warnings, false if it is that for errors.
    pub is_warning: bool,
    /// The message for the log about this partition, as in Cassandra.
    pub message: String,
}

/// Counters of the partitions that the store has written and that exceed a threshold.
#[derive(Debug, Default)]
pub struct LargePartitions {
    warnings: AtomicU64,
    failures: AtomicU64,
}

impl LargePartitions {
    /// Returns the number of times that the store wrote a partition larger than the threshold for
    /// warnings, but not larger than that for errors.
    pub fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::Relaxed)
    }

    /// Returns the number of times that the store wrote a partition larger than the threshold for
    /// errors.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

impl Guardrails {
    /// Begins to count the partitions of a catalog's tables that are larger than a threshold, and
    /// returns the counters. A partition is counted, and passed to `report`, each time a flush or a
    /// merge writes it. `report` runs on threads of the store and must not block.
    pub fn watch_partitions(
        &self,
        catalog: &Arc<Catalog>,
        report: impl Fn(&LargePartition) + Send + Sync + 'static,
    ) -> Arc<LargePartitions> {
        let counts = Arc::<LargePartitions>::default();
        let threshold = self.threshold(Limit::PartitionSize);
        let Some(above_bytes) = threshold.warn.or(threshold.fail) else {
            return counts;
        };
        // A strong reference would keep the catalog alive as long as its own database.
        let (of, counted) = (Arc::downgrade(catalog), counts.clone());
        let check = move |group: &LargeGroup<'_>| {
            let state = of.upgrade().map(|catalog| catalog.state());
            let table = state.and_then(|state| state.table(group.keyspace, group.table).cloned());
            // The table may have been dropped meanwhile.
            if let Some(large) = table.and_then(|table| large(threshold, table.schema(), group)) {
                let count = if large.is_warning {
                    &counted.warnings
                } else {
                    &counted.failures
                };
                count.fetch_add(1, Ordering::Relaxed);
                report(&large);
            }
        };
        catalog.db().on_large_group(above_bytes, check);
        counts
    }
}

/// Returns the report about a large group of keys that the store has written; `None` if the group
/// exceeds no threshold, or is no partition of the table.
fn large(
    threshold: Threshold,
    schema: &TableSchema,
    group: &LargeGroup<'_>,
) -> Option<LargePartition> {
    let above = |bytes: Option<u64>| bytes.filter(|bytes| group.bytes > *bytes);
    let (threshold_bytes, is_warning) = match (above(threshold.fail), above(threshold.warn)) {
        (Some(fail), _) => (fail, false),
        (None, warn) => (warn?, true),
    };
    let key = key_text(schema, group.prefix)?;
    let what = format!("{}.{}:{key}", group.keyspace, group.table);
    let message = Limit::PartitionSize.words(is_warning, &what, group.bytes, threshold_bytes);
    Some(LargePartition {
        keyspace: group.keyspace.to_owned(),
        table: group.table.to_owned(),
        key,
        bytes: group.bytes,
        threshold_bytes,
        is_warning,
        message,
    })
}

/// Returns the values of the partition key in `prefix`, a prefix of stored keys, as text. `None` if
/// `prefix` is not that of a partition of the table.
fn key_text(schema: &TableSchema, prefix: &[u8]) -> Option<String> {
    let header = header_key(prefix);
    let key = DecodedKey::read(&header).ok()?.partition_key;
    let layout = schema.layout();
    let values = layout.partition_values(key).ok()?;
    let mut text = Vec::new();
    for (place, (ty, value)) in layout.partition().iter().zip(values).enumerate() {
        if place > 0 {
            text.push(b':');
        }
        ty.write_text(value, &mut text);
    }
    Some(String::from_utf8_lossy(&text).into_owned())
}
