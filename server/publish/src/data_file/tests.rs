//! Files of few columns, whose batches are encoded at once, and what every file has.

use super::*;
use crate::iceberg::manifest::{self, Content, Entry, ManifestEntry};
use crate::iceberg::metadata::TableMetadata;
use crate::types::{IcebergType, read_value};
use bytes::Bytes;
use ebb_model::types::elements::{build, build_tuple};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

fn columns() -> Vec<Column> {
    testing::columns([
        ("id", CqlType::Int),
        ("name", CqlType::Text),
        ("amount", CqlType::Varint),
        ("weight", CqlType::Double),
        ("tags", CqlType::set(CqlType::Text)),
    ])
}

fn writer() -> DataFileWriter<Vec<u8>> {
    DataFileWriter::new(Vec::new(), &columns(), OnEmpty::Refuse, 1 << 20).unwrap()
}

/// Writes a file of `count` rows. Each third name is null.
fn file(count: i32) -> (Bytes, DataFile) {
    let mut writer = writer();
    for id in 0..count {
        let name = format!("name {id:06}");
        let amount = [0xff, 0x00];
        let values = [
            Some(&id.to_be_bytes()[..]),
            Some(name.as_bytes()).filter(|_| id % 3 != 0),
            Some(&amount[..]),
            Some(&[0x7f, 0xf8, 0, 0, 0, 0, 0, 0][..]),
            None,
        ];
        writer.append(values).unwrap();
    }
    assert_eq!(writer.rows(), count as u64);
    let (bytes, described) = writer.finish("/t/data/1.parquet".into()).unwrap();
    (bytes.into(), described)
}

fn of<T: Clone>(entries: &Option<Vec<Entry<T>>>, id: i32) -> Option<T> {
    let mut entries = entries.iter().flatten();
    let entry = entries.find(|entry| entry.key == id);
    entry.map(|entry| entry.value.clone())
}

#[test]
fn rows_of_several_batches_come_back_in_their_order() {
    let (bytes, described) = file(40_000);
    assert_eq!(described.record_count, 40_000);
    assert_eq!(described.file_size_in_bytes, bytes.len() as i64);
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
    let mut next = 0_i32;
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        for row in 0..batch.num_rows() {
            let id = read_value(batch.column(0), row, &CqlType::Int).unwrap();
            assert_eq!(id, Some(next.to_be_bytes().to_vec()));
            next += 1;
        }
    }
    assert_eq!(next, 40_000);
}

/// Returns, for each row group, the columns that have a dictionary.
pub(super) fn with_dictionary(bytes: Bytes) -> Vec<Vec<String>> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
    let groups = reader.metadata().row_groups().iter().map(|group| {
        let chunks = group.columns().iter();
        let chunks = chunks.filter(|chunk| chunk.dictionary_page_offset().is_some());
        let paths = chunks.map(|chunk| chunk.column_descr().path().string());
        paths.collect()
    });
    groups.collect()
}

#[test]
fn columns_of_almost_unique_values_have_no_dictionary_and_come_back() {
    let row = |id: i32| {
        // Of 100 names 91 are distinct, and of 100 weights 97.
        let number = if id % 100 < 90 { id } else { -1 - id / 100 };
        let name = format!("name {number}");
        let weight = if id % 100 < 97 { f64::from(id) } else { -1.0 };
        let tag = format!("tag {id}");
        [
            Some(id.to_be_bytes().to_vec()),
            Some(name.into_bytes()),
            Some(vec![(id % 7) as u8]),
            Some(weight.to_be_bytes().to_vec()).filter(|_| id % 3 != 0),
            Some(build([tag.as_bytes()])),
        ]
    };
    let mut writer = writer();
    for id in 0..40_000 {
        writer.append(row(id).iter().map(Option::as_deref)).unwrap();
    }
    let (bytes, _) = writer.finish("/t/data/1.parquet".into()).unwrap();
    let bytes = Bytes::from(bytes);
    for columns in with_dictionary(bytes.clone()) {
        // Tags are unique, too, but the parts of nested columns are not judged.
        assert_eq!(columns, ["name", "amount", "tags.list.element"]);
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
    let all = columns();
    let mut next = 0;
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        for at in 0..batch.num_rows() {
            let values = all.iter().zip(batch.columns());
            let values = values.map(|(column, array)| read_value(array, at, &column.ty));
            let values: Vec<_> = values.map(Result::unwrap).collect();
            assert_eq!(values, row(next));
            next += 1;
        }
    }
    assert_eq!(next, 40_000);
}

