//! Text to statements.
//!
//! ```text
//! text --lexer--> tokens --parser--> ast        Display brings parts of a tree back to text
//! masked   a text without its constants, for logs
//! words    which words are no names
//! error    what is wrong, and where
//! ```
//!
//! [`parse`] reads CQL 3.4.5 as Cassandra 4.1 does, and ebb's own statements about
//! snapshots. Names are brought to the form in which they are compared; nothing is
//! checked against a schema. Any text gives a statement or an error: none makes it
//! panic, none takes more time or memory than a constant times its length, and none
//! gives a tree that is too high for the stack. How long a text may be is for the caller
//! to say.
pub mod ast;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod lexer;
mod masked;
mod parser;
mod print;
mod words;

#[cfg(test)]
mod tests;

pub use error::{ParseError, ParseErrorKind};
pub use masked::masked;

/// How deep expressions and types may be nested. Documents that drivers write have some
/// ten levels; a level takes about a kilobyte of stack in a build without optimization.
pub const NESTING_MAX: usize = 100;

/// How many operators one outermost expression may have: each makes the tree one level
/// higher, as `1 + 1 + 1` nests to the left.
pub const OPERATORS_MAX: usize = 500;

/// How many words, numbers, strings and signs a statement may have: what is read of it takes tens
/// of bytes for each. Values that are bound take none.
pub const TOKENS_MAX: usize = 1 << 20;

/// Reads one statement, with or without a semicolon behind it.
///
/// ```
/// use ebb_cql::syntax::ast::Statement;
///
/// let parsed = ebb_cql::syntax::parse("SELECT Name FROM ks.users WHERE id = :id;")?;
/// assert_eq!(parsed.markers, [Some("id".into())]);
/// let Statement::Select(select) = parsed.statement else {
///     panic!("not a SELECT");
/// };
/// assert_eq!(select.from.to_string(), "ks.users");
/// assert_eq!(select.relations[0].to_string(), "id = :id");
///
/// let error = ebb_cql::syntax::parse("SELECT * FORM ks.users").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "line 1:9 mismatched input 'FORM' expecting K_FROM (SELECT * [FORM]...)"
/// );
/// # Ok::<(), ebb_cql::syntax::ParseError>(())
/// ```
///
/// # Errors
///
/// The text is no statement: where, and what was expected, in Cassandra's form.
pub fn parse(text: &str) -> Result<ast::Parsed, ParseError> {
    parser::parse(text)
}
