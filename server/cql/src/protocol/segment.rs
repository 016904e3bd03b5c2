//! Segments: since version 5 a connection sends its frames in segments, after the response to STARTUP.
//! The specification calls segments frames, and frames envelopes; here a frame is the same as in
//! version 4.
//!
//! ```text
//! plain       payload length: 17 bits  self-contained: 1            unused: 6  CRC-24
//! compressed  payload length: 17 bits  plain: 17  self-contained: 1 unused: 5  CRC-24
//! both        payload                                                          CRC-32
//! ```
//!
//! Numbers are little-endian. A self-contained segment contains one or more whole frames. A frame that
//! is longer than a segment is split into segments of its own. On a connection with compression the
//! payload is one raw LZ4 block, or plain if the plain length in the header is 0.
//!
//! Source: Cassandra's `native_protocol_v5.spec`, section 2.

use bytes::{Buf, BufMut, BytesMut};
use lz4_flex::block;

use super::compression::{COMPRESSED_BODY_BYTES_MIN, Compression};
use super::frame::HEADER_BYTES as FRAME_HEADER_BYTES;

/// The maximal length of a payload in bytes, before and after compression.
pub const PAYLOAD_BYTES_MAX: usize = (1 << LENGTH_BITS) - 1;
const LENGTH_BITS: usize = 17;
const LENGTH_MASK: u64 = PAYLOAD_BYTES_MAX as u64;
const CRC24_BYTES: usize = 3;
const CRC32_BYTES: usize = 4;
/// The maximal number of bytes that a segment adds to its payload: the header of a compressed
/// segment, and two checksums.
pub const SEGMENT_BYTES_MORE_MAX: usize = 5 + CRC24_BYTES + CRC32_BYTES;
const CRC24_INITIAL: u32 = 0x87_50_60;
const CRC24_POLYNOMIAL: u32 = 0x1_97_4F_0B;
/// The bytes that the CRC-32 covers before the payload, as in Cassandra. Without them the CRC-32 of an
/// empty payload would be 0.
const CRC32_PREFIX: [u8; 4] = [0xFA, 0x2D, 0x55, 0xCA];

/// Received bytes that are not a valid segment. The start of the next segment is then unknown, so the
/// server sends the error and closes the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    #[error("CRC mismatch in the {part} of a frame: read {read:#x}, computed {computed:#x}")]
    Checksum {
        /// The part of the segment: `header` or `body`.
        part: &'static str,
        read: u32,
        computed: u32,
    },
    /// The payload does not decompress to the plain length in the header.
    #[error("the payload of a frame is no LZ4 block of {plain_bytes} bytes")]
    Block { plain_bytes: usize },
    /// A payload that is longer than the limit, before or after compression.
    #[error("the payload of a frame has {bytes} bytes; the limit is {bytes_max}")]
    TooLong { bytes: usize, bytes_max: usize },
}

/// The encoding of one connection's segments: opens received ones, and seals frames into new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segments {
    compression: Compression,
}

#[derive(Debug, Clone, Copy)]
struct Header {
    payload_bytes: usize,
    /// The length of the payload before compression; 0 if it is not compressed.
    plain_bytes: usize,
}

impl Segments {
    pub fn new(compression: Compression) -> Self {
        Self { compression }
    }

    fn header_bytes(self) -> usize {
        match self.compression {
            Compression::None => 3,
            Compression::Lz4 => 5,
        }
    }

    /// Reads the header at the start of `sealed`; returns `None` while it is incomplete.
    fn header(
        self,
        sealed: &[u8],
        payload_bytes_max: usize,
    ) -> Result<Option<Header>, SegmentError> {
        let header_bytes = self.header_bytes();
        if sealed.len() < header_bytes + CRC24_BYTES {
            return Ok(None);
        }
        let mut fields = &sealed[..header_bytes];
        let computed = crc24(fields);
        let fields = fields.get_uint_le(header_bytes);
        let read = (&sealed[header_bytes..]).get_uint_le(CRC24_BYTES) as u32;
        if read != computed {
            let part = "header";
            return Err(SegmentError::Checksum {
                part,
                read,
                computed,
            });
        }
        let plain_bytes = match self.compression {
            Compression::None => 0,
            Compression::Lz4 => (fields >> LENGTH_BITS) & LENGTH_MASK,
        };
        let header = Header {
            payload_bytes: (fields & LENGTH_MASK) as usize,
            plain_bytes: plain_bytes as usize,
        };
        let bytes = header.payload_bytes.max(header.plain_bytes);
        if bytes > payload_bytes_max {
            return Err(SegmentError::TooLong {
                bytes,
                bytes_max: payload_bytes_max,
            });
        }
        Ok(Some(header))
    }

    /// Returns the length of the segment at the start of `sealed`, or `None` while it is incomplete.
    /// Returns 0 if the header is damaged or announces a payload above the limit; [`open`](Self::open)
    /// then returns the error.
    pub fn first_bytes(self, sealed: &[u8], payload_bytes_max: usize) -> Option<usize> {
        let bytes = match self.header(sealed, payload_bytes_max) {
            Ok(None) => return None,
            Ok(Some(header)) => {
                self.header_bytes() + CRC24_BYTES + header.payload_bytes + CRC32_BYTES
            }
            Err(_) => 0,
        };
        (sealed.len() >= bytes).then_some(bytes)
    }

