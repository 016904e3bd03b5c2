//! From a statement and a schema to a plan: names resolved, terms typed, restrictions
//! checked, in Cassandra's words where they are refused.
//!
//! ```text
//! select        SELECT: what it reads, and what it returns
//! restrictions  WHERE: partition keys, slices of clusterings, tokens, what is left to filter
//! selection     what is computed of each row
//! term          values: AST + type + what is bound ─> bytes
//! call          functions, casts and operators as values
//! markers       what is bound, and what for
//! volatile      functions that give another value at each call
//! literal       constants
//! types         types as a statement writes them
//! ```
//!
//! Nothing here reads rows.

mod call;
pub mod literal;
pub mod markers;
pub mod restrictions;
pub mod select;
pub mod selection;
pub mod term;
pub mod types;
pub mod volatile;
