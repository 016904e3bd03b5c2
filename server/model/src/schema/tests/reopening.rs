//! Changes of the schema, compared with the records that the next start decodes.

use std::sync::Arc;

use super::{definition, message, replication, schema};
use crate::schema::{
    ColumnKind, IndexTarget, KeyspaceSchema, ObjectKind, Schema, SchemaError, TableSchema, UserType,
};
use crate::types::{CqlType, DEPTH_MAX, NODES_MAX, WRITTEN_DEPTH_MAX};

/// Returns the schema with one more type of these fields.
fn with_type(schema: &Schema, name: &str, fields: &[(&str, CqlType)]) -> Schema {
    let fields = fields.iter().map(|(name, ty)| ((*name).into(), ty.clone()));
    let ty = UserType::new("ks", name, fields).unwrap();
    schema.create_type(ty).unwrap()
}

fn user_type(schema: &Schema, name: &str) -> CqlType {
    let keyspace = schema.keyspace("ks").unwrap();
    CqlType::udt(keyspace.user_type(name).unwrap().clone())
}

/// Returns the schema with the table `t (k int, c TYPE)`; `c` is part of the primary key if `in_key`.
fn with_column(schema: &Schema, ty: CqlType, in_key: bool) -> Result<Schema, SchemaError> {
    let clustering: &[&str] = if in_key { &["c"] } else { &[] };
    let mut definition = definition(&["k int", "c int"], &["k"], clustering);
    definition.columns[1].1 = ty;
    schema.create_table(definition)
}

/// Returns the schema that the next start decodes.
fn reopened(schema: &Schema) -> Schema {
    let keyspaces = schema.keyspaces().map(|keyspace| {
        let opened = KeyspaceSchema::open(keyspace.name(), &keyspace.encode()).unwrap();
        let tables = keyspace.tables();
        tables.fold(opened, |opened, table| {
            opened.with_record(table.name(), Ok(&table.encode()))
        })
    });
    Schema::new(keyspaces)
}

/// Regression: ALTER TYPE checked the types that use the altered one, but not the tables, so a
/// table got a record that no start could decode.
#[test]
fn alter_type_refuses_what_create_table_refuses_in_the_same_words() {
    let list = CqlType::list(CqlType::Int);
    let before = with_type(&schema(), "u", &[("a", CqlType::Int)]);
    for (in_key, freeze, added) in [
        (false, false, list.clone()),
        (true, true, CqlType::Duration),
        (true, true, CqlType::list(CqlType::Duration)),
    ] {
        let of = |schema: &Schema| {
            let ty = user_type(schema, "u");
            if freeze { ty.freeze() } else { ty }
        };
        let table = with_column(&before, of(&before), in_key).unwrap();
        let altered = before.add_field("ks", "u", "b", added.clone()).unwrap();
        let expected = message(with_column(&altered, of(&altered), in_key));
        let refused = table.add_field("ks", "u", "b", added);
        assert_eq!(message(refused), expected);
        // A valid field is accepted.
        let fits = table.add_field("ks", "u", "b", CqlType::Text).unwrap();
        assert_eq!(reopened(&fits), fits);
    }
    // With the type frozen or within another type, the list is valid.
    let frozen = with_column(&before, user_type(&before, "u").freeze(), false).unwrap();
    let frozen = frozen.add_field("ks", "u", "b", list).unwrap();
    assert_eq!(reopened(&frozen), frozen);
}

#[test]
fn alter_type_refuses_what_create_index_refuses_in_the_same_words() {
    let before = with_type(&schema(), "u", &[("a", CqlType::Int)]);
    let frozen = || user_type(&before, "u").freeze();
    for (ty, target) in [
        (frozen(), IndexTarget::Simple),
        (CqlType::list(frozen()), IndexTarget::Values),
        (CqlType::list(frozen()).freeze(), IndexTarget::Full),
        (CqlType::map(CqlType::Int, frozen()), IndexTarget::Entries),
    ] {
        let table = with_column(&before, ty, false).unwrap();
        let indexed = table.create_index(("ks", "t"), None, ("c", target), false);
        let indexed = indexed.unwrap().unwrap();
        let altered = table.add_field("ks", "u", "d", CqlType::Duration).unwrap();
        let expected = altered.create_index(("ks", "t"), None, ("c", target), false);
        let refused = indexed.add_field("ks", "u", "d", CqlType::Duration);
        assert_eq!(message(refused), message(expected), "{target}");
    }
}

