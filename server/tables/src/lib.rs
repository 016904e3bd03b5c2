//! Tables with columns in a database: the catalog of a node, and reads and writes of rows.
//!
//! ```text
//!   statements ─► catalog ─► diff ─► store    the schema, and its durable changes
//!                   │          │
//!                   ├ survey, load        the records in the database, readable or not;
//!                   │                     `unreadable`: lists the latter for read-only commands;
//!                   │                     `rewrite`: writes lost ones again from memory
//!                   ├ identity │          the host id and token of the node
//!                   ├ grace    │          the age from which merges may purge deletions
//!                   ├ losses   │          the number of accepted losses, for builds of indexes
//!                   ├ timestamps          the order of the server's writes
//!                   ├ roles               permissions; `quota`, `owned_snapshots`: the
//!                   │                     snapshots of each role
//!                   v          v
//!                 ebb-model  ebb-storage, with the merge operator of `operators`
//! ```
//!
//! Invariants: a change of the schema is durable before it is visible, and after a crash it is there or
//! not, never half. Changes are serialized.
//!
//! `read` contains the rules of which rows and columns are visible, for all readers of tables. `write`
//! turns changes of rows into the operands that the store merges, for all writers. `names` are names as
//! people write them. `lookup` finds the object of such a name in a database; its errors list the
//! existing names. The rules of types, keys and rows are those of `ebb-model`, which does no I/O.

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
pub mod lifetime;
mod load;
pub mod lookup;
mod losses;
#[doc(hidden)]
pub mod mutation;
pub mod names;
mod operators;
mod owned_snapshots;
mod quota;
pub mod read;
mod rewrite;
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
pub use losses::LossUnderWay;
pub use operators::{CQL_ROW, CqlRow, database_options, merge_operators, with_cql_tables};
pub use quota::{QuotaReached, SnapshotRoom};
pub use roles::{RoleStore, RolesState};
pub use snapshots::{
    SNAPSHOT_SIGN, SnapshotKeyspace, covered_resource, keyspace_at, keyspace_with_tables_at,
};
pub use store::forget_keyspace;
pub use survey::{is_cql_keyspace, is_cql_table};
pub use table::{CqlTable, detached_schema, schema_at};
pub use timestamps::Timestamps;
pub use unreadable::unreadable_objects;
