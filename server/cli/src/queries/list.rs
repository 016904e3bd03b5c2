//! The list of queries: a line each, no longer than a terminal is wide.

use std::time::Duration;

use ebb_server::http::QueryView;

use crate::escape::escaped_line;
use crate::print::{LINE_CHARS_MAX, table};

const HEAD: [&str; 7] = [
    "id",
    "user",
    "client",
    "elapsed s",
    "keyspace",
    "state",
    "statement",
];
const STATEMENT: usize = 6;

/// The least width of the column of statements, in characters. If the other columns are wide, a line exceeds
/// [`LINE_CHARS_MAX`] rather than cut this column further.
const STATEMENT_CHARS_MIN: usize = 20;

/// Returns the lines of the list, with a head. Statements are cut to the width that the other columns leave.
pub(super) fn lines(queries: &[QueryView]) -> Vec<String> {
    if queries.is_empty() {
        return vec!["no query waits or runs".to_string()];
    }
    let mut rows: Vec<_> = queries.iter().map(row).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(HEAD[column].len())
    };
    // Two blanks stand between columns.
    let others: usize = (0..STATEMENT).map(|column| width(column) + 2).sum();
    let room = LINE_CHARS_MAX.saturating_sub(others);
    for row in &mut rows {
        row[STATEMENT] = cut(&row[STATEMENT], room.max(STATEMENT_CHARS_MIN));
    }
    table(&HEAD, &["id", "elapsed s"], &rows)
}

fn row(query: &QueryView) -> Vec<String> {
    let elapsed = Duration::from_millis(query.queued_ms.saturating_add(query.running_ms));
    let state = match &query.waits_for {
        Some(what) => format!("waits for {what}"),
        None => query.state.clone(),
    };
    // Before the widths are measured: an escape is longer than what it stands for.
    let statement = escaped_line(&query.statement);
    vec![
        query.id.to_string(),
        query.user.as_deref().map(escaped_line).unwrap_or_default(),
        query.address.clone(),
        format!("{:.1}", elapsed.as_secs_f64()),
        query
            .keyspace
            .as_deref()
            .map(escaped_line)
            .unwrap_or_default(),
        state,
        match query.statements {
            0 | 1 => statement,
            more => format!("{more} statements: {statement}"),
        },
    ]
}

/// Cuts a text to `chars_max` characters, which must be at least 2. A cut text ends with two dots.
fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_string();
    }
    let begin: String = text.chars().take(chars_max - 2).collect();
    format!("{begin}..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(id: u64, statement: &str) -> QueryView {
        QueryView {
            id,
            address: "127.0.0.1:51442".to_string(),
            user: Some("ada".to_string()),
            keyspace: None,
            statement: statement.to_string(),
            statements: 1,
            lane: "range".to_string(),
            state: "running".to_string(),
            waits_for: None,
            queued_ms: 300,
            running_ms: 61_200,
        }
    }

    #[test]
    fn a_query_is_a_line_with_its_time_and_the_reason_why_it_waits() {
        let waiting = QueryView {
            user: None,
            keyspace: Some("shop".to_string()),
            state: "waiting".to_string(),
            waits_for: Some("memory".to_string()),
            queued_ms: 1_000,
            running_ms: 0,
            statements: 3,
            ..query(12, "INSERT INTO t (k) VALUES (?)")
        };
        let listed = lines(&[query(7, "SELECT * FROM t"), waiting]);
        let expected = [
            "id  user  client           elapsed s  keyspace  state             statement",
            " 7  ada   127.0.0.1:51442       61.5            running           SELECT * FROM t",
            "12        127.0.0.1:51442        1.0  shop      waits for memory  3 statements: \
             INSERT INTO t (k) ..",
        ];
        assert_eq!(listed, expected);
        assert_eq!(lines(&[]), ["no query waits or runs"]);
    }

    #[test]
    fn long_statements_are_cut_to_a_terminals_width_and_control_characters_escaped() {
        let statement = format!("SELECT \"a\x1b[2J\nb\" FROM t{}", ", ?".repeat(400));
        let listed = lines(&[query(7, &statement)]);
        assert_eq!(listed[1].chars().count(), LINE_CHARS_MAX, "{listed:?}");
        assert!(listed[1].ends_with(".."), "{listed:?}");
        assert!(!listed[1].contains(char::is_control), "{listed:?}");
        assert!(listed[1].contains("\\u001b[2J\\u000ab"), "{listed:?}");
    }
}
