//! Values of every type, by way of Parquet files that carry nothing of Arrow, and back.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use bytes::Bytes;
use ebb_model::types::generate::value as any_value;
use ebb_model::types::number::{self, compare_decimals};
use ebb_model::types::{CqlType, UserType, elements};
use ebb_test_support::seed::for_seeds;
use num_bigint::BigInt;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::schema::types::Type;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;

fn place() -> Arc<UserType> {
    let fields = [
        ("street".into(), CqlType::Text),
        ("Number".into(), CqlType::Int),
        ("seen".into(), CqlType::set(CqlType::Timestamp).freeze()),
    ];
    Arc::new(UserType::new("ks", "place", fields).unwrap())
}

fn parse(text: &str) -> CqlType {
    CqlType::parse(text, &|name| (name == "place").then(place)).unwrap()
}

/// Returns every native type, and nested types: collections, tuples and a user-defined type within one
/// another.
fn types() -> Vec<CqlType> {
    let nested = [
        "list<int>",
        "set<text>",
        "map<text, timestamp>",
        "place",
        "tuple<int, frozen<map<uuid, frozen<list<varint>>>>, duration>",
        "list<frozen<place>>",
        "map<frozen<place>, frozen<set<frozen<tuple<date, inet>>>>>",
        "frozen<map<frozen<set<bigint>>, frozen<map<int, blob>>>>",
    ];
    let nested = nested.iter().map(|text| parse(text));
    CqlType::NATIVE.into_iter().chain(nested).collect()
}

fn made(ty: &CqlType, options: &TypeOptions) -> NestedField {
    field("c", ty, false, options, None, &mut FieldIds::default())
}

/// Writes a column of values to a Parquet file in memory, without the schema of Arrow.
fn parquet(field: &NestedField, array: ArrayRef) -> Bytes {
    let schema = Arc::new(Schema::new(vec![Field::clone(&arrow_field(field))]));
    let batch = RecordBatch::try_new(schema.clone(), vec![array]).unwrap();
    let options = ArrowWriterOptions::new().with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema, options).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap().into()
}

/// Reads the only column of a Parquet file that ebb published, as values of the CQL type `ty`.
fn values(file: Bytes, ty: &CqlType) -> Vec<Option<Vec<u8>>> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let mut values = Vec::new();
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        let column = batch.column(0);
        let rows = 0..batch.num_rows();
        values.extend(rows.map(|row| read_published_value(column, row, ty).unwrap()));
    }
    values
}

/// Returns the error of appending `value` to a column of `field`; `None` if there is none. Uses a builder of
/// its own, so that a refused value leaves nothing in the caller's builder.
fn is_refused(ty: &CqlType, field: &NestedField, value: &[u8]) -> Option<ValueError> {
    let mut builder = ColumnBuilder::new(ty, field, OnEmpty::Refuse).unwrap();
    builder.append(Some(value)).err()
}

#[test]
fn values_of_every_type_come_back_from_a_parquet_file() {
    let test = "values_of_every_type_come_back_from_a_parquet_file";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for varint_as_text in [false, true] {
            for ty in types() {
                let options = TypeOptions {
                    decimal: None,
                    varint_as_text,
                };
                let field = made(&ty, &options);
                let mut builder = ColumnBuilder::new(&ty, &field, OnEmpty::Refuse).unwrap();
                let mut expected = Vec::new();
                for _ in 0..200 {
                    let value = any_value(&ty, &mut rng);
                    match is_refused(&ty, &field, &value) {
                        None => {
                            builder.append(Some(&value)).unwrap();
                            expected.push(Some(value));
                        }
                        Some(
                            ValueError::Empty(_) | ValueError::NullKey | ValueError::Timestamp(_),
                        ) => {}
                        Some(ValueError::Decimal { .. }) if !varint_as_text => {}
                        Some(error) => panic!("{ty}: {error}"),
                    }
                    if expected.len() % 7 == 0 {
                        builder.append(None).unwrap();
                        expected.push(None);
                    }
                }
                assert!(
                    expected.iter().flatten().count() > 20,
                    "{ty}: too few values"
                );
                let back = values(parquet(&field, builder.finish()), &ty);
                let shown = |values: &[Option<Vec<u8>>]| -> Vec<Option<String>> {
                    let values = values.iter();
                    values.map(|v| v.as_ref().map(|v| ty.literal(v))).collect()
                };
                assert_eq!(shown(&back), shown(&expected), "{ty}");
            }
        }
    });
}