#[test]
fn columns_of_few_values_have_a_dictionary() {
    let all = ["id", "name", "amount", "weight"];
    // Ids are unique. Two thirds of the names are not null, and these are unique, too.
    for (rows, without) in [(999, 0), (1_000, 1), (3_000, 2)] {
        let groups = with_dictionary(file(rows).0);
        assert_eq!(groups.len(), 1);
        let columns = groups[0].iter().map(String::as_str);
        let flat: Vec<_> = columns.filter(|path| !path.starts_with("tags")).collect();
        assert_eq!(flat, all[without..], "{rows} rows");
    }
}

#[test]
fn a_file_without_rows_is_valid() {
    let writer = writer();
    assert!(!writer.is_full());
    let (bytes, described) = writer.finish("/t/data/1.parquet".into()).unwrap();
    assert_eq!(described.record_count, 0);
    assert_eq!(described.file_size_in_bytes, bytes.len() as i64);
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
    assert_eq!(reader.schema().fields().len(), 5);
    assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
}

#[test]
fn a_manifest_describes_a_file_so_that_readers_can_pass_over_it() {
    let (_, described) = file(3_000);
    assert_eq!(of(&described.value_counts, 1), Some(3_000));
    assert_eq!(of(&described.null_value_counts, 2), Some(1_000));
    let bytes = |bytes: &[u8]| Some(bytes.to_vec());
    assert_eq!(of(&described.lower_bounds, 1), bytes(&0_i32.to_le_bytes()));
    assert_eq!(
        of(&described.upper_bounds, 1),
        bytes(&2_999_i32.to_le_bytes())
    );
    assert_eq!(of(&described.lower_bounds, 2), bytes(b"name 000001"));
    // -256 in the fewest bytes, big endian.
    assert_eq!(of(&described.upper_bounds, 3), bytes(&[0xff, 0x00]));
    // Readers disagree about the place of NaN among numbers.
    assert_eq!(of(&described.lower_bounds, 4), None);
    // The element of the set.
    assert_eq!(of(&described.null_value_counts, 6), None);

    let mut metadata = TableMetadata::new("u".into(), "/t".into());
    let fields: Vec<_> = columns().into_iter().map(|column| column.field).collect();
    metadata.set_schema(&fields, 6);
    let entry = ManifestEntry::added(7, described);
    let schema = metadata.schema().unwrap();
    let encoded = manifest::encode(std::slice::from_ref(&entry), schema, Content::Data);
    assert_eq!(manifest::decode(&encoded).unwrap(), [entry]);
    let decoded = TableMetadata::decode(&metadata.encode().unwrap()).unwrap();
    assert_eq!(decoded.columns(), Some(fields));
}

/// Regression: the statistics of floating-point columns had a least and a greatest value, which
/// do not include NaN. Because of them, DuckDB passed over rows with NaN.
#[test]
fn floating_point_columns_have_no_statistics_and_their_nulls_are_counted() {
    let pair = CqlType::Tuple([CqlType::Float, CqlType::Text].into());
    let columns = testing::columns([
        ("id", CqlType::Int),
        ("d", CqlType::Double),
        ("l", CqlType::list(CqlType::Float)),
        ("p", pair),
    ]);
    let mut writer = DataFileWriter::new(Vec::new(), &columns, OnEmpty::Refuse, 1 << 20).unwrap();
    for (d, f) in [(1.0_f64, 1.0_f32), (f64::NAN, f32::NAN)] {
        let (id, d, f) = (1_i32.to_be_bytes(), d.to_be_bytes(), f.to_be_bytes());
        let list = build([&f[..]]);
        let pair = build_tuple([Some(&f[..]), Some(&b"x"[..])]);
        let values = [&id[..], &d[..], &list[..], &pair[..]];
        writer.append(values.map(Some)).unwrap();
    }
    let pair = build_tuple([None, Some(&b"x"[..])]);
    writer.append([None, None, None, Some(&pair[..])]).unwrap();
    writer.append([None; 4]).unwrap();
    let (bytes, described) = writer.finish("/t/data/1.parquet".into()).unwrap();

    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
    let chunks = reader.metadata().row_group(0).columns().iter();
    let has_statistics = chunks.map(|chunk| {
        let path = chunk.column_descr().path().string();
        let has_some = chunk.statistics().is_some() || chunk.column_index_offset().is_some();
        (path, has_some)
    });
    let expected = [
        ("id", true),
        ("d", false),
        ("l.list.element", false),
        ("p._1", false),
        ("p._2", true),
    ];
    let expected = expected.map(|(path, has_some)| (path.to_owned(), has_some));
    assert_eq!(has_statistics.collect::<Vec<_>>(), expected);
    let IcebergType::Struct(parts) = &columns[3].field.ty else {
        panic!("a tuple is a struct");
    };
    let nulls = |field: &NestedField| of(&described.null_value_counts, field.id);
    assert_eq!(nulls(&columns[0].field), Some(2));
    assert_eq!(nulls(&columns[1].field), Some(2));
    assert_eq!(nulls(&parts[0]), Some(2));
    assert_eq!(nulls(&parts[1]), Some(1));
}

