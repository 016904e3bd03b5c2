//! Fuzz targets for the decoders of the manifest, which [`crate::fuzzing`] offers.

use std::path::Path;
use std::sync::Arc;

use super::copies::ManifestCopy;
use super::log::Manifest;
use super::record::{HEADER_BYTES, RECORD_HEADER_BYTES, u32_at};
use super::replay::replay;
use super::state::{Edit, State};
use crate::log_store::LogStore;
use crate::simulation::MemDisk;
use crate::{Error, ErrorKind, files};

/// Reads a manifest three times: from the bytes as they are, from the bytes with corrected checksums,
/// and with the former as one copy and the latter as the other. Checks that each state that is read
/// survives encoding and decoding.
pub fn manifest(bytes: &[u8]) {
    let mut repaired = bytes.to_vec();
    reseal(&mut repaired);
    let copy = |bytes: &[u8]| ManifestCopy {
        path: "MANIFEST-000001".into(),
        bytes: bytes.to_vec(),
    };
    for copies in [
        vec![copy(bytes)],
        vec![copy(&repaired)],
        vec![copy(bytes), copy(&repaired)],
    ] {
        match replay(&copies) {
            Ok(replayed) => comes_back(&replayed.state),
            Err(e) => assert_eq!(e.kind(), ErrorKind::Corruption, "{e}"),
        }
    }
}

/// Decodes an edit from JSON, and applies it to a state without tables. Checks that the state survives
/// encoding and decoding.
pub fn edit(json: &[u8]) {
    if let Ok(edit) = serde_json::from_slice::<Edit>(json) {
        let mut state = State::default();
        if let Edit::AddTable(table) = &edit {
            state.keyspaces.push(table.keyspace.clone());
        }
        if state.apply(edit).is_ok() {
            comes_back(&state);
        }
    }
}

fn comes_back(state: &State) {
    let json = serde_json::to_vec(state).expect("a state is JSON");
    let back: State = serde_json::from_slice(&json).expect("what is written reads");
    assert_eq!(&back, state);
    let _ = (state.last_seq(), state.runs().count());
}

/// Opens a directory whose CURRENT and its copy both have these bytes, beside the manifest of an empty
/// database.
pub fn current(bytes: &[u8]) {
    let (disk, dir) = (MemDisk::new(), Path::new("/"));
    let disk: Arc<dyn LogStore> = Arc::new(disk.clone());
    drop(Manifest::create(disk.clone(), dir).expect("there is room"));
    for path in files::currents(dir) {
        let mut file = disk.create(&path).expect("there is room");
        file.append(bytes).expect("there is room");
    }
    match Manifest::load(disk, dir) {
        Ok(manifest) => assert!(manifest.is_some(), "CURRENT is there"),
        Err(Error::Corruption { .. } | Error::Incomplete { .. }) => {}
        Err(e) => panic!("{e}"),
    }
}

/// Corrects the checksum of every record of a manifest.
pub(crate) fn reseal(bytes: &mut [u8]) {
    let mut at = HEADER_BYTES;
    while bytes.len().saturating_sub(at) >= RECORD_HEADER_BYTES {
        let len = u32_at(bytes, at + 4) as usize;
        let Some(record) = bytes[at..].get_mut(..RECORD_HEADER_BYTES + len) else {
            return;
        };
        let crc = crc32fast::hash(&record[4..]);
        record[..4].copy_from_slice(&crc.to_le_bytes());
        at += RECORD_HEADER_BYTES + len;
    }
}

/// Returns the records of a manifest as JSON: the state that it begins with, and the edits after it.
#[cfg(test)]
pub(crate) fn edits(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut edits = Vec::new();
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let json = super::record::record_at(bytes, at).expect("a real manifest");
        edits.push(json.to_vec());
        at += RECORD_HEADER_BYTES + json.len();
    }
    edits
}

/// Returns the bytes of a manifest with one record, which is `state`.
#[cfg(test)]
pub(super) fn written(state: &State) -> Vec<u8> {
    let mut bytes = super::record::header(super::DatabaseId([7; 16]));
    bytes.extend_from_slice(&super::record::encode(&Edit::State(state.clone())));
    bytes
}
