//! Statements through the executor, on a database in memory.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use ebb_cql::protocol::{
    BatchKind, Consistency, ErrorKind, ErrorResponse, QueryParameters, Response, SchemaChange,
    SchemaChangeKind, SchemaTarget, Value, Values, Version, prepared_id,
};
use ebb_cql::syntax;
use ebb_model::access::Resource;
use ebb_model::schema::Schema;
use ebb_storage::SnapshotOptions;
use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_test_support::cases::parse_cases;
use ebb_test_support::wait::Observed;
use memchr::memmem;

use super::harness::Server;
use crate::access::User;
use crate::call::{Call, SchemaChanges, Service, Statement};
use crate::schema_statements;
use crate::testing::never;

#[test]
fn the_queries_of_a_connecting_driver_are_answered() {
    let mut server = Server::new();
    assert_eq!(
        server.rows("SELECT cluster_name, key FROM system.local WHERE key = 'local'"),
        "ebb local"
    );
    assert_eq!(server.rows("SELECT * FROM system.peers"), "");
    for table in "keyspaces tables columns types functions indexes views".split(' ') {
        server.rows(&format!("SELECT * FROM system_schema.{table}"));
    }
    assert_eq!(
        server.refused("SELECT * FROM system.nothing"),
        "table nothing does not exist"
    );
}

/// Regression: ALTER TABLE ADD accepted a dropped column again with its old type but without
/// `frozen`. The next write of the column made its row unreadable, or with a static column its
/// partition.
#[test]
fn a_dropped_column_of_a_frozen_type_comes_back_as_frozen_only() {
    let mut server = Server::with(&[
        "CREATE TYPE a (x int)",
        "CREATE TABLE t (k int, c int, s frozen<a> STATIC, v frozen<a>, PRIMARY KEY (k, c))",
        "INSERT INTO t (k, c, s, v) VALUES (1, 1, {x: 1}, {x: 1})",
    ]);
    for (column, kind) in [("s", " STATIC"), ("v", "")] {
        server.run(&format!("ALTER TABLE t DROP {column}"));
        assert_eq!(
            server.refused(&format!("ALTER TABLE t ADD {column} a{kind}")),
            format!(
                "Cannot re-add previously dropped column '{column}' of type a, incompatible with \
                 previous type frozen<tuple<int>>"
            )
        );
        server.run(&format!("ALTER TABLE t ADD {column} frozen<a>{kind}"));
    }
    server.run("INSERT INTO t (k, c, s, v) VALUES (1, 1, {x: 2}, {x: 2})");
    assert_eq!(server.rows("SELECT s.x, v.x FROM t"), "2 2");
}

#[test]
fn no_read_and_no_increment_has_the_level_any() {
    let server = Server::with(&[
        "CREATE TABLE t (a int PRIMARY KEY)",
        "CREATE TABLE visits (a int PRIMARY KEY, n counter)",
    ]);
    let at_any = |text: &str| {
        let parameters = QueryParameters {
            consistency: Consistency::Any,
            ..QueryParameters::default()
        };
        let done = server.warnings_of(text, parameters);
        done.map_err(|error| error.message)
    };
    let of_reads = Err("ANY ConsistencyLevel is only supported for writes".to_owned());
    for read in [
        "SELECT * FROM t",
        "SELECT count(*) FROM t WHERE a = 1",
        "SELECT key FROM system.local",
    ] {
        assert_eq!(at_any(read), of_reads, "{read}");
    }
    let increment = at_any("UPDATE visits SET n = n + 1 WHERE a = 1");
    assert!(increment.unwrap_err().contains("level ANY"));
    for write in [
        "INSERT INTO t (a) VALUES (1)",
        "DELETE FROM t WHERE a = 1 IF EXISTS",
    ] {
        assert!(at_any(write).is_ok(), "{write}");
    }
}

/// Regression: changes of lists that read the list first were accepted at the level ANY.
#[test]
fn changes_that_read_a_list_first_are_rejected_at_the_level_any() {
    let server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, l list<int>)"]);
    let at_any = |text: &str| {
        let prepared = server.prepare(text).unwrap();
        let parameters = QueryParameters {
            consistency: Consistency::Any,
            ..QueryParameters::default()
        };
        let done = server.answer(parameters, |call, out| {
            server.executor.execute(&prepared, call, out)
        });
        let single = done.err().map(|error| error.message);
        if !prepared.may_be_in_batch() {
            return single;
        }
        // The same statement in a batch of the protocol has the same error.
        let statements = [(Arc::new(prepared), Values::default())];
        let done = server.answer(parameters, |call, out| {
            let logged = BatchKind::Logged;
            server.executor.batch(logged, &statements, call, out)
        });
        assert_eq!(done.err().map(|error| error.message), single, "{text}");
        single
    };
    let insert = "INSERT INTO t (k, l) VALUES (1, [1, 2, 3])";
    let rejected = "Write operation require a read but consistency ANY is not supported on reads";
    for (text, expected) in [
        (insert, None),
        ("UPDATE t SET l[0] = 1 WHERE k = 1", Some(rejected)),
        ("DELETE l[0] FROM t WHERE k = 1", Some(rejected)),
        ("UPDATE t SET l = l - [1] WHERE k = 1", Some(rejected)),
        (
            "BEGIN BATCH INSERT INTO t (k) VALUES (2); DELETE l[0] FROM t WHERE k = 1; APPLY BATCH",
            Some(rejected),
        ),
        ("UPDATE t SET l = l + [4] WHERE k = 1", None),
        ("UPDATE t SET l = [0] + l WHERE k = 1", None),
        ("UPDATE t SET l[0] = 1 WHERE k = 1 IF EXISTS", None),
        (
            "BEGIN BATCH UPDATE t SET l = l + [5] WHERE k = 1 IF EXISTS; \
             DELETE l[0] FROM t WHERE k = 1; APPLY BATCH",
            None,
        ),
    ] {
        assert_eq!(at_any(text).as_deref(), expected, "{text}");
    }
}

