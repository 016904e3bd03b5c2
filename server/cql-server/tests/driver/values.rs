//! Values of every type, written and read.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use scylla::cluster::metadata::{ColumnType, NativeType};
use scylla::value::{
    CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue, CqlVarint, Row,
};
use scylla::{DeserializeValue, SerializeValue};
use uuid::Uuid;

use super::session::{all_rows, connect_with, prepare, read, rows, run, with_server, write};

/// Returns, for each native type, its name, the driver's type, and a value. The values of numbers
/// and times are mostly negative or at an end of the type's range. Counters are left out, because a
/// table with counters has no other columns outside of its key.
fn natives() -> Vec<(&'static str, NativeType, CqlValue)> {
    let decimal = CqlDecimal::from_signed_be_bytes_and_exponent(vec![0x80, 0x01], 5);
    let duration = CqlDuration {
        months: 1,
        days: 2,
        nanoseconds: 3,
    };
    let inet = IpAddr::from(Ipv6Addr::LOCALHOST);
    let timeuuid = CqlTimeuuid::from_u128(0x1381_4000_1dd2_11b2_8000_0000_0000_0000);
    let uuid = Uuid::from_u128(0x550e_8400_e29b_41d4_a716_4466_5544_0000);
    let varint = CqlVarint::from_signed_bytes_be(vec![0x80, 0, 0, 0, 0, 0, 0, 0, 0]);
    vec![
        (
            "ascii",
            NativeType::Ascii,
            CqlValue::Ascii("plain".to_owned()),
        ),
        ("bigint", NativeType::BigInt, CqlValue::BigInt(i64::MIN)),
        ("blob", NativeType::Blob, CqlValue::Blob(vec![0, 255])),
        ("boolean", NativeType::Boolean, CqlValue::Boolean(true)),
        (
            "date",
            NativeType::Date,
            CqlValue::Date(CqlDate((1 << 31) + 19_782)),
        ),
        ("decimal", NativeType::Decimal, CqlValue::Decimal(decimal)),
        ("double", NativeType::Double, CqlValue::Double(1.5e300)),
        (
            "duration",
            NativeType::Duration,
            CqlValue::Duration(duration),
        ),
        ("float", NativeType::Float, CqlValue::Float(0.5)),
        ("inet", NativeType::Inet, CqlValue::Inet(inet)),
        ("int", NativeType::Int, CqlValue::Int(i32::MIN)),
        (
            "smallint",
            NativeType::SmallInt,
            CqlValue::SmallInt(i16::MIN),
        ),
        (
            "text",
            NativeType::Text,
            CqlValue::Text("größer".to_owned()),
        ),
        (
            "time",
            NativeType::Time,
            CqlValue::Time(CqlTime(86_399_999_999_999)),
        ),
        (
            "timestamp",
            NativeType::Timestamp,
            CqlValue::Timestamp(CqlTimestamp(-1)),
        ),
        (
            "timeuuid",
            NativeType::Timeuuid,
            CqlValue::Timeuuid(timeuuid),
        ),
        ("tinyint", NativeType::TinyInt, CqlValue::TinyInt(i8::MIN)),
        ("uuid", NativeType::Uuid, CqlValue::Uuid(uuid)),
        ("varint", NativeType::Varint, CqlValue::Varint(varint)),
    ]
}

