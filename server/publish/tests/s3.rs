//! Targets in a running server of S3. The variable `EBB_S3_BUCKET` names an empty bucket there, and
//! the variables `AWS_...` its endpoint and credentials: `tests/publish/s3` starts servers and sets them.

use std::io::Write as _;
use std::sync::Barrier;
use std::thread;

use bytes::Bytes;
use ebb_model::types::CqlType;
use ebb_publish::commit::{Base, Origin, Publication, PublishedTable, Rights, Stamp};
use ebb_publish::data_file::{Column, DataFileWriter};
use ebb_publish::source::Source;
use ebb_publish::target::Target;
use ebb_publish::types::{FieldIds, OnEmpty, TypeOptions, field};

/// The number of threads that try to create each object at the same time.
const RACERS: usize = 16;

fn target(test: &str) -> Target {
    let bucket = std::env::var("EBB_S3_BUCKET").expect("EBB_S3_BUCKET names a bucket");
    Target::bucket(&bucket, test).unwrap()
}

#[test]
#[ignore = "nightly: needs a server of S3"]
fn s3_server_creates_a_name_once_of_sixteen_racers() {
    let target = target("race");
    target.check_creates_once("1").unwrap();
    for name in (0..20).map(|round| format!("ks/t/metadata/v{round}.metadata.json")) {
        let barrier = Barrier::new(RACERS);
        let race = |racer: usize| {
            let bytes = Bytes::from(format!("of racer {racer}"));
            barrier.wait();
            target
                .create(&name, bytes.clone())
                .unwrap()
                .then_some(bytes)
        };
        let race = &race;
        let created = thread::scope(|scope| {
            let racers: Vec<_> = (0..RACERS)
                .map(|racer| scope.spawn(move || race(racer)))
                .collect();
            let results = racers.into_iter().map(|racer| racer.join().unwrap());
            results.flatten().collect::<Vec<_>>()
        });
        assert_eq!(created.len(), 1, "{name}: {created:?}");
        assert_eq!(target.read(&name).unwrap().as_ref(), created.first());
    }
}

#[test]
#[ignore = "nightly: needs a server of S3"]
fn s3_server_takes_uploads_in_parts() {
    let target = target("uploads");
    let bytes: Vec<u8> = (0..30_000_000_u32).map(|i| (i / 1000) as u8).collect();
    for (name, length) in [("data/small", 10), ("data/large", bytes.len())] {
        let mut upload = target.upload(name).unwrap();
        upload.write_all(&bytes[..length]).unwrap();
        assert_eq!(target.read(name).unwrap(), None);
        upload.complete().unwrap();
        assert!(target.read(name).unwrap().unwrap() == bytes[..length]);
    }

    let mut upload = target.upload("data/dropped").unwrap();
    upload.write_all(&bytes).unwrap();
    drop(upload);
    let mut names = target.list("data").unwrap();
    names.sort();
    assert_eq!(names, ["data/large", "data/small"]);
}

#[test]
#[ignore = "nightly: needs a server of S3"]
fn s3_server_replaces_lists_and_removes() {
    let target = target("names");
    let names = ["ks/t/a", "ks/t/b/c", "ks/t2/a"];
    for name in names {
        assert!(target.create(name, Bytes::from(name)).unwrap());
    }
    target.replace("ks/t/a", Bytes::from("again")).unwrap();
    assert_eq!(target.read("ks/t/a").unwrap().unwrap(), "again");
    let mut listed = target.list("ks/t").unwrap();
    listed.sort();
    assert_eq!(listed, ["ks/t/a", "ks/t/b/c"]);
    for _ in 0..2 {
        target.remove("ks/t/a").unwrap();
    }
    assert_eq!(target.read("ks/t/a").unwrap(), None);
    assert_eq!(target.list("ks/t").unwrap(), ["ks/t/b/c"]);
    assert_eq!(target.list("absent").unwrap(), Vec::<String>::new());
    assert!(target.url("ks").ends_with("/names/ks"));
}

#[test]
#[ignore = "nightly: needs a server of S3"]
fn s3_server_gives_back_the_rows_of_a_table_by_its_tag() {
    let target = target("back");
    let mut ids = FieldIds::default();
    let columns = [Column {
        field: field(
            "k",
            &CqlType::Int,
            false,
            &TypeOptions::default(),
            None,
            &mut ids,
        ),
        ty: CqlType::Int,
    }];
    // These 20 MB are more than one part of an upload, and more than what is fetched ahead at once. The
    // numbers are distinct and scattered (by 2^32 divided by the golden ratio), so they do not compress.
    let rows = 0..5_000_000_i32;
    let upload = target.upload("t/data/1.parquet").unwrap();
    let mut writer = DataFileWriter::new(upload, &columns, OnEmpty::Refuse, 4 << 20).unwrap();
    for row in rows.clone() {
        let scattered = row.wrapping_mul(-1_640_531_527).to_be_bytes();
        writer.append([Some(&scattered[..])]).unwrap();
    }
    let (upload, file) = writer.finish(target.url("t/data/1.parquet")).unwrap();
    upload.complete().unwrap();
    let publication = Publication {
        origin: Origin {
            database_id: "database".to_owned(),
            table_id: "table".to_owned(),
            snapshot: "monday".to_owned(),
            sequence_number: 1,
            read_time_s: 1,
        },
        columns: columns.iter().map(|column| column.field.clone()).collect(),
        last_column_id: 1,
        properties: Default::default(),
        base: Base::Replaced,
        files: vec![file],
        deletes: Vec::new(),
        rights: Rights::default(),
        moves_main: true,
        retention: None,
        swept: None,
        entries: Default::default(),
    };
    let stamp = Stamp {
        now_ms: 1,
        snapshot_id: 1,
        table_uuid: "uuid".to_owned(),
        epoch: "epoch".to_owned(),
    };
    let table = PublishedTable::open(&target, "t").unwrap();
    assert!(table.commit(&publication, &stamp).unwrap());

    let bucket = std::env::var("EBB_S3_BUCKET").unwrap();
    let root = Target::bucket(&bucket, "").unwrap();
    let bytes = target.read("t/data/1.parquet").unwrap().unwrap();
    target.replace("out/1.parquet", bytes).unwrap();
    for key in ["back/t", "back/out/1.parquet", "back/out"] {
        let tag = (key == "back/t").then_some("monday");
        let source = Source::bucket(&root, key, tag).unwrap();
        let [file] = source.files() else {
            panic!("{key} has {} files", source.files().len());
        };
        let mut found = source
            .rows(file, &[("k".to_owned(), CqlType::Int)])
            .unwrap();
        for row in rows.clone() {
            assert!(found.next_row().unwrap());
            let scattered = row.wrapping_mul(-1_640_531_527).to_be_bytes();
            assert_eq!(found.values(), [Some(scattered.to_vec())]);
        }
        assert!(!found.next_row().unwrap());
    }
    for key in ["back/absent", "back/t/data", "back/t/data/1.parquet"] {
        assert!(Source::bucket(&root, key, None).is_err(), "{key}");
    }
}
