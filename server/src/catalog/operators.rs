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
