//! Parquet files on this machine.

use std::fs;

use arrow_array::Int64Array;
use arrow_array::builder::{ListBuilder, StringBuilder};
use parquet::basic::{GzipLevel, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int96, Int96Type};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::*;
use crate::data_file::{self, DataFileWriter};
use crate::parquet_file::testing::{nested, with_children};
use crate::types::OnEmpty;

/// Writes a Parquet file with one row group, whose columns `columns` writes by [`put`]. The schema is in Parquet's
/// own language, because Arrow has no counterpart for some of its types.
fn write_raw(
    path: &Path,
    schema: &str,
    properties: WriterProperties,
    columns: impl FnOnce(&mut SerializedRowGroupWriter<'_, File>),
) {
    let schema = parse_message_type(schema).unwrap();
    let file = File::create(path).unwrap();
    let mut writer =
        SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    columns(&mut group);
    group.close().unwrap();
    writer.close().unwrap();
}

/// Writes the next column of a row group, without nulls.
fn put<T: DataType>(group: &mut SerializedRowGroupWriter<'_, File>, values: &[T::T]) {
    let mut column = group.next_column().unwrap().unwrap();
    let typed = column.typed::<T>();
    typed.write_batch(values, None, None).unwrap();
    column.close().unwrap();
}

#[test]
fn parquet_files_of_every_codec_are_read_by_the_names_of_their_columns() {
    let dir = tempfile::tempdir().unwrap();
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let gzip = Compression::GZIP(GzipLevel::default());
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd, gzip] {
        let paths = ["a.parquet", "b.parquet"].map(|name| dir.path().join(name));
        let a = [("k", None, ints(0..10_000)), ("v", None, ints(5..10_005))];
        write_compressed(&paths[0], &a, compression);
        let b = [("v", None, ints([8])), ("k", None, ints([7]))];
        write_compressed(&paths[1], &b, compression);
        let source = Source::parquet(&paths).unwrap();
        assert_eq!(source.columns(), ["k", "v"]);
        let read = rows(&source, &[("v", CqlType::Int), ("k", CqlType::Bigint)]).unwrap();
        assert_eq!(read.len(), 10_001);
        assert_eq!((&read[9_999][..], &read[10_000][..]), ("10004 9999", "8 7"));
        let read = rows(&source, &[("k", CqlType::Int)]).unwrap();
        assert_eq!(read[10_000], "7");
    }
}

#[test]
fn a_time_beyond_a_day_is_read_from_files_of_ebb_and_refused_in_others() {
    let dir = tempfile::tempdir().unwrap();
    let [own, other] = ["own.parquet", "other.parquet"].map(|name| dir.path().join(name));
    let day_ns = 86_400_000_000_000_i64;
    let at = data_file::testing::columns([("at", CqlType::Time)]);
    let file = File::create(&own).unwrap();
    let mut writer = DataFileWriter::new(file, &at, OnEmpty::Refuse, 1 << 20).unwrap();
    writer.append([Some(&day_ns.to_be_bytes()[..])]).unwrap();
    writer.finish(String::new()).unwrap();
    let source = Source::parquet(&[own]).unwrap();
    let columns = [("at".to_owned(), CqlType::Time)];
    let mut found = source.rows(&source.files()[0], &columns).unwrap();
    assert!(found.next_row().unwrap());
    assert_eq!(found.values(), [Some(day_ns.to_be_bytes().to_vec())]);

    let values: ArrayRef = Arc::new(Int64Array::from(vec![day_ns]));
    write(&other, &[("at", None, values)]);
    let source = Source::parquet(&[other]).unwrap();
    let error = refused(rows(&source, &[("at", CqlType::Time)]));
    assert!(
        error.contains("row 1: column at: 86400000000000 ns"),
        "{error}"
    );
}