#[test]
fn decimals_are_converted_exactly_or_refused() {
    let options = TypeOptions {
        decimal: DecimalForm::new(6, 2),
        varint_as_text: false,
    };
    let ty = CqlType::Decimal;
    let field = made(&ty, &options);
    let stored = |text: &str| ty.parse_value(text).unwrap();
    let fitting = [
        "0",
        "0.00",
        "0E-2000000000",
        "1",
        "1.5",
        "-1.50",
        "1.500000000",
        "9999.99",
        "-9999.99",
        "12E2",
        "0.01",
    ];
    let mut builder = ColumnBuilder::new(&ty, &field, OnEmpty::Refuse).unwrap();
    for text in fitting {
        builder.append(Some(&stored(text))).unwrap();
    }
    let back = values(parquet(&field, builder.finish()), &ty);
    for (text, value) in fitting.iter().zip(back) {
        let order = compare_decimals(&stored(text), &value.unwrap());
        assert_eq!(order, Some(std::cmp::Ordering::Equal), "{text}");
    }
    for text in [
        "10000",
        "0.001",
        "-0.015",
        "1E4",
        "1E2000000000",
        "1E-2000000000",
    ] {
        let error = is_refused(&ty, &field, &stored(text));
        assert!(
            matches!(error, Some(ValueError::Decimal { .. })),
            "{text}: {error:?}"
        );
    }
}

#[test]
fn integers_beyond_38_digits_are_refused_or_text() {
    let nines = "9".repeat(38);
    let ten = format!("1{}", "0".repeat(38));
    let ty = CqlType::Varint;
    let stored = |text: &str| ty.parse_value(text).unwrap();
    let number = made(&ty, &TypeOptions::default());
    assert_eq!(is_refused(&ty, &number, &stored(&nines)), None);
    assert_eq!(
        is_refused(&ty, &number, &stored(&format!("-{nines}"))),
        None
    );
    for text in [ten.clone(), format!("-{ten}"), "7".repeat(1000)] {
        let error = is_refused(&ty, &number, &stored(&text)).unwrap();
        assert!(matches!(error, ValueError::Decimal { .. }), "{error}");
        let options = TypeOptions {
            varint_as_text: true,
            ..TypeOptions::default()
        };
        assert_eq!(is_refused(&ty, &made(&ty, &options), &stored(&text)), None);
    }
}

#[test]
fn an_empty_int_is_refused_or_becomes_null_and_an_empty_text_is_a_text() {
    let ty = parse("list<int>");
    let field = made(&ty, &TypeOptions::default());
    let empty = CqlType::Int;
    let value = ebb_model::types::elements::build([&b""[..], &[0, 0, 0, 1]]);
    assert_eq!(
        is_refused(&ty, &field, &value),
        Some(ValueError::Empty(empty.to_string()))
    );
    let mut builder = ColumnBuilder::new(&ty, &field, OnEmpty::Null).unwrap();
    builder.append(Some(&value)).unwrap();
    assert_eq!(builder.empty_values(), 1);

    let ty = CqlType::Text;
    let field = made(&ty, &TypeOptions::default());
    let mut builder = ColumnBuilder::new(&ty, &field, OnEmpty::Refuse).unwrap();
    builder.append(Some(b"")).unwrap();
    builder.append(None).unwrap();
    let back = values(parquet(&field, builder.finish()), &ty);
    assert_eq!(back, [Some(Vec::new()), None]);
}

