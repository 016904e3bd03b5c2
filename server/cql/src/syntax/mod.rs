//! The parser of CQL.
//!
//! ```text
//! text --lexer--> tokens --parser--> ast        Display converts parts of a tree back to text
//! masked   a text without its constants, for logs
//! words    words that cannot be names everywhere
//! error    errors with their places
//! ```
//!
//! [`parse`] accepts CQL 3.4.6 as Cassandra 4.1 does, and ebb's own statements about snapshots.
//! Names are converted to the form in which they are compared; nothing is checked against a schema.
//! Every text results in a statement or an error. No text causes a panic, takes more time or memory
//! than a constant times its length, or results in a tree that is too high for the stack. The
//! caller limits the length of texts.
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

/// The maximal nesting of expressions and types. It bounds the stack of the recursive parser: a
/// level takes about a kilobyte in a build without optimization. The nested values that drivers
/// write have about ten levels.
pub const NESTING_MAX: usize = 100;

/// The maximal number of operators in one outermost expression. Each operator makes the tree one
/// level higher, because `1 + 1 + 1` nests to the left, and recursion over the tree takes stack.
pub const OPERATORS_MAX: usize = 500;

/// The maximal number of tokens in a statement, to bound the memory of the parser, which takes tens
/// of bytes for each. Bound values are not part of the statement.
pub const TOKENS_MAX: usize = 1 << 20;

/// Returns the first word of a statement, such as `SELECT`, without the comments before it; `None`
/// if the statement does not begin with a word.
#[must_use]
pub fn first_word(text: &str) -> Option<&str> {
    let first = lexer::Lexer::new(text).next().ok()?;
    (first.kind == lexer::TokenKind::Word).then(|| &text[first.start..first.end])
}

/// Parses one statement, with or without a final semicolon.
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
/// If the text is not a statement, or exceeds [`NESTING_MAX`], [`OPERATORS_MAX`] or [`TOKENS_MAX`].
/// The message is like Cassandra's.
pub fn parse(text: &str) -> Result<ast::Parsed, ParseError> {
    parse_counted(text).map(|(parsed, _)| parsed)
}

/// Parses one statement like [`parse`], and returns the number of its tokens, too. The memory of
/// the tree depends on this number, and hardly on the length of the text.
///
/// # Errors
/// The errors of [`parse`].
pub fn parse_counted(text: &str) -> Result<(ast::Parsed, usize), ParseError> {
    parser::parse(text)
}