#[test]
fn a_file_with_other_columns_and_a_value_that_does_not_fit_are_refused_by_file_and_row() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a.parquet", "b.parquet", "c.parquet"].map(|name| dir.path().join(name));
    let big: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 1 << 40]));
    write(&paths[0], &[("k", None, big)]);
    let two = [("k", None, ints([1])), ("v", None, ints([1]))];
    write(&paths[1], &two);
    fs::write(&paths[2], "PAR1, and nothing of it").unwrap();
    let wanted = [("k", CqlType::Int)];

    let source = Source::parquet(&paths[..1]).unwrap();
    let error = refused(rows(&source, &wanted));
    assert!(error.contains("a.parquet: row 3: column k: "), "{error}");
    assert!(error.contains("1099511627776"), "{error}");
    let source = Source::parquet(&[paths[1].clone(), paths[0].clone()]).unwrap();
    let error = refused(rows(&source, &wanted));
    assert!(error.contains("a.parquet: it has no column v"), "{error}");
    let source = Source::parquet(&paths[..2]).unwrap();
    let error = refused(rows(&source, &[("k", CqlType::Bigint)]));
    assert!(error.contains("b.parquet: it has a column v"), "{error}");
    let error = refused(Source::parquet(&paths[2..]));
    assert!(error.contains("c.parquet: "), "{error}");
    let error = refused(Source::parquet(&[dir.path().join("d.parquet")]));
    assert!(
        error.starts_with("cannot read ") && error.contains("d.parquet"),
        "{error}"
    );
}

#[test]
fn a_file_with_a_flipped_bit_or_without_its_end_is_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let columns = [
        ("k", None, ints(0..3)),
        ("v", None, texts(&["a", "b", "b"])),
    ];
    write_compressed(&path, &columns, Compression::UNCOMPRESSED);
    let whole = fs::read(&path).unwrap();
    let wanted = [("k", CqlType::Int), ("v", CqlType::Text)];
    let wanted = wanted.map(|(name, ty)| (name.to_owned(), ty));
    let read = |bytes: &[u8]| -> Result<()> {
        fs::write(&path, bytes).unwrap();
        let source = Source::parquet(std::slice::from_ref(&path))?;
        let mut rows = source.rows(&source.files()[0], &wanted)?;
        while rows.next_row()? {}
        Ok(())
    };
    read(&whole).unwrap();
    for at in 0..whole.len() {
        // The lowest bit is the sign of most numbers in the metadata.
        for bit in [0, at % 8] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            if let Err(error) = read(&flipped) {
                let error = error.to_string();
                assert!(error.contains("a.parquet: "), "{error}");
            }
        }
        assert!(read(&whole[..at]).is_err(), "{at}");
    }
}

