//! What can still be read of a damaged WAL segment.

use std::ops::Range;
use std::path::Path;

use bytes::Bytes;

use super::record::{self, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES};
use super::replay::record_at;
use crate::error::{Error, Result};
use crate::key::SeqNo;

/// Calls `commit(first, operations, payload)` for the records of a segment that
/// are good, in order, and `lost(offset, bytes, detail)` for what is between
/// them. `last` is the number of the last operation before, and becomes that of
/// the last one here.
///
/// Records behind a bad one count when they follow one another without a gap to
/// the end of the segment: bytes of a value may look like a record, but not
/// like that.
pub(crate) fn salvage_segment(
    bytes: &Bytes,
    last: &mut SeqNo,
    mut commit: impl FnMut(SeqNo, u32, Bytes) -> Result<(), String>,
    mut lost: impl FnMut(u64, u64, String),
) {
    let mut at = SEGMENT_HEADER_BYTES;
    while at < bytes.len() {
        let read = good_record(bytes, at, *last).and_then(|header| {
            let payload = bytes.slice(at + RECORD_HEADER_BYTES..at + header.record_bytes());
            commit(header.first, header.count, payload)?;
            Ok(header)
        });
        match read {
            Ok(header) => {
                *last = last_of(&header);
                at += header.record_bytes();
            }
            Err(detail) => {
                let next = (at + 1..bytes.len()).find(|&next| reaches_the_end(bytes, next, *last));
                let end = next.unwrap_or(bytes.len());
                let detail = match next.map(|next| good_record(bytes, next, *last)) {
                    Some(Ok(header)) => {
                        format!("{detail}; commits between {last} and {}", header.first)
                    }
                    _ => format!("{detail}; commits after {last}"),
                };
                lost(at as u64, (end - at) as u64, detail);
                at = end;
            }
        }
    }
}

/// Refuses a segment of a format version that this build does not read. The
/// version is not under the checksum: one that is damaged has good records
/// behind it.
///
/// # Errors
/// [`Error::UnsupportedFormat`].
pub(crate) fn refuse_other_versions(bytes: &[u8], path: &Path) -> Result<()> {
    let Some(header) = bytes.get(..SEGMENT_HEADER_BYTES) else {
        return Ok(());
    };
    let found = record::u32_at(header, 8);
    if found == record::VERSION || &header[..8] != record::MAGIC || base_lsn(bytes).is_none() {
        return Ok(());
    }
    let records = SEGMENT_HEADER_BYTES..bytes.len();
    let is_readable =
        |mut records: Range<usize>| records.any(|at| good_record(bytes, at, SeqNo::ZERO).is_ok());
    if records.is_empty() || is_readable(records) {
        return Ok(());
    }
    Err(Error::UnsupportedFormat {
        path: path.to_path_buf(),
        found,
        supported: record::VERSION,
    })
}

/// Where in the log a segment begins, if its header is good.
pub(crate) fn base_lsn(bytes: &[u8]) -> Option<u64> {
    let header = bytes.get(..SEGMENT_HEADER_BYTES)?;
    let is_good = crc32fast::hash(&header[16..]) == record::u32_at(header, 12);
    is_good.then(|| record::u64_at(header, 24))
}

fn last_of(header: &RecordHeader) -> SeqNo {
    SeqNo(
        header
            .first
            .0
            .saturating_add(u64::from(header.count).saturating_sub(1)),
    )
}

fn good_record(bytes: &[u8], at: usize, last: SeqNo) -> Result<RecordHeader, String> {
    // The cheap tests come first: this is asked at every offset.
    let header = RecordHeader::decode(&bytes[at..]);
    if let Some(header) = header.filter(|header| header.first <= last || header.count == 0) {
        return Err(format!(
            "{} operations from number {} after {last}",
            header.count, header.first
        ));
    }
    record_at(bytes, at)
}

fn reaches_the_end(bytes: &[u8], mut at: usize, mut last: SeqNo) -> bool {
    while at < bytes.len() {
        match good_record(bytes, at, last) {
            Ok(header) => {
                last = last_of(&header);
                at += header.record_bytes();
            }
            Err(_) => return false,
        }
    }
    true
}