#[test]
fn a_moment_between_two_milliseconds_and_an_int_that_is_too_large_are_refused() {
    let array = arrow_array::TimestampMicrosecondArray::from(vec![1500, 2000]);
    assert!(read_value(&array, 0, &CqlType::Timestamp).is_err());
    let value = read_value(&array, 1, &CqlType::Timestamp).unwrap();
    assert_eq!(value, Some(2_i64.to_be_bytes().to_vec()));

    let array = arrow_array::Int64Array::from(vec![1 << 40]);
    assert!(read_value(&array, 0, &CqlType::Int).is_err());
    assert!(read_value(&array, 0, &CqlType::Bigint).is_ok());
    assert!(read_value(&array, 0, &CqlType::Text).is_err());
}

#[test]
fn values_of_other_engines_are_converted_exactly_or_refused() {
    use arrow_array::{
        BinaryViewArray, FixedSizeBinaryArray, NullArray, StringViewArray, Time32MillisecondArray,
        Time64MicrosecondArray, Time64NanosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray, UInt8Array, UInt64Array,
    };
    let uuid = FixedSizeBinaryArray::try_from_iter([[7_u8; 16]].into_iter()).unwrap();
    let short = FixedSizeBinaryArray::try_from_iter([[7_u8; 3]].into_iter()).unwrap();
    let day_us = 86_400_000_000;
    let cases: [(&dyn Array, CqlType, Option<&str>); 20] = [
        (&NullArray::new(1), CqlType::Int, Some("null")),
        (&UInt8Array::from(vec![200]), CqlType::Int, Some("200")),
        (&UInt8Array::from(vec![200]), CqlType::Tinyint, None),
        (&UInt64Array::from(vec![u64::MAX]), CqlType::Bigint, None),
        (
            &UInt64Array::from(vec![u64::MAX]),
            CqlType::Varint,
            Some("18446744073709551615"),
        ),
        (
            &TimestampMillisecondArray::from(vec![-1]),
            CqlType::Timestamp,
            Some("'1969-12-31 23:59:59.999+0000'"),
        ),
        (
            &TimestampNanosecondArray::from(vec![-1_000_000]),
            CqlType::Timestamp,
            Some("'1969-12-31 23:59:59.999+0000'"),
        ),
        (
            &TimestampNanosecondArray::from(vec![1]),
            CqlType::Timestamp,
            None,
        ),
        (
            &Time32MillisecondArray::from(vec![1]),
            CqlType::Time,
            Some("'00:00:00.001000000'"),
        ),
        (
            &Time64MicrosecondArray::from(vec![1]),
            CqlType::Time,
            Some("'00:00:00.000001000'"),
        ),
        (
            &Time64NanosecondArray::from(vec![1]),
            CqlType::Time,
            Some("'00:00:00.000000001'"),
        ),
        (
            &Time64MicrosecondArray::from(vec![day_us]),
            CqlType::Time,
            None,
        ),
        (
            &Time64MicrosecondArray::from(vec![i64::MAX]),
            CqlType::Time,
            None,
        ),
        (
            &uuid,
            CqlType::Uuid,
            Some("07070707-0707-0707-0707-070707070707"),
        ),
        (&uuid, CqlType::Timeuuid, None),
        (&short, CqlType::Uuid, None),
        (&short, CqlType::Blob, Some("0x070707")),
        (
            // A view contains a text of up to twelve bytes, and refers to a buffer for a longer one.
            &StringViewArray::from(vec!["a text of more than twelve bytes"]),
            CqlType::Text,
            Some("'a text of more than twelve bytes'"),
        ),
        (
            &StringViewArray::from(vec!["1.50"]),
            CqlType::Decimal,
            Some("1.50"),
        ),
        (
            &BinaryViewArray::from(vec![&b"\x07"[..]]),
            CqlType::Blob,
            Some("0x07"),
        ),
    ];
    for (array, ty, expected) in cases {
        // A value may have several literals, so they are parsed.
        let expected = expected.map(|text| match text {
            "null" => None,
            text => Some(ty.parse_literal(text).unwrap()),
        });
        let read = read_value(array, 0, &ty);
        assert_eq!(read.ok(), expected, "{} as {ty}", array.data_type());
    }
}

