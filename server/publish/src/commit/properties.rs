//! The names of ebb's own properties of Iceberg tables, and of its entries in the summaries of Iceberg snapshots.

use crate::iceberg::metadata::TableMetadata;

/// The property of an Iceberg table that holds the id of the database from which the table was published.
pub(super) const DATABASE_ID: &str = "ebb.database-id";
/// The property of an Iceberg table that holds the id of the database's table from which it was published.
pub(super) const TABLE_ID: &str = "ebb.table-id";
/// The entry of an Iceberg snapshot's summary that holds the name of the database's snapshot from
/// which it was published.
pub(super) const SNAPSHOT: &str = "ebb.snapshot";
/// The entry of an Iceberg snapshot's summary that holds the sequence number of the database's
/// snapshot: its position in the order of commits.
pub(super) const SEQUENCE_NUMBER: &str = "ebb.sequence-number";
/// The entry of an Iceberg snapshot's summary that holds the read time of the database's snapshot, in
/// seconds since 1970: cells that have expired by then are not published.
pub(super) const READ_TIME: &str = "ebb.read-time-s";

/// The property of an Iceberg table with the epoch of its newest commit by ebb. Earlier builds of ebb wrote none.
pub(super) const EPOCH: &str = "ebb.epoch";

/// The property of an Iceberg table that was taken over: the greatest Iceberg sequence number that its snapshots
/// had before. Later snapshots are publications of the present owner.
pub(super) const TAKEN_OVER_AT: &str = "ebb.taken-over-at";

/// Returns the greatest Iceberg sequence number from before the table was taken over; `None` if it never was.
pub(super) fn taken_over_at(metadata: &TableMetadata) -> Option<i64> {
    metadata.properties.get(TAKEN_OVER_AT)?.parse().ok()
}
