//! Text to statements.
//!
//! [`ast`] is what a statement says, as the server reads it: names are resolved to the
//! form in which they are compared, nothing is checked against a schema.
pub mod ast;