/// Regression: the text of the address was read as an IPv4 address, so a row that ebb published and then
/// copied changed its value.
#[test]
fn an_ipv4_mapped_address_stays_one_if_ebb_published_it() {
    let mapped = [&[0_u8; 10][..], &[0xff, 0xff, 10, 0, 0, 1][..]].concat();
    let both = [&[10_u8, 0, 0, 1][..], &mapped[..]];
    for (ty, value) in [
        (CqlType::Inet, mapped.clone()),
        (parse("set<inet>"), ebb_model::types::elements::build(both)),
    ] {
        let field = made(&ty, &TypeOptions::default());
        let mut builder = ColumnBuilder::new(&ty, &field, OnEmpty::Refuse).unwrap();
        builder.append(Some(&value)).unwrap();
        let back = values(parquet(&field, builder.finish()), &ty);
        assert_eq!(back, [Some(value)], "{ty}");
    }
    let array = arrow_array::StringArray::from(vec!["::ffff:10.0.0.1"]);
    let of_another_engine = read_value(&array, 0, &CqlType::Inet);
    assert_eq!(of_another_engine, Ok(Some(vec![10, 0, 0, 1])));
}

/// Regression: `ebb load` stored an empty text as the empty value of the type, and `ebb publish` then refused
/// the row.
#[test]
fn an_empty_text_is_a_value_of_text_and_ascii_only() {
    let array = arrow_array::StringArray::from(vec![""]);
    for ty in [
        CqlType::Decimal,
        CqlType::Varint,
        CqlType::Uuid,
        CqlType::Timeuuid,
        CqlType::Inet,
    ] {
        let error = read_value(&array, 0, &ty).unwrap_err().to_string();
        assert_eq!(error, format!("\"\" is no value of the type {ty}"));
        assert!(read_published_value(&array, 0, &ty).is_err(), "{ty}");
    }
    for ty in [CqlType::Text, CqlType::Ascii] {
        assert_eq!(read_value(&array, 0, &ty), Ok(Some(Vec::new())), "{ty}");
    }
}

/// Regression: reading a null in a collection failed, so a data file with such a null could not be
/// rewritten.
#[test]
fn a_null_in_a_published_collection_is_the_empty_value_that_it_was() {
    use ebb_model::types::elements::{build, build_map};
    let one = 1_i32.to_be_bytes();
    for (ty, value) in [
        ("list<int>", build([&b""[..], &one])),
        ("set<frozen<list<int>>>", build([&build([&b""[..]])[..]])),
        ("map<int, uuid>", build_map([(&one[..], &b""[..])])),
        (
            "map<frozen<list<int>>, int>",
            build_map([(&build([&b""[..], &one])[..], &one[..])]),
        ),
    ] {
        let ty = parse(ty);
        let field = made(&ty, &TypeOptions::default());
        let mut builder = ColumnBuilder::new(&ty, &field, OnEmpty::Null).unwrap();
        builder.append(Some(&value)).unwrap();
        let array = builder.finish();
        let error = read_value(&array, 0, &ty).unwrap_err().to_string();
        assert!(error.starts_with("a null in a collection"), "{error}");
        let back = values(parquet(&field, array), &ty);
        assert_eq!(back, [Some(value)], "{ty}");
    }
    // These types have no empty value, or have it in Iceberg, too.
    for ty in ["list<smallint>", "list<text>"] {
        let ty = parse(ty);
        let field = made(&ty, &TypeOptions::default());
        let IcebergType::List(element) = &field.ty else {
            panic!("a list");
        };
        let element = arrow_field(element);
        let nulls = arrow_array::new_null_array(element.data_type(), 1);
        let offsets = arrow_buffer::OffsetBuffer::from_lengths([1]);
        let array = arrow_array::ListArray::new(element, offsets, nulls, None);
        assert!(read_published_value(&array, 0, &ty).is_err(), "{ty}");
    }
}