/// Regression: LIKE on a column that permits no relation, or with a value that is not of the
/// column's type, got the error for a column without an index. A bound tuple with too many values
/// got the error for a column of a tuple type.
#[test]
fn relations_that_do_not_fit_their_columns_get_cassandras_errors() {
    let mut server = Server::with(&[
        "CREATE TYPE ut (a int)",
        "CREATE TABLE t (a int, b int, c int, d text, u ut, l list<int>, p tuple<int, int>, \
         PRIMARY KEY (a, b, c))",
    ]);
    let cases = r#"
        u LIKE 'x%' => Non-frozen UDT column 'u' (ut) cannot be restricted by any relation
        l LIKE 'x%' => Collection column 'l' (list<int>) cannot be restricted by a 'LIKE' relation
        b LIKE 'x%' => Invalid STRING constant (x%) for "b" of type int
        d LIKE 'x%'
        => LIKE restriction is only supported on properly indexed columns. d LIKE 'x%' is not valid.
    "#;
    for [relation, message] in parse_cases(cases) {
        let text = format!("SELECT * FROM t WHERE {relation} ALLOW FILTERING");
        assert_eq!(server.refused(&text), message, "{text}");
    }
    let value = [&4_i32.to_be_bytes()[..], &1_i32.to_be_bytes()].concat();
    let (one, three) = (value.clone(), value.repeat(3));
    const TWO: &str = "Expected 2 values for frozen<tuple<int, int>> column, but got more";
    const ONE: &str = "Expected 1 value for frozen<tuple<int>> column, but got more";
    const OF_COLUMN: &str = "Invalid remaining data after end of tuple value";
    for (relation, message) in [
        ("a = 1 AND (b, c) = ?", TWO),
        ("a = 1 AND (b, c) > ?", TWO),
        ("a = 1 AND (b, c) IN (?)", TWO),
        ("a = 1 AND (b) = ?", ONE),
        ("p = ? ALLOW FILTERING", OF_COLUMN),
    ] {
        let text = format!("SELECT * FROM t WHERE {relation}");
        let done = server.page(&text, &[Some(&three)], None, None);
        assert_eq!(done.unwrap_err().message, message, "{text}");
    }
    let done = server.page(
        "SELECT * FROM t WHERE a = 1 AND (b) = ?",
        &[Some(&one)],
        None,
        None,
    );
    assert!(done.unwrap().rows.is_empty());
}

#[test]
fn the_schema_is_read_by_key_by_prefix_and_by_page() {
    let table = "CREATE TABLE t (a int, b text, c int, PRIMARY KEY (a, b))";
    let mut server = Server::with(&[table]);
    let select = "SELECT column_name, kind FROM system_schema.columns WHERE keyspace_name = 'ks'";
    let all = "a partition_key | b clustering | c regular";
    assert_eq!(server.rows(select), all);
    let one = format!("{select} AND table_name = 't' AND column_name IN ('c', 'b')");
    assert_eq!(server.rows(&one), "b clustering | c regular");
    let first = server.page(select, &[], Some(2), None).unwrap();
    assert_eq!(first.rows.len(), 2);
    let rest = server
        .page(select, &[], Some(2), first.state.as_deref())
        .unwrap();
    assert_eq!(rest.rows, [["c", "regular"]]);
    assert_eq!(rest.state, None);
    let descending = format!("{select} ORDER BY table_name DESC LIMIT 1");
    assert_eq!(server.rows(&descending), "c regular");
    assert_eq!(
        server.rows("SELECT count(*) FROM system_schema.columns WHERE keyspace_name = 'ks'"),
        "3"
    );
}

/// Regression: several relations on one column outside of the key, such as `d = 1 AND d = 2`, were
/// accepted, and so was CONTAINS beside `=`.
#[test]
fn invalid_statements_get_cassandras_errors() {
    let mut server = conflicts();
    let filtering = super::super::analyse::restrictions::REQUIRES_ALLOW_FILTERING;
    for relation in ["d = 1", "b = 1", "a > 1"] {
        let text = format!("SELECT * FROM t WHERE {relation}");
        assert_eq!(server.refused(&text), filtering, "{text}");
    }
    let steps = "
        SELECT x FROM t => Undefined column name x in table ks.t
        SELECT * FROM t WHERE a = 1 AND c = 1
        => PRIMARY KEY column \"c\" cannot be restricted as preceding column \"b\" is not restricted
        SELECT * FROM t WHERE a = 1 AND b > 1 AND c = 1
        => Clustering column \"c\" cannot be restricted (preceding column \"b\" is restricted by a \
           non-EQ relation)
        SELECT * FROM t WHERE a = 1 AND a = 2
        => a cannot be restricted by more than one relation if it includes an Equal
        SELECT * FROM t WHERE d = 1 AND d = 2 ALLOW FILTERING
        => d cannot be restricted by more than one relation if it includes an Equal
        SELECT * FROM t WHERE d = 1 AND d IN (1) ALLOW FILTERING
        => d cannot be restricted by more than one relation if it includes an Equal
        SELECT * FROM t WHERE d IN (1) AND d IN (1, 2) ALLOW FILTERING
        => d cannot be restricted by more than one relation if it includes an Equal
        SELECT * FROM t WHERE d IN (1, 2) AND d = 1 ALLOW FILTERING
        => d cannot be restricted by more than one relation if it includes a IN
        SELECT * FROM t WHERE d > 1 AND d > 5 ALLOW FILTERING
        => More than one restriction was found for the start bound on d
        SELECT * FROM t WHERE s < 1 AND s > 0 AND s <= 5 ALLOW FILTERING
        => More than one restriction was found for the end bound on s
        SELECT * FROM t WHERE d > 1 AND d = 2 ALLOW FILTERING
        => Column \"d\" cannot be restricted by both an equality and an inequality relation
        SELECT * FROM t WHERE f = [1] AND f CONTAINS 1 ALLOW FILTERING
        => f cannot be restricted by more than one relation if it includes an Equal
        SELECT * FROM t WHERE f CONTAINS 1 AND f = [1] ALLOW FILTERING
        => Collection column f can only be restricted by CONTAINS, CONTAINS KEY, or map-entry \
           equality
        SELECT * FROM t WHERE a > 1 AND a > 2 ALLOW FILTERING
        => More than one restriction was found for the start bound on a
        SELECT * FROM t WHERE a = 1 AND (b, c) > (1, 1) AND (b, c) > (2, 2)
        => More than one restriction was found for the start bound on b ,c
        SELECT * FROM t WHERE a = 1 AND (b, c) > (1, 1) AND c < 2 ALLOW FILTERING
        => Column \"c\" cannot be restricted by two inequalities not starting with the same column
        SELECT * FROM t WHERE a = 1 AND c = 1 AND b > 1
        => PRIMARY KEY column \"c\" cannot be restricted (preceding column \"b\" is restricted by \
           a non-EQ relation)
        SELECT * FROM t WHERE token(a) > 1 AND token(a) = 2
        => Columns \"a\" cannot be restricted by both an equality and an inequality relation
        SELECT * FROM t WHERE token(b) = 1
        => The token() function must be applied to all partition key components or none of them
        SELECT * FROM t WHERE token(a, a) = 1
        => The token() function contains duplicate partition key components
        SELECT * FROM t WHERE token(a) != 1 => Unsupported \"!=\" relation: token(a) != 1
        SELECT * FROM t WHERE m[1] != 2 ALLOW FILTERING => Unsupported \"!=\" relation: m[1] != 2
        SELECT a, s FROM t WHERE a = 1 AND b = 1
        => Cannot restrict clustering columns when selecting only static columns
        SELECT * FROM t ORDER BY x => Undefined column name x in table ks.t
        SELECT DISTINCT b FROM t PER PARTITION LIMIT 1
        => PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries
        SELECT * FROM t WHERE a = 'x' => Invalid STRING constant (x) for \"a\" of type int
        SELECT * FROM t WHERE a = null => Invalid null value in condition for column a
        SELECT * FROM t ORDER BY b
        => ORDER BY is only supported when the partition key is restricted by an EQ or an IN.
        SELECT * FROM t WHERE a = 1 ORDER BY c, c
        => Order by currently only supports the ordering of columns following their declared order \
           in the PRIMARY KEY
        SELECT DISTINCT a, b FROM t
        => SELECT DISTINCT queries must only request partition key columns and/or static columns \
           (not b)
        SELECT * FROM t LIMIT 0 => LIMIT must be strictly positive
        SELECT * FROM t WHERE l = [1] ALLOW FILTERING
        => Collection column 'l' (list<int>) cannot be restricted by a '=' relation
        SELECT writetime(a) FROM t => Cannot use selection function writeTime on PRIMARY KEY part a
        SELECT nothing(a) FROM t => Unknown function 'nothing'
        SELECT max(?) FROM t => Ambiguous call to function max: use type casts to disambiguate
        SELECT toJson(?) FROM t
        => Cannot infer type for term ? in selection clause (try using a cast to force a type)
        SELECT (?) FROM t
        => Cannot infer type for term (?) in selection clause (try using a cast to force a type)
        // Regression: the result was a null of the type blob.
        SELECT null FROM t
        => Cannot infer type for term NULL in selection clause (try using a cast to force a type)
        SELECT a, (null) FROM t
        => Cannot infer type for term (NULL) in selection clause (try using a cast to force a type)
        SELECT CAST(null AS blob) FROM t
        => Cannot infer type for term NULL in selection clause (try using a cast to force a type)
        SELECT toJson(a, b) FROM t => toJson() only accepts one argument (got 2)
        SELECT * FROM u => table u does not exist
        SELECT * FROM nowhere.t => keyspace nowhere does not exist
    ";
    server.check(steps);
}