#[test]
fn a_schema_that_is_nested_too_deeply_is_refused_before_the_library_reads_it() {
    // The stack of the library overflowed, which ended the process.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep.parquet");
    fs::write(&path, nested(100)).unwrap();
    let source = Source::parquet(std::slice::from_ref(&path)).unwrap();
    assert_eq!(source.columns(), ["g"]);
    for (groups, depth) in [(127, "128"), (100_000, "100001")] {
        fs::write(&path, nested(groups)).unwrap();
        let error = refused(Source::parquet(std::slice::from_ref(&path)));
        let expected = format!("deep.parquet: its schema is nested {depth} levels deep");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn a_group_with_a_negative_number_of_children_or_more_than_the_schema_has_elements_is_refused() {
    // The library reserved memory for two thousand million children.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wide.parquet");
    fs::write(&path, with_children(1, b"\xfe\xff\xff\xff\x0f")).unwrap();
    let error = refused(Source::parquet(std::slice::from_ref(&path)));
    let expected = "its schema has a group of 2147483647 children, and 3 elements in all";
    assert!(error.contains(expected), "{error}");
    fs::write(&path, with_children(1, b"\x01")).unwrap();
    let error = refused(Source::parquet(std::slice::from_ref(&path)));
    let expected = "wide.parquet: the schema in its footer is damaged";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn timestamps_of_96_bits_are_exact() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spark.parquet");
    let schema = "message m { required int32 k; required int96 t; }";
    let day_ms = 86_400_000;
    // The year 1, 1970, and the year 9999.
    let moments_ms = [-719_162 * day_ms + 1, 0, 2_932_896 * day_ms + 999];
    let written = |extra_ns: i64| {
        let moments = moments_ms.map(|ms: i64| {
            let ns = ms.rem_euclid(day_ms) * 1_000_000 + extra_ns;
            let day = ms.div_euclid(day_ms) + 2_440_588;
            Int96::from(vec![ns as u32, (ns >> 32) as u32, day as u32])
        });
        write_raw(&path, schema, WriterProperties::default(), |group| {
            put::<Int32Type>(group, &[1, 2, 3]);
            put::<Int96Type>(group, &moments);
        });
    };
    let columns = [("t", CqlType::Timestamp), ("k", CqlType::Int)];
    written(0);
    let source = Source::parquet(std::slice::from_ref(&path)).unwrap();
    let expected = [0, 1, 2].map(|at| {
        let moment = CqlType::Timestamp.literal(&moments_ms[at].to_be_bytes());
        format!("{moment} {}", at + 1)
    });
    assert_eq!(rows(&source, &columns).unwrap(), expected);
    written(500);
    let source = Source::parquet(&[path]).unwrap();
    let error = refused(rows(&source, &columns));
    assert!(error.contains("row 1: "), "{error}");
    // Only what is read is looked at.
    assert_eq!(rows(&source, &columns[1..]).unwrap(), ["1", "2", "3"]);
}

/// Regression: a file with more than 8 KiB in a row, and more than 8 MiB in all, was refused. The
/// second reader, of the timestamps alone, had more rows in a batch than the first reader, so the
/// columns seemed to have different lengths.
#[test]
fn timestamps_of_96_bits_beside_large_values_are_read() {
    const ROWS: usize = 12;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spark.parquet");
    let schema = "message m { required binary v; required int96 t; }";
    // Small on the disk, and without a dictionary that would have the value once.
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .build();
    let value = ByteArray::from(vec![b'x'; 1 << 20]);
    let days = 0..ROWS as u32;
    let moments = days.map(|day| Int96::from(vec![0, 0, day + 2_440_588]));
    let moments: Vec<Int96> = moments.collect();
    write_raw(&path, schema, properties, |group| {
        put::<ByteArrayType>(group, &vec![value; ROWS]);
        put::<Int96Type>(group, &moments);
    });

    let source = Source::parquet(&[path]).unwrap();
    let columns = [("v", CqlType::Blob), ("t", CqlType::Timestamp)];
    let columns = columns.map(|(name, ty)| (name.to_owned(), ty));
    let mut read = source.rows(&source.files()[0], &columns).unwrap();
    for day in 0..ROWS as i64 {
        assert!(read.next_row().unwrap());
        let [Some(value), Some(moment)] = read.values() else {
            panic!("a null on day {day}");
        };
        assert_eq!(value.len(), 1 << 20);
        assert_eq!(moment[..], (day * 86_400_000).to_be_bytes());
    }
    assert!(!read.next_row().unwrap());
}

/// A Parquet file that pyarrow wrote. Its 1024 rows have the same blob, of 2 MiB and one byte, which the
/// dictionary of the column contains once.
const SHARED_BLOB: &[u8] = b"\
    PAR1\x15\x04\x15\x8a\x80\x80\x02\x15\xba\x01L\x15\x02\x15\0\x12\0\0(\xb5/\xfd\xa0\x05\0 \
    \0l\0\0(\x01\0 \0x\x01\0\xf8\xff9\xd0\x02\x02\0\x10x\x02\0\x10x\x02\0\x10x\x02\0\x10x\
    \x02\0\x10x\x02\0\x10x\x02\0\x10x\x02\0\x10x\x02\0\x10x\x02\0\x10x\x02\0\x10x\x02\0\x10x\
    \x02\0\x10x\x02\0\x10x\x02\0\x10x)\0\0xxxxx\x15\0\x15\x16\x15(,\x15\x80\x10\x15\x10\x15\
    \x06\x15\x06\x1c\0\0\0(\xb5/\xfd \x0bY\0\0\x03\0\0\0\x80\x10\x01\x01\x80\x10\0\x15\x04\
    \x19,5\0\x18\x06schema\x15\x02\0\x15\x0c%\x02\x18\x01v\0\x16\x80\x10\x19\x1c\x19\x1c&\0\
    \x1c\x15\x0c\x195\0\x06\x10\x19\x18\x01v\x15\x0c\x16\x80\x10\x16\xec\x80\x80\x02\x16\xae\
    \x02&\xe6\x01&\x08),\x15\x04\x15\0\x15\x02\0\x15\0\x15\x10\x15\x02\0<\x16\x80\x90\x80\
    \x80\x10\x19\x06\x19&\0\x80\x10\0\0\0\x16\xec\x80\x80\x02\x16\x80\x10&\x08\x16\xae\x02\0\
    ( parquet-cpp-arrow version 26.0.1\x19\x1c\x1c\0\0\0\x97\0\0\0PAR1";

#[test]
fn rows_that_share_a_large_value_of_a_dictionary_are_read() {
    // A copy for each row of a batch is more than 32 bits can address: "index overflow decoding byte array".
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shared.parquet");
    fs::write(&path, SHARED_BLOB).unwrap();
    let source = Source::parquet(&[path]).unwrap();
    let columns = [("v".to_owned(), CqlType::Blob)];
    let mut shared = source.rows(&source.files()[0], &columns).unwrap();
    // The first row is read together with the others, which are a batch.
    assert!(shared.next_row().unwrap());
    let value = shared.values()[0].as_deref().unwrap();
    assert_eq!((value.len(), value.last()), ((2 << 20) + 1, Some(&b'x')));
}

#[test]
fn a_text_of_json_that_is_no_text_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("json.parquet");
    let schema = "message m { required binary j (JSON); }";
    let texts = [&b"{}"[..], b"\xff{"].map(ByteArray::from);
    write_raw(&path, schema, WriterProperties::default(), |group| {
        put::<ByteArrayType>(group, &texts);
    });
    let source = Source::parquet(&[path]).unwrap();
    let error = refused(rows(&source, &[("j", CqlType::Text)]));
    assert!(error.contains("row 2: column j: "), "{error}");
    assert!(error.contains("0xff7b"), "{error}");
}

#[test]
fn a_null_in_a_collection_is_refused_with_its_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.append_value([Some("a"), Some("a")]);
    lists.append_value([Some("b"), None]);
    let lists: ArrayRef = Arc::new(lists.finish());
    write(&path, &[("tags", None, lists)]);
    let source = Source::parquet(&[path]).unwrap();
    let error = refused(rows(&source, &[("tags", CqlType::set(CqlType::Text))]));
    assert!(error.contains("row 2: column tags: "), "{error}");
    assert!(error.contains("null"), "{error}");
}

