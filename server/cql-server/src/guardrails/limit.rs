//! Guardrails that limit a number, with the names of their settings, defaults and messages.

use super::Threshold;

/// A quantity that a guardrail limits, mostly of one statement. The variants have the names of
/// Cassandra 5.0's guardrails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The number of keyspaces that users have created, including the new one.
    Keyspaces,
    /// The number of tables that users have created, including the new one.
    Tables,
    /// The number of columns of a table that is created or altered.
    ColumnsPerTable,
    /// The number of indexes of a table, including the new one.
    SecondaryIndexesPerTable,
    /// The number of fields of a user-defined type that is created or altered.
    FieldsPerUdt,
    /// The page size that a client requests, in rows.
    PageSize,
    /// The number of partitions that the IN of a SELECT selects.
    PartitionKeysInSelect,
    /// The number of partition keys, or of clustering keys, that the INs of a SELECT combine to.
    InSelectCartesianProduct,
    /// The bytes of one value written to a column outside of the primary key; in a collection, of
    /// one element, map key or map value. A frozen collection is a single value.
    ColumnValueSize,
    /// The number of elements of a collection in one write.
    ItemsPerCollection,
    /// The bytes of the elements, or of the map keys and map values, of a collection in one write.
    /// For a frozen collection, the bytes of its serialized value, which contains the length of
    /// each element, too.
    CollectionSize,
    /// The bytes of one partition that one flush or merge writes.
    PartitionSize,
    /// The bytes of a batch that writes to several partitions.
    BatchSize,
    /// The number of partitions that a batch writes to, unless it is a logged batch.
    UnloggedBatchAcrossPartitions,
    /// The number of tombstones that a read passes in one page.
    Tombstones,
}

/// The unit of a limit in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Count,
    /// A size such as `5KiB`; a number without a unit is in bytes.
    Bytes,
}

impl Limit {
    /// All limits, in the order in which settings are displayed.
    pub(super) const ALL: [Self; 15] = [
        Self::Keyspaces,
        Self::Tables,
        Self::ColumnsPerTable,
        Self::SecondaryIndexesPerTable,
        Self::FieldsPerUdt,
        Self::PageSize,
        Self::PartitionKeysInSelect,
        Self::InSelectCartesianProduct,
        Self::ColumnValueSize,
        Self::ItemsPerCollection,
        Self::CollectionSize,
        Self::PartitionSize,
        Self::BatchSize,
        Self::UnloggedBatchAcrossPartitions,
        Self::Tombstones,
    ];