/// Regression: these statements were refused in words other than Cassandra's.
#[test]
fn refused_selections_definitions_and_renames_have_cassandras_words() {
    let mut server = Server::with(&[
        "CREATE TYPE ut (a int)",
        "CREATE TABLE t (k int, p int, c int, v int, l list<int>, u ut, f frozen<map<int, int>>, \
         PRIMARY KEY ((k, p), c))",
        "CREATE INDEX by_c ON t (c)",
    ]);
    let steps = "
        SELECT writetime(k) FROM t => Cannot use selection function writeTime on PRIMARY KEY part k
        SELECT ttl(c) FROM t => Cannot use selection function ttl on PRIMARY KEY part c
        SELECT writetime(l) FROM t
        => Cannot use selection function writeTime on non-frozen collection l
        SELECT ttl(u) FROM t => Cannot use selection function ttl on non-frozen UDT u
        SELECT v[0] FROM t => Invalid element selection: v is of type int is not a collection
        SELECT v[0..1] FROM t => Invalid slice selection: v of type int is not a collection
        SELECT fromJson('1') FROM t
        => fromJson() cannot be used in the selection clause of a SELECT statement
        SELECT * FROM t WHERE v = toJson(1) ALLOW FILTERING
        => toJson() may only be used within the selection clause of SELECT statements
        INSERT INTO t (k, p, c, v) VALUES (0, 0, 0, toJson(1))
        => toJson() may only be used within the selection clause of SELECT statements
        CREATE INDEX ON t (keys(f))
        => Cannot create keys() index on frozen column f. Frozen collections are immutable and \
           must be fully indexed by using the 'full(f)' modifier
        CREATE TABLE x (a ut PRIMARY KEY)
        => Invalid non-frozen user-defined type \"ks.ut\" for PRIMARY KEY column 'a'
        CREATE TABLE x (a int PRIMARY KEY, b int, PRIMARY KEY (b))
        => Multiple PRIMARY KEY specified for table 'x' (exactly one required)
        CREATE TABLE x (a int, b int, v int, w int, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY \
           (w DESC, b ASC, v ASC)
        => Only clustering key columns can be defined in CLUSTERING ORDER directive: [w, v] are \
           not clustering columns
        ALTER TABLE t RENAME c TO d
        => Can't rename column c because it has dependent secondary indexes (by_c)
        ALTER TABLE t RENAME \"Z\" TO d => Undefined column name \"Z\" in table ks.t
        ALTER TABLE t DROP \"Z\" => Column Z was not found in table 'ks.t'
    ";
    server.check(steps);
}

/// Returns a server with a table `t` that has columns of all kinds, and one row.
fn conflicts() -> Server {
    Server::with(&[
        "CREATE TABLE t (a int, b int, c int, d int, l list<int>, f frozen<list<int>>, \
         m map<int, int>, s int STATIC, PRIMARY KEY (a, b, c))",
        "CREATE INDEX ON t (m)",
        "INSERT INTO t (a, b, c, d, l, f, m, s) VALUES (1, 1, 1, 3, [1, 2], [1, 2], {1: 2}, 3)",
    ])
}

/// Regression: IN with a single value was not treated as `=`, so a statement with an index was
/// refused.
#[test]
fn several_relations_on_one_column_may_limit_it_together() {
    let mut server = conflicts();
    for restriction in [
        "d > 1 AND d <= 3 ALLOW FILTERING",
        "s < 4 AND s > 2 ALLOW FILTERING",
        "f CONTAINS 1 AND f CONTAINS 2 ALLOW FILTERING",
        "m CONTAINS 2 AND m CONTAINS KEY 1 AND m[1] = 2 ALLOW FILTERING",
        "a = 1 AND b > 0 AND (b, c) < (2, 1)",
        "a = 1 AND (b, c) > (0, 0) AND b < 5",
        "a IN (1) AND m CONTAINS 2",
        "a = 1 AND (b, c) IN ((1, 1)) ORDER BY c",
        "a = 1 AND b IN (1) ORDER BY c",
    ] {
        let select = format!("SELECT d FROM t WHERE {restriction}");
        assert_eq!(server.rows(&select), "3", "{restriction}");
    }
    assert_eq!(server.rows("SELECT a, s FROM t WHERE a = 1"), "1 3");
    assert_eq!(
        server.rows("SELECT c, s FROM t WHERE a = 1 AND b = 1"),
        "1 3"
    );
}

/// Regression: the first aggregate of a statement accepted an aggregate as its argument, and the
/// result was null or 0.
#[test]
fn aggregates_within_aggregates_are_refused() {
    let mut server = squares();
    for select in [
        "max(max(v))",
        "sum(1 + count(v))",
        "max(CAST(min(v) AS text))",
        "min(v), max(toJson(count(*)))",
    ] {
        assert_eq!(
            server.refused(&format!("SELECT {select} FROM t")),
            "aggregate functions cannot be used as arguments of aggregate functions",
            "{select}"
        );
    }
    // Operators and functions may have them as arguments.
    assert_eq!(
        server.rows("SELECT max(v) + 1, blobAsInt(intAsBlob(min(v))) FROM t WHERE a = 1"),
        "133 111"
    );
}

/// Regression: each level of nested calls doubled the time of the analysis, which no timeout could
/// end. So a short SELECT held a thread of the server for days.
#[test]
fn each_level_of_nested_calls_is_analysed_once() {
    let mut server = squares();
    let row = "FROM t WHERE a = 1 AND b = 1 AND c = 1";
    let calls = |of: &str| {
        let level = |of: String, _| format!("blobAsInt(intAsBlob({of}))");
        (0..24).fold(of.to_owned(), level)
    };
    let of_column = format!("SELECT {} AS x {row}", calls("v"));
    assert_eq!(server.rows(&of_column), "111");
    // A constant in parentheses has the type of the argument.
    let of_constant = format!("SELECT {} AS x {row}", calls("(7)"));
    assert_eq!(server.rows(&of_constant), "7");
    let of_marker = format!("SELECT {} AS x {row}", calls("?"));
    let bound = 9_i32.to_be_bytes();
    let page = server.page(&of_marker, &[Some(&bound[..])], None, None);
    assert_eq!(page.unwrap().rows, [["9"]]);
}

/// Regression: hints with user-defined types were refused as unknown types.
#[test]
fn a_hint_names_the_user_defined_types_of_the_table() {
    let mut server = Server::with(&[
        "CREATE TYPE pair (a int, b text)",
        "CREATE TYPE other (a int)",
        "CREATE TABLE t (k int PRIMARY KEY, p frozen<pair>, l list<frozen<pair>>)",
        "INSERT INTO t (k, p, l) VALUES (1, (pair) {a: 1}, [(ks.pair) {a: 2}])",
    ]);
    let steps = r#"
        SELECT toJson(p), toJson(l), toJson((pair) p) FROM t
        => {\"a\": 1, \"b\": null} [{\"a\": 2, \"b\": null}] {\"a\": 1, \"b\": null}
        SELECT (other) p FROM t => Unknown type other: no column of the table has it
        INSERT INTO t (k, p) VALUES (1, (other) {a: 1})
        => Unknown type other: the value has type frozen<pair>
    "#;
    server.check(steps);
}

#[test]
fn a_paging_state_of_another_statement_is_refused() {
    let mut server = Server::with(&["CREATE TABLE t (a int PRIMARY KEY)"]);
    let one = server.page("SELECT * FROM system_schema.tables", &[], Some(1), None);
    let state = one.unwrap().state.unwrap();
    for other in ["SELECT * FROM system_schema.columns", "SELECT * FROM t"] {
        let page = server.page(other, &[], Some(1), Some(&state));
        assert_eq!(
            page.unwrap_err().message,
            "Invalid value for the paging state"
        );
    }
}

/// Regression: the paging state depended on the keyspace in use. All clients share the prepared
/// statement of a text with a qualified table, so the next page of a client failed once another
/// client, which used another keyspace, had prepared the text.
#[test]
fn a_read_of_a_qualified_table_continues_whatever_keyspace_is_in_use() {
    let mut server = Server::with(&[
        "CREATE TABLE t (a int PRIMARY KEY)",
        "INSERT INTO t (a) VALUES (1)",
        "INSERT INTO t (a) VALUES (2)",
    ]);
    let text = "SELECT a FROM ks.t";
    let first = server.page(text, &[], Some(1), None).unwrap();
    for in_use in [None, Some("system")] {
        server.keyspace = in_use.map(str::to_owned);
        let state = first.state.as_deref();
        let next = server.page(text, &[], Some(1), state).unwrap();
        assert_eq!([first.rows.len(), next.rows.len()], [1, 1]);
        assert_ne!(next.rows, first.rows);
    }
}

/// Returns a server with a table `t`: partitions 1 to 3, each with the clusterings (b, c) in 1..=3
/// x 1..=2, b descending, and `v = 100 a + 10 b + c`. The static column `s` is 7 in partition 1 and
/// in partition 4, which has no rows.
fn squares() -> Server {
    let table = "CREATE TABLE t (a int, b int, c int, s int STATIC, v int, PRIMARY KEY (a, b, c)) \
                 WITH CLUSTERING ORDER BY (b DESC, c ASC)";
    let mut server = Server::with(&[table]);
    for a in 1..=3 {
        for b in 1..=3 {
            for c in 1..=2 {
                let [v, a, b, c] = [100 * a + 10 * b + c, a, b, c].map(|n| n.to_string());
                server.put("t", &[("a", &a), ("b", &b), ("c", &c), ("v", &v)]);
            }
        }
    }
    server.put("t", &[("a", "1"), ("s", "7")]);
    server.put("t", &[("a", "4"), ("s", "7")]);
    server
}

#[test]
fn rows_are_read_by_key_and_by_slices() {
    let mut server = squares();
    for select in [
        "v FROM t WHERE a = 1 AND b = 9 AND c = 1",
        "a FROM t WHERE a = 4 AND b = 1",
        "v FROM t WHERE a = 1 AND b = 1 AND c IN ()",
    ] {
        assert_eq!(server.rows(&format!("SELECT {select}")), "", "{select}");
    }
    let steps = "
        SELECT v FROM t WHERE a = 1 AND b = 2 AND c = 1 => 121
        SELECT v FROM t WHERE a = 2 => 231 | 232 | 221 | 222 | 211 | 212
        SELECT v FROM t WHERE a = 2 ORDER BY b ASC => 212 | 211 | 222 | 221 | 232 | 231
        // The last mention of b determines its order, as in Cassandra.
        SELECT v FROM t WHERE a = 2 AND b = 2 ORDER BY b DESC, c DESC, b ASC => 222 | 221
        SELECT v FROM t WHERE a = 2 AND b >= 2 AND b < 3 => 221 | 222
        SELECT v FROM t WHERE a = 2 AND b = 2 AND c > 1 => 222
        SELECT v FROM t WHERE a = 2 AND b IN (1, 3) => 231 | 232 | 211 | 212
        SELECT v FROM t WHERE a = 2 AND b IN (1, 3) AND c IN (2, 1, 2) => 231 | 232 | 211 | 212
        SELECT v FROM t WHERE a = 2 AND (b, c) > (2, 1) => 231 | 232 | 222
        SELECT v FROM t WHERE a = 2 AND (b, c) IN ((1, 1), (3, 2)) => 232 | 211
        SELECT v FROM t WHERE a = 2 AND (b, c) = (1, 1) => 211
        SELECT v FROM t WHERE a = 2 LIMIT 2 => 231 | 232
        SELECT v FROM t WHERE a IN (3, 1) AND b = 1 => 111 | 112 | 311 | 312
        SELECT v FROM t WHERE a IN (3, 1) AND c = 1 AND b = 1 ORDER BY b DESC => 111 | 311
        SELECT v FROM t WHERE a IN (1, 2) PER PARTITION LIMIT 1 => 131 | 231
        SELECT v FROM t WHERE a = 1 AND v = 122 ALLOW FILTERING => 122
        SELECT v FROM t WHERE a = 1 AND c = 1 ALLOW FILTERING => 131 | 121 | 111
        SELECT s, v FROM t WHERE a = 1 LIMIT 1 => 7 131
        SELECT a, b, s, v FROM t WHERE a = 4 => 4 null 7 null
        SELECT count(*) FROM t WHERE a = 1 => 6
        SELECT count(*), min(v), max(v), sum(c), avg(v) FROM t WHERE a = 1 => 6 111 132 9 121
        SELECT count(*), sum(v), min(v) FROM t WHERE a = 9 => 0 0 null
        SELECT b, count(*), max(v) FROM t WHERE a = 1 GROUP BY b => 3 2 132 | 2 2 122 | 1 2 112
        SELECT writetime(v), ttl(v) FROM t WHERE a = 1 AND b = 1 AND c = 1 => 1 null
        SELECT v AS x, blobAsInt(intAsBlob(v)) FROM t WHERE a = 1 AND b = 1 AND c = 1 => 111 111
        SELECT CAST(v AS bigint) FROM t WHERE a = 1 AND b = 1 AND c = 1 => 111
        SELECT DISTINCT a, s FROM t WHERE a IN (1, 2) => 1 7 | 2 null
    ";
    server.check(steps);
}

#[test]
fn all_partitions_are_read_in_the_order_of_their_tokens() {
    let mut server = squares();
    let mut partitions: Vec<(i64, i32)> = (1..=4_i32)
        .map(|a| (ebb_model::key::Token::of(&a.to_be_bytes()).0, a))
        .collect();
    partitions.sort_unstable();
    let [
        (_, first),
        (at_second, second),
        (at_third, third),
        (_, last),
    ] = partitions[..]
    else {
        panic!("four partitions");
    };
    let steps = format!(
        "
        SELECT DISTINCT a FROM t => {first} | {second} | {third} | {last}
        SELECT DISTINCT a FROM t WHERE token(a) > {at_second} => {third} | {last}
        SELECT DISTINCT a FROM t WHERE token(a) >= {at_third} AND token(a) <= {at_third} => {third}
        SELECT DISTINCT a FROM t WHERE token(a) > token({first}) => {second} | {third} | {last}
        // Three partitions of six rows, and one with a static column only.
        SELECT count(*) FROM t => 19
        SELECT v FROM t WHERE b = 3 AND c = 1 AND a = 2 ALLOW FILTERING => 231
        "
    );
    server.check(&steps);
    let with_tokens = server.rows("SELECT DISTINCT token(a) AS x, a FROM t");
    assert_eq!(with_tokens.split(" | ").count(), 4);
    let all = server.rows("SELECT v FROM t PER PARTITION LIMIT 2");
    assert_eq!(all.split(" | ").count(), 7);
}

#[test]
fn pages_of_any_size_add_up_to_the_unpaged_result() {
    let mut server = squares();
    let selects = [
        "SELECT a, b, c, s, v FROM t",
        "SELECT v FROM t WHERE a = 2",
        "SELECT v FROM t WHERE a = 2 ORDER BY b ASC",
        "SELECT v FROM t WHERE a IN (1, 2, 4)",
        "SELECT v FROM t WHERE a IN (1, 2, 3) AND b IN (1, 3) LIMIT 7",
        "SELECT v FROM t WHERE a = 2 AND b IN (1, 3) AND c IN (1, 2)",
        "SELECT v FROM t PER PARTITION LIMIT 3",
        "SELECT DISTINCT a, s FROM t",
        "SELECT a, b, count(*) FROM t GROUP BY a, b",
        "SELECT a, max(v) FROM t GROUP BY a LIMIT 2",
        "SELECT DISTINCT a, count(a), s FROM t GROUP BY a",
        "SELECT v FROM t WHERE c = 2 ALLOW FILTERING",
    ];
    for select in selects {
        let whole = server.page(select, &[], None, None).unwrap().rows;
        for size in 1..=whole.len() as u32 + 1 {
            let (mut rows, mut state) = (Vec::new(), None);
            loop {
                let page = server
                    .page(select, &[], Some(size), state.as_deref())
                    .unwrap();
                assert!(page.rows.len() <= size as usize, "{select}");
                // Only the last page may be empty.
                assert!(!page.rows.is_empty() || page.state.is_none(), "{select}");
                rows.extend(page.rows);
                state = page.state;
                if state.is_none() {
                    break;
                }
            }
            assert_eq!(rows, whole, "{select} by {size}");
        }
    }
}

#[test]
fn a_statement_is_analysed_again_after_an_alter() {
    let mut server = squares();
    let prepared = server
        .prepare("SELECT * FROM t WHERE a = 1 AND b = 1 AND c = 1")
        .unwrap();
    server.run("ALTER TABLE t ADD w text");
    let parameters = ebb_cql::protocol::QueryParameters {
        skip_metadata: true,
        ..Default::default()
    };
    let answer = server.execute(&prepared, parameters).unwrap();
    let ebb_cql::protocol::Response::Rows(rows) = answer else {
        panic!("a SELECT gives rows");
    };
    // The client has outdated columns, so they are sent in spite of its flag to skip them.
    assert_eq!(rows.column_count(), 6);
    assert_eq!(rows.columns.unwrap().len(), 6);
    // A client of version 5, which compares the metadata id, has to prepare the statement again.
    let of_version_5 = ebb_cql::protocol::QueryParameters {
        result_metadata_id: Some(b"whichever"),
        ..parameters
    };
    assert!(server.is_outdated(&prepared, of_version_5));
    let anew = server.prepare("SELECT * FROM t WHERE a = 1 AND b = 1 AND c = 1");
    assert!(!server.is_outdated(&anew.unwrap(), of_version_5));
    server.run("DROP TABLE t");
    let error = server.execute(&prepared, parameters).unwrap_err();
    assert_eq!(error.message, "table t does not exist");
}

/// A statement is outdated once a change of the schema gives its bind markers other types, or drops
/// its table. Regression: values that a client had encoded for a column of integers were written to
/// the column of floats that replaced it.
#[test]
fn a_statement_is_current_while_its_markers_are_those_of_prepare() {
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, v int)"]);
    let texts = [
        "SELECT v FROM t WHERE k = ?",
        "INSERT INTO t (k, v) VALUES (?, ?)",
        "SELECT k FROM t WHERE v = ? ALLOW FILTERING",
        "BEGIN BATCH UPDATE t SET v = ? WHERE k = 1; APPLY BATCH",
        "TRUNCATE t",
    ];
    let prepared = texts.map(|text| server.prepare(text).unwrap());
    let current = |server: &Server| -> Vec<bool> {
        let each = prepared.iter();
        each.map(|one| server.executor.is_current(one)).collect()
    };
    let of_rows = [false, false, false, false, true];
    for (change, expected) in [
        ("ALTER TABLE t ADD w int", [true; 5]),
        ("DROP TABLE t", of_rows),
        (
            "CREATE TABLE t (k int PRIMARY KEY, v int, w text)",
            [true; 5],
        ),
        ("DROP TABLE t", of_rows),
        (
            "CREATE TABLE t (k int PRIMARY KEY, v float)",
            [true, false, false, false, true],
        ),
    ] {
        server.run(change);
        assert_eq!(current(&server), expected, "{change}");
    }
    // Requests that came before the statements were dropped are refused as well.
    for (text, outdated) in texts.iter().zip(&prepared).take(4).skip(1) {
        let ended = server.execute(outdated, QueryParameters::default());
        let id = prepared_id(server.keyspace.as_deref(), text).to_vec();
        let error = ended.err().unwrap_or_else(|| panic!("{text} is executed"));
        assert_eq!(error.kind, ErrorKind::Unprepared { id }, "{text}");
    }
    let anew = texts.map(|text| server.prepare(text).unwrap());
    assert!(anew.iter().all(|one| server.executor.is_current(one)));
}

/// Regression: each change of the schema opened the snapshot of every prepared SELECT.
#[test]
fn a_select_at_a_snapshot_is_checked_when_it_is_executed_and_not_at_changes_of_the_schema() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, v int)",
        "CREATE SNAPSHOT s ON KEYSPACE ks",
    ]);
    let texts = [
        "SELECT k FROM t USING SNAPSHOT s WHERE v = ? ALLOW FILTERING",
        "SELECT k FROM \"ks@s\".t WHERE v = ? ALLOW FILTERING",
        "SELECT k FROM ks__at__s.t WHERE v = ? ALLOW FILTERING",
    ];
    let prepared = texts.map(|text| server.prepare(text).unwrap());
    let seven = 7_i32.to_be_bytes();
    let bound = [Value::Bytes(&seven)];
    for change in [
        "DROP TABLE t",
        "DROP SNAPSHOT s ON KEYSPACE ks",
        "CREATE TABLE t (k int PRIMARY KEY, v text)",
    ] {
        server.run(change);
        assert!(prepared.iter().all(|one| server.executor.is_current(one)));
        for one in &prepared {
            let ended = server.bind(one, &bound);
            assert_eq!(
                ended.is_ok(),
                change == "DROP TABLE t",
                "{change}: {ended:?}"
            );
        }
    }
    server.run("CREATE SNAPSHOT s ON KEYSPACE ks");
    for (text, one) in texts.iter().zip(&prepared) {
        assert!(server.executor.is_current(one), "{text}");
        let error = server.bind(one, &bound).unwrap_err();
        let is_unprepared = matches!(error.kind, ErrorKind::Unprepared { .. });
        assert!(is_unprepared, "{text}: {error:?}");
    }
}