#[test]
fn parquet_files_of_a_table_are_refused_by_the_name_of_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let parquet = |folder: &str| {
        fs::create_dir_all(path(folder)).unwrap();
        let file = path(folder).join("a.parquet");
        write(&file, &[("k", None, ints([1]))]);
        file
    };
    for (table, folder, mark) in [
        ("Delta table", "delta", "delta/_delta_log/0.json"),
        ("Delta table", "delta/day=1", "delta/_delta_log/1.json"),
        ("Hudi table", "hudi", "hudi/.hoodie/hoodie.properties"),
        ("Iceberg table", "t/data", "t/metadata/v1.metadata.json"),
        (
            "Iceberg table",
            "t/data/day=1",
            "t/metadata/v2.metadata.json",
        ),
    ] {
        fs::create_dir_all(path(mark).parent().unwrap()).unwrap();
        fs::write(path(mark), "{}").unwrap();
        let error = refused(Source::parquet(&[parquet(folder)]));
        let root = dir.path().canonicalize().unwrap();
        let told = format!("a.parquet: it belongs to the {table} {}", root.display());
        assert!(error.contains(&told), "{error}");
    }
    // A link to the file of a table.
    std::os::unix::fs::symlink(path("delta/a.parquet"), path("link.parquet")).unwrap();
    let error = refused(Source::parquet(&[path("link.parquet")]));
    assert!(error.contains("link.parquet: it belongs to "), "{error}");
    // Folders beside those of tables, and one that is only called as such a folder.
    let [x, data] = ["x", "x/data"].map(parquet);
    let beside = path("delta/../x/a.parquet");
    assert!(Source::parquet(&[x, data, beside]).is_ok());
}
