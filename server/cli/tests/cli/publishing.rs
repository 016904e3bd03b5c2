//! `ebb publish`, beside a server and without one.

use serde_json::Value;

use crate::place::Place;
use crate::serving::{KEYSPACE, Server, query};

#[test]
fn a_snapshot_is_published_in_the_server_that_holds_the_database_and_without_one() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut client = server.client();
    for text in [
        KEYSPACE,
        "CREATE SNAPSHOT sunday ON KEYSPACE shop",
        "CREATE TABLE shop.items (id int PRIMARY KEY, price varint)",
        "INSERT INTO shop.items (id, price) VALUES (1, 5)",
        "CREATE SNAPSHOT monday ON KEYSPACE shop",
        "INSERT INTO shop.items (id, price) VALUES (2, 6)",
        "CREATE SNAPSHOT tuesday ON KEYSPACE shop",
        "INSERT INTO shop.items (id, price) VALUES (3, 77777777777777777777777777777777777777777)",
        "CREATE SNAPSHOT wednesday ON KEYSPACE shop",
    ] {
        query(&mut client, text).unwrap();
    }
    let is_whole = |snapshot: &str| {
        let record = format!("lake/_ebb/shop/{snapshot}.json");
        place.dir.path().join(record).exists()
    };
    let said = place.ebb("publish shop@monday lake").ok();
    assert!(said.contains("publish succeeded"), "{said}");
    assert!(said.contains("shop.items at monday: 1 row"), "{said}");
    let written = "shop.items: 1 row in full, because it is the first publication";
    assert!(said.contains(written), "{said}");
    assert!(is_whole("monday"));
    let said = place.ebb("publish shop@monday lake").ok();
    assert!(said.contains("shop@monday is published already"), "{said}");
    let said = place.ebb("snapshot list --pinned").ok();
    assert!(
        said.contains("items, for publications to file://"),
        "{said}"
    );
    let said = place.ebb("snapshot list").ok();
    assert!(!said.contains("publications to"), "{said}");

    let said = place.ebb("publish shop@none lake").fails(3);
    assert!(said.contains("no snapshot none"), "{said}");
    let said = place.ebb("publish shop@sunday lake").fails(3);
    assert!(said.contains("has no tables"), "{said}");
    for target in ["ebb-data", "lake/../ebb-data/lake/new"] {
        let said = place.ebb(&format!("publish shop@monday {target}")).fails(2);
        assert!(said.contains("directory of the database"), "{said}");
    }
    place.ebb("publish shop lake").refused();
    let said = place.ebb("publish shop@monday s3://id:key@lake").refused();
    assert!(said.contains("credentials are not part of it"), "{said}");
    if cfg!(not(feature = "s3")) {
        let said = place.ebb("publish shop@monday s3://lake/ebb").fails(2);
        assert!(said.contains("--features s3"), "{said}");
    }
    let said = place.ebb("publish ebb_system@x lake --table jobs").fails(2);
    assert!(said.contains("ebb's own"), "{said}");

    let said = place.ebb("publish shop@wednesday lake").fails(2);
    assert!(said.contains("row id = 3, column price: 77777"), "{said}");
    assert!(!is_whole("wednesday"));
    let jobs = place.ebb("jobs --json").ok();
    // The record of the job has the error without the value: those who see it may not be allowed to read
    // the table.
    assert!(!jobs.contains("77777"), "{jobs}");
    assert_eq!(server.stop(), Some(0));

    let said = place
        .ebb("publish shop@tuesday lake --table items --json")
        .ok();
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["outcome"]["kind"], "succeeded", "{said}");
    let written = "shop.items: 1 row added, 0 replaced, 0 deleted";
    assert_eq!(report["notes"][0], written, "{said}");
    assert!(is_whole("tuesday"));
    // The version before it is that of monday: the publication of wednesday failed, and made none.
    let hint = place.read("lake/shop/items/metadata/version-hint.text");
    assert_eq!(hint, "2");
    let said = place
        .ebb("publish shop@wednesday lake --varint-as-text --pin-max 20% --keep 1")
        .ok();
    assert!(
        said.contains("3 rows in full, because the columns"),
        "{said}"
    );
    let removed = "shop.items: 2 older publications removed";
    assert!(said.contains(removed), "{said}");
    assert!(!is_whole("monday") && !is_whole("tuesday"));
    let said = place.ebb("publish shop@monday lake --keep 0").refused();
    assert!(said.contains("as in 3,7d"), "{said}");
    place
        .ebb("publish shop@monday lake --pin-max week")
        .refused();
    assert!(is_whole("wednesday"));
}