#[test]
fn markers_have_names_types_and_places() {
    use crate::call::Lane;
    let server = squares();
    let text = "SELECT v FROM t WHERE a = ? AND b = :b AND c IN ? LIMIT ?";
    let prepared = server.prepare(text).unwrap();
    let (markers, key) = prepared.markers();
    let names: Vec<&str> = markers.iter().map(|marker| marker.name).collect();
    assert_eq!(names, ["a", "b", "in(c)", "[limit]"]);
    assert_eq!(key, [0]);
    assert_eq!(prepared.kind().lane, Lane::Scan);
    let point = server
        .prepare("SELECT v FROM ks.t WHERE a = ? AND b = ? AND c = ?")
        .unwrap();
    assert_eq!(point.kind().lane, Lane::Inline);
    let range = server
        .prepare("SELECT v FROM t WHERE token(a) > ?")
        .unwrap();
    assert_eq!(range.kind().lane, Lane::Range);
    assert!(!point.needs_keyspace() && prepared.needs_keyspace());
}

#[test]
fn result_columns_have_cassandras_names() {
    let mut server = squares();
    let select = "SELECT a, v AS x, count(*), max(v), writetime(v), CAST(v AS blob) FROM t";
    assert_eq!(server.refused(select), "v cannot be cast to blob");
    let select = "SELECT a, v AS x, count(*), max(v), writetime(v), CAST(v AS bigint), \
                  CAST(v AS int), (int) null FROM t";
    let page = server.page(select, &[], None, None).unwrap();
    let expected = [
        "a",
        "x",
        "count",
        "system.max(v)",
        "writetime(v)",
        "cast(v as bigint)",
        // A cast to the value's own type is left out of the name.
        "v",
        // Regression: it was "(int)null".
        "(int)NULL",
    ];
    assert_eq!(page.columns, expected);
}

