//! A schema or a history of jobs that cannot be read, as commands show it and as a server starts over it.

use ebb_cql::protocol::{ErrorKind, Response};
use ebb_jobs::history::History;
use ebb_model::key::SCHEMA_KEY;
use ebb_storage::Db;
use ebb_tables::database_options;
use serde_json::json;

use crate::place::Place;
use crate::serving::{KEYSPACE, Server, query};

const REASON: &str = "the schema of table shop.orders cannot be read: its record is missing; \
                      restore it from a backup or DROP it";

/// Creates a database with the tables `shop.orders` and `shop.other`, each with a row. Then calls `change`,
/// which damages the catalog's records in a way that no statement does.
fn with_change(change: impl FnOnce(&Db)) -> Place {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut client = server.client();
    query(&mut client, KEYSPACE).unwrap();
    for text in [
        "CREATE TABLE shop.orders (id int PRIMARY KEY, v text)",
        "CREATE TABLE shop.other (id int PRIMARY KEY, v text)",
        "INSERT INTO shop.orders (id, v) VALUES (1, 'first')",
        "INSERT INTO shop.other (id, v) VALUES (2, 'second')",
    ] {
        query(&mut client, text).unwrap();
    }
    drop(client);
    assert_eq!(server.stop(), Some(0));
    place.until_unlocked();
    change(&Db::open(place.path("ebb-data"), database_options()).unwrap());
    place.until_unlocked();
    place
}

/// Returns a working directory whose database has lost the record of the table `shop.orders`.
fn with_lost_record() -> Place {
    with_change(|db| {
        let shop = db.existing_keyspace("shop").unwrap();
        shop.existing_table("orders")
            .unwrap()
            .delete(SCHEMA_KEY)
            .unwrap();
    })
}

#[test]
fn stats_and_verify_name_a_table_whose_record_is_lost() {
    let place = with_lost_record();
    let stats = place.ebb("stats").ok();
    let line = format!("unreadable {REASON}");
    assert!(stats.lines().any(|found| found == line), "{stats}");
    let stats = place.ebb("stats --json").json();
    let expected = json!([{
        "kind": "table",
        "keyspace": "shop",
        "name": "orders",
        "snapshot": null,
        "why": "its record is missing",
    }]);
    assert_eq!(stats["unreadable"], expected);
    assert_eq!(stats["snapshots"], 0, "and what there was before");

    let verify = place.ebb("verify");
    assert!(
        verify.stdout.lines().any(|found| found == REASON),
        "{}",
        verify.stdout
    );
    assert!(
        !verify.stdout.contains("nothing is wrong"),
        "{}",
        verify.stdout
    );
    let said = verify.fails(5);
    assert!(said.contains("1 thing is wrong in ./ebb-data"), "{said}");
    let verify = place.ebb("verify --json");
    assert_eq!(verify.code, 5, "{}", verify.stderr);
    let report: serde_json::Value = serde_json::from_str(&verify.stdout).unwrap();
    assert_eq!(report["unreadable"], expected);
    assert_eq!(report["findings"], json!([]));
}

#[test]
fn verify_reads_the_schema_of_keyspaces_and_snapshots() {
    let place = with_change(|db| {
        let shop = db.existing_keyspace("shop").unwrap();
        let orders = shop.existing_table("orders").unwrap();
        let record = orders.get(SCHEMA_KEY).unwrap().unwrap();
        orders.put(SCHEMA_KEY, b"{}").unwrap();
        shop.create_snapshot("monday").unwrap();
        orders.put(SCHEMA_KEY, &record).unwrap();
    });
    let said = place.ebb("verify");
    assert_eq!(said.code, 5, "{}", said.stderr);
    let begin = "the schema of table shop.orders at snapshot monday cannot be read";
    assert!(said.stdout.starts_with(begin), "{}", said.stdout);
    place.ebb("snapshot delete --keyspace shop monday").ok();
    place.ebb("verify").ok();

    {
        let db = Db::open(place.path("ebb-data"), database_options()).unwrap();
        let own = db.existing_keyspace("ebb_system").unwrap();
        own.existing_table("keyspaces")
            .unwrap()
            .put(b"shop", b"\x01[]")
            .unwrap();
    }
    place.until_unlocked();
    let said = place.ebb("verify");
    assert_eq!(said.code, 5, "{}", said.stderr);
    let begin = "the schema of keyspace shop cannot be read";
    assert!(said.stdout.starts_with(begin), "{}", said.stdout);
}

