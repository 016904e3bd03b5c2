//! SELECTs from virtual tables that compute the rows of some keyspaces and tables only.

use bytes::Bytes;
use ebb_cql::protocol::{QueryParameters, Value, ValuesBuf};
use ebb_model::types::elements;
use ebb_tables::read::Source;

use super::harness::Server;
use crate::analyse::markers::Bound;
use crate::call::{Outcome, Service};
use crate::prepared::Meaning;
use crate::read::{Bounds, computed_rows};
use crate::system::Lookup;

/// Executes a SELECT from a virtual table twice: from the rows that the table computes for the
/// statement, and from all rows. Checks that the results are equal. Returns the numbers of rows
/// that were computed each time.
#[track_caller]
fn compare(server: &Server, text: &str, bound: &[&[u8]]) -> [usize; 2] {
    let executor = &server.executor;
    let prepared = server.prepare(text);
    let prepared = prepared.unwrap_or_else(|error| panic!("{text}: {error}"));
    let meaning = prepared.meaning.load_full();
    let Meaning::Select(meaning) = &*meaning else {
        panic!("{text} is no SELECT");
    };
    let (schema, plan) = (&meaning.schema, meaning.select.plan());
    let table = executor.system.table(schema.keyspace(), schema.name());
    let table = table.unwrap_or_else(|| panic!("{text} reads no virtual table"));
    let state = executor.catalog().state();
    let facts = executor.facts(&state, &server.user).unwrap();
    let values: ValuesBuf = bound.iter().map(|value| Value::Bytes(value)).collect();
    let parameters = || QueryParameters {
        values: values.as_values(),
        ..QueryParameters::default()
    };
    let found = server.answer(parameters(), |call, out| {
        executor.execute(&prepared, call, out)
    });
    let mut all = 0;
    let expected = server.answer(parameters(), |call, out| {
        let bound = Bound::new(call.parameters.values, &meaning.markers, 0)?;
        let bound = bound.calling(&plan.volatile)?;
        let rows = table.rows(&facts, &Lookup::default(), usize::MAX)?;
        all = rows.len();
        let rows = computed_rows(schema, rows)?;
        let bounds = Bounds {
            limits: &executor.limits,
            guardrails: None,
        };
        let source = Source::Memory(&rows);
        (meaning.select).execute(&source, call, &bound, None, bounds, out)?;
        Ok(Outcome::default())
    });
    let [found, expected] = [found, expected].map(|answer| answer.map(|(response, _)| response));
    assert_eq!(found, expected, "{text}");
    [computed_for(server, text, &parameters()), all]
}

/// Returns the number of rows that a virtual table computes for a SELECT with these parameters.
fn computed_for(server: &Server, text: &str, parameters: &QueryParameters<'_>) -> usize {
    let executor = &server.executor;
    let prepared = server.prepare(text).unwrap();
    let meaning = prepared.meaning.load_full();
    let meaning = meaning.as_select().unwrap();
    let (schema, plan) = (&meaning.schema, meaning.select.plan());
    let table = executor.system.table(schema.keyspace(), schema.name());
    let state = executor.catalog().state();
    let bound = Bound::new(parameters.values, &meaning.markers, 0).unwrap();
    let bound = bound.calling(&plan.volatile).unwrap();
    let lookup = executor.lookup(&state, &meaning.select, &bound, parameters);
    let facts = executor.facts(&state, &server.user).unwrap();
    let rows = table.unwrap().rows(&facts, &lookup.unwrap(), usize::MAX);
    rows.unwrap().len()
}

/// Returns a server with ambiguous names: two keyspaces have tables of the same name, and a
/// snapshot has a table that was dropped later.
fn server() -> Server {
    let server = Server::with(&[
        "CREATE TYPE p (x int)",
        "CREATE TABLE t (k int, c text, s blob STATIC, v int, PRIMARY KEY (k, c))",
        "CREATE INDEX by_v ON t (v)",
        "CREATE TABLE u (k int PRIMARY KEY, v frozen<p>)",
        "CREATE TABLE w (k int PRIMARY KEY, a int, b int)",
        "ALTER TABLE w DROP a",
        "CREATE KEYSPACE other WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE other.t (k int PRIMARY KEY)",
        "CREATE SNAPSHOT s ON KEYSPACE ks",
        "DROP TABLE u",
    ]);
    server.executor.catalog().set_listed_snapshots(1);
    server
}

