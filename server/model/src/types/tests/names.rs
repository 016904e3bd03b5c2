use std::sync::Arc;

use ebb_test_support::cases::parse_cases;

use super::{address, parse};
use crate::types::identifier::Quoted;
use crate::types::{CqlType, DEPTH_MAX, DurationOption, QuotedType, UserType};

fn refusal(text: &str) -> String {
    CqlType::parse(text, &|name| (name == "address").then(address))
        .unwrap_err()
        .to_string()
}

#[test]
fn types_print_as_system_schema_spells_them() {
    for text in [
        "int",
        "frozen<map<text, int>>",
        "map<text, frozen<list<int>>>",
        "list<frozen<tuple<int, text>>>",
        "frozen<tuple<frozen<list<int>>, text>>",
        "frozen<address>",
        "address",
        "set<frozen<address>>",
        "frozen<set<frozen<set<inet>>>>",
    ] {
        assert_eq!(parse(text).to_string(), text);
    }
    for native in CqlType::NATIVE {
        assert_eq!(parse(&native.to_string()), native);
    }
}

#[test]
fn other_spellings_mean_the_same() {
    for (text, printed) in [
        (" VarChar ", "text"),
        ("Map<INT,varchar>", "map<int, text>"),
        ("tuple<list<int>>", "frozen<tuple<frozen<list<int>>>>"),
        ("frozen<list<set<int>>>", "frozen<list<frozen<set<int>>>>"),
        ("\"address\"", "address"),
        ("frozen < frozen<list<int>> >", "frozen<list<int>>"),
    ] {
        assert_eq!(parse(text).to_string(), printed);
    }
}

#[test]
fn refusals_are_cassandras() {
    let cases = r#"
        list<list<int>>
        => Non-frozen collections are not allowed inside collections: list<list<int>>
        list<address> => Non-frozen UDTs are not allowed inside collections: list<address>
        list<counter> => Counters are not allowed inside collections: list<counter>
        set<duration> => Durations are not allowed inside sets: set<duration>
        map<duration, int> => Durations are not allowed as map keys: map<duration, int>
        frozen<int>
        => frozen<> is only allowed on collections, tuples, and user-defined types (got int)
        nothing => Unknown type nothing
        "int" => Unknown type int
    "#;
    for [text, message] in parse_cases(cases) {
        assert_eq!(refusal(text), message);
    }
    for text in [
        "",
        "int int",
        "list<int",
        "list<>",
        "map<int>",
        "\"a",
        "int<text>",
        "<",
    ] {
        assert!(!refusal(text).is_empty());
    }
}

#[test]
fn nesting_is_bounded() {
    let nest = |n: usize| format!("{}int{}", "frozen<list<".repeat(n), ">>".repeat(n));
    parse(&nest(DEPTH_MAX - 1));
    for n in [DEPTH_MAX, DEPTH_MAX + 1, 100_000] {
        assert!(refusal(&nest(n)).contains("deep"), "{n}");
    }
}

#[test]
fn small_types_do_not_add_up_to_a_huge_one() {
    let mut last = CqlType::Int;
    for level in 0.. {
        let fields = ["a", "b", "c", "d"].map(|f| (f.into(), last.clone()));
        match UserType::new("ks", &format!("t{level}"), fields) {
            Ok(t) => last = CqlType::udt(Arc::new(t)).freeze(),
            Err(e) => {
                assert!(e.to_string().contains("4096"), "{e}");
                assert!(level < 7);
                return;
            }
        }
    }
}

#[test]
fn every_field_of_a_user_defined_type_is_found_by_its_name() {
    let address = address();
    for (at, (field, _)) in address.fields().iter().enumerate() {
        assert_eq!(address.field(field), Some(at), "{field}");
    }
    for none in ["", "number", "zip"] {
        assert_eq!(address.field(none), None, "{none}");
    }
}