#[test]
fn a_server_starts_over_it_logs_it_and_serves_everything_else() {
    let place = with_lost_record();
    let mut server = Server::start(&place, "");
    server.error_line_with(REASON);
    let mut client = server.client();
    for text in [
        "SELECT * FROM shop.orders",
        "INSERT INTO shop.orders (id) VALUES (3)",
        "CREATE TABLE shop.orders (id int PRIMARY KEY)",
    ] {
        let refused = query(&mut client, text);
        assert!(
            matches!(refused, Err(ErrorKind::Invalid)),
            "{text}: {refused:?}"
        );
    }
    let rows = |client: &mut _, text: &str| match query(client, text) {
        Ok(Response::Rows(rows)) => rows.len(),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(rows(&mut client, "SELECT * FROM shop.other"), 1);
    query(&mut client, "DROP TABLE shop.orders").unwrap();
    query(&mut client, "CREATE TABLE shop.orders (id int PRIMARY KEY)").unwrap();
    assert_eq!(rows(&mut client, "SELECT * FROM shop.orders"), 0);
    drop(client);
    assert_eq!(server.stop(), Some(0));
    place.until_unlocked();
    place.ebb("verify").ok();
}

/// Regression: the start wrote the damaged copy again, and no line of the log reported the damage.
#[test]
fn a_start_logs_the_damage_to_one_copy_of_the_manifest() {
    let place = with_change(|_| {});
    let name = place.read("ebb-data/CURRENT");
    let manifest = place.path("ebb-data").join(name.trim_end());
    let mut bytes = std::fs::read(&manifest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&manifest, bytes).unwrap();
    let mut server = Server::start(&place, "");
    server.error_line_with("nothing is lost, because the other copy has this part");
    assert_eq!(server.stop(), Some(0));
    place.until_unlocked();
    place.ebb("verify").ok();
}

#[test]
fn a_server_starts_over_a_damaged_history_of_jobs_and_serves_all_tables() {
    let place = with_change(|db| {
        History::open(db).unwrap();
        let own = db.existing_keyspace("ebb_system").unwrap();
        let jobs = own.existing_table("jobs").unwrap();
        jobs.put(b"1795000000000", b"{}").unwrap();
    });
    let mut server = Server::start(&place, "");
    server.error_line_with("unfinished jobs are not restarted");
    let mut client = server.client();
    let rows = query(&mut client, "SELECT * FROM shop.other");
    assert!(matches!(rows, Ok(Response::Rows(rows)) if rows.len() == 1));
    query(
        &mut client,
        "INSERT INTO shop.orders (id, v) VALUES (3, 'third')",
    )
    .unwrap();
    drop(client);
    let said = place.ebb("jobs").fails(5);
    assert!(said.contains("ebb_system.jobs"), "{said}");
    place.ebb("backup copy").ok();
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn repair_keeps_its_rows_and_drop_removes_it_and_nothing_else() {
    let place = with_lost_record();
    let rows = place.ebb("scan --json shop.orders").ok();
    assert_eq!(rows.lines().count(), 1, "{rows}");
    let repaired = place.ebb("repair repaired");
    assert!(repaired.stdout.contains(REASON), "{}", repaired.stdout);
    let said = repaired.fails(5);
    assert!(said.contains("all rows are in repaired"), "{said}");
    let saved = place.ebb("scan --json --data repaired shop.orders").ok();
    assert_eq!(saved, rows);
    let other = place.ebb("scan --json shop.other").ok();
    let saved = place.ebb("scan --json --data repaired shop.other").ok();
    assert_eq!(saved, other);

    // A job finds no schema, and fails as over a damaged file.
    for run in [
        "run wordcount --table shop.orders --output x.tsv",
        "run wordcount --table shop.other --output shop.orders",
    ] {
        let said = place.ebb(run).fails(5);
        assert!(said.contains(REASON), "{run}: {said}");
    }

    place.ebb("drop shop.orders --yes").ok();
    assert!(!place.ebb("stats").ok().contains("unreadable"));
    assert_eq!(place.ebb("scan --json shop.other").ok(), other);
    place.ebb("drop --data repaired shop --yes").ok();
    place.ebb("verify --data repaired").ok();
}