    /// Removes the first segment from `sealed` and appends its payload to `frames`. Returns the
    /// length of the segment, or `None` while it is incomplete. The header's self-contained bit is
    /// ignored, because each frame has its length in its header.
    ///
    /// # Errors
    /// [`SegmentError`]; both buffers are unchanged then. A payload of more than
    /// `payload_bytes_max` bytes is an error as soon as its header has arrived.
    pub fn open(
        self,
        sealed: &mut BytesMut,
        frames: &mut BytesMut,
        payload_bytes_max: usize,
    ) -> Result<Option<usize>, SegmentError> {
        let Some(header) = self.header(sealed, payload_bytes_max)? else {
            return Ok(None);
        };
        let start = self.header_bytes() + CRC24_BYTES;
        let end = start + header.payload_bytes;
        if sealed.len() < end + CRC32_BYTES {
            return Ok(None);
        }
        let payload = &sealed[start..end];
        let (read, computed) = ((&sealed[end..]).get_u32_le(), crc32(payload));
        if read != computed {
            let part = "body";
            return Err(SegmentError::Checksum {
                part,
                read,
                computed,
            });
        }
        match header.plain_bytes {
            0 => frames.extend_from_slice(payload),
            plain_bytes => {
                let at = frames.len();
                frames.resize(at + plain_bytes, 0);
                let written = block::decompress_into(payload, &mut frames[at..]);
                if written.ok() != Some(plain_bytes) {
                    frames.truncate(at);
                    return Err(SegmentError::Block { plain_bytes });
                }
            }
        }
        sealed.advance(end + CRC32_BYTES);
        Ok(Some(end + CRC32_BYTES))
    }

    /// Appends segments that contain `frames`, with as many whole frames in each segment as fit. A
    /// frame that is longer than a segment is split.
    ///
    /// # Panics
    /// If the last frame is not whole.
    pub fn seal(self, frames: &[u8], out: &mut BytesMut) {
        let (mut sealer, mut left) = (Sealer::new(self), frames);
        while !left.is_empty() {
            left = &left[sealer.seal_next(left, out)..];
        }
    }

    fn seal_one(self, plain: &[u8], is_self_contained: bool, out: &mut BytesMut) {
        let compressed = match self.compression {
            Compression::Lz4 if plain.len() >= COMPRESSED_BODY_BYTES_MIN => {
                Some(block::compress(plain)).filter(|block| block.len() < plain.len())
            }
            _ => None,
        };
        let plain_bytes = compressed.as_ref().map_or(0, |_| plain.len());
        let payload = compressed.as_deref().unwrap_or(plain);
        let mut fields = payload.len() as u64;
        let mut bits = LENGTH_BITS;
        if self.compression == Compression::Lz4 {
            fields |= (plain_bytes as u64) << bits;
            bits += LENGTH_BITS;
        }
        fields |= u64::from(is_self_contained) << bits;
        let start = out.len();
        out.put_uint_le(fields, self.header_bytes());
        let checksum = crc24(&out[start..]);
        out.put_uint_le(checksum.into(), CRC24_BYTES);
        out.put_slice(payload);
        out.put_u32_le(crc32(payload));
    }
}

/// Seals frames into segments one at a time, so that a caller can pause in between: a segment takes a
/// fraction of a millisecond.
#[derive(Debug)]
pub struct Sealer {
    segments: Segments,
    /// The number of bytes that are left to seal of a frame that is longer than a segment; 0
    /// between two frames.
    left_bytes: usize,
}

impl Sealer {
    /// Creates a sealer for a connection. The first bytes that it seals must be the start of a frame.
    pub fn new(segments: Segments) -> Self {
        Self {
            segments,
            left_bytes: 0,
        }
    }

    /// Appends one segment with the first bytes of `frames`: as many whole frames as fit, or the next
    /// part of a frame that is longer than a segment. Returns the number of bytes that it took.
    ///
    /// # Panics
    /// If a frame is not whole.
    pub fn seal_next(&mut self, frames: &[u8], out: &mut BytesMut) -> usize {
        let mut bytes = 0;
        while self.left_bytes == 0 && bytes < frames.len() {
            let more = frame_bytes(&frames[bytes..]);
            if bytes + more > PAYLOAD_BYTES_MAX {
                break;
            }
            bytes += more;
        }
        let is_self_contained = bytes > 0;
        if !is_self_contained {
            if self.left_bytes == 0 {
                self.left_bytes = frame_bytes(frames);
            }
            bytes = self.left_bytes.min(PAYLOAD_BYTES_MAX);
            self.left_bytes -= bytes;
        }
        (self.segments).seal_one(&frames[..bytes], is_self_contained, out);
        bytes
    }
}

/// Returns the length of the first frame in bytes.
fn frame_bytes(frames: &[u8]) -> usize {
    let header = frames.first_chunk::<FRAME_HEADER_BYTES>();
    let [.., l0, l1, l2, l3] = header.expect("a whole frame");
    FRAME_HEADER_BYTES + u32::from_be_bytes([*l0, *l1, *l2, *l3]) as usize
}

fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = CRC24_INITIAL;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x100_0000 != 0 {
                crc ^= CRC24_POLYNOMIAL;
            }
        }
    }
    crc
}

fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&CRC32_PREFIX);
    hasher.update(payload);
    hasher.finalize()
}
