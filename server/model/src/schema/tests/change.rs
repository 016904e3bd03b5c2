use std::collections::BTreeMap;

use super::{definition, message, replication, schema, table};
use crate::schema::{ColumnId, ColumnKind, KeyspaceSchema, OptionValue, Schema, TableSchema};
use crate::types::CqlType;

#[test]
fn every_column_is_found_at_its_place() {
    let columns = [
        "p int",
        "q int",
        "c int",
        "s int static",
        "r int static",
        "z int",
        "a int",
        "b int",
    ];
    let table = TableSchema::create(definition(&columns, &["q", "p"], &["c"])).unwrap();
    let changed = [
        table.add_column("m", CqlType::Int, false).unwrap(),
        table.add_column("m", CqlType::Int, true).unwrap(),
        table.drop_column("b", 1).unwrap(),
        table.rename_columns([("c", "y")]).unwrap(),
        table,
    ];
    for table in changed {
        for (place, column) in table.columns().iter().enumerate() {
            assert_eq!(table.place(&column.name), Some(place), "{}", column.name);
            assert_eq!(table.column(&column.name), Some(column));
            assert_eq!(table.column_by_id(column.id), Some(column));
        }
        for none in ["", "aa", "zz"] {
            assert_eq!(table.place(none), None, "{none}");
        }
    }
}

/// Cells of a dropped column may still be stored, so its id stays reserved. When the column is
/// added again, its cells from after the drop are visible.
#[test]
fn a_column_that_comes_back_has_its_id_and_newer_cells() {
    let table = table();
    let old = table.column("u").unwrap().id;
    let dropped = table.drop_column("u", 17).unwrap();
    assert!(dropped.column("u").is_none() && dropped.column_by_id(old).is_none());
    assert_eq!(dropped.dropped()[0].id, old);
    assert_eq!(dropped.dropped()[0].dropped_us, 17);
    let back = dropped
        .add_column("u", CqlType::list(CqlType::Int), false)
        .unwrap();
    assert_eq!(back.column("u").unwrap().id, old);
    let hidden = |table: &TableSchema| -> Vec<(u32, i64)> {
        let cells = table.dropped_cells().iter();
        cells
            .map(|cells| (cells.column, cells.timestamp_us))
            .collect()
    };
    assert_eq!(
        (hidden(&dropped), hidden(&back)),
        (vec![], vec![(old.0, 17)])
    );
    // A second drop does not restore the cells that the first one hid.
    for (at, up_to) in [(16, 17), (18, 18)] {
        let twice = back.drop_column("u", at).unwrap();
        assert_eq!(twice.dropped().len(), 1);
        let twice = twice.add_column("u", CqlType::list(CqlType::Int), false);
        assert_eq!(hidden(&twice.unwrap()), [(old.0, up_to)]);
    }
    let stored = TableSchema::decode(&back.encode()).unwrap();
    assert_eq!(stored, back);
    let other = back.add_column("w", CqlType::Int, true).unwrap();
    assert_eq!(other.column("w").unwrap().id, ColumnId(7));
    assert_eq!(other.column("w").unwrap().kind, ColumnKind::Static);
    // The same holds after a restart.
    let stored = TableSchema::decode(&dropped.encode()).unwrap();
    assert_eq!(
        stored
            .add_column("x", CqlType::Int, false)
            .unwrap()
            .column("x")
            .unwrap()
            .id,
        ColumnId(7)
    );
}

#[test]
fn a_column_comes_back_with_a_type_that_reads_its_cells() {
    let of = |ty: &str| {
        let table = TableSchema::create(definition(&["k int", &format!("v {ty}")], &["k"], &[]));
        table.unwrap().drop_column("v", 0).unwrap()
    };
    let text = of("ascii").add_column("v", CqlType::Text, false).unwrap();
    let blob = text.drop_column("v", 1).unwrap();
    let blob = blob.add_column("v", CqlType::Blob, false).unwrap();
    assert_eq!(blob.column("v").unwrap().id, text.column("v").unwrap().id);
    for (old, ty) in [
        ("text", CqlType::Ascii),
        ("int", CqlType::Varint),
        ("int", CqlType::Blob),
        ("list<int>", CqlType::Blob),
    ] {
        assert!(message(of(old).add_column("v", ty, false)).contains("incompatible"));
    }
}

