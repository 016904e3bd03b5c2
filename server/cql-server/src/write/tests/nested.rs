//! Collections within collections: a value that a client binds with its elements in any order
//! equals the literal.

use ebb_cql::protocol::Value;
use ebb_model::types::CqlType;
use ebb_model::types::elements::{build, build_map, build_tuple};
use ebb_test_support::seed::for_seeds;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::harness::session;

const TYPES: [&str; 6] = [
    "set<frozen<set<int>>>",
    "list<frozen<map<int, frozen<set<text>>>>>",
    "map<frozen<set<int>>, frozen<list<frozen<set<int>>>>>",
    "tuple<int, frozen<set<int>>, frozen<map<text, int>>>",
    "frozen<thing>",
    "set<frozen<tuple<frozen<thing>, int>>>",
];

/// Draws a value, and returns it as a CQL literal and as bytes from a client. Both have the
/// elements in the same random order, some of them repeatedly.
fn any_value(ty: &CqlType, rng: &mut ChaCha8Rng) -> (String, Vec<u8>) {
    let count = rng.random_range(1..4);
    match ty {
        CqlType::Int => {
            let n: i32 = rng.random_range(-2..3);
            (n.to_string(), n.to_be_bytes().to_vec())
        }
        CqlType::Text => {
            let text = ["", "a", "b", "ä"][rng.random_range(0..4)];
            (format!("'{text}'"), text.as_bytes().to_vec())
        }
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let parts: Vec<_> = (0..count).map(|_| any_value(element, rng)).collect();
            let texts: Vec<&str> = parts.iter().map(|(text, _)| &**text).collect();
            let text = match ty {
                CqlType::List { .. } => format!("[{}]", texts.join(", ")),
                _ => format!("{{{}}}", texts.join(", ")),
            };
            (text, build(parts.iter().map(|(_, bytes)| &**bytes)))
        }
        CqlType::Map { key, value, .. } => {
            let entry = |_| (any_value(key, rng), any_value(value, rng));
            let entries: Vec<_> = (0..count).map(entry).collect();
            let texts: Vec<String> = (entries.iter())
                .map(|((key, _), (value, _))| format!("{key}: {value}"))
                .collect();
            let bytes = entries
                .iter()
                .map(|((_, key), (_, value))| (&**key, &**value));
            (format!("{{{}}}", texts.join(", ")), build_map(bytes))
        }
        CqlType::Tuple(types) => {
            let parts: Vec<_> = types.iter().map(|ty| any_value(ty, rng)).collect();
            let texts: Vec<&str> = parts.iter().map(|(text, _)| &**text).collect();
            let bytes = build_tuple(parts.iter().map(|(_, bytes)| Some(&**bytes)));
            (format!("({})", texts.join(", ")), bytes)
        }
        CqlType::Udt { definition, .. } => {
            let fields = definition.fields().iter();
            let parts: Vec<_> = fields
                .map(|(name, ty)| (name, any_value(ty, rng)))
                .collect();
            let texts: Vec<String> = (parts.iter())
                .map(|(name, (text, _))| format!("{name}: {text}"))
                .collect();
            let bytes = build_tuple(parts.iter().map(|(_, (_, bytes))| Some(&**bytes)));
            (format!("{{{}}}", texts.join(", ")), bytes)
        }
        other => panic!("no values of {other} here"),
    }
}

#[test]
fn bound_values_equal_literals_at_every_depth() {
    let test = "bound_values_equal_literals_at_every_depth";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        TYPES.iter().for_each(|ty| check_type(ty, &mut rng));
    });
}

/// Writes random values of a type as literals and as bound values, and compares the stored values.
fn check_type(ty: &str, rng: &mut ChaCha8Rng) {
    let mut session = session(&[
        "CREATE TYPE thing (tags set<int>, more frozen<map<int, frozen<set<int>>>>)",
        &format!(
            "CREATE TABLE t (k frozen<{ty}>, c frozen<{ty}>, v {ty}, n int, PRIMARY KEY (k, c))"
        ),
    ]);
    let state = session.state();
    let columns = state.table("app", "t").unwrap().schema().columns().to_vec();
    let ty = &columns
        .iter()
        .find(|column| *column.name == *"v")
        .unwrap()
        .ty;
    for _ in 0..60 {
        session.run("TRUNCATE t");
        let (text, bytes) = any_value(ty, rng);
        session.write(&format!(
            "INSERT INTO t (k, c, v) VALUES ({text}, {text}, {text})"
        ));
        let from_literal = session.show("t");
        let bytes = Value::Bytes(&bytes);
        session.bind("INSERT INTO t (k, c, v) VALUES (?, ?, ?)", &[bytes; 3]);
        assert_eq!(session.show("t"), from_literal, "{text}");
        session.bind("DELETE FROM t WHERE k = ? AND c = ?", &[bytes; 2]);
        assert!(session.show("t").is_empty(), "{text}");
    }
}
