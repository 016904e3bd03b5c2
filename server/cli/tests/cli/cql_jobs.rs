//! Jobs over tables that were created by CQL statements: while the server runs, and after it has stopped.

use ebb_cql::client::Client;
use ebb_cql::protocol::Response;
use ebb_jobs::history::{History, JobTables, OutputMark};
use ebb_jobs::request::OutputPlace;
use ebb_model::row::RowRef;
use ebb_storage::Db;
use ebb_tables::database_options;
use ebb_tables::lookup::table_number;
use ebb_tables::names::TableName;
use serde_json::Value;

use crate::place::{Place, output};
use crate::serving::{KEYSPACE, Server, query};

/// Starts a server with a table of orders. Some of the orders are deleted, and some expire soon.
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
    let expected = "customer\trows,total_count,total_sum,total_min,total_max,total_avg,\
                    pieces_count,pieces_sum,pieces_min,pieces_max,pieces_avg\n\
                    ada\t2,1,1.5,1.5,1.5,1.5,2,4,1,3,2\n\
                    bob, jr\t3,3,7.5,1.5,3.5,2.5,3,6,1,3,2\n\
                    nobody\t1,0,,,,,0,,,,\n";
    // The job runs in the server, in processes of its own, and without a server.
    assert_eq!(place.ebb(&format!("{sums} {at_monday}")).ok(), expected);
    let isolated = format!("{sums} {at_monday} --isolate process");
    assert_eq!(place.ebb(&isolated).ok(), expected);
    let select = "run select --columns customer,at,id,name,total,pieces,paid,tags,raw --where";
    let done = output(&mut place.command(&format!(
        "{select} pieces=3 {at_monday} --output three.jsonl"
    )));
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
    assert_eq!(place.ebb(&words).rows(), "big\t5\nred\t5\n");
    let late = place.ebb("run aggregate --by customer --of pieces --table shop.orders --output -");
    assert!(late.ok().contains("late\t1,1,100"), "the newest rows");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(place.ebb(&format!("{sums} {at_monday}")).ok(), expected);
}

#[test]
fn options_that_do_not_fit_a_cql_table_are_refused_with_its_columns() {
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
    let said = place.ebb(&format!("{words} name,customer")).fails(2);
    assert!(
        said.contains("column customer of table shop.orders is in"),
        "{said}"
    );
    let said = place.ebb(&format!("{job} --of paid")).fails(2);
    assert!(said.contains("column paid is \"true\""), "{said}");
    place.write("a.txt", "one\n");
    place
        .ebb("run wordcount --text a.txt --columns x --output -")
        .fails(2);
}

/// Executes a statement, and returns the cells of its rows; `None` is a null cell.
fn cells(client: &mut Client, text: &str) -> Vec<Vec<Option<Vec<u8>>>> {
    let rows = match query(client, text).unwrap() {
        Response::Rows(rows) => rows,
        other => panic!("{other:?}"),
    };
    let cells: Vec<_> = rows.cells().map(|cell| cell.map(<[u8]>::to_vec)).collect();
    cells
        .chunks(rows.column_count())
        .map(<[_]>::to_vec)
        .collect()
}