/// Regression: in a map whose keys are lists, a key with an empty element was refused as a null
/// key, under both rules of [`OnEmpty`].
#[test]
fn a_key_of_a_map_cannot_become_null_but_its_parts_can() {
    use ebb_model::types::elements::{build, build_map};
    let one = 1_i32.to_be_bytes();
    let append = |ty: &str, key: &[u8], on_empty| {
        let ty = parse(ty);
        let field = made(&ty, &TypeOptions::default());
        let mut builder = ColumnBuilder::new(&ty, &field, on_empty).unwrap();
        let appended = builder.append(Some(&build_map([(key, &one[..])])));
        appended.map(|()| builder.empty_values())
    };
    let of_parts = build([&b""[..], &one]);
    let of_lists = |on_empty| append("map<frozen<list<int>>, int>", &of_parts, on_empty);
    assert_eq!(of_lists(OnEmpty::Null), Ok(1));
    let refused = ValueError::Empty(CqlType::Int.to_string());
    assert_eq!(of_lists(OnEmpty::Refuse), Err(refused));
    let of_maps = build_map([(&b""[..], &one[..])]);
    for on_empty in [OnEmpty::Null, OnEmpty::Refuse] {
        let of_ints = append("map<int, int>", b"", on_empty);
        assert_eq!(of_ints, Err(ValueError::NullKey));
        let of_maps = append("map<frozen<map<int, int>>, int>", &of_maps, on_empty);
        assert_eq!(of_maps, Err(ValueError::NullKey));
    }
}

/// Regression: an integer below 0, or of a day's nanoseconds or more, in a file of another engine, was read as
/// a CQL `time`, although no CQL literal can express such a time.
#[test]
fn an_integer_is_a_time_of_one_day_unless_ebb_published_it() {
    let day_ns = 86_400_000_000_000;
    let array = arrow_array::Int64Array::from(vec![0, day_ns - 1, day_ns, -1, i64::MAX]);
    let read: Vec<_> = (0..array.len())
        .map(|row| read_value(&array, row, &CqlType::Time).ok().flatten())
        .collect();
    let bytes = |nanos: i64| Some(nanos.to_be_bytes().to_vec());
    assert_eq!(read, [bytes(0), bytes(day_ns - 1), None, None, None]);
    let error = read_value(&array, 2, &CqlType::Time).unwrap_err();
    let expected = "86400000000000 ns since midnight is no value of the type time";
    assert_eq!(error.to_string(), expected);
    let published = read_published_value(&array, 2, &CqlType::Time);
    assert_eq!(published, Ok(bytes(day_ns)));

    let parts = vec![(
        Arc::new(Field::new("_1", arrow_schema::DataType::Int64, true)),
        Arc::new(arrow_array::Int64Array::from(vec![day_ns])) as ArrayRef,
    )];
    let parts = arrow_array::StructArray::from(parts);
    let tuple = CqlType::Tuple([CqlType::Time].into());
    assert!(read_value(&parts, 0, &tuple).is_err());
    assert!(read_published_value(&parts, 0, &tuple).is_ok());
}

