//! Analysis of a statement against a schema: resolves names, types terms and checks restrictions.
//! The result is a plan. Errors are those of Cassandra.
//!
//! ```text
//! select        SELECT: the rows that it reads, and its result
//! group_by      GROUP BY: the columns and the function that rows of a group share
//! restrictions  WHERE: partition keys, slices of clusterings, tokens, filters
//! selection     expressions over each row
//! term          values: AST + type + bound values ─> bytes
//! call          functions, casts and operators as values
//! markers       markers and the values bound to them
//! volatile      functions whose result differs from call to call
//! literal       constants
//! types         names of types in statements
//! ```
//!
//! Nothing here reads rows.

mod call;
pub mod group_by;
pub mod literal;
pub mod markers;
pub mod restrictions;
pub mod select;
pub mod selection;
pub mod term;
pub mod types;
pub mod volatile;