#[test]
fn the_rows_of_a_job_are_a_table_of_cql() {
    let (place, server, mut client) = shop();
    let job = "run aggregate --by customer --of pieces --table shop.orders --snapshot monday";
    let said = place.ebb(&format!("{job} --output shop.totals")).ok();
    assert!(said.contains("table shop.totals: 3 rows"), "{said}");
    let text = "SELECT customer, rows, pieces_max FROM shop.totals WHERE customer = 'ada'";
    let ada = cells(&mut client, text);
    let expected = [
        Some(b"ada".to_vec()),
        Some(2_i64.to_be_bytes().to_vec()),
        Some(3_i32.to_be_bytes().to_vec()),
    ];
    assert_eq!(ada, [expected]);
    let said = place.ebb(&format!("{job} --output shop.totals")).fails(1);
    assert!(said.contains("has rows already"), "{said}");
    // The output is an existing table, with a column that the job does not write.
    let create = "CREATE TABLE shop.kept (who text PRIMARY KEY, rows int, pieces_count bigint, \
                  pieces_sum varint, pieces_min double, pieces_max decimal, pieces_avg double, \
                  note text)";
    query(&mut client, create).unwrap();
    place
        .ebb(&format!("{job} --output shop.kept --isolate process"))
        .ok();
    let text = "SELECT who, rows, note FROM shop.kept WHERE who = 'bob, jr'";
    let bob = cells(&mut client, text);
    assert_eq!(
        bob,
        [[
            Some(b"bob, jr".to_vec()),
            Some(3_i32.to_be_bytes().to_vec()),
            None
        ]]
    );
    // A copy has the columns and types of its source.
    let copy = "run select --columns customer,at,id,total --table shop.orders --output shop.copy";
    let said = place.ebb(copy).fails(2);
    assert!(said.contains("CREATE TABLE"), "{said}");
    let sorted = "run sort --table shop.totals --output shop.sorted";
    place.ebb(sorted).ok();
    assert_eq!(cells(&mut client, "SELECT rows FROM shop.sorted").len(), 3);
    // The table can be the input of the next job, and is there for the next server.
    let next = "run aggregate --of pieces_sum --table shop.totals --output -";
    assert!(place.ebb(next).rows().starts_with("all\t3,2,10,"));
    drop(client);
    assert_eq!(server.stop(), Some(0));
    let own = "run wordcount --table shop.totals --columns rows --output shop.words";
    place.ebb(own).ok();
    let server = Server::start(&place, "");
    let words = cells(&mut server.client(), "SELECT word, count FROM shop.words");
    assert_eq!(words.len(), 3);
}

#[test]
fn a_job_copies_collections_and_static_columns() {
    let (place, _server, mut client) = shop();
    let columns = "k text, c int, s map<text, int> STATIC, l list<text>, m map<int, boolean>, \
                   f frozen<set<int>>, u size, t tuple<int, text>, PRIMARY KEY (k, c)";
    for text in [
        "CREATE TYPE shop.size (w int, h int)",
        &format!("CREATE TABLE shop.things ({columns})"),
        &format!("CREATE TABLE shop.copies ({columns})"),
        "INSERT INTO shop.things (k, c, s, l, m, f, u, t) VALUES ('a', 1, {'x': 1}, \
         ['b', 'a', 'b'], {2: true, 1: false}, {3, 1}, {w: 1}, (1, 'it''s'))",
        "INSERT INTO shop.things (k, c) VALUES ('a', 2)",
        "INSERT INTO shop.things (k, s) VALUES ('alone', {'y': 2})",
    ] {
        query(&mut client, text).unwrap();
    }
    let copy = "run sort --table shop.things --output shop.copies";
    place.ebb(copy).ok();
    let mut of = |table: &str| {
        let columns = "k, c, s, l, m, f, u, t";
        cells(&mut client, &format!("SELECT {columns} FROM shop.{table}"))
    };
    let copied = of("copies");
    assert_eq!(copied.len(), 3);
    assert_eq!(copied, of("things"));
    let said = place.ebb(copy).fails(1);
    assert!(said.contains("has rows already"), "{said}");
    // Each element is a cell of its own.
    let change = "UPDATE shop.copies SET l = ['first'] + l, l = l + ['last'], m[2] = false, \
                  s['x'] = 7, u.h = 2 WHERE k = 'a' AND c = 1";
    query(&mut client, change).unwrap();
    let select = "SELECT toJson(l), toJson(m), toJson(s), toJson(u) FROM shop.copies \
                  WHERE k = 'a' AND c = 1";
    let row = cells(&mut client, select).remove(0).into_iter();
    let row: Vec<String> = row
        .map(|cell| String::from_utf8(cell.unwrap()).unwrap())
        .collect();
    let expected = [
        r#"["first", "b", "a", "b", "last"]"#,
        r#"{"1": false, "2": false}"#,
        r#"{"x": 7}"#,
        r#"{"w": 1, "h": 2}"#,
    ];
    assert_eq!(row, expected);
    // Static columns are copied with whole partitions.
    let create = "CREATE TABLE shop.customers (customer text, c int, rows bigint STATIC, \
                  PRIMARY KEY (customer, c))";
    query(&mut client, create).unwrap();
    // The rows of `combine` also have a column `bytes`, which this table lacks.
    let job = "run combine --by customer --table shop.orders --snapshot monday";
    place
        .ebb(&format!("{job} --output shop.customers"))
        .fails(2);
    let job = "run select --columns customer,rows --table shop.totals --output shop.customers";
    let totals = "run aggregate --by customer --of pieces --table shop.orders --snapshot monday";
    place.ebb(&format!("{totals} --output shop.totals")).ok();
    place.ebb(job).ok();
    let text = "SELECT rows, c FROM shop.customers WHERE customer = 'bob, jr'";
    let expected = [[Some(3_i64.to_be_bytes().to_vec()), None]];
    assert_eq!(cells(&mut client, text), expected);
}

