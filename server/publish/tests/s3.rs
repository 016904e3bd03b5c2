//! Targets in a running server of S3. The variable `EBB_S3_BUCKET` names an empty bucket there, and
//! the variables `AWS_...` its endpoint and credentials: `tests/publish/s3` starts servers and sets them.

use std::io::Write as _;
use std::sync::Barrier;
use std::thread;

use bytes::Bytes;
use ebb_publish::target::Target;

/// The publishers that compete for each name.
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