    /// Returns the name of the limit in errors and in settings.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Keyspaces => "keyspaces",
            Self::Tables => "tables",
            Self::ColumnsPerTable => "columns_per_table",
            Self::SecondaryIndexesPerTable => "secondary_indexes_per_table",
            Self::FieldsPerUdt => "fields_per_udt",
            Self::PageSize => "page_size",
            Self::PartitionKeysInSelect => "partition_keys_in_select",
            Self::InSelectCartesianProduct => "in_select_cartesian_product",
            Self::ColumnValueSize => "column_value_size",
            Self::ItemsPerCollection => "items_per_collection",
            Self::CollectionSize => "collection_size",
            Self::PartitionSize => "partition_size",
            Self::BatchSize => "batch_size",
            Self::UnloggedBatchAcrossPartitions => "unlogged_batch_across_partitions",
            Self::Tombstones => "tombstone",
        }
    }

    /// Returns the suffixes that turn the name of the limit into the names of its two settings. The
    /// second one is `None` if the limit only causes warnings.
    pub(super) fn suffixes(self) -> (&'static str, Option<&'static str>) {
        let fail = match self {
            Self::UnloggedBatchAcrossPartitions => None,
            Self::Tombstones => Some("_failure_threshold"),
            _ => Some("_fail_threshold"),
        };
        ("_warn_threshold", fail)
    }

    pub(super) fn unit(self) -> Unit {
        match self {
            Self::ColumnValueSize
            | Self::CollectionSize
            | Self::PartitionSize
            | Self::BatchSize => Unit::Bytes,
            _ => Unit::Count,
        }
    }

    /// Returns the default thresholds, equal to Cassandra's: the guardrails are off, but the limits
    /// that Cassandra had before its guardrails are on.
    pub(super) fn default_threshold(self) -> Threshold {
        let (warn, fail) = match self {
            Self::BatchSize => (Some(5 << 10), Some(50 << 10)),
            Self::UnloggedBatchAcrossPartitions => (Some(10), None),
            Self::Tombstones => (Some(1_000), Some(100_000)),
            _ => (None, None),
        };
        Threshold { warn, fail }
    }

    /// Returns whether the limit also holds for superusers. This is so for the limits that are
    /// older than Cassandra's guardrails.
    pub(super) fn holds_superusers(self) -> bool {
        matches!(
            self,
            Self::BatchSize | Self::UnloggedBatchAcrossPartitions | Self::Tombstones
        )
    }

    /// Returns the text of the warning or error for a number, `value`, above `threshold`, as in
    /// Cassandra. `what` is mostly the name of the object that the number belongs to. For
    /// tombstones it is a whole clause in a warning, and the name of a table in an error.
    pub(crate) fn words(self, is_warning: bool, what: &str, value: u64, threshold: u64) -> String {
        let kind = if is_warning { "warning" } else { "failure" };
        let words = match (self, is_warning) {
            (Self::Keyspaces, _) => made("keyspace", is_warning, what, value, threshold),
            (Self::Tables, _) => made("table", is_warning, what, value, threshold),
            (Self::ColumnsPerTable, true) => format!(
                "The table {what} has {value} columns, this exceeds the warning threshold of \
                 {threshold}."
            ),
            (Self::ColumnsPerTable, false) => format!(
                "Tables cannot have more than {threshold} columns, but {value} provided for \
                 table {what}"
            ),
            (Self::SecondaryIndexesPerTable, true) => format!(
                "Creating secondary index {what}, current number of indexes {value} exceeds \
                 warning threshold of {threshold}."
            ),
            (Self::SecondaryIndexesPerTable, false) => format!(
                "Tables cannot have more than {threshold} secondary indexes, aborting the \
                 creation of secondary index {what}"
            ),
            (Self::FieldsPerUdt, true) => format!(
                "The user type {what} has {value} columns, this exceeds the warning threshold of \
                 {threshold}."
            ),
            (Self::FieldsPerUdt, false) => format!(
                "User types cannot have more than {threshold} columns, but {value} provided for \
                 user type {what}."
            ),
            (Self::PageSize, true) => format!(
                "Query for table {what} with page size {value} exceeds warning threshold of \
                 {threshold}."
            ),
            (Self::PageSize, false) => format!(
                "Aborting query for table {what}, page size {value} exceeds fail threshold of \
                 {threshold}."
            ),
            (Self::PartitionKeysInSelect, true) => format!(
                "Query with partition keys in IN clause on table {what}, with number of partition \
                 keys {value} exceeds warning threshold of {threshold}."
            ),
            (Self::PartitionKeysInSelect, false) => format!(
                "Aborting query with partition keys in IN clause on table {what}, number of \
                 partition keys {value} exceeds fail threshold of {threshold}."
            ),
            (Self::InSelectCartesianProduct, true) => format!(
                "The cartesian product of the IN restrictions on {what} produces {value} values, \
                 this exceeds warning threshold of {threshold}."
            ),
            (Self::InSelectCartesianProduct, false) => format!(
                "Aborting query because the cartesian product of the IN restrictions on {what} \
                 produces {value} values, this exceeds fail threshold of {threshold}."
            ),
            (Self::ColumnValueSize, _) => format!(
                "Value of column '{what}' has size {value}, this exceeds the {kind} threshold of \
                 {threshold}."
            ),
            (Self::ItemsPerCollection, _) => format!(
                "Detected collection {what} with {value} items, this exceeds the {kind} threshold \
                 of {threshold}."
            ),
            (Self::CollectionSize, _) => format!(
                "Detected collection {what} of size {value}, this exceeds the {kind} threshold of \
                 {threshold}."
            ),
            (Self::PartitionSize, _) => format!(
                "Partition {what} has size {value}, this exceeds the {kind} threshold of \
                 {threshold}."
            ),
            // The limits from here on are older than guardrails, and their messages lack the beginning
            // below. A warning is only for a value above the threshold, so the excess is positive.
            (Self::BatchSize, true) => {
                let excess = value - threshold;
                return format!(
                    "Batch for {what} is of size {value}, exceeding specified threshold of \
                     {threshold} by {excess}."
                );
            }
            (Self::BatchSize, false) => return "Batch too large".into(),
            (Self::UnloggedBatchAcrossPartitions, _) => {
                return format!(
                    "Unlogged batch covering {value} partitions detected against {what}. You \
                     should use a logged batch for atomicity, or asynchronous writes for \
                     performance."
                );
            }
            (Self::Tombstones, true) => {
                return format!("Read {what} (see tombstone_warn_threshold)");
            }
            // The read ends as soon as it passes more tombstones, without a count of all.
            (Self::Tombstones, false) => {
                return format!(
                    "Operation failed - received 0 responses and 1 failures: \
                     READ_TOO_MANY_TOMBSTONES: scanned over {threshold} tombstones of {what} (see \
                     tombstone_failure_threshold)"
                );
            }
        };
        format!("Guardrail {} violated: {words}", self.name())
    }
}

/// Returns the message for creating the keyspace or table `what`, when `count`, the number of
/// keyspaces or tables including the new one, is above the threshold. `one` is "keyspace" or
/// "table".
fn made(one: &str, is_warning: bool, what: &str, count: u64, threshold: u64) -> String {
    if is_warning {
        format!(
            "Creating {one} {what}, current number of {one}s {count} exceeds warning threshold of \
             {threshold}."
        )
    } else {
        format!("Cannot have more than {threshold} {one}s, aborting the creation of {one} {what}")
    }
}