#[test]
fn a_table_announced_by_a_job_causes_a_created_event() {
    let server = Server::new();
    let (notify, events) = mpsc::channel();
    let notify = move |change: SchemaChange| notify.send(change).unwrap();
    server.executor.on_change(Box::new(notify));
    server.executor.catalog().announce_table("ks", "counts");
    let expected = SchemaChange {
        kind: SchemaChangeKind::Created,
        keyspace: "ks".into(),
        target: SchemaTarget::Table("counts".into()),
    };
    assert!(events.try_iter().eq([expected]));
}

/// Returns a server over `disk` with a table and a snapshot. The user of its connection is a role
/// that created the snapshot, and may create and drop further snapshots.
fn of_creator(disk: &MemDisk) -> Server {
    let mut server = Server::on(disk);
    server.executor.catalog().set_listed_snapshots(32);
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (a int PRIMARY KEY)",
        "CREATE ROLE u WITH LOGIN = true",
        "GRANT ALL ON ALL KEYSPACES TO u",
        "GRANT SELECT ON ks.t TO u",
    ] {
        server.run(text);
    }
    let roles = server.executor.catalog().roles().state();
    let role = roles.roles().get("u").unwrap();
    server.user = User::logged_in("u", role.id);
    server.run("CREATE SNAPSHOT old ON KEYSPACE ks");
    server
}

