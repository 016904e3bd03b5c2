//! Jobs over tables that CQL made, beside the server and after it.

use ebb_cql::client::Client;

use crate::place::Place;
use crate::serving::{KEYSPACE, Server, query};

/// A server with the table of orders, of which some are deleted and some expire soon.
fn shop() -> (Place, Server, Client) {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut client = server.client();
    for text in [
        KEYSPACE,
        "CREATE TABLE shop.orders (customer text, at timestamp, id uuid, name text STATIC, \
         total decimal, pieces int, paid boolean, tags set<text>, raw blob, \
         PRIMARY KEY (customer, at)) WITH CLUSTERING ORDER BY (at DESC)",
        "INSERT INTO shop.orders (customer, name) VALUES ('nobody', 'Nobody')",
        "INSERT INTO shop.orders (customer, at, total) VALUES ('gone', 1, 1)",
        "DELETE FROM shop.orders WHERE customer = 'gone'",
    ] {
        query(&mut client, text).unwrap();
    }
    for customer in ["ada", "bob, jr"] {
        for day in 1..=3 {
            let insert = format!(
                "INSERT INTO shop.orders (customer, at, id, name, total, pieces, paid, tags, raw) \
                 VALUES ('{customer}', '2024-02-0{day} 10:00:00+0000', \
                 00000000-0000-0000-0000-00000000000{day}, 'The {customer}', {day}.50, {day}, \
                 true, {{'big', 'red'}}, 0xca0{day})"
            );
            query(&mut client, &insert).unwrap();
        }
    }
    for text in [
        "DELETE FROM shop.orders WHERE customer = 'ada' AND at = '2024-02-02 10:00:00+0000'",
        "DELETE total FROM shop.orders WHERE customer = 'ada' AND at = '2024-02-03 10:00:00+0000'",
        "CREATE SNAPSHOT monday ON TABLE shop.orders",
        "INSERT INTO shop.orders (customer, at, pieces) VALUES ('late', 5, 100)",
    ] {
        query(&mut client, text).unwrap();
    }
    (place, server, client)
}

#[test]
fn jobs_name_the_columns_of_a_cql_table_and_see_its_rows_as_a_select_does() {
    let (place, server, _client) = shop();
    let at_monday = "--table shop.orders --snapshot monday";
    let sums = "run aggregate --by customer --of total,pieces --output -";
    let expected = "ada\t2,1,1.5,1.5,1.5,1.5,2,4,1,3,2\n\
                    bob, jr\t3,3,7.5,1.5,3.5,2.5,3,6,1,3,2\n\
                    nobody\t1,0,,,,,0,,,,\n";
    // In the server, in processes of their own, and without a server.
    assert_eq!(place.ebb(&format!("{sums} {at_monday}")).ok(), expected);
    let isolated = format!("{sums} {at_monday} --isolate process");
    assert_eq!(place.ebb(&isolated).ok(), expected);
    let select = "run select --columns customer,at,id,name,total,pieces,paid,tags,raw --where";
    let done = place
        .command(&format!(
            "{select} pieces=3 {at_monday} --output three.jsonl"
        ))
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let mut rows: Vec<String> = place
        .read("three.jsonl")
        .lines()
        .map(str::to_string)
        .collect();
    rows.sort();
    let row = |customer: &str, total: &str| {
        format!(
            "{{\"customer\":\"{customer}\",\"at\":\"2024-02-03 10:00:00.000+0000\",\
             \"id\":\"00000000-0000-0000-0000-000000000003\",\"name\":\"The {customer}\",\
             \"total\":{total},\"pieces\":3,\"paid\":\"true\",\"tags\":\"{{'big', 'red'}}\",\
             \"raw\":\"0xca03\"}}"
        )
    };
    assert_eq!(rows, [row("ada", "null"), row("bob, jr", "3.50")]);
    let words = format!("run wordcount {at_monday} --columns tags --output -");
    assert_eq!(place.ebb(&words).ok(), "big\t5\nred\t5\n");
    let late = place.ebb("run aggregate --by customer --of pieces --table shop.orders --output -");
    assert!(late.ok().contains("late\t1,1,100"), "the newest rows");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(place.ebb(&format!("{sums} {at_monday}")).ok(), expected);
}

#[test]
fn what_does_not_fit_a_cql_table_is_refused_with_what_there_is() {
    let (place, _server, _client) = shop();
    let job = "run aggregate --table shop.orders --output -";
    let said = place.ebb(&format!("{job} --by nobody")).fails(2);
    assert!(said.contains("customer, at, "), "{said}");
    let said = place.ebb(&format!("{job} --range a..b")).fails(2);
    assert!(said.contains("made by CQL"), "{said}");
    let said = place.ebb(&format!("{job} --values json")).fails(2);
    assert!(said.contains("made by CQL"), "{said}");
    let words = "run wordcount --table shop.orders --output - --columns";
    let said = place.ebb(&format!("{words} none")).fails(3);
    assert!(said.contains("no column named \"none\""), "{said}");
    let said = place.ebb(&format!("{job} --of paid")).fails(2);
    assert!(said.contains("column paid is \"true\""), "{said}");
    place.write("a.txt", "one\n");
    place
        .ebb("run wordcount --text a.txt --columns x --output -")
        .fails(2);
}
