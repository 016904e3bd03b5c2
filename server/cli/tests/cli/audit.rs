//! The audit log of a server.

use std::os::unix::fs::symlink;

use ebb_cql::client::{Client, ClientError};
use ebb_cql::protocol::{Compression, ErrorKind};
use serde_json::{Value, json};

use crate::place::Place;
use crate::serving::{KEYSPACE, Server, query};

const LOG: &str = "ebb-data/audit.log";
const WRITES: &str = "ebb-data/audit-writes.log";

fn connect(server: &Server, name: &str, password: &str) -> Result<Client, ClientError> {
    Client::connect_as(server.address(), Compression::Lz4, Some((name, password)))
}

#[test]
fn logins_administration_and_tokens_have_entries_without_values() {
    let place = Place::new();
    let server = Server::start(&place, "--auth");
    let password = place.read("ebb-data/superuser-password");
    assert!(connect(&server, "eve", "geheim").is_err());
    let mut client = connect(&server, "ebb", password.trim()).unwrap();
    for text in [
        KEYSPACE,
        "CREATE TABLE shop.orders (id int PRIMARY KEY)",
        "CREATE ROLE 'ada' WITH PASSWORD = 'geheim' AND SUPERUSER = true",
        "GRANT SELECT ON shop.orders TO 'ada'",
        // This write has no entry: without `--audit-writes`, no log contains the writes of rows.
        "INSERT INTO shop.orders (id) VALUES (1)",
        "TRUNCATE shop.orders",
    ] {
        query(&mut client, text).unwrap();
    }
    query(&mut client, "DROP TABLE shop.nothing").unwrap_err();
    let create = "token create --name grafana --scope read --role ebb";
    let token = place.ebb(create).ok();
    let id = token.trim().split('_').nth(1).unwrap();
    place.ebb(&format!("token revoke {id}")).ok();
    let whole = format!("token revoke {}", token.trim());
    place.ebb(&whole).fails(3);
    assert_eq!(server.stop(), Some(0));
    let text = place.read(LOG);
    for secret in ["geheim", password.trim(), token.trim()] {
        assert!(!text.contains(secret), "{text}");
    }
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    let of_login = |line: &Value| (line["kind"] == "login").then(|| line["role"].clone());
    let all = lines.iter().map(|line| {
        let what = of_login(line).unwrap_or_else(|| line["action"].clone());
        format!("{}: {what}", line["result"]).replace('"', "")
    });
    let masked = "CREATE ROLE ? WITH PASSWORD = ? AND SUPERUSER = ?";
    let mut expected = vec![
        "begun: CREATE ROLE ebb".to_owned(),
        "done: CREATE ROLE ebb".to_owned(),
        "refused: eve".to_owned(),
        "done: ebb".to_owned(),
    ];
    for (action, result) in [
        (
            "CREATE KEYSPACE shop WITH replication = {?: ?, ?: ?}",
            "done",
        ),
        ("CREATE TABLE shop.orders (id int PRIMARY KEY)", "done"),
        (masked, "done"),
        ("GRANT SELECT ON shop.orders TO ?", "done"),
        ("TRUNCATE shop.orders", "done"),
        ("DROP TABLE shop.nothing", "invalid"),
        ("create with scope read, name grafana", "done"),
        ("revoke", "done"),
        ("revoke", "invalid"),
    ] {
        expected.extend(["begun", result].map(|result| format!("{result}: {action}")));
    }
    assert_eq!(all.collect::<Vec<_>>(), expected);
    let made = lines.iter().rfind(|line| line["action"] == masked).unwrap();
    let fields = ["kind", "role", "roles", "superuser"].map(|name| &made[name]);
    let expected = json!(["statement", "ebb", ["ada"], true]);
    assert_eq!(json!(fields), expected);
    let address = made["address"].as_str().unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    assert_eq!(lines.last().unwrap()["token"], id);
}

#[test]
fn on_a_full_disk_only_statements_that_free_space_are_executed() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut client = server.client();
    query(&mut client, KEYSPACE).unwrap();
    query(&mut client, "CREATE TABLE shop.orders (id int PRIMARY KEY)").unwrap();
    std::fs::remove_file(place.path(LOG)).unwrap();
    symlink("/dev/full", place.path(LOG)).unwrap();
    let create = "CREATE TABLE shop.others (id int PRIMARY KEY)";
    assert_eq!(query(&mut client, create), Err(ErrorKind::Overloaded));
    query(&mut client, "TRUNCATE shop.orders").unwrap();
    query(&mut client, "DROP TABLE shop.orders").unwrap();
    std::fs::remove_file(place.path(LOG)).unwrap();
    query(&mut client, create).unwrap();
    assert_eq!(place.read(LOG).lines().count(), 2);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn writes_to_chosen_tables_have_entries_without_values_in_a_file_of_their_own() {
    let place = Place::new();
    let server = Server::start(&place, "--audit-writes shop.orders");
    let mut client = server.client();
    for text in [
        KEYSPACE,
        "CREATE TABLE shop.orders (id int PRIMARY KEY, note text)",
        "CREATE TABLE shop.others (id int PRIMARY KEY)",
        "INSERT INTO shop.others (id) VALUES (1)",
        "INSERT INTO shop.orders (id, note) VALUES (1, 'geheim')",
        "BEGIN BATCH UPDATE shop.orders SET note = 'geheim' WHERE id = 2; DELETE FROM shop.orders \
         WHERE id = 1; INSERT INTO shop.others (id) VALUES (2); APPLY BATCH",
    ] {
        query(&mut client, text).unwrap();
    }
    query(&mut client, "KILL QUERY 4711").unwrap_err();
    assert_eq!(server.stop(), Some(0));
    let entries = |text: &str, names: &[&str]| -> Vec<Value> {
        let lines = text.lines();
        let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let fields =
            |line: Value| -> Value { names.iter().map(|name| line[name].clone()).collect() };
        lines.map(fields).collect()
    };
    let writes = place.read(WRITES);
    assert!(!writes.contains("geheim"), "{writes}");
    let names = ["kind", "action", "object", "count", "result"];
    let expected = [
        json!(["write", "INSERT", "shop.orders", null, "done"]),
        json!(["write", "BATCH", "shop.orders", 2, "done"]),
    ];
    assert_eq!(entries(&writes, &names), expected);
    let changes = entries(&place.read(LOG), &["action", "query", "result"]);
    let killed = [
        json!(["KILL QUERY ?", 4711, "begun"]),
        json!(["KILL QUERY ?", 4711, "invalid"]),
    ];
    assert_eq!(changes[6..], killed);
}

#[test]
fn writes_go_on_when_their_entries_cannot_be_written() {
    let place = Place::new();
    let mut server = Server::start(&place, "--audit-writes all");
    symlink("/dev/full", place.path(WRITES)).unwrap();
    let mut client = server.client();
    query(&mut client, KEYSPACE).unwrap();
    query(&mut client, "CREATE TABLE shop.orders (id int PRIMARY KEY)").unwrap();
    query(&mut client, "INSERT INTO shop.orders (id) VALUES (1)").unwrap();
    let line = server.error_line_with("audit-writes.log cannot be written");
    assert!(line.contains("No space left"), "{line}");
    query(&mut client, "INSERT INTO shop.orders (id) VALUES (2)").unwrap();
    assert_eq!(server.stop(), Some(0));
}
