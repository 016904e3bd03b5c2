//! The removal of stale entries, whose rows no longer have the value, by the readers that come
//! across them.
//!
//! A transaction of the store decides: it reads the row again, and removes the entry if the entry
//! is stale at that instant. A write that sets the value again also writes the entry. So either the
//! two commits conflict, or the write commits later and the entry exists. Timestamps do not matter:
//! a write with an old timestamp whose value becomes visible writes its entry, too.

use ebb_model::key::{DecodedKey, EntryKey, PARTITIONS_START, Place, ROW, header_key};
use ebb_model::schema::{ColumnKind, IndexedColumn};
use ebb_storage::{Cache, Transaction};
use ebb_tables::mutation::{Mutation, or_absent};
use ebb_tables::read::{LiveValues, Source};
use ebb_tables::{Catalog, CqlTable};

use super::expiry_time_s;
use crate::error::{Result, of_key, of_store, of_table};
use crate::pace::{StatementPace, charge_decoding};

/// The most rows of a partition that are read to find a live one, which bounds the work for each
/// index entry of a partition. If none of them is live and the partition has more rows, the index
/// entry is kept.
const ROWS_MAX: usize = 64;

/// Removes those of these index entries that are stale: the row or partition of a stale entry no
/// longer has the value of the entry. Reports no errors. If a check fails, or the statement's time
/// is over, the unchecked entries stay, and the next reader tries again.
pub fn remove_stale(catalog: &Catalog, table: &CqlTable, entries: &[Vec<u8>]) {
    if !entries.is_empty() {
        // A conflict is no error either: the conflicting write has written the right entry.
        drop(remove(catalog, table, entries));
    }
}

fn remove(catalog: &Catalog, table: &CqlTable, entries: &[Vec<u8>]) -> Result<()> {
    let mut transaction = catalog.db().begin();
    let now_s = expiry_time_s(catalog, transaction.read_time_ms());
    let values = LiveValues::new(table.schema(), now_s);
    let mut any = false;
    for entry in entries {
        let index = EntryKey::read(entry).map_err(of_key)?.index;
        let Some(indexed) = table.schema().indexed_column(index) else {
            continue;
        };
        // The removals so far are committed: the next reader may have no more time for the same checks.
        let Ok(is_live) = is_right(&transaction, table, &values, indexed, entry) else {
            break;
        };
        if !is_live {
            transaction.delete(table.rows(), entry).map_err(of_store)?;
            any = true;
        }
    }
    if any {
        transaction.commit().map(drop).map_err(of_store)
    } else {
        Ok(())
    }
}

/// Returns whether the row or partition of an index entry still has the value of the entry. Also
/// true if that is unknown after [`ROWS_MAX`] rows.
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
    let get = |key: &[u8]| {
        let read = transaction.get(table.rows(), key);
        or_absent(Mutation::UnreadableRowsAreStale, read).map_err(of_store)
    };
    // The header is read before the rows: see the purge race in `ebb_tables::read`.
    let header = get(&header_key)?;
    let charge = &mut charge_decoding;
    let mut is_right = false;
    if let Place::Row(_) = decoded.place {
        if let Some(row) = get(row_key)? {
            values
                .entries(indexed, row_key, header.as_deref(), &row, charge, |found| {
                    is_right |= found == entry;
                })
                .map_err(of_table)?;
        }
        return Ok(is_right);
    }
    if let Some(header) = &header {
        values
            .entries(indexed, &header_key, None, header, charge, |found| {
                is_right |= found == entry;
            })
            .map_err(of_table)?;
    }
    if is_right || indexed.column.kind != ColumnKind::PartitionKey {
        return Ok(is_right);
    }
    // A column of the partition key has its value if the partition has any live row.
    let from = [decoded.prefix, &[ROW]].concat();
    let to = [decoded.prefix, &[ROW + 1]].concat();
    debug_assert!(&from[..] > PARTITIONS_START);
    let reader = (transaction, table.rows());
    let source = Source::Stored(&reader, Cache::Fill, &StatementPace);
    let rows = source.entries(&from, Some(&to)).map_err(of_table)?;
    for (at, row) in rows.enumerate() {
        if is_right || at == ROWS_MAX {
            return Ok(true);
        }
        let (key, row) = row.map_err(of_table)?;
        values
            .entries(indexed, &key, header.as_deref(), &row, charge, |_| {
                is_right = true;
            })
            .map_err(of_table)?;
    }
    Ok(is_right)
}
