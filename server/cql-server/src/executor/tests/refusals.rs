//! Statements that are refused, in Cassandra's words.

use ebb_cql::protocol::{BatchKind, Consistency, Values};

use super::*;
use crate::analyse::restrictions::REQUIRES_ALLOW_FILTERING;

fn at_level_any() -> QueryParameters<'static> {
    QueryParameters {
        consistency: Consistency::Any,
        ..QueryParameters::default()
    }
}

#[test]
fn no_read_and_no_increment_has_the_level_any() {
    let server = Server::with(&[
        "CREATE TABLE t (a int PRIMARY KEY)",
        "CREATE TABLE visits (a int PRIMARY KEY, n counter)",
    ]);
    let at_any = |text: &str| {
        let done = server.warnings_of(text, at_level_any());
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
        let done = server.answer(at_level_any(), |call, out| {
            server.executor.execute(&prepared, call, out)
        });
        let single = done.err().map(|error| error.message);
        if !prepared.may_be_in_batch() {
            return single;
        }
        // The same statement in a batch of the protocol has the same error.
        let statements = [(Arc::new(prepared), Values::default())];
        let done = server.answer(at_level_any(), |call, out| {
            let logged = BatchKind::Logged;
            server.executor.batch(logged, &statements, call, out)
        });
        assert_eq!(done.err().map(|error| error.message), single, "{text}");
        single
    };
    let cases = "
        INSERT INTO t (k, l) VALUES (1, [1, 2, 3]) => accepted
        UPDATE t SET l[0] = 1 WHERE k = 1 => rejected
        DELETE l[0] FROM t WHERE k = 1 => rejected
        UPDATE t SET l = l - [1] WHERE k = 1 => rejected
        BEGIN BATCH INSERT INTO t (k) VALUES (2); DELETE l[0] FROM t WHERE k = 1; APPLY BATCH
        => rejected
        UPDATE t SET l = l + [4] WHERE k = 1 => accepted
        UPDATE t SET l = [0] + l WHERE k = 1 => accepted
        UPDATE t SET l[0] = 1 WHERE k = 1 IF EXISTS => accepted
        BEGIN BATCH UPDATE t SET l = l + [5] WHERE k = 1 IF EXISTS; \
            DELETE l[0] FROM t WHERE k = 1; APPLY BATCH
        => accepted
    ";
    let message = "Write operation require a read but consistency ANY is not supported on reads";
    for [text, expected] in parse_cases(cases) {
        let rejected = (expected == "rejected").then_some(message);
        assert_eq!(at_any(text).as_deref(), rejected, "{text}");
    }
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

/// Regression: several relations on one column outside of the key, such as `d = 1 AND d = 2`, were
/// accepted, and so was CONTAINS beside `=`.
#[test]
fn invalid_statements_get_cassandras_errors() {
    let mut server = conflicts();
    for relation in ["d = 1", "b = 1", "a > 1"] {
        let text = format!("SELECT * FROM t WHERE {relation}");
        assert_eq!(server.refused(&text), REQUIRES_ALLOW_FILTERING, "{text}");
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