#[test]
fn a_lookup_changes_no_answer() {
    let server = server();
    let keyspaces = [
        "LIMIT 3",
        "WHERE keyspace_name = 'ks'",
        "WHERE keyspace_name = 'ks@s'",
        "WHERE keyspace_name = 'system'",
        "WHERE keyspace_name = 'system_views'",
        "WHERE keyspace_name = 'ks@nothing'",
        "WHERE keyspace_name = null",
        "WHERE keyspace_name IN ('other', 'ks', 'ks@s', 'ks', 'system_schema', 'nothing')",
        "WHERE keyspace_name IN ()",
        "WHERE keyspace_name = 'ks' AND token(keyspace_name) > 0",
        "WHERE token(keyspace_name) > 0",
        "WHERE keyspace_name > 'ks' ALLOW FILTERING",
    ];
    for table in ["keyspaces", "types", "views"] {
        for condition in keyspaces {
            let text = format!("SELECT * FROM system_schema.{table} {condition}");
            compare(&server, &text, &[]);
        }
    }
    let tables = [
        "WHERE keyspace_name = 'ks' AND table_name = 't'",
        "WHERE keyspace_name = 'ks@s' AND table_name = 'u'",
        "WHERE keyspace_name = 'ks' AND table_name = 'nothing'",
        "WHERE keyspace_name = 'ks' AND table_name = null",
        "WHERE keyspace_name = 'system' AND table_name = 'local'",
        "WHERE keyspace_name IN ('ks', 'other', 'ks@s') AND table_name = 't'",
        "WHERE keyspace_name IN ('ks', 'other') AND table_name IN ('w', 't', 'w', 'nothing')",
        "WHERE keyspace_name = 'ks' AND table_name > 't'",
        "WHERE keyspace_name = 'ks' ORDER BY table_name DESC LIMIT 1",
        "WHERE keyspace_name IN ('ks', 'other') PER PARTITION LIMIT 1",
        "WHERE table_name = 't' ALLOW FILTERING",
        "WHERE table_name IN ('t', 'local') ALLOW FILTERING",
    ];
    for table in ["tables", "columns", "dropped_columns", "indexes"] {
        for condition in keyspaces.iter().chain(&tables) {
            let text = format!("SELECT * FROM system_schema.{table} {condition}");
            compare(&server, &text, &[]);
        }
    }
    let columns = "SELECT * FROM system_schema.columns WHERE keyspace_name = 'ks' AND";
    for condition in [
        "table_name = 't' AND column_name IN ('v', 'k')",
        "(table_name, column_name) = ('t', 'v')",
        "(table_name, column_name) IN (('w', 'k'), ('t', 'v'), ('t', 'x'))",
        "(table_name, column_name) > ('t', 'k')",
        "column_name = 'k' ALLOW FILTERING",
    ] {
        compare(&server, &format!("{columns} {condition}"), &[]);
    }
    for text in [
        "SELECT count(*) FROM system_schema.columns WHERE keyspace_name = 'ks'",
        "SELECT * FROM system_virtual_schema.tables WHERE keyspace_name = 'system_views'",
        "SELECT * FROM system_views.snapshots WHERE keyspace_name = 'ks'",
        // The column `table_name` contains the name of a keyspace there.
        "SELECT * FROM system.\"IndexInfo\" WHERE table_name = 'ks'",
        "SELECT key, host_id FROM system.local WHERE key = 'local'",
    ] {
        compare(&server, text, &[]);
    }
}

#[test]
fn a_select_of_one_table_in_system_schema_computes_only_its_rows() {
    let server = server();
    let select = |from: &str| format!("SELECT * FROM system_schema.{from}");
    let one = select("tables WHERE keyspace_name = ? AND table_name = ?");
    let [looked_up, all] = compare(&server, &one, &[b"ks", b"t"]);
    assert!(looked_up == 1 && all > 20, "{looked_up} of {all}");
    for (from, rows) in [
        ("keyspaces WHERE keyspace_name = 'ks'", 1),
        ("columns WHERE keyspace_name = 'ks' AND table_name = 't'", 4),
        (
            "columns WHERE keyspace_name = 'ks@s' AND table_name = 'u'",
            2,
        ),
        ("indexes WHERE keyspace_name = 'ks' AND table_name = 't'", 1),
        ("tables WHERE table_name = 't' ALLOW FILTERING", 3),
        ("types WHERE keyspace_name = 'other'", 0),
    ] {
        let [looked_up, _] = compare(&server, &select(from), &[]);
        assert_eq!(looked_up, rows, "{from}");
    }
    let both = elements::build([&b"ks"[..], b"other"]);
    let some = select("tables WHERE keyspace_name IN ?");
    assert_eq!(compare(&server, &some, &[&both])[0], 3);
}

