//! Publishers that are killed, that lose an answer, and that meet another one, at every call of a
//! target.

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use object_store::memory::InMemory;

use super::manifests::is_live;
use super::tests::{commit, data_file, delete_file, keeping, manifests, newest, publication};
use crate::iceberg::manifest::{self, POSITIONAL_DELETES};
use crate::iceberg::metadata::{MAIN, TableMetadata};
use crate::target::Target;
use crate::target::faulty::{Event, faulty_target, target};

/// The name of the data file of the publication `id`.
fn data_name(id: i64) -> String {
    format!("ks/t/data/{id}.parquet")
}

fn upload(target: &Target, name: &str) -> Result<String, Box<dyn Error>> {
    let mut upload = target.upload(name)?;
    upload.write_all(b"rows")?;
    upload.complete()?;
    Ok(target.url(name))
}

/// Publishes a snapshot whose rows are one file. Returns false if it was published before.
fn publish(
    target: &Target,
    snapshot: &str,
    sequence_number: u64,
    id: i64,
) -> Result<bool, Box<dyn Error>> {
    let mut publication = publication(snapshot, sequence_number);
    let url = upload(target, &data_name(id))?;
    publication.files.push(data_file(&url, 1));
    Ok(commit(target, &publication, id)?)
}

/// Publishes the changes since the snapshot before: a new file, and a deleted row of the first one.
fn publish_changes(
    target: &Target,
    snapshot: &str,
    sequence_number: u64,
    id: i64,
) -> Result<bool, Box<dyn Error>> {
    let mut publication = keeping(snapshot, sequence_number, &[]);
    let url = upload(target, &data_name(id))?;
    publication.files.push(data_file(&url, 1));
    let url = upload(target, &format!("ks/t/data/{id}-deletes.parquet"))?;
    let of = target.url(&data_name(1));
    publication.deletes.push(delete_file(&url, &of, 1));
    Ok(commit(target, &publication, id)?)
}

/// A way to publish: all rows, or changes.
type Publish = fn(&Target, &str, u64, i64) -> Result<bool, Box<dyn Error>>;

const WAYS: [Publish; 2] = [publish, publish_changes];

/// Reads the table as an engine does, and returns its metadata: each object that a snapshot names is
/// there and whole.
fn read(target: &Target) -> TableMetadata {
    let read = |url: &str| {
        let name = target.name(url).unwrap();
        target.read(name).unwrap().unwrap()
    };
    let metadata = newest(target);
    for snapshot in &metadata.snapshots {
        let mut live = Vec::new();
        for listed in manifests(target, snapshot) {
            let entries = manifest::decode(&read(&listed.manifest_path)).unwrap();
            live.extend(entries.into_iter().filter(is_live));
        }
        for entry in &live {
            let file = &entry.data_file;
            assert_eq!(read(&file.file_path), "rows");
            assert_eq!(
                file.content == POSITIONAL_DELETES,
                file.referenced_data_file.is_some()
            );
        }
        let total = |name: &str| snapshot.summary[name].parse::<usize>().unwrap();
        let all = total("total-data-files") + total("total-delete-files");
        assert_eq!(live.len(), all);
    }
    metadata
}

fn hint(target: &Target) -> Bytes {
    let hint = target.read("ks/t/metadata/version-hint.text");
    hint.unwrap().unwrap()
}

#[test]
fn a_killed_publisher_leaves_the_old_or_the_new_publication_and_the_next_run_finishes() {
    for (publish_next, event) in WAYS.into_iter().flat_map(|way| {
        let events = [Event::Kill, Event::KillAfter, Event::LoseAnswer];
        events.map(|event| (way, event))
    }) {
        for at in 0.. {
            let store = InMemory::new();
            let healthy = target(&store);
            publish(&healthy, "monday", 10, 1).unwrap();

            let (faulty, calls) = faulty_target(&store, at, event.clone());
            let published = publish_next(&faulty, "tuesday", 20, 2);
            let left = read(&healthy);
            let is_new = left.refs.contains_key("tuesday");
            assert_eq!(left.refs[MAIN].snapshot_id, if is_new { 2 } else { 1 });
            assert!(is_new || published.is_err());

            let is_first = publish_next(&healthy, "tuesday", 20, 3).unwrap();
            assert_eq!(is_first, !is_new);
            let whole = read(&healthy);
            assert_eq!(whole.snapshots.len(), 2);
            let named = |name: &str| whole.refs[name].snapshot_id;
            assert_eq!(named(MAIN), named("tuesday"));
            assert_eq!(hint(&healthy), "2");
            if !calls.met_event() {
                assert!(published.unwrap());
                break;
            }
        }
    }
}

#[test]
fn two_publishers_leave_whole_publications_wherever_they_meet() {
    for publish_next in WAYS {
        for at in 0.. {
            let store = InMemory::new();
            publish(&target(&store), "monday", 10, 1).unwrap();

            let shared = store.clone();
            let rival =
                move || assert!(publish_next(&target(&shared), "wednesday", 30, 3).unwrap());
            let (first, calls) = faulty_target(&store, at, Event::Meanwhile(Arc::new(rival)));
            let published = publish_next(&first, "tuesday", 20, 2);
            let met = calls.met_event();
            let healthy = target(&store);
            let left = read(&healthy);
            assert_eq!(left.refs.contains_key("wednesday"), met);
            assert_eq!(left.refs.contains_key("tuesday"), published.is_ok());
            assert_eq!(hint(&healthy), left.snapshots.len().to_string());
            if let Err(error) = published {
                let error = error.to_string();
                assert!(error.contains("another publisher"), "{error}");
            }

            publish_next(&healthy, "tuesday", 20, 4).unwrap();
            let whole = read(&healthy);
            assert_eq!(whole.snapshots.len(), if met { 3 } else { 2 });
            assert_eq!(hint(&healthy), whole.snapshots.len().to_string());
            if !met {
                break;
            }
        }
    }
}
