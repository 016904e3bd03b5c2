//! Statements that clients send, errors word by word, made trees that come back, and
//! bytes that mean harm.

mod corpus;
mod errors;
mod hostile;
mod made;
mod read;
mod round_trip;

use super::ast::Statement;

/// The statement that `text` must hold.
fn statement(text: &str) -> Statement {
    super::parse(text)
        .unwrap_or_else(|error| panic!("{text}\n{error}"))
        .statement
}

/// What `text` is in its canonical form.
fn canonical(text: &str) -> String {
    statement(text).to_string()
}
