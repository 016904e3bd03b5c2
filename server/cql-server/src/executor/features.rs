//! The feature table of the book: each statement works or fails as its row of the table claims.

use super::harness::Server;

const PAGE: &str = include_str!("../../../../docs/src/guide/cql.md");

#[test]
fn each_statement_of_the_book_works_or_fails_as_documented() {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows: Vec<(&str, &str)> = rows
        .map(|row| row.split_once("` | ").expect("a statement has an end"))
        .collect();
    assert!(rows.len() > 70, "{} rows", rows.len());
    let mut server = Server::new();
    let mut wrong = Vec::new();
    for (statement, documented) in rows {
        let refusal = server.refusal(statement);
        let found = refusal.map_or("works |".to_owned(), |why| format!("refused: `{why}` |"));
        if found != documented {
            wrong.push(format!(
                "{statement}\n  documented: {documented}\n  found: {found}"
            ));
        }
        if statement.starts_with("CREATE INDEX") && found.starts_with("works") {
            server.wait_until_built("shop", "people");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
