//! CQL's rules of reconciliation, as the store's merge operator of CQL tables.
//!
//! The operator is needed whenever a database is opened, even by a command which only reads or
//! copies. [`database_options`] are the options to start from; `Node::open` of `ebb-server` adds
//! the operator to the options that it is given.
//!
//! The operator decides which garbage merges may purge. The grace periods come from the catalog
//! ([`GracePeriods`]). Without a catalog, as in commands that only read or copy, merges purge
//! content that the deletions of a partition shadow, and nothing by its age.

use ebb_model::key::{DecodedKey, EntryKey, Place, SCHEMA_KEY, is_index_entry};
use ebb_model::row::{
    self, Garbage, Header, RowError, Stats, header_stats, merge_headers, merge_rows, purge_header,
    purge_row, row_stats,
};
use ebb_model::schema::TableSchema;
use ebb_storage::{
    ExpiryBounds, Group, MergeOperator, MergeOperators, Options, PurgeContext, Purged,
    TimestampBounds, ValueBounds,
};

use super::grace::GracePeriods;

/// The name of the merge operator of CQL tables. The store keeps it with each table that has the operator,
/// and a table has the operator if and only if it was created as a CQL table, by a statement or a job.
pub const CQL_ROW: &str = "cql-row";

/// Returns the default options of a database, with the merge operator of CQL tables. They are for
/// uses without a catalog.
pub fn database_options() -> Options {
    with_cql_tables(Options::default(), &GracePeriods::default())
}

/// Adds the merge operator of CQL tables to these options. It purges deletions by the grace periods
/// in `grace_periods`, which must be given to the catalog, too.
pub fn with_cql_tables(options: Options, grace_periods: &GracePeriods) -> Options {
    let operator = CqlRow::new(grace_periods);
    Options {
        merge_operators: options.merge_operators.with(operator),
        ..options
    }
}

/// Returns the merge operators that tables of a database may name.
pub fn merge_operators() -> MergeOperators {
    MergeOperators::default().with(CqlRow::default())
}

/// The merge operator of CQL tables. It merges the writes of a row, or of a partition's header (its
/// deletions and static columns). The key shows whether it belongs to a row or to a header.
///
/// For the purge of deleted content, the keys of a partition are one group, and the header is the
/// head of the group. The store passes the header to the purge of each row, because the deletions
/// in the header may hide the row. The record of the schema and the entries of indexes are plain
/// values, whose versions the store drops by its own rules.
#[derive(Debug, Clone, Default)]
pub struct CqlRow {
    grace_periods: GracePeriods,
}

impl CqlRow {
    /// Creates the merge operator of CQL tables. It purges deletions by these grace periods, which
    /// a catalog sets.
    pub fn new(grace_periods: &GracePeriods) -> Self {
        Self {
            grace_periods: grace_periods.clone(),
        }
    }
}

impl MergeOperator for CqlRow {
    fn name(&self) -> &str {
        CQL_ROW
    }