/// Regression: after the drop of a column of a frozen user-defined type, a column of the same name
/// could be added with the type not frozen. It had the same id, so a row could have a single cell
/// and a collection under one id, and was unreadable.
#[test]
fn a_column_of_single_cells_does_not_come_back_as_a_collection() {
    let schema = schema();
    let parse = |ty: &str| schema.keyspace("ks").unwrap().parse_type(ty).unwrap();
    for kind in ["", " static"] {
        for (old, new) in [
            ("frozen<phone>", "phone"),
            ("tuple<int, text>", "phone"),
            ("frozen<list<int>>", "list<int>"),
            ("list<int>", "frozen<list<int>>"),
            ("set<frozen<phone>>", "frozen<set<frozen<phone>>>"),
            ("frozen<map<int, frozen<phone>>>", "map<int, frozen<phone>>"),
        ] {
            let old_column = format!("v {old}{kind}");
            let definition = definition(&["k int", "c int", &old_column], &["k"], &["c"]);
            let dropped = TableSchema::create(definition).unwrap();
            let dropped = dropped.drop_column("v", 0).unwrap();
            let back = |ty: &str| dropped.add_column("v", parse(ty), !kind.is_empty());
            let refused = message(back(new));
            assert!(
                refused.contains("incompatible"),
                "{old} as {new}: {refused}"
            );
            back(old).unwrap();
        }
    }
    // The record of the dropped column would have a tuple as its type, and so single cells.
    let table = TableSchema::create(definition(&["k int", "v phone"], &["k"], &[])).unwrap();
    assert_eq!(
        message(table.drop_column("v", 0)),
        "Cannot drop non-frozen column v of user type phone"
    );
}

/// Regression: a dropped column of a frozen collection could not be added again as a blob.
#[test]
fn a_dropped_column_comes_back_as_a_blob_unless_its_values_have_a_fixed_length() {
    for (old, is_accepted) in [
        ("blob", true),
        ("text", true),
        ("decimal", true),
        ("smallint", true),
        ("time", true),
        ("frozen<list<int>>", true),
        ("frozen<set<text>>", true),
        ("frozen<map<int, int>>", true),
        ("tuple<int, text>", true),
        ("frozen<phone>", true),
        ("list<int>", false),
        ("map<int, int>", false),
        ("int", false),
        ("boolean", false),
        ("timestamp", false),
        ("timeuuid", false),
    ] {
        let definition = definition(&["k int", &format!("v {old}")], &["k"], &[]);
        let table = TableSchema::create(definition).unwrap();
        let dropped = table.drop_column("v", 0).unwrap();
        let back = dropped.add_column("v", CqlType::Blob, false);
        assert_eq!(back.is_ok(), is_accepted, "{old}");
    }
}

#[test]
fn changes_of_tables_are_refused_in_cassandras_words() {
    let table = table();
    let dropped = table.drop_column("u", 0).unwrap();
    let list = || CqlType::list(CqlType::Int);
    let refused = [
        table.add_column("v", CqlType::Int, false),
        table.add_column("x", CqlType::Counter, false),
        dropped.add_column("u", CqlType::Int, false),
        dropped.add_column("u", list(), true),
        table.drop_column("x", 0),
        table.drop_column("c", 0),
        table.rename_columns([("x", "y")]),
        table.rename_columns([("v", "y")]),
        table.rename_columns([("c", "v")]),
        table.rename_columns([("c", "z"), ("d", "c")]),
        table.rename_columns([("c", "z"), ("d", "z")]),
        table.rename_columns([("c", "z"), ("z", "y")]),
    ];
    let messages = [
        "Column with name 'v' already exists",
        "ks.t: Cannot have a counter column (\"x\") in a non counter table",
        "Cannot re-add previously dropped column 'u' of type int, incompatible with previous type list<int>",
        "Cannot re-add previously dropped column 'u' of kind STATIC, incompatible with previous kind REGULAR",
        "Column x was not found in table 'ks.t'",
        "Cannot drop PRIMARY KEY column c",
        "Undefined column name x in table ks.t",
        "Cannot rename non PRIMARY KEY column v",
        "Cannot rename column c to v in table 'ks.t'; another column with that name already exists",
        "Cannot rename column d to c in table 'ks.t'; another column with that name already exists",
        "Cannot rename column d to z in table 'ks.t'; another column with that name already exists",
        "Undefined column name z in table ks.t",
    ];
    assert_eq!(refused.map(message), messages);
    let renamed = table.rename_columns([("c", "z")]).unwrap();
    assert_eq!(
        renamed.column("z").unwrap().id,
        table.column("c").unwrap().id
    );
    assert_eq!(renamed.layout(), table.layout());
    let later = table.rename_columns([("c", "y"), ("c", "z")]).unwrap();
    assert_eq!(later, renamed);
    let freed = table.rename_columns([("c", "y"), ("c", "z"), ("d", "y")]);
    assert_eq!(
        freed.unwrap(),
        renamed.rename_columns([("d", "y")]).unwrap()
    );

    let counters = TableSchema::create(definition(&["k int", "n counter"], &["k"], &[])).unwrap();
    assert!(counters.is_counter());
    assert!(message(counters.add_column("x", CqlType::Int, false)).contains("in a counter table"));
    let none = counters.drop_column("n", 0).unwrap();
    assert!(message(none.add_column("n", CqlType::Counter, false)).contains("dropped counter"));
}

