//! Tables with columns, in a database: the catalog of a node.
//!
//! ```text
//!   statements ─► catalog ─► diff ─► store    what the schema is, and how it changes for good
//!                   │          │
//!                   ├ survey, load        what lies in the database, and what of it can be read;
//!                   │                     `unreadable`: the rest, for commands that only look
//!                   ├ identity │          who the node is
//!                   ├ grace    │          when merges may purge deletions
//!                   ├ timestamps          what its writes are ordered by
//!                   ├ roles               who may do what; `quota`: how many snapshots
//!                   v          v
//!                 ebb-model  ebb-storage, with the merge operator of `operators`
//! ```
//!
//! What always holds: a change of the schema is durable before anybody sees it, and after
//! a crash it is there or it is not, never half. Changes come one after the other.
//!
//! `read` holds the rules of which rows and columns are visible, for all readers of tables, and `write`
//! turns changes of rows into the operands that the store merges, for all writers. `names`
//! are names as people write them, and `lookup` finds what has such a name in a database, with
//! errors that list what there is instead. The rules of types, keys and rows are those of
//! `ebb-model`, which does no I/O.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests look at clocks and files themselves"
    )
)]

mod announce;
mod catalog;
mod damage;
mod diff;
mod error;
mod form;
mod grace;
mod identity;
mod lazy;
mod load;
pub mod lookup;
mod mutation;
pub mod names;
mod operators;
mod quota;
pub mod read;
mod roles;
mod snapshots;
mod store;
mod survey;
mod table;
#[cfg(test)]
mod tests;
mod timestamps;
mod unreadable;
pub mod write;

pub use announce::Announcement;
pub use catalog::{Catalog, CatalogState};
pub use ebb_model::schema::Unreadable;
pub use error::{CatalogError, Result};
pub use grace::GracePeriods;
pub use identity::Identity;
pub use lazy::LazyCatalog;
pub use operators::{CQL_ROW, CqlRow, database_options, merge_operators, with_cql_tables};
pub use quota::{QuotaReached, SnapshotRoom};
pub use roles::{RoleStore, RolesState};
pub use snapshots::{SNAPSHOT_SIGN, SnapshotKeyspace, keyspace_at, keyspace_with_tables_at};
pub use store::forget_keyspace;
pub use survey::{is_cql_keyspace, is_cql_table};
pub use table::{CqlTable, detached_schema, schema_at};
pub use timestamps::Timestamps;
pub use unreadable::unreadable_objects;