#[test]
fn alter_type_keeps_the_types_of_columns_within_their_bounds() {
    // A list of the last type of this chain has the maximal depth of a column.
    let mut deep = with_type(&schema(), "u0", &[("a", CqlType::Int)]);
    for level in 1..DEPTH_MAX - 2 {
        let inner = user_type(&deep, &format!("u{}", level - 1)).freeze();
        deep = with_type(&deep, &format!("u{level}"), &[("a", inner)]);
    }
    let last = user_type(&deep, &format!("u{}", DEPTH_MAX - 3));
    let table = with_column(&deep, CqlType::list(last.freeze()), false).unwrap();
    let added = CqlType::list(CqlType::Int).freeze();
    assert!(message(table.add_field("ks", "u0", "b", added)).contains("deep"));

    let wide = with_type(&schema(), "u", &[("a", CqlType::Int)]);
    let many = NODES_MAX / 4;
    let ty = CqlType::tuple(vec![user_type(&wide, "u"); many]);
    let mut table = with_column(&wide, ty, false).unwrap();
    table = table.add_field("ks", "u", "b", CqlType::Int).unwrap();
    let refused = table.add_field("ks", "u", "c", CqlType::Int);
    assert!(message(refused).contains("types at most"));
    assert_eq!(reopened(&table), table);
}

/// DESCRIBE prints a `frozen<...>` around each list of a nested type, so the text has more levels
/// than the statement had. If they are more than a statement may have, the text cannot be executed.
#[test]
fn a_type_that_is_printed_deeper_than_statements_nest_is_refused_wherever_it_is_new() {
    let lists = |count: usize| {
        (0..count)
            .fold(CqlType::Int, |ty, _| CqlType::list(ty))
            .freeze()
    };
    let most = (WRITTEN_DEPTH_MAX - 1) / 2;
    let ty = |inner: CqlType| UserType::new("ks", "u", [("a".into(), inner)]).unwrap();
    let table = with_column(&schema(), CqlType::Int, false).unwrap();
    let add_column = |ty: CqlType| {
        let add = |table: &TableSchema| table.add_column("d", ty, false);
        table.alter_table("ks", "t", add)
    };
    for fits in [lists(most), CqlType::list(lists(most))] {
        assert!(fits.written_depth() <= WRITTEN_DEPTH_MAX, "{fits}");
        with_column(&schema(), fits.clone(), false).unwrap();
        add_column(fits.clone()).unwrap();
        schema().create_type(ty(fits.clone())).unwrap();
        schema().add_field("ks", "phone", "d", fits).unwrap();
    }
    let deeper = lists(most + 1);
    assert_eq!(deeper.check(), Ok(()), "records may have it");
    for refused in [
        with_column(&schema(), deeper.clone(), false),
        add_column(deeper.clone()),
        schema().create_type(ty(deeper.clone())),
        schema().add_field("ks", "phone", "d", deeper),
    ] {
        let refused = message(refused);
        assert!(refused.contains("100 levels deep at most"), "{refused}");
    }
    // A use of a user-defined type is printed without its fields.
    let named = ty(lists(most));
    let used = CqlType::list(CqlType::udt(Arc::new(named)).freeze());
    assert_eq!(used.written_depth(), 3);
}