    fn merge(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>, String> {
        let key = DecodedKey::read(key).map_err(|error| error.to_string())?;
        let merged = match key.place {
            Place::Header => merge_headers(older, newer),
            Place::Row(_) => merge_rows(older, newer),
        };
        merged.map_err(|error| error.to_string())
    }

    fn timestamps(&self, key: &[u8], value: &[u8]) -> Option<TimestampBounds> {
        self.bounds(key, value).timestamps
    }

    fn expiries(&self, key: &[u8], value: &[u8]) -> ExpiryBounds {
        self.bounds(key, value).expiries
    }

    fn bounds(&self, key: &[u8], value: &[u8]) -> ValueBounds {
        match stats_of(key, value) {
            Some(stats) => ValueBounds {
                timestamps: Some(TimestampBounds {
                    least: stats.least_timestamp,
                    greatest: stats.greatest_timestamp,
                    greatest_local_time_s: stats.greatest_local_time_s,
                }),
                expiries: expiries(stats.least_expiry_s, stats.greatest_expiry_s),
            },
            None => ValueBounds {
                timestamps: None,
                expiries: ExpiryBounds::Unknown,
            },
        }
    }

    fn group<'k>(&self, key: &'k [u8]) -> Option<Group<'k>> {
        if is_value(key) {
            return None;
        }
        let key = DecodedKey::read(key).ok()?;
        Some(Group {
            prefix: key.prefix,
            is_head: key.place == Place::Header,
        })
    }

    /// Returns the prefix of `key` that filters contain: that of its partition, or, for an entry of an index,
    /// that of all entries of the same value. `None` for the record of the schema, and for a damaged key.
    fn filter_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        if is_index_entry(key) {
            Some(EntryKey::read(key).ok()?.prefix)
        } else {
            Some(self.group(key)?.prefix)
        }
    }

    /// Removes garbage (tombstones and expired values that no reader needs) and content that the
    /// deletions in the partition's header hide. Hidden content must go even if the grace period is
    /// unknown. Later in the same merge the grace period may be known, and the header's deletions
    /// may be removed: hidden content that was kept would then reappear.
    fn purge(
        &self,
        key: &[u8],
        value: &[u8],
        context: &PurgeContext<'_>,
    ) -> Result<Purged, String> {
        if is_value(key) {
            return Ok(Purged::Kept);
        }
        let message = |error: RowError| error.to_string();
        let read_time_ms = context.read_time_ms;
        let garbage = Garbage {
            gc_before_s: self.grace_periods.gc_before_s(context.table, read_time_ms),
            oldest_elsewhere: context.oldest_elsewhere,
        };
        let key = DecodedKey::read(key).map_err(|error| error.to_string())?;
        let purged = match key.place {
            Place::Header => purge_header(value, garbage).map_err(message)?,
            Place::Row(clustering) => {
                let head = context
                    .head
                    .map(Header::parse)
                    .transpose()
                    .map_err(message)?;
                let above = head.and_then(|header| header.deletion_at(clustering));
                purge_row(value, above, garbage).map_err(message)?
            }
        };
        Ok(match purged {
            row::Purged::Kept => Purged::Kept,
            row::Purged::Rewritten(value) => Purged::Rewritten(value),
            row::Purged::Gone => Purged::Gone,
        })
    }

    /// Returns the names of the keyspace and the table if the entry is a readable record of a
    /// table's schema; otherwise `None`.
    fn table_of(&self, key: &[u8], value: &[u8]) -> Option<(String, String)> {
        if key != SCHEMA_KEY {
            return None;
        }
        let schema = TableSchema::decode(value).ok()?;
        Some((schema.keyspace().to_owned(), schema.name().to_owned()))
    }
}

/// Returns the bounds of timestamps and expiries in an operand; `None` if the key or the operand is
/// damaged. Plain values have neither timestamps nor expiries.
fn stats_of(key: &[u8], value: &[u8]) -> Option<Stats> {
    if is_value(key) {
        return Some(Stats::NONE);
    }
    let stats = match DecodedKey::read(key).ok()?.place {
        Place::Header => header_stats(value),
        Place::Row(_) => row_stats(value),
    };
    stats.ok()
}

/// Returns the bounds, in milliseconds since 1970, of expiries from the second `least_s` to the second
/// `greatest_s`, both included; [`ExpiryBounds::Never`] if `least_s` is the greater one. Content that expires
/// at second `s` is invisible from millisecond `s * 1000` on.
fn expiries(least_s: i64, greatest_s: i64) -> ExpiryBounds {
    if least_s > greatest_s {
        return ExpiryBounds::Never;
    }
    let at = |expiry_s: i64| {
        let expiry_s = u64::try_from(expiry_s).unwrap_or(0);
        ExpiryBounds::at_ms(expiry_s.saturating_mul(1000))
    };
    at(least_s).union(at(greatest_s))
}