#[test]
fn names_are_quoted_where_they_must_be() {
    for (name, printed) in [
        ("abc_1", "abc_1"),
        ("Abc", "\"Abc\""),
        ("1a", "\"1a\""),
        ("_a", "\"_a\""),
        ("select", "\"select\""),
        ("where", "\"where\""),
        ("key", "key"),
        ("a\"b", "\"a\"\"b\""),
        ("", "\"\""),
    ] {
        assert_eq!(Quoted(name).to_string(), printed);
    }
}

#[test]
fn a_user_defined_type_with_the_name_of_one_of_cqls_own_is_quoted() {
    let native = CqlType::NATIVE.map(|ty| ty.to_string());
    let native = native.iter().map(String::as_str);
    let others = ["varchar", "list", "set", "frozen", "byte", "Upper"];
    for name in native.chain(others) {
        assert_eq!(QuotedType(name).to_string(), format!("\"{name}\""));
        let fields = [("a".into(), CqlType::Text)];
        let ty = CqlType::udt(Arc::new(UserType::new("ks", name, fields).unwrap()));
        let definition = |found: &str| match (&ty, found == name) {
            (CqlType::Udt { definition, .. }, true) => Some(definition.clone()),
            _ => None,
        };
        for ty in [ty.clone(), ty.clone().freeze()] {
            assert_eq!(CqlType::parse(&ty.to_string(), &definition).unwrap(), ty);
        }
    }
    assert_eq!(QuotedType("address").to_string(), "address");
}

#[test]
fn metadata_names_types_by_id() {
    let option = |text: &str| {
        let mut out = Vec::new();
        parse(text).write_option(DurationOption::Class, &mut out);
        out
    };
    assert_eq!(option("text"), [0, 0x0d]);
    assert_eq!(
        option("map<int, frozen<list<uuid>>>"),
        [0, 0x21, 0, 9, 0, 0x20, 0, 0x0c]
    );
    assert_eq!(
        option("tuple<tinyint, date>"),
        [0, 0x31, 0, 2, 0, 0x14, 0, 0x11]
    );
    let mut udt = vec![0, 0x30];
    udt.extend(
        b"\0\x02ks\0\x07address\0\x03\0\x06street\0\x0d\0\x06Number\0\x09\0\x06phones\0\x22\0\x0d",
    );
    assert_eq!(option("address"), udt);
    assert_eq!(option("duration")[..4], [0, 0, 0, 44]);
    let since_v5 = |text: &str| {
        let mut out = Vec::new();
        parse(text).write_option(DurationOption::Id, &mut out);
        out
    };
    assert_eq!(since_v5("duration"), [0, 0x15]);
    assert_eq!(
        since_v5("map<text, frozen<tuple<duration>>>"),
        [0, 0x21, 0, 0x0d, 0, 0x31, 0, 1, 0, 0x15]
    );
    assert_eq!(since_v5("address"), udt);
}

/// Regression: freezing a frozen type copied all types in it, so a statement with many relations on a
/// tuple of thousands of types took gigabytes.
#[test]
fn freezing_shares_the_types_that_are_frozen_already() {
    let tuple = CqlType::tuple([CqlType::Int, CqlType::list(CqlType::Text)]);
    let types_of = |ty: &CqlType| match ty {
        CqlType::Tuple(types) => Arc::clone(types),
        other => panic!("{other} is no tuple"),
    };
    let frozen = tuple.clone().freeze();
    assert!(Arc::ptr_eq(&types_of(&frozen), &types_of(&tuple)));
    let list = CqlType::list(tuple.clone());
    for ty in [list.clone().freeze(), list.freeze().freeze()] {
        let CqlType::List {
            element,
            frozen: true,
        } = &ty
        else {
            panic!("{ty} is no frozen list");
        };
        assert!(Arc::ptr_eq(&types_of(element), &types_of(&tuple)));
    }
    // The types in a type of several cells are frozen, too.
    let nested = CqlType::map(CqlType::Int, CqlType::set(CqlType::list(CqlType::Int)));
    assert_eq!(
        nested.freeze().to_string(),
        "frozen<map<int, frozen<set<frozen<list<int>>>>>>"
    );
}