/// A type called "int" was once stored as `int`, and decoded as the native type or not at all.
#[test]
fn types_with_any_name_are_read_back() {
    let native = CqlType::NATIVE.map(|ty| ty.to_string());
    let others = [
        "varchar", "list", "set", "map", "tuple", "frozen", "vector", "byte", "select", "Int",
        "INT", "a<b>", "a, b", "a\"b", "\"", " ", "ü", "address",
    ];
    let names = native.iter().map(String::as_str).chain(others);
    for name in names {
        let own = Schema::default();
        let keyspace = KeyspaceSchema::new("ks", replication(), true).unwrap();
        let own = own.create_keyspace(keyspace).unwrap();
        let own = with_type(&own, name, &[("a \"field\"", CqlType::Text)]);
        let frozen = user_type(&own, name).freeze();
        let own = with_type(&own, "outer_type", &[("x", frozen.clone())]);
        for ty in [
            user_type(&own, name),
            frozen.clone(),
            CqlType::list(frozen.clone()),
            CqlType::map(frozen.clone(), user_type(&own, "outer_type").freeze()),
            CqlType::tuple([frozen.clone(), CqlType::Int]),
        ] {
            let schema = with_column(&own, ty, false).unwrap();
            assert_eq!(reopened(&schema), schema, "{name}");
            own.check_reopening(&schema).unwrap();
        }
        let ty = own.keyspace("ks").unwrap().user_type(name).unwrap();
        let is_native = CqlType::native(name).is_some();
        let is_quoted = ty.describe().starts_with("CREATE TYPE ks.\"");
        assert!(is_quoted || !is_native, "{}", ty.describe());
    }
}

#[test]
fn a_change_that_the_next_start_could_not_read_is_refused() {
    let before = schema();
    let table = TableSchema::create(definition(&["k int", "v text"], &["k"], &[])).unwrap();
    let with = |table: TableSchema| {
        let keyspace = KeyspaceSchema::clone(before.keyspace("ks").unwrap());
        Schema::new([keyspace.with_table(table).unwrap()])
    };
    before.check_reopening(&with(table.clone())).unwrap();
    // The rules prevent such tables; the check does not rely on the rules.
    let mut of_no_key = table.clone();
    of_no_key.columns[0].kind = ColumnKind::Regular;
    let refused = message(before.check_reopening(&with(of_no_key)));
    let reason = "table ks.t could not be read at the next start: no partition key";
    assert!(refused.contains(reason), "{refused}");
    let mut another = table;
    another.next_column_id = 1;
    let refused = message(before.check_reopening(&with(another)));
    assert!(refused.contains("table ks.t"), "{refused}");
    let mut keyspace = KeyspaceSchema::clone(before.keyspace("ks").unwrap());
    keyspace.replication.clear();
    let refused = message(before.check_reopening(&Schema::new([keyspace])));
    assert!(refused.contains("keyspace ks could not"), "{refused}");
}

/// Returns the keyspace `ks` as decoded from its record after each `from` in the record is replaced
/// by `to`.
fn damaged(schema: &Schema, from: &str, to: &str) -> KeyspaceSchema {
    let record = String::from_utf8(schema.keyspace("ks").unwrap().encode()).unwrap();
    assert!(record.contains(from), "{record}");
    KeyspaceSchema::decode(record.replace(from, to).as_bytes()).unwrap()
}

#[test]
fn a_type_that_cannot_be_read_leaves_its_keyspace_the_others() {
    let of_phone = "\"set<frozen<phone>>\"";
    let keyspace = damaged(&schema(), of_phone, "\"set<frozen<gone>>\"");
    assert!(keyspace.user_type("phone").is_some() && keyspace.user_type("address").is_none());
    let all = keyspace.all_unreadable();
    let [address] = &all[..] else {
        panic!("{all:?}");
    };
    assert_eq!(address.kind, ObjectKind::Type);
    assert_eq!(
        address.to_string(),
        "the schema of type ks.address cannot be read: Unknown type gone; restore it from a \
         backup or DROP it"
    );
    // The encoded keyspace decodes to an equal one.
    let again = KeyspaceSchema::decode(&keyspace.encode()).unwrap();
    assert_eq!(again, keyspace);

    let schema = Schema::new([keyspace]);
    let unreadable = |result: Result<Schema, SchemaError>| {
        assert!(matches!(result, Err(SchemaError::Unreadable(_))));
    };
    let ty = |name: &str| UserType::new("ks", name, [("a".into(), CqlType::Int)]).unwrap();
    unreadable(schema.create_type(ty("address")));
    unreadable(schema.add_field("ks", "address", "b", CqlType::Int));
    // A type of this name would change the meaning of the unreadable type.
    assert!(message(schema.create_type(ty("gone"))).contains("another type may use it"));
    let other = schema.create_type(ty("other")).unwrap();
    schema.check_reopening(&other).unwrap();
    let dropped = other.drop_type("ks", "address").unwrap();
    assert_eq!(dropped.all_unreadable(), []);
    dropped.create_type(ty("gone")).unwrap();
}

