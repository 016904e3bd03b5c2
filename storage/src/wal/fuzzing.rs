//! The decoders of the WAL for [`crate::fuzzing`].

use std::path::PathBuf;

use super::record::{RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES};
use super::replay::{Segment, replay_segment};
use crate::commit::OpReader;
use crate::file_system::FileSystem;
use crate::key::FileNumber;
use crate::simulation::MemDisk;
use crate::{ErrorKind, Result};

const NUMBER: FileNumber = FileNumber(1);

/// Replays a WAL segment four times: as the last segment and as an earlier one, each as it is and
/// with corrected checksums. Also decodes the payloads of its commits.
pub fn wal_segment(bytes: &[u8]) {
    let mut repaired = bytes.to_vec();
    reseal(&mut repaired);
    for bytes in [bytes, &repaired] {
        for last in [false, true] {
            if let Err(e) = replay(bytes, last) {
                assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
            }
        }
    }
}

fn replay(bytes: &[u8], last: bool) -> Result<()> {
    let (disk, path) = (MemDisk::new(), PathBuf::from("/segment"));
    let mut file = disk.create(&path).expect("there is room");
    file.append(bytes).expect("there is room");
    let number = NUMBER;
    let mut end = 0;
    let segment = Segment { number, path };
    let replayed = replay_segment(&disk, &segment, last, None, |first, _, payload, at| {
        assert!(at >= end, "records go forward");
        end = at + RECORD_HEADER_BYTES as u64 + payload.len() as u64;
        assert!(end <= bytes.len() as u64, "a record ends in the file");
        OpReader::new(&payload, first).for_each(drop);
        Ok(())
    })?;
    assert!(replayed.good_bytes <= bytes.len() as u64);
    if !last {
        assert_eq!(
            replayed.good_bytes,
            bytes.len() as u64,
            "nothing is passed over"
        );
    }
    Ok(())
}

/// Gives a segment the number 1 and a valid header, which has only the base LSN from the old
/// header. Corrects the checksum of each record.
pub(crate) fn reseal(bytes: &mut [u8]) {
    if bytes.len() < SEGMENT_HEADER_BYTES {
        return;
    }
    let header = super::record::encode_segment_header(NUMBER, 0);
    bytes[..24].copy_from_slice(&header[..24]);
    let crc = crc32fast::hash(&bytes[16..SEGMENT_HEADER_BYTES]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    let mut at = SEGMENT_HEADER_BYTES;
    while let Some(header) = RecordHeader::decode(&bytes[at..]) {
        let Some(record) = bytes[at..].get_mut(..header.record_bytes()) else {
            return;
        };
        let crc = crc32fast::hash(&record[4..]);
        record[..4].copy_from_slice(&crc.to_le_bytes());
        at += header.record_bytes();
    }
}

/// Returns the records of a segment: for each, the sequence number of its first operation, and its
/// payload.
#[cfg(test)]
pub(crate) fn payloads(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut payloads = Vec::new();
    let mut at = SEGMENT_HEADER_BYTES;
    while let Some(header) = RecordHeader::decode(&bytes[at..]) {
        let end = at + header.record_bytes();
        payloads.push((
            header.first.0,
            bytes[at + RECORD_HEADER_BYTES..end].to_vec(),
        ));
        at = end;
    }
    payloads
}