/// Regression: a statement whose change was done caused no event if a later step failed, such as the
/// one that grants permissions on a new table, or drops those on an old one.
#[test]
fn a_change_of_the_schema_causes_an_event_although_a_later_step_fails() {
    let visible = |server: &Server| {
        let catalog = server.executor.catalog();
        let keyspace = catalog.db().existing_keyspace("ks");
        let snapshots = keyspace.map(|keyspace| keyspace.snapshot_names());
        (catalog.state().version(), snapshots.unwrap_or_default())
    };
    for text in [
        "CREATE TABLE ks.u (a int PRIMARY KEY)",
        "DROP TABLE ks.t",
        "DROP KEYSPACE ks",
        "CREATE SNAPSHOT new ON KEYSPACE ks",
        "DROP SNAPSHOT old ON KEYSPACE ks",
    ] {
        let mut failed_late = 0;
        for nth in 1.. {
            let disk = MemDisk::new();
            let mut server = of_creator(&disk);
            server.changes.lock().unwrap().clear();
            let before = visible(&server);
            disk.fail_next(FaultOp::Any, nth, io::ErrorKind::Other);
            let refusal = server.refusal(text);
            let has_failed = disk.armed_faults() == 0;
            disk.clear_faults();
            let has_changed = visible(&server) != before;
            let has_event = !server.changes.lock().unwrap().is_empty();
            assert_eq!(has_event, has_changed, "{text}, call {nth}: {refusal:?}");
            failed_late += usize::from(has_changed && refusal.is_some());
            if !has_failed {
                assert_eq!(refusal, None, "{text}");
                break;
            }
        }
        assert!(failed_late > 0, "{text}");
    }
}

