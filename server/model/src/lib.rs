//! The data model of tables with columns over a key-value store, as bytes and rules without I/O.
//!
//! ```text
//! schema   keyspaces, tables, columns and user-defined types, as records and as DDL
//! row      a write as a merge operand; reconciliation; a row as of a time
//! key      partition and clustering keys whose bytes sort as CQL sorts the values
//! access   roles and their permissions on keyspaces, tables and roles
//! types    CQL types and their native serialization
//! ```
//!
//! Each module uses only modules below it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod access;
pub mod key;
pub mod row;
pub mod schema;
pub mod types;