/// Regression: a table of counters whose counters were all dropped accepted a
/// `default_time_to_live`, and after that a counter. The CREATE TABLE that DESCRIBE printed for it
/// was then rejected.
#[test]
fn a_table_that_had_counters_takes_nothing_else_when_all_are_dropped() {
    let counters = TableSchema::create(definition(&["k int", "n counter"], &["k"], &[])).unwrap();
    let none = counters.drop_column("n", 0).unwrap();
    assert!(none.is_counter());
    assert_eq!(
        message(none.add_column("v", CqlType::Int, false)),
        "ks.t: Cannot have a non counter column (\"v\") in a counter table"
    );
    let ttl = || {
        let value = OptionValue::Text("60".to_owned());
        [("default_time_to_live".to_owned(), value)]
    };
    let no_ttl = "Cannot set default_time_to_live on a table with counters";
    assert_eq!(message(none.alter_options(ttl())), no_ttl);
    let again = none.add_column("m", CqlType::Counter, false).unwrap();
    assert_eq!(TableSchema::decode(&again.encode()).unwrap(), again);
    let mut created = definition(&["k int", "n counter"], &["k"], &[]);
    let [(name, value)] = ttl();
    created.options.set(&name, value).unwrap();
    assert_eq!(message(TableSchema::create(created)), no_ttl);
    // A table that never had a counter accepts none.
    let keys = TableSchema::create(definition(&["k int"], &["k"], &[])).unwrap();
    assert!(!keys.is_counter());
    assert_eq!(
        message(keys.add_column("n", CqlType::Counter, false)),
        "ks.t: Cannot have a counter column (\"n\") in a non counter table"
    );
    let values = TableSchema::create(definition(&["k int", "v int"], &["k"], &[])).unwrap();
    assert!(!values.drop_column("v", 0).unwrap().is_counter());
}

#[test]
fn a_counter_table_with_a_time_to_live_from_an_earlier_version_is_read_and_mended() {
    let counters = TableSchema::create(definition(&["k int", "n counter"], &["k"], &[])).unwrap();
    let record = String::from_utf8(counters.encode()).unwrap();
    let ttl = |secs: &str| format!("\"default_time_to_live\":\"{secs}\"");
    let record = record.replace(&ttl("0"), &ttl("60"));
    let old = TableSchema::decode(record.as_bytes()).unwrap();
    assert_eq!(old.options().default_time_to_live_secs(), 60);
    let refused = old.add_column("m", CqlType::Counter, false);
    assert!(message(refused).contains("default_time_to_live"));
    let zero = OptionValue::Text("0".to_owned());
    let mended = old.alter_options([("default_time_to_live".to_owned(), zero)]);
    let mended = mended.unwrap();
    mended.add_column("m", CqlType::Counter, false).unwrap();
}

fn with_table() -> Schema {
    let definition = definition(&["k int", "v frozen<list<frozen<address>>>"], &["k"], &[]);
    schema().create_table(definition).unwrap()
}

#[test]
fn a_changed_type_changes_all_its_users() {
    let schema = with_table();
    let next = schema
        .add_field("ks", "phone", "kind", CqlType::Ascii)
        .unwrap();
    let phone = next.keyspace("ks").unwrap().user_type("phone").unwrap();
    assert_eq!(phone.fields().len(), 3);
    let ty = &next.table("ks", "t").unwrap().column("v").unwrap().ty;
    assert_eq!(
        *ty,
        next.keyspace("ks")
            .unwrap()
            .parse_type("frozen<list<frozen<address>>>")
            .unwrap()
    );
    let mut option = Vec::new();
    ty.write_option(crate::types::DurationOption::Class, &mut option);
    assert!(
        option.windows(4).any(|w| w == b"kind"),
        "the new field is in the table's type"
    );
    // A holder of the old schema still has the old type.
    let old = schema.table("ks", "t").unwrap().column("v").unwrap();
    assert_ne!(old.ty, *ty);

    let renamed = next
        .rename_fields("ks", "phone", [("kind", "sort")])
        .unwrap();
    assert_eq!(
        renamed
            .keyspace("ks")
            .unwrap()
            .user_type("phone")
            .unwrap()
            .field("sort"),
        Some(2)
    );
}