/// Returns whether the entry with this key has a plain value (the record of the schema, or the entry of an
/// index) and not a merge operand.
fn is_value(key: &[u8]) -> bool {
    key == SCHEMA_KEY || is_index_entry(key)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ebb_model::key::{PartitionKey, entry_prefix};
    use ebb_model::row::{
        Cell, Deletion, Element, Expiry, Header, HeaderBuilder, Lifetime, RowBuilder, RowRef,
        RowView,
    };
    use ebb_model::schema::TableDefinition;
    use ebb_model::types::CqlType;
    use ebb_storage::simulation::MemDisk;
    use ebb_storage::{Db, TableOptions};

    use super::*;

    fn cell(timestamp: i64, value: &[u8]) -> Cell<'_> {
        let lifetime = Lifetime::Permanent;
        Cell {
            timestamp,
            lifetime,
            value,
        }
    }

    /// Returns the operand of an UPDATE of column 3.
    fn write(timestamp: i64, value: &[u8]) -> Vec<u8> {
        let mut operand = Vec::new();
        let mut row = RowBuilder::new(&mut operand, timestamp);
        row.cell(3, cell(timestamp, value));
        row.finish().unwrap();
        operand
    }

    /// Returns the operand of a DELETE of the partition.
    fn delete(timestamp: i64) -> Vec<u8> {
        let mut operand = Vec::new();
        let mut header = HeaderBuilder::new(&mut operand);
        header.deletion(Deletion {
            timestamp,
            local_time_s: 1,
        });
        operand
    }

    #[test]
    fn the_greater_timestamp_wins_in_any_order_of_commits() {
        let disk = MemDisk::new();
        let options = || Options {
            disk: Arc::new(disk.clone()),
            ..database_options()
        };
        let partition = PartitionKey::new(&[b"k"]).unwrap();
        let (header, row) = (
            partition.header_key(),
            [partition.prefix(), vec![1]].concat(),
        );
        let db = Db::open("/db", options()).unwrap();
        let keyspace = db.keyspace("ks").unwrap();
        let named = TableOptions {
            merge_operator: Some(CQL_ROW.to_string()),
            ..TableOptions::default()
        };
        let table = keyspace.table("t", named).unwrap();
        table.merge(&row, &write(9, b"newer")).unwrap();
        table.merge(&header, &delete(4)).unwrap();
        db.flush().unwrap();
        table.merge(&row, &write(5, b"older")).unwrap();
        table.merge(&header, &delete(3)).unwrap();
        drop((table, keyspace, db));

        // The database is flushed, merged and read after it is opened again.
        let db = Db::open("/db", options()).unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        let table = db
            .existing_keyspace("ks")
            .unwrap()
            .existing_table("t")
            .unwrap();
        let found = table.get(&row).unwrap().unwrap();
        let view = RowView::new(RowRef::parse(&found).unwrap(), None, 7);
        assert_eq!(view.cell(3).unwrap().unwrap().value, b"newer");
        let found = table.get(&header).unwrap().unwrap();
        let deletion = Header::parse(&found).unwrap().deletion();
        assert_eq!(deletion.map(|deletion| deletion.timestamp), Some(4));
    }

    /// Regression: a row or header was unreadable if it had a cell of a column, and a later write,
    /// after a change of the schema, had written a collection to the same column. It stayed
    /// unreadable even after the row or the partition was deleted.
    #[test]
    fn a_deletion_heals_what_has_a_cell_and_a_collection_in_one_column() {
        let options = Options {
            disk: Arc::new(MemDisk::new()),
            ..database_options()
        };
        let db = Db::open("/db", options).unwrap();
        let keyspace = db.keyspace("ks").unwrap();
        let named = TableOptions {
            merge_operator: Some(CQL_ROW.to_string()),
            ..TableOptions::default()
        };
        let table = keyspace.table("t", named).unwrap();
        let partition = PartitionKey::new(&[b"k"]).unwrap();
        let row = [partition.prefix(), vec![1]].concat();
        let header = partition.header_key();
        let collection = |mut row: RowBuilder<'_>, timestamp| {
            row.begin_collection(3, None);
            row.element(Element {
                path: b"x",
                original: None,
                cell: cell(timestamp, b"new"),
            });
            row.end_collection();
            row.finish().unwrap();
        };
        let static_cell = |timestamp| {
            let mut operand = Vec::new();
            let mut row = HeaderBuilder::new(&mut operand).static_row(timestamp);
            row.cell(3, cell(timestamp, b"old"));
            row.finish().unwrap();
            operand
        };
        table.merge(&row, &write(1, b"old")).unwrap();
        table.merge(&header, &static_cell(1)).unwrap();
        db.flush().unwrap();
        // There are two writes, so that a fold under the deletion first meets the older collection and the
        // cell as a pair, which cannot be merged.
        for timestamp in [2, 3] {
            let mut operand = Vec::new();
            collection(RowBuilder::new(&mut operand, timestamp), timestamp);
            table.merge(&row, &operand).unwrap();
            let mut operand = Vec::new();
            let statics = HeaderBuilder::new(&mut operand).static_row(timestamp);
            collection(statics, timestamp);
            table.merge(&header, &operand).unwrap();
        }
        assert!(table.get(&row).is_err() && table.get(&header).is_err());
        let mut deleted = Vec::new();
        let mut builder = RowBuilder::new(&mut deleted, 4);
        builder.deletion(Deletion {
            timestamp: 4,
            local_time_s: 1,
        });
        builder.finish().unwrap();
        table.merge(&row, &deleted).unwrap();
        table.merge(&header, &delete(3)).unwrap();
        let check = || {
            assert_eq!(table.get(&row).unwrap().unwrap(), deleted);
            assert_eq!(table.get(&header).unwrap().unwrap(), delete(3));
        };
        check();
        db.flush().unwrap();
        check();
        db.compact().unwrap();
        check();
    }

    #[test]
    fn an_invalid_key_or_operand_is_an_error() {
        let operator = CqlRow::default();
        let row = [PartitionKey::new(&[b"k"]).unwrap().prefix(), vec![1]].concat();
        let merge = |key: &[u8], older: &[u8]| operator.merge(key, older, &write(2, b""));
        assert!(merge(b"short", &write(1, b"")).is_err());
        assert!(merge(&row, b"").is_err());
        assert!(merge(&row, &delete(1)).is_err());
        assert_eq!(operator.timestamps(&row, b""), None);
        assert_eq!(operator.timestamps(b"short", &write(1, b"")), None);
    }

    #[test]
    fn the_record_of_a_schema_names_its_table() {
        let columns = [("k", CqlType::Int, false)];
        let definition = TableDefinition::new(("app", "users"), &columns, &["k"], &[]);
        let schema = TableSchema::create(definition);
        let record = schema.unwrap().encode();
        let operator = CqlRow::default();
        let names = ("app".to_owned(), "users".to_owned());
        assert_eq!(operator.table_of(SCHEMA_KEY, &record), Some(names));
        assert_eq!(operator.table_of(b"other", &record), None);
        assert_eq!(operator.table_of(SCHEMA_KEY, b"{}"), None);
    }

    #[test]
    fn bounds_are_those_of_the_operand_and_the_schema_has_none() {
        let operator = CqlRow::default();
        let partition = PartitionKey::new(&[b"k"]).unwrap();
        let row = [partition.prefix(), vec![1]].concat();
        let both = operator.merge(&row, &write(4, b"a"), &write(9, b"b"));
        for (key, value, bounds) in [
            (row.clone(), both.unwrap(), (9, 9, i64::MAX)),
            (partition.header_key(), delete(4), (4, 4, 1)),
            (
                SCHEMA_KEY.to_vec(),
                b"{}".to_vec(),
                (i64::MAX, i64::MIN, i64::MIN),
            ),
            (
                [entry_prefix(3, b"v"), row.clone()].concat(),
                Vec::new(),
                (i64::MAX, i64::MIN, i64::MIN),
            ),
        ] {
            let found = operator.timestamps(&key, &value).unwrap();
            let found = (found.least, found.greatest, found.greatest_local_time_s);
            assert_eq!(found, bounds, "{key:02x?}");
            assert_eq!(operator.expiries(&key, &value), ExpiryBounds::Never);
        }
    }

    #[test]
    fn content_of_a_row_expires_within_its_bounds() {
        let operator = CqlRow::default();
        let partition = PartitionKey::new(&[b"k"]).unwrap();
        let row = [partition.prefix(), vec![1]].concat();
        let expiring = |expiry_s| Cell {
            timestamp: 5,
            lifetime: Lifetime::Expiring(Expiry { ttl_s: 1, expiry_s }),
            value: b"v",
        };
        let mut operand = Vec::new();
        let mut builder = RowBuilder::new(&mut operand, 5);
        builder.cell(3, expiring(9));
        builder.cell(4, expiring(7));
        builder.finish().unwrap();
        let within = |least_ms, greatest_ms| ExpiryBounds::Within {
            least_ms,
            greatest_ms,
        };
        assert_eq!(operator.expiries(&row, &operand), within(7000, 9000));
        let merged = operator.merge(&row, &operand, &write(4, b"a")).unwrap();
        assert_eq!(operator.expiries(&row, &merged), within(7000, 9000));
        // Expired before 1970: no reader sees it.
        assert_eq!(expiries(-3, 2), within(0, 2000));
        assert_eq!(operator.expiries(&row, b"damaged"), ExpiryBounds::Unknown);
        assert_eq!(operator.expiries(b"short", &operand), ExpiryBounds::Unknown);
    }
}
