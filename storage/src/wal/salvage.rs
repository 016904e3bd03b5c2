//! Recovery of the readable part of a damaged WAL segment.

use std::collections::HashSet;
use std::path::Path;

use bytes::Bytes;

use super::range_checksums::RangeChecksums;
use super::record::{
    self, OPERATION_BYTES_MIN, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES,
};
use super::replay::record_at;
use crate::error::Result;
use crate::formats::WAL;
use crate::key::{NUMBER_MAX, SeqNo};

/// Calls `commit(first, operations, payload)` for the good records of a segment, in order, and
/// `lost(offset, bytes, detail)` for the parts that cannot be read. A record that `commit` refuses
/// counts as such a part. `last` is the number of the last operation before the segment, and is set
/// to that of the last operation in it.
///
/// Records behind a bad one are used only if they follow one another without a gap to the end of
/// the segment: bytes of a value may look like a record, but not like a whole sequence of them.
pub(crate) fn salvage_segment(
    bytes: &Bytes,
    last: &mut SeqNo,
    mut commit: impl FnMut(SeqNo, u32, Bytes) -> Result<(), String>,
    mut lost: impl FnMut(u64, u64, String),
) {
    let mut search = None;
    let mut at = SEGMENT_HEADER_BYTES;
    while at < bytes.len() {
        let read = record_after(bytes, at, *last).and_then(|header| {
            let payload = bytes.slice(at + RECORD_HEADER_BYTES..at + header.record_bytes());
            commit(header.first, header.count, payload)?;
            Ok(header)
        });
        match read {
            Ok(header) => {
                *last = header.last();
                at += header.record_bytes();
            }
            Err(detail) => {
                let search = search.get_or_insert_with(|| Search::new(bytes));
                let next = (at + 1..bytes.len()).find(|&next| search.reaches_the_end(next, *last));
                let end = next.unwrap_or(bytes.len());
                let first = next.and_then(|next| search.good_record(next, *last));
                let detail = match first.map(|header| header.first) {
                    Some(first) => format!("{detail}; commits between {last} and {first}"),
                    None => format!("{detail}; commits after {last}"),
                };
                lost(at as u64, (end - at) as u64, detail);
                at = end;
            }
        }
    }
}

/// Refuses a segment of a format version that this build does not read. The version is under no
/// checksum, so a segment with good records behind a bad version is damaged, and is not refused.
///
/// # Errors
/// [`Error::UnsupportedFormat`].
pub(crate) fn refuse_other_versions(bytes: &[u8], path: &Path) -> Result<()> {
    let Some(header) = bytes.get(..SEGMENT_HEADER_BYTES) else {
        return Ok(());
    };
    let found = record::u32_at(header, 8);
    if found == WAL.version || &header[..8] != record::MAGIC || base_lsn(bytes).is_none() {
        return Ok(());
    }
    let search = Search::new(bytes);
    let mut records = SEGMENT_HEADER_BYTES..bytes.len();
    if records.is_empty() || records.any(|at| search.good_record(at, SeqNo::ZERO).is_some()) {
        return Ok(());
    }
    WAL.check(path, found)
}

/// Returns the position in the log at which a segment begins; `None` if its header is incomplete or
/// damaged. The format version is not checked.
pub(crate) fn base_lsn(bytes: &[u8]) -> Option<u64> {
    let header = bytes.get(..SEGMENT_HEADER_BYTES)?;
    let is_good = crc32fast::hash(&header[16..]) == record::u32_at(header, 12);
    is_good.then(|| record::u64_at(header, 24))
}

/// A search for records at any offset of a segment, in about linear time. The bytes of a value may
/// look like the header of a record at many offsets, and like a record of megabytes at each. If a
/// value is a copy of a log, it even has many whole records one after another.
struct Search<'a> {
    bytes: &'a [u8],
    /// The position in the log at which the first record of this segment begins; `None` if the
    /// segment's header is damaged.
    base: Option<u64>,
    checksums: RangeChecksums<'a>,
    /// Offsets of good records from which the search has already reached a bad record. The search
    /// need not follow the records from there again.
    dead: HashSet<usize>,
}