#[test]
fn fields_are_renamed_all_at_once() {
    let schema = with_table()
        .add_field("ks", "phone", "kind", CqlType::Ascii)
        .unwrap();
    let names = |renames: &[(&str, &str)]| {
        let renamed = schema.rename_fields("ks", "phone", renames.iter().copied());
        let renamed = renamed.unwrap();
        let phone = renamed.keyspace("ks").unwrap().user_type("phone").unwrap();
        let names: Vec<&str> = phone.fields().iter().map(|(field, _)| &**field).collect();
        names.join(" ")
    };
    let before = names(&[]);
    let old: Vec<&str> = before.split(' ').collect();
    let [first, second, third] = old[..] else {
        panic!("three fields: {before}");
    };
    assert_eq!(
        names(&[(first, second), (second, first)]),
        format!("{second} {first} {third}"),
        "two fields swap their names"
    );
    assert_eq!(
        names(&[(first, second), (second, "x")]),
        format!("{second} x {third}"),
        "a field takes the former name of another"
    );
    assert_eq!(
        names(&[(third, "x"), (third, "y")]),
        format!("{first} {second} y"),
        "the later of two new names counts"
    );
    assert_eq!(names(&[(first, first)]), before, "a field keeps its name");
    for (renames, text) in [
        (
            [(first, "x"), ("x", "y")],
            "Unkown field x in user type ks.phone",
        ),
        (
            [(first, "x"), (second, "x")],
            "Duplicate field name x in type ks.phone",
        ),
    ] {
        assert_eq!(message(schema.rename_fields("ks", "phone", renames)), text);
    }
}

#[test]
fn changes_of_types_are_refused_in_cassandras_words() {
    let schema = with_table();
    let phone = schema
        .keyspace("ks")
        .unwrap()
        .parse_type("frozen<address>")
        .unwrap();
    let key = definition(&["k frozen<phone>"], &["k"], &[]);
    let mut in_key = key.clone();
    in_key.name = "in_key".to_owned();
    in_key.id = uuid::Uuid::from_u128(8);
    let in_key = schema.create_table(in_key).unwrap();
    let refused = [
        schema.add_field("ks", "phone", "number", CqlType::Int),
        schema.add_field("ks", "phone", "a", phone),
        in_key.add_field("ks", "phone", "a", CqlType::Int),
        schema.rename_fields("ks", "phone", [("x", "y")]),
        schema.drop_type("ks", "phone"),
        schema.drop_type("ks", "address"),
        schema.drop_type("ks", "x"),
        schema.create_table(definition(&["k int"], &["k"], &[])),
        schema.drop_table("ks", "x"),
        schema.drop_keyspace("x"),
        schema.create_keyspace(KeyspaceSchema::new("ks", replication(), true).unwrap()),
        schema.alter_keyspace("ks", Some(BTreeMap::new()), None),
    ];
    let messages = [
        "Cannot add field number to type ks.phone: a field with name number already exists",
        "Cannot add new field a of type frozen<address> to user type ks.phone as it would create a circular reference",
        "Cannot add new field a of type int to user type ks.phone as the type is being used in partition key by the following tables: ks.in_key",
        "Unkown field x in user type ks.phone",
        "Cannot drop user type 'ks.phone' as it is still used by user types address",
        "Cannot drop user type 'ks.address' as it is still used by tables t",
        "Type 'ks.x' doesn't exist",
        "Cannot add already existing table \"t\" to keyspace \"ks\"",
        "Table 'ks.x' doesn't exist",
        "Keyspace 'x' doesn't exist",
        "Cannot add existing keyspace \"ks\"",
        "Missing replication strategy class",
    ];
    assert_eq!(refused.map(message), messages);
    let empty = schema
        .drop_table("ks", "t")
        .unwrap()
        .drop_type("ks", "address")
        .unwrap();
    assert!(empty.drop_type("ks", "phone").is_ok());
}

#[test]
fn versions_are_equal_for_equal_schemas_only() {
    let schema = with_table();
    assert_eq!(schema.version(), with_table().version());
    assert_eq!(schema.version().get_version_num(), 3);
    let altered = schema
        .alter_table("ks", "t", |t| t.add_column("x", CqlType::Int, false))
        .unwrap();
    let dropped = altered
        .alter_table("ks", "t", |t| t.drop_column("x", 1))
        .unwrap();
    let keyspace = schema.alter_keyspace("ks", None, Some(false)).unwrap();
    assert!(keyspace.table("ks", "t").is_some(), "tables stay");
    let versions = [&schema, &altered, &dropped, &keyspace, &Schema::default()];
    let mut versions: Vec<_> = versions.iter().map(|s| s.version()).collect();
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), 5);
    let back = dropped.drop_table("ks", "t").unwrap();
    assert_eq!(back.version(), super::schema().version());
}