#[test]
fn a_job_that_was_killed_when_its_rows_were_in_a_cql_table_has_succeeded() {
    let (place, server, mut client) = shop();
    let job = "run aggregate --by customer --of pieces --table shop.orders --snapshot monday";
    place.ebb(&format!("{job} --output shop.totals")).ok();
    let expected = cells(&mut client, "SELECT * FROM shop.totals");
    // The table of the second job below, whose process ended before the rows were there.
    let create = "CREATE TABLE shop.other (customer text PRIMARY KEY, rows bigint, \
                  pieces_count bigint, pieces_sum varint, pieces_min int, pieces_max int, \
                  pieces_avg decimal)";
    query(&mut client, create).unwrap();
    drop(client);
    assert_eq!(server.stop(), Some(0));
    let mut ids = Vec::new();
    {
        place.until_unlocked();
        let db = Db::open(place.path("ebb-data"), database_options()).unwrap();
        let history = History::open(&db).unwrap();
        let done = history.jobs().unwrap().pop().unwrap();
        let written_us = {
            // The record of the commit has the timestamp of any of the rows.
            let table = db
                .existing_keyspace("shop")
                .unwrap()
                .existing_table("totals")
                .unwrap();
            let (_, operand) = table.range::<&[u8], _>(..).last().unwrap().unwrap();
            RowRef::parse(&operand).unwrap().marker().unwrap().timestamp
        };
        // No row has the timestamp 7, so the second job has to start again. The first one must not:
        // it would fail, because its table has rows.
        for (output, written_us) in [("totals", written_us), ("other", 7)] {
            let name: TableName = format!("shop.{output}").parse().unwrap();
            let tables = JobTables {
                inputs: Vec::new(),
                output: table_number(&db, &name),
            };
            let mut request = done.request().unwrap();
            request.output.to = OutputPlace::Table(name);
            let begun = history.begin_claimed(&request, Vec::new(), tables, None, |_| Some(()));
            let (record, ()) = begun.unwrap();
            let mark = OutputMark::Timestamp(written_us);
            history.begin_commit(&record, Some(mark)).unwrap();
            ids.push(record.id);
        }
    }
    place.until_unlocked();
    let server = Server::start(&place, "");
    for id in ids {
        place.until_succeeded(&id);
    }
    let mut client = server.client();
    for table in ["totals", "other"] {
        let columns = "customer, rows, pieces_count, pieces_sum, pieces_min, pieces_max";
        let found = cells(&mut client, &format!("SELECT {columns} FROM shop.{table}"));
        // The number of rows is enough: `the_rows_of_a_job_are_a_table_of_cql` checks their values.
        assert_eq!(found.len(), expected.len(), "{table}");
    }
}