#[test]
fn types_in_any_order_are_read_and_those_that_use_each_other_are_not() {
    let record = |types: &str| {
        let text = format!(
            "{{\"format\":1,\"keyspace\":\"ks\",\"replication\":{{\"class\":\"SimpleStrategy\"}},\
             \"durable_writes\":true,\"types\":[{types}]}}"
        );
        KeyspaceSchema::decode(text.as_bytes())
    };
    let a = r#"{"name":"a","fields":[["x","frozen<b>"]]}"#;
    let b = r#"{"name":"b","fields":[["x","frozen<c>"]]}"#;
    let c = r#"{"name":"c","fields":[["x","int"]]}"#;
    let circle = r#"{"name":"c","fields":[["x","frozen<a>"]]}"#;
    let keyspace = record(&format!("{a},{b},{c}")).unwrap();
    assert_eq!(
        (keyspace.user_types().len(), keyspace.all_unreadable().len()),
        (3, 0)
    );
    let keyspace = record(&format!("{a},{b},{circle}")).unwrap();
    assert_eq!(
        (keyspace.user_types().len(), keyspace.all_unreadable().len()),
        (0, 3)
    );
    assert!(record(&format!("{c},{c}")).is_err());
}

#[test]
fn an_object_that_cannot_be_read_is_named_and_dropped_and_nothing_takes_its_name() {
    let table = definition(&["k int", "v frozen<phone>"], &["k"], &[]);
    let mut other = table.clone();
    other.name = "other".to_owned();
    other.id = uuid::Uuid::from_u128(8);
    let readable = schema().create_table(table.clone()).unwrap();
    let readable = readable.create_table(other).unwrap();
    let keyspace = KeyspaceSchema::clone(readable.keyspace("ks").unwrap());
    let record = readable.table("ks", "t").unwrap().encode();
    for (record, why) in [
        (
            Err("its record is missing".to_owned()),
            "its record is missing",
        ),
        (Ok(&record[1..]), "expected"),
        (Ok(&b"{\"format\":2}"[..]), "format 2 is unknown"),
    ] {
        let mut keyspace = keyspace.clone();
        keyspace.tables.remove("t");
        let schema = Schema::new([keyspace.with_record("t", record)]);
        assert!(schema.table("ks", "t").is_none() && schema.has_table("ks", "t"));
        let named = schema.unreadable("ks", Some("t")).unwrap().to_string();
        assert!(
            named.starts_with("the schema of table ks.t cannot be read: "),
            "{named}"
        );
        assert!(named.contains(why), "{named}");
        assert!(schema.unreadable("ks", Some("other")).is_none());
        for refused in [
            schema.create_table(table.clone()),
            schema.alter_table("ks", "t", |table| Ok(table.clone())),
            (schema.create_index(("ks", "t"), None, ("v", IndexTarget::Simple), false))
                .map(|next| next.unwrap()),
        ] {
            assert_eq!(message(refused), named);
        }
        // The unreadable table may use any type.
        for refused in [
            schema.add_field("ks", "address", "a", CqlType::Int),
            schema.rename_fields("ks", "address", [("street", "road")]),
            schema.drop_type("ks", "address"),
        ] {
            assert!(message(refused).contains(&named));
        }
        let add = |table: &TableSchema| table.add_column("w", CqlType::Int, false);
        let altered = schema.alter_table("ks", "other", add).unwrap();
        assert!(altered.has_table("ks", "t"));
        let dropped = altered.drop_table("ks", "t").unwrap();
        assert_eq!(dropped.all_unreadable(), []);
        dropped
            .add_field("ks", "address", "a", CqlType::Int)
            .unwrap();
        dropped.create_table(table.clone()).unwrap();
    }
    let schema = Schema::default().with_unreadable_keyspace("ks", "damaged");
    let named = schema.unreadable("ks", Some("t")).unwrap().to_string();
    assert!(
        named.starts_with("the schema of keyspace ks cannot be read: damaged"),
        "{named}"
    );
    assert!(schema.has_keyspace("ks") && schema.has_table("ks", "any"));
    assert_eq!(message(schema.create_keyspace(keyspace.clone())), named);
    assert_eq!(message(schema.create_table(table)), named);
    assert_eq!(message(schema.alter_keyspace("ks", None, None)), named);
    assert_eq!(message(schema.drop_table("ks", "t")), named);
    let dropped = schema.drop_keyspace("ks").unwrap();
    assert!(!dropped.has_keyspace("ks"));
    dropped.create_keyspace(keyspace).unwrap();
}

