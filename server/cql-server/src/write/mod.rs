//! INSERT, UPDATE, DELETE and BATCH: from statements to one batch of the store.
//!
//! ```text
//!   statement ─► insert, update, delete ─► plan: keys, operations, USING
//!                                            │ values, a timestamp
//!                                            v
//!   execution: keys ─► rows' keys;  operations ─► cells, elements, deletions
//!                                            │ RowBuffer of ebb-tables
//!                                            v
//!                        operands in one WriteBatch ─► the store, all or nothing
//! ```
//!
//! The index entries of new values are in the same batch (`indexes`).
//!
//! With IF, `condition` has the conditions, `conditional` decides in a transaction of the store and
//! writes by the same execution, and `applied` makes the response. Counters are read and written in
//! a transaction, too.
//!
//! Invariants: every write is a merge operand with the client's timestamp, so that nothing is read
//! first, except with IF, for counters, and for lists by index or by value. A statement that fails
//! writes nothing. A batch is one commit over all its tables, so there is no batch log to replay
//! after a crash.

mod applied;
mod assignment;
mod batch;
mod batch_size;
mod collection;
mod condition;
mod conditional;
mod consistency;
mod delete;
mod execution;
mod guarded;
mod indexes;
mod insert;
mod json;
mod keys;
mod operation;
mod plan;
mod prepare;
mod statement;
#[cfg(test)]
mod tests;
mod update;
mod using;

pub use batch::{NOT_A_WRITE, write_type_of};
pub use consistency::{check_consistency, check_list_reads};
pub use prepare::{JsonPlans, RequestAnalysis};
pub use statement::{WriteContext, WriteStatement, Written, execute_batch};