impl<'a> Search<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            base: base_lsn(bytes).filter(|base| *base < NUMBER_MAX),
            checksums: RangeChecksums::new(bytes),
            dead: HashSet::new(),
        }
    }

    /// Returns the record at the offset `at`, if it is good and can follow the operation numbered
    /// `last`.
    fn good_record(&self, at: usize, last: SeqNo) -> Option<RecordHeader> {
        let header = RecordHeader::decode(&self.bytes[at..])?;
        let end = at + header.record_bytes();
        let operations_bytes_min = u64::from(header.count) * OPERATION_BYTES_MIN;
        let lsn = |base: u64| base + (at - SEGMENT_HEADER_BYTES) as u64;
        let is_good = end <= self.bytes.len()
            && header.first > last
            && header.first.0 < NUMBER_MAX
            && header.count > 0
            && operations_bytes_min <= u64::from(header.payload_bytes)
            // What is durable when a record is made lies before it.
            && header.durable_lsn <= self.base.map_or(NUMBER_MAX, lsn)
            && self.checksums.of(at + 4..end) == header.crc;
        is_good.then_some(header)
    }

    /// Returns whether good records follow one another from the offset `at` to the end of the
    /// segment; `last` is the number of the last operation before `at`.
    fn reaches_the_end(&mut self, mut at: usize, mut last: SeqNo) -> bool {
        let mut passed = Vec::new();
        while at < self.bytes.len() {
            let good = self.good_record(at, last);
            let Some(header) = good.filter(|_| !self.dead.contains(&at)) else {
                self.dead.extend(passed);
                return false;
            };
            passed.push(at);
            last = header.last();
            at += header.record_bytes();
        }
        true
    }
}

fn record_after(bytes: &[u8], at: usize, last: SeqNo) -> Result<RecordHeader, String> {
    let header = record_at(bytes, at)?;
    if header.first <= last || header.count == 0 {
        return Err(format!(
            "{} operations from number {} after {last}",
            header.count, header.first
        ));
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::key::FileNumber;

    /// Returns a segment of one record for each of `values`, numbered from 1, and the place
    /// of each record.
    fn segment(values: &[Vec<u8>]) -> (Vec<u8>, Vec<Range<usize>>) {
        let mut bytes = record::encode_segment_header(FileNumber(1), 0).to_vec();
        let mut places = Vec::new();
        for (i, value) in values.iter().enumerate() {
            let start = bytes.len();
            RecordHeader::encode(&mut bytes, 0, SeqNo(i as u64 + 1), 1, value);
            places.push(start..bytes.len());
        }
        (bytes, places)
    }

    fn salvaged(bytes: Vec<u8>) -> (Vec<u64>, Vec<Range<usize>>) {
        let (mut found, mut lost) = (Vec::new(), Vec::new());
        let mut last = SeqNo::ZERO;
        salvage_segment(
            &bytes.into(),
            &mut last,
            |first, _, _| {
                found.push(first.0);
                Ok(())
            },
            |at, bytes, _| lost.push(at as usize..(at + bytes) as usize),
        );
        (found, lost)
    }

    /// Returns random bytes, from xorshift64.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        std::iter::repeat_with(&mut next)
            .flatten()
            .take(len)
            .collect()
    }

    /// Regression: to find the next record behind a damaged one, salvage tried each offset. One in
    /// two hundred looked like the header of a record, and a checksum over megabytes was computed
    /// for it: a repair took hours for a value of 64 MiB. In a value that was itself a log, the
    /// search followed the records to the end of the value from each of them.
    #[test]
    fn a_large_value_that_is_damaged_is_passed_over_in_linear_time() {
        let log = vec![vec![7; 100]; 100_000];
        let (inner, _) = segment(&log);
        for large in [noise(12 << 20), inner] {
            let values = [b"a", b"b"].map(|v: &[u8; 1]| v.repeat(9));
            let [before, behind] = values;
            let (mut bytes, places) = segment(&[before, large, behind]);
            bytes[places[1].start] ^= 1;
            let (found, lost) = salvaged(bytes);
            assert_eq!(found, [1, 3]);
            assert_eq!(lost, [places[1].clone()]);
        }
    }
}
