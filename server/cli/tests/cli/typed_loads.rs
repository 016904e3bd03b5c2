//! Loading Parquet files and Iceberg tables into tables that CQL made.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

use ebb_model::types::CqlType;
use ebb_publish::commit::{Base, Origin, Publication, PublishedTable, Rights, Stamp};
use ebb_publish::data_file::{Column, DataFileWriter};
use ebb_publish::iceberg::manifest::DataFile;
use ebb_publish::target::Target;
use ebb_publish::types::{FieldIds, OnEmpty, TypeOptions, field};
use ebb_test_support::cases::parse_cases;

use crate::cql_tables::with_cql_table;
use crate::place::Place;

/// Returns the columns of the table `app.t`. `name` is the name of the second one.
fn columns(name: &str) -> Vec<Column> {
    let mut ids = FieldIds::default();
    let columns = [("k", CqlType::Int), (name, CqlType::Text)];
    let column = |(name, ty): (&str, CqlType)| Column {
        field: field(name, &ty, false, &TypeOptions::default(), None, &mut ids),
        ty,
    };
    columns.map(column).into()
}

type Row<'r> = (Option<i32>, Option<&'r str>);

/// Writes rows to a Parquet file. `name` is the name of its second column.
fn write<W: Write + Send>(sink: W, path: &str, name: &str, rows: &[Row<'_>]) -> (W, DataFile) {
    let mut writer = DataFileWriter::new(sink, &columns(name), OnEmpty::Refuse, 1 << 20).unwrap();
    for (key, value) in rows {
        let key = key.map(i32::to_be_bytes);
        let values = [key.as_ref().map(|key| &key[..]), value.map(str::as_bytes)];
        writer.append(values).unwrap();
    }
    writer.finish(path.to_owned()).unwrap()
}

fn parquet(place: &Place, path: &str, name: &str, rows: &[Row<'_>]) {
    let file = fs::File::create(place.path(path)).unwrap();
    write(file, path, name, rows);
}

/// Publishes `rows` with a tag, as the Iceberg table `t` in the folder `lake`. They replace the
/// rows of earlier publications.
fn publish(place: &Place, tag: &str, number: i64, rows: &[Row<'_>]) {
    let target = Target::folder(&place.path("lake")).unwrap();
    let object = format!("t/data/{number}.parquet");
    let upload = target.upload(&object).unwrap();
    let (upload, file) = write(upload, &target.url(&object), "v", rows);
    upload.complete().unwrap();
    let publication = Publication {
        origin: Origin {
            database_id: "database".to_owned(),
            table_id: "table".to_owned(),
            snapshot: tag.to_owned(),
            sequence_number: number as u64,
            read_time_s: 1,
        },
        columns: columns("v")
            .into_iter()
            .map(|column| column.field)
            .collect(),
        last_column_id: 2,
        properties: BTreeMap::new(),
        base: Base::Replaced,
        files: vec![file],
        deletes: Vec::new(),
        rights: Rights {
            own_epochs: (0..number).map(|number| number.to_string()).collect(),
            ..Rights::default()
        },
        moves_main: true,
        retention: None,
        swept: None,
        entries: BTreeMap::new(),
    };
    let stamp = Stamp {
        now_ms: number,
        snapshot_id: number,
        table_uuid: "uuid".to_owned(),
        epoch: number.to_string(),
    };
    let table = PublishedTable::open(&target, "t").unwrap();
    assert!(table.commit(&publication, &stamp).unwrap());
}

/// Returns the rows of the table as JSON, ascending.
fn rows(place: &Place) -> Vec<String> {
    let select = "run select --columns k,v --table app.t --output rows.jsonl";
    place.ebb(select).ok();
    let mut rows: Vec<String> = place
        .read("rows.jsonl")
        .lines()
        .map(str::to_owned)
        .collect();
    fs::remove_file(place.path("rows.jsonl")).unwrap();
    rows.sort();
    rows
}

fn row(key: i32, value: &str) -> String {
    format!("{{\"k\":{key},\"v\":\"{value}\"}}")
}

#[test]
fn options_of_text_and_paths_of_both_kinds_are_refused() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    place.write("x.parquet", "PAR1");
    for (arguments, told) in [
        ("--columns k a.txt", "--columns and --tag are for Parquet"),
        ("--tag monday a.txt", "--columns and --tag are for Parquet"),
        ("a.txt x.parquet", "a.txt is no Parquet file"),
        ("--key k x.parquet", "--key is for text"),
        ("--skip-bad x.parquet", "--skip-bad is for text"),
        ("--tag monday x.parquet", "--tag is for Iceberg tables"),
    ] {
        let said = place
            .ebb(&format!("load --table app.t {arguments}"))
            .refused();
        assert!(said.contains(told), "{arguments}: {said}");
    }
    // With `--format text` the extension does not matter.
    place.write("text.parquet", "one\n");
    place
        .ebb("load --table raw.t --format text text.parquet")
        .ok();
    let said = place.ebb("load --table app.t absent.parquet").fails(1);
    assert!(said.contains("no such file: absent.parquet"), "{said}");
}

#[test]
fn parquet_files_come_into_a_table_and_again_over_its_rows() {
    let place = with_cql_table();
    parquet(
        &place,
        "a.parquet",
        "v",
        &[(Some(1), Some("one")), (Some(2), Some("two"))],
    );
    let said = place.ebb("load --table app.t a.parquet").ok();
    assert!(said.starts_with("loaded 2 rows"), "{said}");
    assert_eq!(rows(&place), [row(1, "one"), row(2, "two")]);
    fs::create_dir(place.path("spark")).unwrap();
    place.write("spark/_SUCCESS", "");
    parquet(
        &place,
        "spark/part-0.parquet",
        "v",
        &[(Some(3), Some("three"))],
    );
    parquet(
        &place,
        "spark/part-1.parquet",
        "v",
        &[(Some(2), Some("again"))],
    );
    let report = place.ebb("load --table app.t --json spark").json();
    assert_eq!((&report["rows"], &report["files"]), (&2.into(), &2.into()));
    assert_eq!(
        rows(&place),
        [row(1, "one"), row(2, "again"), row(3, "three")]
    );
    place.ebb("verify").ok();
}

#[test]
fn an_iceberg_table_comes_home_by_its_tag() {
    let place = with_cql_table();
    publish(&place, "monday", 1, &[(Some(1), Some("one"))]);
    publish(
        &place,
        "tuesday",
        2,
        &[(Some(2), Some("two")), (Some(3), Some("three"))],
    );
    place.ebb("load --table app.t lake/t@monday").ok();
    assert_eq!(rows(&place), [row(1, "one")]);
    place.ebb("load --table app.t --tag tuesday lake/t").ok();
    let all = [row(1, "one"), row(2, "two"), row(3, "three")];
    assert_eq!(rows(&place), all);
    // A copy of the folder is a table, too.
    fs::rename(place.path("lake"), place.path("copy")).unwrap();
    place.ebb("load --table app.t copy/t").ok();
    assert_eq!(rows(&place), all);
    let said = place.ebb("load --table app.t copy/t@sunday").refused();
    assert!(said.contains("it has: main, monday, tuesday"), "{said}");
}

#[test]
fn rows_that_cannot_be_loaded_are_refused_by_file_and_row_and_change_nothing() {
    let place = with_cql_table();
    parquet(
        &place,
        "null.parquet",
        "v",
        &[(Some(1), Some("one")), (None, Some("two"))],
    );
    let twice = [(Some(1), Some("one")), (Some(1), Some("two"))];
    parquet(&place, "twice.parquet", "v", &twice);
    parquet(&place, "other.parquet", "w", &[(Some(7), Some("seven"))]);
    let cases = "
        app.t null.parquet => null.parquet: row 2: column k of the primary key has no value
        app.t twice.parquet => several rows have the primary key (1) of table app.t
        app.t other.parquet => it has no column w
        app.t --columns k,x other.parquet => no column x
        app.t null.parquet other.parquet => a PATH has no column v
        raw.lines twice.parquet => raw.lines was not made by CQL
    ";
    for [arguments, told] in parse_cases(cases) {
        let said = place.ebb(&format!("load --table {arguments}")).refused();
        assert!(said.contains(told), "{arguments}: {said}");
        assert!(rows(&place).is_empty(), "{arguments}");
    }
    place.ebb("load --table app.absent twice.parquet").fails(3);
    place
        .ebb("load --data none --table app.t twice.parquet")
        .fails(3);
    assert!(!place.path("none").exists());
    let said = place
        .ebb("load --table app.t --duplicates last twice.parquet")
        .ok();
    assert!(said.contains("left out 1 row"), "{said}");
    place
        .ebb("load --table app.t --columns k other.parquet")
        .ok();
    let rows = rows(&place);
    assert!(
        rows.len() == 2 && rows[1].starts_with("{\"k\":7,"),
        "{rows:?}"
    );
    assert_eq!(rows[0], row(1, "two"));
}

#[test]
#[cfg(not(feature = "s3"))]
fn a_load_from_a_bucket_names_the_feature_that_it_needs() {
    let place = with_cql_table();
    let said = place.ebb("load --table app.t s3://lake/t@monday").refused();
    assert!(said.contains("--features s3"), "{said}");
    assert!(rows(&place).is_empty());
}
