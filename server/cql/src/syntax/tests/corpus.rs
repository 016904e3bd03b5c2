//! Statements that clients send: `statements.cql`.

use crate::syntax::ast::{Statement, Unsupported};
use crate::syntax::{Script, parse};

const STATEMENTS: &str = include_str!("statements.cql");

/// Each statement of the corpus.
pub(super) fn statements() -> Vec<&'static str> {
    let statements = Script::new(STATEMENTS).map(|statement| statement.unwrap().text);
    statements.collect()
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
fn what_ebb_does_not_serve_is_called_by_its_name() {
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
        // Three points are no token.
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
