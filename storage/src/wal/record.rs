//! The bytes of a WAL segment (the book, Formats: WAL).
//!
//! ```text
//!   segment header, 32 bytes
//!     magic "ebbWAL\0\0" 8 | version u32 | crc32 u32 of the rest | number u64 | base LSN u64
//!   record, 28 bytes and the payload
//!     crc32 u32 of all after it | payload length u32 | durable LSN u64 |
//!     first sequence number u64 | operations u32 | payload
//! ```
//!
//! All integers are little-endian. An LSN is a position in the log counted in record bytes
//! over all segments. A record's *durable LSN* is the length of the log that was known to be
//! on the disk when the record was made: a bad record below the durable LSN of a later good
//! one is damage, not a torn tail.

use crate::formats::WAL;
use crate::key::{FileNumber, SeqNo};

pub(super) const MAGIC: &[u8; 8] = b"ebbWAL\0\0";
pub(crate) const SEGMENT_HEADER_BYTES: usize = 32;
pub(super) const RECORD_HEADER_BYTES: usize = 28;
/// The longest payload that is accepted, in bytes: a full batch and its framing.
pub(crate) const MAX_RECORD_BYTES: usize = (1 << 30) + (1 << 20);
/// The size of the shortest operation, in bytes: one byte each for the kind, for the table's id and for a
/// length.
pub(super) const OPERATION_BYTES_MIN: u64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) crc: u32,
    pub(super) payload_bytes: u32,
    pub(super) durable_lsn: u64,
    pub(super) first: SeqNo,
    pub(super) count: u32,
}

impl RecordHeader {
    /// Appends a record, header and payload, to `out`.
    pub(super) fn encode(
        out: &mut Vec<u8>,
        durable_lsn: u64,
        first: SeqNo,
        count: u32,
        payload: &[u8],
    ) {
        out.reserve(RECORD_HEADER_BYTES + payload.len());
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&durable_lsn.to_le_bytes());
        out.extend_from_slice(&first.0.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(payload);
        let crc = crc32fast::hash(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a header; `None` if the bytes are fewer than a header has.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..RECORD_HEADER_BYTES)?;
        Some(Self {
            crc: u32_at(bytes, 0),
            payload_bytes: u32_at(bytes, 4),
            durable_lsn: u64_at(bytes, 8),
            first: SeqNo(u64_at(bytes, 16)),
            count: u32_at(bytes, 24),
        })
    }

    /// Returns the sequence number of the record's last operation.
    pub(super) fn last(&self) -> SeqNo {
        let behind_first = u64::from(self.count).saturating_sub(1);
        SeqNo(self.first.0.saturating_add(behind_first))
    }

    pub(super) fn record_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.payload_bytes as usize
    }
}

pub(super) fn encode_segment_header(
    number: FileNumber,
    base_lsn: u64,
) -> [u8; SEGMENT_HEADER_BYTES] {
    let mut out = [0; SEGMENT_HEADER_BYTES];
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&WAL.version.to_le_bytes());
    out[16..24].copy_from_slice(&number.0.to_le_bytes());
    out[24..].copy_from_slice(&base_lsn.to_le_bytes());
    let crc = crc32fast::hash(&out[16..]);
    out[12..16].copy_from_slice(&crc.to_le_bytes());
    out
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_pinned() {
        let mut out = Vec::new();
        RecordHeader::encode(&mut out, 7, SeqNo(258), 1, b"ab");
        assert_eq!(
            out,
            [
                0x02, 0x5f, 0x81, 0xf7, // crc32
                2, 0, 0, 0, // payload bytes
                7, 0, 0, 0, 0, 0, 0, 0, // durable LSN
                2, 1, 0, 0, 0, 0, 0, 0, // first sequence number
                1, 0, 0, 0, // operations
                b'a', b'b',
            ]
        );
        let header = RecordHeader::decode(&out).unwrap();
        assert_eq!(
            (header.first, header.count, header.record_bytes()),
            (SeqNo(258), 1, 30)
        );
    }
}
