//! The memory of reads: of their results, and of what they buffer.

use super::*;
use crate::call::{Call, ResponseMemory};
use crate::system::Lookup;

/// The error of a read that needs more than the 4 KiB of [`small`].
const TOO_LARGE: &str =
    "The result has more than 4096 bytes; ask for fewer rows or columns, or for pages";

/// Returns a server whose reads may buffer at most 4 KiB.
fn small() -> Server {
    let mut server = Server::with(&["CREATE TABLE t (a int, b int, v text, PRIMARY KEY (a, b))"]);
    for b in 0..10 {
        let text = "x".repeat(1000);
        server.run(&format!(
            "INSERT INTO t (a, b, v) VALUES (1, {b}, '{text}')"
        ));
    }
    server.limit_results(4096);
    server
}

#[test]
fn a_read_that_needs_too_much_memory_is_rejected() {
    let mut server = small();
    let refused = [
        "SELECT v FROM t".to_owned(),
        "SELECT JSON v FROM t".to_owned(),
        "SELECT v FROM t WHERE a IN (1, 2) ORDER BY b".to_owned(),
        "SELECT JSON v FROM t WHERE a IN (1, 2) ORDER BY b".to_owned(),
        "SELECT b, max(v) FROM t WHERE a IN (1, 2) GROUP BY a, b ORDER BY b".to_owned(),
        // Three finished groups, and a fourth in memory.
        "SELECT max(v) FROM t WHERE a = 1 GROUP BY a, b LIMIT 4".to_owned(),
        format!("SELECT {} FROM t WHERE a = 1 AND b = 1", times(5, "v")),
        format!("SELECT {} FROM t WHERE a = 1", times(5, "max(v)")),
        format!("SELECT count(*), {} FROM t WHERE a = 1", times(5, "v")),
        "SELECT v + v + v + v + v FROM t WHERE a = 1 AND b = 1".to_owned(),
        // Values that are no part of the result: each `toJson` doubles the backslashes.
        format!(
            "SELECT count({}v{}) FROM t WHERE a = 1 AND b = 1",
            "toJson(".repeat(20),
            ")".repeat(20)
        ),
        "SELECT count((v + v) + ((v + v) + v)) FROM t WHERE a = 1 AND b = 1".to_owned(),
    ];
    for text in refused {
        assert_eq!(server.refused(&text), TOO_LARGE, "{text}");
    }
    assert_eq!(server.rows("SELECT count(v) FROM t"), "10");
    let within = "SELECT count(toJson(toJson(v))), count((v + v) + (v + v)) FROM t";
    assert_eq!(server.rows(within), "10 10");
    let limited = "SELECT b FROM t WHERE a IN (1, 2) ORDER BY b LIMIT 1";
    assert_eq!(server.rows(limited), "0");
    // Rows that were written to the response no longer count.
    let sorted = "SELECT v FROM t WHERE a IN (1, 2) AND b < 3 ORDER BY b";
    assert_eq!(server.rows(sorted).split(" | ").count(), 3);
    let page = server.page("SELECT v FROM t", &[], Some(2), None).unwrap();
    assert_eq!((page.rows.len(), page.state.is_some()), (2, true));
}

/// Regression: only the bytes of values were compared with the limit, not the four bytes before each
/// value. A result of nulls grew to 2 GiB, where the server panicked.
#[test]
fn nulls_and_empty_values_count_towards_the_size_of_a_result() {
    let mut server = small();
    let select =
        |count: usize| format!("SELECT {} FROM t WHERE a = 1 AND b = 1", times(count, "v"));
    for value in ["null", "''"] {
        server.run(&format!("UPDATE t SET v = {value} WHERE a = 1 AND b = 1"));
        assert_eq!(server.refused(&select(1025)), TOO_LARGE, "{value}");
        let page = server.page(&select(1024), &[], None, None).unwrap();
        assert_eq!(page.rows[0].len(), 1024, "{value}");
    }
}

/// Regression: the rows of a virtual table were computed in full before the limit on their size was
/// checked. The error then called the result too large, although that of `count(*)` is small.
#[test]
fn the_computed_rows_of_a_virtual_table_have_a_limited_size() {
    let server = server();
    let executor = &server.executor;
    let table = executor.system.table("system_schema", "columns").unwrap();
    let facts = executor.facts(&executor.catalog().state(), &server.user);
    let facts = facts.unwrap();
    let computed = |bytes_max| table.rows(&facts, &Lookup::default(), bytes_max);
    assert!(computed(1 << 20).is_ok());
    let (error, units) = charged(|| computed(1 << 10).unwrap_err());
    assert!(
        error.message.starts_with(
            "The rows that the server computes for the statement have more than 1024 bytes"
        ),
        "{error:?}"
    );
    assert!(units < 20, "{units}");
}

/// The memory for a response of at most 8 KiB.
#[derive(Debug)]
struct EightKib;

impl ResponseMemory for EightKib {
    fn grow(&self, bytes: usize) -> Result<(), ErrorResponse> {
        if bytes > 8 << 10 {
            return Err(ErrorResponse::overloaded("no memory"));
        }
        Ok(())
    }
}

/// Asserts that a read fails for lack of memory if its response may take at most 8 KiB.
#[track_caller]
fn assert_without_memory(server: &Server, select: &str) {
    let prepared = server.prepare(select).unwrap();
    let ended = server.answer(QueryParameters::default(), |call, out| {
        let memory: Option<&dyn ResponseMemory> = Some(&EightKib);
        let call = Call {
            memory,
            ..call.clone()
        };
        let ended = server.executor.execute(&prepared, &call, out);
        assert!(out.len() < 20_000, "{}", out.len());
        ended
    });
    assert_eq!(ended.unwrap_err().kind, ErrorKind::Overloaded, "{select}");
}

/// Regression: a response took memory only when it was finished, with up to 256 MiB.
#[test]
fn a_read_without_memory_ends_while_it_writes_its_response() {
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, v text)"]);
    let text = "x".repeat(1000);
    server.run(&format!("INSERT INTO t (k, v) VALUES (1, '{text}')"));
    let select = format!("SELECT {} FROM t WHERE k = 1", times(100, "v"));
    assert_without_memory(&server, &select);
}

/// Regression: only the response took memory. Each of many reads at once could have 256 MiB of rows
/// to sort, or of states of aggregates, beside the memory for all results.
#[test]
fn a_read_without_memory_ends_while_it_buffers_rows_or_aggregates_them() {
    let mut server = Server::with(&["CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))"]);
    let text = "x".repeat(1000);
    for c in 0..20 {
        let k = c % 2;
        server.run(&format!(
            "INSERT INTO t (k, c, v) VALUES ({k}, {c}, '{text}')"
        ));
    }
    // The responses are short: one row of a kilobyte, or nulls, as `+` with an empty text is null.
    for select in [
        "SELECT v FROM t WHERE k IN (0, 1) ORDER BY c LIMIT 1".to_owned(),
        "SELECT JSON v FROM t WHERE k IN (0, 1) ORDER BY c LIMIT 1".to_owned(),
        "SELECT max(v) FROM t WHERE k IN (0, 1) GROUP BY k, c ORDER BY c LIMIT 1".to_owned(),
        format!("SELECT {} FROM t", times(20, "max(v) + ''")),
    ] {
        let page = server.page(&select, &[], None, None).unwrap();
        assert_eq!(page.rows.len(), 1, "{select}");
        assert_without_memory(&server, &select);
    }
}