#[test]
fn values_of_every_native_type_are_read_as_they_were_written() {
    with_server(|address| async move {
        let natives = natives();
        let columns: Vec<String> = (0..natives.len()).map(|at| format!("c{at}")).collect();
        let definitions: Vec<String> = (columns.iter().zip(&natives))
            .map(|(column, (name, _, _))| format!("{column} {name}"))
            .collect();
        let definitions = definitions.join(", ");
        let create = format!("CREATE TABLE ks.natives (id int PRIMARY KEY, {definitions})");
        let session = connect_with(address, &[&create]).await;
        let state = session.get_cluster_state();
        let table = &state.get_keyspace("ks").expect("the keyspace").tables["natives"];
        for (column, (name, native, _)) in columns.iter().zip(&natives) {
            let expected = ColumnType::Native(native.clone());
            assert_eq!(table.columns[column].typ, expected, "{name}");
        }

        let names = columns.join(", ");
        let marks = vec!["?"; natives.len()].join(", ");
        let insert = format!("INSERT INTO ks.natives (id, {names}) VALUES (?, {marks})");
        let insert = prepare(&session, &insert).await;
        let select = format!("SELECT {names} FROM ks.natives WHERE id = ?");
        let select = prepare(&session, &select).await;
        let values: Vec<_> = natives
            .iter()
            .map(|(_, _, value)| Some(value.clone()))
            .collect();
        let nulls = vec![None; natives.len()];
        for (id, values) in [(1, values), (2, nulls)] {
            let mut with_id = vec![Some(CqlValue::Int(id))];
            with_id.extend(values.iter().cloned());
            write(&session, &insert, with_id).await;
            let found: Vec<Row> = all_rows(&read(&session, &select, (id,)).await);
            assert_eq!(found, [Row { columns: values }]);
        }
    });
}

/// A value of the user-defined type `ks.address`.
#[derive(Debug, Clone, PartialEq, Eq, SerializeValue, DeserializeValue)]
struct Address {
    street: String,
    number: Option<i32>,
}

fn address_at(street: &str, number: i32) -> Address {
    Address {
        street: street.to_owned(),
        number: Some(number),
    }
}

/// The columns of a row of `ks.people`, without its id.
type Person = (
    Vec<String>,
    BTreeSet<String>,
    BTreeMap<String, i64>,
    Address,
    Vec<Address>,
    (f64, Option<String>),
);

#[test]
fn collections_tuples_and_user_defined_types_are_written_changed_and_read() {
    with_server(|address| async move {
        let schema = [
            "CREATE TYPE ks.address (street text, number int)",
            "CREATE TABLE ks.people (id int PRIMARY KEY, names list<text>, tags set<text>, \
             scores map<text, bigint>, home address, former frozen<list<frozen<address>>>, \
             place tuple<double, text>)",
        ];
        let session = connect_with(address, &schema).await;
        let insert = "INSERT INTO ks.people (id, names, tags, scores, home, former, place) \
                      VALUES (?, ?, ?, ?, ?, ?, ?)";
        let insert = prepare(&session, insert).await;
        let text = str::to_owned;
        let mut ada: Person = (
            vec![text("Augusta"), text("Ada")],
            BTreeSet::from([text("poet"), text("analyst")]),
            BTreeMap::from([(text("whist"), -3), (text("chess"), 5)]),
            address_at("St James's Square", 12),
            vec![
                address_at("Ockham", 1),
                address_at("Piccadilly Terrace", 13),
            ],
            (51.5, None),
        );
        let (names, tags, scores, home, former, place) = &ada;
        let values = (1, names, tags, scores, home, former, place);
        write(&session, &insert, values).await;
        let select = "SELECT names, tags, scores, home, former, place FROM ks.people WHERE id = 1";
        assert_eq!(rows::<Person>(&session, select).await, [ada.clone()]);

        let update = "UPDATE ks.people SET names = names + ?, tags = tags - ?, scores[?] = ?, \
                      home.number = ? WHERE id = ?";
        let update = prepare(&session, update).await;
        let (added, removed) = (vec!["Lovelace"], BTreeSet::from(["poet"]));
        let values = (added, removed, "chess", 7_i64, 14, 1);
        write(&session, &update, values).await;
        ada.0.push(text("Lovelace"));
        ada.1.remove("poet");
        ada.2.insert(text("chess"), 7);
        ada.3.number = Some(14);
        assert_eq!(rows::<Person>(&session, select).await, [ada]);

        // Unwritten columns and fields are null.
        run(
            &session,
            "INSERT INTO ks.people (id, home) VALUES (2, {street: 'Ockham'})",
        )
        .await;
        let select = "SELECT names, home, former FROM ks.people WHERE id = 2";
        type Parts = (Option<Vec<String>>, Option<Address>, Option<Vec<Address>>);
        let found: Vec<Parts> = rows(&session, select).await;
        let home = Address {
            street: text("Ockham"),
            number: None,
        };
        assert_eq!(found, [(None, Some(home), None)]);
    });
}