#[test]
fn an_upper_bound_that_cannot_be_cut_is_left_out() {
    let text = |character: &str, count: usize| character.repeat(count).into_bytes();
    let ends = [
        (text("z", 64), Some(text("z", 64))),
        // The least text of 64 bytes that is greater.
        (text("y", 65), Some([text("y", 63), text("z", 1)].concat())),
        (text("\u{10ffff}", 100_000), None),
    ];
    for (greatest, upper) in ends {
        let mut writer = writer();
        for name in [&b"a"[..], &greatest[..]] {
            writer.append([None, Some(name), None, None, None]).unwrap();
        }
        let (_, described) = writer.finish("/t/data/1.parquet".into()).unwrap();
        assert_eq!(of(&described.lower_bounds, 2), Some(b"a".to_vec()));
        assert_eq!(of(&described.upper_bounds, 2), upper);
    }
}

#[test]
fn a_file_of_many_columns_is_full_after_few_row_groups() {
    let types = (0..FILE_CHUNKS_MAX / 2).map(|at| (format!("c{at}"), CqlType::Int));
    let columns = testing::columns(types);
    // Each batch is a row group.
    let mut writer = DataFileWriter::new(Vec::new(), &columns, OnEmpty::Refuse, 1).unwrap();
    let value = 7_i32.to_be_bytes();
    while !writer.is_full() {
        assert!(writer.rows() < 1_000);
        let row = std::iter::repeat_n(Some(&value[..]), columns.len());
        writer.append(row).unwrap();
    }
    let (_, described) = writer.finish("/t/data/1.parquet".into()).unwrap();
    assert_eq!(described.split_offsets.unwrap().len(), 2);
}

#[test]
fn a_value_that_does_not_fit_names_its_column() {
    let mut writer = writer();
    let values = [Some(&b""[..]), None, None, None, None];
    let error = writer.append(values).unwrap_err().to_string();
    assert!(
        error.starts_with("column id: ") && error.contains("empty"),
        "{error}"
    );
}

fn free(_: usize) -> Result<(), ValueError> {
    Ok(())
}

#[test]
fn rows_that_do_not_come_in_the_order_of_their_keys_are_refused() {
    let row = || [None; 5];
    let mut keyed = writer();
    keyed.append_keyed(b"a", row(), &mut free).unwrap();
    keyed.append_keyed(b"b", row(), &mut free).unwrap();
    for key in [b"b", b"a"] {
        let error = keyed.append_keyed(key, row(), &mut free).unwrap_err();
        assert!(error.to_string().contains("order"), "{error}");
    }
    let (_, file, index) = keyed.finish_keyed("/t/data/1.parquet".into()).unwrap();
    assert_eq!(file.record_count, 2);
    assert_eq!(index.unwrap().last(), b"b");

    let mut mixed = writer();
    mixed.append_keyed(b"a", row(), &mut free).unwrap();
    mixed.append(row()).unwrap();
    let (_, _, index) = mixed.finish_keyed("/t/data/2.parquet".into()).unwrap();
    assert_eq!(index, None);
}
