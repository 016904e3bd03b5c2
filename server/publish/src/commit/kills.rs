//! Publishers that are killed, that lose an answer, and that meet another one, at every call of a
//! target.

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;

use object_store::memory::InMemory;

use super::tests::{commit, newest, publication};
use super::*;
use crate::target::faulty::{Event, faulty_target, target};

/// Publishes a snapshot whose rows are one file. Returns false if it was published before.
fn publish(
    target: &Target,
    snapshot: &str,
    sequence_number: u64,
    id: i64,
) -> Result<bool, Box<dyn Error>> {
    let name = format!("ks/t/data/{id}.parquet");
    let mut upload = target.upload(&name)?;
    upload.write_all(b"rows")?;
    upload.complete()?;
    let mut publication = publication(snapshot, sequence_number);
    publication.files.push(DataFile {
        content: 0,
        file_path: target.url(&name),
        file_format: "PARQUET".into(),
        record_count: 1,
        file_size_in_bytes: 4,
        column_sizes: None,
        value_counts: None,
        null_value_counts: None,
        lower_bounds: None,
        upper_bounds: None,
        split_offsets: None,
        sort_order_id: None,
    });
    Ok(commit(target, &publication, id)?)
}

/// Reads the table as an engine does, and returns its metadata: each object that a snapshot names is
/// there and whole.
fn read(target: &Target) -> TableMetadata {
    let read = |url: &str| {
        let name = url.strip_prefix(&target.url("")).unwrap();
        target.read(name).unwrap().unwrap()
    };
    let metadata = newest(target);
    for snapshot in &metadata.snapshots {
        for listed in manifest_list::decode(&read(&snapshot.manifest_list)).unwrap() {
            for entry in manifest::decode(&read(&listed.manifest_path)).unwrap() {
                assert_eq!(read(&entry.data_file.file_path), "rows");
            }
        }
    }
    metadata
}

fn hint(target: &Target) -> Bytes {
    let hint = target.read("ks/t/metadata/version-hint.text");
    hint.unwrap().unwrap()
}

#[test]
fn a_killed_publisher_leaves_the_old_or_the_new_publication_and_the_next_run_finishes() {
    for event in [Event::Kill, Event::KillAfter, Event::LoseAnswer] {
        for at in 0.. {
            let store = InMemory::new();
            let healthy = target(&store);
            publish(&healthy, "monday", 10, 1).unwrap();

            let (faulty, calls) = faulty_target(&store, at, event.clone());
            let published = publish(&faulty, "tuesday", 20, 2);
            let left = read(&healthy);
            let is_new = left.refs.contains_key("tuesday");
            assert_eq!(left.refs[MAIN].snapshot_id, if is_new { 2 } else { 1 });
            assert!(is_new || published.is_err());

            let is_first = publish(&healthy, "tuesday", 20, 3).unwrap();
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
    for at in 0.. {
        let store = InMemory::new();
        publish(&target(&store), "monday", 10, 1).unwrap();

        let shared = store.clone();
        let rival = move || assert!(publish(&target(&shared), "wednesday", 30, 3).unwrap());
        let (first, calls) = faulty_target(&store, at, Event::Meanwhile(Arc::new(rival)));
        let published = publish(&first, "tuesday", 20, 2);
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

        publish(&healthy, "tuesday", 20, 4).unwrap();
        let whole = read(&healthy);
        assert_eq!(whole.snapshots.len(), if met { 3 } else { 2 });
        assert_eq!(hint(&healthy), whole.snapshots.len().to_string());
        if !met {
            break;
        }
    }
}
