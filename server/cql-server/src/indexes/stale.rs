//! Entries whose rows do not have the value any more are removed by whoever comes upon them.
//!
//! It is decided in a transaction of the store: the row is read again, and the entry removed
//! if it is stale at that instant. A write that gives the row the value again writes the entry
//! too, so one of the two commits is refused or comes later, and then it is there. Timestamps
//! do not count: a write with an old one that becomes visible brings its entry along.

use ebb_model::key::{DecodedKey, EntryKey, PARTITIONS_START, Place, ROW, header_key};
use ebb_model::schema::{ColumnKind, IndexedColumn};
use ebb_storage::Transaction;
use ebb_tables::read::LiveValues;
use ebb_tables::{Catalog, CqlTable};

use crate::error::{Result, of_key, of_store, of_table};

/// A value that expired counts as there for so long, for readers with a view from before.
const MARGIN_S: i64 = 60;

/// The most rows of a partition that are looked at to see whether it has one.
const ROWS_MAX: usize = 64;

/// Removes those of these entries of a table's indexes that are stale. What goes wrong leaves
/// them where they are: the next reader comes upon them, too.
pub fn remove_stale(catalog: &Catalog, table: &CqlTable, entries: &[Vec<u8>]) {
    if !entries.is_empty() {
        // A conflict too: who wrote it has made the entry right.
        drop(remove(catalog, table, entries));
    }
}

fn remove(catalog: &Catalog, table: &CqlTable, entries: &[Vec<u8>]) -> Result<()> {
    let mut transaction = catalog.db().begin();
    let now_s = catalog.timestamps().now_us().div_euclid(1_000_000);
    let values = LiveValues::new(table.schema(), now_s - MARGIN_S);
    let mut any = false;
    for entry in entries {
        let index = EntryKey::read(entry).map_err(of_key)?.index;
        let Some(indexed) = table.schema().indexed_column(index) else {
            continue;
        };
        if !is_right(&transaction, table, &values, indexed, entry)? {
            transaction.delete(table.rows(), entry).map_err(of_store)?;
            any = true;
        }
    }
    match any {
        true => transaction.commit().map(drop).map_err(of_store),
        false => Ok(()),
    }
}

/// Whether a reader finds the value where an entry says.
fn is_right(
    transaction: &Transaction,
    table: &CqlTable,
    values: &LiveValues<'_>,
    indexed: IndexedColumn<'_>,
    entry: &[u8],
) -> Result<bool> {
    let row_key = EntryKey::read(entry).map_err(of_key)?.row_key;
    let decoded = DecodedKey::read(row_key).map_err(of_key)?;
    let header_key = header_key(decoded.prefix);
    let get = |key: &[u8]| transaction.get(table.rows(), key).map_err(of_store);
    // The header first: see `ebb_tables::read`, the purge race.
    let header = get(&header_key)?;
    let mut is_right = false;
    if let Place::Row(_) = decoded.place {
        if let Some(row) = get(row_key)? {
            let entries = values.entries(indexed, row_key, header.as_deref(), &row, |found| {
                is_right |= found == entry;
            });
            entries.map_err(of_table)?;
        }
        return Ok(is_right);
    }
    if let Some(header) = &header {
        let entries = values.entries(indexed, &header_key, None, header, |found| {
            is_right |= found == entry;
        });
        entries.map_err(of_table)?;
    }
    if is_right || indexed.column.kind != ColumnKind::PartitionKey {
        return Ok(is_right);
    }
    // A column of the partition key has its value where the partition has any row.
    let from = [decoded.prefix, &[ROW]].concat();
    let to = [decoded.prefix, &[ROW + 1]].concat();
    debug_assert!(&from[..] > PARTITIONS_START);
    let rows = transaction
        .range(table.rows(), from..to)
        .map_err(of_store)?;
    for (at, row) in rows.enumerate() {
        if is_right || at == ROWS_MAX {
            return Ok(true);
        }
        let (key, row) = row.map_err(of_store)?;
        let entries = values.entries(indexed, &key, header.as_deref(), &row, |_| is_right = true);
        entries.map_err(of_table)?;
    }
    Ok(is_right)
}
