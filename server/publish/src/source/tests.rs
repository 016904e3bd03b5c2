//! Files and tables as other engines write them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow_schema::{Field, Schema};
use ebb_model::types::UserType;
use flate2::write::GzEncoder;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::{Value as Json, json};

use super::*;
use crate::data_file::{Column, DataFileWriter};
use crate::iceberg::testing::{self, Engine, TestFile, TestManifest};
use crate::parquet_file::testing::{nested, with_children};
use crate::target::faulty::{Event, in_memory, with_event};
use crate::types::{FieldIds, OnEmpty, TypeOptions};

/// Returns a Parquet field as Iceberg's writers make it: with the field id `id`, if there is one.
fn field(name: &str, array: &ArrayRef, id: Option<i32>) -> Field {
    let field = Field::new(name, array.data_type().clone(), true);
    let id = id.map(|id| (PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string()));
    field.with_metadata(HashMap::from_iter(id))
}

/// Writes a Parquet file of these columns: name, field id, values.
pub(super) fn write(
    path: &Path,
    columns: &[(&str, Option<i32>, ArrayRef)],
    compression: Compression,
) {
    let fields = columns.iter().map(|(name, id, of)| field(name, of, *id));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.iter().map(|(.., array)| Arc::clone(array));
    let batch = RecordBatch::try_new(schema.clone(), arrays.collect()).unwrap();
    let properties = WriterProperties::builder().set_compression(compression);
    let options = ArrowWriterOptions::new()
        .with_properties(properties.build())
        .with_skip_arrow_metadata(true);
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new_with_options(file, schema, options).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn ints(values: impl IntoIterator<Item = i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

pub(super) fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// Reads the rows of a source as literals of CQL.
fn rows(source: &Source, columns: &[(&str, CqlType)]) -> Result<Vec<String>> {
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, ty)| (String::from(*name), ty.clone()))
        .collect();
    let mut all = Vec::new();
    for file in source.files() {
        let mut rows = source.rows(file, &columns)?;
        while rows.next_row()? {
            let values = rows.values().iter().zip(&columns);
            let literals = values.map(|(value, (_, ty))| match value {
                Some(value) => ty.literal(value),
                None => "null".to_owned(),
            });
            all.push(literals.collect::<Vec<_>>().join(" "));
        }
        assert_eq!(rows.bytes_read(), file.bytes());
    }
    Ok(all)
}

