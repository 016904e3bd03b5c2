//! CQL's rules of reconciliation, as the store's merge operator of CQL tables.
//!
//! Every opening of a database must know the operator, also that of a command which only
//! looks or copies. [`database_options`] are the options to begin with; [`Node::open`]
//! adds it to those that it is given.
//!
//! [`Node::open`]: crate::node::Node::open

use ebb_catalog::key::{DecodedKey, Place};
use ebb_catalog::row::{merge_headers, merge_rows};
use ebb_storage::{MergeOperator, MergeOperators, Options};

/// The name of the operator, as tables store it. A table has it if and only if CQL made it.
pub const CQL_ROW: &str = "cql-row";

/// The options of a database by default, with what CQL tables need.
pub fn database_options() -> Options {
    with_cql_tables(Options::default())
}

/// These options, and what CQL tables need.
pub fn with_cql_tables(options: Options) -> Options {
    Options {
        merge_operators: options.merge_operators.with(CqlRow),
        ..options
    }
}

/// The merge operators that tables of a database may name.
pub fn merge_operators() -> MergeOperators {
    MergeOperators::default().with(CqlRow)
}

/// Merges rows, and headers of partitions; the key says which.
#[derive(Debug, Clone, Copy)]
struct CqlRow;

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
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ebb_catalog::key::PartitionKey;
    use ebb_catalog::row::{
        Cell, Deletion, Header, HeaderBuilder, Lifetime, RowBuilder, RowRef, RowView,
    };
    use ebb_storage::simulation::MemDisk;
    use ebb_storage::{Db, TableOptions};

    use super::*;

    /// An UPDATE of column 3.
    fn write(timestamp: i64, value: &[u8]) -> Vec<u8> {
        let mut operand = Vec::new();
        let mut row = RowBuilder::new(&mut operand, timestamp);
        let lifetime = Lifetime::Permanent;
        row.cell(
            3,
            Cell {
                timestamp,
                lifetime,
                value,
            },
        );
        row.finish().unwrap();
        operand
    }

    /// A DELETE of the partition.
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
    fn the_greater_timestamp_wins_whatever_was_committed_first() {
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

        // Flushed, merged and read by an opening of its own.
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

    #[test]
    fn a_key_or_an_operand_that_is_none_is_told_and_not_merged() {
        let row = [PartitionKey::new(&[b"k"]).unwrap().prefix(), vec![1]].concat();
        assert!(
            CqlRow
                .merge(b"short", &write(1, b""), &write(2, b""))
                .is_err()
        );
        assert!(CqlRow.merge(&row, b"", &write(2, b"")).is_err());
        assert!(CqlRow.merge(&row, &delete(1), &write(2, b"")).is_err());
    }
}