#[test]
fn fields_of_a_user_defined_type_are_found_by_their_names() {
    let text = |name: &str, value: &str| {
        let field = Arc::new(Field::new(name, arrow_schema::DataType::Utf8, true));
        let array: ArrayRef = Arc::new(arrow_array::StringArray::from(vec![value]));
        (field, array)
    };
    let fields = ["street", "city", "zip"].map(|name| (name.into(), CqlType::Text));
    let ty = CqlType::udt(Arc::new(UserType::new("ks", "address", fields).unwrap()));
    let swapped = vec![text("city", "Ulm"), text("street", "A")];
    let value = read_value(&arrow_array::StructArray::from(swapped), 0, &ty).unwrap();
    let expected = "{street: 'A', city: 'Ulm', zip: null}";
    assert_eq!(ty.literal(&value.unwrap()), expected);
    let unknown = vec![text("city", "Ulm"), text("Street", "A")];
    assert!(read_value(&arrow_array::StructArray::from(unknown), 0, &ty).is_err());
    // A tuple has places and no names.
    let pair = CqlType::Tuple([CqlType::Text, CqlType::Text].into());
    let parts = || vec![text("b", "x"), text("a", "y")];
    let value = read_value(&arrow_array::StructArray::from(parts()), 0, &pair).unwrap();
    assert_eq!(pair.literal(&value.unwrap()), "('x', 'y')");
    let one = CqlType::Tuple([CqlType::Text].into());
    assert!(read_value(&arrow_array::StructArray::from(parts()), 0, &one).is_err());
}

#[test]
fn parts_of_a_duration_are_found_by_their_names_and_all_are_there() {
    let part = |name: &str, value: Option<i64>| {
        let field = Arc::new(Field::new(name, arrow_schema::DataType::Int64, true));
        let array: ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![value]));
        (field, array)
    };
    let read = |parts: [(&str, Option<i64>); 3]| {
        let parts = parts.map(|(name, value)| part(name, value)).to_vec();
        let value = read_value(
            &arrow_array::StructArray::from(parts),
            0,
            &CqlType::Duration,
        );
        value.map(|value| CqlType::Duration.literal(&value.unwrap()))
    };
    let swapped = [
        ("nanoseconds", Some(3)),
        ("days", Some(2)),
        ("months", Some(1)),
    ];
    assert_eq!(read(swapped).unwrap(), "1mo2d3ns");
    for refused in [
        [("months", Some(1)), ("days", Some(2)), ("ns", Some(3))],
        [
            ("months", Some(1)),
            ("days", Some(2)),
            ("nanoseconds", None),
        ],
        [
            ("months", Some(1)),
            ("days", Some(-2)),
            ("nanoseconds", Some(3)),
        ],
        [
            ("months", Some(1 << 40)),
            ("days", Some(2)),
            ("nanoseconds", Some(3)),
        ],
    ] {
        assert!(read(refused).is_err(), "{refused:?}");
    }
}

/// Collects the ids of the fields in a Parquet schema into `out`, each with its path of names.
fn ids(ty: &Type, path: &str, out: &mut Vec<(String, i32)>) {
    let path = format!("{path}/{}", ty.name());
    let info = ty.get_basic_info();
    if info.has_id() {
        out.push((path.clone(), info.id()));
    }
    if ty.is_group() {
        ty.get_fields()
            .iter()
            .for_each(|field| ids(field, &path, out));
    }
}

#[test]
fn every_part_has_its_field_id_in_the_parquet_file() {
    let ty = parse("map<text, frozen<place>>");
    let field = made(&ty, &TypeOptions::default());
    let mut builder = ColumnBuilder::new(&ty, &field, OnEmpty::Refuse).unwrap();
    builder.append(None).unwrap();
    let file = parquet(&field, builder.finish());
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let mut found = Vec::new();
    for column in reader.parquet_schema().root_schema().get_fields() {
        ids(column, "", &mut found);
    }
    let expected = [
        ("/c", 1),
        ("/c/key_value/key", 2),
        ("/c/key_value/value", 3),
        ("/c/key_value/value/street", 4),
        ("/c/key_value/value/Number", 5),
        ("/c/key_value/value/seen", 6),
        ("/c/key_value/value/seen/list/element", 7),
    ];
    assert_eq!(found, expected.map(|(path, id)| (path.to_owned(), id)));
}