fn refused<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("it is not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn parquet_files_of_every_codec_are_read_by_the_names_of_their_columns() {
    let dir = tempfile::tempdir().unwrap();
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let gzip = Compression::GZIP(GzipLevel::default());
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd, gzip] {
        let paths = ["a.parquet", "b.parquet"].map(|name| dir.path().join(name));
        let a = [("k", None, ints(0..10_000)), ("v", None, ints(5..10_005))];
        write(&paths[0], &a, compression);
        let b = [("v", None, ints([8])), ("k", None, ints([7]))];
        write(&paths[1], &b, compression);
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
    let (options, mut ids) = (TypeOptions::default(), FieldIds::default());
    let column = Column {
        field: crate::types::field("at", &CqlType::Time, false, &options, None, &mut ids),
        ty: CqlType::Time,
    };
    let file = File::create(&own).unwrap();
    let mut writer = DataFileWriter::new(file, &[column], OnEmpty::Refuse, 1 << 20).unwrap();
    writer.append([Some(&day_ns.to_be_bytes()[..])]).unwrap();
    writer.finish(String::new()).unwrap();
    let source = Source::parquet(&[own]).unwrap();
    let columns = [("at".to_owned(), CqlType::Time)];
    let mut found = source.rows(&source.files()[0], &columns).unwrap();
    assert!(found.next_row().unwrap());
    assert_eq!(found.values(), [Some(day_ns.to_be_bytes().to_vec())]);

    let values: ArrayRef = Arc::new(Int64Array::from(vec![day_ns]));
    write(&other, &[("at", None, values)], Compression::SNAPPY);
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
    write(&paths[0], &[("k", None, big)], Compression::SNAPPY);
    let two = [("k", None, ints([1])), ("v", None, ints([1]))];
    write(&paths[1], &two, Compression::SNAPPY);
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
    write(&path, &columns, Compression::UNCOMPRESSED);
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
    let schema = parse_message_type("message m { required int32 k; required int96 t; }").unwrap();
    let day_ms = 86_400_000;
    // The year 1, 1970, and the year 9999.
    let moments_ms = [-719_162 * day_ms + 1, 0, 2_932_896 * day_ms + 999];
    let written = |extra_ns: i64| {
        let file = File::create(&path).unwrap();
        let mut writer =
            SerializedFileWriter::new(file, Arc::new(schema.clone()), Default::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let keys = column.typed::<parquet::data_type::Int32Type>();
        keys.write_batch(&[1, 2, 3], None, None).unwrap();
        column.close().unwrap();
        let moments = moments_ms.map(|ms: i64| {
            let ns = ms.rem_euclid(day_ms) * 1_000_000 + extra_ns;
            let day = ms.div_euclid(day_ms) + 2_440_588;
            Int96::from(vec![ns as u32, (ns >> 32) as u32, day as u32])
        });
        let mut column = group.next_column().unwrap().unwrap();
        let typed = column.typed::<Int96Type>();
        typed.write_batch(&moments, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
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
    let schema = parse_message_type("message m { required binary v; required int96 t; }").unwrap();
    // Small on the disk, and without a dictionary that would have the value once.
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .build();
    let file = File::create(&path).unwrap();
    let mut writer =
        SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let value = ByteArray::from(vec![b'x'; 1 << 20]);
    let typed = column.typed::<ByteArrayType>();
    typed.write_batch(&vec![value; ROWS], None, None).unwrap();
    column.close().unwrap();
    let days = 0..ROWS as u32;
    let moments = days.map(|day| Int96::from(vec![0, 0, day + 2_440_588]));
    let moments: Vec<Int96> = moments.collect();
    let mut column = group.next_column().unwrap().unwrap();
    let typed = column.typed::<Int96Type>();
    typed.write_batch(&moments, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();

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
    let schema = parse_message_type("message m { required binary j (JSON); }").unwrap();
    let file = File::create(&path).unwrap();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let texts = [&b"{}"[..], b"\xff{"].map(ByteArray::from);
    let typed = column.typed::<ByteArrayType>();
    typed.write_batch(&texts, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let source = Source::parquet(&[path]).unwrap();
    let error = refused(rows(&source, &[("j", CqlType::Text)]));
    assert!(error.contains("row 2: column j: "), "{error}");
    assert!(error.contains("0xff7b"), "{error}");
}

/// A table in a folder, as an engine writes it.
struct Fixture {
    dir: tempfile::TempDir,
    engine: Engine,
    metadata: Json,
}

/// The location that the table's metadata names. It differs from the folder in which the test has the table.
const LOCATION: &str = "file:/warehouse/db/t";

impl Fixture {
    fn new(engine: Engine, columns: Json) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["metadata", "data"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let metadata = json!({
            "format-version": 2, "table-uuid": "u", "location": LOCATION,
            "last-sequence-number": 9, "last-updated-ms": 1, "last-column-id": 9,
            "current-schema-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": columns}],
            "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999, "default-sort-order-id": 0, "sort-orders": [],
            "properties": {}, "refs": {}, "snapshots": [], "current-snapshot-id": -1,
        });
        Self {
            dir,
            engine,
            metadata,
        }
    }

    fn data(&self, name: &str) -> PathBuf {
        self.dir.path().join("data").join(name)
    }

    /// Adds a snapshot with the files `files` and the tag `tag`. One manifest lists its data files, and
    /// another one its delete files.
    fn commit(&mut self, tag: &str, files: &[TestFile<'_>]) {
        let snapshots = self.metadata["snapshots"].as_array_mut().unwrap();
        let id = snapshots.len() + 1;
        snapshots.push(json!({
            "snapshot-id": id, "sequence-number": id, "timestamp-ms": id, "schema-id": 0,
            "summary": {}, "manifest-list": format!("{LOCATION}/metadata/snap-{id}.avro"),
        }));
        self.metadata["current-snapshot-id"] = json!(id);
        self.metadata["refs"][tag] = json!({"snapshot-id": id, "type": "tag"});
        let folder = self.dir.path().join("metadata");
        let mut names = Vec::new();
        for is_rows in [true, false] {
            let files = files.iter().filter(|file| (file.content == 0) == is_rows);
            let files: Vec<TestFile<'_>> = files.copied().collect();
            let name = format!("{id}-{is_rows}.avro");
            fs::write(folder.join(&name), testing::manifest(self.engine, &files)).unwrap();
            names.push((format!("{LOCATION}/metadata/{name}"), i32::from(!is_rows)));
        }
        let manifests = names.iter().map(|(path, content)| TestManifest {
            path,
            content: *content,
            sequence_number: id as i64,
            partition_spec_id: 0,
        });
        let list = testing::manifest_list(self.engine, &manifests.collect::<Vec<_>>());
        fs::write(folder.join(format!("snap-{id}.avro")), list).unwrap();
        self.write_metadata(&format!("{id:05}-0f8e2e5a.metadata.json"));
    }

    fn write_metadata(&self, name: &str) {
        let path = self.dir.path().join("metadata").join(name);
        fs::write(path, self.metadata.to_string()).unwrap();
    }

    fn open(&self, tag: Option<&str>) -> Result<Source> {
        Source::table(self.dir.path(), tag)
    }
}

/// Returns the entry of a data file that the snapshot adds, for a manifest.
fn added(path: &str) -> TestFile<'_> {
    TestFile {
        status: 1,
        content: 0,
        path,
        format: "PARQUET",
        sequence_number: None,
    }
}

fn column(id: i32, name: &str, ty: impl Into<Json>) -> Json {
    json!({"id": id, "name": name, "required": false, "type": ty.into()})
}

/// Creates a table with two columns. After the first data file was written, the first column was renamed and
/// the second one was added.
fn renamed(engine: Engine) -> Fixture {
    let mut fixture = Fixture::new(
        engine,
        json!([column(1, "key", "int"), column(2, "word", "string")]),
    );
    let old = [("id", Some(1), ints([1, 2, 3]))];
    write(&fixture.data("old.parquet"), &old, Compression::SNAPPY);
    let new = [
        ("dropped", Some(7), ints([0, 0])),
        ("word", Some(2), texts(&["four", "five"])),
        ("key", Some(1), ints([4, 5])),
    ];
    write(&fixture.data("new.parquet"), &new, Compression::SNAPPY);
    fixture.commit("monday", &[added("file:/warehouse/db/t/data/old.parquet")]);
    let existing = TestFile {
        status: 0,
        sequence_number: Some(1),
        ..added("file:/warehouse/db/t/data/old.parquet")
    };
    let deleted = TestFile {
        status: 2,
        ..added("file:/warehouse/db/t/data/gone.parquet")
    };
    let new = added("file:/warehouse/db/t/data/new.parquet");
    fixture.commit("tuesday", &[existing, deleted, new]);
    fixture
}

const COLUMNS: [(&str, CqlType); 2] = [("key", CqlType::Int), ("word", CqlType::Text)];

#[test]
fn a_table_is_read_by_its_tag_and_its_columns_by_their_ids() {
    for engine in [Engine::Spark, Engine::PyIceberg] {
        let fixture = renamed(engine);
        let source = fixture.open(None).unwrap();
        assert_eq!(source.columns(), ["key", "word"]);
        let all = ["1 null", "2 null", "3 null", "4 'four'", "5 'five'"];
        assert_eq!(rows(&source, &COLUMNS).unwrap(), all, "{engine:?}");
        let tuesday = fixture.open(Some("tuesday")).unwrap();
        assert_eq!(rows(&tuesday, &COLUMNS).unwrap(), all);
        let monday = fixture.open(Some("monday")).unwrap();
        assert_eq!(rows(&monday, &COLUMNS).unwrap(), &all[..3]);
        let error = refused(fixture.open(Some("sunday")));
        assert!(error.contains("no tag \"sunday\""), "{error}");
        // The metadata of before is named in place of the folder.
        let before = fixture
            .dir
            .path()
            .join("metadata/00001-0f8e2e5a.metadata.json");
        let before = Source::table(&before, None).unwrap();
        assert_eq!(rows(&before, &COLUMNS).unwrap(), &all[..3]);
        fixture.write_metadata("00002-another.metadata.json");
        let error = refused(fixture.open(None));
        assert!(error.contains("may be the newest metadata"), "{error}");
    }
}

#[test]
fn rows_that_positional_deletes_name_are_left_out() {
    for engine in [Engine::Spark, Engine::PyIceberg] {
        let mut fixture = renamed(engine);
        let [old, new] = ["old", "new"].map(|name| format!("{LOCATION}/data/{name}.parquet"));
        let positions: ArrayRef = Arc::new(Int64Array::from(vec![1, 0, 2, 1]));
        let deletes = [
            (
                "file_path",
                Some(2_147_483_546),
                texts(&[&old, &old, &old, &new]),
            ),
            ("pos", Some(2_147_483_545), positions),
        ];
        write(
            &fixture.data("deletes.parquet"),
            &deletes,
            Compression::SNAPPY,
        );
        let at = |path, sequence_number| TestFile {
            status: 0,
            sequence_number: Some(sequence_number),
            ..added(path)
        };
        let name = format!("{LOCATION}/data/deletes.parquet");
        let deletes = TestFile {
            content: 1,
            ..at(&name, 3)
        };
        // The deletes are older than one file and newer than the other, which they belong to.
        fixture.commit("wednesday", &[at(&old, 1), at(&new, 4), deletes]);
        let source = fixture.open(Some("wednesday")).unwrap();
        let left = ["4 'four'", "5 'five'"];
        assert_eq!(rows(&source, &COLUMNS).unwrap(), left, "{engine:?}");
        fixture.commit("thursday", &[at(&old, 1), at(&new, 3), deletes]);
        let source = fixture.open(Some("thursday")).unwrap();
        assert_eq!(rows(&source, &COLUMNS).unwrap(), ["4 'four'"]);
    }
}

/// Regression: the entries of the manifest took memory as often as the list named it.
#[test]
fn a_list_that_names_a_manifest_twice_is_refused_even_if_the_names_differ() {
    let fixture = renamed(Engine::Spark);
    let list = fixture.dir.path().join("metadata/snap-2.avro");
    for again in ["", "/", "./", "../metadata/"] {
        let names = ["", again].map(|part| format!("{LOCATION}/metadata/{part}2-true.avro"));
        let manifests = names.each_ref().map(|path| TestManifest {
            path,
            content: 0,
            sequence_number: 2,
            partition_spec_id: 0,
        });
        fs::write(&list, testing::manifest_list(Engine::Spark, &manifests)).unwrap();
        let error = refused(fixture.open(None));
        let expected = format!("snap-2.avro: it names {} twice", names[1]);
        assert!(error.contains(&expected), "{error}");
    }
}

/// Regression: the deletes of such a file were applied to its first entry only, so the second one brought the
/// deleted rows back.
#[test]
fn a_data_file_that_the_manifests_of_a_snapshot_list_twice_is_refused_even_if_the_names_differ() {
    let mut fixture = renamed(Engine::Spark);
    let old = format!("{LOCATION}/data/old.parquet");
    for again in ["", "./", "../data/"] {
        let again = format!("{LOCATION}/data/{again}old.parquet");
        fixture.commit("twice", &[added(&old), added(&again)]);
        let error = refused(fixture.open(None));
        let expected = format!("its manifests list the data file {again} twice");
        assert!(error.contains(&expected), "{error}");
    }
    fixture.commit("twice", &[added(&old), added(&old)]);
    let bucket = bucket_with(fixture.dir.path(), "t");
    let error = refused(Source::bucket(&bucket, "t", None));
    assert!(error.contains("old.parquet twice"), "{error}");
}

/// A delete of a row is ignored if the file has no such row according to its manifest. If a delete
/// was ignored, and the file has more rows than its manifest gives it, the deleted row may be one
/// of these rows. So the file is refused.
#[test]
fn a_file_with_more_rows_than_its_manifest_gives_it_is_refused_if_a_delete_may_name_one_of_them() {
    let mut fixture = renamed(Engine::Spark);
    // By the manifest it has five.
    let six = [("key", Some(1), ints(0..6))];
    write(&fixture.data("old.parquet"), &six, Compression::SNAPPY);
    let old = format!("{LOCATION}/data/old.parquet");
    fixture.commit("without deletes", &[added(&old)]);
    let source = fixture.open(None).unwrap();
    assert_eq!(rows(&source, &COLUMNS[..1]).unwrap().len(), 6);
    let name = format!("{LOCATION}/data/deletes.parquet");
    let deletes = TestFile {
        content: 1,
        ..added(&name)
    };
    fixture.commit("with deletes", &[added(&old), deletes]);
    let delete = |position: i64| {
        let positions: ArrayRef = Arc::new(Int64Array::from(vec![position]));
        let columns = [
            ("file_path", None, texts(&[&old])),
            ("pos", None, positions),
        ];
        let path = fixture.data("deletes.parquet");
        write(&path, &columns, Compression::SNAPPY);
        rows(&fixture.open(None).unwrap(), &COLUMNS[..1])
    };
    assert_eq!(delete(4).unwrap(), ["0", "1", "2", "3", "5"]);
    let error = refused(delete(5));
    let expected = "old.parquet: it has more rows than the table's manifest gives it";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn what_a_reader_would_have_to_ignore_is_refused_by_its_name() {
    let other = |content, format| TestFile {
        content,
        format,
        ..added("file:/warehouse/db/t/data/other")
    };
    for (file, what) in [
        (other(2, "PARQUET"), "equality deletes"),
        (other(1, "PUFFIN"), "deletion vectors"),
        (other(1, "AVRO"), "deletes of the format AVRO"),
        (other(0, "ORC"), "data files of the format ORC"),
    ] {
        let mut fixture = renamed(Engine::Spark);
        fixture.commit("x", &[added("file:/warehouse/db/t/data/old.parquet"), file]);
        let error = refused(fixture.open(None));
        assert!(error.contains(what), "{error}");
        assert!(error.contains("data/other"), "{error}");
    }
    let mut fixture = renamed(Engine::Spark);
    fixture.commit("x", &[added("s3://bucket/old.parquet")]);
    let error = refused(fixture.open(None));
    assert!(error.contains("s3://bucket/old.parquet"), "{error}");
}

#[test]
fn a_column_that_a_file_lacks_and_that_is_not_null_is_refused() {
    let refused_with = |change: &dyn Fn(&mut Json)| {
        let mut fixture = renamed(Engine::Spark);
        change(&mut fixture.metadata);
        fixture.write_metadata("00003-0f8e2e5a.metadata.json");
        let source = fixture.open(None).unwrap();
        assert_eq!(rows(&source, &COLUMNS[..1]).unwrap().len(), 5);
        refused(rows(&source, &COLUMNS))
    };
    let error = refused_with(&|metadata| {
        let word =
            json!({"name": "word", "transform": "identity", "source-id": 2, "field-id": 1000});
        metadata["partition-specs"][0]["fields"] = json!([word]);
    });
    assert!(
        error.contains("old.parquet: it lacks column word"),
        "{error}"
    );
    assert!(error.contains("partition"), "{error}");
    let error = refused_with(&|metadata| {
        metadata["schemas"][0]["fields"][1]["initial-default"] = json!("?");
    });
    assert!(error.contains("has a default"), "{error}");
    let error = refused_with(&|metadata| {
        metadata["schemas"][0]["fields"][1]["required"] = json!(true);
    });
    let told = "old.parquet: it lacks column word, which is required";
    assert!(error.contains(told), "{error}");

    let fixture = renamed(Engine::Spark);
    let old = [("key", None, ints([1]))];
    write(&fixture.data("old.parquet"), &old, Compression::SNAPPY);
    let error = refused(rows(&fixture.open(None).unwrap(), &COLUMNS));
    assert!(error.contains("column key has no field id"), "{error}");
}

/// Returns an array of structs with two texts each. `a` and `b` are the values of the two fields, `names`
/// their names and field ids.
fn pairs(names: [(&str, i32); 2], a: &[&str], b: &[&str]) -> ArrayRef {
    let parts = [texts(a), texts(b)];
    let parts = parts.into_iter().zip(names).map(|(part, (name, id))| {
        let field = field(name, &part, Some(id));
        (Arc::new(field), part)
    });
    Arc::new(StructArray::from(parts.collect::<Vec<_>>()))
}

#[test]
fn fields_inside_of_a_column_are_found_by_their_ids_too() {
    let fields = json!([
        column(4, "city", "string"),
        column(3, "street", "string"),
        column(6, "zip", "string")
    ]);
    let place = json!({"type": "struct", "fields": fields});
    let list =
        json!({"type": "list", "element-id": 7, "element-required": false, "element": place});
    let columns = json!([column(1, "home", place), column(2, "all", list)]);
    let mut fixture = Fixture::new(Engine::Spark, columns);
    // Street and city had other names, another order, and no zip.
    let places = || pairs([("street", 3), ("town", 4)], &["A", "B"], &["Ulm", "Bonn"]);
    let element = Arc::new(field("element", &places(), Some(7)));
    let offsets = arrow_buffer::OffsetBuffer::new(vec![0, 0, 2].into());
    let all: ArrayRef = Arc::new(ListArray::new(element, offsets, places(), None));
    let old = [("home", Some(1), places()), ("all", Some(2), all)];
    write(&fixture.data("old.parquet"), &old, Compression::SNAPPY);
    fixture.commit("x", &[added("file:/warehouse/db/t/data/old.parquet")]);
    let fields = ["street", "city", "zip"].map(|name| (name.into(), CqlType::Text));
    let place = CqlType::udt(Arc::new(UserType::new("ks", "place", fields).unwrap())).freeze();
    let columns = [("home", place.clone()), ("all", CqlType::list(place))];
    let read = rows(&fixture.open(None).unwrap(), &columns).unwrap();
    let (a, b) = (
        "{street: 'A', city: 'Ulm', zip: null}",
        "{street: 'B', city: 'Bonn', zip: null}",
    );
    assert_eq!(read, [format!("{a} []"), format!("{b} [{a}, {b}]")]);

    fixture.metadata["schemas"][0]["fields"][0]["type"]["fields"][2]["initial-default"] =
        json!("?");
    fixture.write_metadata("00002-0f8e2e5a.metadata.json");
    let error = refused(rows(&fixture.open(None).unwrap(), &columns));
    assert!(error.contains("field zip, which has a default"), "{error}");

    let zip = &mut fixture.metadata["schemas"][0]["fields"][0]["type"]["fields"][2];
    *zip = column(6, "zip", "string");
    zip["required"] = json!(true);
    fixture.write_metadata("00003-0f8e2e5a.metadata.json");
    let error = refused(rows(&fixture.open(None).unwrap(), &columns));
    assert!(error.contains("field zip, which is required"), "{error}");
}

#[test]
fn a_table_without_a_snapshot_has_no_rows() {
    let fixture = Fixture::new(Engine::Spark, json!([column(1, "key", "int")]));
    fixture.write_metadata("v1.metadata.json");
    let source = fixture.open(None).unwrap();
    assert_eq!(source.columns(), ["key"]);
    assert!(source.files().is_empty());
    let error = refused(Source::table(&fixture.dir.path().join("data"), None));
    assert!(error.contains("metadata"), "{error}");
}

#[test]
fn a_null_in_a_collection_is_refused_with_its_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.append_value([Some("a"), Some("a")]);
    lists.append_value([Some("b"), None]);
    let lists: ArrayRef = Arc::new(lists.finish());
    write(&path, &[("tags", None, lists)], Compression::SNAPPY);
    let source = Source::parquet(&[path]).unwrap();
    let error = refused(rows(&source, &[("tags", CqlType::set(CqlType::Text))]));
    assert!(error.contains("row 2: column tags: "), "{error}");
    assert!(error.contains("null"), "{error}");
}

#[test]
fn the_metadata_of_a_table_that_was_dropped_in_the_same_place_is_refused() {
    let mut fixture = renamed(Engine::PyIceberg);
    // The versions of the new table begin again, and the dropped one has more.
    let name = "00001-77aa.metadata.json";
    fixture.metadata["table-uuid"] = json!("another");
    fixture.metadata["last-updated-ms"] = json!(2);
    fixture.write_metadata(name);
    let error = refused(fixture.open(None));
    let told = "00002-0f8e2e5a.metadata.json: it describes another table than ";
    assert!(error.contains(told) && error.contains(name), "{error}");
    let path = fixture.dir.path().join("metadata").join(name);
    assert!(Source::table(&path, None).is_ok());
    // A table that was dropped before, a second writer of the first version, and a table without an identity.
    for (uuid, updated_ms) in [(json!("another"), 0), (json!("u"), 2), (json!(null), 2)] {
        fixture.metadata["table-uuid"] = uuid;
        fixture.metadata["last-updated-ms"] = json!(updated_ms);
        fixture.write_metadata(name);
        assert!(fixture.open(None).is_ok(), "{}", fixture.metadata);
    }
}

#[test]
fn parquet_files_of_a_table_are_refused_by_the_name_of_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let parquet = |folder: &str| {
        fs::create_dir_all(path(folder)).unwrap();
        let file = path(folder).join("a.parquet");
        write(&file, &[("k", None, ints([1]))], Compression::SNAPPY);
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

/// Regression: a single file of a table, or the folder of a partition of it, was loaded from a
/// bucket, although both are refused on the local machine. Rows that the table had deleted came
/// back.
#[test]
fn files_and_folders_below_a_table_in_a_bucket_are_refused_by_the_name_of_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    write(&path, &[("k", None, ints([1]))], Compression::SNAPPY);
    let bytes = fs::read(&path).unwrap();
    for (format, table, folder, mark) in [
        ("Delta", "in/t", "in/t", "in/t/_delta_log/0.json"),
        ("Delta", "t", "t/day=1/hour=2", "t/_delta_log/0.json"),
        ("Hudi", "in/t", "in/t", "in/t/.hoodie/hoodie.properties"),
        ("Hudi", "t", "t/day=1", "t/.hoodie/hoodie.properties"),
        (
            "Iceberg",
            "in/t",
            "in/t/data",
            "in/t/metadata/v1.metadata.json",
        ),
        (
            "Iceberg",
            "t",
            "t/data/day=1",
            "t/metadata/v2.metadata.json.gz",
        ),
        // The root of the bucket is the table.
        ("Delta", "", "", "_delta_log/0.json"),
        ("Hudi", "", "day=1", ".hoodie/hoodie.properties"),
        ("Iceberg", "", "data", "metadata/v1.metadata.json"),
    ] {
        let lake = in_memory("s3://lake").unwrap();
        let file = format!("{folder}/a.parquet");
        let file = file.trim_start_matches('/');
        lake.replace(file, bytes.clone().into()).unwrap();
        lake.replace(mark, "{}".into()).unwrap();
        for key in [file, folder] {
            let error = refused(Source::bucket(&lake, key, None));
            let expected =
                format!("s3://lake/{key}: it belongs to the {format} table s3://lake/{table}, ");
            assert!(error.starts_with(&expected), "{error}");
        }
        let absent = format!("{folder}/absent");
        let error = refused(Source::bucket(&lake, absent.trim_start_matches('/'), None));
        assert!(error.starts_with("cannot read s3://lake/"), "{error}");
        lake.remove(mark).unwrap();
        for key in [file, folder] {
            assert!(Source::bucket(&lake, key, None).is_ok(), "{key} {mark}");
        }
    }
}

#[test]
fn files_in_a_bucket_are_loaded_beside_tables_and_keys_that_only_resemble_those_of_tables() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    write(&path, &[("k", None, ints([1]))], Compression::SNAPPY);
    let lake = in_memory("s3://lake").unwrap();
    let files = [
        "in/x/a.parquet",
        "in/data/a.parquet",
        "in/database/a.parquet",
    ];
    for file in files {
        lake.replace(file, fs::read(&path).unwrap().into()).unwrap();
    }
    for key in [
        // An object in place of a folder, and folders whose names are longer.
        "in/x/_delta_log",
        "in/x/_delta_log2/0.json",
        "in/.hoodie_old/hoodie.properties",
        // A table beside the file.
        "in/delta/_delta_log/0.json",
        // A folder with metadata of other programs, and an Iceberg table that is called `metadata`.
        "in/metadata/notes.json",
        "in/metadata/metadata/v1.metadata.json",
        // Iceberg tables whose folder for data is another one.
        "in/x/metadata/v1.metadata.json",
        "metadata/v1.metadata.json",
    ] {
        lake.replace(key, "{}".into()).unwrap();
    }
    for file in files {
        assert!(Source::bucket(&lake, file, None).is_ok(), "{file}");
    }
}

#[test]
fn a_file_in_a_bucket_takes_two_requests_for_each_folder_above_it_and_one_for_itself() {
    let lake = in_memory("s3://lake").unwrap();
    lake.replace("a/b/c.parquet", "".into()).unwrap();
    // The folders are `a/b`, `a` and the root.
    let (limited, calls) = with_event(&lake, 7, Event::Kill).unwrap();
    bucket::find(&limited, "a/b/c.parquet").unwrap();
    assert!(!calls.met_event());
    let (limited, _) = with_event(&lake, 6, Event::Kill).unwrap();
    let error = refused(bucket::find(&limited, "a/b/c.parquet"));
    assert!(error.starts_with("listing s3://lake/"), "{error}");
}

/// Returns a bucket in memory with copies of all files below a folder. Their keys begin with `prefix`.
fn bucket_with(folder: &Path, prefix: &str) -> Target {
    let bucket = in_memory("s3://lake").unwrap();
    put_all(&bucket, folder, prefix);
    bucket
}

fn put_all(bucket: &Target, folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let key = format!("{prefix}/{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            put_all(bucket, &path, &key);
        } else {
            bucket
                .replace(&key, fs::read(&path).unwrap().into())
                .unwrap();
        }
    }
}

#[test]
fn a_table_in_a_bucket_is_read_as_its_folder_is() {
    for engine in [Engine::Spark, Engine::PyIceberg] {
        let mut fixture = renamed(engine);
        let [old, new] = ["old", "new"].map(|name| format!("{LOCATION}/data/{name}.parquet"));
        let positions: ArrayRef = Arc::new(Int64Array::from(vec![0, 2]));
        let deletes = [
            ("file_path", Some(2_147_483_546), texts(&[&old, &old])),
            ("pos", Some(2_147_483_545), positions),
        ];
        let path = fixture.data("deletes.parquet");
        write(&path, &deletes, Compression::SNAPPY);
        let name = format!("{LOCATION}/data/deletes.parquet");
        let deletes = TestFile {
            content: 1,
            ..added(&name)
        };
        fixture.commit("wednesday", &[added(&old), added(&new), deletes]);
        let bucket = bucket_with(fixture.dir.path(), "db/t");
        for tag in [None, Some("monday"), Some("wednesday")] {
            let local = rows(&fixture.open(tag).unwrap(), &COLUMNS).unwrap();
            let source = Source::bucket(&bucket, "db/t", tag).unwrap();
            assert_eq!(
                rows(&source, &COLUMNS).unwrap(),
                local,
                "{engine:?} {tag:?}"
            );
        }
        let before = "db/t/metadata/00001-0f8e2e5a.metadata.json";
        let source = Source::bucket(&bucket, before, None).unwrap();
        assert_eq!(rows(&source, &COLUMNS).unwrap().len(), 3);
        let error = refused(Source::bucket(&bucket, "db/t", Some("sunday")));
        assert!(error.contains("no tag \"sunday\""), "{error}");
        bucket.remove("db/t/data/new.parquet").unwrap();
        let error = refused(Source::bucket(&bucket, "db/t", None));
        let absent = "cannot read s3://lake/db/t/data/new.parquet";
        assert!(error.starts_with(absent), "{error}");
    }
}

/// Regression: a compressed metadata file with the name of old versions of Iceberg was not found in a bucket.
#[test]
fn a_table_is_read_by_each_name_of_a_compressed_metadata_file() {
    let fixture = renamed(Engine::Spark);
    let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::default());
    let metadata = fixture.metadata.to_string();
    packed.write_all(metadata.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let folder = fixture.dir.path().join("metadata");
    for name in ["v7.metadata.json.gz", "v7.gz.metadata.json"] {
        fs::write(folder.join(name), &packed).unwrap();
        let local = Source::table(&folder.join(name), None).unwrap();
        let lake = bucket_with(fixture.dir.path(), "t");
        let remote = Source::bucket(&lake, &format!("t/metadata/{name}"), None).unwrap();
        let found = rows(&remote, &COLUMNS).unwrap();
        assert_eq!(found.len(), 5, "{name}");
        assert_eq!(found, rows(&local, &COLUMNS).unwrap(), "{name}");
    }
}

#[test]
fn parquet_files_in_a_bucket_are_read_by_their_key_or_their_folder() {
    let dir = tempfile::tempdir().unwrap();
    for (name, first) in [("b.parquet", 3), ("a.PARQUET", 1), ("c x=%20.parquet", 5)] {
        let path = dir.path().join(name);
        let columns = [("k", None, ints(first..first + 2))];
        write(&path, &columns, Compression::SNAPPY);
    }
    fs::write(dir.path().join("_SUCCESS"), "").unwrap();
    let bucket = bucket_with(dir.path(), "out");
    let keys = |key: &str| {
        let source = Source::bucket(&bucket, key, None)?;
        rows(&source, &[("k", CqlType::Int)])
    };
    assert_eq!(keys("out/b.parquet").unwrap(), ["3", "4"]);
    let two = keys("out").unwrap();
    assert_eq!(two[..4], ["1", "2", "3", "4"]);
    let error = refused(Source::bucket(&bucket, "out", Some("monday")));
    assert!(
        error.contains("s3://lake/out: it is no Iceberg table"),
        "{error}"
    );
    let error = refused(Source::bucket(&bucket, "absent.parquet", None));
    assert!(
        error.contains("cannot read s3://lake/absent.parquet"),
        "{error}"
    );
    let error = refused(Source::bucket(&bucket, "", None));
    assert!(error.contains("it has the folder out"), "{error}");
    bucket.replace("out/notes.txt", "".into()).unwrap();
    let error = refused(keys("out"));
    assert!(error.contains("it has the file notes.txt"), "{error}");
}