#[test]
fn expired_snapshots_cause_drop_events() {
    let mut server = Server::with(&["CREATE TABLE t (a int PRIMARY KEY)"]);
    let (notify, events) = mpsc::channel();
    let notify = move |change: SchemaChange| notify.send(change).unwrap();
    server.executor.on_change(Box::new(notify));
    let catalog = Arc::clone(server.executor.catalog());
    catalog.set_listed_snapshots(32);
    // A snapshot of a store keyspace that CQL does not use.
    let options = SnapshotOptions {
        table: None,
        expires_in: Some(Duration::from_secs(60)),
    };
    let other = catalog.db().keyspace("other").unwrap();
    other.create_snapshot_with("s", options).unwrap();
    let gone = |snapshot: &str, target| SchemaChange {
        kind: SchemaChangeKind::Dropped,
        keyspace: format!("ks@{snapshot}"),
        target,
    };
    server.run("CREATE SNAPSHOT known ON KEYSPACE ks WITH ttl = '1m'");
    server.rows("SELECT * FROM system_schema.tables");
    server.clock.advance_ms(60_000);
    catalog.db().flush().unwrap();
    let table = SchemaTarget::Table("t".into());
    let expected = [gone("known", table), gone("known", SchemaTarget::Keyspace)];
    assert!(
        events.try_iter().eq(expected),
        "the events of DROP SNAPSHOT"
    );
    // Clients cannot know the tables of a snapshot that none of them has read.
    server.run("CREATE SNAPSHOT unknown ON KEYSPACE ks WITH ttl = '1m'");
    server.clock.advance_ms(60_000);
    catalog.db().flush().unwrap();
    assert!(
        events
            .try_iter()
            .eq([gone("unknown", SchemaTarget::Keyspace)])
    );
    catalog.set_listed_snapshots(0);
    server.run("CREATE SNAPSHOT unlisted ON KEYSPACE ks WITH ttl = '1m'");
    server.clock.advance_ms(60_000);
    catalog.db().flush().unwrap();
    assert_eq!(events.try_iter().count(), 0);
}

#[test]
fn token_relations_filter_keys_by_their_tokens() {
    let mut server = Server::with(&["CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))"]);
    let mut keys: Vec<i32> = (1..=4).collect();
    keys.sort_by_key(|a| ebb_model::key::Token::of(&a.to_be_bytes()).0);
    for a in &keys {
        server.run(&format!("INSERT INTO t (a, b) VALUES ({a}, 1)"));
    }
    let [first, second, third, last] = keys[..] else {
        panic!("four keys");
    };
    let (less, greater) = (second.min(third), second.max(third));
    let steps = format!(
        "
        SELECT a FROM t WHERE a = {second} AND token(a) = token({second}) => {second}
        SELECT a FROM t WHERE token(a) = token({first}) AND a = {second} => no rows
        SELECT a FROM t WHERE a = {second} AND token(a) > token({second}) => no rows
        SELECT a FROM t WHERE a = {second} AND token(a) >= token({second}) AND b = 1 => {second}
        SELECT a FROM t WHERE a IN (1, 2, 3, 4) AND token(a) > token({first}) \
           AND token(a) < token({last})
        => {less} | {greater}
        SELECT a FROM t WHERE a = {first} AND token(a) = token({first}) ORDER BY b DESC => {first}
        SELECT a FROM t WHERE a = 1 AND token(a) = 1 AND token(a) = 2
        => a cannot be restricted by more than one relation if it includes an Equal
        "
    );
    server.check(&steps);
}

#[test]
fn functions_use_the_time_of_the_statement() {
    let mut server = squares();
    let select = "SELECT toUnixTimestamp(currentTimestamp()) AS t FROM t WHERE a = 4";
    assert_eq!(server.rows(select), "1700000000000");
    server.clock.advance_ms(5);
    assert_eq!(server.rows(select), "1700000000005");
    let day = "SELECT toDate(currentTimeUUID()) AS d FROM t WHERE a = 4";
    assert_eq!(server.rows(day), "2023-11-14");
}

#[test]
fn operators_compute_as_in_cassandra() {
    let mut server = Server::with(&[
        "CREATE TABLE n (a tinyint, b smallint, c int, d bigint, e float, f double, g varint, \
         h decimal, i text, j timestamp, k date, PRIMARY KEY (a))",
    ]);
    server.run(
        "INSERT INTO n (a, b, c, d, e, f, g, h, i, j, k) VALUES (1 + 2 * 3 - 6, 2, 1 + 2, 4, 5.5, \
         13 / 2.0, 7, 8.5, 'x' + 'y', '2016-01-31 00:00Z', '2016-01-31')",
    );
    let cases = "
        a + a, b + a, c + b, d + c => 2 3 5 7
        e + a, f - e, g * e, h / c => 6.5 1.0 38.5 2.83333333333333333333333333333333
        h / 200000000000000000000000000000000000 => 4.25E-35
        // Regression: a factor of 1.00 did not add its places to the product, and a subtraction did
        // not keep those of 0.00.
        h * (decimal) 1.00, (decimal) 1.00 * h => 8.500 8.500
        h - (decimal) 0.00, (decimal) 0.00 - h, h + (decimal) 0.00 => 8.50 -8.50 8.50
        // Regression: a remainder had the places of its divisor, whatever the quotient was.
        h % (decimal) 10.00, (decimal) 50 % (decimal) 2.50, (decimal) 53 % (decimal) 2.50
        => 8.5 0.0 0.50
        c / 2, -c / 2, c % 2, -c % 2, h % c => 1 -1 1 -1 2.5
        a + 1.5, (c + 1) * 2, -(a + b) => 2.5 8 -3
        i + '!' => xy!
        // Regression: an empty operand was a text, as in Cassandra 5.
        i + '', '' + i, '' + '' => null null null
        c + (int) null, (text) null + i => null null
        g - 9223372036854775808 => -9223372036854775801
        CAST(j + 1mo AS text) => 2016-02-29T00:00:00.000Z
        CAST(j - 1y1d2h AS text) => 2015-01-29T22:00:00.000Z
        CAST(k + 1mo1d AS text) => 2016-03-01
        CAST(k - 2mo AS text) => 2015-11-30
    ";
    for [select, row] in parse_cases(cases) {
        let rows = server.rows(&format!("SELECT {select} FROM n"));
        assert_eq!(rows, row, "{select}");
    }
    let steps = "
        UPDATE n SET d = (bigint) 7 + -1, c = 17 % 10 WHERE a = 2 - 1 => done
        SELECT c, d FROM n WHERE a = 3 - 2 => 7 6
        SELECT a + ? FROM n
        => Ambiguous '+' operation with args a and ?: use type hint to disambiguate, example \
           '(int) ?'
        UPDATE n SET c = 2 * (? + 1) WHERE a = 1
        => Ambiguous '+' operation with args ? and 1: use type hint to disambiguate, example \
           '(int) ?'
        // Regression: only a marker without parentheses got this error.
        SELECT (?) + 1 FROM n
        => Ambiguous '+' operation with args (?) and 1: use type hint to disambiguate, example \
           '(int) ?'
        SELECT null + 1 FROM n
        => Ambiguous '+' operation with args NULL and 1: use type hint to disambiguate, example \
           '(int) ?'
        SELECT -null FROM n => Ambiguous negation: use type casts to disambiguate
        SELECT i - i FROM n => the '-' operation is not supported between i and i
        SELECT i + a FROM n => the '+' operation is not supported between i and a
        SELECT -i FROM n => the '-' operation is not supported for text
        SELECT c / 0 FROM n => the operation 'int / int' failed: / by zero
        SELECT g % (a - a) FROM n
        => the operation 'varint % tinyint' failed: BigInteger divide by zero
        SELECT k + 1h FROM n
        => the operation 'date + duration' failed: The duration must have a day precision. Was: 1h
        // Regression: this number of nanoseconds was ignored.
        SELECT k - 9223372036854775807ns FROM n
        => the operation 'date - duration' failed: The duration must have a day precision. Was: \
           2562047h47m16s854ms775us807ns
        SELECT h * (decimal) 1e20000 FROM n
        => the operation 'decimal * decimal' failed: a number has more than 10000 places
    ";
    server.check(steps);
}

