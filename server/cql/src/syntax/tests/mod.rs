//! Statements that clients send, error messages, random trees that survive printing and parsing,
//! and malicious bytes.

mod corpus;
mod errors;
mod hostile;
mod made;
mod read;
mod round_trip;

use super::ast::Statement;

/// Parses `text`, which must be a statement.
fn statement(text: &str) -> Statement {
    super::parse(text)
        .unwrap_or_else(|error| panic!("{text}\n{error}"))
        .statement
}

/// Parses `text`, which must be a statement, and returns the statement as it is printed.
fn canonical(text: &str) -> String {
    statement(text).to_string()
}
