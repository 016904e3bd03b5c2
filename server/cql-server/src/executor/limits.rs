//! The limits of a statement: its time, its memory, its keys, and the digits of its numbers.

mod charged;
mod digits;
mod interrupted;
mod keys;
mod result_memory;
mod statement_memory;

use std::sync::Arc;

use ebb_cql::protocol::{BatchKind, ErrorKind, ErrorResponse, QueryParameters, Value, Values};
use ebb_model::types::elements;
use ebb_test_support::cases::parse_cases;

use super::harness::Server;
use crate::call::Service;
use crate::interrupt::tests::{cancelled, charged};

/// Returns the names of `count` columns.
fn columns(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("c{number}")).collect()
}

/// Returns the numbers from 0 on, `count` of them, separated by commas.
fn numbers(count: i32) -> String {
    let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    numbers.join(", ")
}

/// Returns the text `count` times, separated by commas.
fn times(count: usize, text: &str) -> String {
    vec![text; count].join(", ")
}

fn server() -> Server {
    let list = numbers(40);
    let map: Vec<String> = (0..40).map(|key| format!("{key}: {key}")).collect();
    let map = map.join(", ");
    let mut server = Server::with(&[
        "CREATE TABLE wide (a int, b int, c int, v int, PRIMARY KEY (a, b, c))",
        "CREATE TABLE one (k int PRIMARY KEY, b int, d decimal, v varint, l list<int>, \
         m map<int, int>)",
        "CREATE TABLE found (k int PRIMARY KEY, v int)",
        "CREATE INDEX ON found (v)",
        "CREATE TABLE filtered (a int, b int, c int, PRIMARY KEY (a, b, c))",
        "INSERT INTO filtered (a, b, c) VALUES (1, 1, 999)",
    ]);
    server.run(&format!(
        "INSERT INTO one (k, b, d, v, l, m) VALUES (1, 1, 1e9000, {}, [{list}], {{{map}}})",
        "7".repeat(1000)
    ));
    for number in 0..20 {
        server.run(&format!(
            "INSERT INTO wide (a, b, c, v) VALUES (1, {number}, 0, 0)"
        ));
        server.run(&format!("INSERT INTO found (k, v) VALUES ({number}, 1)"));
    }
    server
}

fn error(server: &mut Server, text: &str) -> ErrorResponse {
    let prepared = server.prepare(text).unwrap();
    let ended = server.execute(&prepared, QueryParameters::default());
    ended.err().unwrap_or_else(|| panic!("{text} is executed"))
}

/// Creates a table with a column of a user-defined type that has `fields` fields and is nested in
/// `levels` lists. Also returns the literal of a value that names each field once.
fn nested_fields(fields: usize, levels: usize) -> (Server, String) {
    let names: Vec<String> = (0..fields).map(|number| format!("f{number}")).collect();
    let ty = (0..levels).fold("frozen<u>".to_owned(), |of, _| {
        format!("frozen<list<{of}>>")
    });
    let server = Server::with(&[
        &format!("CREATE TYPE u ({} int)", names.join(" int, ")),
        &format!(
            "CREATE TABLE t (k int, c int, s int STATIC, v int, l list<int>, u {ty}, \
             PRIMARY KEY (k, c))"
        ),
    ]);
    let literal = format!("{{{}: null}}", names.join(": null, "));
    let literal = (0..levels).fold(literal, |of, _| format!("[{of}]"));
    (server, literal)
}
