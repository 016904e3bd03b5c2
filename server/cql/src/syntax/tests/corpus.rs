//! Statements that clients send: `statements.cql`.

use crate::syntax::ast::{Statement, Unsupported};
use crate::syntax::parse;

const STATEMENTS: &str = include_str!("statements.cql");

/// Returns each statement of the corpus. A semicolon ends it, unless the text before cannot be parsed: then
/// the semicolon is within a comment, a string or a batch.
pub(super) fn statements() -> Vec<&'static str> {
    let mut statements = Vec::new();
    let mut rest = STATEMENTS;
    let mut at = 0;
    while let Some(len) = rest[at..].find(';') {
        let text = rest[..at + len].trim();
        at += len + 1;
        if parse(text).is_ok() {
            statements.push(text);
            rest = &rest[at..];
            at = 0;
        }
    }
    assert_eq!(rest.trim(), "", "the first of these cannot be parsed");
    statements
}

#[test]
fn every_statement_is_read_and_comes_back_from_its_canonical_text() {
    let statements = statements();
    assert!(statements.len() >= 158, "{}", statements.len());
    for text in statements {
        let parsed = parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let canonical = parsed.statement.to_string();
        let again = parse(&canonical).unwrap_or_else(|error| panic!("{canonical}\n{error}"));
        assert_eq!(parsed, again, "{canonical}");
    }
}

#[test]
fn unsupported_statements_are_named() {
    for (text, what) in [
        (
            "create materialized view v as ...",
            "CREATE MATERIALIZED VIEW",
        ),
        ("CREATE OR REPLACE AGGREGATE a(int)", "CREATE AGGREGATE"),
        ("DROP TRIGGER t ON ks.t", "DROP TRIGGER"),
        ("LIST SUPERUSERS", "LIST SUPERUSERS"),
    ] {
        let text = format!(" {text} ;; ");
        let trimmed = text.trim_matches([' ', ';']).to_owned();
        let unsupported = Unsupported {
            what,
            text: trimmed.clone(),
        };
        // Three points are not a token.
        let Ok(parsed) = parse(&text.replace("...", "x")) else {
            panic!("{text}");
        };
        let Statement::Unsupported(read) = parsed.statement else {
            panic!("{text}");
        };
        assert_eq!(read.what, unsupported.what);
        assert_eq!(read.text, unsupported.text.replace("...", "x"));
    }
}
