//! Parquet files and Iceberg tables in a bucket.

use std::fs;
use std::io::Write as _;

use flate2::write::GzEncoder;

use super::fixture::{COLUMNS, NEW, OLD, added, added_deletes, bucket_with, renamed};
use super::*;
use crate::iceberg::testing::Engine;
use crate::target::faulty::{Event, in_memory, with_event};

/// Returns a Parquet file with one row.
fn one_row() -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), &[("k", None, ints([1]))]);
    fs::read(file.path()).unwrap()
}

/// Regression: a single file of a table, or the folder of a partition of it, was loaded from a
/// bucket, although both are refused on the local machine. Rows that the table had deleted came
/// back.
#[test]
fn files_and_folders_below_a_table_in_a_bucket_are_refused_by_the_name_of_the_table() {
    let bytes = one_row();
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
    let lake = in_memory("s3://lake").unwrap();
    let files = [
        "in/x/a.parquet",
        "in/data/a.parquet",
        "in/database/a.parquet",
    ];
    for file in files {
        lake.replace(file, one_row().into()).unwrap();
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

#[test]
fn a_table_in_a_bucket_is_read_as_its_folder_is() {
    for engine in [Engine::Spark, Engine::PyIceberg] {
        let mut fixture = renamed(engine);
        fixture.write_deletes(&[(OLD, 0), (OLD, 2)]);
        fixture.commit("wednesday", &[added(OLD), added(NEW), added_deletes()]);
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
        write(&path, &columns);
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