#[test]
fn snapshots_that_are_not_listed_are_keyspaces_for_statements_that_name_them() {
    let mut server = server();
    server.executor.catalog().set_listed_snapshots(0);
    for n in 0..40 {
        server.run(&format!("CREATE SNAPSHOT s{n} ON KEYSPACE ks"));
    }
    let keyspaces = server.rows("SELECT keyspace_name FROM system_schema.keyspaces");
    assert!(!keyspaces.contains('@'), "{keyspaces}");
    for (name, tables) in [
        ("ks@s", "t | u | w"),
        ("ks__at__s", "t | u | w"),
        ("ks@s0", "t | w"),
    ] {
        let mut rows =
            |from: &str| server.rows(&format!("SELECT {from} WHERE keyspace_name = '{name}'"));
        assert_eq!(rows("keyspace_name FROM system_schema.keyspaces"), name);
        assert_eq!(rows("table_name FROM system_schema.tables"), tables);
        assert_eq!(rows("type_name FROM system_schema.types"), "p");
    }
    server.run("DROP SNAPSHOT s ON KEYSPACE ks");
    let both = "table_name FROM system_schema.tables WHERE keyspace_name IN ('ks@s', 'other')";
    assert_eq!(server.rows(&format!("SELECT {both}")), "t");
}

/// Reads the result of a SELECT in pages, and checks that the pages together have the same rows as
/// the result without paging. Returns the most rows that the virtual table computed for a page, and
/// the number of all rows.
#[track_caller]
fn read_in_pages(server: &mut Server, text: &str, page_size_rows: u32) -> [usize; 2] {
    let all = server.page(text, &[], None, None).unwrap().rows;
    let (mut rows, mut computed_max) = (Vec::new(), 0);
    let mut state: Option<Bytes> = None;
    loop {
        let parameters = QueryParameters {
            page_size_rows: Some(page_size_rows),
            paging_state: state.as_deref(),
            ..QueryParameters::default()
        };
        computed_max = computed_max.max(computed_for(server, text, &parameters));
        let page = server.page(text, &[], Some(page_size_rows), state.as_deref());
        let page = page.unwrap();
        rows.extend(page.rows);
        state = page.state;
        if state.is_none() {
            break;
        }
    }
    assert_eq!(rows, all, "{text} in pages of {page_size_rows}");
    [computed_max, all.len()]
}

/// Adds a few dozen tables to a server.
fn with_many_tables(mut server: Server) -> Server {
    for n in 0..30 {
        let columns = "(k int PRIMARY KEY, a int, b int)";
        server.run(&format!("CREATE TABLE other.many{n:02} {columns}"));
    }
    server
}

/// Regression: each page computed the rows of all tables, so the time in which a driver read the
/// schema grew with the square of the number of tables. After a first fix, each page still computed
/// the rows of all columns of a table.
#[test]
fn a_page_of_a_table_about_the_schema_computes_only_rows_near_it() {
    let mut server = with_many_tables(server());
    for (from, all_min) in [
        ("system_schema.columns", 200),
        ("system_schema.columns WHERE keyspace_name = 'other'", 90),
        ("system_schema.columns LIMIT 100", 100),
        ("system_schema.tables", 50),
        ("system.size_estimates", 30),
    ] {
        for page_size_rows in [4, 30] {
            let text = format!("SELECT * FROM {from}");
            let [computed, all] = read_in_pages(&mut server, &text, page_size_rows);
            assert!(all >= all_min, "{from} has {all} rows");
            // The row after the page shows that another page follows.
            let expected_max = page_size_rows as usize + 1;
            assert!(computed <= expected_max, "{from}: {computed} rows");
        }
    }
}

#[test]
fn pages_of_a_virtual_table_have_all_rows_whatever_the_statement_selects() {
    let mut server = with_many_tables(server());
    for select in [
        "* FROM system_schema.keyspaces",
        "* FROM system_schema.types",
        "JSON * FROM system_schema.tables",
        "* FROM system_schema.columns WHERE kind = 'partition_key' ALLOW FILTERING",
        "* FROM system_schema.columns WHERE keyspace_name > 'ks' ALLOW FILTERING",
        "* FROM system_schema.columns WHERE token(keyspace_name) > 0",
        "* FROM system_schema.columns WHERE keyspace_name IN ('system', 'other', 'ks', 'ks@s')",
        "* FROM system_schema.columns WHERE keyspace_name = 'other' AND table_name > 'many07'",
        "* FROM system_schema.columns WHERE keyspace_name = 'other' ORDER BY table_name DESC",
        "* FROM system_schema.columns WHERE keyspace_name = 'other' AND table_name = 'many07'",
        "* FROM system_schema.columns PER PARTITION LIMIT 5",
        "DISTINCT keyspace_name FROM system_schema.columns",
        "keyspace_name, count(*) FROM system_schema.columns GROUP BY keyspace_name",
        "keyspace_name, table_name, count(*) FROM system_schema.columns \
         GROUP BY keyspace_name, table_name",
        "* FROM system_virtual_schema.columns",
        // Regression: rows of the other keyspace filled the page.
        "* FROM system_virtual_schema.columns WHERE keyspace_name = 'system_views'",
        "* FROM system_virtual_schema.columns WHERE keyspace_name = 'system_virtual_schema'",
    ] {
        for page_size_rows in [2, 30] {
            read_in_pages(&mut server, &format!("SELECT {select}"), page_size_rows);
        }
    }
}