/// A table of a snapshot may use a type that was dropped or altered later. Regression: drivers got
/// a column of a type that the keyspace of the snapshot did not have.
#[test]
fn a_keyspace_of_the_past_has_the_types_of_its_tables() {
    let schema = schema();
    let then = with_column(&schema, user_type(&schema, "address").freeze(), false).unwrap();
    let table = TableSchema::clone(then.table("ks", "t").unwrap());
    let now = then.drop_table("ks", "t").unwrap();
    let now = now.drop_type("ks", "address").unwrap();
    let now = now.add_field("ks", "phone", "kind", CqlType::Int).unwrap();
    let now = KeyspaceSchema::clone(now.keyspace("ks").unwrap());
    let past = now.with_table_and_types(table).unwrap();
    let types: Vec<Arc<UserType>> = past.user_types().into_iter().cloned().collect();
    let before = schema.keyspace("ks").unwrap().user_types();
    assert!(types.iter().eq(before));
}

/// Returns the table `t` with the key column `k int` and with `columns`, in a keyspace with a
/// user-defined type called "int". Also returns the table's record as an earlier version wrote it,
/// with `int` as the name of this type.
fn of_an_earlier_version(columns: &[(&str, CqlType)]) -> (TableSchema, String) {
    let schema = with_type(&schema(), "int", &[("a", CqlType::Text)]);
    let mut definition = definition(&["k int"], &["k"], &[]);
    let columns = columns.iter();
    let columns = columns.map(|(name, ty)| ((*name).to_owned(), ty.clone(), false));
    definition.columns.extend(columns);
    let schema = schema.create_table(definition).unwrap();
    let table = TableSchema::clone(schema.table("ks", "t").unwrap());
    let record = String::from_utf8(table.encode()).unwrap();
    // In the JSON text, quotes are escaped.
    (table, record.replace(r#"\"int\""#, "int"))
}

/// Regression: a column of a user-defined type called "int" was decoded as one of the native type
/// `int`.
#[test]
fn a_record_that_spells_a_users_type_like_a_native_one_is_read_right_or_refused() {
    let users = with_type(&schema(), "int", &[("a", CqlType::Text)]);
    let users = user_type(&users, "int");
    let frozen = users.clone().freeze();
    let list = CqlType::list(frozen.clone());
    for columns in [
        &[("c", frozen.clone())][..],
        &[("c", list), ("d", CqlType::Text)][..],
    ] {
        let (table, record) = of_an_earlier_version(columns);
        assert_eq!(TableSchema::decode(record.as_bytes()).unwrap(), table);
        assert_eq!(TableSchema::decode(&table.encode()).unwrap(), table);
    }
    for (columns, why) in [
        (&[("c", users)][..], "a column may be of it"),
        (
            &[("c", frozen), ("d", CqlType::Int)][..],
            "column d is of the native type int or of the user-defined type",
        ),
    ] {
        let (table, record) = of_an_earlier_version(columns);
        let refused = message(TableSchema::decode(record.as_bytes()));
        assert!(refused.contains(why), "{refused}");
        // In the current encoding the type is unambiguous.
        assert_eq!(TableSchema::decode(&table.encode()).unwrap(), table);
    }
}

/// A table whose record has another form of a type than the record of its keyspace is unreadable.
/// Otherwise ALTER TYPE would change the meaning of stored values.
#[test]
fn a_table_and_its_keyspace_have_the_same_types_or_the_table_is_out_of_service() {
    let before = with_type(&schema(), "u", &[("a", CqlType::Int)]);
    let before = with_column(&before, user_type(&before, "u").freeze(), false).unwrap();
    let after = before.add_field("ks", "u", "b", CqlType::Int).unwrap();
    let opened = |keyspace: &Schema, table: &Schema| {
        let keyspace = keyspace.keyspace("ks").unwrap().encode();
        let record = table.table("ks", "t").unwrap().encode();
        let keyspace = KeyspaceSchema::open("ks", &keyspace).unwrap();
        keyspace.with_record("t", Ok(&record))
    };
    assert_eq!(opened(&before, &before).all_unreadable(), []);
    for (keyspace, table) in [(&before, &after), (&after, &before)] {
        let all = opened(keyspace, table).all_unreadable();
        let [found] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(
            (found.kind, &*found.why),
            (
                ObjectKind::Table,
                "it uses another version of type u than its keyspace has"
            )
        );
    }
    // The keyspace lost its part: only a type equal to the table's can be created.
    let mut without = opened(&before, &before);
    without.types.remove("u");
    let schema = Schema::new([without]);
    let ty = |field: &str| UserType::new("ks", "u", [(field.into(), CqlType::Int)]).unwrap();
    let refused = message(schema.create_type(ty("other")));
    assert!(
        refused.contains("table t uses another type of this name"),
        "{refused}"
    );
    assert_eq!(schema.create_type(ty("a")).unwrap(), before);
}

/// Regression: the error recommended a backup or DROP of the table, which helps less than DROP INDEX.
#[test]
fn the_second_table_with_an_index_of_the_same_name_is_out_of_service() {
    let with_index = |table: &str| {
        let mut definition = definition(&["k int", "v int"], &["k"], &[]);
        definition.name = table.to_owned();
        let schema = schema().create_table(definition).unwrap();
        let by = ("v", IndexTarget::Simple);
        let indexed = schema.create_index(("ks", table), Some("i"), by, false);
        let indexed = indexed.unwrap().unwrap();
        indexed.table("ks", table).unwrap().encode()
    };
    let keyspace = KeyspaceSchema::clone(schema().keyspace("ks").unwrap());
    let keyspace = keyspace.with_record("s", Ok(&with_index("s")));
    let keyspace = keyspace.with_record("t", Ok(&with_index("t")));
    let refused = keyspace.unreadable_table("t").unwrap().to_string();
    let why = "its index i has the name of an index of table s; DROP INDEX ks.i and a restart bring it back";
    assert!(refused.ends_with(why), "{refused}");
    let schema = Schema::new([keyspace]);
    let (next, table) = schema.drop_index("ks", "i").unwrap();
    assert_eq!(&*table, "s");
    // The other table may have any other index.
    assert_eq!(message(next.drop_index("ks", "i")), refused);
    let next = next.drop_table("ks", "t").unwrap();
    assert!(message(next.drop_index("ks", "i")).contains("doesn't exist"));
}

/// Regression: while a keyspace had an unreadable type, a new type could not get a name that was
/// only a part of a name in the fields of the unreadable type. But it could get a name with a quote
/// that such a field used.
#[test]
fn a_type_that_cannot_be_read_keeps_only_the_names_that_it_uses() {
    let fields = r#"["x","text"],["y","frozen<\"a\"\"b\">"],["z","set<duration>"]"#;
    let text = format!(
        "{{\"format\":1,\"keyspace\":\"ks\",\"replication\":{{\"class\":\"SimpleStrategy\"}},\
         \"durable_writes\":true,\"types\":[{{\"name\":\"broken\",\"fields\":[{fields}]}}]}}"
    );
    let create = |text: &str, name: &str| {
        let keyspace = KeyspaceSchema::decode(text.as_bytes()).unwrap();
        assert!(keyspace.unreadable_type("broken").is_some());
        let ty = UserType::new("ks", name, [("a".into(), CqlType::Int)]).unwrap();
        Schema::new([keyspace]).create_type(ty)
    };
    for name in ["t", "text", "a", "b", "rat"] {
        create(&text, name).unwrap();
    }
    assert!(message(create(&text, "a\"b")).contains("another type may use it"));
    // A text that does not parse may mention any name.
    let text = text.replace("set<duration>", "set<rat");
    assert!(message(create(&text, "rat")).contains("another type may use it"));
    create(&text, "mouse").unwrap();
}