/// `checked` returns the state whose permissions were checked. Without it, a SELECT that began before
/// another user dropped its table and created a new one was checked by the permissions on the new
/// table, and read rows of the dropped one.
#[test]
fn permissions_are_checked_again_if_the_table_became_another_one_meanwhile() {
    const TABLE: &str = "CREATE TABLE t (k int PRIMARY KEY)";
    let server = Server::with(&[TABLE]);
    let catalog = Arc::clone(server.executor.catalog());
    let mut other = Server::over(catalog, server.clock.clone(), Some("ks".to_owned()));
    let mut seen = Vec::new();
    let checked = server.executor.checked(|state| {
        seen.push(state.table("ks", "t").unwrap().clone());
        if seen.len() == 1 {
            other.run("DROP TABLE t");
            other.run(TABLE);
        }
        Ok(seen.len())
    });
    let (state, checks) = checked.unwrap();
    assert_eq!(checks, 2);
    assert!(state.current(&seen[0]).is_none() && state.current(&seen[1]).is_some());
}

/// Regression: TRUNCATE looked up its table after the check of the permissions. If another user
/// dropped the table and created a new one meanwhile, TRUNCATE emptied the new one by the
/// permissions on the dropped one.
#[test]
fn truncate_empties_no_table_that_was_created_during_the_check() {
    const TABLE: &str = "CREATE TABLE t (k int PRIMARY KEY)";
    let server = Server::with(&[TABLE]);
    let catalog = Arc::clone(server.executor.catalog());
    let other = Server::over(catalog, server.clock.clone(), Some("ks".to_owned()));
    let other = RefCell::new(other);
    let check = |_: &Schema| {
        for text in ["DROP TABLE t", TABLE, "INSERT INTO t (k) VALUES (1)"] {
            other.borrow_mut().run(text);
        }
        Ok::<_, ErrorResponse>(())
    };
    let changes = SchemaChanges::default();
    let executor = &server.executor;
    let user = &server.user;
    let context = executor.access_context(Some("ks"), user, &changes, &check, &|_| Ok(()));
    let truncate = syntax::parse("TRUNCATE t").unwrap().statement;
    let done = schema_statements::execute(&context.schema, &truncate, &mut BytesMut::new());
    assert!(done.is_err());
    assert_eq!(other.borrow_mut().rows("SELECT k FROM t"), "1");
}

/// Regression: the creator of a table got the permissions on it after the lock of schema changes
/// was released. If another user dropped the table and created a new one before that, the creator
/// got the permissions on the new one.
#[test]
fn no_table_is_dropped_before_its_creator_has_the_permissions() {
    let server = Server::with(&[]);
    let catalog = server.executor.catalog();
    let keyspace = Some("ks".to_owned());
    let mut other = Server::over(Arc::clone(catalog), server.clock.clone(), keyspace);
    let is_there = || catalog.state().table("ks", "t").is_some();
    let (begin, begun) = mpsc::channel();
    let (send, observed) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            begun.recv().unwrap();
            send.send(Observed::current()).unwrap();
            other.run("DROP TABLE t");
        });
        let grant = move |created: &Resource| {
            assert_eq!(*created, Resource::table("ks", "t"));
            begin.send(()).unwrap();
            // The other user waits for the lock. Without the lock, the thread ends instead.
            observed.recv().unwrap().until_blocked();
            assert!(is_there());
            Ok::<_, ErrorResponse>(())
        };
        let (executor, user) = (&server.executor, &server.user);
        let changes = SchemaChanges::default();
        let context = executor.access_context(Some("ks"), user, &changes, &|_| Ok(()), &grant);
        let create = syntax::parse("CREATE TABLE t (k int PRIMARY KEY)").unwrap();
        let mut out = BytesMut::new();
        schema_statements::execute(&context.schema, &create.statement, &mut out).unwrap();
    });
    assert!(!is_there());
}

/// In version 5 of the protocol a request may contain the present time (`now_in_seconds`), from
/// which TTLs count.
#[test]
fn a_request_may_have_its_own_time() {
    const THEN_S: i32 = 2_000_000_000;
    let mut server = Server::with(&["CREATE TABLE a (k int PRIMARY KEY, v int)"]);
    let mut cells = |text: &str, now_s| {
        let prepared = server.prepare(text).unwrap();
        let parameters = QueryParameters {
            now_s,
            ..QueryParameters::default()
        };
        match server.execute(&prepared, parameters).unwrap() {
            Response::Rows(rows) => rows.cells().map(|cell| cell.map(<[u8]>::to_vec)).collect(),
            _ => Vec::<Option<Vec<u8>>>::new(),
        }
    };
    let none: [Option<Vec<u8>>; 0] = [];
    let insert = "INSERT INTO a (k, v) VALUES (1, 1) USING TTL 10";
    assert_eq!(cells(insert, Some(THEN_S)), none);
    let select = "SELECT ttl(v) FROM a WHERE k = 1";
    let five = vec![0, 0, 0, 5];
    assert_eq!(cells(select, Some(THEN_S + 5)), [Some(five)]);
    assert_eq!(cells(select, Some(THEN_S + 10)), none);
    assert_eq!(cells(select, None).len(), 1);
    assert_eq!(cells("SELECT v FROM a", Some(THEN_S + 10)), none);
    let update = "UPDATE a SET v = 2 WHERE k = 1 IF EXISTS";
    assert_eq!(cells(update, Some(THEN_S + 10)), [Some(vec![0])]);
    assert_eq!(cells(update, Some(THEN_S + 9)), [Some(vec![1])]);
}

#[test]
fn durations_have_the_type_name_of_the_protocol_version() {
    let mut server = Server::with(&["CREATE TABLE a (k int PRIMARY KEY, d duration)"]);
    server.run("INSERT INTO a (k, d) VALUES (1, 1h)");
    let body = |text: &str, version| {
        let call = Call {
            keyspace: Some("ks"),
            version,
            parameters: QueryParameters::default(),
            interrupt: &never(),
            user: &server.user,
            changes: &SchemaChanges::default(),
            memory: None,
        };
        let mut out = BytesMut::new();
        let prepared = server.prepare(text).unwrap();
        server.executor.execute(&prepared, &call, &mut out).unwrap();
        out
    };
    // In result columns, and in the row that a failed condition returns.
    for text in [
        "SELECT d FROM a",
        "UPDATE a SET d = 2h WHERE k = 1 IF d = 3h",
    ] {
        let (old, new) = (body(text, Version::V4), body(text, Version::V5));
        assert!(memmem::find(&old, b"\x00\x01d\x00\x00\x00\x2corg.apache").is_some());
        assert!(memmem::find(&new, b"\x00\x01d\x00\x15").is_some());
        assert!(memmem::find(&new, b"DurationType").is_none());
    }
}
