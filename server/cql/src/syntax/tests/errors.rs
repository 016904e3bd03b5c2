//! Error messages, compared word by word.

use ebb_test_support::cases::parse_cases;

use crate::syntax::{NESTING_MAX, OPERATORS_MAX, ParseErrorKind, TOKENS_MAX, parse};

fn error(text: &str) -> String {
    match parse(text) {
        Ok(parsed) => panic!("{text}\n{parsed:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn errors_read_as_those_of_cassandra() {
    let cases = "
        FOO bar => line 1:0 no viable alternative at input 'FOO' ([FOO]...)
        SELECT * FORM t => line 1:9 mismatched input 'FORM' expecting K_FROM (SELECT * [FORM]...)
        SELECT * FROM WHERE a = 1
        => line 1:14 no viable alternative at input 'WHERE' (SELECT * FROM [WHERE]...)
        SELECT a FROM t LIMIT 1 WHERE a = 1
        => line 1:24 missing EOF at 'WHERE' (...a FROM t LIMIT 1 [WHERE]...)
        INSERT INTO t (a) VALUES (1 => line 1:27 mismatched input '<EOF>' expecting ')'
        SELECT # FROM t => line 1:7 no viable alternative at character '#'
        SELECT 'é' ü => line 1:11 no viable alternative at character 'ü'
        USE 'a => line 1:6 mismatched character '<EOF>' expecting '''
        USE \"a => line 1:6 mismatched character '<EOF>' expecting '\"'
        USE /* a => line 1:8 mismatched character '<EOF>' expecting '*'
        CREATE TABLE t (select int PRIMARY KEY)
        => line 1:16 no viable alternative at input 'select' (CREATE TABLE t ([select]...)
        UPDATE t SET a = b + 1 WHERE k = 0
        => line 1:17 Only expressions of the form X = X + <value> are supported. (UPDATE t SET a = \
           [b]...)
        SELECT * FROM ?.t
        => line 1:14 Bind variables cannot be used for keyspace names (SELECT * FROM [?]...)
        CREATE TYPE enum (a int)
        => line 1:12 Invalid (reserved) user type name enum (CREATE TYPE [enum]...)
        KILL QUERY 'a' => line 1:11 mismatched input ''a'' expecting INTEGER (KILL QUERY ['a'])
    ";
    let others = [
        ["", "line 1:0 no viable alternative at input '<EOF>'"],
        [
            "SELECT a\nFROM t\n WHERE a =",
            "line 3:10 no viable alternative at input '<EOF>'",
        ],
    ];
    for [text, message] in parse_cases(cases).into_iter().chain(others) {
        assert_eq!(error(text), message, "{text}");
    }
}

/// Regression: if a statement had a word such as `b` in place of a value, the error named the word.
/// Cassandra takes the word for the name of a function, and its error names the token after it.
#[test]
fn a_word_that_is_no_value_could_be_the_name_of_a_function() {
    let cases = r#"
        INSERT INTO t (a, b) VALUES (15, P)
        => line 1:34 no viable alternative at input ')' (...) VALUES (15, [P]...)
        SELECT * FROM t WHERE a = b
        => line 1:27 no viable alternative at input '<EOF>' (...FROM t WHERE a = [b])
        UPDATE t SET a = key WHERE k = 0
        => line 1:21 no viable alternative at input 'WHERE' (UPDATE t SET a = [key]...)
        INSERT INTO t (a) VALUES ("P", 1)
        => line 1:29 no viable alternative at input ',' (...(a) VALUES (["P"]...)
        INSERT INTO t (a) VALUES (ks.f)
        => line 1:30 no viable alternative at input ')' (...(a) VALUES ([ks]...)
        INSERT INTO t (a) VALUES (ks.1)
        => line 1:29 no viable alternative at input '1' (...(a) VALUES ([ks]...)
        INSERT INTO t (a) VALUES (cast)
        => line 1:30 no viable alternative at input ')' (...(a) VALUES ([cast]...)
        // A reserved word begins no call.
        INSERT INTO t (a) VALUES (select)
        => line 1:26 no viable alternative at input 'select' (...(a) VALUES ([select]...)
    "#;
    for [text, message] in parse_cases(cases) {
        assert_eq!(error(text), message, "{text}");
    }
}

#[test]
fn repetitions_are_refused_by_name() {
    let cases = "
        UPDATE t SET a = 1, a = 2 WHERE k = 0 => Multiple incompatible setting of column a
        UPDATE t SET a.f = 1, a.f = 2 WHERE k = 0 => Multiple incompatible setting of column a
        UPDATE t SET a += 1, a = 2 WHERE k = 0 => Multiple incompatible setting of column a
        CREATE KEYSPACE k WITH a = 1 AND A = 2 => Multiple definition for property 'a'
        CREATE KEYSPACE k WITH a = {'x': 1, 'x': 2} => Multiple definition for property x
        INSERT INTO t (a) VALUES (1) USING TTL 1 AND TTL 2 => Multiple definition for TTL
    ";
    for [text, message] in parse_cases(cases) {
        assert!(error(text).contains(message), "{text}\n{}", error(text));
    }
    for text in [
        "UPDATE t SET a[0] = 1, a[1] = 2, a[2] = 3 WHERE k = 0",
        "UPDATE t SET a.f = 1, a.g = 2 WHERE k = 0",
        "UPDATE t SET a += {1}, a -= {2} WHERE k = 0",
        "UPDATE t SET a += {1: 2}, a[1] = 3, a -= {2} WHERE k = 0",
    ] {
        parse(text).unwrap();
    }
}

#[test]
fn markers_in_properties_are_refused_in_cassandras_words() {
    let text = "CREATE KEYSPACE k WITH replication = {'class': ?}";
    assert!(error(text).contains(
        "Invalid property value: ? for property: 'class' \
         (bind variables are not supported in DDL queries)"
    ));
}

#[test]
fn errors_of_roles_and_permissions_read_as_those_of_cassandra() {
    let cases = "
        // The doubled word is Cassandra's.
        CREATE USER \"Bob\"
        => Quoted strings are are not supported for user names and USER is deprecated, please use \
           ROLE
        CREATE ROLE r WITH LOGIN = true AND LOGIN = false
        => Multiple definition for property 'LOGIN'
        CREATE ROLE r WITH PASSWORD = 'a' AND PASSWORD = 'b'
        => Multiple definition for property 'PASSWORD'
        CREATE ROLE r WITH PASSWORD = 'a' AND HASHED PASSWORD = 'b'
        => Properties 'PASSWORD' and 'HASHED PASSWORD' are mutually exclusive
        CREATE ROLE r WITH SUPERUSER = 1 => mismatched input '1' expecting BOOLEAN
        GRANT ? TO r => Bind variables cannot be used for role names
        GRANT SELECT ON ALL FUNCTIONS IN KEYSPACE ks TO r
        => Permissions on functions and MBeans are not supported
        GRANT EXECUTE ON FUNCTION ks.f(int) TO r
        => Permissions on functions and MBeans are not supported
        GRANT SELECT ON t FROM r => mismatched input 'FROM' expecting K_TO
        ADD IDENTITY x TO ROLE r => mismatched input 'x' expecting STRING_LITERAL
        ADD IDENTITY 'x' TO r => mismatched input 'r' expecting K_ROLE
        LIST SELECT, 'x' => no viable alternative at input ''x''
    ";
    for [text, message] in parse_cases(cases) {
        assert!(error(text).contains(message), "{text}\n{}", error(text));
    }
}

#[test]
fn passwords_are_not_printed_by_debug() {
    let parsed = parse("CREATE ROLE r WITH PASSWORD = 'geheim'").unwrap();
    assert!(!format!("{parsed:?}").contains("geheim"));
}

#[test]
fn a_second_primary_key_is_no_error_of_syntax() {
    for table in ["t", "ks.t"] {
        let text = format!("CREATE TABLE {table} (a int PRIMARY KEY, PRIMARY KEY (a))");
        let error = parse(&text).unwrap_err();
        assert_eq!(error.kind(), ParseErrorKind::Invalid);
        assert_eq!(
            error.to_string(),
            format!("Multiple PRIMARY KEY specified for table '{table}' (exactly one required)")
        );
    }
}

#[test]
fn a_request_has_at_most_65535_values() {
    let statement = |markers: usize| {
        let markers = vec!["?"; markers].join(",");
        format!("SELECT * FROM t WHERE a IN ({markers})")
    };
    assert_eq!(parse(&statement(65_535)).unwrap().markers.len(), 65_535);
    for count in [65_536, 70_000] {
        let error = parse(&statement(count)).unwrap_err();
        assert_eq!(error.kind(), ParseErrorKind::Invalid);
        assert_eq!(
            error.to_string(),
            format!("Too many markers(?). {count} markers exceed the allowed maximum of 65535")
        );
    }
}

#[test]
fn too_deep_nesting_is_an_error_and_no_stack_overflow() {
    let forms = [
        ("[", "1", "]"),
        ("(", "1", ")"),
        ("{", "1", "}"),
        ("f(", "1", ")"),
        ("- ", "f()", ""),
        ("(int) ", "1", ""),
        ("CAST(", "1", " AS int)"),
        ("{a: ", "1", "}"),
    ];
    for (open, inner, close) in forms {
        for (before, behind) in [("INSERT INTO t (a) VALUES (", ")"), ("SELECT ", " FROM t")] {
            let nested = |levels: usize| {
                let (open, close) = (open.repeat(levels), close.repeat(levels));
                format!("{before}{open}{inner}{close}{behind}")
            };
            let fits = parse(&nested(NESTING_MAX / 2 - 2)).unwrap();
            assert_eq!(fits, parse(&fits.statement.to_string()).unwrap());
            let message = error(&nested(100_000));
            assert!(
                message.contains("nested deeper than 100 levels"),
                "{message}"
            );
        }
    }
    let types = |levels: usize| {
        let (open, close) = ("frozen<".repeat(levels), ">".repeat(levels));
        format!("CREATE TABLE t (a {open}int{close} PRIMARY KEY)")
    };
    parse(&types(NESTING_MAX - 1)).unwrap();
    assert!(error(&types(100_000)).contains("nested deeper"));
    let relation = format!("SELECT * FROM t WHERE {}a = 1", "(".repeat(100_000));
    assert!(error(&relation).contains("nested deeper"));
}

#[test]
fn long_chains_of_operators_are_an_error_and_no_stack_overflow() {
    for (before, link, behind) in [
        ("INSERT INTO t (a) VALUES (1", " + 1", ")"),
        ("SELECT a", " * a", " FROM t"),
        ("SELECT a", ".a", " FROM t"),
        ("SELECT a", "[1]", " FROM t"),
        ("SELECT ttl(a", ".a", ") FROM t"),
    ] {
        let chain = |links: usize| format!("{before}{}{behind}", link.repeat(links));
        parse(&chain(OPERATORS_MAX)).unwrap();
        let message = error(&chain(300_000));
        assert!(message.contains("more than 500 operators"), "{message}");
    }
}

#[test]
fn an_error_shows_little_of_a_long_text() {
    let long = "x".repeat(1_000_000);
    for text in [
        format!("SELECT '{long}' FORM t"),
        format!("SELECT a FROM t {long}"),
        format!("{long} '{long}'"),
    ] {
        assert!(error(&text).len() < 1_000);
    }
}

#[test]
fn a_statement_may_be_long_and_has_an_end() {
    let list = |values| {
        let values = "1,".repeat(values);
        format!("INSERT INTO t (a) VALUES ([{values}1])")
    };
    parse(&list(TOKENS_MAX / 2 - 10)).unwrap();
    let error = parse(&list(TOKENS_MAX / 2)).unwrap_err();
    assert_eq!(error.kind(), ParseErrorKind::Syntax);
    let told = error.to_string();
    assert!(told.contains("has at most 1048576 words"), "{told}");
}
