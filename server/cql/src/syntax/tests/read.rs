//! The meaning of texts: names, values, precedence, and the clause that a word belongs to.

use super::{canonical, statement};
use crate::syntax::ast::*;
use crate::syntax::parse;

fn select(text: &str) -> Select {
    match statement(text) {
        Statement::Select(select) => select,
        other => panic!("{other:?}"),
    }
}

/// Returns the only selector of `SELECT text FROM t`.
fn selector(text: &str) -> Selector {
    match select(&format!("SELECT {text} FROM t")).selection {
        Selection::Some(mut selected) if selected.len() == 1 => selected.remove(0).selector,
        other => panic!("{other:?}"),
    }
}

/// Returns the value in `INSERT ... VALUES (text)`.
fn term(text: &str) -> Term {
    match statement(&format!("INSERT INTO t (a) VALUES ({text})")) {
        Statement::Write(Write::Insert(Insert {
            source: InsertSource::Values { mut values, .. },
            ..
        })) if values.len() == 1 => values.remove(0),
        other => panic!("{other:?}"),
    }
}

fn constant(kind: ConstantKind, text: &str) -> Term {
    Term::Constant(Constant {
        kind,
        text: text.to_owned(),
    })
}

#[test]
fn names_without_quotes_are_small_and_quoted_ones_as_written() {
    let select = select(r#"SELECT * FROM Ks."T""x" WHERE "Key" = 1 AND KEY = 2"#);
    assert_eq!(select.from.keyspace.unwrap(), "ks");
    assert_eq!(select.from.name, "T\"x");
    assert_eq!(
        canonical(r#"SELECT "a", "B", "select", "a b", "ttl" FROM "t""#),
        r#"SELECT a, "B", "select", "a b", ttl FROM t"#
    );
}

#[test]
fn constants_are_of_the_kind_they_look_like() {
    use ConstantKind::*;
    for (text, kind, read) in [
        ("'it''s'", String, "it's"),
        ("''", String, ""),
        ("$$it's$$", String, "it's"),
        ("007", Integer, "007"),
        ("-5", Integer, "-5"),
        ("1.", Float, "1."),
        ("-1.5e+7", Float, "-1.5e+7"),
        ("1e9", Float, "1e9"),
        ("nan", Float, "NaN"),
        ("-NaN", Float, "NaN"),
        ("-infinity", Float, "-Infinity"),
        ("TRUE", Boolean, "true"),
        ("0xCaFe", Hex, "0xCaFe"),
        ("0x", Hex, "0x"),
        (
            "cafe4567-e89b-12d3-a456-426614174000",
            Uuid,
            "cafe4567-e89b-12d3-a456-426614174000",
        ),
        (
            "12345678-e89b-12d3-a456-426614174000",
            Uuid,
            "12345678-e89b-12d3-a456-426614174000",
        ),
        ("1h30m", Duration, "1h30m"),
        ("-2mo5\u{b5}s", Duration, "-2mo5\u{b5}s"),
        ("P1Y2M3DT4H5M6S", Duration, "P1Y2M3DT4H5M6S"),
        ("PT5S", Duration, "PT5S"),
        ("P3W", Duration, "P3W"),
        ("P0001-02-03T04:05:06", Duration, "P0001-02-03T04:05:06"),
    ] {
        assert_eq!(term(text), constant(kind, read), "{text}");
    }
}

#[test]
fn braces_are_a_set_a_map_or_a_user_defined_type() {
    assert_eq!(term("{}"), Term::Set(vec![]));
    assert!(matches!(term("{1}"), Term::Set(_)));
    assert!(matches!(term("{1: 2}"), Term::Map(_)));
    assert!(matches!(term("{f(1): 2}"), Term::Map(_)));
    assert!(matches!(term("{a: 2, \"B\": :b}"), Term::Udt(_)));
    assert!(matches!(term("{:a: :b}"), Term::Map(_)));
}

#[test]
fn products_bind_more_than_sums_and_both_go_from_left_to_right() {
    let shape = |term: &Term| match term {
        Term::Arithmetic {
            left,
            operator,
            right,
        } => format!("{left} | {} | {right}", operator.symbol()),
        other => other.to_string(),
    };
    assert_eq!(shape(&term("1 + 2 * 3")), "1 | + | 2 * 3");
    assert_eq!(shape(&term("1 - 2 - 3")), "1 - 2 | - | 3");
    assert_eq!(shape(&term("1-2")), "1 | - | 2");
    assert_eq!(shape(&term("(1 + 2) * 3")), "(1 + 2) | * | 3");
    assert_eq!(shape(&term("1 - -2")), "1 | - | -2");
    assert_eq!(term("- f()").to_string(), "- f()");
}

#[test]
fn a_type_between_parentheses_is_a_hint_only_before_a_value() {
    assert!(matches!(term("(int) ?"), Term::Hint { .. }));
    assert!(matches!(term("(int) -1"), Term::Hint { .. }));
    assert!(matches!(term("('a')"), Term::Tuple(_)));
    assert!(matches!(selector("(a)"), Selector::Tuple(_)));
    assert!(matches!(selector("(a) - 1"), Selector::Arithmetic { .. }));
    assert!(matches!(selector("(text) a"), Selector::Hint { .. }));
    assert!(matches!(selector("(a) AS b"), Selector::Tuple(_)));
    assert!(matches!(selector("(list<int>) [1]"), Selector::Hint { .. }));
}

#[test]
fn words_are_columns_where_no_clause_follows() {
    let column = |name: &str| Selector::Column(name.into());
    for word in ["json", "distinct", "ttl", "count", "cast", "key", "as"] {
        assert_eq!(selector(word), column(word));
    }
    assert!(select("SELECT JSON a FROM t").json);
    assert!(select("SELECT JSON DISTINCT a FROM t").distinct);
    assert!(!select("SELECT json, a FROM t").json);
    assert!(matches!(selector("ttl(a)"), Selector::Ttl(_)));
    assert_eq!(selector("count(*)"), Selector::CountRows);
    assert_eq!(selector("COUNT(1)"), Selector::CountRows);
    assert!(matches!(selector("count(a)"), Selector::Call { .. }));
}

#[test]
fn slices_do_not_take_their_points_for_those_of_numbers() {
    let Selector::Slice { from, to, .. } = selector("l[1..2]") else {
        panic!();
    };
    assert_eq!(from, Some(constant(ConstantKind::Integer, "1")));
    assert_eq!(to, Some(constant(ConstantKind::Integer, "2")));
    let Selector::Slice { from, to, .. } = selector("l[1...5]") else {
        panic!();
    };
    assert_eq!(from, Some(constant(ConstantKind::Float, "1.")));
    assert_eq!(to, Some(constant(ConstantKind::Integer, "5")));
}

#[test]
fn markers_count_through_the_whole_statement() {
    let parsed = parse(
        "BEGIN BATCH USING TIMESTAMP ? \
         INSERT INTO t (a, b) VALUES (?, [:x, ?]) USING TTL :y AND TIMESTAMP :z; \
         UPDATE t SET a = :x WHERE k IN ? IF b = ?; APPLY BATCH",
    )
    .unwrap();
    let names: Vec<_> = parsed.markers.iter().map(|name| name.as_ref()).collect();
    let names: Vec<_> = names
        .iter()
        .map(|name| name.map_or("?", Name::as_str))
        .collect();
    assert_eq!(names, ["?", "?", "x", "?", "y", "z", "x", "?", "?"]);
    let Statement::Batch(batch) = parsed.statement else {
        panic!();
    };
    let Write::Insert(insert) = &batch.writes[0] else {
        panic!();
    };
    let index = |term: &Option<Term>| match term {
        Some(Term::Marker(marker)) => marker.index,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (index(&insert.using.ttl), index(&insert.using.timestamp)),
        (4, 5)
    );
}

#[test]
fn a_marker_in_an_attempt_that_failed_is_not_counted() {
    let parsed = parse("SELECT (a), (?, (?)) FROM t WHERE k = ((?, ?))").unwrap();
    assert_eq!(parsed.markers.len(), 4);
}

#[test]
fn every_form_of_assignment_is_recognized() {
    let Statement::Write(Write::Update(update)) = statement(
        "UPDATE t SET a = 1, b = b + 1, c += 1, d = d - 1, e -= 1, f = [1] + f, \
         g['k'] = 1, h.f = 1, i = f(1) + 2, j = j -1 WHERE k = 0",
    ) else {
        panic!();
    };
    let kinds: Vec<_> = update
        .assignments
        .iter()
        .map(|assignment| match &assignment.change {
            Change::Set(_) => "set",
            Change::Add(_) => "add",
            Change::Subtract(_) => "subtract",
            Change::Prepend(_) => "prepend",
            Change::Element { .. } => "element",
            Change::Field { .. } => "field",
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "set", "add", "add", "subtract", "subtract", "prepend", "element", "field", "set",
            "subtract"
        ]
    );
}

#[test]
fn a_column_may_be_called_exists() {
    let condition = |text: &str| match statement(&format!("DELETE FROM t WHERE k = 0 {text}")) {
        Statement::Write(Write::Delete(delete)) => delete.condition,
        other => panic!("{other:?}"),
    };
    assert_eq!(condition(""), Condition::None);
    assert_eq!(condition("IF EXISTS"), Condition::Exists);
    assert!(matches!(condition("IF exists = 1"), Condition::All(_)));
    assert!(matches!(condition("IF exists IN (1)"), Condition::All(_)));
}

#[test]
fn a_key_in_the_line_of_its_column_is_the_key() {
    let line = "CREATE TABLE t (a int PRIMARY KEY, b text)";
    let clause = "CREATE TABLE t (a int, b text, PRIMARY KEY (a))";
    assert_eq!(statement(line), statement(clause));
    assert_eq!(canonical(line), clause);
}

#[test]
fn snapshots_are_read_where_a_table_is_named() {
    let read = select("SELECT * FROM ks.t USING SNAPSHOT monday WHERE a = 1 LIMIT 5");
    assert_eq!(read.snapshot.unwrap(), "monday");
    assert_eq!(read.relations.len(), 1);
    assert_eq!(
        canonical("create snapshot S on ks.t with TTL = '1h'"),
        "CREATE SNAPSHOT s ON TABLE ks.t WITH ttl = '1h'"
    );
    assert_eq!(
        select("SELECT * FROM \"ks@s\".t").from.keyspace.unwrap(),
        "ks@s"
    );
}

#[test]
fn a_query_is_killed_by_its_id_and_its_words_stay_names() {
    assert_eq!(statement("kill QUERY 007;"), Statement::KillQuery(7));
    let most = format!("KILL QUERY {}", u64::MAX);
    assert_eq!(statement(&most), Statement::KillQuery(u64::MAX));
    assert_eq!(
        canonical("SELECT query FROM kill"),
        "SELECT query FROM kill"
    );
}
