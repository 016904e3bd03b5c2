//! Tables with columns, in this node's database.
//!
//! ```text
//!   statements ─► catalog ─► diff ─► store    what the schema is, and how it changes for good
//!                   │          │
//!                   ├ identity │          who the node is
//!                   ├ grace    │          when merges may purge deletions
//!                   ├ timestamps          what its writes are ordered by
//!                   v          v
//!                 ebb-catalog  ebb-storage, with the merge operator of `operators`
//! ```
//!
//! What always holds: a change of the schema is durable before anybody sees it, and after
//! a crash it is there or it is not, never half. Changes come one after the other.

#[expect(clippy::module_inception, reason = "the noun of the folder")]
mod catalog;
mod diff;
mod error;
mod grace;
mod identity;
mod lazy;
mod operators;
mod snapshots;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod timestamps;

pub use catalog::{Catalog, CatalogState};
pub use error::{CatalogError, Result};
pub use grace::GracePeriods;
pub use identity::Identity;
pub use lazy::LazyCatalog;
#[cfg(test)]
pub(crate) use operators::CqlRow;
pub(crate) use operators::cql_row;
pub use operators::{CQL_ROW, database_options, merge_operators, with_cql_tables};
pub use snapshots::{SNAPSHOT_SIGN, SNAPSHOTS_TOLD_MAX, SnapshotKeyspace, keyspace_at};
pub use store::{forget_keyspace, is_cql_keyspace, is_cql_table};
pub use table::{CqlTable, detached_schema, schema_at};
pub use timestamps::Timestamps;