#[test]
fn fields_keep_their_ids_and_no_id_is_given_twice() {
    let options = TypeOptions::default();
    let mut ids = FieldIds::default();
    let before = field(
        "c",
        &parse("list<frozen<place>>"),
        false,
        &options,
        None,
        &mut ids,
    );
    assert_eq!(ids.last, 6);

    let fields = [
        ("road".into(), CqlType::Text),
        ("Number".into(), CqlType::Int),
        ("seen".into(), CqlType::set(CqlType::Timestamp).freeze()),
        ("note".into(), CqlType::Text),
    ];
    let longer = Arc::new(UserType::new("ks", "place", fields).unwrap());
    let ty = CqlType::list(CqlType::udt(longer).freeze());
    let after = field("c", &ty, false, &options, Some(&before), &mut ids);
    assert_eq!(ids.last, 7);
    let (IcebergType::List(before), IcebergType::List(after)) = (&before.ty, &after.ty) else {
        panic!("lists");
    };
    assert_eq!(before.id, after.id);
    let (IcebergType::Struct(before), IcebergType::Struct(after)) = (&before.ty, &after.ty) else {
        panic!("structs");
    };
    assert_eq!(after[0].name, "road");
    assert_eq!(
        after[..3].iter().map(|f| f.id).collect::<Vec<_>>(),
        [3, 4, 5]
    );
    assert_eq!(before[1..], after[1..3]);
    assert_eq!(after[3].id, 7);

    let text = field(
        "c",
        &CqlType::Text,
        false,
        &options,
        Some(&after[3]),
        &mut ids,
    );
    assert_eq!(text.id, 7);
    let number = field("c", &CqlType::Int, false, &options, Some(&text), &mut ids);
    assert_eq!((number.id, ids.last), (8, 8));
}

#[test]
fn the_book_has_a_row_for_every_native_type() {
    let page = include_str!("../../../../docs/src/guide/publish.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells: Vec<&str> = rows.filter_map(|row| row.split(" | ").next()).collect();
    for ty in CqlType::NATIVE {
        let name = format!("`{ty}`");
        assert!(cells.iter().any(|cell| cell.contains(&name)), "{name}");
    }
}

#[test]
fn types_survive_their_json() {
    for ty in types() {
        let options = TypeOptions {
            decimal: DecimalForm::new(10, 3),
            varint_as_text: false,
        };
        let field = made(&ty, &options);
        assert_eq!(
            NestedField::from_json(&field.to_json()).as_ref(),
            Some(&field)
        );
    }
    let decimal = made(&CqlType::Varint, &TypeOptions::default()).to_json();
    assert_eq!(decimal["type"], "decimal(38, 0)");
    assert_eq!(DecimalForm::new(39, 0), None);
    assert_eq!(DecimalForm::new(3, 4), None);
}

/// Regression: all long numbers of a collection were converted to text, or to another scale, before the job
/// could be cancelled.
#[test]
fn the_digits_of_each_long_number_are_charged_before_they_are_computed() {
    // One, with 3,000 digits after the point.
    let one = number::decimal(3000, &BigInt::from(10).pow(3000));
    let ty = CqlType::list(CqlType::Decimal);
    let list = elements::build([&one[..]; 3]);
    for decimal in [None, Some(DecimalForm::INTEGER)] {
        let options = TypeOptions {
            decimal,
            varint_as_text: false,
        };
        let field = made(&ty, &options);
        let append = |charges_max: usize| {
            let mut builder = ColumnBuilder::new(&ty, &field, OnEmpty::Refuse).unwrap();
            let mut charges = 0;
            let appended = builder.append_with(Some(&list), &mut |bytes| {
                charges += usize::from(bytes >= number::digits_bytes(1000));
                if charges > charges_max {
                    return Err(ValueError::Ended);
                }
                Ok(())
            });
            (appended, charges)
        };
        assert_eq!(append(3), (Ok(()), 3), "{decimal:?}");
        assert_eq!(append(1), (Err(ValueError::Ended), 2), "{decimal:?}");
    }
}