#[test]
fn a_job_reads_counters_as_a_select_shows_them() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut client = server.client();
    for text in [
        KEYSPACE,
        "CREATE TABLE shop.visits (site text, day int, seen counter, left counter, \
         PRIMARY KEY (site, day))",
        "UPDATE shop.visits SET seen = seen + 5 WHERE site = 'a' AND day = 1",
        "UPDATE shop.visits SET seen = seen - 2, left = left + 1 WHERE site = 'a' AND day = 1",
        "UPDATE shop.visits SET seen = seen + 7 WHERE site = 'a' AND day = 2",
        "UPDATE shop.visits SET seen = seen + 9 WHERE site = 'gone' AND day = 1",
        "UPDATE shop.visits SET seen = seen - 4 WHERE site = 'b' AND day = 1",
        "DELETE FROM shop.visits WHERE site = 'gone'",
        "CREATE SNAPSHOT monday ON TABLE shop.visits",
        "UPDATE shop.visits SET seen = seen + 100 WHERE site = 'b' AND day = 1",
    ] {
        query(&mut client, text).unwrap();
    }
    let sums = "run aggregate --by site --of seen,left --table shop.visits --output -";
    // The number of rows; then number, sum, minimum, maximum and mean of the values of each column.
    let a = "a\t2,2,10,3,7,5,1,1,1,1,1\n";
    let at_monday = place.ebb(&format!("{sums} --snapshot monday")).rows();
    assert_eq!(at_monday, format!("{a}b\t1,1,-4,-4,-4,-4,0,,,,\n"));
    assert_eq!(
        place.ebb(sums).rows(),
        format!("{a}b\t1,1,96,96,96,96,0,,,,\n")
    );
    let seen = "SELECT seen FROM shop.visits WHERE site = 'b' AND day = 1";
    let seen = cells(&mut client, seen);
    assert_eq!(seen, [[Some(96_i64.to_be_bytes().to_vec())]]);
    assert_eq!(server.stop(), Some(0));
}

/// Regression: a job that reads one of many columns never got an estimate, because the bytes that
/// it had read were compared with the bytes of the whole table.
#[test]
fn a_job_over_one_of_many_columns_has_an_estimate_after_its_first_run() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut client = server.client();
    let names: Vec<String> = (0..30).map(|n| format!("c{n}")).collect();
    let typed: Vec<String> = names.iter().map(|name| format!("{name} text")).collect();
    let typed = typed.join(", ");
    query(&mut client, KEYSPACE).unwrap();
    let create = format!("CREATE TABLE shop.wide (id int PRIMARY KEY, {typed})");
    query(&mut client, &create).unwrap();
    let names = names.join(", ");
    let values = vec![format!("'{}'", "x".repeat(60)); 30].join(", ");
    for id in 0..200 {
        let insert = format!("INSERT INTO shop.wide (id, {names}) VALUES ({id}, {values})");
        query(&mut client, &insert).unwrap();
    }
    let run = "run wordcount --table shop.wide --columns c7 --output";
    let advice = || {
        let told = place.ebb(&format!("{run} x.tsv --dry-run --json")).json();
        told["advice"].clone()
    };
    assert!(advice().is_null());
    place.ebb(&format!("{run} first.tsv")).ok();
    let profiles = place.ebb("jobs --profiles --json").json();
    let measured = &profiles[0]["measured"][0][1];
    let bytes = |value: &Value| value.as_u64().unwrap();
    let read_bytes = bytes(&measured["map"]["bytes_in"]);
    assert!(
        bytes(&measured["split_bytes"]) > 10 * read_bytes,
        "{measured}"
    );
    assert_eq!(advice()["is_same_work"], true);
}
